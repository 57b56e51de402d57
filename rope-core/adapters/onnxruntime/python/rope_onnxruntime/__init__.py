"""rope-core's rotary position embedding (RoPE) in ONNX Runtime, with unchanged models.

    import onnxruntime, rope_onnxruntime

    options = onnxruntime.SessionOptions()
    rope_onnxruntime.register(options)
    session = onnxruntime.InferenceSession("model.onnx", options)
"""

from pathlib import Path

__version__ = "0.1.0"
__all__ = ["library_path", "register"]


def library_path() -> str:
    """The path of the library, for `register_custom_ops_library`, or for `with_operator_library` of the crate ort."""
    folder = Path(__file__).parent
    for name in ("librope_onnxruntime.so", "librope_onnxruntime.dylib", "rope_onnxruntime.dll"):
        if (folder / name).is_file():
            return str(folder / name)
    raise FileNotFoundError(f"{folder} has no library; install the wheel, or build it with pip")


def register(session_options: "onnxruntime.SessionOptions") -> None:  # noqa: F821
    """Adds the operators to the options of a session: once, or the session is refused."""
    session_options.register_custom_ops_library(library_path())
