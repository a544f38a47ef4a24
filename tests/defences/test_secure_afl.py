import numpy as np
import pytest

from asyncfl.defences import SecureAfl
from asyncfl.protocol.model_step import next_model

LR = 0.1


def sent(buffer_of, version, gradients, model, clients=None):
    """A buffer of gradients of one parameter, all computed at `model`."""
    rows = -LR * np.array(gradients, dtype=float)[:, None]
    return buffer_of(rows, bases=np.full((len(rows), 1), model), current=[model], version=version, clients=clients)


def weights(n):
    return np.full(n, 1 / n)


def test_absent_clients_are_estimated_by_their_curvature(buffer_of, context_of, random):
    rule = SecureAfl(expected_share=0.0, bound=100.0)
    state = rule.start(context_of(3, 1, lr=LR), random)
    # Clients 0, 1 and 2 have f = w^2 / 2, w^2 and 2 w^2: gradients w, 2 w and 4 w.
    for version, model in ((0, 4.0), (1, 3.0)):
        _, state = rule.step(state, sent(buffer_of, version, [model, 2 * model, 4 * model], model), weights(3))
    made, state = rule.step(state, sent(buffer_of, 2, [1.0], 1.0, [0]), np.array([0.5]))
    # At 1 client 1 would send 2 and client 2 would send 4: the median of 1, 2, 4, of which half counts.
    assert made.update == pytest.approx([-LR * 2 * 0.5])
    assert made.weights.tolist() == [0.5]
    assert state.coefficients == pytest.approx({0: 1, 1: 2, 2: 4})


def test_gradient_with_large_coefficient_is_left_out_and_not_stored(buffer_of, context_of, random):
    rule = SecureAfl(expected_share=0.25)
    state = rule.start(context_of(4, 1, lr=LR), random)
    _, state = rule.step(state, sent(buffer_of, 0, [1, 1, 1, 1], 0.0), weights(4))
    made, after = rule.step(state, sent(buffer_of, 1, [2, 3, 4, 51], 1.0), weights(4))
    # Coefficients 1, 2, 3 and 50: the quantile of three quarters is 3.
    assert made.weights.tolist() == [0.25, 0.25, 0.25, 0]
    assert after.gradients[3].version == 0
    assert after.coefficients[3] == pytest.approx(50)
    # Where nothing is accepted the model stays, whatever is estimated.
    alone, _ = rule.step(after, sent(buffer_of, 2, [900.0], 2.0, [3]), np.array([1.0]))
    assert alone.update.tolist() == [0]


@pytest.mark.parametrize("size", [1e10, 1e19, 3e38])
def test_gradients_of_any_size_are_compared(size, buffer_of, context_of, random):
    rule = SecureAfl(expected_share=0.25)
    state = rule.start(context_of(4, 1, lr=LR), random)
    _, state = rule.step(state, sent(buffer_of, 0, [1, 1, 1, 1], 0.0), weights(4))
    held = sent(buffer_of, 1, [2, 3, 4, -size], 1.0)
    made, _ = rule.step(state, held, weights(4))
    assert made.weights.tolist() == [0.25, 0.25, 0.25, 0]
    assert np.isfinite(made.update).all()


@pytest.mark.parametrize("reading", ["mix", "normalised"])
def test_gradients_do_not_depend_on_how_updates_are_applied(reading, buffer_of, context_of, random):
    rule = SecureAfl(expected_share=0.0, bound=100.0)

    def after(reading):
        """Loss w^2 / 2 for clients 0 and 1: both answer version 0 fresh, client 0 answers version 1 at version 5."""
        state = rule.start(context_of(2, 1, lr=LR), random)
        _, state = rule.step(state, sent(buffer_of, 0, [2, 2], 2.0), weights(2))
        late = buffer_of([[-LR]], clients=[0], base_versions=[1], version=5, bases=[[1.0]], current=[0.5])
        moved = next_model(late, np.ones(1), rule, state, reading)
        return moved.model, moved.state

    model, state = after(reading)
    delta, expected = after("delta")
    assert state.gradients[0].values() == pytest.approx([1.0])
    assert state.gradients[0].model == pytest.approx([1.0])
    assert state.coefficients == pytest.approx(expected.coefficients)
    assert state.pairs[0][0][1] == pytest.approx(expected.pairs[0][0][1])
    # Client 1 would now send 2 lr less than .5, so .3: as a model, or as a difference from .5. Client 0 sent .9, which
    # is .1 less than it was sent. With two the median is the lower or the middle of both.
    assert delta == pytest.approx([0.5 + (-0.1 - 0.2) / 2])
    assert model == pytest.approx([(0.9 + 0.3) / 2])


def test_banned_clients_are_not_estimated(buffer_of, context_of, random):
    rule = SecureAfl(expected_share=0.0, bound=100.0)
    state = rule.start(context_of(3, 1, lr=LR), random)
    for version, model in ((0, 4.0), (1, 3.0)):
        _, state = rule.step(state, sent(buffer_of, version, [model, 2 * model, 40 * model], model), weights(3))
    left = rule.forget_client(rule.forget_client(state, 2), 1)
    assert [set(kept) for kept in (left.gradients, left.pairs, left.coefficients)] == [{0}] * 3
    made, _ = rule.step(left, sent(buffer_of, 2, [1.0], 1.0, [0]), np.array([1.0]))
    assert made.update == pytest.approx([-LR])
