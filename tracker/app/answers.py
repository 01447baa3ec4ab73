"""The read side in one place: every way to ask (commands, addresses, tools, Python) calls it.

A question is a set of parameters with the command line's names (``tracker.app.asked``); an answer
is a report, whose plain form is in ``tracker.report.shapes``. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app import asked, kept, ordering, questions
from tracker.app.asked import BadQuestion
from tracker.app.jobs import ListedJob, job_names, listed_jobs
from tracker.app.parameters import QUESTIONS
from tracker.app.past import NOW_ONLY, history_on, versus_on
from tracker.app.root import App, NothingRecorded
from tracker.app.waited import Waited, waited_on, waiting_window
from tracker.app.windows import Window, window_of
from tracker.domain.job import Job, is_slice

if TYPE_CHECKING:
    import psycopg

    from tracker.app.standing import AlertsReport, SilencesReport
    from tracker.report.asked import Asked
    from tracker.report.cheapest import CheapestReport
    from tracker.report.compare import CompareReport
    from tracker.report.estimates import OnGpu
    from tracker.report.grouped import Grouping
    from tracker.report.held import HeldReport
    from tracker.report.history.told import Told
    from tracker.report.history.versus import Versus
    from tracker.report.listing import OffersReport, ProvidersReport

Reading = Callable[[], AbstractContextManager["psycopg.Connection[Any]"]]

__all__ = ["QUESTIONS", "Answers", "EstimateReport", "Past", "Question"]


class Question(NamedTuple):
    """What is asked: the name of an answer, and the values of its parameters."""

    name: str
    values: Mapping[str, Any]
    now: datetime

    @classmethod
    def parsed(
        cls, name: str, given: Iterable[tuple[str, str]], now: datetime | None = None
    ) -> Question:
        """Read *given* pairs of a parameter's name and text. Raises BadQuestion."""
        now = now or datetime.now(UTC)
        return cls(name, asked.parse(QUESTIONS[name], given, now), now)

    @classmethod
    def of(cls, name: str, **given: object) -> Question:
        """The same from keywords: ``Question.of("cheapest", job="bert-large", gpu=["H100"])``.

        A value may be text, a number, a truth value, a time or a list of texts; None is left out.
        Raises BadQuestion.
        """
        pairs = [(key, text) for key, value in given.items() for text in _texts(value)]
        return cls.parsed(name, pairs)


def _texts(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list | tuple | set | frozenset):
        return [",".join(str(item) for item in value)] if value else []
    if isinstance(value, datetime):
        return [value.isoformat()]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


class Past(NamedTuple):
    """What a job cost over time, and the window that was asked for."""

    told: Told
    window: Window


class Groups(NamedTuple):
    """The offers that match, and the same in groups."""

    report: OffersReport
    grouping: Grouping


class EstimateReport(NamedTuple):
    """A job on each GPU; ``remark`` says why there are no prices where there are none."""

    job: Job
    found: list[OnGpu]
    remark: str | None


class Answers:
    """Answers questions. Each call opens what it reads: threads may share one object.

    *files* lets a job be named by the path of its file: only for whoever may read files here.
    All methods raise BadQuestion, JobError and UnknownGpu for what makes no sense,
    UnknownProvider for names that nobody knows, NothingRecorded where no poll was ever recorded
    and StoreError where the database cannot be read.
    """

    def __init__(
        self, app: App, *, files: bool = False, reading: Reading | None = None
    ) -> None:  # fmt: skip
        self.app = app
        self._files = files
        self._reading = reading or app.reading

    @contextmanager
    def together(self) -> Iterator[Answers]:
        """Answers that all read one state of the database, for one thread."""
        with self._reading() as connection:
            yield Answers(self.app, files=self._files, reading=lambda: nullcontext(connection))

    def cheapest(self, question: Question) -> CheapestReport:
        """The cheapest way to run a job."""
        options = self._options(question)
        job, filters = self._job(options), asked.filters_of(options)
        self._known(filters.gpus)
        with self._reading() as connection:
            return questions.answer_on(connection, self.app, job, filters, options)

    def compare(self, question: Question) -> CompareReport:
        """One GPU against another for a job."""
        from tracker.report.compare import compare_report

        options = self._options(question) | {"gpu": (), "compare": None, "top": 1}
        options.pop("goal", None)
        names = self._two(options)
        job, filters = self._job(options), asked.filters_of(options)
        with self._reading() as connection:
            left, right = (
                questions.answer_on(
                    connection, self.app, job, filters._replace(gpus=(name,)), options
                )
                for name in names
            )
        return compare_report(left, right)

    def history(self, question: Question) -> Past:
        """What a job cost over time."""
        options = self._past_options(question)
        now = question.now
        window = window_of(
            options["since"], options["until"], options["bucket"], options["tz"], now
        )
        job, filters = self._job(options), asked.filters_of({**options, **NOW_ONLY})
        self._known(filters.gpus)
        with self._reading() as connection:
            told = history_on(connection, self.app, job, filters, window, options, now)
        return Past(told, window)

    def versus(self, question: Question) -> Versus:
        """Two GPUs over time."""
        options = self._past_options(question) | {"gpu": (), "as_of": None}
        names = self._two(options)
        job, filters = self._job(options), asked.filters_of({**options, **NOW_ONLY})
        with self._reading() as connection:
            return versus_on(connection, self.app, job, names, filters, options)

    def when(self, question: Question) -> Waited:
        """Whether to start a job now, or to wait for a lower price."""
        options = self._options(question) | {"as_of": None, "download": None}
        within = options.pop("deadline")
        if within is None:
            raise BadQuestion("deadline", "say within which time the job must be done: 12h, 14d")
        options |= {"deadline": None, "assume_network": None}
        window = waiting_window(options["since"], options["until"], question.now)
        job, filters = self._job(options), asked.filters_of({**options, **NOW_ONLY})
        self._known(filters.gpus)
        with self._reading() as connection:
            return waited_on(
                connection, self.app, job, filters, (*window, question.now), within,
                hours_typed=bool(options["hours_texts"]),
            )  # fmt: skip

    def offers(self, question: Question) -> OffersReport:
        """What can be rented, the cheapest per GPU-hour first unless it is sorted otherwise; all
        that match, in order.
        """
        _, report = self._listed(question)
        keys = ordering.offer_keys(report.now)
        in_order = ordering.in_order(question.values["sort"] or "", keys, report.offers)
        return report._replace(offers=tuple(in_order))

    def groups(self, question: Question) -> Groups:
        """What can be rented in groups: the question of ``offers`` with ``group_by``."""
        from tracker.report.grouped import fields_of, of_found

        try:
            fields = fields_of(question.values["group_by"])
        except ValueError as error:
            raise BadQuestion("group_by", str(error)) from None
        found, report = self._listed(question)
        grouping = of_found(
            found, report.offers, report.filters, self.app.catalogue, report.now, fields,
            past=question.values["as_of"] is not None,
        )  # fmt: skip
        keys = ordering.group_keys(grouping, report.now)
        in_order = ordering.in_order(question.values["sort"] or "", keys, grouping.groups)
        return Groups(report, grouping._replace(groups=tuple(in_order)))

    def _listed(self, question: Question) -> tuple[Asked, OffersReport]:
        """What was found for a list of offers, and the list, the cheapest first."""
        from tracker.report.health import check_providers, check_tiers
        from tracker.report.listing import offers_report
        from tracker.store import reads

        values = question.values
        filters = asked.filters_of(values)._replace(min_gpus=values["gpus"])
        as_of = values["as_of"]
        now = as_of or question.now
        wanted = self._known(filters.gpus)
        if wanted and all(is_slice(key) for key in wanted):
            filters = filters._replace(include_slices=True)
        with self._reading() as connection:
            check_providers(connection, filters.providers)
            check_tiers(connection, filters.tiers)
            found = self.app.ask(connection, filters, wanted, now, as_of)
            found = self.app.with_owned(found, wanted, now, past=as_of is not None)
            begins = None if found.total else reads.first_poll_at(connection)
        return found, offers_report(found, filters, self.app.catalogue, now, begins)

    def quarantined(self, question: Question) -> HeldReport:
        """The offers that a quality gate holds back, and why."""
        from tracker.report.health import check_providers
        from tracker.report.held import held_report
        from tracker.store import reads

        unasked = {name: one.default for name, one in asked.FILTERS.items()}
        filters = asked.filters_of({**unasked, **question.values})
        wanted = self._known(filters.gpus)
        with self._reading() as connection:
            check_providers(connection, filters.providers)
            return held_report(reads.quarantined(connection), filters, wanted, question.now)

    def estimate(self, question: Question, job: Job | None = None) -> EstimateReport:
        """How long a job takes on each GPU: *job*, or the one that the question names."""
        from tracker.app.estimating import with_prices, without_prices

        values, app, names = question.values, self.app, question.values["gpu"]
        job = self._named(values["job"]) if job is None else job
        if values["gpus"] is not None:
            job = replace(job, gpus_needed=values["gpus"], count_given=job.task is not None)
        if not values["prices"]:
            return EstimateReport(job, without_prices(app, job, names), None)
        try:
            with self._reading() as connection:
                found = with_prices(connection, app, job, names, question.now)
                return EstimateReport(job, found, None)
        except NothingRecorded:
            remark = "No prices yet; ask for some with: gpucost poll"
            return EstimateReport(job, without_prices(app, job, names), remark)

    def providers(self, question: Question) -> ProvidersReport:
        """How each provider stands, and those never polled."""
        from tracker import registry
        from tracker.app.keys import set_ups
        from tracker.report.health import provider_health
        from tracker.report.listing import ProvidersReport

        after = timedelta(days=self.app.settings.quality.retired_after_days)
        with self._reading() as connection:
            health = provider_health(connection, question.now, retired_after=after)
        known = {one.provider.slug for one in health}
        never = tuple(name for name in registry.names() if name not in known)
        return ProvidersReport(question.now, tuple(health), never, {
            name: one.as_dict() for name, one in set_ups(self.app).items()
        })  # fmt: skip

    def jobs(self, question: Question | None = None) -> list[ListedJob]:
        """Every job that is known by name."""
        return list(listed_jobs(self.app))

    def alerts(self, question: Question) -> AlertsReport:
        """How every alert rule stands."""
        from tracker.app.standing import alerts_report

        try:
            with self._reading() as connection:
                return alerts_report(self.app, connection, question.now)
        except NothingRecorded:
            return alerts_report(self.app, None, question.now)

    def silences(self, question: Question) -> SilencesReport:
        """The silences in force; with ``all`` those that are over, too."""
        from tracker.app.standing import silences_report

        try:
            with self._reading() as connection:
                return silences_report(
                    connection, question.now, include_past=question.values["all"]
                )
        except NothingRecorded:
            return silences_report(None, question.now)

    def job(self, name: str) -> Job:
        """The job of a name. Raises JobError."""
        return self._named(name)

    # -- what they share -----------------------------------------------------------------------

    def _options(self, question: Question) -> dict[str, Any]:
        """The values as ``questions`` takes them."""
        values = dict(question.values)
        values["hours_texts"] = values.pop("hours")
        return values | {
            "show_all": False, "compare": values.get("compare") or None,
            "verify": False, "goal": values.get("goal"),
        }  # fmt: skip

    def _past_options(self, question: Question) -> dict[str, Any]:
        options = self._options(question)
        options.pop("goal")
        return options | {"estimates": options["estimate_version"]}

    def _two(self, options: Mapping[str, Any]) -> tuple[str, str]:
        """The two GPUs that are compared."""
        left, right = options["left"], options["right"]
        for side, name in (("left", left), ("right", right)):
            if name is None:
                raise BadQuestion(side, "name a GPU such as H100")
        if self.app.catalogue.select(left) & self.app.catalogue.select(right):
            raise BadQuestion("right", f"{left} and {right} may be the same GPU; name two")
        return left, right

    def _job(self, options: Mapping[str, Any]) -> Job:
        name = options["job"]
        if name is not None:
            self._named(name)
        return questions.wanted_job(self.app, name, options)

    def _named(self, name: str | None) -> Job:
        if name is None:
            raise BadQuestion("job", "name a job such as bert-large")
        if self._files or name.lower() in job_names():
            return questions.named_job(name, self.app)
        if name.lower() not in (kept_names := kept.names(self.app)):
            import difflib

            known = [*job_names(), *kept_names]
            near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
            raise BadQuestion("job", f"no job is called {name[:60]!r}; {hint}")
        return questions.named_job(name, self.app)

    def _known(self, names: tuple[str, ...]) -> frozenset[str] | None:
        """The GPUs of *names*, None for none; refused before anything is opened."""
        if not names:
            return None
        return frozenset().union(*(self.app.catalogue.select(name) for name in names))
