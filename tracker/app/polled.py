"""Which providers are polled, and what of their configuration is secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracker.app.root import App
    from tracker.provider import Provider, ProviderConfig


def enabled(
    app: App, wanted: Iterable[str] | None
) -> tuple[list[tuple[Provider[Any], ProviderConfig]], list[tuple[str, str]]]:
    """The providers to poll with their configurations, and those left out with the reason.

    *wanted* None means all installed ones. Naming a provider overrides ``enabled = false``.
    Raises UnknownProvider.
    """
    from tracker import registry
    from tracker.settings import SettingsError

    _refuse_unknown_tables(app, registry.names())
    providers, broken = registry.load_all(wanted)
    chosen: list[tuple[Provider[Any], ProviderConfig]] = []
    left_out = [(b.name, b.reason) for b in broken]
    for provider in providers:
        try:
            config = app.provider_config(provider)
        except SettingsError as error:
            left_out.append((provider.name, str(error)))
            continue
        if not config.enabled and wanted is None:
            continue
        if provider.facts.key == "required" and getattr(config, "api_key", None) is None:
            left_out.append(
                (provider.name, f"not configured: set {provider.facts.key_variable} to its API key")
            )
            continue
        chosen.append((provider, config))
    return chosen, left_out


def _refuse_unknown_tables(app: App, known: Iterable[str]) -> None:
    """A typo in ``[providers.NAME]`` must not silently leave a provider as it is by default."""
    import difflib

    from tracker.settings import SettingsError

    known = list(known)
    for name in app.settings.providers:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise SettingsError(f"providers.{name}: no provider is called so; {hint}")


def secrets_of(value: Any) -> Iterator[str]:
    """The values of all SecretStr fields of a configuration, nested ones included."""
    from pydantic import BaseModel, SecretStr

    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from secrets_of(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from secrets_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_of(inner)
