"""Recordings of a server: what is written, and how it is read back."""

import json
from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import MessageError, RunError
from asyncfl.base.streams import Streams
from asyncfl.protocol import ServerPlan, Sync
from asyncfl.protocol import recording as recordings
from asyncfl.protocol.messages import (
    BufferVerdict,
    ClientGone,
    ClientIdle,
    ClientRetired,
    Collected,
    Fate,
    ScoreRequest,
    ScoresArrived,
    TimerFired,
    UpdateArrived,
)
from asyncfl.protocol.recording import RecordedServer, Recording, digest_of, message_of, parameters_of, plain

NAN = float("nan")


def plan(clients: int = 2) -> ServerPlan:
    return ServerPlan(Sync(rounds=1), np.full(clients, 10), np.zeros(3, np.float32), Streams(1))


def recorded(detail: str = "digests", seed: int = 0) -> Recording:
    """One round of two clients, one of them with a malformed update."""
    recording = Recording.of(plan(), detail, seed)  # type: ignore[arg-type]
    server = RecordedServer(plan(), recording)
    server.start(0.0)
    server.handle(UpdateArrived(0, time_s=1.0))
    server.handle(UpdateArrived(1, time_s=1.5))
    models = np.array([[1, 2, 3], [np.nan, 0, 0]], np.float32)
    server.handle(Collected((0, 1), models, np.array([0.25, np.inf]), time_s=1.5))
    server.stop("too late: it has stopped already")
    return recording


def test_each_call_is_a_line_with_sorted_keys_and_equal_runs_are_equal_bytes() -> None:
    recording = recorded()
    assert recording.text() == recorded().text()
    lines = recording.text().splitlines()
    assert (
        lines[0]
        == '{"everybody_present":true,"format":5,"n_parameters":3,"record":"digests","samples":[10,10],"seed":0}'
    )
    assert lines[2] == '{"answers":[],"hears":{"task":0,"time_s":1.0,"type":"UpdateArrived"}}'
    assert json.loads(lines[3])["answers"] == [{"tasks": [0, 1], "type": "Collect"}]
    assert lines[5] == ('{"answers":[],"hears":{"reason":"too late: it has stopped already","type":"stop"}}')


@pytest.mark.parametrize("put_away_at", [1, 200])
def test_calls_on_disk_are_read_back_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, put_away_at: int
) -> None:
    before = recorded("parameters")
    assert len(before.lines) == 5
    monkeypatch.setattr(recordings, "PUT_AWAY_AT", put_away_at)
    long = recorded("parameters")
    assert len(long.lines) < 3
    assert long == before
    assert list(long.calls()) == list(before.calls())
    path = tmp_path / "messages.jsonl"
    path.write_text(long.text())
    again = Recording.read(path)
    assert again == before
    assert len(again.lines) < 3
    again.lines.append(before.lines[0])
    assert again != before


def test_collected_updates_are_recorded_by_digest_with_losses_and_soundness() -> None:
    call = list(recorded().calls())[3]
    assert call.line == 5
    models = call.message["models"]
    assert models == {"digests": [digest_of(np.array([1, 2, 3])), models["digests"][1]], "shape": [2, 3]}
    assert call.message["losses"] == [0.25, "inf"]
    assert (call.message["sound"], call.message["finite"]) == ([True, True], [True, False])
    fates = {answer["task"]: answer["fate"] for answer in call.actions if answer["type"] == "Settle"}
    assert fates == {0: "aggregated", 1: "rejected"}


def test_with_parameters_models_read_back_to_the_last_bit() -> None:
    calls = list(recorded("parameters").calls())
    models = parameters_of(calls[3].message["models"])
    assert models is not None
    np.testing.assert_array_equal(models, np.array([[1, 2, 3], [np.nan, 0, 0]], np.float32))
    assert not models.flags.writeable
    (published,) = [answer for answer in calls[3].actions if answer["type"] == "Publish"]
    np.testing.assert_array_equal(parameters_of(published["model"]), [1, 2, 3])
    assert parameters_of(list(recorded().calls())[3].message["models"]) is None


@pytest.mark.parametrize(
    "message",
    [
        ClientIdle(3, time_s=0.1),
        UpdateArrived(4, time_s=1e-9),
        TimerFired("deadline:2", time_s=1 / 3),
        ClientGone(1, 5, Fate.LOST_UP, time_s=2.0),
        ClientGone(1, 5, None, time_s=2.0),
        ClientRetired(1, time_s=2.5),
        ScoresArrived(0, None, time_s=3.0),
    ],
)
def test_messages_read_back_as_they_were(message: object) -> None:
    written = json.loads(json.dumps(plain(message, "digests")))  # type: ignore[arg-type]
    assert message_of(written, None) == message


def test_scores_and_clipping_norms_that_are_not_finite_survive() -> None:
    scores = message_of(plain(ScoresArrived(0, np.array([0.5, NAN, -np.inf]), time_s=1.0), "digests"), None)
    assert isinstance(scores, ScoresArrived)
    np.testing.assert_array_equal(scores.scores, [0.5, NAN, -np.inf])
    one = np.ones((1, 1), np.float32)
    given = Collected((0,), one, np.zeros(1), clip_norm=float("inf"), upload_std=np.array([0.1]), time_s=1.0)
    again = message_of(plain(given, "digests"), one)
    assert isinstance(again, Collected)
    assert again.clip_norm == float("inf")
    np.testing.assert_array_equal(again.upload_std, [0.1])


def test_a_message_that_was_refused_is_not_written_down() -> None:
    recording = Recording.of(plan())
    server = RecordedServer(plan(), recording)
    server.start()
    with pytest.raises(MessageError, match="asked for tasks"):
        server.handle(Collected((0,), np.zeros((1, 3), np.float32), np.zeros(1), time_s=1.0))
    assert len(recording.lines) == 1


def test_a_file_holds_several_seeds(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_text(recorded(seed=4).text() + recorded("parameters", seed=7).text())
    assert Recording.read(path) == recorded(seed=4)
    assert Recording.read(path, 7) == recorded("parameters", seed=7)
    with pytest.raises(RunError, match="no recording of seed 5; it holds seeds 4, 7"):
        Recording.read(path, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no recording"),
        ('{"hears": 1}\n', "describes no federation"),
        ('{"format":9}\n', "this is format 9"),
        ('{"format":4,"record":"all","n_parameters":1,"samples":[],"seed":0}\n', "line 1 is damaged"),
        ('{"format":4\n', "line 1 is damaged"),
        (b"\xff\xfe", "not a text file"),
    ],
)
def test_invalid_recording_files_are_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunError, match=message):
        Recording.read(path)
    with pytest.raises(RunError, match="cannot be read"):
        Recording.read(tmp_path / "missing.jsonl")


def test_a_recording_of_format_4_is_read_under_the_names_of_today(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    today = recorded()
    asked = ScoreRequest(1, np.zeros((2, 3), np.float32), 7)
    today.add(plain(ClientRetired(1, time_s=2.0), "digests"), [asked, BufferVerdict(0, (0,), (True,), ())])
    text = today.text().replace('"format":5', '"format":4')
    for former, name in recordings.FORMER.items():
        assert f'"type":"{name}"' in text
        text = text.replace(f'"type":"{name}"', f'"type":"{former}"')
    path.write_text(text)
    assert Recording.read(path) == today


@pytest.mark.parametrize("line", ["{", "[]", '{"hears":{}}', "3"])
def test_a_damaged_line_is_named(line: str) -> None:
    recording = recorded()
    recording.lines[1] = line
    with pytest.raises(RunError, match="line 3 of the recording is damaged"):
        list(recording.calls())


@pytest.mark.parametrize(
    ("hears", "message"),
    [
        ({"type": "Nonsense"}, "Nonsense is no message"),
        ({"type": "UpdateArrived", "time_s": 1.0}, "damaged"),
        ({"type": "ClientGone", "time_s": 1.0, "client": 1, "task": 1, "fate": "eaten"}, "damaged"),
        ({"type": "UpdateArrived", "time_s": 1.0, "task": 1, "colour": "red"}, "damaged"),
    ],
)
def test_invalid_recorded_messages_are_refused(hears: dict[str, object], message: str) -> None:
    with pytest.raises(RunError, match=message):
        message_of(hears, None)
