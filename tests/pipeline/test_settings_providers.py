"""A provider's configuration: its table, variables and key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from tests.pipeline.settings_home import env_of
from tracker import registry
from tracker.provider import Facts, Parsed, Provider, ProviderConfig, SecretStr
from tracker.settings import SettingsError, load_settings, provider_config


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
