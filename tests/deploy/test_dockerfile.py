"""The Dockerfile, read: two stages, no root, pinned, a health check that means something."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys

from tests.deploy.dockerfile import DOCKERFILE, ROOT, Stage, ignore_rules, let_in, stages
from tests.web.world import Status, serving

STAGES = stages(DOCKERFILE.read_text(encoding="utf-8"))
BUILD, IMAGE = STAGES


def _only(stage: Stage, word: str) -> str:
    [instruction] = stage.all(word)
    return instruction.rest


def test_what_builds_does_not_ship() -> None:
    assert [stage.name for stage in STAGES] == ["build", None]
    assert {stage.image for stage in STAGES} == {"python:3.13-slim-bookworm"}
    assert [i.rest for i in IMAGE.all("COPY")] == ["--from=build /opt/gpucost /opt/gpucost"]
    [wheel] = [i.rest for i in BUILD.all("RUN") if " wheel " in i.rest]
    assert "--no-build-isolation" in wheel  # nothing is fetched that is not pinned
    assert "[local" not in str(BUILD.instructions)


def test_every_install_is_pinned() -> None:
    installs = [i.rest for stage in STAGES for i in stage.all("RUN") if "pip" in i.rest]
    installs = [rest for rest in installs if " install " in rest]
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in rest for rest in installs)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^hatchling==", pins, re.MULTILINE)


def test_it_does_not_run_as_root() -> None:
    words = [i.word for i in IMAGE.instructions]
    assert _only(IMAGE, "USER") == "10001:10001"
    assert "--uid 10001" in _only(IMAGE, "RUN")
    assert words.index("USER") > words.index("COPY")


def test_it_starts_the_daemon_and_stops_it_in_order() -> None:
    assert IMAGE.all("ENTRYPOINT")[0].command == ["gpucost"]  # no shell that would keep SIGTERM
    assert IMAGE.all("CMD")[0].command == ["daemon"]
    assert _only(IMAGE, "STOPSIGNAL") == "SIGTERM"
    assert _only(IMAGE, "EXPOSE") == "9753"


def test_all_that_the_package_is_built_of_is_copied() -> None:
    copied = {word for i in BUILD.all("COPY") for word in i.words[:-1]}
    for path in copied:
        assert (ROOT / path).exists(), path
        assert let_in(path, ignore_rules()), path
    assert copied >= {"constraints.txt", "pyproject.toml", "tracker", "providers", "migrations"}


def test_secrets_and_databases_beside_it_stay_out() -> None:
    rules = ignore_rules()
    for path in (
        "gpucost.toml", "deploy/secrets/database_url", ".env", ".git/config", ".venv/bin/python",
        "tests/conftest.py", "data/pgdata/base", "tracker/__pycache__/app.pyc",
    ):  # fmt: skip
        assert not let_in(path, rules), path
    assert let_in("tracker/data/gpus.json", rules)


def test_the_health_check_asks_whether_it_is_ready() -> None:
    [check] = IMAGE.all("HEALTHCHECK")
    program, *arguments = check.command[0:]
    assert program == "python"

    async def main() -> None:
        status = Status()
        async with serving(status) as url:
            port = url.rpartition(":")[2]
            assert await _run(arguments, port) == 0
            status.missing = ["no provider is configured"]
            assert await _run(arguments, port) == 1
        assert await _run(arguments, port) != 0

    asyncio.run(main())


async def _run(arguments: list[str], port: str) -> int:
    # A proxy for the way out must not be asked for the way in.
    variables = {"GPUCOST_DAEMON__PORT": port, "http_proxy": "http://127.0.0.1:1"}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, *arguments], env={**os.environ, **variables},
        capture_output=True, timeout=30,
    )  # fmt: skip
    return int(done.returncode)
