"""A rule's own template: Jinja2 in a sandbox, in a process of its own.

The sandbox keeps a template away from Python; the process bounds what a loop may take of time and
memory, which no thread can. Alerts are rare: a fifth of a second for one does not matter.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from tracker.telemetry import one_line

MAX_TEMPLATE_CHARACTERS = 20_000

_TIMEOUT_S = 10.0  # on the wall; the process may use less of the processor
_ERROR_CHARACTERS = 200


class TemplateFailed(Exception):
    """A template that gave no text: one line."""


@functools.cache
def _program() -> str:
    spec = find_spec("tracker.alert.sandbox")
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    return str(source)


def check(template: str) -> str | None:
    """What is wrong with the syntax of *template*, in one line; None when nothing is."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if len(template) > MAX_TEMPLATE_CHARACTERS:
        return f"longer than {MAX_TEMPLATE_CHARACTERS} characters"
    try:
        ImmutableSandboxedEnvironment().parse(template)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        return where + one_line(str(error), _ERROR_CHARACTERS)
    except RecursionError:
        return "nested too deeply"
    return None


def render(
    template: str,
    context: Mapping[str, Any],
    *,
    max_characters: int,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """The text of *template*, cut to *max_characters*. Raises TemplateFailed."""
    problem = check(template)
    if problem is not None:
        raise TemplateFailed(problem)
    request = {
        "path": [folder for folder in sys.path if folder],
        "template": template,
        "context": context,
        "max_characters": max_characters,
    }
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-I", "-c", _program()],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout_s,
            env={},
            check=False,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise TemplateFailed("it takes too long") from None
    except (OSError, ValueError):
        # Killed by a limit, or no process could be started.
        raise TemplateFailed("it takes too much time or memory") from None
    if "text" not in answer:
        raise TemplateFailed(one_line(str(answer.get("error")), _ERROR_CHARACTERS))
    return str(answer["text"])
