"""Write docs/models.md from tracker/data/models.toml.

``python -m tools.models_page`` rewrites the page; a test compares it with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tracker.domain.models import Kind, Model, Models
from tracker.domain.models_layout import Layout

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tracker" / "data" / "models.toml"
PAGE = ROOT / "docs" / "models.md"

_HEAD = """\
# Models

Written by `make docs` from `tracker/data/models.toml`; do not edit it here.

A job names its model in any usual spelling: case, blanks and punctuation do not matter, the owner
may be left out, and so may words such as "Instruct". Parameters are as published; those of a
transformer were recomputed from its layout and agree within 1 %. Active parameters are what one
token of a mixture of experts meets, as its owner counts them: some leave the embeddings out. The
inner width of the MLP is that of one expert. Context is in tokens. Where a model reads images too,
the layout is that of its language part and the parameters are those of both.

What is left out: sliding windows (the KV cache is taken for a full one, the larger need), modules
that predict further tokens, and the text encoders and image decoders beside a diffusion model.
"""
_TITLES = {
    Kind.DECODER: "Language models",
    Kind.ENCODER: "Text encoders",
    Kind.ENCODER_DECODER: "Encoder and decoder",
    Kind.VISION: "Vision",
    Kind.DIFFUSION: "Diffusion",
    Kind.SPEECH: "Speech",
    Kind.RECOMMENDER: "Recommenders",
}
_NOTES = {
    Kind.DIFFUSION: "The denoiser alone.\n\n",
    Kind.SPEECH: "Context is that of the decoder; the encoder hears 30 seconds at a time.\n\n",
}
_COLUMNS = (
    "model", "parameters", "active", "layers", "width", "heads", "KV heads", "head", "MLP",
    "vocabulary", "experts", "context", "source",
)  # fmt: skip


def page() -> str:
    """The whole page."""
    models = Models.from_toml(DATA.read_text(encoding="utf-8"))
    known = [models.get(name) for name in models.names()]
    sections = [_section(kind, [m for m in known if m.kind is kind]) for kind in Kind]
    return _HEAD + "".join(sections)


def _section(kind: Kind, models: list[Model]) -> str:
    rows = [_row(_COLUMNS), _row("---" for _ in _COLUMNS), *(_row(_cells(m)) for m in models)]
    return f"\n## {_TITLES[kind]}\n\n{_NOTES.get(kind, '')}" + "\n".join(rows) + "\n"


def _cells(model: Model) -> Iterator[str]:
    yield model.name
    yield _count(model.params)
    yield "" if model.active_params is None else _count(model.active_params)
    yield from _sizes(model)
    yield "" if model.context is None else str(model.context)
    yield model.source


def _sizes(model: Model) -> Iterable[str]:
    layout = model.layout
    if isinstance(layout, Layout):
        both = f"{layout.layers} + {layout.decoder_layers}"
        return (
            both if layout.decoder_layers else str(layout.layers),
            str(layout.width),
            str(layout.heads),
            f"{layout.kv_rank} + {layout.rope_dim} values" if layout.kv_rank
            else str(layout.key_heads),
            str(layout.head),
            str(layout.ffn),
            str(layout.vocab),
            f"{layout.experts_per_token} of {layout.experts}" if layout.experts > 1 else "",
        )  # fmt: skip
    if layout is None:
        return ("",) * 8
    layers = f"{layout.layers} + {layout.single_layers}" if layout.single_layers else layout.layers
    head = layout.width // layout.heads
    return (str(layers), str(layout.width), str(layout.heads), str(layout.heads), str(head),
            str(4 * layout.width), "", "")  # fmt: skip


def _count(number: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return str(number)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
