from __future__ import annotations

import math

import pyarrow as pa
import pytest

from asyncfl.trace.scoring_requests import scoring_requests_of


def test_a_request_ends_with_its_scores_or_without_an_answer(story: pa.Table) -> None:
    first, second = scoring_requests_of(story)
    assert (first.client, first.making, first.asked_s, first.ended_s) == (3, 2, 9.1, 9.5)
    assert (first.answer, first.answered) == ("no answer", False)
    assert math.isnan(first.took_s)
    assert (second.client, second.asked, second.answered) == (0, "2 models", True)
    assert second.took_s == pytest.approx(0.3)


def test_an_open_request_lasts_to_the_end_of_the_trace(story: pa.Table) -> None:
    whole = story.to_pylist()
    cut = [row for row in whole if row["time_s"] <= 9.5]
    *_, last = scoring_requests_of(pa.Table.from_pylist(cut, schema=story.schema))
    assert (last.client, last.ended_s, last.answer, last.answered) == (0, 9.5, "", False)
