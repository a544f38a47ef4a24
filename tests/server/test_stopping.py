from asyncfl.server.aggregation import RejectedUpdates


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
