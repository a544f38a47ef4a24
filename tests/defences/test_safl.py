"""SAFL's detector: choice of evaluators, models sent to them, and flags by their scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences.safl import Safl, most_similar
from asyncfl.testing import buffer, context

D = 4
CURRENT = np.array([1, 0, 0, 0], dtype=np.float32)


MODELS = np.array([(1, 1, 0, 0), (1, 0.1, 0, 0), (-1, 0, 0, 0), (1, 0, 3, 0)], dtype=np.float32)
BUFFER = buffer(MODELS - CURRENT, clients=[5, 7, 5, 2], current=CURRENT, version=3)


def start(detector, seed=0):
    return detector.start(context(), np.random.default_rng(seed))


def answer(state, score_of_row):
    """Scores in the order of the request, from the scores of the buffer's rows."""
    return np.array([0.1 if row < 0 else score_of_row[row] for row in state.rows])


def judged(detector, score_of_row, of=BUFFER):
    _, state = detector.request(start(detector), of, ())
    return detector.judge(state, of, answer(state, score_of_row))[0]


def test_evaluators_are_ranked_by_cosine():
    rows = most_similar(np.array([(0, 2, 0, 0), (9, 9, 0, 0), (0.1, 0, 0, 0), (-1, 0, 0, 0), (0,) * 4], "f4"), CURRENT)
    assert rows.tolist() == [2, 1, 0, 4, 3]


def test_each_evaluator_is_asked_once_in_order_of_similarity():
    detector = Safl(evaluators_tried=2)
    state, tried = start(detector), ()
    while True:
        request, state = detector.request(state, BUFFER, tried)
        if request is None:
            break
        tried += (request.client,)
    assert tried == (7, 5)


def test_models_are_shuffled_among_decoys():
    detector = Safl(decoys=3)
    request, state = detector.request(start(detector), BUFFER, ())
    assert request.models.shape == (7, D)
    assert sorted(state.rows.tolist()) == [-1, -1, -1, 0, 1, 2, 3]
    for model, row in zip(request.models, state.rows, strict=True):
        assert row < 0 or (model == BUFFER.models[row]).all()
    orders = {tuple(detector.request(start(detector, seed), BUFFER, ())[1].rows) for seed in range(20)}
    assert len(orders) > 10


def test_decoys_are_the_same_for_all_evaluators_of_a_buffer():
    detector = Safl()
    first, state = detector.request(start(detector), BUFFER, ())
    second, state = detector.request(state, BUFFER, (7,))
    assert (first.models == second.models).all()
    _, state = detector.judge(state, BUFFER, None)
    third, _ = detector.request(state, BUFFER, ())
    assert not (first.models == third.models).all()


def test_lower_cluster_of_scores_is_flagged_and_struck():
    verdict = judged(Safl(), [0.8, 0.82, 0.12, 0.79])
    assert verdict.flagged.tolist() == [False, False, True, False]
    assert verdict.strikes.tolist() == [False, False, True, False]
    assert verdict.details == ("", "", "scored 0.1200", "")
    assert verdict.notes["evaluator"] == 7
    assert verdict.notes["decoys_low"] == 3
    literal = judged(Safl(flagged="literal"), [0.8, 0.82, 0.12, 0.79])
    assert not literal.flagged.any()
    assert (literal.strikes == verdict.strikes).all()


def test_decoys_form_the_lower_cluster_without_attackers():
    scores = [0.8, 0.82, 0.79, 0.81]
    assert not judged(Safl(decoys=3), scores).flagged.any()
    assert judged(Safl(decoys=0), scores).flagged.sum() == 2


@pytest.mark.parametrize("scores", [None, np.ones(3), np.full(7, np.nan), np.array([np.inf, *[0.5] * 6])])
@pytest.mark.parametrize(("reading", "left_out"), [("discard", True), ("aggregate", False)])
def test_no_update_is_struck_without_usable_scores(scores, reading, left_out):
    detector = Safl(without_scores=reading)
    _, state = detector.request(start(detector), BUFFER, ())
    verdict, after = detector.judge(state, BUFFER, scores)
    assert verdict.flagged.all() == verdict.flagged.any() == left_out
    assert not verdict.strikes.any()
    assert not verdict.accused.any()
    assert verdict.unjudged is not None
    assert verdict.unjudged.all() == left_out
    assert after.models is None


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(0, 5))
def test_verdict_does_not_depend_on_the_shuffle(scores, seed):
    detector = Safl()
    verdicts = []
    for own in (seed, seed + 100):
        _, state = detector.request(start(detector, own), BUFFER, ())
        verdicts.append(detector.judge(state, BUFFER, answer(state, scores))[0].flagged.tolist())
    assert verdicts[0] == verdicts[1]


def test_copy_of_the_global_model_is_chosen_as_evaluator():
    """The known weakness: similarity to the global model is no proof of honesty."""
    for factor in (1, 10):
        models = np.array([(1, 0.01, 0, 0), CURRENT * factor])
        held = buffer(models - CURRENT, current=CURRENT)
        assert Safl().request(start(Safl()), held, ())[0].client == 1


def test_decoys_are_told_from_uploads_by_their_distance_alone():
    """Uploads lie near the global model, models N(0, 1) at sqrt(d); where they are as far away, nothing is told."""
    random = np.random.default_rng(0)
    current = random.normal(size=400).astype(np.float32)

    def told_apart(spread: float) -> float:
        held = buffer((spread * random.normal(size=(10, 400))).astype(np.float32), current=current)
        return float(judged(Safl(), np.linspace(0.1, 0.9, 10), held).notes["decoys_told_apart"])

    assert told_apart(0.01) == 1.0
    assert told_apart(2**0.5) < 1.0
