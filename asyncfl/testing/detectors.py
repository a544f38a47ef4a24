"""Check that a detector keeps the laws of `asyncfl.defences.detector`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from asyncfl.base.messages import Floats, Vector
from asyncfl.defences import Buffer, DefenceContext, Detector, ScoreRequest, Verdict
from asyncfl.testing.builders import buffer, context, random, updates
from asyncfl.testing.laws import check_description, deep_copies, require, same
from asyncfl.testing.stress import stress
from asyncfl.testing.trials import Trial

Scores: TypeAlias = Callable[[int, Vector], ArrayLike | None]
"""(client, models (n_models, n_parameters)) -> (n_models,) scores; None: the client does not answer."""

CLIENTS = 12


def check_detector(
    detector: Detector,
    *,
    scores: Scores | None = None,
    federation: DefenceContext | None = None,
    trials: Iterable[Trial] = (),
) -> None:
    """Raise AssertionError with the first law that `detector` violates.

    The detector judges six buffers one after another: with one and with many updates, fresh and stale, honest and
    poisoned, several from one client; one client is banned in between. The laws: the detector is frozen and can be
    written and read; verdicts have one entry per update; buffers and states are not changed; equal histories give equal
    verdicts; a scoring request goes to a client that was not asked before, and requests end; the detector copes with
    clients that never answer.

    `scores`: answers of clients to scoring requests, by default an accuracy that falls with the distance from 1.
    `federation`: context that the detector is started with, for 12 clients and 4 parameters; None: one without a root
    set. `trials`: small federations in which the detector must do no harm (`asyncfl.testing.stress`), e.g.
    `stress_grid()`, which takes a minute.
    """
    check_description(detector, Detector)
    defence_context = context(CLIENTS) if federation is None else federation
    answer = scores or (lambda client, models: 1 / (1 + np.abs(models - 1).mean(axis=1)))
    verdicts, again = (_run(detector, defence_context, answer) for _ in range(2))
    require(same(verdicts, again), detector, "equal buffers and equal streams must give equal verdicts")
    _run(detector, defence_context, lambda client, models: None)
    if chosen := tuple(trials):
        report = stress(detector, trials=chosen)
        require(not report.violations, detector, "must do no harm", "; ".join(report.violations))


def _buffers(n_parameters: int) -> list[Buffer]:
    held = []
    for number, (n, poisoned, oldest) in enumerate(
        ((1, 0, 0), (8, 0, 0), (8, 2, 2), (5, 0, 3), (12, 4, 1), (10, 1, 4))
    ):
        ages = [min(row % (oldest + 1), number) for row in range(n)]
        # Some clients send twice. The last updates are poisoned.
        senders = [(row * 7 + number) % (CLIENTS - 2) for row in range(n)]
        deltas = updates(n, n_parameters, poisoned=poisoned, seed=number)
        held.append(buffer(deltas, clients=senders, staleness=ages, version=number, current=0.1 * number))
    return held


def _run(detector: Detector, defence_context: DefenceContext, answer: Scores) -> list[Verdict]:
    """Let the detector judge six buffers, check each verdict, and return the verdicts. `answer`: scores of clients."""
    state = detector.start(defence_context, random())
    verdicts = []
    for number, held in enumerate(_buffers(defence_context.n_parameters)):
        state, given = _ask(detector, state, held, answer)
        before = deep_copies((state, held))
        verdict, after = detector.judge(state, held, given)
        require(same(held, before[1]), detector, "a buffer must not be changed")
        require(same(state, before[0]), detector, "the state must not be changed but returned anew")
        _check_verdict(detector, verdict, held)
        state = after
        verdicts.append(verdict)
        if number == 3:
            kept = copy.deepcopy(state)
            following = detector.forget_client(state, int(held.clients[0]))
            require(same(state, kept), detector, "a ban must not change the state but return it anew")
            state = following
    return verdicts


def _ask(detector: Detector, state: Any, held: Buffer, answer: Scores) -> tuple[Any, Floats | None]:
    """Carry out the detector's scoring requests for `held` until a client answers or the detector asks no more.

    Returns the next state, and the scores; None: no client answered, or none was asked.
    """
    tried: tuple[int, ...] = ()
    while True:
        before = deep_copies((state, held))
        request, following = detector.request(state, held, tried)
        require(same(held, before[1]), detector, "a buffer must not be changed")
        require(same(state, before[0]), detector, "the state must not be changed by a request but returned anew")
        state = following
        if request is None:
            return state, None
        _check_request(detector, request, held, tried)
        given = answer(request.client, request.models)
        if given is not None:
            return state, np.asarray(given, dtype=np.float64)
        tried = (*tried, request.client)  # each client once, so the loop ends


def _check_request(detector: Detector, request: ScoreRequest, held: Buffer, tried: tuple[int, ...]) -> None:
    require(0 <= request.client < CLIENTS, detector, f"must ask a client 0..{CLIENTS - 1}", f"asks {request.client}")
    require(
        request.client not in tried, detector, "must not ask a client again that did not answer", f"{request.client}"
    )
    require(
        request.models.ndim == 2 and request.models.shape[1] == held.models.shape[1],
        detector,
        f"models to be scored must be (n_models, {held.models.shape[1]})",
        f"got {request.models.shape}",
    )


def _check_verdict(detector: Detector, verdict: Verdict, held: Buffer) -> None:
    n = len(held)
    for name in ("flagged", "strikes"):
        array = getattr(verdict, name)
        require(
            isinstance(array, np.ndarray) and array.shape == (n,) and array.dtype == bool,
            detector,
            f"{name} must be ({n},) bool",
            f"got {getattr(array, 'shape', type(array).__name__)} {getattr(array, 'dtype', '')}",
        )
    if verdict.unjudged is not None:
        right = verdict.unjudged.shape == (n,) and not bool((verdict.unjudged & verdict.strikes).any())
        require(right, detector, f"unjudged must be ({n},) and not struck", f"got {verdict.unjudged}")
        let_in = bool((verdict.unjudged & ~verdict.flagged).any())
        require(detector.abstains or not let_in, detector, "abstains must be True where unjudged updates are let in")
    if verdict.weights is not None:
        right = verdict.weights.shape == (n,) and bool((verdict.weights >= 0).all())
        require(right, detector, f"weights must be ({n},), each >= 0", f"got {verdict.weights}")
    if verdict.correction is not None:
        right = verdict.correction.shape == held.current.shape and bool(np.isfinite(verdict.correction).all())
        require(right, detector, f"correction must be {held.current.shape} and finite", f"got {verdict.correction}")
    require(len(verdict.details) in (0, n), detector, "details must be one text per update, or none")
    numbers = all(isinstance(name, str) and np.isscalar(value) for name, value in verdict.notes.items())
    require(numbers, detector, "notes must be numbers by name", f"got {verdict.notes}")
