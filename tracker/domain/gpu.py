"""The catalogue of GPUs: identify what a provider sells, select what a user asks for.

The key grammar is described in ``tracker.domain.gpu_data``; ``gpu_names`` knows what names mean,
``gpu_text`` how they are read, and ``gpu_match`` how name, form factor and memory are reconciled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from tracker.domain.gpu_data import (
    Band,
    Family,
    Gpu,
    GpuSpec,
    Unidentified,
    Vocabulary,
    families_from_json,
    read_families,
    read_vocabulary,
    shared_names,
)

if TYPE_CHECKING:
    from tracker.domain.gpu_names import Names

__all__ = ["Catalogue", "Gpu", "GpuSpec", "Unidentified", "UnknownGpu"]

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


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
        shared_names: frozenset[str],
        vocabulary: Callable[[], Vocabulary],
        extra_aliases: Mapping[str, str] = _NO_ALIASES,
    ) -> None:
        """*vocabulary* is asked when a name is first looked up that is not a family's own.

        *shared_names* are the families whose name alone does not say which of several is meant.
        """
        self._families = families
        self._shared_names = shared_names
        self._default_bands = default_bands
        self._vocabulary = vocabulary
        self._extra_aliases = extra_aliases
        self._gpus = {gpu.key: gpu for family in families.values() for gpu in family.gpus()}
        self._specs = {p.gpu.key: p for family in families.values() for p in family.parts}
        if extra_aliases:
            _ = self._names  # refuses a wrong one

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
        shared = shared_names(families, vocabulary)
        return cls(families, default_bands, shared, lambda: vocabulary, extra_aliases)

    @classmethod
    def from_compiled(
        cls,
        gpus_json: str,
        aliases_toml: Callable[[], str],
        extra_aliases: Mapping[str, str] = _NO_ALIASES,
    ) -> Catalogue:
        """The same from the compiled gpus.toml (``gpu_data.compile_gpus``), in a tenth of the time.

        *aliases_toml* gives the text of that file when it is needed. Raises ValueError for an
        alias of a key that does not exist, with the nearest keys.
        """
        families, default_bands, shared = families_from_json(gpus_json)

        def vocabulary() -> Vocabulary:
            return read_vocabulary(aliases_toml(), families)

        return cls(families, default_bands, shared, vocabulary, extra_aliases)

    @cached_property
    def _names(self) -> Names:
        from tracker.domain.gpu_names import Names

        return Names(
            self._families, self._gpus, self._specs, self._vocabulary(), self._extra_aliases
        )

    def identify(
        self,
        name: str,
        *,
        gpu_count: Decimal | None = None,
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
        card. A count in the name ("8x H100") must be *gpu_count*, if that is said: the price may be
        of either. A user's alias decides the card whatever the rest says; a slice of it stays one.
        """
        return self._names.identify(
            name, gpu_count, vram_mib, vram_gb, vram_is_total, form_factor, is_slice
        )

    def select(self, query: str) -> frozenset[str]:
        """The keys of all GPUs that *query* covers, those of unknown form included.

        A family (``H100``, ``4090``), with form and memory where wanted (``H100 SXM``,
        ``a100-80gb`` for every A100 of 80 GB), or a full key. Slices only when the query says so
        (``A100-SLICE``). A user's alias of a name that nobody else knows is its one key. Raises
        UnknownGpu.
        """
        name = query.strip().upper()
        if name in self._families and name not in self._shared_names:
            gpus = self._families[name].gpus()
            return frozenset(gpu.key for gpu in gpus if not gpu.is_slice)
        keys = self._names.select(query)
        if not keys:
            raise UnknownGpu(query, self.nearest(query))
        return keys

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

    @cached_property
    def _by_runtime_key(self) -> Mapping[str, str]:
        return {name: key for key, part in self._specs.items() for name in part.runtime_keys}

    def of_runtime_key(self, runtime_key: str) -> str | None:
        """Our key of a part named as in benchmark tables (``h100-sxm-80gb``); None: not known."""
        return self._by_runtime_key.get(runtime_key)

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
        return self._names.nearest(query, limit)


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
