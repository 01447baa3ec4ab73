"""What a shell offers while a name is typed: jobs, GPUs, providers. Neither opens the database.

A shell asks at every press of the key, so nothing heavy is imported here, and whatever is wrong
with the configuration is left to the command itself to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tracker.app import App


def jobs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:  # fmt: skip
    """The built-in and the kept jobs; files where none of them is meant."""
    from click.shell_completion import CompletionItem

    from tracker.app import kept
    from tracker.app.jobs import job_names

    names = [*job_names(), *_kept(ctx, kept.names)]
    return _items(names, incomplete) or [CompletionItem(incomplete, type="file")]


def gpus(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:  # fmt: skip
    """One GPU: families, and exact ones once a family is named."""
    return _items(_gpus(ctx, incomplete), incomplete)


def providers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:  # fmt: skip
    """The installed providers."""
    from tracker import registry

    return _items(registry.names(), incomplete)


def rules(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:  # fmt: skip
    """The alert rules: those that come with gpucost, and those of the configuration."""
    return _items(_rules(ctx), incomplete)


def listed(ctx: click.Context, option: str, incomplete: str) -> list[CompletionItem[str]]:
    """The last item of a list with commas, by the *option* that it is given to (``--gpu``)."""
    before, comma, last = incomplete.rpartition(",")
    taken = {name.lower() for name in before.split(",")}
    known = _LISTS.get(option)
    names = [] if known is None else known(ctx, last)
    left = [name for name in names if name.lower() not in taken]
    return _items([before + comma + name for name in left], incomplete)


# -- names ---------------------------------------------------------------------------------------


def _gpus(ctx: click.Context, incomplete: str) -> list[str]:
    from tracker.settings import SettingsError

    app = _app(ctx)
    try:
        catalogue = app.catalogue
    except (SettingsError, OSError):  # an alias of one's own that is wrong
        return []
    families = catalogue.families()
    named = any(incomplete.lower().startswith(name.lower()) for name in families)
    exact = [gpu.key for gpu in catalogue.gpus() if gpu.key not in families] if named else []
    return [*families, *exact, *app.boot.aliases]


def _rules(ctx: click.Context) -> list[str]:
    from tracker.alert.rules import shipped_rules
    from tracker.settings import SettingsError

    try:
        own = list(_app(ctx).settings.alerts.rules)
    except (SettingsError, OSError):
        own = []
    return sorted({*shipped_rules(), *own})


def _providers(_ctx: click.Context, _incomplete: str) -> list[str]:
    from tracker import registry

    return registry.names()


def _markets(_ctx: click.Context, _incomplete: str) -> list[str]:
    from tracker.app.asked import MARKETS

    return list(MARKETS)


def _tiers(_ctx: click.Context, _incomplete: str) -> list[str]:
    return list(TIERS)


def _groups(_ctx: click.Context, _incomplete: str) -> list[str]:
    return list(GROUPS)


# What providers here call their classes of trust, as docs/cli.md has them.
TIERS = ("any", "secure", "community", "verified", "unverified", "dedicated", "vps", "standard")
# As report/grouped.py has them, which is not imported for their names.
GROUPS = ("gpu", "market", "provider", "region", "country", "tier", "kind", "gpus", "term")
_LISTS: dict[str, Callable[[click.Context, str], list[str]]] = {
    "--gpu": _gpus, "--rent-gpu": _gpus, "--compare": _gpus, "--provider": _providers,
    "--market": _markets, "--tier": _tiers, "--group-by": _groups,
}  # fmt: skip


def _app(ctx: click.Context) -> App:
    from tracker.app import App

    return App(ctx.find_root().params.get("config"))


def _kept(ctx: click.Context, names: Callable[[App], list[str]]) -> list[str]:
    from tracker.settings import SettingsError

    try:
        return names(_app(ctx))
    except (SettingsError, OSError, RuntimeError):  # RuntimeError: a home that does not exist
        return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    begun = incomplete.lower()
    return [CompletionItem(name) for name in names if name.lower().startswith(begun)]
