"""Settings: where the file is, what beats what, and errors of one line."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.pipeline.settings_home import env_of
from tracker.settings import (
    Settings,
    SettingsError,
    bootstrap,
    config_file,
    load_settings,
    sources,
    unknown_variables,
)

# -- where the file is -----------------------------------------------------------------------------


def test_the_nearest_configuration_file_is_taken(home: Path, tmp_path: Path) -> None:
    env = env_of(home)
    assert config_file(None, env) is None
    places = [
        sources.SYSTEM_CONFIG,
        home / ".config/gpucost/gpucost.toml",
        home / "gpucost.toml",
        tmp_path / "by-variable.toml",
        tmp_path / "by-argument.toml",
    ]
    for place in places[:3]:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        assert config_file(None, env) == place
    places[3].write_text("")
    places[4].write_text("")
    env["GPUCOST_CONFIG"] = str(places[3])
    assert config_file(None, env) == places[3]
    assert config_file(places[4], env) == places[4]
    assert load_settings(None, env).config_path == places[3]
    assert bootstrap(env).config_path == places[3]


def test_xdg_config_home_is_honoured_unless_relative(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "xdg" / "gpucost" / "gpucost.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert config_file(None, env_of(home, XDG_CONFIG_HOME=str(tmp_path / "xdg"))) == file
    assert config_file(None, env_of(home, XDG_CONFIG_HOME="../xdg")) is None


def test_a_named_file_that_is_missing_is_an_error(home: Path) -> None:
    with pytest.raises(SettingsError, match=r"^GPUCOST_CONFIG: there is no file .*/nope\.toml$"):
        load_settings(env=env_of(home, GPUCOST_CONFIG="nope.toml"))
    with pytest.raises(SettingsError, match=r"^--config: there is no file"):
        bootstrap(env_of(home), "nope.toml")


# -- precedence and defaults -----------------------------------------------------------------------


def test_defaults_need_no_file(home: Path) -> None:
    loaded = load_settings(env=env_of(home))
    assert loaded.database_url is None
    assert loaded.data_dir == home / ".local/share/gpucost"
    assert loaded.archive_retention_days == 30
    assert loaded.quality.confirmations == 3
    assert loaded.quality.shrink_fraction == Decimal("0.5")
    assert loaded.http.user_agent_contact is None
    xdg = load_settings(env=env_of(home, XDG_DATA_HOME="/srv/data"))
    assert xdg.data_dir == Path("/srv/data/gpucost")


def test_roots_data_lie_where_another_account_may_reach_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert bootstrap(env_of(home)).data_dir == Path("/var/lib/gpucost")
    assert load_settings(env=env_of(home)).data_dir == Path("/var/lib/gpucost")
    chosen = env_of(home, GPUCOST_DATA_DIR="/srv/own")
    assert bootstrap(chosen).data_dir == load_settings(env=chosen).data_dir == Path("/srv/own")


def test_variables_win_over_the_file_key_by_key(home: Path) -> None:
    (home / "gpucost.toml").write_text(
        """
        data_dir = "data"
        archive_retention_days = 7
        pricebook_paths = ["~/mine.toml", "books/a.toml"]
        [aliases]
        "Weird H100" = "H100-SXM-80GB"
        [http]
        read_seconds = 30
        attempts = 2
        [providers.runpod]
        base_url = "https://file.example"
        enabled = false
        [quality.bands.H100]
        on_demand = [0.8, 12]
        """
    )
    loaded = load_settings(
        env=env_of(
            home,
            GPUCOST_ARCHIVE_RETENTION_DAYS="9",
            GPUCOST_HTTP__READ_SECONDS="5",
            GPUCOST_PROVIDERS__RUNPOD__BASE_URL="http://127.0.0.1:1",
            GPUCOST_QUALITY__BANDS__H100__SPOT="[0.5, 9]",
            GPUCOST_ALIASES__BIG="A100-SXM-80GB",
            GPUCOST_LOG_LEVEL="DEBUG",
            GPUCOST_POSTGRES_USER="",
        )
    )
    assert loaded.data_dir == home / "data"
    assert loaded.archive_retention_days == 9
    assert (loaded.http.read_seconds, loaded.http.attempts) == (5, 2)
    assert loaded.providers["runpod"] == {"base_url": "http://127.0.0.1:1", "enabled": False}
    assert loaded.pricebook_paths == (home / "mine.toml", home / "books/a.toml")
    assert loaded.quality.bands["H100"] == {
        "on_demand": (Decimal("0.8"), Decimal(12)),
        "spot": (Decimal("0.5"), Decimal(9)),
    }
    assert loaded.aliases == {"Weird H100": "H100-SXM-80GB", "big": "A100-SXM-80GB"}
    assert loaded.log_level == "debug"
    assert loaded.postgres_user is None


def test_bands_of_file_and_variable_add_up(home: Path) -> None:
    (home / "gpucost.toml").write_text("[quality.bands.H100]\non_demand = [0.8, 12]\n")
    loaded = load_settings(env=env_of(home, GPUCOST_QUALITY__BANDS__RTX4090__SPOT="[0.1, 2]"))
    assert loaded.quality.bands == {
        "H100": {"on_demand": (Decimal("0.8"), Decimal(12))},
        "RTX4090": {"spot": (Decimal("0.1"), Decimal(2))},
    }


@pytest.mark.parametrize("given_as", ["/a/x.toml:b.toml", '["/a/x.toml", "b.toml"]'])
def test_price_books_from_a_variable(home: Path, given_as: str) -> None:
    loaded = load_settings(env=env_of(home, GPUCOST_PRICEBOOK_PATHS=given_as))
    assert loaded.pricebook_paths == (Path("/a/x.toml"), home / "b.toml")


def test_settings_have_no_hidden_inputs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_ARCHIVE_RETENTION_DAYS", "9")
    assert Settings(data_dir=home).archive_retention_days == 30


# -- errors are one clear line ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "env", "message"),
    [
        (
            'databse_url = "x"',
            {},
            '{file}: unknown key "databse_url", did you mean "database_url"?',
        ),
        (
            "[http]\nread_secnds = 3",
            {},
            '{file}: unknown key "read_secnds", did you mean "read_seconds"? in [http]',
        ),
        (
            "[quality]\nconfirmations = 'many'",
            {},
            "{file}: quality.confirmations: input should be a valid integer, "
            "unable to parse string as an integer",
        ),
        (
            "",
            {"GPUCOST_HTTP__ATTEMPTS": "0"},
            "GPUCOST_HTTP__ATTEMPTS: input should be greater than or equal to 1",
        ),
        (
            "",
            {"GPUCOST_HTTP__ATEMPTS": "2"},
            'GPUCOST_HTTP__ATEMPTS: unknown key "atempts", did you mean "attempts"? in [http]',
        ),
        ("", {"GPUCOST_ALIASES": "{bad"}, "GPUCOST_ALIASES: must be JSON"),
        ("", {"GPUCOST_PRICEBOOK_PATHS": "[bad"}, "GPUCOST_PRICEBOOK_PATHS: must be JSON"),
        (
            "[quality.bands.H100]\nspot = [1E-999999999, 1]",
            {},
            "{file}: quality.bands.H100.spot: is out of range: at most 30 digits,"
            " from 1e-20 to 1e20",
        ),
        (
            "[quality.bands.H100]\nspot = [5, 1]",
            {},
            "{file}: quality.bands: the lower bound of a band is above its upper bound",
        ),
        (
            "database_url = 'mysql://u:hunter22@h/d'",
            {},
            "{file}: database_url: must be a URL like postgresql://user:password@host:5432/database",
        ),
        (
            "data_dir = 5\narchive_retention_days = 0",
            {},
            "{file}: data_dir: input is not a valid path (and 1 more)",
        ),
    ],
)
def test_one_line_that_names_the_setting(
    home: Path, toml: str, env: dict[str, str], message: str
) -> None:
    file = home / "gpucost.toml"
    file.write_text(toml)
    with pytest.raises(SettingsError) as caught:
        load_settings(env=env_of(home, **env))
    assert str(caught.value) == message.format(file=file)


def test_broken_and_unreadable_files(home: Path) -> None:
    file = home / "gpucost.toml"
    file.write_text("a = = b")
    with pytest.raises(SettingsError, match=r"gpucost.toml: not valid TOML: .*line 1"):
        bootstrap(env_of(home))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load_settings(env=env_of(home))


def test_variables_that_mean_nothing_are_told_not_refused(home: Path) -> None:
    env = env_of(home, GPUCOST_DATABSE_URL="x", GPUCOST_DATABASE_URL_FILE="", GPUCOST_CONFIG="")
    assert unknown_variables({**env, "GPUCOST_HTTP__ATTEMPTS": "2"}) == (
        "GPUCOST_DATABSE_URL is not a setting, did you mean GPUCOST_DATABASE_URL?",
    )
    load_settings(env=env)
