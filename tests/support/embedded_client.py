"""Another process that uses an embedded server, also as another account."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tracker.store.embedded.account import Account

REPOSITORY = Path(__file__).resolve().parents[2]

# Reads commands from stdin, answers each with one line.
_SCRIPT = """
import sys
from pathlib import Path
from tracker.store.embedded import Embedded
from tracker.store.errors import StoreError
embedded = Embedded(
    Path(sys.argv[1]), bindir=Path(sys.argv[2]) if sys.argv[2] else None, durable=False
)
for line in sys.stdin:
    command, _, argument = line.rstrip().partition(" ")
    try:
        if command == "sql":
            import psycopg
            with psycopg.connect(embedded.acquire()) as connection:
                answer = connection.execute(argument).fetchone()[0]
            embedded.release()
        else:
            answer = getattr(embedded, command)()
    except StoreError as error:
        answer = f"{type(error).__name__}: {error}"
    print(answer, flush=True)
"""


class Client:
    """A Python process with an ``Embedded``; ``ask`` calls a method of it, or runs SQL."""

    def __init__(
        self,
        data_dir: Path,
        *,
        bindir: Path | None = None,
        account: Account | None = None,
        through: Sequence[str] = (),
    ) -> None:
        """``account``: whom to run as (root only). ``through``: a command to run it with."""
        python = interpreter_for(account)
        arguments = [*through, str(python), "-c", _SCRIPT, str(data_dir), str(bindir or "")]
        paths = [str(REPOSITORY), *map(str, _package_folders())]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd="/",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )

    def send(self, command: str) -> None:
        """Send a command without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for the answer to what was sent."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the client ended with {self.process.wait(timeout=30)}"
        return line.rstrip()

    def ask(self, command: str) -> str:
        """Send a command and return its answer."""
        self.send(command)
        return self.answer()

    def kill(self) -> None:
        """End the process as the kernel's out-of-memory killer would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.communicate(timeout=60)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _package_folders() -> list[Path]:
    """Return where our packages are: another interpreter does not look there by itself."""
    return [Path(entry) for entry in sys.path if entry.endswith("site-packages")]


def unprivileged_account() -> Account:
    """Return an account without rights for a child process: skips unless root can become it."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a process as another account")
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def interpreter_for(account: Account | None) -> Path:
    """Return a Python of our version that ``account`` can run, with our packages; else skip."""
    if account is None:
        return Path(sys.executable)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (Path(sys.executable).resolve(), Path("/usr/bin") / name):
        if python.exists() and account.can_run(python):
            break
    else:
        pytest.skip(f"no {name} that the account {account.name} can run: it is in a closed home")
    for folder in (REPOSITORY, *_package_folders()):
        if not account.can_enter(folder):
            pytest.skip(f"the account {account.name} cannot read {folder}")
    return python
