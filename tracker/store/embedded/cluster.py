"""The files of the embedded server: data, settings, access rules, socket, log.

Layout of ``<data_dir>/postgres``::

    pgdata/        the cluster, owned by the server's account
    run/           the socket (or ``socket`` names a shorter folder: socket paths are limited)
    *.conf, server.log, *.lock, keep    owned by us, so that root never writes in a folder of the
                                        account's
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from tracker.store.embedded.account import Account
from tracker.store.embedded.binaries import Binaries
from tracker.store.errors import DiskFull, EmbeddedError, from_os_error, scrub

DATABASE = "gpucost"
ROLE = "gpucost"
PORT = 5432

_INITDB_TIMEOUT_S = 180
# sun_path holds 108 bytes on Linux, 104 on macOS, the closing zero included; the lock file of the
# socket is 5 longer, but is an ordinary file.
_MAX_SOCKET_PATH_BYTES = 102
_LOG_LIMIT_BYTES = 1_000_000

# Small, durable, private. No WAL for replicas: a copy is made by `gpucost export` or pg_dump.
_SETTINGS: dict[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "max_connections": "40",
    "shared_buffers": "64MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "64MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "512MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_min_messages": "warning",
    # Statements carry data: the error alone is logged.
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "gpucost",
}


class Cluster:
    """Paths and files below ``base``; knows nothing of processes."""

    def __init__(self, base: Path, extra_settings: Mapping[str, str]) -> None:
        self.base = base
        self.pgdata = base / "pgdata"
        self.log = base / "server.log"
        self.keep = base / "keep"
        self._socket_note = base / "socket"
        self._extra_settings = dict(extra_settings)

    # -- the data ------------------------------------------------------------------------------

    def owner_uid(self) -> int | None:
        """Return who owns the data, None if there is none yet."""
        try:
            return self.pgdata.stat().st_uid
        except FileNotFoundError:
            return None

    def major(self) -> int | None:
        """Return the data's major version, None if there is none yet.

        Raises EmbeddedError if the folder holds something else.
        """
        if not self.pgdata.exists():
            return None
        try:
            return int((self.pgdata / "PG_VERSION").read_text().strip())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise EmbeddedError(
                f"{self.pgdata} is not a PostgreSQL data folder: move it away, or choose another "
                "data_dir"
            ) from None
        except PermissionError as error:
            raise from_os_error(error, str(self.pgdata)) from error

    def initialise(
        self, binaries: Binaries, account: Account, mutex: int, *, durable: bool
    ) -> None:
        """Make the cluster and its database beside the final place, then rename.

        Killed at any moment it leaves nothing that looks like a finished cluster. The programs
        inherit ``mutex``: while they outlive us nobody else starts anew.
        """
        for leftover in self.base.glob("pgdata.new-*"):
            shutil.rmtree(leftover)
        fresh = _private_folder("pgdata.new-", self.base)
        try:
            if account.switch:
                os.chown(fresh, account.uid, account.gid)
            command = [
                *(str(binaries.initdb), "-D", str(fresh), "-U", ROLE),
                *("--encoding=UTF8", "--locale=C", "--auth-local=peer", "--auth-host=reject"),
                *("--data-checksums", *([] if durable else ["--no-sync"])),
            ]
            _run_or_raise(account, command, mutex)
            single = [str(binaries.postgres), "--single", "-D", str(fresh), "postgres"]
            if not durable:
                single[2:2] = ["-c", "fsync=off"]
            _run_or_raise(account, single, mutex, stdin=f"CREATE DATABASE {DATABASE};\n")
            fresh.rename(self.pgdata)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        _sync_folder(self.base)

    # -- the settings --------------------------------------------------------------------------

    def write_settings(self, socket_dir: Path, account: Account) -> None:
        """Write the server's settings and who may log in: this user, and the account."""
        settings = {
            **_SETTINGS,
            "unix_socket_directories": str(socket_dir),
            "hba_file": str(self.base / "hba.conf"),
            "ident_file": str(self.base / "ident.conf"),
            **self._extra_settings,
        }
        lines = [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
        names = dict.fromkeys([account.name, *(["root"] if account.switch else [])])
        readable = 0o644 if account.switch else 0o600
        _replace(self.base / "server.conf", "".join(lines), readable)
        _replace(self.base / "hba.conf", "local all all peer map=own\n", readable)
        idents = [f"own {_ident(name)} {ROLE}\n" for name in names]
        _replace(self.base / "ident.conf", "".join(idents), readable)

    # -- the socket ----------------------------------------------------------------------------

    def socket_dir(self) -> Path:
        """Return where the socket is, or will be."""
        try:
            return Path(os.fsdecode(self._socket_note.read_bytes()))
        except FileNotFoundError:
            return self.base / "run"

    def make_socket_dir(self, account: Account) -> Path:
        """Return a private folder for the socket, made for the account if it is missing."""
        near = self.base / "run"
        if len(os.fsencode(near / f".s.PGSQL.{PORT}")) <= _MAX_SOCKET_PATH_BYTES:
            self._socket_note.unlink(missing_ok=True)
            near.mkdir(mode=0o700, exist_ok=True)
            if account.switch:
                os.chown(near, account.uid, account.gid, follow_symlinks=False)
            return near
        noted = self.socket_dir()
        if noted != near and _is_private(noted, account.uid):
            return noted
        # Not tempfile's folder: TMPDIR may be long, or closed to the account.
        short = _private_folder("gpucost-", Path("/tmp"))  # noqa: S108 - private, random name
        if account.switch:
            os.chown(short, account.uid, account.gid)
        _replace(self._socket_note, os.fsdecode(short), 0o600)
        return short

    def drop_socket_dir(self) -> None:
        """Remove the short folder of a server that has stopped."""
        folder = self.socket_dir()
        if folder != self.base / "run":
            shutil.rmtree(folder, ignore_errors=True)
            self._socket_note.unlink(missing_ok=True)

    def socket(self) -> Path:
        """Return the socket's path."""
        return self.socket_dir() / f".s.PGSQL.{PORT}"

    # -- the log -------------------------------------------------------------------------------

    def open_log(self) -> int:
        """Open the log to append; returns the descriptor."""
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o640)

    def log_size(self) -> int:
        """Return the log's length in bytes."""
        try:
            return self.log.stat().st_size
        except FileNotFoundError:
            return 0

    def trim_log(self) -> None:
        """Keep the log below about 2 MB: the server appends, so it may be cut while it runs."""
        if self.log_size() <= _LOG_LIMIT_BYTES:
            return
        shutil.copyfile(self.log, self.base / "server.log.1")
        os.truncate(self.log, 0)

    def why_not_started(self, log_offset: int) -> EmbeddedError | DiskFull:
        """Return the error for a server that ended, from what it logged past ``log_offset``."""
        try:
            text = self.log.read_bytes()[log_offset:].decode("utf-8", errors="replace")
        except OSError:
            text = ""
        return failure_from_output("start", text, self.log)


def failure_from_output(
    action: str, text: str, log: Path | None = None
) -> EmbeddedError | DiskFull:
    """Return the error for PostgreSQL's output ``text`` of a failed ``action``."""
    if "no space left" in text.lower():
        return DiskFull("no space left for the embedded PostgreSQL: free some space and retry")
    reason = scrub(_telling_line(text))
    where = f" (see {log})" if log else ""
    return EmbeddedError(f"the embedded PostgreSQL did not {action}: {reason}{where}")


def _telling_line(text: str) -> str:
    """Return what a log says went wrong, and its detail, without time and process."""
    lines = [line for line in text.splitlines() if line.strip()]
    for index, line in reversed(list(enumerate(lines))):
        found = re.search(r"(?:FATAL|PANIC|[Ee]rror):\s*(.*)", line)
        if found:
            rest = " ".join(lines[index + 1 : index + 2])
            detail = re.search(r"DETAIL:\s*(.*)", rest)
            return f"{found[1]} ({detail[1]})" if detail else found[1]
    return lines[-1] if lines else "it said nothing"


def _run_or_raise(
    account: Account, command: list[str], mutex: int, stdin: str | None = None
) -> None:
    done = account.run(command, timeout_s=_INITDB_TIMEOUT_S, stdin=stdin, keep_open=(mutex,))
    # The single-user server ends with 0 even when the statement failed.
    if done.returncode != 0 or "ERROR:" in done.stdout or "FATAL:" in done.stdout:
        raise failure_from_output("prepare its data", done.stdout)


def _private_folder(prefix: str, parent: Path) -> Path:
    import tempfile  # costs more than the rest of this module, and is hardly ever needed

    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def _is_private(folder: Path, uid: int) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    mode = status.st_mode
    return stat.S_ISDIR(mode) and status.st_uid == uid and not stat.S_IMODE(mode) & 0o077


def _quoted(value: str) -> str:
    # A backslash starts an escape in postgresql.conf's strings.
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _replace(path: Path, text: str, mode: int) -> None:
    """Write ``path`` whole or not at all, unless it already says so."""
    content = os.fsencode(text)
    try:
        if path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == mode:
            return
    except FileNotFoundError:
        pass
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    fresh.rename(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
