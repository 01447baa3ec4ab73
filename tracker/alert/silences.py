"""Which silence matches a rule at an evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from tracker.alert.evaluate import Evaluation
from tracker.alert.sides import Ask
from tracker.domain.gpu import Catalogue, UnknownGpu
from tracker.domain.rule.condition import ProviderStale
from tracker.store.alerts import Silence

_SET = re.compile(r"\[!?\]?[^\]]*\]")


def check_pattern(pattern: str) -> None:
    """Raise ValueError for a pattern of rules' names that no name can match."""
    if found := re.search(r"[^a-z0-9._*?-]", _SET.sub("", pattern.lower())):
        why = "is never closed" if found[0] == "[" else "is in no rule's name"
        raise ValueError(f"{pattern[:60]!r}: {found[0]!r} {why}")


def silence_for(
    evaluation: Evaluation, silences: Iterable[Silence], catalogue: Catalogue
) -> str | None:
    """``silence 12``: the first of *silences* (in force) all of whose matchers match."""
    for one in silences:
        if _matches(one, evaluation, catalogue):
            return f"silence {one.id}"
    return None


def silence_of_removed(name: str, job: str | None, silences: Iterable[Silence]) -> str | None:
    """The same for a rule that is no longer configured, of which only *name* and *job* are left."""
    for one in silences:
        if (
            one.provider is None
            and one.gpu is None
            and (one.rule is None or fnmatchcase(name, one.rule.lower()))
            and one.job in (None, job)
        ):
            return f"silence {one.id}"
    return None


def _matches(silence: Silence, e: Evaluation, catalogue: Catalogue) -> bool:
    rule = e.rule
    if silence.rule is not None and not fnmatchcase(rule.name, silence.rule.lower()):
        return False
    if silence.job is not None and (rule.job is None or rule.job.name != silence.job.lower()):
        return False
    if silence.provider is not None and silence.provider.lower() not in _providers(e):
        return False
    return silence.gpu is None or _about(silence.gpu, e, catalogue)


def _asks(e: Evaluation) -> Iterator[Ask]:
    for side in (e.left, e.right):
        if side is not None and side.best is not None:
            yield side.best
    yield from e.found.values()


def _providers(e: Evaluation) -> set[str]:
    """Whose prices the rule stands on now, or whose silence it is about."""
    names = {ask.offer.provider for ask in _asks(e)}
    if e.provider is not None:
        names.add(e.provider.slug)
    if isinstance(e.rule.condition, ProviderStale):
        names.add(e.rule.condition.name)
    return names


def _about(name: str, e: Evaluation, catalogue: Catalogue) -> bool:
    """Whether *name*, in any spelling, covers a selection of the rule, or a GPU that stands for
    one now."""
    try:
        meant = catalogue.select(name)
    except UnknownGpu:  # an alias that is gone from the configuration
        return False
    if any(keys and keys <= meant for keys in e.rule.gpus.values()):
        return True
    return any(ask.offer.gpu_key in meant for ask in _asks(e))
