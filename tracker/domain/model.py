"""The shape of a language model, and what follows from it: parameters, KV cache, FLOPs.

Formulas: parameters by counting the matrices of a decoder (arXiv:2104.04473 for the plain form);
forward FLOPs per token 2 N + 4 L d S (llm-foundry's convention: attention as if not causal);
KV cache 2 L n_kv d_head values a token.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelShape"]

# Where only the number of parameters is known: the shape of the GPT-3 series, width = 128 layers.
_HEAD_DIM = 128
_WIDTH_PER_LAYER = 128
_MATRICES_OF_A_BLOCK = 12


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A transformer. ``params`` and ``active_params`` (per token, of a mixture of experts) count.

    ``ffn`` is the inner width of one MLP (of one expert), ``gated`` says that it has three
    matrices, ``tied`` that input and output share one embedding. ``kv_heads`` counts the heads
    whose keys and values are kept. ``kv_values_per_layer`` overrides what those come to, for
    models that keep something else (a latent). ``guessed``: the shape was made up from the number
    of parameters. Raises ValueError for a shape that cannot be.
    """

    name: str
    params: float
    layers: int
    width: int
    vocab: int
    heads: int
    kv_heads: int
    ffn: int
    gated: bool = True
    tied: bool = False
    active_params: float | None = None
    head_dim: int | None = None
    experts: int = 1
    kv_values_per_layer: int | None = None
    guessed: bool = False

    def __post_init__(self) -> None:
        sizes = (self.params, self.layers, self.width, self.vocab, self.heads, self.kv_heads)
        if min(sizes) <= 0 or self.ffn <= 0 or self.experts < 1:
            raise ValueError(f"{self.name}: every size of a model must be above 0")
        if self.kv_heads > self.heads:
            raise ValueError(f"{self.name}: {self.kv_heads} KV heads, but {self.heads} heads")
        if self.active_params is not None and not 0 < self.active_params <= self.params:
            raise ValueError(f"{self.name}: the active parameters must lie in (0, {self.params:g}]")

    @classmethod
    def of_params(
        cls, name: str, params: float, active_params: float | None = None, vocab: int = 32_000
    ) -> ModelShape:
        """A plausible shape where only the number of parameters is known.

        Width = (128 N / 12)^(1/3) and layers = width / 128, rounded, of the active parameters.
        Raises ValueError.
        """
        dense = params if active_params is None else active_params
        if not dense > 0:
            raise ValueError(f"{name}: the number of parameters must be above 0")
        raw = (_WIDTH_PER_LAYER * dense / _MATRICES_OF_A_BLOCK) ** (1 / 3)
        heads = max(1, round(raw / _HEAD_DIM))
        return cls(
            name=name,
            params=params,
            active_params=active_params,
            layers=max(1, round(raw / _WIDTH_PER_LAYER)),
            width=heads * _HEAD_DIM,
            vocab=vocab,
            heads=heads,
            kv_heads=heads,
            ffn=4 * heads * _HEAD_DIM,
            gated=False,
            guessed=True,
        )

    @property
    def active(self) -> float:
        """Parameters that one token meets."""
        return self.params if self.active_params is None else self.active_params

    @property
    def kv_width(self) -> int:
        """Width of the keys (and of the values) of one layer."""
        return self.kv_heads * (self.head_dim or self.width // self.heads)

    def divides_among(self, gpus: int) -> bool:
        """Whether tensor parallelism over *gpus* gives each as many heads.

        The rule of vLLM, SGLang and TensorRT-LLM: the GPUs divide the heads; they divide the KV
        heads too, or are a multiple of them, which are then kept more than once. Latent attention
        has no KV heads to divide, and of a shape that was made up nobody knows.
        """
        if self.guessed or gpus == 1:
            return True
        even = self.kv_heads % gpus == 0 or gpus % self.kv_heads == 0
        return self.heads % gpus == 0 and (even or self.kv_values_per_layer is not None)

    @property
    def embedding_params(self) -> float:
        """Input and output embedding together: what 4-bit weights leave in 16 bits."""
        return self.vocab * self.width * (1 if self.tied else 2)

    @property
    def params_of_shape(self) -> float:
        """The parameters that this shape has, norms and biases left out (under 1 %)."""
        attention = self.width * (2 * self.heads * self._head + 2 * self.kv_width)
        mlp = self.width * self.ffn * (3 if self.gated else 2) * self.experts
        router = self.width * self.experts if self.experts > 1 else 0
        return self.layers * (attention + mlp + router) + self.embedding_params

    @property
    def _head(self) -> int:
        return self.head_dim or self.width // self.heads

    def kv_bytes_per_token(self, bytes_per_value: float = 2.0) -> float:
        """What a token of context keeps in the KV cache, in bytes."""
        if self.kv_values_per_layer is not None:
            return self.layers * self.kv_values_per_layer * bytes_per_value
        return 2 * self.layers * self.kv_width * bytes_per_value

    def matmul_flops_per_token(self) -> float:
        """FLOPs of one forward pass in the matrices: 2 N, of the active parameters."""
        return 2 * self.active

    def attention_flops_per_token(self, seq_len: float) -> float:
        """FLOPs of one forward pass in attention, 4 L d S: as if it were not causal."""
        return 4 * self.layers * self.heads * self._head * seq_len

    def forward_flops_per_token(self, seq_len: float) -> float:
        """FLOPs of one forward pass: 2 N + 4 L d S."""
        return self.matmul_flops_per_token() + self.attention_flops_per_token(seq_len)

    def mlp_bytes_per_token(self) -> float:
        """16-bit values that one layer's MLP keeps for its backward pass, in bytes per token.

        Input and output of the non-linearity: 4 bytes per inner unit, 8 where a gate is beside it.
        """
        active_experts = 1.0
        if self.experts > 1:
            expert = self.width * self.ffn * (3 if self.gated else 2) * self.layers
            active_experts = max(1.0, self.experts - (self.params - self.active) / expert)
        return (8 if self.gated else 4) * self.ffn * active_experts
