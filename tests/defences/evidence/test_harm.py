"""Harm to the server's samples: the part of an update that no mixture of classes explains."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import DefenceContext, Evidence
from asyncfl.defences.evidence.harm import ClassDescents, HarmRecord, empty_record, split_updates
from asyncfl.testing import buffer

D, CLIENTS, NOISE = 400, 20, 0.01
CLASSES = ClassDescents(np.eye(4, D, dtype=np.float32), np.ones(4))


def test_parts_of_an_update_by_hand() -> None:
    """Of (3, -4, 12) the classes see (3, -4): 3 of the first class, and 4 against the second. All samples together
    descend along (3, 4) / 5."""
    descents = ClassDescents(np.eye(2, 3, dtype=np.float32), np.array([3.0, 4.0]))
    mixture, harm, gain = split_updates(np.array([[3, -4, 12]], dtype=np.float32), descents)
    assert (mixture, harm, gain) == (pytest.approx(3), pytest.approx(4), pytest.approx((9 - 16) / 5))


@given(st.integers(0, 1000))
def test_parts_are_orthogonal_and_no_mixture_does_harm(seed: int) -> None:
    random = np.random.default_rng(seed)
    unit = random.standard_normal((4, 30)) + 0.5
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    descents = ClassDescents(unit.astype(np.float32), random.random(4) + 0.1)
    shares = random.random((3, 4))
    others = random.standard_normal((3, 4))
    parts = split_updates(np.concatenate([shares @ unit, others @ unit]).astype(np.float32), descents)
    assert parts.harm[:3] == pytest.approx(0, abs=1e-4)
    lengths = np.linalg.norm(others @ unit, axis=1)
    assert np.hypot(parts.mixture[3:], parts.harm[3:]) == pytest.approx(lengths, rel=1e-4)


def test_two_classes_of_the_same_descent_are_one() -> None:
    same = ClassDescents(np.eye(1, 5, dtype=np.float32).repeat(2, axis=0), np.ones(2))
    parts = split_updates(-np.eye(1, 5, dtype=np.float32), same)
    assert (parts.mixture, parts.harm, parts.gain) == (pytest.approx(0), pytest.approx(1), pytest.approx(-1))


def recorded(signals: np.ndarray, noise: float = NOISE) -> HarmRecord:
    """Return the record after one update of each client."""
    sent = (signals + noise * np.random.default_rng(1).standard_normal(signals.shape)).astype(np.float32)
    std = np.full(len(sent), noise)
    return empty_record(CLIENTS).add(np.arange(len(sent)), sent, list(sent), std, std, CLASSES)


ONE_CLASS_EACH = np.eye(4, D)[np.arange(CLIENTS) % 4]


def test_clients_of_one_class_each_do_no_harm() -> None:
    harms, against, share = recorded(ONE_CLASS_EACH).judge(np.ones(CLIENTS, dtype=bool), 0)
    out = harms | against
    assert not out.any()
    assert share == pytest.approx(0, abs=0.02)


def test_updates_that_go_against_some_classes_are_left_out() -> None:
    """The last eight gain as much along (1, 1, 1, 1) as the others do, and lose as much in two classes."""
    signals = ONE_CLASS_EACH.copy()
    signals[12:, :4] = [1.5, 1.5, -1, -1]
    out, against, share = recorded(signals).judge(np.zeros(CLIENTS, dtype=bool), 0)
    assert not against.any()
    assert out.tolist() == [False] * 12 + [True] * 8
    assert share[12:] == pytest.approx(np.sqrt(2), abs=0.15)


def test_noise_alone_does_no_harm() -> None:
    harms, against, _ = recorded(ONE_CLASS_EACH, noise=0.5).judge(np.ones(CLIENTS, dtype=bool), 0)
    out = harms | against
    assert not out.any()


@pytest.mark.parametrize("alike", [True, False])
def test_a_crowd_that_raises_the_loss_on_all_samples_is_left_out_and_a_single_client_is_not(alike: bool) -> None:
    """Its one class goes so far against the two others that the loss on all samples rises."""
    descents = ClassDescents(np.array([[-0.95, 0.312, 0], [1, 0, 0], [0.9, 0, 0.436]], dtype=np.float32), np.ones(3))
    signals = np.array([[0.9, 0, 0.436]] * 12 + [[-0.95, 0.312, 0]] * 8, dtype=np.float32)
    std = np.full(CLIENTS, NOISE)
    record = empty_record(CLIENTS).add(np.arange(CLIENTS), signals, list(signals), std, std, descents)
    crowded = np.arange(CLIENTS) >= (12 if alike else CLIENTS)
    harms, against, _ = record.judge(crowded, 0)
    assert (harms | against).tolist() == [False] * 12 + [alike] * 8
    assert not harms.any()


def test_nothing_is_judged_before_half_of_the_clients_were_seen() -> None:
    few = -ONE_CLASS_EACH[:10]
    harms, against, _ = recorded(few).judge(np.ones(CLIENTS, dtype=bool), 0)
    assert not (harms | against).any()


def test_a_forgotten_client_leaves_no_trace() -> None:
    record = recorded(ONE_CLASS_EACH).forget(3)
    assert all(np.isnan(values[3]) and np.isfinite(values[4]) for values in vars(record).values())


def test_detector_leaves_out_what_the_common_descent_lets_in_and_strikes_nobody() -> None:
    """Eight attackers keep the common descent (1, 1, 1, 1) of four classes, and turn round what lies across it."""
    ones = np.ones(CLIENTS, dtype=np.int64)
    context = DefenceContext(CLIENTS, ones * 100, D, 1.0, 10.0, ones)
    state = Evidence().start(replace(context, root_gradients=lambda model: -CLASSES.unit), None)
    signals = np.zeros((CLIENTS, D))
    signals[:, :4] = np.eye(4)[np.arange(CLIENTS) % 4] + 0.2
    signals[12:, :4] = [1.2, 1.2, -0.6, -0.6]
    for version in range(6):
        noise = NOISE * np.random.default_rng(version).standard_normal((CLIENTS, D))
        sent = buffer(signals + noise, clients=range(CLIENTS), version=version, upload_std=NOISE)
        verdict, state = Evidence().judge(state, sent, None)
    assert verdict.flagged.tolist() == [False] * 12 + [True] * 8
    assert not verdict.strikes.any()
    assert verdict.details[15].startswith("harms every class of the server's samples by")
