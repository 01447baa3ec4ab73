"""The reader of the few settings that every command needs agrees with the one of them all."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.pipeline.settings_home import URL, env_of
from tracker import settings as package
from tracker.domain.owned import Site
from tracker.settings import Settings, SettingsError, bootstrap, load_settings, sources

TEXT = st.text(alphabet="aZ0 ~/._-:{}[]\"'é", max_size=8)
WRONG = st.one_of(st.integers(0, 3), st.booleans(), st.lists(TEXT, max_size=2))
URLS = st.sampled_from(
    ["postgres://h/d", URL, "postgresql+psycopg://h/d", "postgresql://h", "", "mysql://h/d", "x"]
)
LEVELS = st.sampled_from(["debug", "INFO", "Warning", "error", "", "loud"])
NUMBERS = st.sampled_from(["1.5", "0.3", "1.1", 1, 2, "0", "40", "x", "nan"])
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
        "energy": rarely_wrong(
            st.fixed_dictionaries({}, optional={"pue": NUMBERS, "grid_g_per_kwh": NUMBERS})
        ),
        "own": rarely_wrong(
            st.lists(
                st.fixed_dictionaries(
                    {"gpu": st.just("L4-24GB"), "usd_per_kwh": NUMBERS},
                    optional={"name": TEXT, "count": st.integers(0, 2), "watts": NUMBERS},
                ),
                max_size=2,
            )
        ),
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
        "GPUCOST_ENERGY": st.sampled_from(["", '{"pue": 1.2}', '{"pue": 9}', "null", "[]", "{x"]),
        "GPUCOST_ENERGY__PUE": st.sampled_from(["", "1.1", "x"]),
        "GPUCOST_ENERGY__PUE__X": st.sampled_from(["", "", "", "1"]),
        "GPUCOST_OWN": st.sampled_from(
            ["", "[]", "null", "{}", "[1]", "[x", '[{"gpu": "L4-24GB", "usd_per_kwh": 0.3}]']
        ),
        "GPUCOST_OWN__X": st.sampled_from(["", "1"]),
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
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(toml=SHARED_TOML, env=SHARED_ENV)
@example(toml={"aliases": 0}, env={"GPUCOST_ALIASES": "{}"})
@example(toml={"energy": 0}, env={"GPUCOST_ENERGY": "{}"})
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
    assert light.own == full.own
    assert (light.site or Site()) == full.site
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


def test_they_agree_on_every_way_to_say_what_one_owns(home: Path) -> None:
    one = '[{"gpu": "L4-24GB", "usd_per_kwh": 0.3}]'
    tables = ["", "own = []", "own = 2", "own = [[]]", '[[own]]\ngpu="L4-24GB"\nusd_per_kwh=0.3']
    owns = [None, "", "[]", "null", "{}", "[1]", "[x", "2", one]
    energies = [None, "", "null", "[]", '{"pue": 1.2}']
    for toml, own, below, energy in itertools.product(tables, owns, [None, "", "1"], energies):
        for deep in (None, "1.1"):
            (home / "gpucost.toml").write_text(toml, encoding="utf-8")
            given = {"GPUCOST_OWN": own, "GPUCOST_OWN__X": below, "GPUCOST_ENERGY": energy,
                     "GPUCOST_ENERGY__PUE__X": deep}  # fmt: skip
            env = env_of(home, **{name: text for name, text in given.items() if text is not None})
            refused = []
            for read in (load_settings, bootstrap):
                try:
                    read(env=env)
                except SettingsError:
                    refused.append(read.__name__)
            assert len(refused) in (0, 2), (toml, given, refused)
