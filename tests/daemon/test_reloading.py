"""Reading the configuration anew: which file, how often, and which one wins."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.daemon.world import World, polls, until
from tests.support.providers import disabled
from tracker.app import App
from tracker.daemon.plan import make_plan
from tracker.daemon.reloading import read_again
from tracker.settings import SettingsError


def test_while_its_file_is_away_the_old_configuration_stays(
    world: World, database_url: str
) -> None:
    # Found in the folder, not named: nothing else would miss it.
    world.environment["GPUCOST_CONFIG"] = ""
    away = world.config.with_name("saved-next-to-it")
    with world.daemon() as daemon:
        until(lambda: polls(database_url, "beta") >= 1)
        world.config.rename(away)
        daemon.send(signal.SIGHUP)
        assert str(world.config) in daemon.says("not reloaded, the old one stays: .* is gone")
        assert "is gone" in daemon.status()["reload_error"]
        before = polls(database_url, "beta")
        until(lambda: polls(database_url, "beta") > before)
        names = [row["provider"] for row in daemon.status()["providers"]]
        assert names == sorted(world.names)
        assert not daemon.lines("configuration reloaded")
        away.rename(world.config)
        daemon.send(signal.SIGHUP)
        daemon.says("configuration reloaded; polling alpha, beta, gamma$")
        assert daemon.status()["reload_error"] is None
        assert daemon.stop() == 0


def test_a_file_that_is_looked_for_later_does_not_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    own, later = tmp_path / "gpucost.toml", tmp_path / "xdg" / "gpucost" / "gpucost.toml"
    later.parent.mkdir(parents=True)
    later.write_text(disabled())
    own.write_text(disabled())
    plan = make_plan(App(None, env))
    own.unlink()
    with pytest.raises(SettingsError, match=r"gpucost\.toml is gone"):
        read_again(plan, None, env)
    own.write_text(disabled())
    assert read_again(plan, None, env).app.settings.config_path == own


def test_without_a_file_at_the_start_one_may_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"HOME": str(tmp_path)}
    plan = make_plan(App(None, env))
    assert plan.app.settings.config_path is None
    assert read_again(plan, None, env).app.settings.config_path is None
    own = tmp_path / "gpucost.toml"
    own.write_text(disabled())
    assert read_again(plan, None, env).app.settings.config_path == own
