"""An HTML page as lines of visible text, without relying on any class name.

Words that a browser shows on one line stay on one line; struck-out text keeps a mark, and a line
knows whether it is a control (link, button, option) and whether that is chosen or disabled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._rows import without_cut_end
from providers.databasemart.amounts import STRUCK_OFF, STRUCK_ON

_SKIPPED = {"script", "style", "noscript", "template", "nav", "footer", "head", "svg", "iframe"}
_INLINE = {"b", "strong", "i", "em", "u", "small", "sup", "sub", "del", "s", "strike", "ins",
           "mark", "font", "abbr", "time", "data", "wbr", "bdi"}  # fmt: skip
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_CONTROLS = {"a", "button", "option", "label", "input"}
_CHOSEN_WORDS = {"active", "selected", "current", "checked", "is-active", "chosen"}
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_SPACES = re.compile(r"\s+")
_DASHES = re.compile(r"\s[\u2010-\u2015\u2212]\s")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. ``chosen`` and ``disabled`` speak of the control that it belongs to."""

    text: str
    control: bool = False
    chosen: bool = False
    disabled: bool = False


@dataclass(slots=True)
class _Writer:
    lines: list[Line] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)  # flag -> how many elements have it
    flags: set[str] = field(default_factory=set)

    def add(self, text: str) -> None:
        text = _CONTROL_CHARACTERS.sub(" ", text)
        if text.strip():
            if self.open.get("struck"):
                text = f"{STRUCK_ON}{text}{STRUCK_OFF}"
            self.parts.append(text)
            self.flags |= {flag for flag, depth in self.open.items() if depth}

    def end_line(self) -> None:
        text = _DASHES.sub(" - ", _SPACES.sub(" ", " ".join(self.parts)).strip())
        text = text.replace("\u00d7", "x")
        if text:
            flags = self.flags
            line = Line(text, "control" in flags, "chosen" in flags, "disabled" in flags)
            self.lines.append(line)
        self.parts.clear()
        self.flags.clear()


def page(html: str) -> LexborHTMLParser:
    """The parsed page. Any text is a page to an HTML parser."""
    return LexborHTMLParser(without_cut_end(html))


def text_lines(root: LexborNode | None) -> list[Line]:
    """The visible lines below *root*. Iterative: a page may nest deeper than the call stack."""
    writer = _Writer()
    stack: list[tuple[LexborNode, bool, tuple[str, ...], bool]] = []
    if root is not None:
        stack.append((root, False, (), False))
    while stack:
        node, leaving, flags, in_heading = stack.pop()
        if leaving:
            for flag in flags:
                writer.open[flag] -= 1
            if not _inline(node, in_heading):
                writer.end_line()
            continue
        if node.is_text_node:
            writer.add(node.text_content or "")
            continue
        tag = node.tag or ""
        if tag in _SKIPPED or not (node.is_element_node or tag == "-document"):
            continue
        flags = _flags(node, tag)
        for flag in flags:
            writer.open[flag] = writer.open.get(flag, 0) + 1
        if not _inline(node, in_heading):
            writer.end_line()
        stack.append((node, True, flags, in_heading))
        inside = in_heading or tag in _HEADINGS
        stack.extend((child, False, (), inside) for child in reversed(_children(node)))
    writer.end_line()
    return writer.lines


def _children(node: LexborNode) -> list[LexborNode]:
    return list(node.iter(include_text=True))


def _inline(node: LexborNode, in_heading: bool) -> bool:
    """A span starts its own line (labels and values are often spans), except in a heading."""
    return node.tag in _INLINE or (in_heading and node.tag in ("span", "a"))


def _flags(node: LexborNode, tag: str) -> tuple[str, ...]:
    attributes: dict[str, Any] = node.attributes
    words = set((attributes.get("class") or "").lower().split())
    style = (attributes.get("style") or "").lower()
    found = []
    if tag in ("del", "s", "strike") or "line-through" in words or "line-through" in style:
        found.append("struck")
    if tag in _CONTROLS:
        found.append("control")
    chosen = any(attributes.get(f"aria-{a}") == "true" for a in ("pressed", "selected", "checked"))
    if chosen or words & _CHOSEN_WORDS or "selected" in attributes or "checked" in attributes:
        found.append("chosen")
    off = attributes.get("aria-disabled") == "true" or "disabled" in words
    if tag in _CONTROLS and (off or "disabled" in attributes):
        found.append("disabled")
    return tuple(found)
