"""Noise that is drawn for several steps at once has the law of noise that each step draws for itself."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from asyncfl.learning import Mlp, Training, block_noise, mlp
from asyncfl.learning.block_noise import Block, blocks_of
from asyncfl.learning.dense import Stack, padded
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

INPUTS, UNITS = 5, 2
BATCHES = (3, 2, 4, 1)
TRAINING = Training(lr=0.05, batch_size=8, example_clip=0.7, example_noise=1.3, epochs=2, device="cpu")


def test_sums_and_products_of_the_noise_have_the_covariance_of_independent_steps() -> None:
    """The noise is a linear function of the normals, so its covariance is that function times its transpose."""
    stack = Stack((INPUTS, UNITS, 3), TRAINING, own_input=False, gemm="default")
    images = torch.randn(sum(BATCHES), padded(INPUTS), generator=torch.Generator().manual_seed(0))
    images[5] = images[4]  # equal images, whose covariance is singular
    block = Block.of(BATCHES)
    columns = []
    for unit in torch.eye(block.normals(stack)):
        drawn = block.draw(stack, images[BATCHES[0] :], unit)
        assert drawn is not None
        total = drawn.total.view(UNITS, -1)
        seen, done, start = [], 0.0, 0
        for number, n in enumerate(BATCHES):
            x, shift = images[start : start + n], drawn.shifts[number]
            seen.append(x @ (done * total).T + (0 if shift is None else shift))
            done, start = done + block.parts[number], start + n
        columns.append(torch.cat([*(one.flatten() for one in seen), (done * total).flatten(), *drawn.upper]))
    found = torch.stack(columns, 1).double()

    # S_k is the sum of independent Z_j, each of variance 1 / n_j^2; what is seen of it is linear as well.
    expected, start = [], 0
    entries, upper = UNITS * padded(INPUTS), len(stack.weights.flat) - UNITS * padded(INPUTS)
    for number, n in enumerate(BATCHES):
        one = torch.kron(images[start : start + n].contiguous(), torch.eye(UNITS))  # units within samples
        scales = [1 / size if before < number else 0 for before, size in enumerate(BATCHES)]
        expected.append(torch.cat([scale * one for scale in scales], 1))
        start += n
    by_unit = torch.eye(entries).view(UNITS, -1, entries).transpose(0, 1).reshape(entries, entries)
    expected = [rows.view(len(rows), 4, entries) @ by_unit for rows in expected]
    expected.append(torch.stack([torch.eye(entries) / n for n in BATCHES], 1))
    whole = torch.cat(expected).reshape(-1, 4 * entries).double()
    d = len(whole)
    np.testing.assert_allclose((found @ found.T)[:d, :d], whole @ whole.T, atol=3e-5, rtol=3e-5)
    np.testing.assert_allclose((found @ found.T)[d:, d:], np.eye(upper * len(BATCHES)), atol=1e-6)
    assert not (found @ found.T)[d:, :d].any()


class Recorded:
    """Blocks whose draws are kept."""

    def __init__(self) -> None:
        self.draws: list[block_noise.BlockDraws] = []
        self.images: list[torch.Tensor] = []

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = Block.draw

        def draw(block: Block, stack: Stack, x: torch.Tensor, normals: torch.Tensor) -> block_noise.BlockDraws | None:
            drawn = original(block, stack, x, normals.clone())
            assert drawn is not None
            self.draws.append(drawn)
            self.images.append(x.clone())
            return drawn

        monkeypatch.setattr(Block, "draw", draw)


def noise_of_steps(block: Block, drawn: block_noise.BlockDraws, x: torch.Tensor, stack: Stack) -> Iterator[np.ndarray]:
    """Yield noise of single steps, as flat vectors of normals, that has the sums and products that were drawn."""
    total, done, before, start = drawn.total.view(UNITS * 10, -1), 0.0, 0.0, 0
    for number, n in enumerate(block.batches):
        done += block.parts[number]
        after = done * total
        if number + 1 < len(block.batches):
            following = x[start : start + block.batches[number + 1]]
            shift = drawn.shifts[number + 1]
            assert shift is not None
            after = after + (torch.linalg.pinv(following.double()) @ shift.double()).T.float()
            start += len(following)
        stack.weights.flat[:] = torch.cat([(after - before).flatten() * n, drawn.upper[number]])
        flat = torch.empty(sum((i + 1) * o for i, o in zip(stack.widths, stack.widths[1:], strict=False)))
        stack.weights.store(flat)
        yield flat.numpy()
        before = after


def test_training_is_that_with_noise_on_each_step_that_has_the_same_sums_and_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, shape = Mlp(hidden=(UNITS * 10, 4)), (1, 6, 6)
    monkeypatch.setattr(block_noise, "LARGE", 0)
    monkeypatch.setattr(block_noise, "ROWS", 16)
    record = Recorded()
    record.watch(monkeypatch)
    (job,) = random_jobs(model, shape, 3, (36,), epochs=2)  # blocks of 8, 8, 8 and of 8, 4
    rows, losses = train(IMPLEMENTATIONS["direct"](model, TRAINING, shape, 3), job)

    widths = model.widths(shape, 3)
    stack, blocks = Stack(widths, TRAINING, own_input=False, gemm="default"), blocks_of(TRAINING, widths, 36) * 2
    assert [block.batches for block in blocks[:2]] == [(8, 8, 8), (8, 4)]
    drawn = zip(blocks, record.draws, record.images, strict=True)
    noise = iter([flat for block, one, x in drawn for flat in noise_of_steps(block, one, x, stack)])
    monkeypatch.setattr(mlp, "blocks_of", lambda *_: [])
    monkeypatch.setattr(mlp.StandardNormal, "draw", lambda _: next(noise))
    again, losses_again = train(IMPLEMENTATIONS["direct"](model, TRAINING, shape, 3), job)
    np.testing.assert_allclose(rows, again, atol=1e-5)
    np.testing.assert_allclose(losses, losses_again, rtol=1e-5)
    assert next(noise, None) is None


@pytest.mark.parametrize("value", [1e20, math.inf, math.nan])
def test_samples_too_long_for_their_products_are_trained_on_with_noise_on_each_step(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_noise, "LARGE", 0)
    model, shape = Mlp(hidden=(7,)), (1, 6, 6)
    (job,) = random_jobs(model, shape, 3, (32,), epochs=2)
    job.images[3] = value
    row = train(IMPLEMENTATIONS["direct"](model, TRAINING, shape, 3), job)[0][0]
    assert np.isfinite(row).all()
    std = TRAINING.lr * 1.3 * 0.7 / 8 * math.sqrt(8)  # four steps in each of two epochs
    assert np.std(row - job.base) == pytest.approx(std, rel=0.25)


@pytest.mark.parametrize(
    "changes", [{"momentum": 0.5}, {"proximal_mu": 0.1}, {"batch_size": 97}, {"example_noise": 0.0}]
)
def test_each_step_draws_its_own_noise_where_blocks_do_not_hold_or_pay(changes: dict[str, float]) -> None:
    widths = (784, 256, 10)
    assert blocks_of(TRAINING, widths, 600)
    assert not blocks_of(TRAINING.model_copy(update=changes), widths, 600)
    assert not blocks_of(TRAINING, (784, 64, 10), 600)
    assert not blocks_of(TRAINING, (20_000, 10), 600)
