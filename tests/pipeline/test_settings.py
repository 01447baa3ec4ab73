"""Settings: precedence, one-line errors, secrets from files, and the light reader's agreement."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import Field

from tracker import registry
from tracker import settings as package
from tracker.provider import Facts, Parsed, Provider, ProviderConfig, SecretStr
from tracker.settings import (
    Settings,
    SettingsError,
    bootstrap,
    config_file,
    load_settings,
    provider_config,
    secret_from_env,
    sources,
    unknown_variables,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user's empty home and working folder, and no system-wide file."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(sources, "SYSTEM_CONFIG", tmp_path / "etc" / "gpucost.toml")
    return folder


def env_of(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), **more}


class Shop(ProviderConfig):
    base_url: str = "https://shop.example"
    api_key: SecretStr | None = None
    regions: tuple[str, ...] = ("us",)
    limit: int = 10
    options: dict[str, int] = Field(default_factory=dict)


async def _fetch(http: object, config: Shop) -> list[Any]:
    return []


SHOP = Provider(
    name="shop",
    every=timedelta(hours=1),
    config=Shop,
    facts=Facts(
        title="Shop",
        website="https://shop.example",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=1,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="SHOP_API_KEY",
        terms="unknown",
        verified="nothing",
    ),
    fetch=_fetch,
    parse=lambda payloads: Parsed(()),
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


# -- secrets ---------------------------------------------------------------------------------------

URL = "postgresql://me:hunter22@db.example/gpucost"


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


# -- providers' configuration ----------------------------------------------------------------------


def configured(home: Path, toml: str = "", **env: str) -> Shop:
    (home / "gpucost.toml").write_text(toml)
    full = env_of(home, **env)
    return provider_config(load_settings(env=full), SHOP, full)


def test_a_provider_needs_no_configuration(home: Path) -> None:
    assert configured(home) == Shop()


def test_the_key_comes_from_the_nearest_place(home: Path) -> None:
    (home / "key").write_text("from-file")

    def key(toml: str = "", **env: str) -> str | None:
        found = configured(home, toml, **env).api_key
        return None if found is None else found.get_secret_value()

    assert key(SHOP_API_KEY="conventional") == "conventional"
    assert key(SHOP_API_KEY_FILE="key") == "from-file"
    assert key('[providers.shop]\napi_key = "toml"', SHOP_API_KEY="conventional") == "toml"
    assert key('[providers.shop]\napi_key = ""', SHOP_API_KEY="conventional") == "conventional"
    assert key(GPUCOST_PROVIDERS__SHOP__API_KEY="own", SHOP_API_KEY="conventional") == "own"
    assert key(GPUCOST_PROVIDERS__SHOP__API_KEY_FILE=str(home / "key")) == "from-file"


def test_variables_reach_every_kind_of_field(home: Path) -> None:
    found = configured(
        home,
        "[providers.shop]\nlimit = 3",
        GPUCOST_PROVIDERS__SHOP__REGIONS="us, eu",
        GPUCOST_PROVIDERS__SHOP__BASE_URL="[::1]",
        GPUCOST_PROVIDERS__SHOP__OPTIONS__A="1",
        GPUCOST_PROVIDERS__SHOP__ENABLED="false",
    )
    assert found.regions == ("us", "eu")
    assert found.base_url == "[::1]"
    assert found.options == {"a": 1}
    assert (found.limit, found.enabled) == (3, False)
    assert configured(home, GPUCOST_PROVIDERS__SHOP__REGIONS='["x"]').regions == ("x",)


def test_price_books_are_found_from_the_folder_of_the_file(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = registry.load("pricebook")
    (home / "gpucost.toml").write_text('pricebook_paths = ["rates.toml", "/srv/books"]')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    env = env_of(home, GPUCOST_CONFIG=str(home / "gpucost.toml"))
    found = provider_config(load_settings(env=env), book, env)
    assert found.paths == (home / "rates.toml", Path("/srv/books"))
    env["GPUCOST_PROVIDERS__PRICEBOOK__PATHS"] = '["own.toml"]'
    assert provider_config(load_settings(env=env), book, env).paths == (Path("own.toml"),)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "base_ur = 'x'",
            '[providers.shop]: unknown key "base_ur", did you mean "base_url"?',
        ),
        (
            "limit = 'sekret-value'",
            "[providers.shop]: limit: input should be a valid integer, "
            "unable to parse string as an integer",
        ),
    ],
)
def test_a_wrong_provider_key_is_one_line(home: Path, key: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        configured(home, f"[providers.shop]\n{key}")
    assert str(caught.value) == message


def test_a_broken_list_in_a_variable_is_one_line(home: Path) -> None:
    with pytest.raises(SettingsError, match=r"^\[providers.shop\] regions: not valid JSON$"):
        configured(home, GPUCOST_PROVIDERS__SHOP__REGIONS="[us")


# -- the light reader ------------------------------------------------------------------------------

TEXT = st.text(alphabet="aZ0 ~/._-:{}[]\"'é", max_size=8)
WRONG = st.one_of(st.integers(0, 3), st.booleans(), st.lists(TEXT, max_size=2))
URLS = st.sampled_from(
    ["postgres://h/d", URL, "postgresql+psycopg://h/d", "postgresql://h", "", "mysql://h/d", "x"]
)
LEVELS = st.sampled_from(["debug", "INFO", "Warning", "error", "", "loud"])
FORMATS = st.sampled_from(["text", "JSON", "json", "", "xml"])


def rarely_wrong(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A value of *strategy*, and now and then one of another type."""
    return st.integers(0, 15).flatmap(lambda n: WRONG if n == 15 else strategy)


SHARED_TOML = st.fixed_dictionaries(
    {},
    optional={
        "database_url": rarely_wrong(URLS),
        "database_url_file": st.sampled_from(["secret", "nope"]),
        "data_dir": rarely_wrong(TEXT),
        "postgres_bindir": rarely_wrong(TEXT),
        "postgres_user": rarely_wrong(TEXT),
        "log_level": rarely_wrong(LEVELS),
        "log_format": rarely_wrong(FORMATS),
        "aliases": rarely_wrong(st.dictionaries(TEXT, rarely_wrong(TEXT), max_size=3)),
    },
)
SHARED_ENV = st.fixed_dictionaries(
    {},
    optional={
        "GPUCOST_DATABASE_URL": URLS,
        "gpucost_database_url": URLS,
        "GPUCOST_DATABASE_URL_FILE": st.sampled_from(["secret", "nope", ""]),
        "GPUCOST_DATABASE_URL__X": TEXT,
        "GPUCOST_DATA_DIR": TEXT,
        "GPUCOST_POSTGRES_BINDIR": TEXT,
        "GPUCOST_POSTGRES_USER": TEXT,
        "GPUCOST_LOG_LEVEL": LEVELS,
        "GPUCOST_LOG_FORMAT": FORMATS,
        "GPUCOST_ALIASES": st.sampled_from(
            ['{"A b": "X"}', '{"foo": "Y"}', "{}", "", "null", "5", '{"a": 1}', "[]", "{bad"]
        ),
        "GPUCOST_ALIASES__FOO": TEXT,
        "Gpucost_Aliases__foo": TEXT,
        "GPUCOST_ALIASES__A__B": st.sampled_from(["", "", "", "x"]),
        "XDG_DATA_HOME": st.sampled_from(["", "/x", "rel"]),
        "UNRELATED": TEXT,
    },
)


def write_toml(file: Path, table: dict[str, Any]) -> None:
    def value(v: Any) -> str:
        if isinstance(v, bool):
            return str(v).lower()
        if isinstance(v, list):
            return "[" + ", ".join(map(value, v)) + "]"
        if isinstance(v, dict):
            return "{" + ", ".join(f"{value(k)} = {value(x)}" for k, x in v.items()) + "}"
        if isinstance(v, int):
            return str(v)
        return '"' + str(v).replace("\\", "\\\\").replace('"', '\\"') + '"'

    file.write_text("\n".join(f"{k} = {value(v)}" for k, v in table.items()), encoding="utf-8")


@hypothesis_settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(toml=SHARED_TOML, env=SHARED_ENV)
def test_the_light_reader_agrees_with_the_full_one(
    home: Path, toml: dict[str, Any], env: dict[str, str]
) -> None:
    (home / "secret").write_text(URL)
    write_toml(home / "gpucost.toml", toml)
    env = env_of(home, **env)
    full: Settings | None = None
    light = None
    with contextlib.suppress(SettingsError):
        full = load_settings(env=env)
    with contextlib.suppress(SettingsError):
        light = bootstrap(env)
    event(f"accepted: {full is not None}")
    if full is None or light is None:
        assert full is None
        assert light is None
        return
    assert light.database_url == (full.database_url and full.database_url.get_secret_value())
    for name in ("data_dir", "postgres_bindir", "postgres_user", "log_level", "log_format"):
        assert getattr(light, name) == getattr(full, name)
    assert light.aliases == full.aliases
    assert light.config_path == full.config_path


def test_both_know_the_same_keys() -> None:
    assert sorted(sources.FIELDS) == sorted(Settings.model_fields)


def test_a_typo_does_not_silently_select_the_embedded_database(home: Path) -> None:
    (home / "gpucost.toml").write_text('databse_url = "postgresql://h/d"')
    with pytest.raises(SettingsError, match='did you mean "database_url"'):
        bootstrap(env_of(home))


def test_the_light_reader_imports_no_pydantic(home: Path) -> None:
    (home / "gpucost.toml").write_text('data_dir = "x"')
    code = (
        "import sys; from tracker.settings import bootstrap; bootstrap();"
        "heavy = {'pydantic', 'pydantic_settings', 'tracker.provider'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 'none')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "none\n"


def test_an_unknown_attribute_of_the_package() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018
