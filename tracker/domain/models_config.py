"""Read the shape of a model from a Hugging Face ``config.json``: text in, nothing downloaded.

What the models of an architecture have in common is in ``CONVENTIONS``. One that is not known is
read by the same field names; norms and biases are then guessed, which hardly moves the count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from tracker.domain.model import ModelShape
from tracker.domain.models_layout import CONVENTIONS, Layout

__all__ = ["ConfigError", "layout_from_config", "shape_from_config"]

MAX_CHARS = 2_000_000  # the longest published ones list 20,000 classes
MAX_PARAMS = 10**15
_MAX_SIZE = 10**9  # of any one field: a vocabulary of that size does not exist

_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "n_embed", "dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim", "d_kv", "kv_channels"),
    "ffn": (
        "intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "hidden_dim",
        "encoder_ffn_dim",
    ),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_top_k",
    ),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"),
}  # fmt: skip
_SAME = {
    "gemma3": "gemma3_text", "llama4": "llama4_text", "mistral3": "mistral",
    "ministral": "mistral", "refinedweb": "falcon", "refinedwebmodel": "falcon",
    "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe", "qwen3_vl_moe_text": "qwen3_moe", "xlm-roberta": "roberta",
    "camembert": "roberta", "deberta-v2": "deberta", "deepseek_v32": "deepseek_v3", "yi": "llama",
    "internlm": "llama", "internlm2": "llama", "baichuan": "llama", "smollm3": "llama",
    "mt5": "t5", "umt5": "t5", "deit": "vit", "clip_vision_model": "siglip_vision_model",
}  # fmt: skip
_FOUR_WIDTHS = ("gpt2", "gptj", "gpt_bigcode", "bloom", "falcon", "mpt")  # the default of ffn
_LEARNED_POSITIONS = ("gpt2", "gpt_bigcode", "opt", "bert", "roberta", "distilbert", "deberta")
_QKV_ONLY = ("glm", "glm4", "glm4_moe", "qwen2_moe", "chatglm", "seed_oss")
# Published files leave these out: the architecture's own defaults.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208,
    },
    "t5": {"num_heads": 8, "d_kv": 64},
}  # fmt: skip
_GATES = ("silu", "swish", "swiglu", "geglu", "gated")


class ConfigError(ValueError):
    """A config.json that cannot be used. The message is one line that says what is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__("config.json: " + " ".join(message.split())[:300])


def shape_from_config(text: str, name: str | None = None) -> ModelShape:
    """The shape of the model that this config.json describes, its parameters counted.

    *name*: what to call it (None: what the file says). The image part of a model that also reads
    images is counted where it is a plain vision transformer. Raises ConfigError.
    """
    raw = _parsed(text)
    config, layout = _read(raw)
    total = layout.params() + _tower_params(raw)
    if total > MAX_PARAMS:
        raise ConfigError(f"{total:.3g} parameters cannot be: is a size wrong?")
    called = name or str(raw.get("_name_or_path") or config.kind)
    printable = "".join(c for c in " ".join(called.split()) if c.isprintable())
    try:
        return layout.shape(printable[:100] or "model", total)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def layout_from_config(text: str) -> Layout:
    """How the model's text part is put together. Raises ConfigError."""
    return _read(_parsed(text))[1]


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        raise ConfigError(f"{len(text)} characters are too many: is it the right file?")
    try:
        raw = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ConfigError("nested too deeply") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError("not a JSON object")
    return raw


def _no_constant(name: str) -> NoReturn:
    raise ConfigError(f"{name} is not a number")


def _read(raw: dict[str, Any]) -> tuple[_Config, Layout]:
    config = _Config(raw)
    inner = next(
        (raw[key] for key in ("text_config", "language_config", "llm_config") if raw.get(key)),
        None,
    )
    if inner is not None and not config.has("layers"):
        if not isinstance(inner, dict):
            raise ConfigError("text_config is not an object")
        shared = {"tie_word_embeddings", "model_type"} & raw.keys()
        config = _Config({**{key: raw[key] for key in shared}, **inner})
    readers = {"vit": _vit, "whisper": _two_stacks, "bart": _two_stacks, "t5": _t5}
    fields = readers.get(config.kind, _usual)(config)
    config.complain()
    layout = Layout(**{**CONVENTIONS.get(config.kind, _guess(config)), **fields})
    if layout.head < 1:
        raise ConfigError(f"{layout.heads} heads are more than a width of {layout.width} has")
    if layout.experts > 1 and layout.experts_per_token > layout.experts:
        raise ConfigError(f"{layout.experts_per_token} of {layout.experts} experts are used")
    if not 0 <= layout.dense_layers <= layout.layers:
        raise ConfigError(f"{layout.dense_layers} of {layout.layers} layers have no experts")
    return config, layout


class _Config:
    """The fields of one object, checked as they are read. ``complain`` names all missing ones."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        kind = raw.get("model_type", "")
        if not isinstance(kind, str):
            raise ConfigError("model_type is not a text")
        self.kind = _SAME.get(kind.lower(), kind.lower())
        self.raw: Mapping[str, Any] = {**_DEFAULTS.get(self.kind, {}), **raw}
        self._missing: list[str] = []

    def has(self, field: str) -> bool:
        return any(self.raw.get(name) is not None for name in _NAMES[field])

    def size(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The first of these fields that is there; without *default* one must be."""
        for name in names:
            value = self.raw.get(name)
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_SIZE:
                value = int(value)
            if type(value) is not int:
                raise ConfigError(f"{name} is {_shown(value)}, not a whole number")
            if not least <= value <= _MAX_SIZE:
                raise ConfigError(f"{name} is {_shown(value)}, not in {least} to {_MAX_SIZE}")
            return value
        if default is None:
            self._missing.append(names[0])
            return least or 1
        return default

    def field(self, field: str, default: int | None = None, least: int = 1) -> int:
        return self.size(*_NAMES[field], default=default, least=least)

    def flag(self, *names: str, default: bool = False) -> bool:
        for name in names:
            value = self.raw.get(name)
            if value is None:
                continue
            if not isinstance(value, bool):
                raise ConfigError(f"{name} is {_shown(value)}, not true or false")
            return value
        return default

    def text(self, *names: str) -> str:
        return next((v for v in map(self.raw.get, names) if isinstance(v, str)), "").lower()

    def part(self, name: str) -> _Config:
        """A nested object; an empty one where there is none."""
        value = self.raw.get(name)
        if value is None:
            return _Config({})
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is not an object")
        return _Config({key: value[key] for key in value if key != "model_type"})

    def complain(self) -> None:
        if self._missing:
            fields = ", ".join(dict.fromkeys(self._missing))
            raise ConfigError(
                f"missing {fields} (model_type {_shown(self.kind) if self.kind else 'not given'})"
            )


def _shown(value: object) -> str:
    # Python refuses to write out an int of thousands of digits.
    if type(value) is int and abs(value) > 10**18:
        return "a number of more than 18 digits"
    return repr(value)[:40]


def _guess(config: _Config) -> dict[str, Any]:
    """What a model of an unknown architecture probably has."""
    activation = config.text("hidden_act", "hidden_activation", "activation_function")
    rms = config.raw.get("rms_norm_eps") is not None
    gated = rms or any(gate in activation for gate in _GATES)
    biased = not rms and not gated
    return {
        "gated": gated,
        "norm": "rms" if rms else "layer",
        "tied": not rms,
        **dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), biased),
    }


def _usual(config: _Config) -> dict[str, Any]:
    """A single stack of blocks."""
    kind = config.kind
    ffns = config.part("ffn_config")
    width = config.field("width")
    fields: dict[str, Any] = {
        "layers": config.field("layers"),
        "width": width,
        "heads": config.field("heads"),
        "vocab": config.field("vocab"),
        "head_dim": config.field("head_dim", default=0, least=0),
    }
    if config.raw.get("tie_word_embeddings") is not None:
        fields["tied"] = config.flag("tie_word_embeddings")
    ratio = config.size("expansion_ratio", default=4)
    four = ratio * width if kind in _FOUR_WIDTHS else None
    ffn = config.field("ffn", default=ffns.field("ffn", default=0) or four)
    fields["ffn"] = ffn // 2 if kind == "qwen" else ffn  # which counts gate and value together
    fields["kv_heads"] = _kv_heads(config, fields["heads"])
    fields |= dict(_biases(config)) | _experts(config, ffns, fields["layers"], fields["ffn"])
    if config.raw.get("kv_lora_rank") is not None:
        fields |= {
            "kv_rank": config.size("kv_lora_rank"),
            "q_rank": config.size("q_lora_rank", default=0, least=0),
            "head_dim": config.size("qk_nope_head_dim"),
            "rope_dim": config.size("qk_rope_head_dim"),
            "value_dim": config.size("v_head_dim"),
            "kv_heads": 0,
        }
    if kind in _LEARNED_POSITIONS:
        fields["positions"] = config.field("positions") + (2 if kind == "opt" else 0)
    if kind == "mpt" and not config.part("attn_config").flag("alibi"):
        fields["positions"] = config.field("positions")
    if kind in ("bert", "roberta"):
        fields["token_types"] = config.size("type_vocab_size", default=2, least=0)
    if kind == "falcon":
        fields["norms"] = _falcon_norms(config)
    return fields


def _kv_heads(config: _Config, heads: int) -> int:
    if config.kind == "falcon" and not config.flag("new_decoder_architecture"):
        return 1 if config.flag("multi_query", default=True) else heads
    if config.kind == "gpt_bigcode" or (config.kind == "falcon" and not config.has("kv_heads")):
        return 1 if config.flag("multi_query", default=True) else heads
    if config.kind == "chatglm" and not config.flag("multi_query_attention", default=True):
        return heads
    nested = config.part("attn_config").size("kv_n_heads", default=heads)
    return config.field("kv_heads", default=nested)


def _falcon_norms(config: _Config) -> int:
    """One norm for attention and MLP side by side, except in the larger models."""
    if config.flag("new_decoder_architecture"):
        return config.size("num_ln_in_parallel_attn", default=2)
    return 1 if config.flag("parallel_attn", default=True) else 2


def _biases(config: _Config) -> Iterator[tuple[str, Any]]:
    """What the file says of biases and of norms within attention."""
    if config.raw.get("attention_bias") is not None:
        biased = config.flag("attention_bias")
        yield "qkv_bias", biased
        if config.kind not in _QKV_ONLY:
            yield "out_bias", biased
    for name, field in (
        ("qkv_bias", "qkv_bias"), ("use_qkv_bias", "qkv_bias"), ("add_qkv_bias", "qkv_bias"),
        ("attention_out_bias", "out_bias"), ("mlp_bias", "mlp_bias"),
        ("lm_head_bias", "head_bias"),
    ):  # fmt: skip
        if config.raw.get(name) is not None:
            yield field, config.flag(name)
    everywhere = {"falcon": ("bias", False), "starcoder2": ("use_bias", True)}.get(config.kind)
    if config.kind == "mpt" and not config.flag("no_bias", default=True):
        yield from (("norm", "layer"), ("qkv_bias", True), ("out_bias", True), ("mlp_bias", True))
    if everywhere:
        biased = config.flag(everywhere[0], default=everywhere[1])
        yield from (("qkv_bias", biased), ("out_bias", biased), ("mlp_bias", biased))
    if config.flag("use_qk_norm") and config.kind in ("cohere", "glm4_moe"):
        yield "qk_norm", "width" if config.kind == "cohere" else "head"


def _experts(config: _Config, ffns: _Config, layers: int, ffn: int) -> dict[str, Any]:
    """The mixture of experts; nothing for a dense model."""
    experts = config.field("experts", default=ffns.field("experts", default=1))
    if experts == 1:
        return {}
    inner = config.size("moe_intermediate_size", default=ffn)
    shared = config.size("n_shared_experts", default=0, least=0) * inner
    fields = {
        "experts": experts,
        "experts_per_token": config.field(
            "experts_per_token", default=ffns.size("moe_top_k", default=0) or None
        ),
        "ffn": inner,
        "shared_ffn": config.size("shared_expert_intermediate_size", default=shared, least=0),
        "dense_layers": _dense_layers(config, layers),
        "dense_ffn": config.size("intermediate_size_mlp", default=ffn),
    }
    if config.kind == "llama4_text":
        fields["shared_ffn"] = inner
    return fields


def _dense_layers(config: _Config, layers: int) -> int:
    """How many layers have one plain MLP."""
    if config.kind == "llama4_text":
        return layers - layers // config.size("interleave_moe_layer_step", default=1)
    dense = layers - layers // config.size("decoder_sparse_step", default=1)
    listed = config.raw.get("mlp_only_layers")
    dense += len(listed) if isinstance(listed, list) else 0
    return dense + config.size("first_k_dense_replace", default=0, least=0)


def _t5(config: _Config) -> dict[str, Any]:
    layers = config.field("layers")
    return {
        "layers": layers,
        "decoder_layers": config.size("num_decoder_layers", default=layers),
        "width": config.field("width"),
        "heads": config.field("heads"),
        "head_dim": config.field("head_dim"),
        "ffn": config.field("ffn"),
        "vocab": config.field("vocab"),
        "gated": config.text("feed_forward_proj").startswith("gated"),
        "tied": config.flag("tie_word_embeddings", default=True),
        "buckets": config.size("relative_attention_num_buckets", default=32),
    }


def _two_stacks(config: _Config) -> dict[str, Any]:
    fields = {
        "layers": config.size("encoder_layers"),
        "decoder_layers": config.size("decoder_layers"),
        "width": config.field("width"),
        "heads": config.size("encoder_attention_heads"),
        "ffn": config.size("encoder_ffn_dim"),
        "vocab": config.field("vocab"),
    }
    if config.kind == "whisper":
        fields["mels"] = config.size("num_mel_bins")
        fields["positions"] = config.size("max_source_positions", default=1500)
        fields["decoder_positions"] = config.size("max_target_positions", default=448)
        return fields
    rows = config.size("max_position_embeddings") + 2
    return fields | {"positions": rows, "decoder_positions": rows}


def _vit(config: _Config) -> dict[str, Any]:
    patch, image = config.size("patch_size"), config.size("image_size")
    labels = config.raw.get("id2label")
    return {
        "layers": config.field("layers"),
        "width": config.field("width"),
        "heads": config.field("heads"),
        "ffn": config.field("ffn"),
        "patch": patch,
        "positions": (image // patch) ** 2 + 1,
        "vocab": len(labels) if isinstance(labels, dict) and labels else 1000,
    }


def _tower_params(raw: Mapping[str, Any]) -> int:
    """The parameters of a plain vision transformer beside the text part; 0: none, or another."""
    vision = raw.get("vision_config")
    if not isinstance(vision, dict):
        return 0
    config = _Config({"model_type": "siglip_vision_model", **vision})
    needed = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
              "patch_size", "image_size")  # fmt: skip
    if config.kind != "siglip_vision_model" or any(config.raw.get(n) is None for n in needed):
        return 0
    layers, width, heads, ffn, patch, image = (config.size(name) for name in needed)
    tower = Layout(
        layers=layers, width=width, heads=heads, ffn=ffn, vocab=0, patch=patch,
        positions=(image // patch) ** 2, **CONVENTIONS["siglip_vision_model"],
    )  # fmt: skip
    return tower.params()
