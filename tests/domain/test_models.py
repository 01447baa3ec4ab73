"""The catalogue of models: facts that check each other, and names as people write them."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.models import Kind, Models, UnknownModel
from tracker.domain.models_layout import Layout, MmDit
from tracker.domain.runtime.calibration import Calibration

DATA = files("tracker") / "data"
TEXT = (DATA / "models.toml").read_text(encoding="utf-8")
MODELS = Models.from_toml(TEXT)
NAMES = MODELS.names()
TRANSFORMERS = [name for name in NAMES if MODELS.get(name).layout is not None]
MIXTURES = [name for name in NAMES if MODELS.get(name).counted_active is not None]

USUAL = """Llama 1 7B, Llama 2 7B, Llama 3 70B, Llama 3.1 405B, Llama 3.2 3B, Llama 3.3 70B,
Llama 4 Scout, Mistral 7B, Mixtral 8x7B, Qwen1.5 7B, Qwen2 7B, Qwen2.5 72B, Qwen3 8B, Qwen3 30B A3B,
Gemma 7B, Gemma 2 9B, Gemma 3 27B, DeepSeek V2, DeepSeek V3, DeepSeek R1,
DeepSeek R1 Distill Qwen 7B, Phi 3 mini, Phi 4, GPT-2, GPT-2 XL, GPT-J, GPT-NeoX, Pythia 12B,
OPT 175B, BLOOM 176B, Falcon 180B, MPT 7B, StarCoder, Yi 34B, OLMo 7B, TinyLlama, gpt-oss 120b,
GLM-4.5, Command R, BERT base, BERT large, RoBERTa, T5 11B, ViT-B/16, ViT-L/16, ResNet-50,
ResNet-152, Stable Diffusion 1.5, Stable Diffusion 2.1, SDXL, SD3, FLUX, Whisper tiny,
Whisper large v3, DLRM v2"""

# What the owners' files hold, to the last parameter: norms, biases and all.
EXACT = {
    "LLaMA 7B": 6_738_415_616,
    "Llama 3.1 405B": 405_853_388_800,
    "Mistral Nemo 12B": 12_247_782_400,
    "Mixtral 8x7B": 46_702_792_704,
    "Qwen2.5 7B": 7_615_616_512,
    "Qwen1.5 MoE A2.7B": 14_315_784_192,
    "Qwen3 235B A22B": 235_093_634_560,
    "Gemma 2 27B": 27_227_128_320,
    "Gemma 3 1B": 999_885_952,
    "DeepSeek V2 Lite": 15_706_484_224,
    "Phi 2": 2_779_683_840,
    "Phi 3.5 MoE": 41_873_153_344,
    "GPT-2 XL": 1_557_611_200,
    "GPT-NeoX 20B": 20_554_567_680,
    "BLOOM 176B": 176_247_271_424,
    "Falcon 180B": 179_522_565_120,
    "StarCoder2 15B": 15_957_889_024,
    "OLMo 2 13B": 13_716_198_400,
    "OLMoE 1B 7B": 6_919_161_856,
    "gpt-oss 20B": 20_914_757_184,
    "gpt-oss 120B": 116_829_156_672,
    "Command R+": 103_810_674_688,
    "BERT large": 335_141_888,
    "DeBERTa v3 large": 434_012_160,
    "T5 11B": 11_307_321_344,
    "ViT-L/16": 304_326_632,
    "Whisper medium": 763_857_920,
    "Stable Diffusion 3 medium": 2_028_328_000,
    "FLUX.1 dev": 11_901_408_320,
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_count_of_the_layout_is_the_published_one_within_a_percent(name: str) -> None:
    model = MODELS.get(name)
    assert model.counted == pytest.approx(model.params, rel=0.01)


@pytest.mark.parametrize("name", EXACT)
def test_the_count_is_exact_for_every_kind_of_layout(name: str) -> None:
    assert MODELS.get(name).counted == EXACT[name]


@pytest.mark.parametrize("name", MIXTURES)
def test_the_active_parameters_are_the_published_ones(name: str) -> None:
    """Owners count both embeddings, the output's alone, or neither; and round."""
    model = MODELS.get(name)
    layout = model.layout
    assert isinstance(layout, Layout)
    embedding = layout.vocab * layout.width
    ways = [layout.active_params() - left_out * embedding for left_out in range(3)]
    assert model.active_params is not None
    assert min(abs(way / model.active_params - 1) for way in ways) < 0.03


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_layout_is_one_that_can_be(name: str) -> None:
    layout = MODELS.get(name).layout
    assert layout is not None
    if isinstance(layout, MmDit):
        assert layout.width % layout.heads == 0
        return
    assert layout.heads % layout.key_heads == 0
    assert layout.head_dim or layout.width % layout.heads == 0
    assert layout.experts_per_token <= layout.experts
    assert 0 <= layout.dense_layers < layout.layers
    assert layout.active_params() <= layout.params()


@pytest.mark.parametrize(
    "name", [n for n in TRANSFORMERS if MODELS.get(n).kind is Kind.DECODER]
)  # fmt: skip
def test_the_shape_counts_the_same_by_its_own_formula(name: str) -> None:
    model = MODELS.get(name)
    shape, layout = model.shape, model.layout
    assert shape is not None
    assert isinstance(layout, Layout)
    assert shape.params == model.params
    if layout.kv_rank or layout.dense_layers or layout.shared_ffn or model.tower:
        return  # the formula knows nothing of these
    assert shape.params_of_shape == pytest.approx(shape.params, rel=0.025)


@pytest.mark.parametrize(
    ("name", "kibibytes"),
    [
        ("Llama 2 7B", 512),
        ("Llama 3 8B", 128),
        ("Llama 3 70B", 320),
        ("Mistral 7B", 128),
        ("Falcon 7B", 8),  # one head keeps keys and values
        ("DeepSeek V3", 61 * (512 + 64) * 2 / 1024),  # latent, the same for all heads
        ("T5 large", 24 * 2 * 1024 * 2 / 1024),  # the decoder's layers alone
    ],
)
def test_what_a_token_of_context_keeps(name: str, kibibytes: float) -> None:
    shape = MODELS.get(name).shape
    assert shape is not None
    assert shape.kv_bytes_per_token() == kibibytes * 1024


def test_attention_of_latent_heads_is_counted_at_their_true_width() -> None:
    """Scores over 128 + 64 values a head, results of 128: (192 + 128) x 128 heads x 61 layers."""
    shape = MODELS.get("DeepSeek V3").shape
    assert shape is not None
    assert shape.attention_flops_per_token(1000) == 2 * 61 * 128 * (192 + 128) * 1000


def test_only_mixtures_have_active_parameters() -> None:
    for name in NAMES:
        assert (MODELS.get(name).active_params is not None) == (name in MIXTURES)


def test_a_model_without_layout_has_no_shape() -> None:
    for name in ("ResNet-50", "Stable Diffusion XL", "DLRM DCNv2", "FLUX.1 dev"):
        assert MODELS.get(name).shape is None
        assert MODELS.get(name).params > 0


@pytest.mark.parametrize("name", [" ".join(name.split()) for name in USUAL.split(",")])
def test_the_usual_models_are_there(name: str) -> None:
    assert MODELS.get(name).params > 0


def test_every_kind_is_there_with_a_source_and_its_groups() -> None:
    calibration = Calibration.from_csv((DATA / "efficiency.csv").read_text(encoding="utf-8"))
    found = [MODELS.get(name) for name in NAMES]
    assert {model.kind for model in found} == set(Kind)
    for model in found:
        assert model.source
        assert calibration.has_group(model.group), model.name
        assert calibration.has_group(model.inference_group), model.name
        assert model.context is None or 256 <= model.context <= 10**8


def test_the_groups_say_what_the_gpus_do() -> None:
    assert MODELS.get("ResNet-50").group == "vision_cnn"
    assert MODELS.get("Mask R-CNN").group == "vision_detection"
    assert MODELS.get("BERT large").group == "nlp_encoder_train"
    assert MODELS.get("SDXL").inference_group == "diffusion_inference"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "Llama 3.1 8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("llama3.1-8b", "Llama 3.1 8B"),
        ("LLAMA 3.1:8B", "Llama 3.1 8B"),
        ("llama-v3.1-8b", "Llama 3.1 8B"),
        ("llama-2-70b-chat-hf", "Llama 2 70B"),
        ("gpt2-xl", "GPT-2 XL"),
        ("gpt neox 20b", "GPT-NeoX 20B"),
        ("Mistral-7B-Instruct-v0.2", "Mistral 7B v0.1"),
        ("Mixtral-8x7B-Instruct-v0.1", "Mixtral 8x7B"),
        ("google/gemma-2-9b-it", "Gemma 2 9B"),
        ("deepseek-ai/DeepSeek-R1-0528", "DeepSeek R1"),
        ("openai/gpt-oss-20b", "gpt-oss 20B"),
        ("EleutherAI/pythia-12b-deduped", "Pythia 12B"),
        ("command-r-plus", "Command R+"),
        ("Command R", "Command R"),
        ("BERT-Large", "BERT large"),
        ("bert-base-uncased", "BERT base"),
        ("vit_b_16", "ViT-B/16"),
        ("ViT-B/32", "ViT-B/32"),
        ("resnet50", "ResNet-50"),
        ("whisper large-v3", "Whisper large v3"),
        ("  t5-3b ", "T5 3B"),
    ],
)
def test_a_name_in_another_spelling(spelling: str, name: str) -> None:
    assert MODELS.get(spelling).name == name


def test_numbers_are_not_run_together() -> None:
    with pytest.raises(UnknownModel):
        MODELS.get("Llama 3 18B")  # "Llama 3.1 8B" squeezed reads almost the same
    assert MODELS.get("OPT 1.3B").name == "OPT 1.3B"
    with pytest.raises(UnknownModel):
        MODELS.get("OPT 13B")


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_case_and_punctuation_do_not_matter(data: st.DataObject, name: str) -> None:
    draw = st.sampled_from(" -_:/")
    respelled = "".join(
        data.draw(draw) if char in " -/" else data.draw(st.sampled_from((char, char.swapcase())))
        for char in name
    )
    assert MODELS.get(respelled).name == name


@given(st.text(max_size=60))
def test_any_text_is_a_model_or_an_unknown_one(text: str) -> None:
    try:
        assert MODELS.get(text).name in NAMES
    except UnknownModel as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("lama 3.1 8b", "Llama 3.1 8B"),
        ("Llama-3.1-8B-Instruct-FP8", "Llama 3.1 8B"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen3 8B"),
        ("resnet-51", "ResNet-50"),
    ],
)
def test_an_unknown_model_says_which_are_near(query: str, nearest: str) -> None:
    with pytest.raises(UnknownModel, match="did you mean") as caught:
        MODELS.get(query)
    assert nearest in caught.value.nearest
    assert caught.value.query == query


@pytest.mark.parametrize("query", ["", "///", "?", "x" * 100_000])
def test_a_name_of_nothing_has_nothing_near(query: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        MODELS.get(query)
    assert caught.value.nearest == ()


# ---------------------------------------------------------------- the file


def test_the_names_read_quickly_are_those_of_the_file() -> None:
    entries = tomllib.loads(TEXT)["model"]
    assert tuple(entry["name"] for entry in entries) == NAMES
    for entry in entries:
        found = MODELS.get(entry["name"])
        assert found.aliases == tuple(entry.get("aliases", ()))
        for spelling in (entry["name"], *found.aliases):
            assert MODELS.get(spelling) == found


ENTRY = '\n[[model]]\nname = "{}"\nkind = "vision"\nparams = 5\nsource = "a paper"\n'


def test_an_entry_is_parsed_when_it_is_asked_for() -> None:
    models = Models.from_toml(ENTRY.format("Fine") + ENTRY.format("Broken") + "params = [\n")
    assert models.names() == ("Fine", "Broken")
    assert models.get("fine").params == 5
    with pytest.raises(tomllib.TOMLDecodeError):
        models.get("broken")


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="A-1 is A 1 and A-1"):
        Models.from_toml(ENTRY.format("A 1") + ENTRY.format("A-1"))
    with pytest.raises(ValueError, match="a second one"):
        Models.from_toml(ENTRY.format("A 1") * 2)
