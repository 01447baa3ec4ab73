"""Reading config.json files: the usual architectures as published, and files that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.published_models import LLAMA, PUBLISHED
from tracker.domain.model import ModelShape
from tracker.domain.models import Models
from tracker.domain.models_config import ConfigError, layout_from_config, shape_from_config

MODELS = Models.from_toml((files("tracker") / "data" / "models.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_gives_the_shape_of_the_catalogue(name: str) -> None:
    shape = shape_from_config(json.dumps(PUBLISHED[name]), name)
    known = MODELS.get(name)
    assert known.shape is not None
    # Counted here, published there; the image part of Llama 4 is not counted.
    assert shape.params == pytest.approx(known.counted, rel=0.003)
    same = {"params": known.shape.params, "active_params": known.shape.active_params}
    assert replace(shape, **same) == known.shape
    if known.counted_active is not None:
        assert shape.active_params == pytest.approx(known.counted_active, rel=0.003)


def test_a_model_that_reads_images_is_counted_with_its_image_part() -> None:
    raw = PUBLISHED["Gemma 3 4B"]
    whole = shape_from_config(json.dumps(raw)).params
    text = shape_from_config(json.dumps({**raw, "vision_config": None})).params
    assert whole - text == pytest.approx(417e6, rel=0.001)
    assert layout_from_config(json.dumps(raw)).params() == text


def test_what_the_file_calls_itself_is_the_name() -> None:
    assert shape_from_config(json.dumps(LLAMA)).name == "llama"
    named = {**LLAMA, "_name_or_path": "owner/\x1b[31mname\n2"}
    assert shape_from_config(json.dumps(named)).name == "owner/[31mname 2"
    assert shape_from_config(json.dumps(LLAMA), "mine").name == "mine"


@pytest.mark.parametrize("kind", ["something_new", "", None])
def test_an_unknown_architecture_with_the_usual_fields_is_read(kind: str | None) -> None:
    shape = shape_from_config(json.dumps({**LLAMA, "model_type": kind or ""}))
    assert shape.params == 8_030_261_248
    assert shape.gated


def test_an_unknown_architecture_with_plain_norms_has_biases_and_one_embedding() -> None:
    raw = {**PUBLISHED["BERT large"], "model_type": "something_new", "layer_norm_eps": 1e-12}
    shape = shape_from_config(json.dumps(raw))
    assert shape.params == pytest.approx(335_141_888, rel=0.01)
    assert not shape.gated


def test_what_is_missing_is_named_in_one_line() -> None:
    raw = {key: LLAMA[key] for key in LLAMA if key not in ("hidden_size", "vocab_size")}
    with pytest.raises(ConfigError, match=r"missing hidden_size, vocab_size \(model_type 'llama'"):
        shape_from_config(json.dumps(raw))
    with pytest.raises(ConfigError, match=r"missing .*num_hidden_layers, .* not given"):
        shape_from_config("{}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "4096"}, "hidden_size is '4096', not a whole number"),
        ({"hidden_size": 4096.5}, "hidden_size is 4096.5, not a whole number"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": -1}, "hidden_size is -1, not in 1 to"),
        ({"hidden_size": 0}, "hidden_size is 0, not in 1 to"),
        ({"hidden_size": [4096]}, "not a whole number"),
        ({"vocab_size": 10**30}, "a number of more than 18 digits, not in 1 to"),
        ({"hidden_size": 10**9, "num_hidden_layers": 10**9}, "parameters cannot be"),
        ({"num_attention_heads": 5000, "num_key_value_heads": 5000}, "5000 heads are more"),
        ({"num_key_value_heads": 64}, "64 KV heads, but 32 heads"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no', not true or false"),
        ({"model_type": 3}, "model_type is not a text"),
        ({"num_local_experts": 8}, "missing num_experts_per_tok"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "9 of 8 experts"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 40},
         "40 of 32 layers have no experts"),
        ({"attn_config": 3}, "attn_config is not an object"),
        ({"kv_lora_rank": 512}, "missing qk_nope_head_dim, qk_rope_head_dim, v_head_dim"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        shape_from_config(json.dumps({**LLAMA, **change}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("hidden_size: 4096", "not JSON"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"hidden_size": NaN}', "NaN is not a number"),
        ('{"hidden_size": -Infinity}', "-Infinity is not a number"),
        (json.dumps(LLAMA).replace("4096", "1e999"), "hidden_size is inf"),
        (json.dumps(LLAMA).replace("4096", "9" * 5000), "not JSON"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        (" " * 3_000_000, "characters are too many"),
        ('{"text_config": [1]}', "text_config is not an object"),
    ],
)
def test_a_file_that_is_no_config(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        shape_from_config(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_whole_number_written_as_a_float_is_one() -> None:
    assert shape_from_config(json.dumps({**LLAMA, "hidden_size": 4096.0})).width == 4096


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.integers(1, 300) | st.sampled_from(["silu", "gated-gelu", 10**40, 1e300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)  # fmt: skip


@given(data=st.data(), name=st.sampled_from(list(PUBLISHED)))
def test_whatever_a_field_holds_there_is_a_shape_or_one_clear_line(
    data: st.DataObject, name: str
) -> None:
    raw = dict(PUBLISHED[name])
    for _ in range(data.draw(st.integers(1, 3))):
        field = data.draw(st.sampled_from([*raw, "kv_lora_rank", "num_experts", "text_config"]))
        raw[field] = data.draw(VALUES)
    try:
        shape = shape_from_config(json.dumps(raw))
    except ConfigError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 400
    else:
        assert isinstance(shape, ModelShape)
        assert 0 < shape.active <= shape.params <= 10**15


@given(VALUES)
def test_any_json_is_a_shape_or_one_clear_line(value: object) -> None:
    with pytest.raises(ConfigError):
        shape_from_config(json.dumps(value))
