"""The invented year of the benchmark, small: loaded, its floor is the one that a rebuild makes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import history, history_load, history_world
from tracker.store import floor_packs, floor_rebuild
from tracker.store.engine import connect, read_connection
from tracker.store.series.tracks import floor_tracks, span_tracks


@pytest.mark.e2e  # it takes a quarter of a minute to load
def test_every_way_answers_alike(database_url: str) -> None:
    providers = list(history_world.world(scale=0.001))
    memory = history.spans_in_memory(providers)
    with connect(database_url) as connection:
        history_load.load(connection, providers)
        answers = [answer(database_url, floor_tracks), answer(database_url, span_tracks)]
        connection.rollback()
        floor_rebuild.rebuild(connection)
        answers.append(answer(database_url, floor_tracks))
        assert floor_packs.build(connection, now=history.NOW) > 100
    answers.append(answer(database_url, floor_tracks))
    expected = memory.answer(QUESTION)
    for found in answers:
        for gpu in QUESTION.gpus:
            assert np.array_equal(found[gpu], expected[gpu])
    known = np.concatenate(list(expected.values())) < history.NOTHING
    assert 0.05 < known.mean() < 1  # there are gaps, and prices


QUESTION = history.QUESTIONS[1]


def answer(url: str, read: history.Reader) -> history.Answer:
    with read_connection(url) as connection:
        return history.from_store(connection, QUESTION, read)
