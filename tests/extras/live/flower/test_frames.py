"""Frames of messages on a grid: their layout, and the refusal of malformed ones."""

import struct
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asyncfl.base.errors import MessageError
from asyncfl.base.message import Message
from asyncfl.client.compression import Quantised
from asyncfl.extras.live.client_messages import (
    Begin,
    ClientEvent,
    FromClient,
    FromServer,
    Gone,
    Hello,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
    Welcome,
)
from asyncfl.extras.live.flower import frames
from asyncfl.extras.live.flower.frames import HELLOS, answer_decoder, encode, task_decoder
from asyncfl.protocol.messages import Download, Fate
from asyncfl.testing.laws import same

N = 6
REPORT = (ClientEvent(0.5, "downloaded", 24, 1, "down"), ClientEvent(1.0, "trained"))
UPDATE = Update(3, 0.25, 0.0, None, REPORT)
MODEL = np.arange(N, dtype=np.float32)[None]
KINDS: tuple[type[Any], ...] = (Message, *get_args(FromClient), *get_args(FromServer), Hello, Welcome, ClientEvent)
FROM_CLIENTS: list[tuple[Message, np.ndarray | None]] = [
    (UPDATE, MODEL),
    (Gone(3, Fate.LOST_UP, REPORT), None),
    (Scores(0, np.array([0.5, 1.0]), ()), None),
    (Spent("all of it"), None),
    (Trace(3, REPORT), None),
]


@pytest.mark.parametrize(("message", "models"), FROM_CLIENTS)
def test_a_message_comes_back_as_it_was(message: Message, models: np.ndarray | None) -> None:
    said, came = answer_decoder(N).decode(encode(message, models))
    assert same(said, message)
    np.testing.assert_array_equal(came, np.empty((0, 0)) if models is None else models)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_messages_refuse_unknown_fields_and_cannot_be_changed(kind: type[Any]) -> None:
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.frozen


@given(models=arrays(np.float32, st.tuples(st.integers(1, 5), st.just(N))))
def test_models_keep_every_bit_and_are_read_only(models: np.ndarray) -> None:
    _, came = task_decoder(N).decode(encode(Task(0, 0, 0, 0), models))
    assert came.tobytes() == models.tobytes()
    assert came.dtype == np.float32
    assert not came.flags.writeable


def test_a_frame_has_the_documented_layout() -> None:
    assert encode(Begin()).startswith(b"AF\x07\x00")
    frame = encode(Task(1, 0, 3, 2), MODEL)
    assert len(frame) % 8 == 0
    assert frame[-4 * N :] == MODEL.astype("<f4").tobytes()
    assert struct.unpack_from("<II", frame, 8) == (1, N)


def cut(frame: bytes, at: int, what: bytes) -> bytes:
    return frame[:at] + what + frame[at + len(what) :]


GOOD = encode(UPDATE, MODEL)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "at least 16 bytes, got 0"),
        (GOOD[:15], "at least 16 bytes"),
        (GOOD[:16], f"a frame with these lengths has {len(GOOD)} bytes, got 16"),
        (cut(GOOD, 0, b"GE"), r"begins with b'AF', got b'GE'"),
        (cut(GOOD, 2, b"\x01"), "version of messages must be 7, got 1; both sides need the same asyncfl"),
        (cut(GOOD, 3, b"\x01"), r"must be written as here \(float32\), got 1"),
        (cut(GOOD, 4, b"\xff\xff\xff\xff"), "at most 300000 bytes, got 4294967295"),
        (cut(GOOD, 8, b"\x02"), r"at most 1 models of 1036 parameters may come, got 2 of 6"),
        (cut(GOOD, 12, b"\xff\xff\xff\xff"), "got 1 of 4294967295"),
        (cut(GOOD, 8, b"\x00"), "got 0 of 6"),
        (GOOD + b"\x00", "a frame with these lengths has"),
        (GOOD[:-1], "a frame with these lengths has"),
        (cut(GOOD, 16, b"\xc1"), "not a message"),
        (encode(Trace(-2, ())), "not a message"),
        (encode(Begin()), "not a message"),
        (encode(Hello(0, 1)), "not a message"),
        (encode(Scores(0, np.zeros(5000), ())), "not a message"),
        (encode(Gone(0, Fate.LOST_UP, (ClientEvent(float("nan"), "x"),))), "not a message"),
        (encode(Gone(0, Fate.LOST_UP, (ClientEvent(0.0, "x"),) * 5000)), "not a message"),
    ],
)
def test_a_malformed_frame_is_refused_with_the_reason(frame: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        answer_decoder(N).decode(frame)


PACKING = Quantised(bits=4)
PAYLOAD = PACKING.packed(MODEL[0], np.random.default_rng(0))
SMALL = encode(Task(0, 0, 0, 0), Download(PACKING.unpacked(PAYLOAD, N), PAYLOAD))


def test_a_packed_model_has_the_counted_bytes_and_is_unpacked_exactly() -> None:
    assert SMALL.endswith(PAYLOAD)
    assert SMALL.startswith(b"AF\x07\x01")
    assert len(encode(Task(0, 0, 0, 0))) + PACKING.payload_bytes(N) == len(SMALL)
    said, came = task_decoder(N, PACKING).decode(SMALL)
    assert said == Task(0, 0, 0, 0)
    assert came.tolist() == [PACKING.unpacked(PAYLOAD, N).tolist()]
    assert not came.flags.writeable
    _, plain = task_decoder(N, PACKING).decode(encode(Task(0, 0, 0, 0), MODEL))
    np.testing.assert_array_equal(plain, MODEL)


def test_a_server_takes_packed_updates_of_the_models_length_only() -> None:
    server = answer_decoder(N, PACKING)
    payload = encode(UPDATE, Download(PACKING.unpacked(PAYLOAD, N), PAYLOAD))
    said, came = server.decode(payload)
    assert (said, came.tolist()) == (UPDATE, [PACKING.unpacked(PAYLOAD, N).tolist()])
    # One of another length is judged as one that is not finite is.
    _, other = server.decode(encode(UPDATE, MODEL[:, :4]))
    assert other.shape == (1, 4)
    with pytest.raises(MessageError, match=r"updates of 6 parameters come packed here \(quantised\), got float32"):
        server.decode(encode(UPDATE, MODEL))
    short = PACKING.packed(MODEL[0, :4], np.random.default_rng(0))
    with pytest.raises(MessageError, match="what is packed must be an update of 6 parameters, got 4"):
        server.decode(encode(UPDATE, Download(MODEL[0, :4], short)))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (SMALL[:-1], "a frame with these lengths has"),
        (cut(SMALL, 3, b"\x02"), "float32, or packed"),
        (cut(SMALL, 8, b"\x02"), "got 2 of 6"),
        (cut(SMALL, len(SMALL) - 1, b"\xff"), "not a packed model: a number of 4 bits must be at most 14, got 15"),
    ],
)
def test_a_malformed_packed_model_is_refused(frame: bytes, why: str) -> None:
    with pytest.raises(MessageError, match=why):
        task_decoder(N, PACKING).decode(frame)


def test_frames_beyond_the_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = encode(UPDATE, MODEL)
    length = struct.unpack_from("<I", longest, 4)[0]
    monkeypatch.setattr(frames, "MESSAGE_BYTES", length)
    assert answer_decoder(N).decode(longest)[0] == UPDATE
    monkeypatch.setattr(frames, "MESSAGE_BYTES", length - 1)
    with pytest.raises(MessageError, match=f"a message has at most {length - 1} bytes, got {length}"):
        answer_decoder(N).decode(longest)
    monkeypatch.undo()
    with pytest.raises(MessageError) as refused:
        HELLOS.decode(encode(Hello(-2, 1, instance="b" * 500)))
    assert len(str(refused.value)) <= len("not a message: ") + 200, "a reason does not repeat a long message"


def test_random_damage_to_frames_raises_a_message_error_only() -> None:
    random = np.random.default_rng(5)
    sound = [encode(message, models) for message, models in FROM_CLIENTS]
    decoder, refused = answer_decoder(N), list[str]()
    for number in range(10_000):
        frame = bytearray(sound[number % len(sound)])
        for _ in range(int(random.integers(1, 6))):
            place = int(random.integers(len(frame))) if frame else 0
            match int(random.integers(5)):
                case 0 if frame:
                    frame[place] = int(random.integers(256))
                case 1:
                    del frame[place:]
                case 2:
                    frame[place:place] = random.bytes(int(random.integers(1, 9)))
                case 3:
                    del frame[place : place + int(random.integers(1, 9))]
                case 4:
                    frame[place : place + 4] = random.bytes(4)
        try:
            message, models = decoder.decode(bytes(frame))
        except MessageError as error:
            refused.append(str(error))
        else:
            assert isinstance(message, Message)
            assert models.dtype == np.float32
    assert len(refused) > 8000
    assert all(0 < len(reason) < 400 for reason in refused)
