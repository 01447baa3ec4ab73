"""Write tracker/data/gpus.json from gpus.toml and aliases.toml, after every change of them.

    python -m tools.compile_gpus

The command line reads the JSON: parsing the TOML would be a noticeable part of its start-up time.
A test fails while they differ.
"""

from __future__ import annotations

from pathlib import Path

from tracker import data
from tracker.domain.gpu_data import compile_gpus


def main() -> None:
    """Write the file."""
    target = Path(data.__file__).with_name("gpus.json")
    compiled = compile_gpus(data.text("gpus.toml"), data.text("aliases.toml"))
    target.write_text(compiled, encoding="utf-8")


if __name__ == "__main__":
    main()
