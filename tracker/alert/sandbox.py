"""The program that renders a rule's own template (see template.py): stdin to stdout, as JSON.

It runs without the rest of gpucost, with little time and memory.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

CPU_SECONDS = 3
MEMORY_BYTES = 512 * 2**20


def _bound() -> None:
    """Limit this process. Where the system has no such limits, the caller's time-out remains."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _render(request: dict[str, Any]) -> str:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        # The text is plain: the HTML around it is made, and escaped, elsewhere.
        autoescape=False,
        finalize=lambda value: "" if value is None else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    most, out, length = request["max_characters"], [], 0
    for piece in environment.from_string(request["template"]).generate(request["context"]):
        out.append(piece)
        length += len(piece)
        if length > most:
            break
    return "".join(out)[:most]


def main() -> None:
    """Answer {"text": …} or {"error": …}."""
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    import jinja2.sandbox  # before memory becomes scarce

    _bound()
    try:
        answer = {"text": _render(request)}
    except Exception as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        answer = {"error": f"{where}{str(error) or type(error).__name__}"}
    json.dump(answer, sys.stdout)
    del jinja2


if __name__ == "__main__":
    main()
