"""Reading a GPU name: from a provider's spelling to the words that say something."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from tracker.domain.gpu_data import Vocabulary

_MARKS = re.compile(r"[™®©℠]|\((?:tm|r|c)\)", re.IGNORECASE)
# Everything is a separator but letters, digits, "." inside a word (1g.24gb) and "/" in a fraction.
_SEPARATORS = re.compile(r"(?:[^0-9a-z./]|(?<![0-9a-z])\.|\.(?![0-9a-z])|(?<!\d)/|/(?!\d))+")

# MIG profiles, vGPU, fractions of a card: 1g.24gb, 1c.3g.40gb, 1/8, 0.5x.
_SLICE = re.compile(
    r"\b(?:mig|vgpu|slices?|fraction(?:al)?|(?:\dc\.)?[1-7]g[. ]\d+gb(?: me)?|\d+/\d+|0\.\d+ ?x?)\b"
)
_SPELLINGS = (
    (re.compile(r"\bpci (?:e|express)\b"), "pcie"),
    (re.compile(r"\bmax q\b"), "maxq"),
    (re.compile(r"\bmobile\b"), "laptop"),
    (re.compile(r"(?<=[0-9a-z])(?=(?:sxm\d?|pcie|nvlink|nvl\d*|laptop|fhhl)(?![a-z]))"), " "),
    (re.compile(r"(?<!\d)\.|\.(?!\d)"), " "),
)
# "8x A100", "8xA100", "H100 8x", "A100x8", "80Gx8"; not the x of "rtx50" or "gtx16".
_COUNTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<= )(\d{1,2}) ?x ?(?=[a-z]|\d{4})",
        r"(?<= )(\d{1,2})x(?= )",
        r"(?<=[0-9a-z])(?<! rt)(?<! gt)x(\d{1,2})(?= )",
        r"(?<= )x(\d{1,2})(?= )",
    )
)
_TOTAL = re.compile(r"(?<= )(\d{1,4})vram(?= )")
_MIB = re.compile(r"(?<= )(\d{4,6}) ?mi?b(?= )")
_GB = re.compile(r"(?<= )(\d{1,4}(?:\.\d+)?) ?(?:gib|gb|g)(?= )")
_MEMORY = re.compile(r"(?<= )(?:(hbm\d?e?)|gddr\d?x?)(?= )")


@dataclass(frozen=True, slots=True)
class Words:
    """What a name says. ``stem`` is what is left when all the rest is taken out."""

    stem: str
    last: str = ""  # the stem's last word, if it is a bare number: perhaps a memory size
    forms: frozenset[str] = frozenset()
    vram_gb: tuple[Decimal, ...] = ()
    vram_mib: Decimal | None = None
    total_gb: Decimal | None = None
    memory: str | None = None
    count: int | None = None
    is_slice: bool = False
    refused: str | None = None


def clean(name: str) -> str:
    """*name* in lower case, without trademark signs, words parted by single blanks."""
    text = unicodedata.normalize("NFKC", _MARKS.sub(" ", name)).lower()
    return _SEPARATORS.sub(" ", text).strip()


def squeeze(name: str) -> str:
    """*name* cleaned and written together: equal for names that differ in separators only."""
    return clean(name).replace(" ", "")


def form_words(text: str, vocabulary: Vocabulary) -> frozenset[str]:
    """The form factors that a field such as ``SXM5`` or ``PCIe 96GB Server Edition`` names."""
    found = _spell(clean(text)).split()
    return frozenset(vocabulary.forms[word] for word in found if word in vocabulary.forms)


def read(name: str, vocabulary: Vocabulary) -> Words:
    """Take a name apart. Never fails: what it cannot place stays in the stem."""
    text = clean(name)
    for pattern, to in vocabulary.rewrites:
        match = pattern.fullmatch(text)
        if match:
            text = match.expand(to)
    text, slices = _SLICE.subn(" ", text)
    text, counts = _take(_COUNTS, f" {_spell(text)} ")
    text, totals = _take((_TOTAL,), text)
    text, mib = _take((_MIB,), text)
    text, sizes = _take((_GB,), text)
    text, memories = _take((_MEMORY,), text)
    rest: list[str] = []
    forms: set[str] = set()
    refused = None
    for word in text.replace(".", " ").split():
        if word in vocabulary.forms:
            forms.add(vocabulary.forms[word])
        elif word in vocabulary.refused:
            refused = vocabulary.refused[word]
        elif word not in vocabulary.noise:
            rest.append(word)
    rest.sort(key=lambda word: word == "laptop")  # "Laptop RTX 4090"
    return Words(
        stem="".join(rest),
        last=rest[-1] if len(rest) > 1 and rest[-1].isdigit() else "",
        forms=frozenset(forms),
        vram_gb=tuple(dict.fromkeys(Decimal(size) for size in sizes)),
        vram_mib=Decimal(mib[0]) if mib else None,
        total_gb=Decimal(totals[0]) if totals else None,
        memory=next((m for m in memories if m), None),
        count=int(counts[0]) if counts else None,
        is_slice=slices > 0,
        refused=refused,
    )


def _spell(text: str) -> str:
    for pattern, to in _SPELLINGS:
        text = pattern.sub(to, text)
    return " ".join(text.split())


def _take(patterns: tuple[re.Pattern[str], ...], text: str) -> tuple[str, list[str]]:
    found: list[str] = []
    for pattern in patterns:
        found += pattern.findall(text)
        text = " ".join(["", *pattern.sub(" ", text).split(), ""])
    return text, found
