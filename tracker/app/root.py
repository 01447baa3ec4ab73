"""The composition root: settings, database, catalogue, jobs and collector, wired in one place.

Built once by whoever starts (the command line, later the daemon and the server). Everything heavy
is imported when it is needed: a read-only command must be able to answer in well under a second.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker import data
from tracker.app.beside import channel_tables, rule_tables
from tracker.app.jobs import find_job, job_names
from tracker.app.polled import secrets_of
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.settings import Bootstrap, bootstrap, load_settings

if TYPE_CHECKING:
    import psycopg

    from tracker.alert.rules import Rule, RuleProblem
    from tracker.collect import Collector
    from tracker.domain.models import Models
    from tracker.domain.quality import Rules
    from tracker.domain.runtime.estimator import Estimator
    from tracker.domain.terms import Discount
    from tracker.http import Client, HostGate, ResponseCache
    from tracker.notify import Channel, ChannelProblem
    from tracker.provider import Provider, ProviderConfig
    from tracker.report.asked import Asked
    from tracker.report.cheapest import CheapestReport
    from tracker.report.filters import Filters
    from tracker.settings import Settings
    from tracker.store.embedded import Embedded
    from tracker.store.polls import Recorder
    from tracker.store.reads import StoredOffer
    from tracker.telemetry import Redactor


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
        self._built_in: dict[str, Job] = {}  # those that were asked for

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

    def owned(self, now: datetime) -> tuple[StoredOffer, ...]:
        """The GPUs that one owns, as offers. Raises SettingsError on one that cannot be."""
        if not self.boot.own:
            return ()
        from tracker.report.owned import owned_offers
        from tracker.settings import SettingsError

        try:
            return owned_offers(self.boot.own, self.catalogue, now)
        except ValueError as error:
            raise SettingsError(f"own: {error}") from None

    def ask(
        self,
        connection: psycopg.Connection[Any],
        filters: Filters,
        gpu_keys: Collection[str] | None,
        now: datetime,
        as_of: datetime | None = None,
    ) -> Asked:
        """The offers that a question is about; see ``tracker.report.asked``."""
        from tracker.report.asked import ask

        return ask(connection, filters, gpu_keys, now, as_of)

    def measured(self, connection: psycopg.Connection[Any], job: Job) -> Job:
        """*job* with the measurements that the database has of it."""
        from tracker.report.measured import measured

        return measured(connection, job)

    def discounts(self, connection: psycopg.Connection[Any], now: datetime) -> list[Discount]:
        """The discounts that are in force at *now* or later."""
        from tracker.store import reads

        return reads.discounts(connection, now)

    def check_names(self, connection: psycopg.Connection[Any], filters: Filters) -> None:
        """Raise UnknownProvider for a provider or a tier that nobody knows."""
        from tracker.report.health import check_providers, check_tiers

        check_providers(connection, filters.providers)
        check_tiers(connection, filters.tiers)

    def with_owned(
        self, asked: Asked, gpu_keys: Collection[str] | None, now: datetime, *, past: bool
    ) -> Asked:
        """*asked* with the GPUs that one owns beside the rented ones. Raises SettingsError."""
        if not self.boot.own:
            return asked
        from tracker.report.owned import beside_rented

        return beside_rented(asked, self.owned(now), gpu_keys, past=past)

    def at_site(self, report: CheapestReport) -> CheapestReport:
        """*report* with the energy of its rows as it is where the jobs run."""
        if report.job.task is None:
            return report
        from tracker.report.owned import pues
        from tracker.report.site import at_site

        return at_site(report, self.boot.site, pues(self.boot.own))

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

    def content_with(self, since: float) -> AbstractContextManager[None]:
        """While it is entered, what this thread asks may be answered by what was read at *since*
        (``time.monotonic``) or later, where an App keeps such."""
        return nullcontext()

    # -- jobs ----------------------------------------------------------------------------------

    def job(self, reference: str) -> Job:
        """A built-in job by name, or a TOML file by path. Raises JobError."""
        name = reference.lower()
        if name not in job_names():
            return find_job(reference, self)  # a file, which may change
        found = self._built_in.get(name)
        if found is None:
            found = self._built_in[name] = find_job(name, self)
        return found

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
            channel_tables(alerts.channels, self.settings.config_path),
            os.environ if self._env is None else self._env,
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
            rule_tables(alerts.rules, self.settings.config_path), catalogue=self.catalogue,
            job=self.job, channels=named, default_channels=alerts.default_channels,
            providers=providers,
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
        self.redactor.register(*secrets_of(config))
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
        from tracker.store.exchange_rates import StoredRates

        self._responses, self._gates = responses, gates
        return Collector(
            self.catalogue,
            self.rules(),
            recorder,
            self._client,
            redact=self.redactor,
            sellers=lambda: _sellers(url),
            rates=StoredRates(url),
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


class NothingRecorded(Exception):
    """The embedded database is empty: no poll has been recorded yet."""


def _sellers(url: str) -> frozenset[str]:
    """Everybody whose prices the database at *url* has ever held."""
    from tracker.store import status
    from tracker.store.engine import read_connection

    with read_connection(url) as connection:
        return frozenset(row.slug for row in status.providers(connection))
