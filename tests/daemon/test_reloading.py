"""Reading the configuration anew: which file, how often, and which one wins."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.daemon.world import World, polls, until
from tests.support.providers import disabled
from tracker.app import App
from tracker.daemon.plan import make_plan
from tracker.daemon.reloading import Reloads, read_again
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


def test_one_at_a_time_and_one_after_it() -> None:
    running, begun, at_once = 0, 0, 0
    go = asyncio.Event()

    async def reload() -> None:
        nonlocal running, begun, at_once
        running, begun = running + 1, begun + 1
        at_once = max(at_once, running)
        await go.wait()
        running -= 1

    async def storm() -> None:
        reloads = Reloads(reload)
        for _ in range(300):
            reloads.ask()
            await asyncio.sleep(0)
        assert begun == 1
        go.set()
        await asyncio.sleep(0.01)
        assert begun == 2  # it began after the last that was asked for
        reloads.ask()
        await asyncio.sleep(0.01)
        assert begun == 3
        go.clear()
        reloads.ask()
        await asyncio.sleep(0)
        reloads.ask()
        reloads.cancel()
        go.set()
        await asyncio.sleep(0.01)
        assert begun == 4

    asyncio.run(storm())
    assert at_once == 1


def test_the_newer_configuration_wins_and_a_storm_stops_nothing(
    world: World, database_url: str
) -> None:
    rule = """
[alerts.rules.r{}]
when = "price(H100) < 1"
template = "{}"
"""
    slow = "".join(rule.format(n, "so cheap " * 400) for n in range(150))
    with world.daemon() as daemon:
        until(lambda: polls(database_url, "beta") >= 1)
        world.configure(slow)
        daemon.send(signal.SIGHUP)
        time.sleep(0.05)  # the slow one is being read, or about to be
        world.configure(alpha="enabled = false")
        daemon.send(signal.SIGHUP)
        daemon.says("configuration reloaded; polling beta, gamma$")
        deadline = time.monotonic() + 1.5
        sent = 0
        while time.monotonic() < deadline:
            daemon.send(signal.SIGHUP)
            sent += 1
            time.sleep(0.005)
        before = polls(database_url, "beta")
        until(lambda: polls(database_url, "beta") > before, patience_s=10)
        assert daemon.get("/readyz")[0] == 200
        assert [row["provider"] for row in daemon.status()["providers"]] == ["beta", "gamma"]
        assert len(daemon.lines("configuration reloaded")) < sent / 2
        assert daemon.lines("configuration reloaded")[-1].endswith("polling beta, gamma")
        assert daemon.stop() == 0
