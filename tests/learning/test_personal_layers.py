"""Shared and personal parts of a model, and training with personal layers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.client_state import ClientStates
from asyncfl.learning import make_learner
from asyncfl.learning.job import Deadline, Job
from asyncfl.learning.layout import ParameterSplit
from asyncfl.learning.models import CharLstm, DigitsNet, Mlp, SmallCnn
from asyncfl.learning.personal_layers import PersonalLayers, SharedPartLearner
from asyncfl.learning.training import Training
from tests.learning.jobs import random_jobs

NAMES = ["1.weight", "1.bias", "3.weight", "3.bias"]
MODEL = Mlp(hidden=(3,))


def split_by(*patterns: str) -> ParameterSplit:
    return ParameterSplit(MODEL.layout((4,), 2), patterns)


@given(st.lists(st.sampled_from([*NAMES, "1.*", "*.bias", "?.weight"]), max_size=3))
def test_splitting_and_joining_gives_the_whole_model_back(patterns: list[str]) -> None:
    one = split_by(*patterns)
    whole = np.arange(one.whole.n_parameters, dtype=np.float32)
    shared, personal = one.split(whole)
    np.testing.assert_array_equal(one.join(shared, personal), whole)
    assert (one.shared.n_parameters, one.own.n_parameters) == (len(shared), len(personal))
    places = {name: whole[place] for name, place, _ in one.whole.parameters()}
    for layout, part in ((one.shared, shared), (one.own, personal)):
        for name, place, _ in layout.parameters():
            np.testing.assert_array_equal(part[place], places.pop(name))
    assert not places


def test_patterns_select_parameters_by_name() -> None:
    names = [name for name, _, _ in split_by("3.*").own.parameters()]
    assert names == ["3.weight", "3.bias"]
    norms = ParameterSplit(SmallCnn().layout((1, 12, 12), 3), ("2.*",)).own
    assert [shape for _, _, shape in norms.parameters()] == [(8,), (8,)]
    lstm = ParameterSplit(CharLstm(hidden=4).layout((5,), 7), ("lstm.*_l1",))
    assert {name for name, _, _ in lstm.own.parameters()} == {
        f"lstm.{part}_{way}_l1" for part in ("weight", "bias") for way in ("ih", "hh")
    }


def test_a_misspelt_pattern_is_refused_with_the_name_that_was_meant() -> None:
    network = MODEL.model_copy(update={"personal": ("1.*", "3.wieght")})
    (fault,) = network.personal_faults((1, 28, 28), 10)
    assert str(fault) == ("personal.1: must name parameters, but '3.wieght' matches none; did you mean 3.weight?")
    assert list(DigitsNet().personal_faults((1, 28, 28), 10)) == []


@pytest.fixture
def learner() -> SharedPartLearner:
    training = Training(lr=0.1, batch_size=4, epochs=2, device="cpu")
    own = split_by("3.*")
    initial = MODEL.initial_parameters((4,), 2, torch.Generator().manual_seed(0))
    return SharedPartLearner(make_learner(MODEL, training, (4,), 2), own, own.split(initial)[1])


def job(learner: SharedPartLearner, seed: int = 0) -> Job:
    """Return a job whose base is a shared part."""
    one = random_jobs(MODEL, (4,), 2, (6, 6, 6), 2)[seed]
    return replace(one, base=learner.parameter_split.split(one.base)[0])


def test_training_continues_with_each_clients_personal_layers(learner: SharedPartLearner) -> None:
    parts, rows = PersonalLayers(learner, ClientStates()), np.empty((2, learner.n_parameters), np.float32)
    jobs = [job(learner, 1), job(learner, 2)]
    losses = parts.train(rows, jobs, [5, 3])
    whole = np.empty((2, learner.whole.n_parameters), np.float32)
    bases = [learner.parameter_split.join(one.base, learner.initial) for one in jobs]
    wanted = learner.whole.train(whole, [replace(one, base=base) for one, base in zip(jobs, bases, strict=True)])
    np.testing.assert_array_equal(losses, wanted)
    for row, client in enumerate((5, 3)):
        np.testing.assert_array_equal(parts.whole(client, rows[row]), whole[row])
    np.testing.assert_array_equal(parts.of(0), learner.initial)
    parts.train(rows[:1], jobs[:1], [5])
    assert (parts.of(5) != learner.parameter_split.split(whole[0])[1]).any()
    np.testing.assert_array_equal(parts.of(3), learner.parameter_split.split(whole[1])[1])
    assert parts.stacked(6).shape == (6, 8)


def test_a_client_stopped_in_its_first_epoch_keeps_its_layers(learner: SharedPartLearner) -> None:
    parts, rows = PersonalLayers(learner, ClientStates()), np.empty((1, learner.n_parameters), np.float32)
    parts.train(rows, [job(learner, 1)], [4])
    before = parts.of(4).copy()
    moments = iter(range(100))
    stopped = replace(job(learner, 2), deadline=Deadline(0.5, lambda: float(next(moments))))
    parts.train(rows, [stopped], [4])
    np.testing.assert_array_equal(parts.of(4), before)
    np.testing.assert_array_equal(rows[0], stopped.base)


def test_models_without_personal_layers_are_evaluated_with_the_initial_ones(learner: SharedPartLearner) -> None:
    one = job(learner)
    whole = learner.parameter_split.join(one.base, learner.initial)
    inner, x, y = learner.whole, one.images, one.labels
    assert learner.evaluate(one.base, x, y) == inner.evaluate(whole, x, y)
    np.testing.assert_array_equal(learner.losses(one.base, x, y), inner.losses(whole, x, y))
    np.testing.assert_array_equal(learner.outputs(one.base, x), inner.outputs(whole, x))
    gradient = learner.gradient(one.base, x, y)
    np.testing.assert_array_equal(gradient, learner.parameter_split.split(inner.gradient(whole, x, y))[0])
    slopes = learner.slopes(one.base, np.ones_like(one.base), x, y)
    assert slopes.mean() == pytest.approx(float(gradient.sum()), rel=1e-4)
    rows = np.empty((1, learner.n_parameters), np.float32)
    again = np.empty_like(rows)
    learner.train(rows, [one])
    PersonalLayers(learner, ClientStates()).train(again, [one], [0])
    np.testing.assert_array_equal(rows, again)
