"""Parameters, KV cache and FLOPs from a model's shape."""

from __future__ import annotations

import pytest

from tracker.domain.model import ModelShape

LLAMA2_7B = ModelShape("Llama-2-7B", 6.738e9, 32, 4096, 32_000, 32, 32, 11_008)
LLAMA3_8B = ModelShape("Llama-3-8B", 8.030e9, 32, 4096, 128_256, 32, 8, 14_336)
LLAMA3_70B = ModelShape("Llama-3-70B", 70.554e9, 80, 8192, 128_256, 64, 8, 28_672)
GPT3 = ModelShape("GPT-3", 174.6e9, 96, 12_288, 51_200, 96, 96, 49_152, gated=False, tied=True)
MIXTRAL = ModelShape(
    "Mixtral-8x7B", 46.7e9, 32, 4096, 32_000, 32, 8, 14_336, active_params=12.9e9, experts=8
)


@pytest.mark.parametrize("shape", [LLAMA2_7B, LLAMA3_8B, LLAMA3_70B, GPT3, MIXTRAL], ids=str)
def test_the_shape_has_the_published_number_of_parameters(shape: ModelShape) -> None:
    assert shape.params_of_shape == pytest.approx(shape.params, rel=0.01)


@pytest.mark.parametrize(
    ("shape", "kib"), [(LLAMA2_7B, 512), (LLAMA3_8B, 128), (LLAMA3_70B, 320)], ids=str
)
def test_a_token_keeps_this_much_in_the_cache(shape: ModelShape, kib: int) -> None:
    assert shape.kv_bytes_per_token() == kib * 1024
    assert shape.kv_bytes_per_token(1.0) == kib * 512


def test_flops_are_two_per_parameter_and_attention() -> None:
    assert GPT3.forward_flops_per_token(2048) == 2 * 174.6e9 + 4 * 96 * 12_288 * 2048


def test_experts_that_a_token_does_not_meet_cost_no_flops_but_memory() -> None:
    assert MIXTRAL.matmul_flops_per_token() == 2 * 12.9e9
    assert MIXTRAL.mlp_bytes_per_token() == pytest.approx(2 * 8 * 14_336, rel=0.02)


def test_a_latent_cache_is_counted_as_said() -> None:
    shape = ModelShape("latent", 1e9, 10, 1024, 1000, 8, 8, 4096, kv_values_per_layer=576)
    assert shape.kv_bytes_per_token() == 10 * 576 * 2


@pytest.mark.parametrize("params", [124e6, 1.3e9, 7e9, 70e9, 175e9])
def test_a_shape_made_up_from_parameters_has_about_as_many(params: float) -> None:
    shape = ModelShape.of_params("some", params)
    assert shape.guessed
    assert shape.params == params
    blocks = shape.params_of_shape - shape.embedding_params
    assert blocks == pytest.approx(params, rel=0.2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "above 0"),
        ({"kv_heads": 64}, "64 KV heads, but 32 heads"),
        ({"active_params": 1e12}, "active parameters"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change: dict[str, float], words: str) -> None:
    sizes = {
        "params": 7e9, "layers": 32, "width": 4096, "vocab": 32_000,
        "heads": 32, "kv_heads": 32, "ffn": 11_008,
    }  # fmt: skip
    with pytest.raises(ValueError, match=words):
        ModelShape("x", **{**sizes, **change})  # type: ignore[arg-type]
