"""`make run` on a clean checkout, twice: as an ordinary account and as whoever runs the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.replayed import replaying
from tests.support.pg import reachable_folder
from tracker.store.embedded.account import Account

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc"),
]

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED_ON = ("PIP_", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"


class Checkout:
    """A copy of what git would hand out, owned by *account*, in a folder with a space."""

    def __init__(self, home: Path, account: Account) -> None:
        self.home, self.account = home, account
        self.folder = home / "a checkout"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
        if account.switch:
            for path in (home, *home.rglob("*")):
                os.chown(path, account.uid, account.gid)

    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_file() and path.relative_to(self.folder).parts[0] != ".venv"
            and "__pycache__" not in path.parts
        }  # fmt: skip

    def run(
        self, *command: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run *command* in the checkout as the account, with hardly any of our environment."""
        kept = {
            name: value for name, value in os.environ.items() if name.upper().startswith(PASSED_ON)
        }
        switch = self.account.switch
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**kept, "PATH": SYSTEM_PATH, "HOME": str(self.home), **(variables or {})},
            user=self.account.uid if switch else None,
            group=self.account.gid if switch else None,
            extra_groups=[] if switch else None,
            capture_output=True,
            text=True,
            timeout=900,
        )

    def processes(self) -> list[str]:
        """Command lines of the processes that work in the home folder or name it."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                folder = os.readlink(entry / "cwd")
            except OSError:  # gone meanwhile
                continue
            if str(self.home) in line or folder.startswith(str(self.home)):
                found.append(line)
        return found


def _ordinary() -> Account:
    if os.geteuid() != 0:
        entry = pwd.getpwuid(os.geteuid())
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=False)
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _root() -> Account:
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    return Account("root", 0, 0, switch=False)


@pytest.fixture(params=["ordinary", "root"])
def checkout(request: pytest.FixtureRequest) -> Iterator[Checkout]:
    account = _ordinary() if request.param == "ordinary" else _root()
    with reachable_folder() as folder:
        home = folder / "home"
        home.mkdir()
        home.chmod(0o755)
        yield Checkout(home, account)


def _python(checkout: Checkout) -> str:
    """A Python that the account can run and that can install something; else skip."""
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        if checkout.run("sh", "-c", f"{name} -c '{NEW_ENOUGH}'").returncode == 0:
            break
    else:
        pytest.skip(f"{checkout.account.name} has no Python of version 3.11 or newer")
    pin = next(
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if "click==" in line
    )
    tried = checkout.run(
        "sh", "-ec",
        f"cd ~; {name} -m venv try; try/bin/pip download --no-deps --dest got {pin}; rm -r try got",
    )  # fmt: skip
    if tried.returncode:
        pytest.skip(f"{checkout.account.name} cannot install: {tried.stderr.strip()[-200:]}")
    return name


def test_make_run_twice_on_a_clean_checkout(checkout: Checkout) -> None:
    python, before = _python(checkout), checkout.files()
    with replaying() as providers:
        variables = dict(providers)
        if checkout.account.name == "root":  # not the machine's own /var/lib/gpucost
            variables["XDG_DATA_HOME"] = str(checkout.home / "data")
        for attempt in ("first", "second"):
            done = checkout.run("make", "run", f"PYTHON={python}", variables=variables)
            assert done.returncode == 0, f"{attempt}: {done.stdout}\n{done.stderr}"
            assert ("installing gpucost" in done.stderr) == (attempt == "first")
            assert "Break-even: H100" in done.stdout, done.stdout
            assert all(gpu in done.stdout for gpu in ("A100-", "H100-", "RTX4090-"))
            assert checkout.processes() == []
    assert checkout.files() == before
