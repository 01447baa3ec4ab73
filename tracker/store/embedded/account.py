"""Which system account runs the server, and what that account can reach.

PostgreSQL refuses to run as root. Root therefore runs it as an existing unprivileged account;
nothing is created, and no permission of a folder that was there before is ever changed.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracker.store.errors import EmbeddedError

# `postgres` first: `nobody` is shared with whatever else was told to run as nobody.
_PREFERRED_ACCOUNTS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the server process. ``switch`` tells that this process is root."""

    name: str
    uid: int
    gid: int
    switch: bool

    def can_enter(self, folder: Path) -> bool:
        """Whether the account can enter ``folder``, going by the mode bits or by trying."""
        if not self.switch:
            return os.access(folder, os.X_OK)
        if all(self._may_enter(part) for part in (folder, *folder.resolve().parents)):
            return True
        # Mode bits do not tell of access lists: ask the system before refusing.
        return self._try(["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)])

    def can_run(self, program: Path) -> bool:
        """Whether the account can execute ``program``."""
        if not self.switch:
            return os.access(program, os.X_OK)
        return self.can_enter(program.parent) and bool(program.stat().st_mode & stat.S_IXOTH)

    def _may_enter(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def _try(self, command: Sequence[str]) -> bool:
        try:
            done = self.run(command, timeout_s=10)
        except (OSError, EmbeddedError):
            return False
        return done.returncode == 0

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float,
        stdin: str | None = None,
        keep_open: Sequence[int] = (),
        output: int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` as the account, in a session and an environment of its own.

        ``keep_open`` are descriptors it inherits. Secrets in our environment stay with us.
        Raises EmbeddedError if this process may not become the account, or the account may not
        run the program, or it takes longer than ``timeout_s``.
        """
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        try:
            return subprocess.run(  # noqa: S603 - a fixed program found by us, no shell text
                command,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                cwd="/",
                env=environment,
                umask=0o077,
                start_new_session=True,
                pass_fds=keep_open,
                user=self.uid if self.switch else None,
                group=self.gid if self.switch else None,
                extra_groups=[] if self.switch else None,
            )
        except PermissionError as error:
            if self.switch and not self._may_switch():
                raise EmbeddedError(
                    f"this root may not become the account {self.name}: run as an ordinary user, "
                    "or give database_url"
                ) from error
            raise EmbeddedError(
                f"the account {self.name} may not run {command[0]}: set postgres_bindir to a "
                "PostgreSQL that it can run"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(
                f"{command[0]} took longer than {timeout_s:.0f} s and was ended: retry"
            ) from error

    def _may_switch(self) -> bool:
        """Whether this root may change its user id at all (a container may forbid it)."""
        try:
            subprocess.run(["/bin/sh", "-c", ":"], user=self.uid, check=False)
        except PermissionError:
            return False
        return True


def choose_account(owner_uid: int | None, name: str | None = None) -> Account:
    """Return the account to run the server as.

    ``owner_uid`` is who owns the existing data, if any: PostgreSQL accepts no other. ``name`` is
    the configured account, used only by root. Raises EmbeddedError with what to do.
    """
    uid = os.geteuid()
    if uid != 0:
        return Account(_own_name(uid), uid, os.getegid(), switch=False)
    entry = _entry_of_owner(owner_uid) if owner_uid is not None else None
    if name is not None:
        wanted = _entry_by_name(name)
        if wanted is None:
            raise EmbeddedError(f"there is no account {name}: set postgres_user to one")
        if entry is not None and entry.pw_uid != wanted.pw_uid:
            raise EmbeddedError(
                f"the data belongs to {entry.pw_name}, not to {name}: set postgres_user to it"
            )
        entry = wanted
    if entry is None:
        entry = next(filter(None, map(_entry_by_name, _PREFERRED_ACCOUNTS)), None)
    if entry is None or entry.pw_uid == 0:
        raise EmbeddedError(
            "PostgreSQL does not run as root and no other account was found: set postgres_user"
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _own_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise EmbeddedError(
            f"user id {uid} has no name in /etc/passwd, which PostgreSQL needs: "
            "add one, or give database_url"
        ) from None


def _entry_of_owner(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"the data belongs to user id {uid}, which has no name in /etc/passwd: add one"
        ) from None


def _entry_by_name(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
