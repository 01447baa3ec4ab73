"""How a transformer is put together, down to norms and biases, and how many parameters that makes.

``Layout`` counts what ``ModelShape`` leaves out (norms, biases, positions, experts that are shared,
latent attention, a second stack). ``MmDit`` does the same for diffusion transformers. Counts are
exact for the architectures of ``CONVENTIONS``; drafts for speculative decoding (multi-token
prediction) are not counted, and neither are buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from tracker.domain.model import ModelShape

__all__ = ["CONVENTIONS", "Layout", "MmDit"]

_VALUES_OF_A_NORM = {"none": 0, "rms": 1, "layer": 2}  # per unit of width: scale, and shift
_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """A transformer of ``layers`` blocks of ``width``. Sizes count.

    ``ffn`` is the inner width of one MLP (of one expert), 0: none. ``vocab`` are the tokens, or
    with ``patch`` (images cut into squares of so many pixels) or ``mels`` alone the classes.
    ``decoder_layers`` above 0: an encoder of ``layers`` and a decoder with cross-attention.
    ``experts`` above 1: all layers but ``dense_layers`` (whose MLP is ``dense_ffn`` wide) have
    that many, ``experts_per_token`` used, and ``shared_ffn`` of inner width always used.
    ``kv_rank`` above 0: latent attention, where a head has ``head_dim`` + ``rope_dim`` in its
    queries and ``value_dim`` in its values.
    """

    layers: int
    width: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int = 0  # 0: as many as heads
    head_dim: int = 0  # 0: width / heads
    decoder_layers: int = 0
    gated: bool = True
    tied: bool = False  # input and output share one embedding; or there is no output
    # experts
    experts: int = 1
    experts_per_token: int = 1
    shared_ffn: int = 0
    shared_gate: bool = False
    dense_layers: int = 0
    dense_ffn: int = 0
    router_bias: bool = False
    # latent attention
    kv_rank: int = 0
    q_rank: int = 0  # 0: queries are not compressed
    rope_dim: int = 0
    value_dim: int = 0
    # small parts
    norm: Literal["none", "rms", "layer"] = "rms"
    norms: int = 2  # of a block, the one of cross-attention not counted
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["none", "head", "width"] = "none"  # one for all heads, or for all their values
    qkv_bias: bool = False
    key_bias: bool = True  # where qkv_bias is
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    sinks: bool = False  # a learned logit for every head
    positions: int = 0  # learned ones
    decoder_positions: int = 0
    token_types: int = 0
    buckets: int = 0  # of relative positions, per head and stack
    pooler: bool = False
    patch: int = 0
    class_token: bool = False
    mels: int = 0  # frequency bands of a spectrogram, read by two convolutions of width 3

    @property
    def head(self) -> int:
        """Width of one head."""
        return self.head_dim or self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Heads whose keys and values are kept."""
        return self.kv_heads or self.heads

    def params(self) -> int:
        """All parameters."""
        if self.experts == 1:
            return self._around() + (self.layers + self.decoder_layers) * self._block(self._mlp())
        every = self.experts * self._mlp()
        return self._around() + self._mixture(every)

    def active_params(self) -> int:
        """The parameters that one token meets, embeddings counted whole."""
        if self.experts == 1:
            return self.params()
        return self._around() + self._mixture(self.experts_per_token * self._mlp())

    def shape(self, name: str, params: float | None = None) -> ModelShape:
        """What the estimator needs of it; *params*: a published count instead of the own one.

        A second stack counts as more layers. Only the layers of a decoder keep keys and values.
        Raises ValueError for a shape that cannot be.
        """
        counted = self.params()
        total = counted if params is None else params
        kept = self.kv_rank + self.rope_dim if self.kv_rank else None
        if self.decoder_layers:  # keys and values of its own context; of the input they are fixed
            layers = self.layers + self.decoder_layers
            kept = -(-2 * self.key_heads * self.head * self.decoder_layers // layers)
        return ModelShape(
            name=name,
            params=total,
            active_params=self.active_params() * total / counted if self.experts > 1 else None,
            layers=self.layers + self.decoder_layers,
            width=self.width,
            vocab=self.vocab,
            heads=self.heads,
            kv_heads=self.key_heads,
            ffn=self.ffn,
            gated=self.gated,
            tied=self.tied or self.patch > 0,
            # Scores are heads x (head + rope) wide, values heads x value: the mean of both.
            head_dim=(self.head + self.rope_dim + self.value_dim) // 2
            if self.kv_rank
            else self.head,
            experts=self.experts,
            kv_values_per_layer=kept,
        )

    def _around(self) -> int:
        """Everything outside the blocks, and what a second stack has more of."""
        width, stacks = self.width, 2 if self.decoder_layers else 1
        total = stacks * (self.final_norm * self._norm() + self.buckets * self.heads)
        total += self.decoder_layers * (self._attention() + self._norm())  # cross-attention
        total += (self.positions + self.decoder_positions + self.token_types) * width
        total += self.embedding_norm * self._norm() * stacks
        total += self.pooler * (width * width + width)
        if self.patch:
            total += _CHANNELS * self.patch**2 * width + width + self.class_token * width
            return total + self.vocab * width + self.head_bias * self.vocab
        if self.mels:
            total += 3 * self.mels * width + width + 3 * width * width + width
        return total + self.vocab * width * (1 if self.tied else 2) + self.head_bias * self.vocab

    def _mixture(self, experts: int) -> int:
        """The blocks, where *experts* are the parameters of the experts of one block."""
        router = self.width * self.experts + self.router_bias * self.experts
        shared = self._mlp_of(self.shared_ffn) if self.shared_ffn else 0
        sparse = self._block(experts + router + shared + self.shared_gate * self.width)
        dense = self._block(self._mlp_of(self.dense_ffn)) if self.dense_layers else 0
        return (self.layers - self.dense_layers) * sparse + self.dense_layers * dense

    def _block(self, mlp: int) -> int:
        return self._attention() + mlp + self.norms * self._norm()

    def _norm(self) -> int:
        return _VALUES_OF_A_NORM[self.norm] * self.width

    def _mlp(self) -> int:
        return self._mlp_of(self.ffn) if self.ffn else 0

    def _mlp_of(self, ffn: int) -> int:
        inner = 2 if self.gated else 1
        return self.width * ffn * (inner + 1) + self.mlp_bias * (inner * ffn + self.width)

    def _attention(self) -> int:
        if self.kv_rank:
            return self._latent_attention()
        queries, keys = self.heads * self.head, self.key_heads * self.head
        total = self.width * (2 * queries + 2 * keys)
        total += self.qkv_bias * (queries + keys + self.key_bias * keys)
        total += self.out_bias * self.width
        norms = {"none": 0, "head": 2 * self.head, "width": queries + keys}
        return total + norms[self.qk_norm] + self.sinks * self.heads

    def _latent_attention(self) -> int:
        """Queries and keys through narrow matrices with a norm each (arXiv:2405.04434)."""
        per_head = self.head + self.rope_dim
        if self.q_rank:
            total = self.q_rank * (self.width + 1 + self.heads * per_head)
        else:
            total = self.width * self.heads * per_head
        total += self.width * (self.kv_rank + self.rope_dim) + self.kv_rank
        total += self.kv_rank * self.heads * (self.head + self.value_dim)
        return total + self.heads * self.value_dim * self.width


@dataclass(frozen=True, slots=True)
class MmDit:
    """A diffusion transformer with one stream each for image and text (arXiv:2403.03206).

    ``layers`` have two streams, ``single_layers`` one for both, with attention and MLP side by
    side. ``text_width`` and ``pooled_width``: of what the text encoders give. ``patch_values``: of
    one image token. ``guidance``: its strength is an input. ``last_text_half``: the last layer's
    text stream ends with its keys and values.
    """

    layers: int
    width: int
    heads: int
    single_layers: int = 0
    text_width: int = 4096
    pooled_width: int = 768
    patch_values: int = 64
    guidance: bool = False
    qk_norm: bool = False
    last_text_half: bool = False

    def params(self) -> int:
        """All parameters; fixed position embeddings are not counted."""
        width, square = self.width, self.width**2
        norms = 2 * (width // self.heads) * self.qk_norm
        # modulation 6, queries to values 3, output 1, MLP 8 squares, each with its biases
        stream = 18 * square + 15 * width + norms
        single = 15 * square + 11 * width + norms
        total = 2 * self.layers * stream + self.single_layers * single
        if self.last_text_half:  # 2 of the 6 modulations and queries to values stay
            total -= 13 * square + 10 * width
        two_steps = square + 2 * width  # and the first matrix, from what is read
        total += 256 * width + two_steps + self.pooled_width * width + two_steps
        total += self.guidance * (256 * width + two_steps)
        total += self.text_width * width + width + self.patch_values * width + width
        return total + 2 * square + 2 * width + (width + 1) * self.patch_values


_BIASED: Mapping[str, Any] = MappingProxyType(
    {"gated": False, "norm": "layer", "qkv_bias": True, "out_bias": True, "mlp_bias": True}
)
_PLAIN: Mapping[str, Any] = MappingProxyType({"gated": False, "norm": "layer"})

#: What the models of an architecture (``model_type`` of a config.json) have in common.
CONVENTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "llama": {},
        "mistral": {},
        "mixtral": {},
        "phi3": {},
        "granite": {},
        "qwen": {"qkv_bias": True},
        "qwen2": {"qkv_bias": True},
        "qwen2_moe": {"qkv_bias": True, "shared_gate": True},
        "qwen3": {"qk_norm": "head"},
        "qwen3_moe": {"qk_norm": "head"},
        "gemma": {"tied": True},
        "gemma2": {"tied": True, "norms": 4},
        "gemma3_text": {"tied": True, "norms": 4, "qk_norm": "head"},
        "llama4_text": {},
        "deepseek_v2": {},
        "deepseek_v3": {"router_bias": True},
        "kimi_k2": {"router_bias": True},
        "glm4_moe": {"router_bias": True},
        "chatglm": {"qkv_bias": True},
        "glm": {"qkv_bias": True},
        "glm4": {"norms": 4},
        "minimax_m2": {"qk_norm": "width", "router_bias": True},
        "olmo": {"norm": "none"},
        "olmo2": {"qk_norm": "width"},
        "olmo3": {"qk_norm": "width"},
        "olmoe": {"qk_norm": "width"},
        "gpt_oss": {
            "qkv_bias": True, "out_bias": True, "mlp_bias": True, "router_bias": True,
            "sinks": True,
        },
        "phimoe": {"norm": "layer", "qkv_bias": True, "out_bias": True, "head_bias": True},
        # The norms of DBRX and Cohere have no shift.
        "dbrx": {},
        "cohere": {"norms": 1, "tied": True},
        "cohere2": {"norms": 1, "tied": True},
        "stablelm": {"norm": "layer"},
        "nemotron": _PLAIN,
        "phi": {**_BIASED, "norms": 1, "head_bias": True},
        "gptj": {**_PLAIN, "norms": 1, "mlp_bias": True, "head_bias": True},
        "gpt_neox": _BIASED,
        "gpt2": {**_BIASED, "tied": True},
        "gpt_neo": {**_PLAIN, "out_bias": True, "mlp_bias": True, "tied": True},
        "gpt_bigcode": {**_BIASED, "tied": True},
        "starcoder2": {**_BIASED, "tied": True},
        "opt": {**_BIASED, "tied": True},
        "bloom": {**_BIASED, "tied": True, "embedding_norm": True},
        # Falcon's files hold the one matrix of its two embeddings twice, and so it is counted.
        "falcon": _PLAIN,
        # MPT's norms have no shift.
        "mpt": {"gated": False, "tied": True},
        "bert": {**_BIASED, "tied": True, "embedding_norm": True, "final_norm": False,
                 "pooler": True},
        "roberta": {**_BIASED, "tied": True, "embedding_norm": True, "final_norm": False,
                    "pooler": True},
        "distilbert": {**_BIASED, "tied": True, "embedding_norm": True, "final_norm": False},
        # The norm at the end is that of the relative positions.
        "deberta": {**_BIASED, "tied": True, "embedding_norm": True},
        # Norms without shift; a linear layer that only training needs is not counted.
        "modernbert": {"tied": True, "embedding_norm": True},
        "t5": {"gated": False, "tied": True, "buckets": 32},
        "bart": {**_BIASED, "tied": True, "embedding_norm": True, "final_norm": False},
        "vit": {**_BIASED, "tied": True, "class_token": True, "head_bias": True},
        "siglip_vision_model": {**_BIASED, "tied": True},
        "whisper": {**_BIASED, "tied": True, "key_bias": False},
    }
)  # fmt: skip
