from __future__ import annotations

from asyncfl.messages import Fate
from asyncfl.server.patience import Patience


def test_tasks_in_vain_are_counted_since_the_last_update() -> None:
    patience = Patience(5)
    for _ in range(9_999):
        patience.ended(Fate.LOST_UP)
    assert patience.why_stop is None
    patience.arrived()
    for _ in range(4_000):
        patience.ended(Fate.LOST_UP)
    for _ in range(6_000):
        patience.ended(Fate.DROPPED_OUT)
    said = "no update reached the server in the last 10000 tasks (6000 dropped_out, 4000 lost_up)"
    assert patience.why_stop == said


def test_a_large_federation_asks_everybody_several_times() -> None:
    assert Patience(5).limit == 10_000
    assert Patience(100_000).limit == 1_000_000
