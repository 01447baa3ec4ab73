"""The composition root: settings, database, catalogue, jobs and collector, wired in one place.

Built once by whoever starts (the command line, later the daemon and the server). Everything heavy
is imported when it is needed: a read-only command must be able to answer in well under a second.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, JobError, job_from_text
from tracker.settings import Bootstrap, bootstrap, load_settings

if TYPE_CHECKING:
    import psycopg

    from tracker.alert.rules import Rule, RuleProblem
    from tracker.collect import Collector
    from tracker.domain.models import Models
    from tracker.domain.quality import Rules
    from tracker.domain.runtime.estimator import Estimator
    from tracker.http import Client, HostGate, ResponseCache
    from tracker.notify import Channel, ChannelProblem
    from tracker.provider import Provider, ProviderConfig
    from tracker.settings import Settings
    from tracker.store.embedded import Embedded
    from tracker.store.polls import Recorder
    from tracker.telemetry import Redactor


MAX_JOB_BYTES = 256 * 2**10
MAX_CONFIG_BYTES = 2 * 2**20  # a model's config.json


class App:
    """One process's view of gpucost. Nothing is opened before it is asked for."""

    def __init__(
        self, config: str | Path | None = None, env: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:  # fmt: skip
        """*redactor* holds secrets that stay secret although the configuration is read anew."""
        self._config = config
        self._env = env
        self._redactor = redactor
        self._responses: ResponseCache | None = None
        self._gates: dict[str, HostGate] | None = None

    @cached_property
    def boot(self) -> Bootstrap:
        """The settings that every command needs (cheap). Raises SettingsError."""
        return bootstrap(self._env, self._config)

    @cached_property
    def settings(self) -> Settings:
        """All settings. Raises SettingsError."""
        return load_settings(self._config, self._env)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The GPU catalogue with the user's own aliases. Raises SettingsError on a bad alias."""
        from tracker.settings import SettingsError

        try:
            return Catalogue.from_compiled(
                data.text("gpus.json"), lambda: data.text("aliases.toml"), self.boot.aliases
            )
        except ValueError as error:
            raise SettingsError(f"aliases: {error}") from None

    # -- database ------------------------------------------------------------------------------

    @cached_property
    def embedded(self) -> Embedded | None:
        """The embedded server, or None when a database URL is configured."""
        from tracker.store.embedded import Embedded

        if self.boot.database_url is not None:
            return None
        return Embedded(
            self.boot.data_dir, bindir=self.boot.postgres_bindir, account=self.boot.postgres_user
        )

    @contextmanager
    def database(self, *, upgrade: bool = False) -> Iterator[str]:
        """The URL of a running database, for the length of a ``with`` block.

        *upgrade* brings the schema of the embedded database up to date. A database of one's own
        is only upgraded by ``gpucost db upgrade``: others may be using it.
        """
        if self.embedded is None:
            yield str(self.boot.database_url)
            return
        with self.embedded.running() as url:
            if upgrade:
                from tracker.store import migrate

                if migrate.current(url) != migrate.head():
                    migrate.upgrade(url)
            yield url

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """A read-only snapshot of a database whose schema is the one this version knows.

        Raises StoreError (unreachable, outdated, too new); NothingRecorded when the embedded
        database has never been written to.
        """
        from tracker.store import migrate
        from tracker.store.engine import read_connection

        if self.embedded is not None and not self.embedded.status().data.exists():
            raise NothingRecorded
        with self.database() as url, read_connection(url) as connection:
            revision = migrate.read_revision(connection)
            if revision is None and self.embedded is not None:
                raise NothingRecorded
            migrate.check_revision(revision)
            yield connection

    # -- jobs ----------------------------------------------------------------------------------

    def job(self, reference: str) -> Job:
        """A built-in job by name, or a TOML file by path. Raises JobError."""
        import difflib

        known = job_names()
        if reference.lower() in known:
            text = data.text(f"jobs/{reference.lower()}.toml")
            return job_from_text(text, self.catalogue, _Knowledge(self))
        path = _path(reference)
        if path.suffix == ".toml" or path.is_file():
            try:
                beside = _Knowledge(self, path.parent)
                return job_from_text(_job_text(path), self.catalogue, beside)
            except JobError as error:
                raise JobError(f"{reference}: {error}") from None
        near = difflib.get_close_matches(reference.lower(), known, n=2, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"built in: {', '.join(known)}"
        raise JobError(f"no job is called {reference!r}; {hint}")

    @cached_property
    def models(self) -> Models:
        """The models known by name."""
        from tracker.domain.models import Models

        return Models.from_toml(data.text("models.toml"))

    @cached_property
    def estimator(self) -> Estimator:
        """The runtime estimator with the calibration that is shipped."""
        from tracker.domain.runtime.calibration import Calibration
        from tracker.domain.runtime.estimator import Estimator

        return Estimator(self.catalogue.spec, Calibration.from_csv(data.text("efficiency.csv")))

    # -- alerts --------------------------------------------------------------------------------

    @cached_property
    def channels(self) -> tuple[dict[str, Channel], tuple[ChannelProblem, ...]]:
        """Where notices can go, by name, and the channels that cannot be used."""
        from tracker.notify import load_channels

        alerts = self.settings.alerts
        return load_channels(
            alerts.channels, os.environ if self._env is None else self._env,
            allow_private=alerts.allow_private_targets, redactor=self.redactor,
            contact=self.settings.http.user_agent_contact,
        )  # fmt: skip

    def alert_rules(
        self, providers: Collection[str] | None = None
    ) -> tuple[tuple[Rule, ...], tuple[RuleProblem, ...]]:
        """The alert rules, and what is wrong with those that are left out.

        *providers*: all that can be polled or sell, where that is known, to find misspelt ones.
        """
        from tracker.alert.rules import load_rules

        alerts = self.settings.alerts
        # A rule goes on with the channels that work; that one does not is a problem of its own.
        named = {*self.channels[0], *(problem.channel for problem in self.channels[1])}
        return load_rules(
            alerts.rules, catalogue=self.catalogue, job=self.job, channels=named,
            default_channels=alerts.default_channels, providers=providers,
        )  # fmt: skip

    # -- polling -------------------------------------------------------------------------------

    @cached_property
    def redactor(self) -> Redactor:
        """Knows every secret of the settings; logs and archived answers pass through it."""
        from tracker.telemetry import Redactor

        redactor = self._redactor or Redactor()
        redactor.register(*self.settings.secret_values())
        redactor.register_url(self.boot.database_url)
        return redactor

    def provider_config(self, provider: Provider[Any]) -> ProviderConfig:
        """A provider's configuration: its table, variables and key. Raises SettingsError.

        Its secrets are known to ``redactor`` from then on.
        """
        from tracker.settings import provider_config

        config: ProviderConfig = provider_config(self.settings, provider, self._env)
        self.redactor.register(*_secrets_of(config))
        return config

    def rules(self) -> Rules:
        """The quality gates' thresholds, with the user's overrides."""
        from tracker.domain.quality import Rules

        quality = self.settings.quality
        return Rules(
            bands=quality.bands,
            confirmations=quality.confirmations,
            shrink_fraction=quality.shrink_fraction,
        )

    @contextmanager
    def collector(self, *, dry_run: bool = False) -> Iterator[Collector]:
        """A collector on an up-to-date database, or without one on a dry run."""
        from tracker.collect import Collector
        from tracker.telemetry import setup_logging

        setup_logging(self.settings.log_level, self.settings.log_format, redactor=self.redactor)
        if dry_run:
            yield Collector(self.catalogue, self.rules(), None, self._client, redact=self.redactor)
            return
        from tracker.store import migrate
        from tracker.store.engine import make_engine
        from tracker.store.polls import Recorder
        from tracker.store.responses import StoredResponses

        with self.database(upgrade=True) as url:
            migrate.check(url)
            engine = make_engine(url)
            try:
                responses = StoredResponses(engine)
                yield self.collector_on(url, Recorder(engine), responses)
                responses.forget_older_than(datetime.now(UTC) - self.archive_retention)
            finally:
                self._responses = None
                engine.dispose()

    def collector_on(
        self, url: str, recorder: Recorder, responses: ResponseCache,
        gates: dict[str, HostGate] | None = None,
    ) -> Collector:  # fmt: skip
        """A collector on a database that somebody else keeps open.

        *gates* holds the pace of each provider's hosts from one poll to the next.
        """
        from tracker.collect import Collector

        self._responses, self._gates = responses, gates
        return Collector(
            self.catalogue,
            self.rules(),
            recorder,
            self._client,
            redact=self.redactor,
            sellers=lambda: _sellers(url),
        )

    @property
    def archive_retention(self) -> timedelta:
        """How long providers' answers are kept."""
        return timedelta(days=self.settings.archive_retention_days)

    def _client(self, provider: Provider[Any], config: ProviderConfig, deadline_s: float) -> Client:
        from tracker.http import make_client, make_gate

        gate: HostGate | None = None
        if self._gates is not None:
            gate = self._gates.get(provider.name)
            if gate is None:
                gate = self._gates[provider.name] = make_gate(provider, self.settings)
        return make_client(
            provider, config, self.settings, cache=self._responses, redactor=self.redactor,
            deadline_s=deadline_s, gate=gate,
        )  # fmt: skip


class _Knowledge:
    """What jobs with a workload are read and estimated with, loaded when one asks for it."""

    def __init__(self, app: App, folder: Path | None = None) -> None:
        self._app = app
        self._folder = folder

    @property
    def models(self) -> Models:
        """The models known by name."""
        return self._app.models

    @property
    def estimator(self) -> Estimator:
        """The estimator with the calibration that is shipped."""
        return self._app.estimator

    def config_text(self, path: str) -> str:
        """A config.json, looked for beside the job file. Raises JobError."""
        where = _path(path) if self._folder is None else self._folder / _path(path)
        try:
            return _job_text(where, MAX_CONFIG_BYTES, "a config.json")
        except JobError as error:
            raise JobError(f"workload.model: {path}: {error}") from None


class NothingRecorded(Exception):
    """The embedded database is empty: no poll has been recorded yet."""


def _path(reference: str) -> Path:
    """*reference* as a path. Raises JobError for the home of somebody who does not exist."""
    try:
        return Path(reference).expanduser()
    except RuntimeError:
        raise JobError(f"{reference}: there is no such home directory") from None


def _job_text(path: Path, limit: int = MAX_JOB_BYTES, what: str = "a job file") -> str:
    """The text of a job file. Raises JobError where it is no ordinary, small text file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait, and a device never ends
            raise JobError("is a folder" if stat.S_ISDIR(found.st_mode) else "not an ordinary file")
        with path.open("rb") as file:
            body = file.read(limit + 1)
        if len(body) > limit:
            raise JobError(f"larger than {limit >> 10} KiB: not {what}")
        return body.decode("utf-8")
    except UnicodeError:
        raise JobError("not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise JobError(getattr(error, "strerror", None) or "not the name of a file") from None


def _secrets_of(value: Any) -> Iterator[str]:
    """The values of all SecretStr fields of a configuration, nested ones included."""
    from pydantic import BaseModel, SecretStr

    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from _secrets_of(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _secrets_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets_of(inner)


def _sellers(url: str) -> frozenset[str]:
    """Everybody whose prices the database at *url* has ever held."""
    from tracker.store import status
    from tracker.store.engine import read_connection

    with read_connection(url) as connection:
        return frozenset(row.slug for row in status.providers(connection))


def job_names() -> list[str]:
    """The built-in jobs."""
    return [Path(name).stem for name in data.names("jobs", ".toml")]


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
