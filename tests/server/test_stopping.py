from asyncfl.base.messages import Fate
from asyncfl.server.aggregation import RejectedUpdates
from asyncfl.server.tasks import FailedTasks


def test_tasks_in_vain_are_counted_since_the_last_update() -> None:
    patience = FailedTasks(5)
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


def test_rejected_updates_are_counted_since_the_last_sound_one() -> None:
    few, many = RejectedUpdates(3), RejectedUpdates(30)
    for client in (0, 1):
        few.rejected(client, finite=True)
    assert few.why_stop(set()) is None
    assert few.why_stop({2}) == "no update could be used: the last 2 were all of the wrong length"
    few.sound()
    few.rejected(2, finite=False)
    assert few.why_stop(set()) is None
    for _ in range(29):
        many.rejected(0, finite=True)
    assert many.why_stop(set()) is None
    many.rejected(1, finite=False)
    assert many.why_stop(set()) == "diverged: the last 30 updates were all rejected, 1 not finite"


def test_a_small_federation_is_not_given_up_after_a_few_rejections() -> None:
    rejected_updates = RejectedUpdates(2)
    for _ in range(19):
        rejected_updates.rejected(0, finite=False)
    assert rejected_updates.why_stop(set()) is None
    rejected_updates.rejected(0, finite=False)
    assert rejected_updates.why_stop(set()) is not None
