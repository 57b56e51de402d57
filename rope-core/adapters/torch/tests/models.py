"""Random small models of transformers: the same bits with rope_kernels, in prefill, decode and every gradient."""

import copy
import gc
import importlib
import inspect
import io
import itertools
import pathlib
import re
import sys
import unittest
import unittest.mock

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import rope_kernels
import rope_kernels.transformers
from rope_kernels import _formulas
from support import SEED, same

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=128, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GPT = dict(n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=128, rotary_dim=8, bos_token_id=1, eos_token_id=2)
LAYERED = dict(SMALL, head_dim=16, sliding_window=8, num_hidden_layers=4,
               layer_types=["sliding_attention", "full_attention"] * 2)
# By their function's formula: halves; halves of a part; pairs; pairs of a part; pairs in and halves out.
FAMILIES = {
    "llama": SMALL, "qwen2": SMALL, "qwen3": dict(SMALL, head_dim=16), "gemma3_text": LAYERED, "falcon": dict(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=128, alibi=False,
        new_decoder_architecture=True, num_kv_heads=2, bos_token_id=1, eos_token_id=2),
    "olmo2": SMALL, "mistral": SMALL, "gemma2": dict(SMALL, head_dim=16), "granite": SMALL,
    "gpt_oss": dict(SMALL, head_dim=16, num_local_experts=4),
    "phi3": dict(SMALL, partial_rotary_factor=0.5), "gpt_neox": SMALL, "stablelm": SMALL, "nemotron": SMALL,
    "persimmon": SMALL,
    "cohere": SMALL, "cohere2": dict(LAYERED, head_dim=None),
    "gptj": GPT, "codegen": dict(GPT, n_ctx=128),
    "glm4": dict(SMALL, head_dim=16),
    # A layer in four does not rotate.
    "smollm3": dict(SMALL, num_hidden_layers=4),
    "deepseek_v3": dict(SMALL, num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=16, qk_rope_head_dim=8,
                        qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
                        topk_group=1, moe_intermediate_size=32, first_k_dense_replace=1, n_shared_experts=1),
}
# By other functions, whose cos and sin are not made exact: complex numbers; one tensor in a call; pairs of the last
# channels; the other direction.
OTHERS = {
    "llama4_text": dict(SMALL, num_local_experts=2, head_dim=16, intermediate_size_mlp=32),
    "deepseek_v2": dict(FAMILIES["deepseek_v3"], qk_rope_head_dim=16),
    "gemma3n_text": dict(LAYERED, laurel_rank=8, hidden_size_per_layer_input=8, vocab_size_per_layer_input=128,
                         altup_num_inputs=2, num_kv_shared_layers=0, activation_sparsity_pattern=[0.0] * 4),
    "gemma4_text": dict(LAYERED, global_head_dim=16, hidden_size_per_layer_input=8, vocab_size_per_layer_input=128,
                        num_kv_shared_layers=0),
    "deepseek_v4": dict(SMALL, head_dim=16, qk_rope_head_dim=8, q_lora_rank=16, o_lora_rank=16, o_groups=2,
                        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, num_key_value_heads=1,
                        index_n_heads=2, index_head_dim=16, index_topk=4),
    "nanochat": SMALL,
    # Whose defaults are incomplete to rope-models.
    "glm4_moe": dict(SMALL, head_dim=16, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                     first_k_dense_replace=1),
    "granitemoehybrid": dict(SMALL, layer_types=["attention"] * 2, num_local_experts=2,
                             position_embedding_type="rope"),
}
# Rotary modules whose angles are not made exact, with the defaults of their configuration.
NOT_EXACT = {
    # Other arguments than positions, or complex numbers.
    *("DeepseekV2RotaryEmbedding", "EdgeTamVideoVisionRotaryEmbedding", "EfficientLoFTRRotaryEmbedding"),
    *("EomtDinov3RotaryEmbedding", "EsmFold2RotaryEmbedding", "Llama4TextRotaryEmbedding"),
    *("Llama4VisionRotaryEmbedding", "MusicFlamingoRotaryEmbedding", "Sam2VideoVisionRotaryEmbedding"),
    *("Sam3TrackerVideoVisionRotaryEmbedding", "Sam3ViTRotaryEmbedding"),
    # Defaults that do not rotate, or with which the module's own code fails.
    *("BambaRotaryEmbedding", "EsmRotaryEmbedding", "Glm4vTextRotaryEmbedding", "Glm4vMoeTextRotaryEmbedding"),
    *("GlmImageTextRotaryEmbedding", "GraniteMoeHybridRotaryEmbedding", "HunYuanVLRotaryEmbedding"),
    "Zamba2RotaryEmbedding",
    # What rope-models does not read, or refuses.
    *("DeepseekV4RotaryEmbedding", "DiffusionGemmaTextRotaryEmbedding", "DoryRotaryEmbedding"),
    *("Dots3NoteTextRotaryEmbedding", "EmbeddingGemma2RotaryEmbedding", "EvollaSaProtRotaryEmbedding"),
    *("Gemma4TextRotaryEmbedding", "Gemma4UnifiedTextRotaryEmbedding", "Gemma4VisionRotaryEmbedding"),
    *("Glm4MoeRotaryEmbedding", "HunYuanDenseV1RotaryEmbedding", "HunYuanMoEV1RotaryEmbedding"),
    *("Lfm2MoeRotaryEmbedding", "MiniMaxM3VLRotaryEmbedding", "MinistralRotaryEmbedding", "NeuCodecRotaryEmbedding"),
    *("Qwen2_5OmniDiTRotaryEmbedding", "Qwen3OmniMoeRotaryEmbedding", "Qwen3OmniMoeTalkerRotaryEmbedding"),
    *("Qwen3OmniMoeThinkerTextRotaryEmbedding", "Xcodec2RotaryEmbedding"),
    "MistralLarge4TextRotaryEmbedding",  # Its frequencies are learned.
}
TABLES = ("gptj", "codegen")  # Their rotary modules have rows of the first positions alone.
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def small(name):
    torch.manual_seed(SEED)
    given = (FAMILIES | OTHERS)[name]
    config = AutoConfig.for_model(name, **{key: value for key, value in given.items() if value is not None})
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def esm(**how):
    config = transformers.EsmConfig(**{**SMALL, "position_embedding_type": "rotary", "mask_token_id": 4, **how})
    return transformers.EsmModel._from_config(config, attn_implementation="eager").eval()


def mllama():
    """Every other layer attends to an image, and does not rotate."""
    config = transformers.models.mllama.configuration_mllama.MllamaTextConfig(
        **SMALL, cross_attention_layers=[1], rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    return transformers.MllamaForCausalLM._from_config(config, attn_implementation="eager").eval()


def qwen2_5_vl():
    vision = dict(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=64, patch_size=4,
                  spatial_merge_size=2, temporal_patch_size=1, window_size=8, fullatt_block_indexes=[1])
    config = transformers.Qwen2_5_VLConfig(
        text_config=dict(SMALL, rope_parameters=MROPE), vision_config=vision, image_token_id=100, video_token_id=101,
        vision_start_token_id=102, vision_end_token_id=103)
    model = transformers.Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    ids = torch.tensor([[5, 102, 100, 100, 100, 100, 103, 9, 11]])
    return model, dict(input_ids=ids, mm_token_type_ids=(ids == 100).long(), pixel_values=torch.randn(16, 3 * 4 * 4),
                       image_grid_thw=torch.tensor([[1, 4, 4]]))


def pixtral():
    config = transformers.PixtralVisionConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                              num_attention_heads=2, image_size=32, patch_size=4)
    model = transformers.PixtralVisionModel._from_config(config, attn_implementation="eager").eval()
    return model, dict(pixel_values=torch.randn(1, 3, 16, 16), image_sizes=torch.tensor([[16, 16]]))


def qwen3_vl():
    torch.manual_seed(SEED)
    text = dict(SMALL, head_dim=16, rope_parameters=dict(MROPE, mrope_interleaved=True))
    vision = dict(depth=2, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=64, patch_size=4,
                  spatial_merge_size=2, temporal_patch_size=1, deepstack_visual_indexes=[0], num_position_embeddings=16)
    config = transformers.Qwen3VLConfig(text_config=text, vision_config=vision, image_token_id=100, video_token_id=101,
                                        vision_start_token_id=102, vision_end_token_id=103)
    model = transformers.Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    images = dict(pixel_values=torch.randn(16, 3 * 4 * 4), image_grid_thw=torch.tensor([[1, 4, 4]]))
    ids = torch.tensor([[5, 102, 100, 100, 100, 100, 103, 9, 11]])
    return model, dict(input_ids=ids, mm_token_type_ids=(ids == 100).long(), **images)


def encoders():
    """Models without a cache, by functions of their own: the model, and what it is given."""
    sizes = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    image = dict(pixel_values=torch.randn(1, 3, 16, 16))
    ids = dict(input_ids=torch.randint(5, 100, (2, 12)))
    patches = dict(sizes, image_size=16, patch_size=4)
    yield transformers.DINOv3ViTModel(transformers.DINOv3ViTConfig(**patches)), image
    for rotary_value in (False, True):
        config = transformers.RoFormerConfig(**sizes, vocab_size=128, rotary_value=rotary_value)
        yield transformers.RoFormerModel(config), ids
    config = transformers.ClvpEncoderConfig(**dict(sizes, hidden_size=256, projection_dim=256), vocab_size=128,
                                            bos_token_id=1, eos_token_id=2)
    yield transformers.ClvpEncoder(config), ids
    config = transformers.Sam3ViTConfig(**patches, window_size=2, global_attn_indexes=[1], pretrain_image_size=16)
    yield transformers.Sam3ViTModel(config), image
    config = transformers.Llama4VisionConfig(**dict(patches, intermediate_size=256), projector_input_dim=64,
                                             projector_output_dim=64, vision_output_dim=64)
    yield transformers.Llama4VisionModel(config), image
    config = transformers.Sapiens2Config(**patches)
    yield transformers.Sapiens2Model(config), image


def outcome(model, inputs):
    """Logits of a prefill and of three steps with a cache, and the gradients of all parameters."""
    with torch.no_grad():
        prefill = model(**inputs, use_cache=True)
        results, cache = [prefill.logits], prefill.past_key_values
        for _ in range(3):
            step = model(input_ids=results[-1][:, -1:].argmax(-1), past_key_values=cache, use_cache=True)
            results.append(step.logits)
            cache = step.past_key_values
    model.zero_grad()
    model(**inputs).logits.float().square().mean().backward()
    return results + [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


class Counted:
    """Counts calls of our operators, and of the functions that they replace."""

    def __init__(self, model):
        self.ours = self.theirs = 0
        self.patched = []
        gradients = rope_kernels._gradients
        for owner, name in ((gradients, "rotated"), (gradients, "rotated_qk"), (_formulas, "_rotate_qk")):
            self.patched.append((owner, name, getattr(owner, name)))
            setattr(owner, name, self.counting(getattr(owner, name)))

    def counting(self, function):
        def counted(*args):
            self.ours += 1
            return function(*args)

        return counted

    def close(self):
        for owner, name, function in self.patched:
            setattr(owner, name, function)


class Families(unittest.TestCase):
    def equal(self, model, inputs, name, **how):
        wanted = outcome(model, inputs)
        counted = Counted(model)
        try:
            rope_kernels.transformers.enable(model, **how)
            ours = outcome(model, inputs)
        finally:
            rope_kernels.transformers.disable(model)
            counted.close()
        layers = getattr(model.config, "num_hidden_layers", 2)
        # NoPE layers do not rotate; each of five passes rotates the others.
        self.assertGreaterEqual(counted.ours, 5 * ((layers + 1) // 2), name)
        self.assertEqual(len(ours), len(wanted))
        for index, (x, y) in enumerate(zip(ours, wanted)):
            # Where a norm comes before a rotation of tokens before heads, the sum for its weight goes over a gradient
            # in another order in memory.
            reordered = index > 3 and name in ("gemma3n_text", "gemma4_text")
            equal = torch.allclose(x, y, rtol=1e-4, atol=1e-7) if reordered else torch.equal(x, y)
            self.assertTrue(equal, f"{name}: result {index} of {len(ours)}, seed {SEED}")
        calls = counted.ours
        outcome(model, inputs)
        self.assertEqual(counted.ours, calls, f"{name} is still enabled")

    def test_f32_bits(self):
        self.assertGreaterEqual(len(FAMILIES), 12)
        for name in FAMILIES | OTHERS:
            with self.subTest(name):
                inputs = dict(input_ids=torch.randint(3, 100, (2, 12), generator=torch.Generator().manual_seed(SEED)))
                self.equal(small(name), inputs, name)

    def test_f32_bits_of_images(self):
        model, inputs = qwen3_vl()
        self.equal(model, inputs, "qwen3_vl")

    def test_f32_bits_of_encoders(self):
        torch.manual_seed(SEED)
        for model, inputs in encoders():
            with self.subTest(type(model).__name__):
                results = []
                self.addCleanup(rope_kernels.transformers.disable, model.eval())
                for enabled in (False, True):
                    if enabled:
                        rope_kernels.transformers.enable(model)
                    counted = Counted(model)
                    model.zero_grad()
                    y = model(**inputs)[0]
                    y.square().mean().backward()
                    results.append([y, *(p.grad for p in model.parameters() if p.grad is not None)])
                    counted.close()
                    self.assertEqual(bool(counted.ours), enabled)
                rope_kernels.transformers.disable(model)
                self.assertTrue(all(torch.equal(x, y) for x, y in zip(*results, strict=True)))

    def test_functions_that_are_known(self):
        # Of all modeling modules: those named as rotations are known, but for what is listed.
        known, others = 0, set()
        for path in sorted(pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
            names = re.findall(r"^def (\w*apply\w*(?:rot|rope)\w*|rotate_queries_or_keys)\(", path.read_text(), re.MULTILINE)
            if not names and path.stem != "modeling_roformer":
                continue
            module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
            found = list(_formulas.functions_of(module))
            for _, name, function in found:
                self.assertIsNotNone(_formulas.formula_of(function), f"{path.stem}.{name}")
            known += len(found)
            others |= set(names) - {name for _, name, _ in found}
        print(f"{known} functions", end=" ... ")
        self.assertGreaterEqual(known, 237)
        # A part of others, tokens in groups, and those that are refused.
        self.assertEqual(others, {"_apply_rotary_emb", "apply_multidimensional_rope", *_formulas.NOT_OURS,
                                  "apply_rotary_pos_emb_2d_cross_attn"})

    def test_bf16_as_eager(self):
        for name in ("llama", "olmo2", "cohere", "gptj", "phi3", "deepseek_v3", *OTHERS):
            with self.subTest(name), torch.no_grad():
                model, ids = small(name).bfloat16(), torch.randint(3, 100, (2, 12))
                wanted = model(ids).logits
                rope_kernels.transformers.enable(model, rounding="eager")
                ours = model(ids).logits
                rope_kernels.transformers.disable(model)
                self.assertTrue(torch.equal(ours, wanted))

    def test_exact_rows(self):
        # At position 100,000 f32 angles are 2e-3 off; with exact ones only the rest of the model is left to differ.
        for name in FAMILIES:
            with self.subTest(name):
                model = small(name)
                if name in TABLES:
                    self.exact(model, dict(input_ids=torch.randint(3, 100, (2, 12))), name)
                    continue
                ids = torch.randint(3, 100, (1, 12), generator=torch.Generator().manual_seed(SEED))
                far = torch.arange(100_000, 100_012)[None]
                with torch.no_grad():
                    near = model(ids).logits
                    rope_kernels.transformers.enable(model, exact=True)
                    # A relative position is what attention sees: the logits do not change but for rounding.
                    ours = model(ids, position_ids=far).logits
                    self.assertLess((model(ids).logits - near).abs().max().item(), 2e-5)
                    rope_kernels.transformers.disable(model)
                    theirs = model(ids, position_ids=far).logits
                apart, before = ((logits - near).abs().max().item() for logits in (ours, theirs))
                self.assertLess(apart, 2e-5 if before < 1e-3 else before / 20, name)

    def exact(self, model, inputs, name):
        """A forward pass with exact=True: cos and sin are those of rope_kernels.Rotation, and a new one's is near."""
        def run():
            with torch.no_grad():
                return model(**inputs)[0]

        seen = []

        def see(rotary, arguments, named, tables):
            seen.append((rotary, (*arguments, *named.values()), tables))

        wanted = run()
        rope_kernels.transformers.enable(model, exact=True)
        rotaries = [part for part in model.modules() if "RotaryEmbedding" in type(part).__name__]
        hooks = [rotary.register_forward_hook(see, with_kwargs=True) for rotary in rotaries]
        ours = run()
        for hook in hooks:
            hook.remove()
        self.assertLess((ours - wanted).abs().max().item(), 1e-4, name)
        self.assertEqual({rotary for rotary, *_ in seen}, set(rotaries), name)
        for rotary, (x, positions, *_), tables in seen:
            config = getattr(rotary, "config", model.config)
            layer = {"layer": 0} if type(config).__name__ in ("SmolLM3Config", "MllamaTextConfig") else {}
            rotation = rope_kernels.Rotation(config, lenient=True, **layer)
            if rotation.axes == 2:
                positions = positions.T[:, None]
            for table, rows in zip(tables, rotation.rows(positions)[:: -1 if name in TABLES else 1]):
                rows = rows[0] if rotation.axes == 2 else rows
                same(self, table[..., : rows.shape[-1]], rows.expand(*table.shape[:-1], -1), name)
        rope_kernels.transformers.disable(model)
        self.assertTrue(torch.equal(run(), wanted), f"{name} is still enabled")

    def test_exact_rows_of_other_modules(self):
        # Positions of two and three axes; a module whose frequencies have no type of layers; layers that do not rotate.
        ids = dict(input_ids=torch.randint(5, 100, (2, 12)))
        for name, (model, inputs) in {
            "qwen2_5_vl": qwen2_5_vl(), "qwen3_vl": qwen3_vl(), "pixtral": pixtral(), "esm": (esm(), ids),
            "mllama": (mllama(), ids), "smollm3": (small("smollm3"), ids),
        }.items():
            with self.subTest(name):
                self.exact(model, inputs, name)

    def test_exact_rows_have_the_type_of_the_modules(self):
        # OLMo's stay in f32 where the model is in bf16.
        for name, kept in (("olmo2", torch.float32), ("llama", torch.bfloat16)):
            model = small(name)
            rotary, x = model.model.rotary_emb, torch.zeros(1, dtype=torch.bfloat16)
            for exact in (False, True):
                rope_kernels.transformers.enable(model, exact=exact)
                self.assertEqual({table.dtype for table in rotary(x, torch.arange(3)[None])}, {kept}, name)
            rope_kernels.transformers.disable(model)

    def test_exact_models_are_copied_and_saved(self):
        model, ids, file = small("llama"), torch.randint(3, 100, (1, 12)), io.BytesIO()
        far = torch.arange(100_000, 100_012)[None]
        with torch.no_grad():
            rope_kernels.transformers.enable(model, exact=True)
            wanted = model(ids, position_ids=far).logits
            torch.save(model, file)
            file.seek(0)
            for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
                self.assertTrue(torch.equal(other(ids, position_ids=far).logits, wanted))
                rope_kernels.transformers.disable(other)
                self.assertFalse(torch.equal(other(ids, position_ids=far).logits, wanted))
            rope_kernels.transformers.disable(model)

    def test_exact_refused(self):
        learned = small("llama")
        learned.model.rotary_emb.scale = torch.nn.Parameter(torch.zeros(1))
        other = small("llama")
        other.model.rotary_emb.inv_freq[-1] *= 1.01
        dynamic = small("llama")
        dynamic.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
        still = transformers.AutoModel.from_config(AutoConfig.for_model("granitemoehybrid", **{
            **SMALL, "layer_types": ["attention"] * 2, "num_local_experts": 2, "position_embedding_type": "nope"}))
        for reason, model in (
            ("its frequencies are learned", learned), ("other ones than its configuration says", other),
            ("the frequencies of the scaling dynamic change with the length", dynamic),
            ("it does not rotate, or", still),
            ("it does not rotate, or", esm(position_embedding_type="absolute")),
        ):
            with self.assertRaisesRegex(RuntimeError, f"{reason}.*; exact must be False"):
                rope_kernels.transformers.enable(model, exact=True)
            # Nothing was changed.
            functions = vars(sys.modules[type(model).__module__]).values()
            self.assertFalse(any(hasattr(function, "replaces") for function in functions))
            rope_kernels.transformers.disable(rope_kernels.transformers.enable(model))

    def test_every_rotary_module(self):
        # Of all types of transformers: exact=True is refused with a reason, or gives what the module gives.
        def made(cls, config):
            # Where the annotation is that of a composite, the module is one of its text.
            for part in (lambda: config(), lambda: config().get_text_config()):
                try:
                    return cls(part()), part()
                except Exception:
                    pass

        exact = 0
        for path in sorted(pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
            for name in re.findall(r"^class (\w*Rotary\w*)\(nn.Module\)", path.read_text(), re.MULTILINE):
                cls = getattr(importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}"), name)
                found = made(cls, next(iter(inspect.signature(cls).parameters.values())).annotation)
                if found is None:  # Its defaults are incomplete.
                    continue
                rotary, config = found
                try:
                    forward = rope_kernels.transformers._exact_forward(rotary, config)
                except RuntimeError as error:
                    self.assertRegex(str(error), f"^{name}: .+; exact must be False$")
                    self.assertNotIn("::", str(error))
                    self.assertIn(name, NOT_EXACT, error)
                    continue
                exact += 1
                known, axes, columns, *_ = forward.args
                positions = torch.tensor([[7, 0, 3], [4, 4, 1]])
                if axes > 1:
                    positions = torch.stack([positions, positions.flip(1), positions + 1, positions + 2][:axes])
                    positions = positions[:, 0].T if columns else positions
                for layer_type, dtype in itertools.product(known, (torch.float32, torch.bfloat16)):
                    how = (torch.zeros(1, dtype=dtype), positions) + (() if layer_type is None else (layer_type,))
                    for ours, theirs in zip(forward(*how), rotary.forward(*how), strict=True):
                        self.assertEqual((ours.shape, ours.dtype), (theirs.shape, theirs.dtype), name)
                        bound = 2e-5 if ours.dtype == torch.float32 else 2e-2
                        self.assertLess((ours.float() - theirs.float()).abs().max().item(), bound, name)
        print(f"{exact} of transformers' modules", end=" ... ")
        self.assertGreater(exact, 170)

    def test_exact_rows_against_f64(self):
        # Llama in f64, with f64 cos and sin of the same f32 inverse frequencies.
        model = small("llama")
        ids, far = torch.randint(3, 100, (1, 12)), torch.arange(100_000, 100_012)[None]
        exact = small("llama").double()
        inverse = 10000.0 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16)

        def forward(x, position_ids):
            angles = position_ids[..., None].double() * inverse
            angles = torch.cat((angles, angles), -1)
            return angles.cos(), angles.sin()

        exact.model.rotary_emb.forward = forward
        with torch.no_grad():
            wanted = exact(ids, position_ids=far).logits
            theirs = (model(ids, position_ids=far).logits - wanted).abs().max().item()
            rope_kernels.transformers.enable(model, exact=True)
            ours = (model(ids, position_ids=far).logits - wanted).abs().max().item()
            rope_kernels.transformers.disable(model)
        print(f"distance from f64 at position 100,000: {ours:.1e} exact, {theirs:.1e} before", end=" ... ")
        self.assertLess(ours, 1e-6)
        self.assertGreater(theirs, 3 * ours)

    def test_configurations_are_read_for_exact_rows_alone(self):
        ids = dict(input_ids=torch.randint(3, 100, (2, 12)))
        model = small("llama")
        with unittest.mock.patch.object(type(model.config), "model_type", "no_such_type"):
            self.equal(model, ids, "no_such_type")
            with self.assertRaisesRegex(RuntimeError, "no_such_type.*exact must be False"):
                rope_kernels.transformers.enable(model, exact=True)
        # A type of one's own.
        class OwnConfig(transformers.LlamaConfig):
            model_type = "own"

        class Own(transformers.LlamaForCausalLM):
            config_class = OwnConfig

        self.equal(Own(OwnConfig(**SMALL)).eval(), ids, "own")
        # A key that the model's code ignores says nothing of its cos and sin.
        model = small("llama")
        model.config.rope_scalling = 2.0
        self.equal(model, ids, "rope_scalling")
        self.exact(model, ids, "rope_scalling")

    def test_layers_that_do_not_rotate(self):
        # Every other layer of Llama 3.2 Vision attends to an image alone.
        model, ids = mllama(), dict(input_ids=torch.randint(3, 100, (2, 12)))
        self.equal(model, ids, "mllama")

    def test_several_models_of_a_module(self):
        import transformers.models.llama.modeling_llama as llama

        original, (first, second) = llama.apply_rotary_pos_emb, (small("llama"), small("llama"))
        for model in (first, second, first):
            rope_kernels.transformers.enable(model)
        self.assertIs(llama.apply_rotary_pos_emb.replaces, original)
        rope_kernels.transformers.disable(first)
        self.assertIsNot(llama.apply_rotary_pos_emb, original)
        rope_kernels.transformers.disable(second)
        rope_kernels.transformers.disable(second)
        self.assertIs(llama.apply_rotary_pos_emb, original)

    def test_other_tensors_go_to_the_original(self):
        model, ids = small("llama").double(), torch.randint(3, 100, (1, 12))
        with torch.no_grad():
            wanted = model(ids).logits
            rope_kernels.transformers.enable(model)
            ours = model(ids).logits
            rope_kernels.transformers.disable(model)
        self.assertTrue(torch.equal(ours, wanted))

    def test_compiled(self):
        model, ids = small("llama"), torch.randint(3, 100, (1, 12))
        with torch.no_grad():
            for exact in (False, True):
                torch._dynamo.reset()
                rope_kernels.transformers.enable(model, exact=exact)
                wanted = model(ids, use_cache=False).logits
                ours = torch.compile(model, backend="aot_eager", fullgraph=True)(ids, use_cache=False).logits
                rope_kernels.transformers.disable(model)
                self.assertTrue(torch.equal(ours, wanted))

    def test_refused(self):
        cases = [
            ("gpt2", dict(n_embd=64, n_layer=1, n_head=4, vocab_size=128, n_positions=64, bos_token_id=1,
                          eos_token_id=2), "GPT2"),
        ]
        for name, how, message in cases:
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **how))
            with self.assertRaisesRegex(RuntimeError, message):
                rope_kernels.transformers.enable(model)
        video = transformers.VJEPA2Model(transformers.VJEPA2Config(
            crop_size=8, patch_size=4, frames_per_clip=2, hidden_size=32, num_attention_heads=2, num_hidden_layers=1,
            pred_hidden_size=32, pred_num_attention_heads=2, pred_num_hidden_layers=1))
        with self.assertRaisesRegex(RuntimeError, "rotate_queries_or_keys makes its own angles"):
            rope_kernels.transformers.enable(video)
        with self.assertRaisesRegex(RuntimeError, "does not return cos and sin.*exact must be False"):
            rope_kernels.transformers.enable(small("llama4_text"), exact=True)
        model = small("llama")
        with self.assertRaisesRegex(ValueError, "rounding is"):
            rope_kernels.transformers.enable(model, rounding="other")
        for call in (rope_kernels.transformers.enable, rope_kernels.transformers.disable,
                     rope_kernels.transformers.is_enabled):
            for other in (None, "llama", model.config):
                with self.assertRaisesRegex(TypeError, "model is a .*; it must be a torch.nn.Module"):
                    call(other)
        # Its rows do not have each value twice.
        config = transformers.models.hunyuan_vl.configuration_hunyuan_vl.HunYuanVLTextConfig(
            **SMALL, head_dim=16, rope_parameters=dict(MROPE, mrope_section=[2, 2, 2, 2]))
        with self.assertRaisesRegex(RuntimeError, "the channels of a pair have angles of their own"):
            rope_kernels.transformers.enable(transformers.AutoModel.from_config(config))
        # A function that does something else keeps what it does.
        import transformers.models.llama.modeling_llama as llama

        original, model = llama.apply_rotary_pos_emb, small("llama")
        try:
            llama.apply_rotary_pos_emb = lambda q, k, cos, sin, unsqueeze_dim=1: original(k, q, cos, sin, unsqueeze_dim)
            with self.assertRaisesRegex(RuntimeError, "no formula that is known"):
                rope_kernels.transformers.enable(model)
        finally:
            llama.apply_rotary_pos_emb = original
        self.assertIs(llama.apply_rotary_pos_emb, original)


class Ownership(unittest.TestCase):
    """The functions are replaced while an enabled model lives, in whatever order models come and go."""

    def setUp(self):
        import transformers.models.llama.modeling_llama as llama

        gc.collect()
        self.llama, self.original = llama, llama.apply_rotary_pos_emb
        self.assertFalse(hasattr(self.original, "replaces"), "a model of another test is enabled")

    def replaced(self):
        function = self.llama.apply_rotary_pos_emb
        self.assertTrue(function is self.original or function.replaces is self.original)
        return function is not self.original

    def test_all_orders(self):
        # Of each model: enabled, perhaps again or copied, and then disabled or collected.
        lives = [("enable", "disable", "collect"), ("enable", "collect"), ("enable", "enable", "collect"),
                 ("disable", "enable", "disable"), ("enable", "copy", "collect", "collect the copy")]
        config = transformers.LlamaConfig(**dict(SMALL, num_hidden_layers=1, vocab_size=8))
        for first, second in itertools.product(lives, repeat=2):
            for turns in set(itertools.permutations([0] * len(first) + [1] * len(second))):
                models = [transformers.LlamaModel(config) for _ in range(2)]
                copies, left, enabled = [None, None], [list(first), list(second)], [set(), set()]
                for turn in turns:
                    step = left[turn].pop(0)
                    if step == "enable":
                        rope_kernels.transformers.enable(models[turn])
                        enabled[turn].add("model")
                    elif step == "disable":
                        rope_kernels.transformers.disable(models[turn])
                        enabled[turn].discard("model")
                    elif step == "copy":
                        copies[turn] = copy.deepcopy(models[turn])
                        self.assertTrue(rope_kernels.transformers.is_enabled(copies[turn]))
                        enabled[turn].add("copy")
                    elif step == "collect":
                        models[turn] = None
                        enabled[turn].discard("model")
                    else:
                        copies[turn] = None
                        enabled[turn].discard("copy")
                    self.assertEqual(self.replaced(), any(enabled), f"{first} {second} {turns}")
        self.assertFalse(self.replaced())

    def test_another_rounding_is_refused(self):
        first, second = small("llama").bfloat16(), small("llama").bfloat16()
        ids = torch.randint(3, 100, (1, 12))
        with torch.no_grad():
            eager = first(ids).logits
            rope_kernels.transformers.enable(first, rounding="eager")
            with self.assertRaisesRegex(RuntimeError, "rounding is 'once', but another enabled model.*rounding='eager'"):
                rope_kernels.transformers.enable(second, rounding="once")
            self.assertFalse(rope_kernels.transformers.is_enabled(second))
            self.assertTrue(torch.equal(first(ids).logits, eager))
            # A model may change its own.
            rope_kernels.transformers.enable(first, rounding="once")
            self.assertFalse(torch.equal(first(ids).logits, eager))
            with self.assertRaisesRegex(RuntimeError, "rounding is 'eager'"):
                rope_kernels.transformers.enable(second, rounding="eager")
            rope_kernels.transformers.enable(first, rounding="eager")
            self.assertTrue(torch.equal(first(ids).logits, eager))
            # A collected model holds nothing.
            del first
            rope_kernels.transformers.enable(second, rounding="once")
            rope_kernels.transformers.disable(second)
        self.assertFalse(self.replaced())

    def test_what_enable_returns(self):
        model = small("llama")
        with rope_kernels.transformers.enable(model) as enabled:
            self.assertIs(enabled.model, model)
            self.assertEqual(enabled.functions, [f"{self.llama.__name__}.apply_rotary_pos_emb"])
            self.assertEqual((enabled.unused, enabled.rotates), ({}, True))
            self.assertTrue(rope_kernels.transformers.is_enabled(model))
            self.assertTrue(self.replaced())
        self.assertFalse(rope_kernels.transformers.is_enabled(model))
        self.assertFalse(self.replaced())
        for still in (esm(position_embedding_type="absolute"), transformers.AutoModel.from_config(AutoConfig.for_model(
                "granitemoehybrid", **{**SMALL, "layer_types": ["attention"] * 2, "num_local_experts": 2,
                                       "position_embedding_type": "nope"}))):
            with rope_kernels.transformers.enable(still) as enabled:
                self.assertFalse(enabled.rotates)
                self.assertRegex(str(enabled.unused), "position_embedding_type is")
        for name in FAMILIES | OTHERS:
            with rope_kernels.transformers.enable(small(name)) as enabled:
                self.assertTrue(enabled.rotates, name)

    def test_a_saved_model_is_enabled_where_it_is_loaded(self):
        model, file = small("llama"), io.BytesIO()
        rope_kernels.transformers.enable(model)
        torch.save(model, file)
        rope_kernels.transformers.disable(model)
        self.assertFalse(self.replaced())
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        self.assertTrue(self.replaced())
        rope_kernels.transformers.disable(loaded)
        self.assertFalse(self.replaced())

    def test_a_type_of_ones_own_is_exact(self):
        class OwnConfig(transformers.LlamaConfig):
            model_type = "own"

        class Own(transformers.LlamaForCausalLM):
            config_class = OwnConfig

        model = Own(OwnConfig(**SMALL)).eval()
        with self.assertRaisesRegex(RuntimeError, "model_type"):
            rope_kernels.transformers.enable(model, exact=True)
        with rope_kernels.transformers.enable(model, exact=True, model_type="llama"):
            same(self, model.model.rotary_emb(torch.zeros(1), torch.arange(7)[None])[0],
                 rope_kernels.Rotation(model.config, model_type="llama").rows(torch.arange(7)[None], "halves")[0])
        with self.assertRaisesRegex(ValueError, "without exact=True"):
            rope_kernels.transformers.enable(model, model_type="llama")
        short = small("llama").bfloat16()
        with self.assertRaisesRegex(RuntimeError, "inv_freq became bfloat16.*exact must be False"):
            rope_kernels.transformers.enable(short, exact=True)


class Sent(unittest.TestCase):
    """Tensors that frameworks send to a function: the answer is the original's."""

    def setUp(self):
        import transformers.models.llama.modeling_llama as llama

        self.model = small("llama")
        self.original = llama.apply_rotary_pos_emb
        rope_kernels.transformers.enable(self.model)
        self.addCleanup(rope_kernels.transformers.disable, self.model)
        self.ours = llama.apply_rotary_pos_emb

    def equal(self, *args, **how):
        for gradients in (False, True):
            with torch.set_grad_enabled(gradients):
                wanted, ours = self.original(*args, **how), self.ours(*args, **how)
            for x, y in zip(ours, wanted, strict=True):
                self.assertEqual((type(x), x.dtype), (type(y), y.dtype))
                full = [t.full_tensor() if hasattr(t, "full_tensor") else t for t in (x, y)]
                full = [t.values() if t.is_nested else t for t in full]
                self.assertEqual(full[0].shape, full[1].shape)
                self.assertTrue(torch.equal(*full))

    def rows(self, *shape):
        angle = torch.randn(*shape, 8)
        return torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()

    def test_broadcasts(self):
        torch.manual_seed(SEED)
        q, k = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16)
        for rows, how in (
            (self.rows(1, 1), {}), (self.rows(3, 5), {}), (self.rows(1, 5), {}), (self.rows(5), dict(unsqueeze_dim=0)),
            ([t.expand(3, 5, 16) for t in self.rows(1, 5)], {}), (self.rows(1), dict(unsqueeze_dim=0)),
            (self.rows(1, 5), dict(unsqueeze_dim=-3)),
        ):
            self.equal(q, k, *rows, **how)
        q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16)
        for rows, how in ((self.rows(2, 5), dict(unsqueeze_dim=2)), (self.rows(1, 1), dict(unsqueeze_dim=2)),
                          (self.rows(5), dict(unsqueeze_dim=1)), (self.rows(1, 5), dict(unsqueeze_dim=-2))):
            self.equal(q, k, *rows, **how)

    def test_subclasses(self):
        class Own(torch.Tensor):
            pass

        torch.manual_seed(SEED)
        q, k, rows = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16), self.rows(1, 5)
        self.equal(q.as_subclass(Own), k.as_subclass(Own), *rows)
        self.equal(q, k, *(t.as_subclass(Own) for t in rows))
        self.equal(torch.nn.Parameter(q), torch.nn.Parameter(k), *rows)

    def test_jagged(self):
        torch.manual_seed(SEED)
        q, k = (torch.nested.nested_tensor([torch.randn(n, 4, 16) for n in (3, 5)], layout=torch.jagged)
                for _ in range(2))
        cos, sin = self.rows(1, 1)
        # A row that all tokens share, as jagged tensors have no position of their own.
        self.equal(q, k, cos, sin)
        with self.assertRaisesRegex(TypeError, "q is a NestedTensor.*values\\(\\)"):
            rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves")

    def test_distributed_tensors(self):
        from torch import distributed
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(distributed.destroy_process_group)
        mesh = init_device_mesh("cpu", (1,))
        torch.manual_seed(SEED)
        q, k, rows = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 5, 16), self.rows(1, 5)
        for dim in (0, 1, 2):
            sharded = [distribute_tensor(t, mesh, [Shard(dim)]) for t in (q, k)]
            tables = [distribute_tensor(t, mesh, [Replicate()]) for t in rows]
            self.equal(*sharded, *tables)
            for ours, wanted in (
                (rope_kernels.rotate_qk(*sharded, *tables, repeat="halves")[0],
                 rope_kernels.rotate(q, *rows, repeat="halves")),
                (rope_kernels.rotate(sharded[0], *tables, repeat="halves"),
                 rope_kernels.rotate(q, *rows, repeat="halves")),
            ):
                self.assertEqual(ours.placements, (Shard(dim),))
                same(self, ours.to_local(), wanted)
            for call in (
                lambda: rope_kernels.rotate_(sharded[0], *tables, repeat="halves"),
                lambda: rope_kernels.rotate_qk_(*sharded, *tables, repeat="halves"),
                lambda: rope_kernels.rotate_qk(*sharded, *rows, repeat="halves"),
                lambda: rope_kernels.Rotation(self.model.config).rotate(sharded[0], torch.arange(5)),
            ):
                with self.assertRaisesRegex(TypeError, "is a DTensor.*to_local\\(\\)"):
                    call()
            # By the kernels, and not by the function that they replace.
            with unittest.mock.patch("torch.cat", side_effect=AssertionError):
                self.ours(*sharded, *tables)
