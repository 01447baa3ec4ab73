"""The catalogue: selection, scaling, bands, aliases and the facts it ships."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tracker.data import names, text
from tracker.domain.gpu import Catalogue, Gpu, Unidentified, UnknownGpu
from tracker.domain.gpu_data import compile_gpus, families_from_json, read_families
from tracker.domain.runtime.figures import figures

GPUS, ALIASES = text("gpus.toml"), text("aliases.toml")
CATALOGUE = Catalogue.from_toml(GPUS, ALIASES)
KEYS = tuple(gpu.key for gpu in CATALOGUE.gpus())


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (
            "h100",
            "H100-SXM-80GB H100-PCIE-80GB H100-NVL-94GB H100-SXM-96GB H100-80GB",
        ),
        ("H100 SXM", "H100-SXM-80GB H100-SXM-96GB"),
        ("H100-SXM-80GB", "H100-SXM-80GB"),
        ("h100_nvl", "H100-NVL-94GB"),
        ("a100-80gb", "A100-SXM-80GB A100-PCIE-80GB A100-80GB"),
        ("A100 40 GB", "A100-SXM-40GB A100-PCIE-40GB A100-40GB"),
        ("A100 PCIe", "A100-PCIE-80GB A100-PCIE-40GB"),
        ("4090", "RTX4090-24GB RTX4090-48GB"),
        ("RTX 4090", "RTX4090-24GB RTX4090-48GB"),
        ("rtx4090", "RTX4090-24GB RTX4090-48GB"),
        ("RTX 4090 48GB", "RTX4090-48GB"),
        ("4090D", "RTX4090D-24GB RTX4090D-48GB"),
        ("4090 laptop", "RTX4090-LAPTOP-16GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM-80GB"),
        ("B200 192GB", "B200-SXM-180GB"),
        ("a100-slice", "A100-SLICE"),
        ("RTX 6000", "RTX6000-24GB"),
        ("RTX 6000 Ada", "RTX6000ADA-48GB"),
        (
            "RTX PRO 6000",
            "RTXPRO6000-SERVER-96GB RTXPRO6000-WS-96GB RTXPRO6000-MAXQ-96GB RTXPRO6000-96GB",
        ),
        ("A10", "A10-24GB"),
        ("L40", "L40-48GB"),
    ],
)
def test_select(query: str, keys: str) -> None:
    assert CATALOGUE.select(query) == set(keys.split())


@pytest.mark.parametrize("query", ["", "H10", "H100,A100", "8x H100", "A100 NVL", "A100 60GB", "x"])
def test_select_refuses_what_it_does_not_know(query: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        CATALOGUE.select(query)
    assert caught.value.query == query


def test_an_unknown_gpu_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownGpu, match="did you mean") as caught:
        CATALOGUE.select("RTX 4900")
    assert any("RTX49" in near or "4090" in near for near in caught.value.nearest)


def whole_cards(family: str) -> frozenset[str]:
    keys = (key for key in CATALOGUE.select(family))
    # "RTX4000" is said of two cards, and covers both.
    return frozenset(key for key in keys if CATALOGUE.gpu(key).family == family)  # type: ignore[union-attr]


def test_families_are_disjoint() -> None:
    covered = [key for family in CATALOGUE.families() for key in whole_cards(family)]
    assert sorted(covered) == sorted(k for k in KEYS if not k.endswith("-SLICE"))


@pytest.mark.parametrize(
    ("key", "speed"),
    [
        ("A100-SXM-80GB", "1"),
        ("A100-PCIE-40GB", "0.7626"),  # 1555 / 2039 GB/s
        ("A100-SXM-40GB", "0.7626"),
        ("A100-PCIE-80GB", "0.9325"),  # 252.9 / 271.2 TFLOPS measured; bandwidth 0.949
        ("A100-80GB", "0.9325"),  # the slower of the two it may be
        ("A100-40GB", "0.7626"),
        ("H100-SXM-80GB", "1"),
        ("H100-PCIE-80GB", "0.5967"),  # 2000 / 3352 GB/s
        ("H100-80GB", "0.5967"),
        ("H100-NVL-94GB", "0.8439"),  # 835 / 989.4 TFLOPS; its bandwidth is higher
        ("RTX4090-24GB", "1"),
        ("V100-PCIE-32GB", "0.8960"),  # FP16, as the V100 has no BF16
    ],
)
def test_relative_speed(key: str, speed: str) -> None:
    answer = CATALOGUE.relative_speed(key)
    assert answer is not None
    assert answer.quantize(Decimal("0.0001")) == Decimal(speed)


@pytest.mark.parametrize("key", ["A100-SLICE", "RTX4090-48GB", "V100-FHHL-16GB", "NO-SUCH"])
def test_relative_speed_is_unknown_without_figures(key: str) -> None:
    assert CATALOGUE.relative_speed(key) is None


def test_no_part_is_faster_than_its_reference() -> None:
    for key in KEYS:
        speed = CATALOGUE.relative_speed(key)
        assert speed is None or 0 < speed <= 1


@pytest.mark.parametrize(
    ("family", "market", "low", "high"),
    [
        ("A100", "on_demand", "0.2", "8"),
        ("A100", "spot", "0.05", "8"),
        ("A100", "monthly", "0.05", "8"),
        ("H100", "on_demand", "0.6", "15"),
        ("H100", "spot", "0.15", "15"),
        ("RTX4090", "on_demand", "0.08", "2.5"),
        ("RTX4090", "spot", "0.03", "2.5"),
        ("RTX4090-LAPTOP", "on_demand", "0.01", "40"),
        ("no such family", "spot", "0.01", "40"),
    ],
)
def test_bands(family: str, market: str, low: str, high: str) -> None:
    assert CATALOGUE.band(family, market) == (Decimal(low), Decimal(high))


def test_the_band_of_a_slice_reaches_lower() -> None:
    low, high = CATALOGUE.band("A100", "on_demand", is_slice=True)
    assert low == Decimal("0.01")  # an A100's twentieth was on sale for 0.12
    assert high == 8


def test_bands_hold_what_was_really_on_sale() -> None:
    """USD per GPU-hour on price lists of 2025-06 to 2026-11."""
    for family, market, price in [
        ("A100", "monthly", "0.5473"),
        ("A100", "on_demand", "4.777"),
        ("H100", "spot", "0.27"),
        ("H100", "on_demand", "12.29"),
        ("H100", "monthly", "2.8753"),
        ("RTX4090", "monthly", "0.3079"),
        ("H200", "on_demand", "10"),
        ("B200", "on_demand", "16.11"),
        ("MI300X", "on_demand", "2.39"),
        ("A30", "spot", "0.11"),
        ("V100", "spot", "0.1"),
        ("A40", "on_demand", "0.6014"),
        ("RTX5090", "monthly", "0.3998"),
        ("A4000", "on_demand", "0.25"),
    ]:
        low, high = CATALOGUE.band(family, market)
        assert low <= Decimal(price) <= high, (family, market)


def test_references() -> None:
    for family, key in [
        ("A100", "A100-SXM-80GB"),
        ("H100", "H100-SXM-80GB"),
        ("RTX4090", "RTX4090-24GB"),
        ("H200", "H200-SXM-141GB"),
        ("V100", "V100-SXM-16GB"),
    ]:
        reference = CATALOGUE.reference(family)
        assert reference is not None
        assert reference.gpu.key == key
        assert reference.reference
    assert CATALOGUE.reference("no such family") is None
    for family in CATALOGUE.families():
        parts = [spec for spec in CATALOGUE.specs() if spec.gpu.family == family]
        assert [spec.reference for spec in parts].count(True) == 1


def test_figures_that_circulate_wrong() -> None:
    h100, a100, a100_40, ada = (
        CATALOGUE.spec(key)
        for key in ("H100-SXM-80GB", "A100-SXM-80GB", "A100-SXM-40GB", "RTX4090-24GB")
    )
    assert h100
    assert a100
    assert a100_40
    assert ada
    assert h100.fp16_tflops == Decimal("989.4")  # 1,979 is the sparse figure
    assert a100.fp8_tflops is None
    assert not a100.fp8
    assert a100.bandwidth_gbps == 2039
    assert a100_40.bandwidth_gbps == 1555
    assert ada.bf16_tflops == Decimal("165.2")  # 330 is with FP16 accumulation
    assert ada.fp8
    assert ada.ecc is False
    assert not ada.mig
    assert a100.mig
    assert a100.nvlink_gbps == 600
    assert ada.nvlink_gbps is None
    blackwell = CATALOGUE.spec("RTX5090-32GB")
    assert blackwell
    assert blackwell.bf16_tflops == Decimal("209.5")  # 838 is sparse, with FP16 accumulation
    assert blackwell.bandwidth_gbps == 1792


def test_figures_of_the_rtx_5090_follow_from_what_nvidia_s_page_of_it_says() -> None:
    """21,760 lanes at 2.407 GHz and 3,352 sparse FP4 TOPS; the ratios are those of GB202."""
    spec = CATALOGUE.spec("RTX5090-32GB")
    assert spec
    vector = Decimal(21760) * 2 * Decimal("2.407") / 1000
    assert spec.fp32_tflops == pytest.approx(vector, rel=Decimal("0.001"))
    assert spec.fp64_tflops == pytest.approx(vector / 64, rel=Decimal("0.003"))
    dense = Decimal(3352) / 2
    assert spec.fp4_tflops == dense
    assert spec.int8_tops == dense / 2
    assert spec.fp8_tflops == dense / 4  # FP32 accumulation halves what INT8 has
    assert spec.fp16_tflops == spec.bf16_tflops == dense / 8
    assert spec.tf32_tflops == pytest.approx(dense / 16, rel=Decimal("0.001"))


def test_memory_is_what_tools_report_of_the_card() -> None:
    """A 24 GB card has 24 GiB; read as 24 x 10^9 bytes it lost 1.6 GiB, and jobs that fit."""
    for key in ("RTX3090-24GB", "RTX4090-24GB", "RTX5090-32GB"):
        spec = CATALOGUE.spec(key)
        assert spec is not None
        known = figures(spec)
        assert known is not None
        assert known.vram_gib == pytest.approx(spec.gpu.vram_gb, rel=0.006)


def test_keys_and_specs_agree() -> None:
    for spec in CATALOGUE.specs():
        assert spec.source
        assert CATALOGUE.gpu(spec.gpu.key) == spec.gpu
        assert spec.gpu.key.startswith(spec.gpu.family)
        assert spec.gpu.key.endswith(f"{spec.gpu.vram_gb}GB")
        # Half of 2:4 sparsity and FP8 twice BF16: a figure of another kind shows here.
        if spec.fp8_tflops and spec.bf16_tflops:
            assert Decimal("1.9") < spec.fp8_tflops / spec.bf16_tflops < Decimal("2.1")
        if spec.measured_bf16_tflops and spec.bf16_tflops:
            assert spec.measured_bf16_tflops < spec.bf16_tflops
    assert CATALOGUE.spec("H100-80GB") is None
    assert CATALOGUE.spec("A100-SLICE") is None


def test_runtime_keys() -> None:
    assert CATALOGUE.of_runtime_key("h100-sxm-80gb") == "H100-SXM-80GB"
    assert CATALOGUE.of_runtime_key("rtx4090-pcie-24gb") == "RTX4090-24GB"
    assert CATALOGUE.of_runtime_key("b300-sxm-288gb") == "B300-SXM-270GB"
    assert CATALOGUE.of_runtime_key("h100") is None


# ---- the user's own names -----------------------------------------------------------------------


def test_a_users_alias_wins() -> None:
    mine = Catalogue.from_toml(
        GPUS, ALIASES, {"Monster 9000": "H100-SXM-80GB", "A100": "a100-pcie-40gb"}
    )
    for spelling in ("Monster 9000", "monster-9000", " MONSTER  9000 "):
        assert mine.identify(spelling) == mine.gpu("H100-SXM-80GB")
    assert mine.identify("A100", vram_gb=Decimal(80)) == mine.gpu("A100-PCIE-40GB")
    assert mine.identify("Monster 9000", gpu_count=Decimal("0.5")) == mine.gpu("H100-SLICE")
    assert mine.select("monster 9000") == {"H100-SXM-80GB"}
    assert mine.select("A100") == CATALOGUE.select("A100")
    assert isinstance(CATALOGUE.identify("Monster 9000"), Unidentified)


def test_an_alias_of_no_gpu_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'H100-SMX-80GB'; nearest: H100-SXM-80GB"):
        Catalogue.from_toml(GPUS, ALIASES, {"mine": "H100-SMX-80GB"})
    with pytest.raises(ValueError, match="no letters or digits"):
        Catalogue.from_toml(GPUS, ALIASES, {"--": "H100-SXM-80GB"})


# ---- the files ----------------------------------------------------------------------------------

TINY = """
default_band = { on_demand = [0.01, 40], spot = [0.01, 40] }
[family.Z1]
title = "Z1"
architecture = "X"
reference = "Z1-SXM-10GB"
[[family.Z1.part]]
form = "SXM"
vram_gb = 10
source = "invented"
[[family.Z1.part]]
form = "PCIE"
vram_gb = 10
source = "invented"
"""
WORDS = "[words]\nnoise = []\nforms = { sxm = 'SXM', pcie = 'PCIE' }\nrefused = {}\n"


def test_the_compiled_catalogue_is_that_of_the_toml() -> None:
    assert text("gpus.json") == compile_gpus(GPUS, ALIASES), "run: python -m tools.compile_gpus"
    assert families_from_json(text("gpus.json"))[:2] == read_families(GPUS)


def test_words_are_read_only_for_what_is_no_familys_name() -> None:
    asked: list[str] = []

    def words() -> str:
        asked.append("words")
        return ALIASES

    lazy = Catalogue.from_compiled(text("gpus.json"), words)
    for family in set(CATALOGUE.families()) - {"RTX4000"}:  # two cards are called so
        assert lazy.select(family) == lazy.select(f" {family.lower()} ")
    assert lazy.spec("H100-SXM-80GB") == CATALOGUE.spec("H100-SXM-80GB")
    assert asked == []
    assert lazy.select("a100 80gb") == CATALOGUE.select("a100 80gb")
    assert lazy.identify("NVIDIA H100 PCIe") == CATALOGUE.identify("NVIDIA H100 PCIe")
    assert asked == ["words"]


def test_a_familys_name_selects_what_its_words_do() -> None:
    lazy = Catalogue.from_compiled(text("gpus.json"), lambda: ALIASES)
    for family in CATALOGUE.families():
        by_words = CATALOGUE.select(f"GPU {family}")
        assert CATALOGUE.select(family) == lazy.select(family) == by_words, family


def test_a_wrong_alias_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="there is no GPU key 'H100-SMX'"):
        Catalogue.from_compiled(text("gpus.json"), lambda: ALIASES, {"mine": "H100-SMX"})


def test_a_catalogue_of_ones_own() -> None:
    tiny = Catalogue.from_toml(TINY, WORDS)
    assert tiny.identify("z1 10gb") == Gpu("Z1-10GB", "Z1", None, 10)
    assert tuple(gpu.key for gpu in tiny.gpus()) == (
        "Z1-10GB",
        "Z1-PCIE-10GB",
        "Z1-SLICE",
        "Z1-SXM-10GB",
    )


@pytest.mark.parametrize(
    ("change", "to", "problem"),
    [
        ('reference = "Z1-SXM-10GB"', 'reference = "Z1-NVL-10GB"', "no reference"),
        ('form = "PCIE"', 'form = "SXM"', "part twice"),
        ("vram_gb = 10\n", "", "vram_gb"),
        ("[0.01, 40], spot", "[40, 0.01], spot", "not a band"),
    ],
)
def test_a_wrong_catalogue_is_refused(change: str, to: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Catalogue.from_toml(TINY.replace(change, to), WORDS)


def test_a_stem_of_no_family_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no Z2"):
        Catalogue.from_toml(TINY, WORDS + "[stems]\nx9 = 'Z2'\n")


def test_packaged_data() -> None:
    assert "[family.A100]" in text("gpus.toml")
    assert names("no-such-folder", ".toml") == ()
    with pytest.raises(FileNotFoundError):
        text("no-such-file.toml")
