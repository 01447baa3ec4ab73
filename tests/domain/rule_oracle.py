"""What a rule that watches a number must say, worked out from its whole history at once.

Nothing is carried from one sample to the next: for every sample the runs that end there are looked
up again. For clocks that only go forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

from tests.domain.rule_scenarios import Evaluation
from tracker.domain.rule import Health, Policy

LOW, MIDDLE, HIGH, DARK = "low", "middle", "high", "dark"


@dataclass
class Episode:
    """A firing: from which sample to which (None: it goes on), and its notices."""

    first: int
    last: int | None = None
    hidden_by: str | None = None
    told_at: int | None = None


@dataclass
class Answer:
    """``phases`` after each sample. ``events``: (sample, kind, suppressed by)."""

    phases: list[str] = field(default_factory=list)
    events: set[tuple[int, str, str | None]] = field(default_factory=set)


class Oracle:
    def __init__(self, policy: Policy, trace: Sequence[Evaluation]) -> None:
        self.policy = policy
        self.trace = trace
        self.zones = [self._zone(one) for one in trace]
        self.good = [i for i, zone in enumerate(self.zones) if zone != DARK]

    def answer(self) -> Answer:
        episodes = self._episodes()
        self._notices(episodes)
        answer = Answer(self._phases(episodes))
        for episode in episodes:
            answer.events.add((episode.first, "fired", episode.hidden_by))
            if episode.hidden_by and episode.told_at is not None:
                answer.events.add((episode.told_at, "still_firing", None))
            for at in self._reminders(episode):
                answer.events.add((at, "reminder", self.trace[at].silence))
            if episode.last is not None:
                hidden_by = self._end_hidden_by(episode)
                answer.events.add((episode.last, "resolved", hidden_by))
                if hidden_by == self.trace[episode.last].silence:
                    answer.events |= self._late_end(episode.last)
        answer.events |= self._turns(answer.phases, episodes) | self._health()
        return answer

    def _zone(self, one: Evaluation) -> str:
        value = one.sample.value
        if one.sample.health is not Health.GOOD or value is None:
            return DARK
        if value <= self.policy.enter:
            return LOW
        return HIGH if value >= self.policy.exit else MIDDLE

    def _seconds_between(self, a: int, b: int) -> timedelta:
        return self.trace[b].at - self.trace[a].at

    def _before(self, i: int) -> int | None:
        """The good sample before the good sample *i*."""
        return max((j for j in self.good if j < i), default=None)

    def _run(self, i: int) -> list[int]:
        """The good samples of one zone in a row that end at *i*, back to the last gap."""
        run = [i]
        while (before := self._before(run[0])) is not None:
            too_long = self._seconds_between(before, run[0]) > self.policy.max_gap
            if too_long or self.zones[before] != self.zones[i]:
                break
            run.insert(0, before)
        return run

    def _held(self, run: list[int]) -> timedelta:
        """The time between neighbours in *run* with no bad sample in between."""
        steps = (self._seconds_between(a, b) for a, b in pairwise(run) if b == a + 1)
        return sum(steps, timedelta(0))

    def _fires(self, i: int) -> bool:
        run = self._run(i)
        long_enough = self._held(run) >= self.policy.min_duration
        return self.zones[i] == LOW and long_enough and len(run) >= self.policy.min_count

    def _clears(self, i: int) -> bool:
        return self.zones[i] == HIGH and self._held(self._run(i)) >= self.policy.keep_firing

    def _episodes(self) -> list[Episode]:
        episodes: list[Episode] = []
        after = -1
        while True:
            first = next((i for i in self.good if i > after and self._fires(i)), None)
            if first is None:
                return episodes
            last = next((i for i in self.good if i > first and self._clears(i)), None)
            episodes.append(Episode(first, last))
            if last is None:
                return episodes
            after = last

    def _from_start(self, i: int) -> bool:
        return all(self.zones[j] == LOW for j in self.good if j <= i)

    def _notices(self, episodes: list[Episode]) -> None:
        for number, episode in enumerate(episodes):
            told = [e.told_at for e in episodes[:number] if e.told_at is not None]

            def cooling(i: int, told: list[int] = told) -> bool:
                return any(self._seconds_between(t, i) < self.policy.cooldown for t in told)

            first = episode.first
            if self.policy.on_start == "baseline" and self._from_start(first):
                episode.hidden_by = "baseline"
                continue
            if self.trace[first].silence:
                episode.hidden_by = self.trace[first].silence
            elif cooling(first):
                episode.hidden_by = "cooldown"
            for i in self._firing_samples(episode):
                kept = self.trace[i].silence is not None
                kept = kept or (episode.hidden_by in ("cooldown", None) and cooling(i))
                if not kept:
                    episode.told_at = i
                    break

    def _firing_samples(self, episode: Episode) -> list[int]:
        """The good samples at which it fires and does not recover."""
        end = len(self.trace) if episode.last is None else episode.last
        return [i for i in self.good if episode.first <= i < end and self.zones[i] != HIGH]

    def _reminders(self, episode: Episode) -> list[int]:
        every, reminders = self.policy.remind_every, list[int]()
        if every is None or episode.told_at is None:
            return []
        last = episode.told_at
        for i in self._firing_samples(episode):
            if i > last and self._seconds_between(last, i) >= every:
                reminders.append(i)
                last = i
        return reminders

    def _end_hidden_by(self, episode: Episode) -> str | None:
        if episode.told_at is None:
            return "unsent firing"
        if not self.policy.send_resolved:
            return "send_resolved"
        return self.trace[episode.last or 0].silence

    def _late_end(self, last: int) -> set[tuple[int, str, str | None]]:
        """When the end at *last* is told, if a silence kept it back: at once when that is over."""
        after = range(last + 1, len(self.trace))
        told = next((i for i in after if self.trace[i].silence is None), None)
        kept_back = self.trace[last].silence is not None
        return {(told, "resolved", None)} if kept_back and told is not None else set()

    def _phases(self, episodes: list[Episode]) -> list[str]:
        phases: list[str] = []
        for i, zone in enumerate(self.zones):
            firing = any(e.first <= i and (e.last is None or i < e.last) for e in episodes)
            ends = any(e.last == i for e in episodes)
            if zone == DARK:
                phases.append(phases[-1] if phases else "ok")
            elif firing:
                phases.append("recovering" if zone == HIGH else "firing")
            else:
                phases.append("pending" if zone == LOW and not ends else "ok")
        return phases

    def _turns(
        self, phases: list[str], episodes: list[Episode]
    ) -> set[tuple[int, str, str | None]]:
        """The events of a change of phase that are never sent, and new starts of waiting."""
        names = {
            ("ok", "pending"): "pending",
            ("pending", "ok"): "pending_ended",
            ("firing", "recovering"): "recovering",
            ("recovering", "firing"): "relapsed",
        }
        found: set[tuple[int, str, str | None]] = set()
        for i in self.good:
            before = phases[i - 1] if i else "ok"
            name = names.get((before, phases[i]))
            previous = self._before(i)
            gap = (
                previous is not None
                and self._seconds_between(previous, i) > self.policy.max_gap
                and before == phases[i] in ("pending", "recovering")
            )
            if name or gap:
                found.add((i, name or phases[i], None))
        return found

    def _health(self) -> set[tuple[int, str, str | None]]:
        found: set[tuple[int, str, str | None]] = set()
        i, owed = 0, False  # owed: somebody was told of bad data, and not yet of its end
        while i < len(self.trace):
            if self.zones[i] != DARK:
                if owed and self.trace[i].silence is None:
                    found.add((i, "data_ok", None))
                    owed = False
                i += 1
                continue
            end = next((j for j in self.good if j > i), len(self.trace))
            problem = self._problem(i, end)
            found |= problem
            owed = owed or any(hidden_by is None for _, _, hidden_by in problem)
            i = end
            if problem and end < len(self.trace):
                silence = self.trace[end].silence
                found.add((end, "data_ok", silence if owed else "unsent problem"))
                owed = owed and silence is not None
                i += 1
        return found

    def _problem(self, start: int, end: int) -> set[tuple[int, str, str | None]]:
        """The bad samples from *start* to before *end*."""
        policy, trace = self.policy, self.trace
        found: set[tuple[int, str, str | None]] = set()
        for i in range(start, end):
            asleep = [
                j for j in range(start + 1, i + 1)
                if self._seconds_between(j - 1, j) > policy.max_gap
            ]  # fmt: skip
            if self._seconds_between(max(asleep, default=start), i) < policy.health_after:
                continue
            sent = next((j for j in range(i, end) if trace[j].silence is None), None)
            found.add((i, "data_problem", trace[i].silence))
            if sent is not None:
                found.add((sent, "data_problem", None))
            return found
        return found
