"""The embedded server as its users see it: lease it, use its URL, give it back."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tracker.store.embedded.account import Account, choose_account
from tracker.store.embedded.binaries import find_binaries, reachable_binaries
from tracker.store.embedded.cluster import DATABASE, ROLE, Cluster
from tracker.store.embedded.process import Postmaster
from tracker.store.errors import EmbeddedError, ServerInUse, from_os_error


@dataclass(frozen=True, slots=True)
class Status:
    """What the embedded server is doing. ``url`` and ``pid`` are None when it does not run."""

    running: bool
    kept: bool
    in_use: bool
    pid: int | None
    url: str | None
    data: Path
    major: int | None
    log: Path


class Embedded:
    """The PostgreSQL of one data folder, shared by all processes that use it.

    Each user holds a lease (a lock that the kernel frees when the process ends, even by kill -9).
    The first starts the server, the last one that leaves stops it, unless ``start`` was called.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        bindir: Path | None = None,
        account: str | None = None,
        settings: Mapping[str, str] | None = None,
        durable: bool = True,
        start_timeout_s: float = 60,
        stop_timeout_s: float = 60,
    ) -> None:
        """Nothing is touched before ``acquire``.

        ``bindir``: where ``postgres`` is, instead of looking for it. ``account``: who runs the
        server when we are root. ``settings``: more lines for its configuration. ``durable=False``
        gives up safety against power loss for speed, for tests.
        """
        # Resolved, because the account may not pass where our symbolic links lie.
        self._base = data_dir.expanduser().resolve() / "postgres"
        self._bindir = bindir
        self._account_name = account
        self._durable = durable
        unsafe = {} if durable else {"fsync": "off", "full_page_writes": "off"}
        self._cluster = Cluster(self._base, {**unsafe, **(settings or {})})
        self._postmaster = Postmaster(self._cluster, start_timeout_s, stop_timeout_s)
        self._guard = threading.Lock()
        self._lease: int | None = None
        self._holders = 0

    # -- using ---------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[str]:
        """Hold a lease for a ``with`` block; gives the database's URL."""
        url = self.acquire()
        try:
            yield url
        finally:
            self.release()

    def acquire(self) -> str:
        """Take a lease, start the server if it does not run, return the URL of its database.

        Called again it also restarts a server that was killed meanwhile. Every ``acquire`` needs
        one ``release``. Raises EmbeddedError, DatabaseReadOnly, DiskFull.
        """
        with self._guard:
            lease = self._take_lease(self._lease)
            self._lease = lease
            self._holders += 1
            return self._url()

    def release(self) -> None:
        """Give a lease back; the last of all processes stops the server."""
        with self._guard:
            if self._lease is None:
                return
            self._holders -= 1
            if self._holders:
                return
            lease, self._lease = self._lease, None
            try:
                with self._mutex():
                    if self._is_last(lease) and not self._kept():
                        self._stop_if_alive()
            finally:
                os.close(lease)

    # -- keeping -------------------------------------------------------------------------------

    def start(self) -> str:
        """Start the server and leave it running until ``stop``; returns the URL."""
        with self.running() as url:
            with self._mutex():
                self._cluster.keep.write_text(self._instance(), encoding="utf-8")
            return url

    def stop(self, *, force: bool = False) -> bool:
        """Stop the server; returns whether one was running.

        Raises ServerInUse when other processes use it, unless ``force``: their connections break.
        """
        self._refuse_foreign_folder()
        if not self._base.is_dir():
            return False
        with self._guard, self._mutex():
            self._cluster.keep.unlink(missing_ok=True)
            if not self._postmaster.alive():
                return False
            if not force and self._in_use():
                raise ServerInUse(
                    "other gpucost processes use the database: end them first, or force it"
                )
            self._postmaster.stop()
            return True

    def status(self) -> Status:
        """Return what the server is doing; starts and stops nothing.

        Waits for a start or stop that is going on. Raises EmbeddedError, DatabaseReadOnly.
        """
        self._refuse_foreign_folder()
        # The mutex, because looking for other leases takes the lock for an instant.
        with self._mutex() if self._base.is_dir() else nullcontext():
            return self._status()

    def programs(self) -> Path | None:
        """The folder with PostgreSQL's programs that fit the data; None when there is none."""
        try:
            return find_binaries(self._bindir, self._cluster.major()).bindir
        except EmbeddedError:
            return None

    def _status(self) -> Status:
        ready = self._postmaster.ready()
        return Status(
            running=ready,
            kept=ready and self._kept(),
            in_use=self._base.is_dir() and self._in_use(),
            pid=self._postmaster.pid() if ready else None,
            url=self._url() if ready else None,
            data=self._cluster.pgdata,
            major=self._cluster.major(),
            log=self._cluster.log,
        )

    # -- how -----------------------------------------------------------------------------------

    def _url(self) -> str:
        host = quote(os.fspath(self._cluster.socket_dir()), safe="")
        return f"postgresql://{ROLE}@/{DATABASE}?host={host}"

    def _take_lease(self, held: int | None) -> int:
        """Return a lease (the held one, or a new one) on a server that runs."""
        self._make_base()
        try:
            with self._mutex() as mutex:
                lease = self._open_lock("users.lock") if held is None else held
                try:
                    fcntl.flock(lease, fcntl.LOCK_SH)
                    self._ensure_running(mutex)
                except BaseException:
                    if held is None:
                        os.close(lease)
                    raise
                return lease
        except OSError as error:
            raise from_os_error(error, str(self._base)) from error

    def _ensure_running(self, mutex: int) -> None:
        self._cluster.trim_log()
        if self._postmaster.settle():
            return
        major = self._cluster.major()
        account = choose_account(self._cluster.owner_uid(), self._account_name)
        self._refuse_unreachable(account)
        binaries = reachable_binaries(find_binaries(self._bindir, major), account, self._base)
        if major is None:
            self._cluster.initialise(binaries, account, mutex, durable=self._durable)
        self._cluster.write_settings(self._cluster.make_socket_dir(account), account)
        self._postmaster.start(binaries, account)

    def _stop_if_alive(self) -> None:
        if self._postmaster.alive():
            self._postmaster.stop()

    def _is_last(self, lease: int) -> bool:
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _in_use(self) -> bool:
        try:
            probe = os.open(self._base / "users.lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not self._is_last(probe)
        finally:
            os.close(probe)

    def _instance(self) -> str:
        """Return what tells this run of the server from others: process id and start time."""
        lines = self._postmaster.pid_lines()
        return f"{lines[0].strip()} {lines[2].strip()}" if len(lines) > 2 else ""

    def _kept(self) -> bool:
        # A reboot or a crash ends what `start` asked for.
        try:
            return self._cluster.keep.read_text() == self._instance()
        except FileNotFoundError:
            return False

    @contextmanager
    def _mutex(self) -> Iterator[int]:
        """Let one process at a time start or stop the server; gives the lock's descriptor."""
        descriptor = self._open_lock("start.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_lock(self, name: str) -> int:
        path = self._base / name
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise from_os_error(error, str(self._base)) from error

    def _make_base(self) -> None:
        """Make the folder. Only what is made here gets a mode; what was there keeps its own."""
        # 0711: root's server account must pass through, and can list nothing.
        mode = 0o711 if os.geteuid() == 0 else 0o700
        try:
            missing = [p for p in (self._base, *self._base.parents) if not p.exists()]
            for folder in reversed(missing):
                with suppress(FileExistsError):
                    folder.mkdir()
                    folder.chmod(mode)
        except OSError as error:
            raise from_os_error(error, str(self._base)) from error
        self._refuse_foreign_folder()

    def _refuse_foreign_folder(self) -> None:
        """Refuse a folder of another user's: root must not write there, others cannot."""
        try:
            owner = self._base.stat().st_uid
        except FileNotFoundError:
            return
        except OSError as error:
            raise from_os_error(error, str(self._base)) from error
        if owner != os.geteuid():
            raise EmbeddedError(
                f"{self._base} belongs to user id {owner}: run gpucost as that user, "
                "or choose another data_dir"
            )

    def _refuse_unreachable(self, account: Account) -> None:
        if not account.can_enter(self._base):
            raise EmbeddedError(
                f"the account {account.name}, which runs PostgreSQL, cannot enter {self._base}: "
                f"choose a data_dir it can reach, such as /var/lib/gpucost"
            )
