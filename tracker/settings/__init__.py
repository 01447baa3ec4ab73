"""Settings: from ``GPUCOST_*`` variables, then gpucost.toml, then defaults.

Importing this package costs only the standard library. ``bootstrap()`` reads what a command that
merely looks something up needs, within its start-up budget; ``load_settings()`` reads and checks
everything with pydantic-settings. Both follow the same rules (a test holds them together).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.settings.bootstrap import Bootstrap, bootstrap
from tracker.settings.sources import SettingsError, config_file, secret_from_env, unknown_variables

if TYPE_CHECKING:
    from tracker.settings.model import HttpSettings, QualitySettings, Settings
    from tracker.settings.providers import provider_config

__all__ = [
    "Bootstrap",
    "HttpSettings",
    "QualitySettings",
    "Settings",
    "SettingsError",
    "bootstrap",
    "config_file",
    "load_settings",
    "provider_config",
    "secret_from_env",
    "unknown_variables",
]


def load_settings(path: str | Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """All settings, checked. *env* defaults to the process's environment.

    *path* is the configuration file; without it ``GPUCOST_CONFIG``, ./gpucost.toml, the user's
    and the system's gpucost.toml are tried in that order, and none is needed.
    Raises SettingsError with one line that says what to change.
    """
    from tracker.settings.model import load

    return load(path, env)


def __getattr__(name: str) -> Any:
    # The models need pydantic (0.2 s to import): only when somebody asks for them.
    if name in ("HttpSettings", "QualitySettings", "Settings"):
        from tracker.settings import model

        return getattr(model, name)
    if name == "provider_config":
        from tracker.settings.providers import provider_config

        return provider_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
