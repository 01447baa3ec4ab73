"""Secrets of the settings: from variables and files, and shown nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.settings_home import URL, env_of
from tracker.settings import SettingsError, bootstrap, load_settings, secret_from_env


def test_the_database_url_from_a_file(home: Path) -> None:
    (home / "secret").write_text(URL + "\n")
    env = env_of(home, GPUCOST_DATABASE_URL_FILE="secret")
    loaded = load_settings(env=env)
    assert loaded.database_url is not None
    assert loaded.database_url.get_secret_value() == bootstrap(env).database_url == URL
    (home / "gpucost.toml").write_text('database_url_file = "secret"')
    assert bootstrap(env_of(home)).database_url == URL


def test_a_file_twin_in_the_environment_beats_the_file(home: Path) -> None:
    (home / "secret").write_text(URL)
    (home / "gpucost.toml").write_text('database_url = "postgresql://other/db"')
    env = env_of(home, GPUCOST_DATABASE_URL_FILE="secret")
    assert bootstrap(env).database_url == URL
    assert load_settings(env=env).secret_values() == (URL,)


@pytest.mark.parametrize("content", [b"", b"\n", b"one\ntwo", b"\xff\xfe", b"x" * 70_000, None])
def test_unusable_secret_files(home: Path, content: bytes | None) -> None:
    if content is not None:
        (home / "secret").write_bytes(content)
    env = env_of(home, GPUCOST_DATABASE_URL_FILE="secret")
    for read in (bootstrap, lambda e: load_settings(env=e)):
        with pytest.raises(SettingsError, match=r"^GPUCOST_DATABASE_URL: .*secret") as caught:
            read(env)
        assert "\n" not in str(caught.value)


def test_a_secret_given_twice_is_refused(home: Path) -> None:
    (home / "secret").write_text(URL)
    env = env_of(home, GPUCOST_DATABASE_URL=URL, GPUCOST_DATABASE_URL_FILE="secret")
    for read in (bootstrap, lambda e: load_settings(env=e)):
        with pytest.raises(SettingsError, match="keep one of the two") as caught:
            read(env)
        assert "hunter22" not in str(caught.value)


def test_secrets_are_in_no_repr(home: Path) -> None:
    env = env_of(
        home, GPUCOST_DATABASE_URL=URL, GPUCOST_PROVIDERS__RUNPOD__API_KEY="rpa_0123456789"
    )
    loaded = load_settings(env=env)
    shown = repr(loaded) + str(loaded) + repr(bootstrap(env))
    assert "hunter22" not in shown
    assert "rpa_0123456789" not in shown
    assert set(loaded.secret_values()) == {URL, "rpa_0123456789"}


def test_postgres_scheme_is_spelled_as_sqlalchemy_wants_it(home: Path) -> None:
    env = env_of(home, GPUCOST_DATABASE_URL="postgres://h/d")
    assert bootstrap(env).database_url == "postgresql://h/d"
    assert load_settings(env=env).secret_values() == ("postgresql://h/d",)


def test_secret_from_env(home: Path) -> None:
    (home / "key").write_text("from-file\n")
    assert secret_from_env("K", {}) is None
    assert secret_from_env("K", {"K": "", "K_FILE": ""}) is None
    assert secret_from_env("K", {"K": "direct"}) == "direct"
    assert secret_from_env("K", {"K_FILE": "key"}) == "from-file"
    with pytest.raises(SettingsError, match=r"^K is given directly and by its file twin"):
        secret_from_env("K", {"K": "direct", "K_FILE": "key"})


# -- of the daemon ---------------------------------------------------------------------------------

PING = "https://hc.example/ping/0123"


def daemon_secrets(env: dict[str, str]) -> list[str | None]:
    """The URL of the heartbeat and that of the lock."""
    daemon = load_settings(env=env).daemon
    found = (daemon.heartbeat_url, daemon.lock_database_url)
    return [None if url is None else url.get_secret_value() for url in found]


def test_the_daemons_secrets_from_files_beside_the_configuration(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "ping").write_text(PING + "\n")
    (home / "lock").write_text(URL + "\n")
    (home / "gpucost.toml").write_text(
        '[daemon]\nport = 1\nheartbeat_url_file = "ping"\nlock_database_url_file = "lock"'
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    env = env_of(home, GPUCOST_CONFIG=str(home / "gpucost.toml"))
    assert daemon_secrets(env) == [PING, URL]
    loaded = load_settings(env=env)
    assert loaded.daemon.port == 1
    assert set(loaded.secret_values()) == {PING, URL}
    assert bootstrap(env).config_path == home / "gpucost.toml"


@pytest.mark.parametrize("toml", ["heartbeat_url = 'https://other.example'",
                                  "heartbeat_url_file = 'ping'"])  # fmt: skip
def test_a_variable_with_the_daemons_secret_beats_the_file(home: Path, toml: str) -> None:
    (home / "ping").write_text("https://file.example")
    (home / "mine").write_text(PING)
    (home / "gpucost.toml").write_text(f"[daemon]\n{toml}")
    by_file = env_of(home, GPUCOST_DAEMON__HEARTBEAT_URL_FILE="mine")
    direct = env_of(home, GPUCOST_DAEMON__HEARTBEAT_URL=PING)
    in_json = env_of(home, GPUCOST_DAEMON='{"heartbeat_url_file": "mine"}')
    for env in (by_file, direct, in_json):
        assert daemon_secrets(env) == [PING, None]


@pytest.mark.parametrize(
    ("toml", "env", "message"),
    [
        (
            "heartbeat_url = 'https://a.example'\nheartbeat_url_file = 'ping'",
            {},
            "{file}: daemon.heartbeat_url is given directly and by its file twin: "
            "keep one of the two",
        ),
        (
            "lock_database_url_file = 'nowhere'",
            {},
            "{file}: daemon.lock_database_url: cannot read {home}/nowhere "
            "(No such file or directory)",
        ),
        (
            "heartbeat_url_file = 5",
            {},
            "{file}: daemon.heartbeat_url: its file twin must be the path of a file",
        ),
        (
            "",
            {"GPUCOST_DAEMON__HEARTBEAT_URL_FILE": "empty"},
            "GPUCOST_DAEMON__HEARTBEAT_URL: {home}/empty is empty",
        ),
        (
            "heartbeat_ur_file = 'ping'",
            {},
            '{file}: unknown key "heartbeat_ur_file", did you mean "heartbeat_url_file"? '
            "in [daemon]",
        ),
    ],
)
def test_a_daemons_secret_that_cannot_be_read(
    home: Path, toml: str, env: dict[str, str], message: str
) -> None:
    (home / "ping").write_text(PING)
    (home / "empty").write_text("")
    file = home / "gpucost.toml"
    file.write_text(f"[daemon]\n{toml}")
    with pytest.raises(SettingsError) as caught:
        load_settings(env=env_of(home, **env))
    assert str(caught.value) == message.format(file=file, home=home)


@pytest.mark.parametrize(
    "url", ["hc.example/ping/0123", "ftp://hc.example/0123", "https://", "https://hc.example:x/",
            "https://hc .example/0123"],
)  # fmt: skip
def test_a_heartbeat_that_can_never_be_sent_is_refused(home: Path, url: str) -> None:
    (home / "gpucost.toml").write_text(f'[daemon]\nheartbeat_url = "{url}"')
    with pytest.raises(SettingsError) as refused:
        load_settings(env=env_of(home))
    said = f"{home / 'gpucost.toml'}: daemon.heartbeat_url: must be a URL like https://host/path"
    assert str(refused.value) == said
    (home / "gpucost.toml").write_text("")
    (home / "ping").write_text(url)
    by_file = env_of(home, GPUCOST_DAEMON__HEARTBEAT_URL_FILE="ping")
    with pytest.raises(SettingsError, match="HEARTBEAT_URL: must be a URL like https://host/path"):
        load_settings(env=by_file)


def test_a_heartbeat_may_go_to_a_machine_at_home(home: Path) -> None:
    url = "http://10.0.0.7:8000/ping?token=0123"
    assert daemon_secrets(env_of(home, GPUCOST_DAEMON__HEARTBEAT_URL=url)) == [url, None]
