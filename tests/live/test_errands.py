"""What a client is at: its phases where nothing is simulated, and what it tells of itself."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from asyncfl.live.errands import At, Craft
from asyncfl.trace import Kind
from asyncfl.world import Transfer


def test_in_the_real_world_everything_takes_as_long_as_it_takes() -> None:
    nothing: Any = None
    load: Any = SimpleNamespace(download_bytes=777, upload_bytes=999)
    craft = Craft(3, nothing, nothing, load, None, None, None, nothing)
    phases, needed = zip(*craft.phases(nothing), strict=True)
    assert [one.begins for one in phases] == [Kind.DOWNLOAD_STARTED, Kind.TRAINING_STARTED, Kind.UPLOAD_STARTED]
    assert [one.ends for one in phases] == [Kind.DOWNLOADED, Kind.TRAINED, Kind.UPLOADED]
    assert [one.duration_s for one in phases] == [0.0, 0.0, 0.0]
    assert needed == (True, True, True)
    assert [one.sending and one.sending.way for one in phases] == ["down", None, "up"]
    assert [one.duration_s for one in craft.scoring_phases(nothing, 5)] == [0.0]
    fetched, sent = (phases[place].sending for place in (0, 2))
    assert fetched is not None
    assert sent is not None
    assert (fetched.transfer.sent_bytes, fetched.transfer.payload_bytes) == (777, 777)
    assert sent.transfer == Transfer(
        duration_s=0.0,
        delivered=True,
        attempts=1,
        packets=1,
        packets_sent=1,
        packets_lost=0,
        sent_bytes=999,
        overheard_s=math.inf,
        waits_s=(),
        resent_bytes=(),
        payload_bytes=999,
        packet_s=0.0,
    )


def test_what_has_not_happened_yet_is_not_told() -> None:
    at = At(4, began_s=10.0)
    at.note(12.0, "later", 5)
    at.note(11.0, "sooner", attempt=2, detail="why")
    at.note(9.0, "before it began")
    assert [(one.after_s, one.kind, one.size, one.attempt, one.detail) for one in at.report(12.0)] == [
        (0.0, "before it began", -1, -1, ""),
        (1.0, "sooner", -1, 2, "why"),
        (2.0, "later", 5, -1, ""),
    ]
    assert [one.kind for one in at.report(11.5)] == ["before it began", "sooner"]
