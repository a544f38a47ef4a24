"""The record of uploads and models: written once, and complete when a model is out."""

from __future__ import annotations

import dataclasses

import pytest

from asyncfl.privacy import Contribution, Release
from asyncfl.privacy.record import ModelRelease, Record, Upload

RELEASE = Release("gaussian", 0.5, 2.0, 1, "replace", "proven", 3.0, 1e-5)


def upload(task: int, client: int = 0, turn: int = 0) -> Upload:
    return Upload(task, 0, Contribution(client, 20, turn), RELEASE, 1.0, 2.5, False, 0.5)


def test_an_upload_weighs_nothing_before_the_model_that_it_entered_is_out() -> None:
    record = Record()
    first, second = upload(4, client=1, turn=3), upload(7, client=2)
    record.collected([first, second])
    assert [one.weight for one in record.uploads] == [None, None]
    model = ModelRelease(1, (first.weighing(0.25),), 1.0, 0.1)
    assert record.upload(4) == first, "what is still to be published changes nothing"
    record.published(model)
    assert [(one.task, one.client, one.turn, one.weight) for one in record.uploads] == [
        (4, 1, 3, 0.25),
        (7, 2, 0, None),
    ]
    assert record.models == {1: model}
    assert [one.weight for one in model.contributions] == [0.25]


def test_uploads_stand_in_the_order_in_which_they_were_collected_or_dropped() -> None:
    record = Record()
    record.collected([upload(3), upload(1)])
    record.dropped(upload(2))
    assert [one.task for one in record.newest] == [3, 1], "what was dropped was not collected"
    record.collected([upload(0)])
    record.published(ModelRelease(1, (upload(1).weighing(1.0),), None, 0.0))
    assert [one.task for one in record.uploads] == [3, 1, 2, 0]
    assert [one.task for one in record.newest] == [0]
    assert record.upload(9) is None


def test_a_record_cannot_be_rewritten() -> None:
    one = upload(0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.loss = 0.0  # type: ignore[misc]
    assert one.weighing(0.5) != one
    assert one.weight is None
