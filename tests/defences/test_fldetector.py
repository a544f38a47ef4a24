import numpy as np
import pytest

from asyncfl.defences import FLDetector

CURVATURE = np.array([2.0, 0.5])
LR = 0.1


def play(detector, buffer_of, context_of, random, versions, *, liar=lambda gradient, client, version: gradient):
    """Verdicts of rounds in which eight clients send exact gradients of a quadratic each, and the last state."""
    centres = np.stack([np.linspace(-1, 1, 8), np.linspace(0, 2, 8)], axis=1)
    state, model = detector.start(context_of(8, lr=LR), random), np.array([3.0, -2.0])
    verdicts = []
    for version in range(versions):
        gradients = [CURVATURE * (model - centre) for centre in centres]
        gradients = np.array([liar(one, client, version) for client, one in enumerate(gradients)])
        held = buffer_of(-LR * gradients, bases=np.tile(model, (8, 1)), current=model, version=version)
        verdict, state = detector.judge(state, held, None)
        verdicts.append(verdict)
        model = model - LR * gradients.mean(axis=0)
    return verdicts, state


def test_gradients_of_a_quadratic_are_predicted(buffer_of, context_of, random):
    verdicts, state = play(FLDetector(warm_up=99), buffer_of, context_of, random, 12)
    # Equal curvature is foretold equally well, and of a first gradient of length 6 next to nothing is missed.
    assert max(state.prediction_errors.values()) < 0.01
    assert np.ptp(list(state.prediction_errors.values())) < 1e-5
    assert len(state.pairs) == 10
    assert verdicts[0].unjudged.all()
    assert verdicts[1].unjudged.all()


def test_clients_with_unpredictable_gradients_are_struck(buffer_of, context_of, random):
    swings = np.random.default_rng(5).normal(size=(30, 8, 2))

    def liar(gradient, client, version):
        jitter = 0.05 if client > 2 else 2.0
        return gradient + jitter * swings[version, client]

    verdicts, state = play(FLDetector(warm_up=6, window=4), buffer_of, context_of, random, 14, liar=liar)
    assert not any(verdict.flagged.any() for verdict in verdicts[:6])
    for verdict in verdicts[6:12]:
        assert verdict.flagged.tolist() == verdict.strikes.tolist() == [True] * 3 + [False] * 5
    assert verdicts[6].details[0].startswith("predictions missed by")
    assert all(len(last) == 4 for last in state.scores.values())


def test_prediction_error_by_hand(buffer_of, context_of, random):
    detector = FLDetector(warm_up=99)
    state = detector.start(context_of(4, n_parameters=1, lr=LR), random)

    def sent(version, gradients, model, clients):
        rows = -LR * np.array(gradients, dtype=float)[:, None]
        bases = np.full((len(rows), 1), model)
        return buffer_of(rows, bases=bases, current=[model], version=version, clients=clients)

    _, state = detector.judge(state, sent(0, [4, 4], 2.0, [0, 1]), None)
    verdict, state = detector.judge(state, sent(1, [2, 2], 1.0, [0, 1]), None)
    assert verdict.unjudged.all()  # a second gradient, but no curvature yet
    # One pair: step -1, change -2, so H = 2; both are foretold 2 + 2 (.5 - 1) = 1.
    verdict, state = detector.judge(state, sent(2, [1, 4], 0.5, [0, 1]), None)
    assert state.prediction_errors == pytest.approx({0: 0.0, 1: 3.0}, abs=1e-5)
    assert state.scores[1] == pytest.approx((2.0,))  # 3 over the mean of 0 and 3
    assert not verdict.flagged.any()
