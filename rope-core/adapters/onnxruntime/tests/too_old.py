"""An ONNX Runtime that is too old is refused with an error."""

import onnxruntime

import rope_onnxruntime

assert onnxruntime.__version__.startswith("1.16."), onnxruntime.__version__
try:
    rope_onnxruntime.register(onnxruntime.SessionOptions())
except Exception as error:
    assert "rope-onnxruntime requires 1.17 or newer" in str(error) and "1.16." in str(error), error
else:
    raise SystemExit("1.16 was accepted")
print("Ran 1 test in 0 s")
