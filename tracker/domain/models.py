"""The catalogue of models: find one by any usual spelling of its name.

An entry holds what was published (parameters, context, source) and how the model is put together;
``Model.counted`` recomputes the parameters from the latter, so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tracker.domain.model import ModelShape
from tracker.domain.models_layout import CONVENTIONS, Layout, MmDit

__all__ = ["Kind", "Model", "Models", "UnknownModel"]


class Kind(StrEnum):
    """What a model does, and so how its jobs are estimated."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder-decoder"
    VISION = "vision"
    DIFFUSION = "diffusion"
    SPEECH = "speech"
    RECOMMENDER = "recommender"


# The groups of measured workloads whose speed ratios between GPUs hold for training and for
# inference of each kind. Encoder-decoders of text do the work of encoders.
_GROUPS = {
    Kind.DECODER: ("llm_pretrain", "mlperf_llm_inference"),
    Kind.ENCODER: ("nlp_encoder_train", "nlp_encoder_inference"),
    Kind.ENCODER_DECODER: ("nlp_encoder_train", "nlp_encoder_inference"),
    Kind.VISION: ("vision_cnn", "vision_inference"),
    Kind.DIFFUSION: ("diffusion_train", "diffusion_inference"),
    Kind.SPEECH: ("speech_train", "speech_inference"),
    Kind.RECOMMENDER: ("recsys", "recsys_inference"),
}


class UnknownModel(ValueError):
    """A name that no model of the catalogue has. ``nearest``: what may have been meant."""

    def __init__(self, query: str, nearest: tuple[str, ...]) -> None:
        hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"unknown model {' '.join(query.split())[:100]!r}{hint}")
        self.query = query
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class Model:
    """One model. ``params`` and ``active_params`` (per token) as published, ``context`` in tokens.

    ``group`` and ``inference_group`` name the measured workloads whose GPU ratios hold for it.
    ``layout`` is None where the model is no transformer, or a U-Net with some attention in it.
    ``tower`` reads images beside a language model.
    """

    name: str
    kind: Kind
    params: float
    source: str
    group: str
    inference_group: str
    aliases: tuple[str, ...] = ()
    active_params: float | None = None
    context: int | None = None
    layout: Layout | MmDit | None = None
    tower: Layout | None = None

    @property
    def counted(self) -> int | None:
        """The parameters recomputed from the layout; None where there is none."""
        if self.layout is None:
            return None
        return self.layout.params() + (self.tower.params() if self.tower else 0)

    @property
    def counted_active(self) -> int | None:
        """The parameters that one token meets, recomputed; None where no expert is chosen."""
        if not isinstance(self.layout, Layout) or self.layout.experts == 1:
            return None
        return self.layout.active_params()

    @property
    def shape(self) -> ModelShape | None:
        """What the estimator needs, with the published parameters; None where there is no layout.

        None for diffusion transformers too: image and text pass through different halves.
        """
        if not isinstance(self.layout, Layout):
            return None
        shape = self.layout.shape(self.name, self.params)
        if self.active_params is not None:
            return replace(shape, active_params=self.active_params)
        return shape


class Models:
    """All models known. Build it with ``from_toml``; an entry is parsed when it is asked for."""

    def __init__(self, entries: Mapping[str, str], spellings: Mapping[str, str]) -> None:
        self._entries = entries
        self._spellings = spellings

    @classmethod
    def from_toml(cls, models_toml: str) -> Models:
        """The catalogue of this file, whose entries start with their name and their aliases.

        Only these are read: parsing all of it takes a hundred times as long. Raises ValueError
        for two entries of one name.
        """
        entries: dict[str, str] = {}
        spellings: dict[str, str] = {}
        for text in models_toml.split(_ENTRY)[1:]:
            head = _HEAD.match(text)
            if head is None or head["name"] in entries:
                raise ValueError(f"models.toml: not an entry, or a second one: {text[:40]!r}")
            name = head["name"]
            entries[name] = text
            for spelling in (name, *_QUOTED.findall(head["aliases"] or "")):
                # Without its owner too; the slash of "ViT-B/16" is another one.
                for key in {_key(spelling), _key(spelling.rpartition("/")[2])}:
                    other = name if key.isdigit() else spellings.setdefault(key, name)
                    if other != name:
                        raise ValueError(f"models.toml: {spelling} is {other} and {name}")
        return cls(entries, spellings)

    def get(self, name: str) -> Model:
        """The model of this name: case, blanks and punctuation do not matter.

        An owner before a slash is dropped, and words that say how a model was tuned ("Instruct")
        count only where a model is called so. Raises UnknownModel.
        """
        for key in _keys(name):
            found = self._spellings.get(key)
            if found is not None:
                return _model(self._entries[found])
        raise UnknownModel(name, self.nearest(name))

    def names(self) -> tuple[str, ...]:
        """The names of all models, in the order of the file: families together."""
        return tuple(self._entries)

    def nearest(self, name: str, limit: int = 3) -> tuple[str, ...]:
        """The names of the models spelled most like *name*, best first; may be empty."""
        from difflib import get_close_matches

        close = get_close_matches(_bare(name), self._spellings, n=3 * limit, cutoff=0.6)
        return tuple(dict.fromkeys(self._spellings[key] for key in close))[:limit]


_ENTRY = "\n[[model]]\n"
_HEAD = re.compile(r'name = "(?P<name>[^"]+)"\n(?:aliases = \[(?P<aliases>[^]]*)\]\n)?')
_QUOTED = re.compile(r'"([^"]*)"')


def _model(text: str) -> Model:
    import tomllib

    entry = tomllib.loads(text)
    kind = Kind(entry.get("kind", "decoder"))
    group, inference_group = _GROUPS[kind]
    tower = entry.get("tower")
    return Model(
        name=entry["name"],
        kind=kind,
        params=entry["params"],
        source=entry["source"],
        group=entry.get("group", group),
        inference_group=entry.get("inference_group", inference_group),
        aliases=tuple(entry.get("aliases", ())),
        active_params=entry.get("active_params"),
        context=entry.get("context"),
        layout=_layout(entry["architecture"], entry["layout"]) if "layout" in entry else None,
        tower=None if tower is None else _tower(tower),
    )


def _layout(architecture: str, sizes: Mapping[str, Any]) -> Layout | MmDit:
    if architecture == "mmdit":
        return MmDit(**sizes)
    return Layout(**{**CONVENTIONS[architecture], **sizes})


def _tower(sizes: Mapping[str, Any]) -> Layout:
    rest = {key: sizes[key] for key in sizes if key != "architecture"}
    return Layout(**{"vocab": 0, **CONVENTIONS[sizes["architecture"]], **rest})


_MAX_NAME = 200
# Words that say how a model was tuned, not how large it is; and in what precision it is stored.
_TUNING = frozenset(
    ("instruct", "it", "chat", "base", "hf", "pt", "meta", "sft", "dpo", "deduped", "thinking")
)
_STORED = frozenset(
    ("fp4", "fp8", "fp16", "bf16", "int4", "int8", "awq", "gptq", "gguf", "bnb", "nf4", "mxfp4")
)


def _keys(name: str) -> Iterator[str]:
    """What *name* may be filed under, the most literal first."""
    name = name[:_MAX_NAME]
    yield _key(name)
    last = name.rpartition("/")[2]
    yield _key(last)
    yield _key(_without(last, _TUNING))


def _bare(name: str) -> str:
    """The key of the model that *name* is a variant of."""
    return _key(_without(name[:_MAX_NAME].rpartition("/")[2], _TUNING | _STORED))


def _without(name: str, dropped: frozenset[str]) -> str:
    words = re.split(r"[^A-Za-z0-9.+]+", name)
    return " ".join(word for word in words if word.lower() not in dropped)


def _key(name: str) -> str:
    """Letters and numbers of *name*; two numbers stay apart ("3.1 8b" is not "3 18b").

    A "v" before a number says only that it is a version.
    """
    key = ""
    parts = _PART.findall(name.lower().replace("+", "plus"))
    for part, following in zip(parts, [*parts[1:], ""], strict=False):
        word = part.removesuffix("v") if following[:1].isdigit() else part
        key += " " + word if key[-1:].isdigit() and word[:1].isdigit() else word
    return key


_PART = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)*")
