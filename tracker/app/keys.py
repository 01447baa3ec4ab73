"""How each provider is set up: whether it can be asked, with which key, and what one would add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracker.app.root import App


class SetUp(NamedTuple):
    """One installed provider's set-up. Nothing secret is in it.

    ``configured``: it is polled as things are. ``problem`` says why it is not. ``key`` is
    ``none``, ``optional`` or ``required``; None where its module cannot be loaded.
    """

    provider: str
    configured: bool
    problem: str | None
    key: str | None = None
    key_variable: str | None = None
    key_set: bool = False
    key_adds: str | None = None
    enabled: bool = True  # False: switched off on purpose, or not on by itself
    wrong: bool = False  # its table in the configuration cannot be read

    def as_dict(self) -> dict[str, Any]:
        """Plain values for output, without the name."""
        hidden = ("provider", "enabled", "wrong")
        return {name: value for name, value in self._asdict().items() if name not in hidden}

    @property
    def said(self) -> str:
        """In words: what it has, or what it lacks."""
        if not self.configured:
            return self.problem or "not configured"
        if self.key == "none" or self.key is None:
            return "needs no key"
        if self.key_set:
            return "key set"
        return f"works without a key; {self.key_variable} would add: {self.key_adds or 'not known'}"


def set_ups(app: App) -> dict[str, SetUp]:
    """Of every installed provider, by name. Asks nobody."""
    from tracker import registry
    from tracker.settings import SettingsError

    providers, broken = registry.load_all(None)
    found = {b.name: SetUp(b.name, False, b.reason) for b in broken}
    for provider in providers:
        facts, problem, key_set, enabled, wrong = provider.facts, None, False, True, False
        try:
            config = app.provider_config(provider)
        except SettingsError as error:
            problem, wrong = str(error), True
        else:
            elsewhere = provider.key_set is not None and provider.key_set(config)
            key_set = elsewhere or getattr(config, "api_key", None) is not None
            enabled = config.enabled
            if not enabled:
                problem = f"off: [providers.{provider.name}] enabled = true switches it on"
            elif facts.key == "required" and not key_set:
                problem = f"not configured: set {facts.key_variable} to its API key"
        adds = "its prices" if facts.key == "required" else facts.key_adds or None
        found[provider.name] = SetUp(
            provider.name, problem is None, problem, facts.key, facts.key_variable, key_set, adds,
            enabled, wrong,
        )  # fmt: skip
    return dict(sorted(found.items()))
