"""The catalogue of GPUs: identify what a provider sells, select what a user asks for.

The key grammar is described in ``tracker.domain.gpu_data``, how names are read in ``gpu_text`` and
how name, form factor and memory are reconciled in ``gpu_match``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from tracker.domain.gpu_data import (
    Band,
    Family,
    Gpu,
    GpuSpec,
    Vocabulary,
    read_families,
    read_vocabulary,
)
from tracker.domain.gpu_match import (
    Evidence,
    Unidentified,
    decide,
    find,
    named,
    of_size,
    reported,
)
from tracker.domain.gpu_text import form_words, read, squeeze

__all__ = ["Catalogue", "Gpu", "GpuSpec", "Unidentified", "UnknownGpu"]

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})
# Distinct questions of one poll are some dozens; the bound is for a feed that invents names.
_CACHE_SIZE = 4096


class UnknownGpu(ValueError):
    """A query that names no GPU of the catalogue. ``nearest``: what may have been meant."""

    def __init__(self, query: str, nearest: tuple[str, ...]) -> None:
        hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"unknown GPU {query!r}{hint}")
        self.query = query
        self.nearest = nearest


class Catalogue:
    """All GPUs known, and the names they go by. Build it with ``from_toml``."""

    def __init__(
        self,
        families: Mapping[str, Family],
        default_bands: Mapping[str, Band],
        vocabulary: Vocabulary,
        extra_aliases: Mapping[str, str] = _NO_ALIASES,
    ) -> None:
        self._families = families
        self._default_bands = default_bands
        self._vocabulary = vocabulary
        self._gpus = {gpu.key: gpu for family in families.values() for gpu in family.gpus()}
        self._specs = {p.gpu.key: p for family in families.values() for p in family.parts}
        self._slices = {squeeze(key): gpu for key, gpu in self._gpus.items() if gpu.is_slice}
        self._runtime = {name: key for key, p in self._specs.items() for name in p.runtime_keys}
        self._aliases = {squeeze(name): self._alias(name, k) for name, k in extra_aliases.items()}
        self._answers: dict[tuple[object, ...], Gpu | Unidentified] = {}

    @classmethod
    def from_toml(
        cls, gpus_toml: str, aliases_toml: str, extra_aliases: Mapping[str, str] = _NO_ALIASES
    ) -> Catalogue:
        """The catalogue of these two files, with the user's own names (name -> key).

        Raises ValueError naming the entry that is not right; for an alias of a key that does not
        exist, with the nearest keys.
        """
        families, default_bands = read_families(gpus_toml)
        vocabulary = read_vocabulary(aliases_toml, families)
        return cls(families, default_bands, vocabulary, extra_aliases)

    def identify(
        self,
        name: str,
        *,
        gpu_count: Decimal = Decimal(1),
        vram_mib: Decimal | None = None,
        vram_gb: Decimal | None = None,
        vram_is_total: bool = False,
        form_factor: str | None = None,
        is_slice: bool = False,
    ) -> Gpu | Unidentified:
        """The GPU that an offer words as *name*, with what else the offer says of it.

        Memory is of one GPU, or with *vram_is_total* of all *gpu_count*. *form_factor* may be any
        text with a form in it (``SXM5``, ``PCIe 80GB``); one that names none says nothing. A count
        that is no whole number is a slice, and so is memory below 75 % of the family's smallest
        card. A user's alias decides the card whatever the rest says; a slice of it stays one.
        """
        question = (name, gpu_count, vram_mib, vram_gb, vram_is_total, form_factor, is_slice)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= _CACHE_SIZE:
                self._answers.clear()
            answer = self._answers[question] = self._identify(*question)
        return answer

    def select(self, query: str) -> frozenset[str]:
        """The keys of all GPUs that *query* covers, those of unknown form included.

        A family (``H100``, ``4090``), with form and memory where wanted (``H100 SXM``,
        ``a100-80gb`` for every A100 of 80 GB), or a full key. Slices only when the query says so
        (``A100-SLICE``). A user's alias of a name that nobody else knows is its one key. Raises
        UnknownGpu.
        """
        words = read(query, self._vocabulary)
        match = find(words, frozenset(), self._vocabulary, self._families)
        if match is None or words.count or words.refused:
            # Aliases come last here: that one seller's "A100" is a certain part must not narrow
            # what a question about the A100 covers.
            alias = self._aliases.get(squeeze(query))
            if alias is not None:
                return frozenset({alias.key})
            raise UnknownGpu(query, self.nearest(query))
        gpus = [gpu for family in match.families for gpu in family.gpus()]
        gpus = [gpu for gpu in gpus if gpu.is_slice == words.is_slice]
        if not words.is_slice:
            gpus = [gpu for gpu in gpus if match.forms <= {gpu.form_factor}]
            for memory in (*match.named, *named(words, match.families)):
                gpus = of_size(gpus, memory.gb)
            if words.memory:
                gpus = [gpu for gpu in gpus if self._has_memory(gpu.key, words.memory)]
        if not gpus:
            raise UnknownGpu(query, self.nearest(query))
        return frozenset(gpu.key for gpu in gpus)

    def gpu(self, key: str) -> Gpu | None:
        """The GPU of this exact key, of unknown form and slices included; None: no such key."""
        return self._gpus.get(key)

    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs that an offer can have, sorted by key."""
        return tuple(self._gpus[key] for key in sorted(self._gpus))

    def families(self) -> tuple[str, ...]:
        """All family names, sorted."""
        return tuple(sorted(self._families))

    def spec(self, key: str) -> GpuSpec | None:
        """The part of this key; None for keys of unknown form, slices and keys not known."""
        return self._specs.get(key)

    def specs(self) -> tuple[GpuSpec, ...]:
        """All parts, the reference part of each family first."""
        return tuple(self._specs.values())

    def reference(self, family: str) -> GpuSpec | None:
        """The part that hours given for *family* hold for; None: no such family."""
        known = self._families.get(family)
        return known.parts[0] if known else None

    def of_runtime_key(self, runtime_key: str) -> str | None:
        """Our key of a part named as in benchmark tables (``h100-sxm-80gb``); None: not known."""
        return self._runtime.get(runtime_key)

    def band(self, family: str, market: str, *, is_slice: bool = False) -> Band:
        """The plausible prices (low, high) of *family* in *market*, USD per GPU-hour.

        Everything but ``on_demand`` may be as low as spot: commitments are discounted, and a
        monthly server used for a month is cheap by the hour. A slice is priced per slice by some,
        so that only the default band bounds it from below.
        """
        known = self._families.get(family)
        bands = (known.bands if known else None) or self._default_bands
        low = bands["on_demand" if market == "on_demand" else "spot"][0]
        if is_slice:
            low = min(low, self._default_bands["spot"][0])
        return low, bands["spot" if market == "spot" else "on_demand"][1]

    def relative_speed(self, key: str) -> Decimal | None:
        """The speed of *key* relative to its family's reference part, in (0, 1].

        The smaller of the compute ratio (achievable matmul where measured for both, else dense
        BF16, else FP16) and the memory bandwidth ratio, at most 1. That is the conservative rule:
        hours given for a family hold for its reference part, what bounds the job is not known, so
        the worse ratio is taken and a 40 GB PCIe card never borrows the hours of an 80 GB SXM.
        A key of unknown form is as fast as the slowest part it may be. None for slices, keys not
        known and parts without figures.
        """
        gpu = self._gpus.get(key)
        if gpu is None or gpu.is_slice:
            return None
        family = self._families[gpu.family]
        if key in self._specs:
            candidates: Sequence[GpuSpec] = (self._specs[key],)
        else:
            same_size = (p for p in family.parts if p.gpu.vram_gb == gpu.vram_gb)
            candidates = [part for part in same_size if not part.rare]
        speeds = [_speed(part, family.parts[0]) for part in candidates]
        known = [speed for speed in speeds if speed is not None]
        return min(known) if known and len(known) == len(speeds) else None

    def nearest(self, query: str, limit: int = 3) -> tuple[str, ...]:
        """The families and keys spelled most like *query*, best first; may be empty."""
        by_text = {squeeze(name): name for name in (*self._gpus, *self._families)}
        close = difflib.get_close_matches(squeeze(query), by_text, n=limit, cutoff=0.5)
        return tuple(by_text[text] for text in close)

    def _alias(self, name: str, key: str) -> Gpu:
        gpu = self._gpus.get(key) or self._gpus.get(key.strip().upper())
        if gpu is None:
            hint = ", ".join(near for near in self.nearest(key, 6) if near in self._gpus)
            nearest = f"; nearest: {hint}" if hint else ""
            raise ValueError(f"alias {name!r}: there is no GPU key {key!r}{nearest}")
        if not squeeze(name):
            raise ValueError(f"alias {name!r} of {key} has no letters or digits")
        return gpu

    def _identify(
        self,
        name: str,
        gpu_count: Decimal,
        vram_mib: Decimal | None,
        vram_gb: Decimal | None,
        vram_is_total: bool,
        form_factor: str | None,
        is_slice: bool,
    ) -> Gpu | Unidentified:
        if gpu_count <= 0:
            return Unidentified(f"{name}: a GPU count of {gpu_count}", unmapped=False)
        is_slice = is_slice or gpu_count != gpu_count.to_integral_value()
        alias = self._aliases.get(squeeze(name))
        if alias is not None:
            return self._gpus[f"{alias.family}-SLICE"] if is_slice else alias
        own = self._slices.get(squeeze(name))
        if own is not None:
            return own
        words = read(name, self._vocabulary)
        if words.refused:
            return Unidentified(f"{name}: {words.refused}", unmapped=False)
        forms = form_words(form_factor, self._vocabulary) if form_factor else frozenset[str]()
        match = find(words, forms, self._vocabulary, self._families)
        if match is None:
            if not squeeze(name):
                return Unidentified("the offer names no GPU", unmapped=False)
            return Unidentified(f"no known GPU is called {name!r}", unmapped=True)
        fields = reported(vram_mib, vram_gb, gpu_count if vram_is_total else Decimal(1))
        if not fields and words.total_gb is not None:
            fields = reported(None, words.total_gb, gpu_count)
        if any(memory.gb <= 0 for memory in fields):
            return Unidentified(f"{name}: memory of 0 reported", unmapped=False)
        evidence = Evidence(
            forms=match.forms,
            named=(*match.named, *named(words, match.families)),
            reported=fields,
            memory_type=words.memory,
            count=words.count,
            is_slice=is_slice or words.is_slice,
        )
        return decide(match.families, evidence)

    def _has_memory(self, key: str, kind: str) -> bool:
        spec = self._specs.get(key)
        return spec is not None and (spec.memory_type or "").lower().startswith(kind)


def _speed(part: GpuSpec, reference: GpuSpec) -> Decimal | None:
    if part is reference:
        return Decimal(1)
    pairs = (
        (part.measured_bf16_tflops, reference.measured_bf16_tflops),
        (part.bf16_tflops, reference.bf16_tflops),
        (part.fp16_tflops, reference.fp16_tflops),
    )
    compute = next((own / ref for own, ref in pairs if own is not None and ref is not None), None)
    own, ref = part.bandwidth_gbps, reference.bandwidth_gbps
    if compute is None or own is None or ref is None:
        return None
    return min(compute, own / ref, Decimal(1))
