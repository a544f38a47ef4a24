"""Availability from a CSV of intervals: what is read, what is refused, and how it repeats."""

import math
from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.world import World
from asyncfl.world.availability import ClientTraits, CsvAvailability

LINES = "device,from_s,until_s,note\n7,10,20,a\n3,0,5,b\n7,20,25,c\n7,40,60,d\n3,90,100,e\n"


def of_file(tmp_path: Path, text: str = LINES, **fields: object) -> CsvAvailability:
    path = tmp_path / "measured.csv"
    path.write_text(text)
    return CsvAvailability.model_validate({"path": str(path), "rows": "in_order"} | fields)


def test_intervals_of_devices_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    presence = of_file(tmp_path).start(ClientTraits(np.ones(3)), Streams(0))
    assert [presence.online(0, t) for t in (0.0, 4.9, 5.0, 90.0, 100.0)] == [True, True, False, True, False]
    assert [presence.next_change(1, t) for t in (0.0, 10.0, 19.0, 25.0, 50.0)] == [10.0, 25.0, 25.0, 40.0, 60.0]
    assert presence.next_change(1, 60.0) == math.inf, "who has had its last interval never comes again"
    assert presence.all_online(0.0).tolist() == [True, False, True], "client 2 has the first device again"


def test_an_interval_goes_on_across_the_end_of_a_repetition(tmp_path: Path) -> None:
    presence = of_file(tmp_path, repeats_after_s=100.0).start(ClientTraits(np.ones(2)), Streams(0))
    assert presence.next_change(0, 0.0) == 5.0
    assert presence.next_change(0, 95.0) == presence.next_change(0, 102.0) == 105.0
    assert presence.next_change(1, 60.0) == 110.0
    assert presence.online(1, 1050.0)
    assert presence.next_change(1, 1050.0) == 1060.0
    always = of_file(tmp_path, "device,from_s,until_s\n1,0,50\n1,50,100\n", repeats_after_s=100.0)
    assert always.start(ClientTraits(np.ones(1)), Streams(0)).next_change(0, 1234.0) == math.inf


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("device,from_s\n1,2\n", {}, "until_s"),
        ("device,from_s,until_s\n1,5,5\n", {}, "device 1: until_s must be > from_s, got 5 to 5"),
        ("device,from_s,until_s\n1,0,5\n1,4,9\n", {}, "one interval begins at 4 s and another ends at 5 s"),
        ("device,from_s,until_s\n1,0,50\n", {"repeats_after_s": 20.0}, "must end by repeats_after_s"),
        ("device,from_s,until_s\n1,-1,50\n", {}, "line 2, column from_s"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, text: str, fields: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        of_file(tmp_path, text, **fields).start(ClientTraits(np.ones(1)), Streams(0))


def test_the_digest_of_a_world_covers_the_file(tmp_path: Path) -> None:
    world = World(availability=of_file(tmp_path))
    before = world.profile_digests()
    of_file(tmp_path, LINES + "9,0,1,f\n")
    assert before != world.profile_digests()
