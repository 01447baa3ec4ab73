"""Start, find and end the server process.

Whether a server runs is told by a lock, not by a process id: every process of the server inherits
a descriptor that holds ``server.lock``, and the kernel frees it when the last one is gone, however
it died. A stale ``postmaster.pid`` therefore never misleads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from tracker.store.embedded.account import Account
from tracker.store.embedded.binaries import Binaries
from tracker.store.embedded.cluster import Cluster
from tracker.store.errors import EmbeddedError

_POLL_S = 0.004
# PostgreSQL's SSLRequest (protocol documentation, "Message Formats"): its length and its code. The
# server answers it with one byte, before it knows who asks, and logs nothing.
_MAY_WE_USE_TLS = struct.pack("!ii", 8, 80877103)
_NO_SUCH_PID = 2**31 - 2  # above every kernel's largest process id


class Postmaster:
    """The server process of one cluster."""

    def __init__(self, cluster: Cluster, start_timeout_s: float, stop_timeout_s: float) -> None:
        self._cluster = cluster
        self._lock_path = cluster.base / "server.lock"
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s

    # -- looking -------------------------------------------------------------------------------

    def pid_lines(self) -> list[str]:
        """Return the lines of postmaster.pid; empty if there is none."""
        try:
            return (self._cluster.pgdata / "postmaster.pid").read_text().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []

    def pid(self) -> int | None:
        """Return the id of the running server's process, None if it cannot be told."""
        lines = self.pid_lines()
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        return pid if _is_postgres_of(pid, self._cluster.pgdata) else None

    def alive(self) -> bool:
        """Whether any process of the server lives, ours or one that someone started by hand."""
        return self._locked() or self.pid() is not None

    def ready(self) -> bool:
        """Whether the server takes connections, and answers one."""
        lines = self.pid_lines()
        if len(lines) < 8 or lines[7].strip() != "ready":
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(5)
            try:
                probe.connect(os.fspath(self._cluster.socket()))
                # Connecting alone tells nothing: the kernel still queues connections for a
                # server that was killed and is not wholly gone yet.
                probe.sendall(_MAY_WE_USE_TLS)
                return probe.recv(1) != b""
            except OSError:
                return False

    def _locked(self) -> bool:
        try:
            descriptor = os.open(self._lock_path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    # -- starting ------------------------------------------------------------------------------

    def start(self, binaries: Binaries, account: Account) -> None:
        """Start the server and wait until it takes connections, crash recovery included.

        The caller holds the mutex and has seen that none is alive. Raises EmbeddedError, DiskFull.
        """
        self._forget_stale_pid(account)
        offset = self._cluster.log_size()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        lock = os.open(self._lock_path, flags, 0o600)
        log = -1
        try:
            self._take(lock)
            log = self._cluster.open_log()
            command = [
                *(str(binaries.postgres), "-D", str(self._cluster.pgdata)),
                *("-c", f"config_file={self._cluster.base / 'server.conf'}"),
            ]
            # The shell ends at once, so that the server is nobody's child: it outlives us, and
            # leaves no zombie.
            shell = ["/bin/sh", "-c", '"$@" &', "sh", *command]
            done = account.run(shell, timeout_s=30, keep_open=(lock,), output=log)
        finally:
            os.close(lock)
            if log >= 0:
                os.close(log)
        if done.returncode != 0 or not self.settle():
            raise self._cluster.why_not_started(offset)

    def settle(self) -> bool:
        """Wait until a server takes connections (True), or none is alive (False).

        It may be starting, stopping, or what is left of a crash. Raises EmbeddedError if it is
        neither after the time a start may take.
        """
        deadline = time.monotonic() + self._start_timeout_s
        while not self.ready():
            if not self.alive():
                return False
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"the embedded PostgreSQL does not answer within {self._start_timeout_s:.0f} "
                    f"s: retry in a moment, or end its process (see {self._cluster.log})"
                )
            time.sleep(_POLL_S)
        return True

    def _wait_gone(self) -> bool:
        deadline = time.monotonic() + self._stop_timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _take(self, lock: int) -> None:
        # Somebody's `_locked` may hold it for an instant.
        for _ in range(500):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_S)
            else:
                return
        raise EmbeddedError("another embedded PostgreSQL holds the data: retry in a moment")

    def _forget_stale_pid(self, account: Account) -> None:
        """Make the pid file of a dead server harmless, when its number is another program's now.

        PostgreSQL would take that program for a server of this data and refuse to start. Only the
        number is changed: the shared memory it also names is still checked by PostgreSQL. Written
        by the account, because root must not write in a folder that is not its own.
        """
        lines = self.pid_lines()
        if not lines or not lines[0].strip().isdigit() or not _exists(int(lines[0])):
            return
        text = "\n".join([str(_NO_SUCH_PID), *lines[1:]])
        pid_file, socket_lock = self._cluster.pgdata / "postmaster.pid", self._cluster.socket()
        script = 'printf "%s\\n" "$1" >"$2" && rm -f "$3.lock"'
        command = ["/bin/sh", "-c", script, "sh", text, str(pid_file), str(socket_lock)]
        account.run(command, timeout_s=10)

    # -- stopping ------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the server, open transactions rolled back. Raises EmbeddedError if it does not end.

        The caller holds the mutex.
        """
        for how in (signal.SIGINT, signal.SIGQUIT):  # fast, then immediate shutdown
            pid = self.pid()
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            if self._wait_gone():
                self._cluster.drop_socket_dir()
                return
        raise EmbeddedError(
            f"the embedded PostgreSQL does not stop (see {self._cluster.log}): end its process"
        )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_postgres_of(pid: int, pgdata: Path) -> bool:
    """Whether process ``pid`` is a PostgreSQL server of ``pgdata``, going by its command line.

    Not by its working directory: root in a container may not see that of another account.
    """
    if not os.path.exists("/proc/self/cmdline"):
        ps = ["/bin/ps", "-o", "command=", "-p", str(pid)]
        listed = subprocess.run(ps, capture_output=True, text=True, check=False)  # noqa: S603
        return f"postgres -D {pgdata} " in listed.stdout
    try:
        # Empty for a zombie.
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        arguments = [os.fsdecode(part) for part in raw.split(b"\0")]
        if os.path.basename(arguments[0]) not in {"postgres", "postmaster"}:
            return False
        return os.path.samefile(arguments[arguments.index("-D") + 1], pgdata)
    except (OSError, ValueError, IndexError):
        return False
