"""What is known of GPUs: the types, and the reading of gpus.toml and aliases.toml.

Key grammar: ``FAMILY[-FORM]-NNGB`` (``A100-SXM-80GB``, ``RTX4090-24GB``). The form is in the key of
every family that is sold in anything but plain PCIe cards, so a key of such a family without one
(``H100-80GB``) means that the seller did not say which. An edition of the RTX PRO 6000 takes the
place of the form. A laptop part is a family of its own (``RTX4090-LAPTOP-16GB``). A part of a card
(MIG, fraction) is ``FAMILY-SLICE``, whatever its size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

Band = tuple[Decimal, Decimal]

# Architectures whose tensor cores compute in FP8.
_FP8 = frozenset({"Ada", "Hopper", "Blackwell", "Blackwell Ultra", "CDNA3", "CDNA4"})


class Gpu(NamedTuple):
    """One kind of GPU as offers are compared by: equal keys are the same thing.

    ``form_factor`` None means that nobody said which of several it is. ``vram_gb`` is the nominal
    size of a whole GPU; a slice has none, as slices of all sizes share one key.
    """

    key: str
    family: str
    form_factor: str | None
    vram_gb: int | None
    is_slice: bool = False


class Unidentified(NamedTuple):
    """Why an offer's GPU is not known.

    ``unmapped``: nobody knows the name. Otherwise the name is known, but what comes with it is
    ambiguous or contradicts it.
    """

    reason: str
    unmapped: bool


class GpuSpec(NamedTuple):
    """A part of the catalogue. Compute in DENSE TFLOPS per GPU (tensor cores with FP32
    accumulation; fp64 and fp32 vector), bandwidths in GB/s, power in W. None: no source gives it.
    """

    gpu: Gpu
    title: str
    vendor: str
    architecture: str
    source: str
    bus: str  # what it plugs into: an H100 NVL is a PCIE card
    reference: bool  # hours given for the whole family hold for this part
    rare: bool  # only meant when its size or form is said outright
    modified: bool  # not made so by its maker
    vram_mib: tuple[int, ...]  # sizes that tools report for it, where recorded
    runtime_keys: tuple[str, ...]  # its names in benchmark tables
    ecc: bool | None
    mig: bool
    fp8: bool
    memory_type: str | None = None
    bandwidth_gbps: Decimal | None = None
    fp64_tflops: Decimal | None = None
    fp32_tflops: Decimal | None = None
    tf32_tflops: Decimal | None = None
    fp16_tflops: Decimal | None = None
    bf16_tflops: Decimal | None = None
    fp8_tflops: Decimal | None = None
    fp4_tflops: Decimal | None = None
    int8_tops: Decimal | None = None
    measured_bf16_tflops: Decimal | None = None
    measured_fp8_tflops: Decimal | None = None
    tdp_w: Decimal | None = None
    nvlink_gbps: Decimal | None = None
    pcie_gen: int | None = None


class Family(NamedTuple):
    """All parts sold under one model name, the reference part first."""

    name: str
    form_in_key: bool
    parts: tuple[GpuSpec, ...]
    bands: Mapping[str, Band]  # "on_demand" and "spot", or empty
    cpu_memory_gb: frozenset[int] = frozenset()  # sizes in its names that are not VRAM

    def key(self, form: str | None, vram_gb: int) -> str:
        """The key of a part of this family; *form* None: not said."""
        return f"{self.name}-{form}-{vram_gb}GB" if form else f"{self.name}-{vram_gb}GB"

    def gpus(self) -> Iterator[Gpu]:
        """All GPUs of this family that an offer can have: parts, form not said, slice."""
        yield from (part.gpu for part in self.parts)
        sizes = [part.gpu.vram_gb for part in self.parts if not part.rare]
        for size in sorted({s for s in sizes if s is not None and sizes.count(s) > 1}):
            yield Gpu(self.key(None, size), self.name, None, size)
        yield Gpu(f"{self.name}-SLICE", self.name, None, None, is_slice=True)


class Vocabulary(NamedTuple):
    """The words of aliases.toml."""

    noise: frozenset[str]
    forms: Mapping[str, str]
    refused: Mapping[str, str]
    stems: Mapping[str, tuple[tuple[str, str | None], ...]]  # -> (family, form)
    rewrites: tuple[tuple[re.Pattern[str], str], ...]


def read_families(gpus_toml: str) -> tuple[dict[str, Family], Mapping[str, Band]]:
    """The families of gpus.toml by name, and the default bands.

    Raises ValueError naming the family or part that is not right.
    """
    import tomllib

    return _families(tomllib.loads(gpus_toml, parse_float=Decimal))


def compile_gpus(gpus_toml: str, aliases_toml: str) -> str:
    """gpus.toml as JSON, for ``families_from_json``: parsing TOML takes forty times as long.

    With it go the family names that mean something else too, according to aliases.toml.
    """
    import tomllib

    # Floats as text, so that no digit is lost: 0.2 must stay 0.2.
    data = tomllib.loads(gpus_toml, parse_float=str)
    families, _ = _families(data)
    shared = sorted(shared_names(families, read_vocabulary(aliases_toml, families)))
    return json.dumps({**data, "shared_names": shared}, indent=1, ensure_ascii=False) + "\n"


def families_from_json(
    gpus_json: str,
) -> tuple[dict[str, Family], Mapping[str, Band], frozenset[str]]:
    """What ``compile_gpus`` wrote: families, default bands and ``shared_names``."""
    data = json.loads(gpus_json)
    return *_families(data), frozenset(data["shared_names"])


def shared_names(families: Mapping[str, Family], vocabulary: Vocabulary) -> frozenset[str]:
    """The families whose name does not mean them alone (``RTX4000`` may be two cards)."""
    return frozenset(
        name for name in families
        if vocabulary.stems[next(_own_stems(name))] != ((name, None),)
    )  # fmt: skip


def _families(data: Mapping[str, Any]) -> tuple[dict[str, Family], Mapping[str, Band]]:
    families: dict[str, Family] = {}
    sources = [(name, raw) for name, raw in data.get("family", {}).items()]
    sources += [(name, _card(raw)) for name, raw in data.get("cards", {}).items()]
    sources += [(f"{n}-LAPTOP", _laptop(n, raw)) for n, raw in data.get("laptops", {}).items()]
    for name, raw in sources:
        if name in families:
            raise ValueError(f"gpus.toml: family {name} is there twice")
        try:
            families[name] = _family(name, raw)
        except (KeyError, TypeError) as error:
            raise ValueError(f"gpus.toml: family {name}: {error!r}") from None
    return families, _bands(data["default_band"])


def _card(raw: Mapping[str, Any]) -> dict[str, Any]:
    source = "memory as sold; no figures recorded"
    part = {"form": "PCIE", "source": source, "ecc": raw.get("ecc")}
    parts = [{**part, "vram_gb": gb} for gb in raw["vram_gb"]]
    parts += [{**part, "vram_gb": gb, "rare": True} for gb in raw.get("rare_gb", ())]
    return {**raw, "part": parts}


def _laptop(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    card = _card({**raw, "title": f"GeForce {name[:3]} {name[3:]} Laptop", "ecc": False})
    for part in card["part"]:
        part.update(form="LAPTOP", bus="PCIE")
    return card


def _family(name: str, raw: Mapping[str, Any]) -> Family:
    forms = {part["form"] for part in raw["part"]}
    shell = Family(
        name=name,
        form_in_key=forms not in ({"PCIE"}, {"LAPTOP"}),
        parts=(),
        bands=_bands(raw["band"]) if "band" in raw else {},
        cpu_memory_gb=frozenset(raw.get("cpu_memory_gb", ())),
    )
    first = raw["part"][0]
    reference = raw.get("reference") or shell.key(
        first["form"] if shell.form_in_key else None, first["vram_gb"]
    )
    parts = [_part(shell, raw, part, reference) for part in raw["part"]]
    keys = [part.gpu.key for part in parts]
    if len(set(keys)) != len(keys) or keys.count(reference) != 1:
        raise ValueError(f"gpus.toml: family {name}: no reference {reference} or a part twice")
    parts.sort(key=lambda part: not part.reference)
    return Family(shell.name, shell.form_in_key, tuple(parts), shell.bands, shell.cpu_memory_gb)


def _part(family: Family, raw: Mapping[str, Any], part: Mapping[str, Any], ref: str) -> GpuSpec:
    form, vram_gb = part["form"], part["vram_gb"]
    key = family.key(form if family.form_in_key else None, vram_gb)
    tflops, measured = part.get("tflops", {}), part.get("measured_tflops", {})
    return GpuSpec(
        gpu=Gpu(key, family.name, form, vram_gb),
        title=raw["title"],
        vendor=raw.get("vendor", "NVIDIA"),
        architecture=raw["architecture"],
        source=part["source"],
        bus=part.get("bus", form),
        reference=key == ref,
        rare=part.get("rare", False),
        modified=part.get("modified", False),
        vram_mib=tuple(part.get("vram_mib", ())),
        runtime_keys=tuple(part.get("runtime_keys", ())),
        ecc=part.get("ecc"),
        mig=part.get("mig", False),
        fp8=raw["architecture"] in _FP8,
        memory_type=part.get("memory_type"),
        bandwidth_gbps=_figure(part, "bandwidth_gbps"),
        **{f"{kind}_tflops": _figure(tflops, kind) for kind in _TENSOR},
        int8_tops=_figure(tflops, "int8"),
        measured_bf16_tflops=_figure(measured, "bf16"),
        measured_fp8_tflops=_figure(measured, "fp8"),
        tdp_w=_figure(part, "tdp_w"),
        nvlink_gbps=_figure(part, "nvlink_gbps"),
        pcie_gen=part.get("pcie_gen"),
    )


_TENSOR = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4")


def _figure(table: Mapping[str, Any], name: str) -> Decimal | None:
    return Decimal(table[name]) if name in table else None


def _bands(raw: Mapping[str, Any]) -> dict[str, Band]:
    bands = {market: (Decimal(raw[market][0]), Decimal(raw[market][1])) for market in raw}
    if set(bands) != {"on_demand", "spot"} or any(not 0 < lo < hi for lo, hi in bands.values()):
        raise ValueError(f"gpus.toml: not a band: {raw}")
    return bands


def read_vocabulary(aliases_toml: str, families: Mapping[str, Family]) -> Vocabulary:
    """The words of aliases.toml, its stems joined with the families' own names.

    Raises ValueError for a stem of a family that does not exist.
    """
    import tomllib

    data = tomllib.loads(aliases_toml)
    stems: dict[str, tuple[tuple[str, str | None], ...]] = {}
    for name in families:
        for stem in _own_stems(name):
            stems[stem] = ((name, None),)
    for stem, target in data.get("stems", {}).items():
        targets = [target] if isinstance(target, str) else target
        pairs = tuple((t.partition("/")[0], t.partition("/")[2] or None) for t in targets)
        for name, form in pairs:
            known = families.get(name)
            if known is None or form not in {None, *(p.gpu.form_factor for p in known.parts)}:
                raise ValueError(f"aliases.toml: {stem}: there is no {name} {form or ''}".rstrip())
        stems[stem] = pairs
    words = data["words"]
    return Vocabulary(
        noise=frozenset(words["noise"]),
        forms=words["forms"],
        refused=words["refused"],
        stems=stems,
        rewrites=tuple((re.compile(r["pattern"]), r["to"]) for r in data.get("rewrite", ())),
    )


def _own_stems(name: str) -> Iterator[str]:
    stem = name.lower().replace("-", "")
    yield stem
    # People say "4090"; but "6000" alone could be five cards.
    if re.fullmatch(r"rtx\d0[5-9]0\D*|gtx1[06][5-8]0\D*", stem):
        yield stem[3:]
