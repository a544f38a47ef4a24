"""Reports that a client can give, and those that no client can."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import ClientEvent
from asyncfl.extras.live.report_rules import ReportRules
from asyncfl.learning import Training
from asyncfl.simulation.phases import Workload
from asyncfl.world.world import World

DOWN, UP = 40, 12
"""Bytes of a download, and of a compressed update."""
TIMES = 1 << 40


def rules(*, shape: bool = True, training: Training | None = None) -> ReportRules:
    world = World.model_validate({"downlink": {"retransmissions": 2}, "uplink": {"retransmissions": 1}})
    scenario: Any = SimpleNamespace(training=training or Training(lr=0.1), world=world)
    return ReportRules(scenario, Workload(np.array([5]), 3, DOWN, DOWN, UP), shape=shape)


def report(*events: tuple[Any, ...]) -> tuple[ClientEvent, ...]:
    """Events a second apart: kind, bytes, attempt, detail."""
    return tuple(ClientEvent(float(second), *event) for second, event in enumerate(events))


GOOD: tuple[tuple[Any, ...], ...] = (
    ("downloaded", 3 * DOWN, 3, "down"),
    ("training_started",),
    ("trained",),
    ("upload_started", UP),
    ("budget_spent", -1, -1, "epsilon 4 of 4"),
    ("uploaded", 2 * UP, 2, "up"),
)
RESENT: tuple[tuple[Any, ...], ...] = (
    ("overheard_in_part", -1, -1, "down"),
    ("retransmitted", 9, 2, "down"),
    ("retransmitted", 9, 3, "down"),
    ("overheard", -1, -1, "down"),
)


@pytest.mark.parametrize("length", range(len(GOOD) + 1))
def test_a_report_may_end_anywhere(length: int) -> None:
    rules().check_task(report(*GOOD[:length]))
    if length < len(GOOD):
        rules().check_task(report(*GOOD[:length], ("went_offline",)))


def test_messages_may_be_sent_again_and_overheard() -> None:
    rules().check_task(report(*RESENT, *GOOD[:4], ("retransmitted", UP, 2, "up"), ("lost", 2 * UP, 2, "up")))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((("downloaded", DOWN, 40_000),), "the attempt of 'downloaded' must be -1..3, got 40000"),
        ((("downloaded", 2**53, 3),), "the bytes of 'downloaded' must be -1..120, got 9007199254740992"),
        ((("downloaded", 2 * DOWN, 1),), "the bytes of 'downloaded' must be -1..40, got 80"),
        ((GOOD[0], GOOD[0]), "a report tells of training_started, .* here, got 'downloaded'"),
        ((*GOOD, GOOD[5]), "a report tells of nothing more here, got 'uploaded'"),
        ((*GOOD[:5], GOOD[4]), "a report tells of 'budget_spent' once"),
        ((("retransmitted", 9, 2, "down"), ("retransmitted", 9, 2, "down")), "is sent again as attempt 3, got 2"),
        ((*RESENT[1:3], ("retransmitted", 9, 4, "down")), "the attempt of 'retransmitted' must be -1..3, got 4"),
        ((RESENT[0], RESENT[0]), "a report tells of 'overheard_in_part' once"),
        ((("retransmitted", DOWN + 1, 2, "down"),), "the bytes of 'retransmitted' must be -1..40, got 41"),
        ((GOOD[0], ("training_started", 5)), "the bytes of 'training_started' must be -1..-1, got 5"),
        ((*GOOD[:2], ("trained", -1, -1, "1 of 3 epochs")), "the detail of 'trained' must be '', got '1 of 3 epochs'"),
        ((("sent", 5, -1, "down"),), "got 'sent'"),
        ((("published",),), "got 'published'"),
        ((("went_offline", -1, -1, "x" * 900),), "the detail of 'went_offline' must be ''"),
    ],
)
def test_impossible_reports_of_tasks_are_refused(told: tuple[tuple[Any, ...], ...], why: str) -> None:
    with pytest.raises(MessageError, match=why):
        rules().check_task(report(*told))


def test_a_report_is_in_the_order_of_time() -> None:
    with pytest.raises(MessageError, match="in the order of time, got 1 s after 2 s"):
        rules().check_task((ClientEvent(2.0, "downloaded"), ClientEvent(1.0, "training_started")))


def test_a_training_by_a_deadline_may_end_with_some_but_not_all_epochs() -> None:
    late = rules(training=Training(lr=0.1, epochs=3, deadline_s=5.0))
    late.check_task(report(*GOOD[:2], ("trained", -1, -1, "2 of 3 epochs"), *GOOD[3:]))
    for detail in ("0 of 3 epochs", "3 of 3 epochs", "2 of 4 epochs"):
        with pytest.raises(MessageError, match=f"the detail of 'trained' must be .* got '{detail}'"):
            late.check_task(report(*GOOD[:2], ("trained", -1, -1, detail)))


def test_nobody_sees_a_real_message_on_its_way() -> None:
    real = rules(shape=False)
    real.check_task(report(("downloaded", DOWN, 1, "down"), *GOOD[1:5], ("uploaded", UP, 1, "up")))
    for told in (RESENT[:1], RESENT[1:2], GOOD[:1]):
        with pytest.raises(MessageError):
            real.check_task(report(*told))
    real.check_request((), 3)
    with pytest.raises(MessageError, match="a report tells of nothing more here, got 'sent'"):
        real.check_request(report(("sent", 5, -1, "down")), 3)


def test_an_update_that_is_too_long_was_sent_whole() -> None:
    rules().check_task(report(*GOOD[:3], ("upload_started", 99), ("uploaded", 99, 1, "up")), upload_bytes=99)


def test_both_messages_of_a_request_are_reported_once() -> None:
    down, up = ("sent", 3 * 2 * DOWN, -1, "down"), ("sent", 2 * 2 * 8, -1, "up")
    heard = ("overheard", -1, -1, "scoring down")
    rules().check_request(report(heard, down, ("retransmitted", 8, 2, "scoring up"), up), models=2)
    for told in ((down, down), (up,), (down, up, up), (("sent", 241, -1, "down"),), (("sent", -1, -1, "down"),)):
        with pytest.raises(MessageError):
            rules().check_request(report(*told), models=2)


events = st.tuples(
    st.sampled_from([*(event[0] for event in (*GOOD, *RESENT)), "lost", "went_offline", "dropped_out", "sent", "x"]),
    st.integers(-1, 2**53),
    st.integers(-1, 70_000),
    st.sampled_from(["", "down", "up", "scoring down", "no epoch by its deadline"]),
)


@given(st.lists(st.one_of(events, st.sampled_from([*GOOD, *RESENT])), max_size=40), st.booleans())
def test_whatever_passes_fits_into_the_tables_and_is_short(told: list[tuple[Any, ...]], shape: bool) -> None:
    try:
        rules(shape=shape).check_task(report(*told))
    except MessageError:
        return
    assert len(told) <= 6 + 3 + 4 + 3
    assert all(one[2] <= 3 and one[1] <= 3 * DOWN for one in report_numbers(told))


def report_numbers(told: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Events with all their numbers."""
    return [(*one, -1, -1)[:3] for one in told]
