"""Writes models/gguf.jsonl: for every architecture of GGUF files, what llama.cpp computes from some files' keys.

    python3 tests/golden/gguf.py LLAMA_CPP > tests/golden/models/gguf.jsonl

LLAMA_CPP is a folder of llama.cpp's sources (that of the crate llama-cpp-sys-2 0.1.161 made the file). Nothing of it is
compiled or run: this program reads `src/llama-arch.cpp` (names), `src/llama-model.cpp` (which class an architecture has,
its rope type) and the class's `load_arch_hparams`, `load_arch_tensors` and graph in `src/models`, and finds there what
makes one architecture rotate otherwise than another. A line is an architecture: `source` has the lines that decided its
cases. What a pattern cannot find is read by hand in READ, each entry with a piece of the line that says it, which must
be there. Every file has 8 layers, 128 channels a head, base 1e6 and a context of 4096, unless a case's keys say
otherwise. A case with `factors` has a tensor of so many, from 1 on in steps of an eighth.

It never reads the crate's table, architectures.rs, whose test these cases are.
"""

import json
import pathlib
import re
import struct
import sys

SOURCE = pathlib.Path(sys.argv[1]) / "src"
LAYERS = 8


def lines_of(path):
    return (SOURCE / path).read_text().splitlines()


MODEL, ARCH, HEADER = lines_of("llama-model.cpp"), lines_of("llama-arch.cpp"), lines_of("models/models.h")
FILES = {path.name: path.read_text().splitlines() for path in sorted((SOURCE / "models").glob("*.cpp"))}

# What no pattern below says: architecture -> (what, a piece of the line in its files that says it).
READ = {
    "baichuan": ("7b", "case LLM_TYPE_7B:"),
    "bert": ("none", "LLM_ARCH_NOMIC_BERT || model.arch == LLM_ARCH_NOMIC_BERT_MOE"),
    "jina-bert-v3": ("all", "model.arch == LLM_ARCH_JINA_BERT_V3"),
    "nomic-bert": ("all", "LLM_ARCH_NOMIC_BERT || model.arch == LLM_ARCH_NOMIC_BERT_MOE"),
    "nomic-bert-moe": ("all", "LLM_ARCH_NOMIC_BERT || model.arch == LLM_ARCH_NOMIC_BERT_MOE"),
    "granite": ("switched", "std::fill(hparams.rope_pattern.begin(), hparams.rope_pattern.end(), rope_finetuned)"),
    "granitehybrid": (
        "switched",
        "std::fill(hparams.rope_pattern.begin(), hparams.rope_pattern.end(), rope_finetuned)",
    ),
    "granite_swa": ("listed", "const bool use_rope = hparams.has_rope(il)"),
    "cohere2": ("sliding", "if (is_swa) {"),
    "maple": ("sliding", "if (hparams.is_swa(il)) {"),
    "muse-glimmer": ("sliding", "const bool use_rope = hparams.is_swa(il)"),
    "exaone-moe": ("sliding", "const bool is_local_layer = hparams.is_swa(il)"),
    "cohere2moe": ("sliding or lead", "if (is_swa || force_rope) {"),
    "exaone4": ("sliding or no windows", "hparams.is_swa(il) || hparams.swa_type == LLAMA_SWA_TYPE_NONE"),
    "afmoe": ("not each 4th", "(il + 1) % hparams.n_no_rope_layer_step != 0"),
    "smollm3": ("not each 4th", "(il + 1) % hparams.n_no_rope_layer_step != 0"),
    "llama4": ("not each 4th, or the last", "(il + 1) % hparams.n_no_rope_layer_step != 0"),
    "smallthinker": ("not the first of 4", "il % hparams.n_no_rope_layer_step != 0"),
    "starcoder": ("none", "tok_embd"),
    "arwkv7": ("none", "tok_embd"),
}
# Frequencies that a file's keys do not change: the whole head, base 10000, no scaling.
FIXED = {
    "cogvlm": "ggml_rope(ctx0, Qcur, inp_pos, n_embd_head, rope_type)",
    "deepseek2-ocr": "n_embed_head, ocr_rope_type, 0, freq_base, 1, 0, 1, 0, 0",
}
# Sliding layers without scaling and attention factor: the pieces of the line, and whether they
# have a base of their own.
PLAIN = {
    "mellum": ("n_rot, rope_type, n_ctx_orig, freq_base, 1.0,", False),
    "olmo2": ("freq_base, 1.0,", False),
    "laguna": ("const float attn_factor_l = is_swa_il ? 1.0f : attn_factor;", True),
}
# llama.cpp computes them, and Gguf says that it does not: parts of graphs that were not read here either.
UNREAD = {
    "clef",
    "clip",
    "deepseek4",
    "dflash",
    "eagle3",
    "gemma4-assistant",
    "graniteswitch",
    "hrm_text",
    "nanbeige",
    "pockettts",
    "qwen3tts",
    "qwen4exp",
}


def single(number):
    """Returns the number rounded to f32."""
    return struct.unpack("f", struct.pack("f", number))[0]


def find(lines, pattern, start=0, end=None):
    for number in range(start, len(lines) if end is None else end):
        found = re.search(pattern, lines[number])
        if found:
            return number, found
    return None, None


def body(lines, start):
    """The lines of the function that begins there."""
    end = next(n for n in range(start, len(lines)) if lines[n].startswith("}"))
    return range(start, end + 1)


class Architecture:
    def __init__(self, enum, name):
        self.enum, self.name, self.source = enum, name, []
        number, _ = find(MODEL, rf"case {enum}:")
        number, found = find(MODEL, r"return new (\w+)\(params\)", number)
        self.hparams = self.tensors = self.graph = (None, range(0))
        if not found:
            # A name without a class: only its rope type is there.
            self.rope_type()
            return
        self.type = found[1]
        self.classes = [self.type]
        while True:
            _, found = find(HEADER, rf"^struct {self.classes[-1]} : public (\w+)")
            if not found or found[1] == "llama_model_base" or not found[1].startswith("llama_model_"):
                break
            self.classes.append(found[1])
        self.rope_type()
        self.hparams = self.function(r"::load_arch_hparams\(", self.classes)
        self.tensors = self.function(r"::load_arch_tensors\(", self.classes)
        graphs = []
        for own in self.classes:
            number, _ = find(HEADER, rf"^struct {own} : ")
            end = next(n for n in range(number, len(HEADER)) if HEADER[n].startswith("}"))
            for line in range(number, end):
                graphs += re.findall(r"using graph = (\w+)::graph", HEADER[line])
            graphs.append(own)
        self.graph = self.function(r"::graph(<\w+>)?::graph\(", graphs)

    def function(self, pattern, classes):
        """File and lines of the function of the first of these classes that has it."""
        for own in classes:
            for file, lines in FILES.items():
                number, _ = find(lines, rf"^(?! ).*\b{own}{pattern}")
                if number is not None:
                    return file, body(lines, number)
        return None, range(0)

    def within(self, where, pattern, note=True):
        file, numbers = where
        for number in numbers:
            line = FILES[file][number]
            found = re.search(pattern, line.split("//")[0])
            if found:
                if note:
                    self.cite(f"src/models/{file}", number)
                return found
        return None

    def line_of(self, where, pattern):
        file, numbers = where
        return next((number for number in numbers if re.search(pattern, FILES[file][number].split("//")[0])), None)

    def cite(self, file, number):
        place = f"{file}:{number + 1}"
        if place not in self.source:
            self.source.append(place)

    def cite_piece(self, piece):
        for where in (self.graph, self.hparams):
            file, numbers = where
            for number in (range(len(FILES[file])) if file else ()):
                if piece in FILES[file][number]:
                    self.cite(f"src/models/{file}", number)
                    return
        raise SystemExit(f"{self.name}: {piece!r} is not there")

    def rope_type(self):
        start, _ = find(MODEL, r"^llama_rope_type llama_model_rope_type")
        number, _ = find(MODEL, rf"case {self.enum}:", start)
        self.cite("src/llama-model.cpp", number)
        number, found = find(MODEL, r"return (.*);", number)
        kinds = re.findall(r"LLAMA_ROPE_TYPE_(\w+)", found[1])
        self.cite("src/llama-model.cpp", number)
        self.kinds = [kind.lower() for kind in kinds]  # with sections, without

    def read(self):
        h, t, g = self.hparams, self.tensors, self.graph
        self.window = self.first = self.listed = None
        found = self.within(h, r"load_swa_pattern\(ml, (\d+)(?:, (?:/\*.*?\*/)? *(true))?")
        if found:
            self.window, self.first = int(found[1]), found[2] is not None
        elif self.within(h, r"get_arr\(LLM_KV_ATTENTION_SLIDING_WINDOW_PATTERN, *hparams\.is_swa_impl\)"):
            self.listed = True
        self.condition = None
        if self.window:
            if self.within(h, r"if \((found_swa && )?hparams\.n_swa > 0\)"):
                self.condition = "window"
            elif self.within(h, r"if \(found_swa && hparams\.n_swa == 0\)"):
                self.condition = "not zero"
            elif self.within(h, r"if \(hparams\.n_layer\(\) == 64\)"):
                self.condition = "64"
        windows = self.window or self.listed
        calls = self.within(g, r"ggml_rope(_ext|_multi)?\(")
        if not calls:
            # Parts of a graph are functions of their own.
            file = g[0]
            calls = file and self.within((file, range(len(FILES[file]))), r"ggml_rope(_ext|_multi)?\(")
        self.rotation = "all" if calls and self.kinds[0] != "none" else "none"
        if self.name in READ:
            self.rotation, piece = READ[self.name]
            self.cite_piece(piece)
        if self.rotation == "none":
            return
        # The numbers of layers with a sliding window.
        self.base, self.scaled, self.attention, self.own_dim = "main", True, True, False
        if windows and self.name not in PLAIN:
            if self.within(g, r"freq_base_[li] *= *model\.get_rope_freq_base") or self.within(
                g, r"freq_base_[li] *= "
            ):
                inherits = self.within(h, r"rope_freq_base_train_swa *= *hparams\.rope_freq_base_train;")
                reads = self.within(h, r"get_key\(LLM_KV_ROPE_FREQ_BASE_SWA")
                self.base = ("own or main" if inherits else "own or 10000") if reads else "main"
                if self.within(g, r"freq_scale_[li] *= *model\.get_rope_freq_scale") or self.within(
                    g, r"freq_scale_[li] *= "
                ):
                    self.scaled = bool(
                        self.within(h, r"rope_freq_scale_train_swa *= *hparams\.rope_freq_scale_train;")
                    )
        elif windows:
            piece, own = PLAIN[self.name]
            self.cite_piece(piece)
            self.base, self.scaled, self.attention = "own or main" if own else "main", False, False
            if own:
                self.within(h, r"get_key\(LLM_KV_ROPE_FREQ_BASE_SWA")
        if self.name == "dots3note":  # required
            self.base = "own or main"
        self.own_dim = bool(
            windows
            and (
                self.within(g, r"n_rot_\w+ *= *hparams\.n_rot\(il\)")
                or self.within(g, r"n_rot_l *= *is_swa_il \? hparams\.n_rot_swa : n_rot")
            )
        )
        self.halved = bool(self.within(h, r"n_rot_full = hparams\.n_rot_full / 2"))
        # A tensor of factors has to be loaded, and to reach the rotation.
        self.factors = None
        loaded = self.within(t, r"rope_(freqs|long) *= *create_tensor")
        if loaded and not self.within(g, r"get_rope_factors|freq_factors *=", note=False):
            g = (g[0], range(len(FILES[g[0]])))  # in a function of its own
        used = self.within(g, r"get_rope_factors|freq_factors *= *model\.layers\[il\]\.rope_freqs")
        passed = self.within(g, r"(inp_pos|pos), *(rope_factors|freq_factors)", note=False)
        if loaded and used and passed:
            self.factors = "all"
            if self.within(g, r"is_swa \? nullptr : model\.get_rope_factors"):
                self.factors = "full"
            elif self.name == "gemma4":
                self.cite_piece("if (!hparams.is_swa(il)) {")
                self.factors = "full, needed"
        self.recurrent = None
        if self.within(h, r"is_recr_impl\[\w+\] *= *hparams\.n_head_kv\(\w+\) == 0") and self.name != "nemotron_h":
            self.recurrent = "kv"
        elif self.name == "deci" and self.within(g, r"n_head > 0 && n_head_kv == 0"):
            self.recurrent = "kv"
        elif self.within(h, r"LLM_KV_ATTENTION_RECURRENT_LAYERS"):
            file, numbers = h
            found = self.within(h, r"full_attn_interval *= *(\d+)")
            self.recurrent = int(found[1])
        self.betas = bool(self.within(h, r"YARN_BETA_FAST"))
        self.alpha = bool(self.within(h, r"rope_scaling_alpha > 0"))
        self.log = bool(self.within(h, r"YARN_LOG_MUL"))
        self.decisions = bool(self.within(h, r"LLM_KV_DECISION_BLOCK_COUNT"))
        if self.name in FIXED:
            self.cite_piece(FIXED[self.name])

    # What llama.cpp makes of a file.

    def layer(self, keys, index, count):
        """A letter: S or F, small if it does not rotate, - without queries and keys."""
        if self.recurrent == "kv":
            heads = keys.get("attention.head_count_kv", [1] * count)
            if heads[index] == 0:
                return "-"
        elif self.recurrent:
            listed = keys.get("attention.recurrent_layers")
            every = keys.get("full_attention_interval", self.recurrent)
            if listed[index] if listed else (index + 1) % every != 0:
                return "-"
        slides = self.slides(keys, index, count)
        windows = self.windows(keys, count)
        turns = {
            "all": True,
            "none": False,
            "sliding": slides,
            "switched": keys.get("rope.scaling.finetuned", True),
            "sliding or lead": slides or index < keys.get("leading_dense_block_count", 0),
            "sliding or no windows": slides or not windows,
            "listed": bool(keys.get("attention.rope_pattern", [1] * count)[index]),
            "7b": count == 32,
            "not each 4th": (index + 1) % 4 != 0,
            "not each 4th, or the last": (index + 1) % (4 if windows else count) != 0,
            "not the first of 4": not windows or count == 4 or index % 4 != 0,
        }[self.rotation]
        letter = "S" if slides else "F"
        return letter if turns else letter.lower()

    def windows(self, keys, count):
        window = keys.get("attention.sliding_window")
        return bool(
            self.listed
            or self.window
            and {None: True, "window": bool(window), "not zero": window != 0, "64": count == 64}[self.condition]
        )

    def slides(self, keys, index, count):
        if not self.windows(keys, count):
            return False
        pattern = keys.get("attention.sliding_window_pattern", self.window)
        if isinstance(pattern, list):
            return bool(pattern[index])
        if pattern == 0:
            return True
        return index % pattern != (0 if self.first else pattern - 1)

    def numbers(self, keys, sliding, count):
        """Returns the numbers of such a layer's rotation, or None if its softmax has a factor that no case here states."""
        head = keys["attention.key_length"]
        if self.name in FIXED:
            return {"dim": head, "base": 10000.0}
        dim = keys.get("rope.dimension_count", head)
        of_all = dim // 2 if self.halved else dim
        own = keys.get("rope.dimension_count_swa", dim)
        if self.own_dim:
            dim = own if sliding else of_all
        else:
            # llm_graph_context: that of layer 0 for all.
            dim = own if self.slides(keys, 0, count) else of_all
        base = keys.get("rope.freq_base", 10000.0)
        scaled, attention = True, True
        if sliding:
            base = {
                "main": base,
                "own or main": keys.get("rope.freq_base_swa", base),
                "own or 10000": keys.get("rope.freq_base_swa", 10000.0),
            }[self.base]
            scaled, attention = self.scaled, self.attention
        made = {"dim": dim, "base": base}
        factor, kind = keys.get("rope.scaling.factor", 1.0), keys.get("rope.scaling.type", "linear")
        multiplier = keys.get("rope.scaling.yarn_log_multiplier")
        if (self.log and self.name != "mistral3" or self.name == "glm-dsa") and factor != 1.0:
            # kq_scale has the square of what the logarithm's multiplier makes, and llama_context's constructor cancels
            # the attention factor where both magnitudes are the same.
            if kind != "yarn" or multiplier is None or self.name == "glm-dsa":
                return None
            tenths = single(single(multiplier) / single(0.1))
            if self.enum != "LLM_ARCH_DEEPSEEK2" and tenths != 1.0:
                return None
            made["mscale"] = tenths
        if self.name == "mistral3" and multiplier is not None and kind == "yarn":
            if multiplier != 1.0:
                return None
            made["yarn_attention_factor"] = 1.0
        if scaled and factor != 1.0:
            made["scaling"] = kind
            made["factor"] = factor
            if kind == "yarn":
                betas = (8.0 if self.name == "grok" else 32.0, 1.0)
                if self.betas:
                    betas = (
                        keys.get("rope.scaling.yarn_beta_fast", betas[0]),
                        keys.get("rope.scaling.yarn_beta_slow", betas[1]),
                    )
                made["betas"] = betas
        if self.alpha and scaled and "rope.scaling.alpha" in keys:
            made["scaling"], made["alpha"] = "alpha", keys["rope.scaling.alpha"]
        if attention and "rope.scaling.attn_factor" in keys:
            made["attention_factor"] = keys["rope.scaling.attn_factor"]
        tensor = self.factors and keys.get("factors")
        if tensor and not (sliding and self.factors.startswith("full")) and scaled:
            if factor != 1.0:
                return None  # both at once, which no case here says
            made["scaling"] = "factors"
            # The tensor has those of the widest layers, and ggml_rope_ext takes as many as it needs.
            made["first"] = self.halved
        return made

    def sections(self, keys):
        sections = keys.get("rope.dimension_sections")
        several = bool(sections and sections[0] > 0 and sections[1] > 0)
        kind = self.kinds[0] if len(self.kinds) == 1 or several else self.kinds[1]
        return kind

    def case(self, variant, own):
        keys = {
            "block_count": LAYERS,
            "attention.key_length": 128,
            "rope.freq_base": 1e6,
            "context_length": 4096,
            **own,
        }
        count = keys["block_count"]
        made = {"id": variant, "keys": {key: value for key, value in own.items() if key != "factors"}}
        if "factors" in keys:
            made["factors"] = len(keys["factors"])
        if self.name in UNREAD:
            return {**made, "refused": True}
        if self.rotation == "none":
            return {**made, "layers": "f" * count}
        if self.listed and "attention.sliding_window_pattern" not in keys:
            return {**made, "refused": True}
        if self.rotation == "7b" and count not in (32, 40):
            return {**made, "refused": True}
        made["layers"] = "".join(self.layer(keys, index, count) for index in range(count))
        if self.decisions and keys.get("decision.block_count", 0) > 0:
            return {**made, "refused": True}
        made["type"] = "neox" if self.name == "deepseek2-ocr" else self.sections(keys)
        if made["type"] in ("mrope", "imrope") and "rope.dimension_sections" not in keys:
            return {**made, "numbers": None}
        for letter, name in (("F", "full"), ("S", "sliding")):
            if letter in made["layers"]:
                numbers = self.numbers(keys, letter == "S", count)
                if self.factors is None and keys.get("factors") and self.name not in FIXED:
                    numbers = None  # the file has a tensor that nothing reads
                if self.factors == "full, needed" and letter == "F" and not keys.get("factors"):
                    numbers = None
                made[name] = numbers
        return {**made}

    def cases(self):
        if self.name in UNREAD:
            yield self.case("plain", {})
            return
        self.read()
        listed = {"attention.sliding_window_pattern": [1, 0, 0, 1, 1, 0, 1, 1]}
        always = listed if self.rotation != "none" and self.listed else {}
        tensor = {"factors": [1.0 + n / 8 for n in range(64)]}
        if self.rotation != "none" and self.factors == "full, needed":
            always = {**always, **tensor}
        if self.rotation == "7b":
            always = {"block_count": 32}
        axes = any(kind.endswith("mrope") for kind in self.kinds[:1]) and len(self.kinds) == 1
        if axes:
            always = {"rope.dimension_sections": [16, 24, 24, 0]}
        linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "rope.scaling.attn_factor": 1.5}
        yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 16.0}
        window = {"attention.sliding_window": 1024}
        yield self.case("plain", always)
        if self.rotation == "none":
            return
        yield self.case("defaults", {**always, "rope.freq_base": 10000.0, "rope.dimension_count": 64})
        yield self.case("linear", {**always, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
        yield self.case("attention factor", {**always, **linear})
        yield self.case("yarn", {**always, **yarn})
        yield self.case(
            "yarn's keys", {**always, **yarn, "rope.scaling.yarn_beta_fast": 20.0, "rope.scaling.yarn_beta_slow": 2.0}
        )
        yield self.case("alpha", {**always, "rope.scaling.alpha": 1000.0})
        for name, multiplier in (("a log multiplier", 1.0), ("one tenth", 0.1)):
            yield self.case(name, {**always, **yarn, "rope.scaling.yarn_log_multiplier": multiplier})
        # Grok alone reads it.
        if self.name != "grok":
            yield self.case("extrapolation", {**always, "rope.scaling.yarn_ext_factor": 0.5})
        yield self.case("factors", {**always, **tensor})
        yield self.case("finetuned", {**always, "rope.scaling.finetuned": False})
        yield self.case(
            "rope pattern",
            {**always, "attention.rope_pattern": [1, 0, 1, 0, 1, 0, 1, 0] * (4 if self.rotation == "7b" else 1)},
        )
        yield self.case(
            "lists",
            {
                **always,
                "attention.head_count_kv": [8, 0, 8, 8, 0, 0, 8, 8] * (4 if self.rotation == "7b" else 1),
                "attention.recurrent_layers": [1, 0, 1, 1, 0, 1, 1, 1] * (4 if self.rotation == "7b" else 1),
            },
        )
        yield self.case("window", {**always, **window, **linear})
        yield self.case(
            "window's own",
            {
                **always,
                **window,
                **linear,
                "rope.freq_base_swa": 2e4,
                "rope.dimension_count": 96,
                "rope.dimension_count_swa": 64,
                "leading_dense_block_count": 2,
                "full_attention_interval": 2,
            },
        )
        yield self.case("window of 0", {**always, "attention.sliding_window": 0})
        # Layer 0, whose channels count for all layers of most graphs, has no window.
        second = {"attention.sliding_window_pattern": [0, 1, 0, 1, 1, 0, 1, 1]}
        if self.window or self.listed:
            own = {"rope.freq_base_swa": 2e4, "rope.dimension_count_swa": 64, "leading_dense_block_count": 2}
            yield self.case("pattern from the second", {**always, **window, **linear, **second, **own})
            own = {"rope.freq_base_swa": 2e4, "rope.dimension_count_swa": 64}
            yield self.case("channels of windows", {**always, **window, **own})
        if self.factors == "full, needed":
            yield self.case("no tensor", listed)
        if self.decisions:
            yield self.case("decisions", {"decision.block_count": 2})
        if not axes:
            yield self.case("sections", {**always, "rope.dimension_sections": [16, 24, 24, 0]})
        if axes:
            yield self.case("no sections", {})
        elif not always:
            yield self.case(
                "pattern",
                {
                    **window,
                    **listed,
                    "rope.freq_base_swa": 2e4,
                    "rope.dimension_count": 96,
                    "rope.dimension_count_swa": 64,
                },
            )
            yield self.case("period", {**window, "attention.sliding_window_pattern": 3})
            yield self.case("64 layers", {**window, "block_count": 64})
            yield self.case("4 layers", {**window, "block_count": 4})
            if self.condition == "64":
                second = {key: 8 * pattern for key, pattern in second.items()}
                own["rope.dimension_count_swa"] = 64
                yield self.case("64 layers' own", {**window, **second, **linear, **own, "block_count": 64})
                yield self.case("64 layers with factors", {**window, **tensor, "block_count": 64})
            yield self.case("one section", {"rope.dimension_sections": [64, 0, 0, 0]})
        elif self.rotation == "7b":
            yield self.case("13b", {"block_count": 40})
            yield self.case("neither", {})
        elif self.listed:
            yield self.case("not listed", tensor if self.factors == "full, needed" else {})


def main():
    start, _ = find(ARCH, r"LLM_ARCH_NAMES = \{")
    for line in ARCH[start + 1 :]:
        if line.startswith("}"):
            break
        found = re.search(r'\{ (LLM_ARCH_\w+), +"([^"]+)" *\}', line)
        if found and found[1] != "LLM_ARCH_UNKNOWN":
            if found[2] == "clip":
                cases, source = [{"id": "plain", "keys": {}, "refused": True}], ["src/llama-arch.cpp:9"]
            else:
                architecture = Architecture(found[1], found[2])
                cases, source = list(architecture.cases()), architecture.source
            print(json.dumps({"architecture": found[2], "source": source, "cases": cases}, separators=(",", ":")))


if __name__ == "__main__":
    main()
