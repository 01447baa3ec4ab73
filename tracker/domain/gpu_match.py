"""Which GPU an offer means: the name, the form factor and the memory must agree.

Evidence is never bent: names and memory that do not fit one another give ``Unidentified`` with
both in the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tracker.domain.gpu_data import Family, Gpu, GpuSpec, Unidentified, Vocabulary
from tracker.domain.gpu_text import Words

# Reported memory against the nominal size, in GB = MiB / 1000 (an L4 of 24 GB reports 22,888 MiB,
# an A100 of 40 GB up to 40,960). A rare part must be said outright.
_LOW, _HIGH = Decimal("0.95"), Decimal("1.08")
_RARE_LOW, _RARE_HIGH = Decimal("0.99"), Decimal("1.025")
_GIB = Decimal("1.024")  # GB as counted above in a GiB
_SLICE_BELOW = Decimal("0.75")  # of the family's smallest card
_TIE = Decimal("0.005")  # two sizes this close to what is reported are not told apart by it
_EXACT = Decimal("0.0005")
_EDITIONS = frozenset({"SERVER", "WS", "MAXQ"})
_VENDORS = ("nvidia", "amd", "geforce", "tesla", "instinct")


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory size of one GPU: *gb* (MiB / 1000 where MiB are reported) and how it was said."""

    gb: Decimal
    said: str
    mib: bool = False


def reported(
    vram_mib: Decimal | None, vram_gb: Decimal | None, among: Decimal
) -> tuple[Memory, ...]:
    """The memory that fields report, of one of *among* GPUs."""
    said = f" for {among} GPUs" if among != 1 else ""
    out = []
    if vram_mib is not None:
        out.append(Memory(vram_mib / among / 1000, f"{vram_mib} MiB{said}", mib=True))
    if vram_gb is not None:
        out.append(Memory(vram_gb / among, f"{vram_gb} GB{said}"))
    return tuple(out)


def named(words: Words, families: Sequence[Family]) -> tuple[Memory, ...]:
    """The memory that a name says, without what is the size of a superchip's CPU memory."""
    ignored = {size for family in families for size in family.cpu_memory_gb}
    out = [Memory(gb, f"{gb} GB in the name") for gb in words.vram_gb if gb not in ignored]
    if words.vram_mib is not None:
        said = f"{words.vram_mib} MiB in the name"
        out.append(Memory(words.vram_mib / 1000, said, mib=True))
    return tuple(out)


def of_size(gpus: Iterable[Gpu], gb: Decimal) -> list[Gpu]:
    """Those of *gpus* with *gb* of memory: of exactly that, or else with that within the band."""
    gpus = list(gpus)
    exact = [gpu for gpu in gpus if gpu.vram_gb == gb]
    return exact or [g for g in gpus if g.vram_gb and g.vram_gb * _LOW <= gb <= g.vram_gb * _HIGH]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an offer says of its GPU beside the family."""

    forms: frozenset[str] = frozenset()
    named: tuple[Memory, ...] = ()
    reported: tuple[Memory, ...] = ()
    memory_type: str | None = None
    count: int | None = None  # how many GPUs the name says: its memory may be theirs together
    is_slice: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """Families that a stem may mean, with the form and memory size that the stem itself says."""

    families: tuple[Family, ...]
    forms: frozenset[str] = frozenset()
    named: tuple[Memory, ...] = field(default=())


def find(
    words: Words, forms: frozenset[str], vocabulary: Vocabulary, families: Mapping[str, Family]
) -> Match | None:
    """The families that the words' stem names; None: nobody knows it.

    *forms* are those said elsewhere, to be joined with those of the name.
    """
    pairs = _lookup(words.stem, vocabulary)
    named: tuple[Memory, ...] = ()
    if pairs is None and words.last:  # "A100 80": a bare number that is a known size
        pairs = _lookup(words.stem.removesuffix(words.last), vocabulary)
        size = int(words.last)
        if pairs is None or not any(
            part.gpu.vram_gb == size for name, _ in pairs for part in families[name].parts
        ):
            return None
        named = (Memory(Decimal(size), f"{size} GB"),)
    if pairs is None:
        return None
    found = tuple(families[name] for name, _ in pairs)
    forms |= words.forms | {form for _, form in pairs if form}
    known = {part.gpu.form_factor for family in found for part in family.parts}
    if "MAXQ" in forms and "MAXQ" not in known:  # "RTX 3080 Max-Q": a laptop part
        laptop = families.get(f"{found[0].name}-LAPTOP")
        return Match((laptop,), forms - _EDITIONS, named) if laptop else None
    if not known & _EDITIONS:  # "Server Edition" of a card that has one edition only
        forms -= _EDITIONS
    elif "MAXQ" in forms:  # the "Max-Q Workstation Edition" is one edition, not two
        forms -= {"WS"}
    return Match(found, forms, named)


def _lookup(stem: str, vocabulary: Vocabulary) -> tuple[tuple[str, str | None], ...] | None:
    pairs = vocabulary.stems.get(stem)
    if pairs is None:
        for vendor in _VENDORS:  # TensorDock writes "geforcertx4090"
            if stem.startswith(vendor) and len(stem) > len(vendor):
                return _lookup(stem.removeprefix(vendor), vocabulary)
    return pairs


def decide(families: Sequence[Family], evidence: Evidence) -> Gpu | Unidentified:
    """The one GPU of *families* that all of the evidence allows."""
    if evidence.is_slice or _too_small(families, evidence):
        if len(families) > 1:
            return Unidentified(f"a slice of {_names(families)}: not said which", unmapped=False)
        return Gpu(f"{families[0].name}-SLICE", families[0].name, None, None, is_slice=True)
    parts = [part for family in families for part in family.parts]
    for memory in (*evidence.named, *evidence.reported):
        fitting = _fitting(memory, families, evidence)
        if isinstance(fitting, Unidentified):
            return fitting
        parts = [part for part in parts if part in fitting]
        if not parts:
            said = " but ".join(m.said for m in (*evidence.named, *evidence.reported))
            return Unidentified(f"{_names(families)}: contradictory memory: {said}", unmapped=False)
    remembered = bool(evidence.named or evidence.reported)
    return _choose(families, _of_form(parts, evidence), evidence, remembered)


def _choose(
    families: Sequence[Family], parts: list[GpuSpec], evidence: Evidence, remembered: bool
) -> Gpu | Unidentified:
    """The GPU that is left when *parts* are all that fits; *remembered*: memory was said."""
    if not parts:
        said = [*sorted(evidence.forms), *([evidence.memory_type] if evidence.memory_type else [])]
        said += [memory.said for memory in (*evidence.named, *evidence.reported)]
        known = ", ".join(part.gpu.key for family in families for part in family.parts)
        return Unidentified(
            f"{_names(families)} with {' and '.join(said)} is none of {known}", unmapped=False
        )
    if not remembered:
        parts = [part for part in parts if not part.rare] or parts
    names = {part.gpu.family for part in parts}
    sizes = sorted({part.gpu.vram_gb for part in parts if part.gpu.vram_gb is not None})
    if len(names) > 1 or len(sizes) > 1:
        without = "with that memory" if remembered else "without VRAM"
        sold = " and ".join(str(size) for size in sizes)
        what = f"{sold} GB" if len(names) == 1 else " and ".join(sorted(names))
        both = "are both sold" if len(sizes) == 2 else "are sold"
        return Unidentified(f"{_names(families)} {without}: {what} {both}", unmapped=False)
    parts = [part for part in parts if not part.rare] or parts
    if len(parts) == 1:
        return parts[0].gpu
    family = next(family for family in families if family.name in names)
    return Gpu(family.key(None, sizes[0]), family.name, None, sizes[0])


def _names(families: Iterable[Family]) -> str:
    return " or ".join(family.name for family in families)


def _too_small(families: Sequence[Family], evidence: Evidence) -> bool:
    smallest = min(part.gpu.vram_gb or 0 for family in families for part in family.parts)
    memories = evidence.reported or evidence.named
    return any(memory.gb < smallest * _SLICE_BELOW for memory in memories)


def _fitting(
    memory: Memory, families: Sequence[Family], evidence: Evidence
) -> list[GpuSpec] | Unidentified:
    """The parts whose memory this can be; Unidentified if there is none."""
    parts = [part for family in families for part in family.parts]
    fitting = _nearest(memory, parts)
    if memory in evidence.named and evidence.count and evidence.count > 1:
        share = Memory(memory.gb / evidence.count, memory.said)
        shared = _nearest(share, parts)
        if fitting and shared and any(part.modified for part in fitting) and not evidence.reported:
            return Unidentified(
                f"{_names(families)}: {memory.said} each or together?", unmapped=False
            )
        fitting = fitting or shared
    if not fitting and not memory.mib:  # GiB taken for GB: a 24 GB L4 has 22.4 GiB
        fitting = _nearest(Memory(memory.gb * _GIB, memory.said), parts)
    if not fitting:
        known = ", ".join(str(s) for s in sorted({part.gpu.vram_gb or 0 for part in parts}))
        return Unidentified(
            f"{_names(families)} with {memory.said}: known sizes are {known} GB", unmapped=False
        )
    return fitting


def _nearest(memory: Memory, parts: Sequence[GpuSpec]) -> list[GpuSpec]:
    """The parts within the band of *memory* whose size is nearest to it, ties included."""
    distance: dict[str, Decimal] = {}
    for part in parts:
        nominal = Decimal(part.gpu.vram_gb or 0)
        low, high = (_RARE_LOW, _RARE_HIGH) if part.rare else (_LOW, _HIGH)
        recorded = [Decimal(mib) / 1000 for mib in part.vram_mib]
        if memory.mib and any(abs(memory.gb / size - 1) < _EXACT for size in recorded):
            distance[part.gpu.key] = -_TIE - _EXACT  # what tools report for it, to the MiB
        elif nominal * low <= memory.gb <= nominal * high:
            distance[part.gpu.key] = min(abs(memory.gb / s - 1) for s in (nominal, *recorded))
    if not distance:
        return []
    # By size, not by part: of two parts of one size, one may have a recorded size and one not.
    best = min(distance.values())
    sizes = {p.gpu.vram_gb for p in parts if distance.get(p.gpu.key, 1) <= best + _TIE}
    return [p for p in parts if p.gpu.vram_gb in sizes and p.gpu.key in distance]


def _of_form(parts: list[GpuSpec], evidence: Evidence) -> list[GpuSpec]:
    """The parts of the forms said: by name if there are, else by what they plug into."""
    parts = [p for p in parts if all(f in (p.gpu.form_factor, p.bus) for f in evidence.forms)]
    kind = evidence.memory_type
    if kind:
        # "HBM2" is also said of HBM2e, "HBM3" of HBM3e; a part without a recorded kind may be any.
        parts = [
            p for p in parts if p.memory_type is None or p.memory_type.lower().startswith(kind)
        ]
    return [p for p in parts if p.gpu.form_factor in evidence.forms] or parts
