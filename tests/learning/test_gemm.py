"""The library that multiplies matrices: what `gemm: auto` chooses, and which products follow it.

On some CPUs oneDNN rounds as the default library of torch does, on others it does not, so bytes tell nothing:
these tests watch the switch that routes products, or compare numbers within the rounding of float32.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.learning import Training, gemm, gemm_timing
from asyncfl.learning.mlp import MlpLearner, Way
from asyncfl.learning.models import Mlp
from tests.learning.jobs import random_jobs
from tests.learning.jobs import train as train_jobs

SIZES = ((20, 784, 64), (20, 64, 10))


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(gemm.VARIABLE)
    gemm.is_exact.cache_clear()
    yield
    gemm.is_exact.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, fastest: str, has_onednn: bool = True) -> None:
    """Pretend a CPU on which oneDNN, if there is one, is exact, and `fastest` is measured to be the fastest library."""
    gemm.is_exact.cache_clear()
    switch = SimpleNamespace(fp32_precision="none")
    monkeypatch.setattr(gemm, "_measured", lambda sizes: fastest)
    monkeypatch.setattr(gemm, "_switch", lambda: switch if has_onednn else None)


def test_auto_takes_what_is_measured_to_be_fastest_where_onednn_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "default")
    assert (gemm.resolve("auto", SIZES), gemm.resolve("onednn", SIZES)) == ("default", "onednn")
    pretend(monkeypatch, "mixed", has_onednn=False)
    assert gemm.resolve("auto", SIZES) == gemm.resolve("onednn", SIZES) == "default"
    pretend(monkeypatch, "mixed")
    assert gemm.resolve("auto", SIZES) == "mixed"
    assert gemm.resolve("auto") == "default"
    gemm.is_exact.cache_clear()
    monkeypatch.setattr(gemm, "EXACT", 0.0)
    assert gemm.resolve("auto", SIZES) == gemm.resolve("onednn", SIZES) == "default"


@pytest.mark.parametrize(
    ("seconds", "library"),
    [
        ({"default": [10, 10, 10], "onednn": [9, 9, 9], "mixed": [8, 9, 9]}, "mixed"),
        ({"default": [10, 10, 10], "onednn": [9.1, 9.2, 12], "mixed": [10, 11, 12]}, "default"),
        ({"default": [10, 30, 30], "onednn": [9, 30, 30], "mixed": [10, 30, 30]}, "default"),  # once by chance
        ({"default": [10, 30, 30], "onednn": [10, 12, 12], "mixed": [10, 30, 30]}, "default"),
    ],
)
def test_another_library_is_taken_where_it_saves_a_tenth(seconds: dict[str, list[float]], library: str) -> None:
    assert gemm_timing.fastest(seconds) == library


def test_sizes_are_those_of_a_batch_and_the_layers() -> None:
    model = Mlp(hidden=(300,))
    layout = model.layout((1, 14, 14), 10)
    assert gemm.sizes_of(layout, 32) == ((32, 196, 300), (32, 300, 10))
    assert gemm.sizes_of(layout, "full")[0] == (gemm.FULL_BATCH, 196, 300)


def test_all_libraries_are_timed_in_each_round() -> None:
    ticks = iter(range(10_000))
    seconds = gemm_timing.time_products(SIZES, gemm.LIBRARIES, clock=lambda: float(next(ticks)))
    assert seconds == {"default": [1], "onednn": [1], "mixed": [1]}  # the budget ends after the first


def test_a_machine_measures_once_for_sizes_and_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def timed(sizes: object, libraries: object) -> dict[str, list[float]]:
        calls.append(sizes)
        return {"default": [10.0], "onednn": [5.0], "mixed": [7.0]}

    monkeypatch.setattr(gemm_timing, "time_products", timed)
    for _ in range(2):  # a process that knows nothing of the first
        gemm_timing.measured.cache_clear()
        assert gemm_timing.measured(SIZES, 1, gemm.LIBRARIES) == "onednn"
    assert gemm_timing.measured(SIZES, 2, gemm.LIBRARIES) == "onednn"
    assert len(calls) == 2
    gemm_timing.measured.cache_clear()


def test_the_environment_variable_decides_for_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mixed")
    monkeypatch.setenv(gemm.VARIABLE, "default")
    assert gemm.resolve("auto") == "default"
    monkeypatch.setenv(gemm.VARIABLE, "mkl")
    with pytest.raises(ScenarioError, match="ASYNCFL_GEMM must be default, onednn or mixed, got 'mkl'"):
        gemm.resolve("auto")


def test_products_of_onednn_are_exact_to_float32_on_this_cpu() -> None:
    switch = gemm._switch()
    before = None if switch is None else switch.fp32_precision
    library = gemm.resolve("onednn")
    a, b = torch.randn(128, 256), torch.randn(256, 256)
    with gemm.products(library):
        assert library == "default" or switch.fp32_precision == "bf16"
        np.testing.assert_allclose(a @ b, a.double() @ b.double(), atol=1e-4)
        with gemm.products("mixed", small=True):
            assert switch is None or switch.fp32_precision == "none"
    assert switch is None or switch.fp32_precision == before


def test_only_large_products_of_an_mlp_leave_the_default_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mixed")
    switch, seen = gemm._switch(), []

    def product(size: int) -> int:
        seen.append(switch.fp32_precision)
        return size

    with gemm.products("mixed"), gemm.products("mixed", small=True):
        for rows in (20, 20_000):
            assert gemm.by_size("mixed", product, rows, 16, 16)(rows) == rows
            assert switch.fp32_precision == "none"
    assert seen == ["none", "bf16"]
    assert (
        gemm.by_size("default", product, 20_000, 16, 16) is gemm.by_size("onednn", product, 20_000, 16, 16) is product
    )


def train(library: str, way: Way) -> np.ndarray:
    """Train an MLP for two steps of 96 samples, products by `library`."""
    model, shape = Mlp(hidden=(300,)), (14, 14)
    learner = MlpLearner(model, Training(lr=0.1, batch_size=96, epochs=2, gemm=library), shape, 10, way=way)
    return train_jobs(learner, *random_jobs(model, shape, 10, (96,), 2))[0][0]


@pytest.mark.parametrize("way", ["gram", "direct"])
def test_an_mlp_learns_the_same_by_any_library_within_rounding(way: Way) -> None:
    default = train("default", way)
    for library in ("onednn", "mixed"):
        np.testing.assert_allclose(train(library, way), default, rtol=0, atol=1e-5)


def test_other_processes_compute_with_the_choice_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mixed")
    chosen = pickle.loads(pickle.dumps(gemm.choice("auto", SIZES)._replace(threads=2)))
    pretend(monkeypatch, "default")
    with gemm.use(chosen):
        assert gemm.choice("auto", SIZES) == gemm.Arithmetic(threads=2, gemm="mixed")
        with gemm.numpy_as_torch():
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {2}
    assert gemm.choice("auto", SIZES) == gemm.Arithmetic(threads=1, gemm="default")


@pytest.mark.parametrize("library", ["mixed", "mkl"])
def test_a_choice_that_this_machine_cannot_follow_is_refused(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mixed", has_onednn=False)
    with pytest.raises(RunError, match=f"must be computed with gemm: {library}"), gemm.use(gemm.Arithmetic(1, library)):
        pass
