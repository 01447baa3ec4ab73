"""The names of GPUs: what an offer's words mean, and what a user's do.

Loaded when a name is asked for that is not a family's own (``tracker.domain.gpu``): a command that
looks up prices of an H100 needs none of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal

from tracker.domain.gpu_data import Family, Gpu, GpuSpec, Unidentified, Vocabulary
from tracker.domain.gpu_match import Evidence, decide, find, named, of_size, reported
from tracker.domain.gpu_text import form_words, read, squeeze

# Distinct questions of one poll are some dozens; the bound is for a feed that invents names.
_CACHE_SIZE = 4096


class Names:
    """The words of a catalogue and the user's own names (name -> key).

    Raises ValueError for an alias of a key that does not exist, with the nearest keys.
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        gpus: Mapping[str, Gpu],
        specs: Mapping[str, GpuSpec],
        vocabulary: Vocabulary,
        extra_aliases: Mapping[str, str],
    ) -> None:
        self._families = families
        self._gpus = gpus
        self._specs = specs
        self._vocabulary = vocabulary
        self._slices = {squeeze(key): gpu for key, gpu in gpus.items() if gpu.is_slice}
        self._aliases = {squeeze(name): self._alias(name, k) for name, k in extra_aliases.items()}
        self._answers: dict[tuple[object, ...], Gpu | Unidentified] = {}

    def identify(
        self,
        name: str,
        gpu_count: Decimal | None,
        vram_mib: Decimal | None,
        vram_gb: Decimal | None,
        vram_is_total: bool,
        form_factor: str | None,
        is_slice: bool,
    ) -> Gpu | Unidentified:
        """See ``Catalogue.identify``."""
        question = (name, gpu_count, vram_mib, vram_gb, vram_is_total, form_factor, is_slice)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= _CACHE_SIZE:
                self._answers.clear()
            answer = self._answers[question] = self._identify(*question)
        return answer

    def select(self, query: str) -> frozenset[str]:
        """The keys that *query* covers (see ``Catalogue.select``); none when it names no GPU."""
        words = read(query, self._vocabulary)
        match = find(words, frozenset(), self._vocabulary, self._families)
        if match is None or words.count or words.refused:
            # Aliases come last here: that one seller's "A100" is a certain part must not narrow
            # what a question about the A100 covers.
            alias = self._aliases.get(squeeze(query))
            return frozenset() if alias is None else frozenset({alias.key})
        gpus = [gpu for family in match.families for gpu in family.gpus()]
        gpus = [gpu for gpu in gpus if gpu.is_slice == words.is_slice]
        if not words.is_slice:
            gpus = [gpu for gpu in gpus if match.forms <= {gpu.form_factor}]
            for memory in (*match.named, *named(words, match.families)):
                gpus = of_size(gpus, memory.gb)
            if words.memory:
                gpus = [gpu for gpu in gpus if self._has_memory(gpu.key, words.memory)]
        return frozenset(gpu.key for gpu in gpus)

    def nearest(self, query: str, limit: int) -> tuple[str, ...]:
        """See ``Catalogue.nearest``."""
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
        gpu_count: Decimal | None,
        vram_mib: Decimal | None,
        vram_gb: Decimal | None,
        vram_is_total: bool,
        form_factor: str | None,
        is_slice: bool,
    ) -> Gpu | Unidentified:
        counted = Decimal(1) if gpu_count is None else gpu_count
        if counted <= 0:
            return Unidentified(f"{name}: a GPU count of {counted}", unmapped=False)
        is_slice = is_slice or counted != counted.to_integral_value()
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
        if gpu_count is not None and words.count and words.count > 1 and words.count != gpu_count:
            reason = f"{name}: the name says {words.count} GPUs, the row {gpu_count}"
            return Unidentified(reason, unmapped=False)
        fields = reported(vram_mib, vram_gb, counted if vram_is_total else Decimal(1))
        if not fields and words.total_gb is not None:
            fields = reported(None, words.total_gb, counted)
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
