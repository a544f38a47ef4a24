"""Replay of recorded calls by another server."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import RunError
from asyncfl.base.streams import Streams
from asyncfl.defences import Evidence, Krum, Safl, Strikes
from asyncfl.protocol import Buffered, DefencePlan, Server, ServerPhase, ServerPlan
from asyncfl.protocol.dispatch import ConstantDispatch
from asyncfl.protocol.messages import (
    ClientGone,
    Collect,
    Collected,
    Dispatch,
    Fate,
    ScoreRequest,
    ScoresArrived,
    UpdateArrived,
)
from asyncfl.protocol.recording import RecordedServer, Recording, ReplayError, replay
from asyncfl.testing import context

D = 4


def plan(seed: int = 0, rounds: int = 6, **defence: Any) -> ServerPlan:
    protocol = Buffered(rounds=rounds, buffer=4, dispatch=ConstantDispatch(in_flight=6))
    known = DefencePlan(**defence, context=context(9, D))
    return ServerPlan(protocol, np.arange(10, 19), np.full(D, 0.5, np.float32), Streams(seed), defence=known)


def record(of: ServerPlan, detail: str = "digests", seed: int = 0, malformed: float = 0.0) -> Recording:
    """A run in which anything may be lost, malformed, unanswered; clients 0 and 1 send poison."""
    recording = Recording.of(of, detail)  # type: ignore[arg-type]
    server = RecordedServer(of, recording)
    random = np.random.default_rng(seed)
    actions, flying, time_s = list(server.start()), [], 0.0
    while server.phase is not ServerPhase.STOPPED:
        while actions:
            action = actions.pop(0)
            if isinstance(action, Dispatch):
                flying.append(action)
            elif isinstance(action, Collect):
                senders = np.array([server.tasks.open[task].client for task in action.tasks])
                models = random.normal(1, 0.2, (len(senders), D)).astype(np.float32)
                models[senders < 2] *= -3
                models[random.random(len(senders)) < malformed] = np.nan
                models.flags.writeable = False
                actions += server.handle(Collected(action.tasks, models, random.random(len(senders)), time_s=time_s))
            elif isinstance(action, ScoreRequest):
                scores = 1 / (1 + np.abs(action.models - 1).mean(axis=1))
                silent = random.random() < 0.2
                answer = ScoresArrived(
                    action.request, None if silent else np.asarray(scores, np.float64), time_s=time_s
                )
                actions += server.handle(answer)
        if server.phase is ServerPhase.STOPPED:
            break
        if not flying:
            server.stop("no task is left")
            break
        time_s += random.random()
        task = flying.pop(int(random.integers(len(flying))))
        if random.random() < 0.2:
            fate = [Fate.LOST_UP, Fate.LOST_DOWN, Fate.DROPPED_OUT, None][int(random.integers(4))]
            actions += server.handle(ClientGone(task.client, task.task, fate, time_s=time_s))
        else:
            actions += server.handle(UpdateArrived(task.task, time_s=time_s))
    return recording


def again(recording: Recording) -> Callable[[tuple[int, ...]], np.ndarray]:
    """Provide the models of a recording with parameters."""
    from asyncfl.protocol.recording import parameters_of

    held = {
        tuple(call.message["tasks"]): parameters_of(call.message["models"])
        for call in recording.calls()
        if call.message["type"] == "Collected"
    }
    return lambda tasks: held[tasks]


@given(st.integers(0, 2**20))
@settings(max_examples=15)
def test_detection_strikes_bans_and_losses_are_reproduced_exactly(seed: int) -> None:
    guarded = plan(seed, detector=Safl(), strikes=Strikes(threshold=2))
    recording = record(guarded, "parameters", seed, malformed=0.05)
    shown = replay(recording, Server(guarded))
    assert shown.calls == len(recording.lines)
    assert shown.unchecked == ()


@pytest.mark.parametrize("detector", [Evidence(), Safl()], ids=lambda detector: detector.kind)
def test_digests_and_the_models_handed_in_again_show_everything(detector: Any) -> None:
    guarded = plan(3, detector=detector, strikes=Strikes(threshold=2))
    whole, digests = record(guarded, "parameters", 3), record(guarded, "digests", 3)
    assert replay(digests, Server(guarded), again(whole)).unchecked == ()


@given(st.integers(0, 2**20))
@settings(max_examples=15)
def test_digests_alone_show_every_decision_of_a_server_without_detector(seed: int) -> None:
    plain = plan(seed, strikes=Strikes(threshold=2))
    shown = replay(record(plain, "digests", seed, malformed=0.1), Server(plain))
    assert shown.unchecked == ("models of versions above 0",)


@pytest.mark.parametrize("detail", ["digests", "parameters"])
def test_a_run_that_ends_because_it_diverged_is_reproduced_with_its_reason(detail: str) -> None:
    recording = record(plan(), detail, malformed=1.0)
    assert "not finite" in recording.lines[-1]
    assert replay(recording, Server(plan())).calls == len(recording.lines)


def test_digests_alone_say_nothing_of_the_weights_of_a_rule_that_chooses() -> None:
    choosing = plan(rule=Krum(byzantine=1))
    assert replay(record(choosing), Server(choosing)).unchecked[1:] == ("weights of updates",)
    assert replay(record(choosing, "parameters"), Server(choosing)).unchecked == ()


def test_digests_alone_are_refused_with_a_detector() -> None:
    guarded = plan(detector=Safl())
    with pytest.raises(RunError, match=r"detector 'safl' judges parameters; have .* again .* parameters"):
        replay(record(guarded), Server(guarded))


GUARDED = plan(2, detector=Safl(), strikes=Strikes(threshold=2))


@pytest.mark.parametrize(
    ("recorded", "other", "said"),
    [
        (plan(), plan(1), r"line 2, start\(time_s=0.0\): answer 2 was Dispatch\(client="),
        (plan(), plan(rounds=2), r"Collected\(.*answer 6 was Dispatch.*, now it is Settle.*unfin"),
        (plan(), replace(plan(), initial=np.zeros(D, np.float32)), "answer 1 was Publish"),
        (GUARDED, plan(2, detector=Safl(decoys=5), strikes=Strikes(threshold=2)), "ScoreRequest"),
        (
            GUARDED,
            plan(2, detector=Safl(), strikes=Strikes(threshold=1)),
            r"answers were recorded, now there are|answer \d+ was",
        ),
        (plan(), replace(plan(), samples=np.full(9, 10)), "its samples"),
        (plan(), replace(plan(), samples=np.full(3, 10)), "its clients: 9, the server's: 3"),
        (plan(), replace(plan(), initial=np.zeros(2, np.float32)), "its parameters: 4, the server's: 2"),
    ],
    ids=["seed", "rounds", "initial", "detector", "strikes", "samples", "clients", "parameters"],
)
def test_another_server_is_found_out_at_its_first_other_answer(
    recorded: ServerPlan, other: ServerPlan, said: str
) -> None:
    recording = record(
        recorded, "digests" if recorded.defence.detector is None else "parameters", recorded.streams.seed
    )
    with pytest.raises(ReplayError, match=said):
        replay(recording, Server(other))


def test_other_models_than_those_recorded_are_found_out() -> None:
    plain = plan()
    models = again(record(plain, "parameters"))
    with pytest.raises(ReplayError, match=r"other models were collected for tasks \[\d+\]"):
        replay(record(plain), Server(plain), lambda tasks: models(tasks) + np.eye(len(tasks), 1, dtype=np.float32))
    with pytest.raises(ReplayError, match="4 models were collected, 3 are provided"):
        replay(record(plain), Server(plain), lambda tasks: models(tasks)[1:])


def test_a_recording_that_was_tampered_with_is_found_out() -> None:
    recording = record(plan())
    missing = replace(recording, lines=[recording.lines[0], *recording.lines[3:]])
    with pytest.raises(ReplayError, match="line"):
        replay(missing, Server(plan()))
    cut = replace(recording, lines=[recording.lines[0].replace('{"answers":[{', '{"answers":[{"more":1,')])
    with pytest.raises(ReplayError, match="answer 1"):
        replay(cut, Server(plan()))
    call = json.loads(recording.lines[0])
    n = len(call["answers"])
    fewer = {**call, "answers": call["answers"][:-1]}
    with pytest.raises(ReplayError, match=f"{n - 1} answers were recorded, now there are {n}; only now: "):
        replay(replace(recording, lines=[json.dumps(fewer)]), Server(plan()))
    more = {**call, "answers": [*call["answers"], call["answers"][0]]}
    with pytest.raises(ReplayError, match=f"{n + 1} answers were recorded, now there are {n}; only recorded: "):
        replay(replace(recording, lines=[json.dumps(more)]), Server(plan()))


def test_a_server_that_was_used_is_refused() -> None:
    used = Server(plan())
    used.start()
    with pytest.raises(ValueError, match="fresh server"):
        replay(record(plan()), used)


def test_an_impossible_recorded_message_is_reported_with_line_and_reason() -> None:
    recording = record(plan())
    place, line = next((at, one) for at, one in enumerate(recording.lines) if '"UpdateArrived"' in one)
    call = json.loads(line)
    call["hears"]["time_s"] = -1.0
    wrong = replace(recording, lines=[*recording.lines[:place], json.dumps(call), *recording.lines[place + 1 :]])
    with pytest.raises(ReplayError, match=rf"^line {place + 2}, UpdateArrived\(.*\): the server refuses it: .*time"):
        replay(wrong, Server(plan()))
