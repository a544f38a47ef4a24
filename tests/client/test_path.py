"""The client's part of a task, with a learner simple enough to follow by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, Attackers, Batch, TaskPath, work_of
from asyncfl.data import FederatedData
from asyncfl.data.canaries import PlantedCanaries
from asyncfl.learning import Job, Training
from asyncfl.learning.layout import Layout
from asyncfl.privacy import (
    AdaptiveBudgets,
    Contribution,
    DpFedAvg,
    GaussianUpload,
    Mechanisms,
    Nbafl,
    NoPrivacy,
    PrivacyContext,
    Scheme,
)
from asyncfl.threats import Attack, AttackView, Threats

CLIENTS, SAMPLES, PARAMETERS = 6, 4, 3
CONTEXT = PrivacyContext(CLIENTS, CLIENTS, 5, SAMPLES, 1)


class Learner:
    """Moves each model by what `move` says of the client, which it reads from the labels."""

    n_parameters = PARAMETERS
    draws = False
    layout = Layout.of([("first", {"weight": (PARAMETERS - 1,)}), ("last", {"weight": (1,)})])

    def __init__(self, move: Callable[[int], ArrayLike] = lambda client: client + 1) -> None:
        self.move = move
        self.jobs: list[Job] = []

    def train(self, rows: np.ndarray, jobs: Sequence[Job]) -> np.ndarray:
        self.jobs += jobs
        for row, job in zip(rows, jobs, strict=True):
            row[:] = job.base + np.asarray(self.move(int(job.labels[0])), np.float32)
        return np.array([float(job.labels[0]) for job in jobs])

    def gradient(self, model: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.full(PARAMETERS, labels[0] + len(labels), np.float32)


def federation() -> FederatedData:
    images = np.zeros((CLIENTS * SAMPLES, 1, 2, 2), np.float32)
    labels = np.repeat(np.arange(CLIENTS), SAMPLES)
    offsets = np.arange(CLIENTS + 1) * SAMPLES
    return FederatedData(
        images, labels, offsets, images[:2], labels[:2], 10, "embedded", "none", False, ("x",), offsets * 0, offsets[:2]
    )


def attacked(payloads: Batch) -> np.ndarray:
    return np.array([one.attacked for one in payloads.uploads])


def path_of(scheme: Scheme, move: Any = None, seed: int = 0, threats: Threats | None = None, **more: Any) -> TaskPath:
    """`more`: other fields of a path."""
    streams, learner = Streams(seed), Learner() if move is None else Learner(move)
    attackers = None if threats is None else Attackers(threats, CLIENTS, 10, streams)
    fields = {"data": federation(), "learner": learner, "training": Training(epochs=2), "context": CONTEXT, **more}
    return TaskPath(scheme=scheme, streams=streams, attackers=attackers, **fields)


def carry_out(path: TaskPath, clients: Sequence[int] = range(CLIENTS), base: float = 0.0) -> Batch:
    """Tasks 10, 11, ... of clients 0, 1, ..., that were sent a model of which each parameter is `base`."""
    sent = np.full(PARAMETERS, base, np.float32)
    return path.carry_out([Assignment(10 + client, client, 0, sent) for client in clients], 0, sent)


def carried_out(scheme: Scheme, threats: Threats | None = None, clients: Any = range(CLIENTS), seed: int = 0) -> Batch:
    return carry_out(path_of(scheme, seed=seed, threats=threats), clients)


def test_without_privacy_and_threats_clients_upload_what_they_trained() -> None:
    path = path_of(NoPrivacy())
    payloads = carry_out(path)
    np.testing.assert_array_equal(payloads.models[:, 0], np.arange(CLIENTS) + 1)
    assert payloads.losses.tolist() == [0, 1, 2, 3, 4, 5]
    assert payloads.clip_norm is None
    assert not any(one.added_std for one in payloads.uploads)
    assert all(sorted(epoch) == [0, 1, 2, 3] for job in path.learner.jobs for epoch in job.order.tolist())


def test_canary_clients_that_are_out_upload_their_base_with_noise() -> None:
    data, none = federation(), np.empty(0, np.int64)
    planted = PlantedCanaries(
        "client", np.array([True, False]), np.array([1, 4]), data.images[:0], none, data.images[:0], none
    )
    data = replace(data, canaries=planted)
    payloads = carry_out(path_of(NoPrivacy(), data=data), base=7)
    np.testing.assert_array_equal(payloads.models[:, 0], [8, 9, 10, 11, 7, 13])
    payloads = carry_out(path_of(GaussianUpload(epsilon=6), data=data), base=7)
    assert payloads.uploads[4].added_std == payloads.uploads[3].added_std > 0
    assert (payloads.models[4] != 7).all()


def test_uploads_are_on_loan_and_cannot_be_written() -> None:
    payloads = carried_out(NoPrivacy())
    with pytest.raises(ValueError, match="read-only"):
        payloads.models[0] = 0


def test_an_upload_does_not_depend_on_other_trained_clients() -> None:
    scheme = GaussianUpload(epsilon=6)
    alone = carried_out(scheme, clients=[4])
    together = carried_out(scheme)
    np.testing.assert_array_equal(alone.models[0], together.models[4])


def test_models_are_clipped_to_the_median_of_their_norms_before_noise() -> None:
    payloads = carried_out(Nbafl(epsilon=1e9, constant=1e-9))
    norms = (np.arange(CLIENTS) + 1) * np.sqrt(PARAMETERS)
    np.testing.assert_allclose(payloads.norms, norms, rtol=1e-6)
    assert payloads.clip_norm == pytest.approx(np.median(norms))
    lengths = np.linalg.norm(payloads.models, axis=1)
    np.testing.assert_allclose(lengths, np.minimum(norms, payloads.clip_norm), rtol=1e-5)


def test_the_noise_has_the_deviation_that_the_scheme_says_and_is_new_each_time() -> None:
    scheme = GaussianUpload(epsilon=6)
    clean = carried_out(NoPrivacy())
    noises = []
    for seed in range(300):
        payloads = carried_out(scheme, seed=seed)
        noises.append(payloads.models - clean.models)
    told = scheme.upload_noise(CONTEXT, None, Contribution(0, SAMPLES)).std
    assert [one.added_std for one in payloads.uploads] == pytest.approx([told] * CLIENTS)
    flat = np.array(noises).ravel() / payloads.uploads[0].added_std
    assert abs(flat.mean()) < 5 / np.sqrt(flat.size)
    assert flat.std() == pytest.approx(1, abs=0.05)
    # Equal floats are rare, equal rows would be shared noise.
    assert len(np.unique(np.array(noises).reshape(-1, PARAMETERS), axis=0)) == 300 * CLIENTS


class Tenfold(Attack):
    """Uploads ten times its update, and stores its views."""

    kind: str = "tenfold"
    seen: ClassVar[list[AttackView]] = []
    knows: str = "own"

    @property
    def sees(self) -> Any:
        return self.knows

    def craft(self, view: AttackView) -> np.ndarray:
        assert not any(array.flags.writeable for array in (view.honest, view.known, view.bases))
        self.seen.append(view)
        return view.honest * 10

    def poison(self, images: Any, labels: Any, classes: int, random: Any) -> Any:
        return images, labels


@pytest.fixture(autouse=True)
def _forget() -> None:
    Tenfold.seen.clear()


@pytest.mark.parametrize(
    ("knows", "number", "shown"), [("own", 2, 0), ("colluders", 2, 2), ("buffer", 2, 4), ("buffer", CLIENTS, 0)]
)
def test_attackers_see_only_permitted_updates_and_replace_only_their_own(knows: str, number: int, shown: int) -> None:
    path = path_of(NoPrivacy(), threats=Threats(attack=Tenfold(knows=knows), attackers=number))
    payloads, attackers = carry_out(path), path.attackers
    assert attackers is not None
    bad = np.isin(np.arange(CLIENTS), list(attackers.members))
    np.testing.assert_array_equal(attacked(payloads), bad)
    np.testing.assert_array_equal(payloads.models[:, 0], (np.arange(CLIENTS) + 1) * np.where(bad, 10, 1))
    (view,) = Tenfold.seen
    assert (view.collected, view.attackers, view.known.shape) == (CLIENTS, number, (shown, PARAMETERS))
    assert (view.ranks, view.last_layer) == (tuple(range(number)), 1)
    assert view.class_gradients is not None
    classes = np.arange(10)
    held = np.where(np.isin(classes, list(attackers.members)), classes + SAMPLES, 0)
    np.testing.assert_array_equal(view.class_gradients(view.current), np.repeat(held[:, None], PARAMETERS, axis=1))
    honest = np.flatnonzero(~bad) if knows == "buffer" else np.empty(0, int)
    assert payloads.computed_from == tuple(10 + honest), "only attacks that see the buffer depend on other updates"
    if knows == "buffer":
        np.testing.assert_array_equal(np.sort(view.known[:, 0]), honest + 1)


def test_clipping_norms_are_taken_before_the_attack() -> None:
    honest = carried_out(Nbafl(epsilon=60))
    attacked = carried_out(Nbafl(epsilon=60), Threats(attack=Tenfold(), attackers=2))
    assert attacked.clip_norm == honest.clip_norm
    np.testing.assert_array_equal(attacked.norms, honest.norms)


@pytest.mark.parametrize("noisy", [True, False])
def test_attackers_add_noise_unless_configured_not_to(noisy: bool) -> None:
    threats = Threats(attack=Tenfold(), attackers=2, attackers_add_noise=noisy)
    payloads = carried_out(GaussianUpload(epsilon=6), threats)
    assert all((one.added_std > 0) == (not one.attacked or noisy) for one in payloads.uploads)
    assert all((one.release.std > 0) == (one.added_std > 0) for one in payloads.uploads)
    exact = payloads.models[attacked(payloads)] % 10 == 0
    assert exact.all() == (not noisy)


def test_an_upload_of_the_wrong_length_is_not_sound() -> None:
    threats = Threats.model_validate({"attack": {"kind": "wrong_length", "off_by": 3}, "attackers": 2})
    payloads = carried_out(NoPrivacy(), threats)
    np.testing.assert_array_equal(payloads.sound, ~attacked(payloads))


def test_poisoned_data_are_made_once_and_do_not_change_the_federation() -> None:
    threats = Threats.model_validate({"attack": {"kind": "label_flip"}, "attackers": 1.0})
    path = path_of(NoPrivacy(), threats=threats)
    payloads, attackers = carry_out(path), path.attackers
    assert [job.labels[0] for job in path.learner.jobs] == [9 - client for client in range(CLIENTS)]
    assert payloads.losses.tolist() == [9 - client for client in range(CLIENTS)]
    assert federation().labels[0] == 0
    assert attackers is not None
    images, labels = federation().client(0)
    assert attackers.poisoned(0, images, labels)[1] is attackers.poisoned(0, images, labels)[1]


def test_an_attack_begins_with_its_version_and_flooders_are_faster() -> None:
    threats = Threats.model_validate({"attack": {"kind": "flooding", "times": 5}, "attackers": 1.0, "from_version": 3})
    attackers = Attackers(threats, CLIENTS, 10, Streams(0))
    assert not attackers.attacks(7, 0, 2, 0)
    assert attackers.attacks(7, 0, 3, 0)
    assert attackers.speed(7, 0) == 5


def drawn_per_round(
    cohorts: Sequence[Sequence[int]], of_round: int | None = None, number: int = 2
) -> tuple[list[list[bool]], Attackers]:
    """Whether each task was drawn of cohorts of clients, `number` attackers a round."""
    threats = Threats.model_validate({"attack": {"kind": "label_flip"}, "attackers": number, "selection": "per_round"})
    attackers = Attackers(threats, CLIENTS, 10, Streams(0), of_round)
    drawn, task, turns = [], 0, Counter[int]()
    for cohort in cohorts:
        numbers = range(task, task + len(cohort))
        for number, client in zip(numbers, cohort, strict=True):
            attackers.begin(number, client, turns[client])
            turns[client] += 1
        before = attackers.members.copy()
        assert not any(attackers.malicious(number, client) for number, client in zip(numbers, cohort, strict=True))
        assert attackers.members == before, "a query must not draw attackers"
        attackers.draw()
        drawn.append([attackers.malicious(number, client) for number, client in zip(numbers, cohort, strict=True)])
        task += len(cohort)
    return drawn, attackers


def test_per_round_each_cohort_has_the_same_number_of_attackers() -> None:
    cohorts = [[0, 1, 2, 3], [3, 4, 5], [0, 1, 2, 3, 4, 5], [1]] * 5
    drawn, attackers = drawn_per_round(cohorts)
    assert [sum(cohort) for cohort in drawn] == [2, 2, 2, 1] * 5
    assert len({tuple(cohort) for cohort in drawn[::4]}) > 1
    assert drawn == drawn_per_round(cohorts)[0]
    # What was said of a task stays, whatever its client does next.
    assert [attackers.malicious(task, client) for task, client in enumerate(cohorts[0])] == drawn[0]
    assert attackers.members == {
        client for cohort, bad in zip(cohorts, drawn, strict=True) for client, b in zip(cohort, bad, strict=True) if b
    }


def test_per_round_without_cohorts_so_many_tasks_in_a_row_are_a_round() -> None:
    for together in (1, 3, 7):
        started = [[client % CLIENTS for client in range(first, first + together)] for first in range(0, 84, together)]
        drawn = list(chain.from_iterable(drawn_per_round(started, of_round=4)[0]))
        assert [sum(drawn[first : first + 4]) for first in range(0, 84, 4)] == [2] * 21
        one_by_one = [[client] for client in chain.from_iterable(started)]
        assert [[bad] for bad in drawn] == drawn_per_round(one_by_one, of_round=4)[0]


def bad_turns(
    cohorts: Sequence[Sequence[int]], of_round: int | None = None, number: int = 2
) -> dict[tuple[int, int], bool]:
    """(client, turn) -> whether that task was an attacker's."""
    turns, found = Counter[int](), {}
    for cohort, bad in zip(cohorts, drawn_per_round(cohorts, of_round, number)[0], strict=True):
        for client, attacks in zip(cohort, bad, strict=True):
            found[client, turns[client]] = attacks
            turns[client] += 1
    return found


def test_per_round_attackers_do_not_depend_on_order_or_other_clients() -> None:
    cohorts = [[0, 1, 2, 3, 4, 5]] * 30
    whole = bad_turns(cohorts)
    assert bad_turns([cohort[::-1] for cohort in cohorts]) == whole
    without = bad_turns([cohort[:5] for cohort in cohorts])
    assert all(without[turn] for turn, bad in whole.items() if bad and turn[0] != 5)
    replaced = [turn for turn, bad in without.items() if bad and not whole[turn]]
    assert sorted(turn for _, turn in replaced) == [turn for turn in range(30) if whole[5, turn]]


def updates_of(scheme: Scheme) -> tuple[np.ndarray, Batch]:
    """The upload of a client that moves by (3, 4, 0) from a model of twos."""
    payloads = carry_out(path_of(scheme, lambda client: [3, 4, 0]), [1], 2.0)
    return payloads.models[0] - 2, payloads


def test_updates_are_clipped_around_the_model_that_was_sent() -> None:
    update, payloads = updates_of(DpFedAvg(noise_multiplier=0))
    assert update == pytest.approx([0.6, 0.8, 0], abs=1e-6)
    assert (payloads.norms.tolist(), payloads.clip_norm) == ([5], 1)
    unclipped, _ = updates_of(DpFedAvg(noise_multiplier=0, clip_norm=6))
    assert unclipped == pytest.approx([3, 4, 0])


def test_clipping_in_l1_measures_in_l1() -> None:
    scheme = Mechanisms.model_validate({"client": {"kind": "laplace", "epsilon": float("inf")}})
    update, payloads = updates_of(scheme)
    assert payloads.norms.tolist() == [7]
    assert update == pytest.approx([3 / 7, 4 / 7, 0], abs=1e-6)


def test_models_are_clipped_with_their_base() -> None:
    silent = {"kind": "gaussian", "epsilon": float("inf")}
    scheme = Mechanisms.model_validate({"client": silent, "clip": {"target": "model", "norm": 1.0}})
    _, payloads = updates_of(scheme)
    assert payloads.norms[0] == pytest.approx(np.linalg.norm([5, 6, 2]))
    assert np.linalg.norm(payloads.models[0]) == pytest.approx(1)


def test_the_adaptive_clip_norm_moves_after_each_collection() -> None:
    scheme = DpFedAvg.model_validate({"noise_multiplier": 0, "adaptive": {"learning_rate": 0.5}})
    path = path_of(scheme, lambda client: [3, 4, 0])
    used = [carry_out(path, [1]).clip_norm for _ in range(3)]
    assert used == pytest.approx([1, np.exp(0.25), np.exp(0.5)])


@pytest.mark.parametrize("attackers_add_noise", [True, False])
def test_noise_after_each_epoch_but_the_last_and_on_the_upload(attackers_add_noise: bool) -> None:
    training = Training(lr=0.1, batch_size=2, epochs=3, gradient_clip=1.0)
    context = replace(CONTEXT, epochs=3)
    bases: list[np.ndarray] = []

    class Watching(Learner):
        def train(self, rows: np.ndarray, jobs: Sequence[Job]) -> np.ndarray:
            assert {job.order.shape for job in jobs} == {(1, SAMPLES)}
            bases.append(np.array([job.base for job in jobs]))
            return super().train(rows, jobs)

    threats = Threats(attack=Still(), attackers=2, attackers_add_noise=attackers_add_noise)
    scheme = GaussianUpload(epsilon=0.5, noise="epoch")
    payloads = carry_out(path_of(scheme, threats=threats, learner=Watching(), training=training, context=context))
    changes = np.arange(CLIENTS)[:, None] + 1.0
    noises = [bases[epoch] - epoch * changes for epoch in range(3)]
    honest = ~attacked(payloads)
    assert not noises[0].any()
    for noise, before in zip(noises[1:], noises, strict=False):
        assert ((noise != before).all(axis=1) == (honest | attackers_add_noise)).all()
    assert (payloads.models != bases[2] + changes)[honest].all()
    assert [one.release.count for one in payloads.uploads] == [3] * CLIENTS


class Still(Attack):
    """Trains like an honest client."""

    kind: str = "test_path:Still"


def test_updates_are_scaled_by_the_scheme_before_clipping() -> None:
    class Weighted(DpFedAvg):
        def update_factor(self, context: PrivacyContext, samples: int, epochs: int | None = None) -> float:
            return samples / 8

    payloads = carried_out(Weighted(noise_multiplier=0, clip_norm=100))
    np.testing.assert_allclose(payloads.models[:, 0], (np.arange(CLIENTS) + 1) * SAMPLES / 8)
    np.testing.assert_allclose(payloads.norms, (np.arange(CLIENTS) + 1) * SAMPLES / 8 * np.sqrt(PARAMETERS))


def uploaded(scheme: Scheme, by_client: Sequence[float], threats: Threats | None = None) -> Batch:
    """Uploads of clients that move a model of halves by `by_client`."""
    return carry_out(path_of(scheme, by_client.__getitem__, threats=threats), range(len(by_client)), 0.5)


CLIPPED = DpFedAvg(noise_multiplier=1e-9, clip_norm=2.0)


def test_an_update_whose_square_overflows_float32_is_clipped() -> None:
    for huge in (1.1e21, 1.1e21, 1e38):  # norms of 1.9e21 and 1.7e38
        payloads = uploaded(CLIPPED, [huge] * 3)
        assert payloads.norms == pytest.approx([huge * np.sqrt(3)] * 3)
        assert np.linalg.norm(payloads.models - np.float32(0.5), axis=1) == pytest.approx([2.0] * 3, rel=1e-6)
        assert payloads.clip_norm == 2.0
        assert not payloads.zeroed.any()


PROVEN = [
    CLIPPED,
    Mechanisms.model_validate({"client": {"kind": "gaussian", "epsilon": 1e9}, "clip": {"norm": 2.0}}),
    AdaptiveBudgets(budgets=(1e9,) * CLIENTS, adjustment="none", clip_norm=2.0, sensitivity="2M"),
]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("scheme", PROVEN, ids=lambda scheme: scheme.kind)
def test_with_proven_clipping_non_finite_payloads_become_zero(scheme: Scheme, wrong: float) -> None:
    for by_client in ([wrong, 1.0, 9.0], [wrong] * 3):
        payloads = uploaded(scheme, by_client)
        finite = np.isfinite(by_client)
        assert payloads.zeroed.tolist() == (~finite).tolist()
        lengths = np.linalg.norm(payloads.models - np.float32(0.5), axis=1)
        assert lengths == pytest.approx(np.where(finite, [0.0, np.sqrt(3.0), 2.0], 0.0), abs=1e-3)
        assert payloads.clip_norm == 2.0


def test_a_clipped_model_that_is_not_finite_becomes_the_zero_model() -> None:
    payloads = uploaded(Nbafl(epsilon=1e9, clip_norm=2.0, sensitivity="2C"), [np.nan, 0.1])
    assert payloads.zeroed.tolist() == [True, False]
    assert payloads.models[0] == pytest.approx(np.zeros(PARAMETERS), abs=1e-3)


@pytest.mark.parametrize(
    "scheme",
    [
        NoPrivacy(),
        GaussianUpload(epsilon=6),
        Nbafl(epsilon=60, clip_norm=2.0),
        Nbafl(epsilon=60, sensitivity="2C"),
        DpFedAvg(noise_multiplier=0),
        Mechanisms.model_validate({"client": {"kind": "gaussian", "epsilon": 6}, "clip": {"target": "gradient"}}),
        AdaptiveBudgets(budgets=(6,) * CLIENTS),
    ],
    ids=lambda scheme: scheme.kind,
)
def test_without_proven_clipping_non_finite_payloads_are_sent(scheme: Scheme) -> None:
    payloads = uploaded(scheme, [np.nan, 0.1])
    assert not payloads.zeroed.any()
    assert np.isfinite(payloads.models).all(axis=1).tolist() == [False, True]


def test_attackers_may_upload_non_finite_values() -> None:
    threats = Threats.model_validate({"attack": {"kind": "non_finite"}, "attackers": 1})
    payloads = uploaded(CLIPPED, [0.1] * CLIENTS, threats=threats)
    assert not payloads.zeroed.any()
    assert (~np.isfinite(payloads.models).all(axis=1)).tolist() == attacked(payloads).tolist()


def test_work_is_the_share_of_epochs_done() -> None:
    assert work_of([None, None], 4) is None
    assert work_of([], 4) is None
    found = work_of([None, 1, 2, 4], 4)
    assert found is not None
    assert found.tolist() == pytest.approx([1.0, 0.25, 0.5, 1.0])
