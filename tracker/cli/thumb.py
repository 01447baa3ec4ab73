"""``gpucost estimate 7B``: a rule of thumb, for who knows no more than the size of a model."""

from __future__ import annotations

from tracker.app import App
from tracker.cli import render
from tracker.domain.rule_of_thumb import Thumb, rule_of_thumb

_COLUMNS = (
    render.Column("FOR"), render.Column("BYTES/PARAMETER", 1, right=True),
    render.Column("GB", right=True), render.Column("STARTING POINT"),
)  # fmt: skip
NAME = "a rule of thumb by the size of the model alone"
ADVICE = (
    "It is where to start, not an estimate: it knows no hours, contexts or batches. A job file "
    "with a [workload] gets those; gpucost jobs show llama-3.1-8b-lora shows one."
)


def answer(app: App, text: str, parameters: float, output: str) -> None:
    """Print the rule for *text*, which means so many *parameters*."""
    from tracker.report.estimates import USUAL_GPUS

    gpus = [
        (key, float(spec.gpu.vram_gb))
        for key in USUAL_GPUS
        if (spec := app.catalogue.spec(key)) is not None and spec.gpu.vram_gb
    ]
    found = rule_of_thumb(parameters, gpus)
    if output == "json":
        render.print_json(
            {
                "model": text, "parameters": parameters, "basis": "rule of thumb", "remark": ADVICE,
                "uses": [one._asdict() | {"gb": round(one.gb, 2)} for one in found],
            }
        )  # fmt: skip
        return
    render.say(f"{text} parameters: {NAME}.")
    render.say()
    render.print_table(
        _COLUMNS,
        [
            [one.use, f"{one.bytes_per_parameter:.4g}", f"{one.gb:,.1f}", _start(one)]
            for one in found
        ],
    )
    render.say()
    render.say(ADVICE)


def _start(one: Thumb) -> str:
    return f"{one.gpus} x {one.gpu}" if one.gpu is not None else "more than 64 GPUs of any kind"
