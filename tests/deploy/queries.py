"""The metrics that a PromQL expression asks for, with the labels it names of each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracker.web.families import FAMILIES, Family

BY_NAME = {family.name: family for family in FAMILIES}

_METRIC = re.compile(r"\b(gpucost_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")

# What Prometheus itself adds to every series.
OF_PROMETHEUS = {"job", "instance"}


def family_of(name: str) -> Family | None:
    """The metric that a series of this name belongs to."""
    for suffix in ("", "_bucket", "_count", "_sum"):
        base = name.removesuffix(suffix) if suffix else name
        family = BY_NAME.get(base)
        if family is not None and (not suffix or (family.kind == "histogram" and base != name)):
            return family
    return None


def unknown(expression: str) -> Iterator[str]:
    """Metrics and labels of *expression* that do not exist."""
    allowed = set(OF_PROMETHEUS)
    for name, selector in _METRIC.findall(expression):
        family = family_of(name)
        if family is None:
            yield name
            continue
        labels = {*family.labels, *({"le"} if name.endswith("_bucket") else ())}
        allowed |= labels
        for label in _LABEL.findall(re.sub(r'"[^"]*"', '""', selector)):
            if label not in labels | OF_PROMETHEUS:
                yield f"{name}{{{label}}}"
    for listed in _GROUPING.findall(expression):
        for label in filter(None, re.split(r"[\s,]+", listed)):
            if label not in allowed:
                yield f"by ({label})"


def unknown_in_text(text: str, expression: str) -> Iterator[str]:
    """Labels that a legend shows and that no metric of *expression* has."""
    known = set(OF_PROMETHEUS)
    for name, _ in _METRIC.findall(expression):
        family = family_of(name)
        known |= set(family.labels) if family else set()
    yield from (label for label in _LEGEND.findall(text) if label not in known)
