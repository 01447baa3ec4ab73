"""Providers are found by entry point; a broken one is named and hides no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracker import registry

OURS = {"aws", "azure", "databasemart", "pricebook", "runpod", "vastai"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Put a package with one provider entry point on the path, as an installer would."""

    def put(name: str, module: str, source: str, attribute: str = "provider") -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[{registry.GROUP}]\n{name} = {module}:{attribute}\n"
        )

    monkeypatch.syspath_prepend(tmp_path)
    return put


def test_the_shipped_providers_are_there() -> None:
    assert set(registry.names()) >= OURS
    good, broken = registry.load_all(sorted(OURS))
    assert {provider.name for provider in good} == OURS
    assert not broken


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_xyz", "ModuleNotFoundError"),
        ("raise RuntimeError('licence server down\\nsecond line')", "licence server down"),
        ("import sys; sys.exit('bad licence')", "SystemExit: bad licence"),
        ("provider = 3", "is not a tracker.provider.Provider"),
        ("nothing = 1", "AttributeError"),
        ("from providers.runpod import provider", "calls itself 'runpod'"),
    ],
)
def test_a_broken_provider_is_isolated_and_named(install, source: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    install("brokencloud", f"broken_{abs(hash(source))}", source)
    good, broken = registry.load_all()
    assert {provider.name for provider in good} >= OURS
    assert [b.name for b in broken] == ["brokencloud"]
    assert reason in broken[0].reason
    assert "\n" not in broken[0].reason
    with pytest.raises(registry.BrokenProvider, match="brokencloud"):
        registry.load("brokencloud")


def test_two_packages_may_not_claim_one_name(install) -> None:  # type: ignore[no-untyped-def]
    install("runpod", "impostor_runpod", "from providers.vastai import provider")
    with pytest.raises(registry.BrokenProvider, match="two installed packages"):
        registry.load("runpod")


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(registry.UnknownProvider, match=r"did you mean vastai\?"):
        registry.load("vast")
    with pytest.raises(registry.UnknownProvider, match="known: aws"):
        registry.load("zzzz")
