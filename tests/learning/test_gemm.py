"""The library that multiplies matrices: what `gemm: auto` chooses, that the choice is kept, which products follow it.

On some CPUs oneDNN rounds as the default library of torch does, on others it does not, so bytes tell nothing:
these tests watch the switch that routes products, or compare numbers within the rounding of float32.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch.utils._python_dispatch import TorchDispatchMode

from asyncfl.errors import ScenarioError
from asyncfl.learning import Job, Training, gemm
from asyncfl.learning.compute_settings import computing_with, numpy_as_torch
from asyncfl.learning.mlp import MlpLearner, Way
from asyncfl.learning.models import Mlp

MULTIPLICATIONS = ("aten::mm", "aten::addmm", "aten::addmm_")


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache of the user, with `ASYNCFL_GEMM` unset."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(gemm.VARIABLE)
    stored_choice = gemm.stored_choice
    forget()
    yield tmp_path / "cache" / "asyncfl"
    stored_choice.cache_clear()
    gemm.is_exact.cache_clear()


def forget() -> None:
    """Clear what this process has found out, as in a new process."""
    gemm.stored_choice.cache_clear()
    gemm.is_exact.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, speedup: float, has_onednn: bool = True) -> SimpleNamespace:
    """Pretend a CPU on which oneDNN is exact and `speedup` times as fast; return the switch that routes products."""
    forget()
    switch = SimpleNamespace(fp32_precision="none")
    monkeypatch.setattr(gemm, "speedup", lambda product: speedup)
    monkeypatch.setattr(gemm, "_switch", lambda: switch if has_onednn else None)
    return switch


def test_default_runs_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "stored_choice", lambda: pytest.fail("a probe ran"))
    assert gemm.resolve("default") == "default"


@pytest.mark.parametrize(("speedup", "expected"), [(1.5, "mixed"), (gemm.FASTER, "default"), (1.05, "default")])
def test_auto_takes_onednn_where_it_is_faster_and_keeps_the_choice(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path, speedup: float, expected: str
) -> None:
    pretend(monkeypatch, speedup)
    assert gemm.resolve("auto") == expected
    (file,) = cache_folder.iterdir()
    assert json.loads(file.read_text()) == {"gemm": expected}
    pretend(monkeypatch, 2.5 - speedup)  # another process, on a machine that is busy this time
    assert gemm.resolve("auto") == expected
    assert gemm.resolve("onednn") == "onednn"


def test_onednn_is_not_used_where_it_is_missing_or_inexact(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2.0, has_onednn=False)
    assert gemm.resolve("auto") == gemm.resolve("onednn") == "default"
    pretend(monkeypatch, 2.0)
    monkeypatch.setattr(gemm, "EXACT", 0.0)
    assert gemm.resolve("onednn") == "default"


def test_the_environment_variable_decides_for_auto(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    pretend(monkeypatch, 2.0)
    monkeypatch.setenv(gemm.VARIABLE, "default")
    assert gemm.resolve("auto") == "default"
    with gemm.override_auto("onednn"):
        assert gemm.resolve("auto") == "onednn"
    assert gemm.resolve("auto") == "default"
    assert not cache_folder.exists()
    monkeypatch.setenv(gemm.VARIABLE, "mkl")
    with pytest.raises(ScenarioError, match="ASYNCFL_GEMM must be default, onednn or mixed, got 'mkl'"):
        gemm.resolve("auto")


def test_the_environment_variable_is_unset_again() -> None:
    with gemm.override_auto("onednn"):
        assert os.environ[gemm.VARIABLE] == "onednn"
    assert gemm.VARIABLE not in os.environ


def test_a_damaged_or_unwritable_cache_is_no_error(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    cache_folder.parent.write_text("a file where the folder should be")
    pretend(monkeypatch, 2.0)
    assert gemm.resolve("auto") == "mixed"
    cache_folder.parent.unlink()
    gemm._place().parent.mkdir(parents=True)
    gemm._place().write_text("{")
    forget()
    assert gemm.resolve("auto") == "mixed"
    assert json.loads(gemm._place().read_text()) == {"gemm": "mixed"}
    assert len(list(cache_folder.iterdir())) == 1


@pytest.mark.parametrize("setting", ["auto", "default", "onednn"])
def test_the_probe_runs_in_one_thread_and_restores_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    pretend(monkeypatch, 2.0)
    threads: list[int] = []
    monkeypatch.setattr(gemm, "speedup", lambda product: threads.append(torch.get_num_threads()) or 2.0)
    torch.set_num_threads(2)
    set_to = []
    monkeypatch.setattr(torch, "set_num_threads", lambda n, really=torch.set_num_threads: set_to.append(n) or really(n))
    gemm.resolve(setting)
    assert torch.get_num_threads() == 2
    assert set_to == [1, 2], "each setting leaves the libraries in the same state"
    assert threads == ([1] if setting == "auto" else [])


def test_of_processes_that_start_at_once_the_first_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2.0)
    place = gemm._place()

    def slow_probe(product: tuple[int, int, int]) -> float:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('{"gemm": "default"}')
        return 2.0

    monkeypatch.setattr(gemm, "speedup", slow_probe)
    assert gemm.resolve("auto") == "default"
    assert [file.name for file in place.parent.iterdir()] == [place.name]


def test_the_switch_is_set_inside_and_restored_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    switch = pretend(monkeypatch, 2.0)
    for library, small, inside in (
        ("default", True, "none"),
        ("onednn", True, "bf16"),
        ("mixed", True, "none"),
        ("mixed", False, "bf16"),
    ):
        with gemm.products(library):
            before = switch.fp32_precision
            with gemm.small_products(library, small):
                assert switch.fp32_precision == inside, (library, small)
            assert switch.fp32_precision == before
        assert switch.fp32_precision == "none"


def test_products_of_onednn_are_exact_to_float32_on_this_cpu() -> None:
    switch = gemm._switch()
    before = None if switch is None else switch.fp32_precision
    library = gemm.resolve("onednn")
    assert gemm.speedup(gemm.LARGE) > 0
    with gemm.products(library):
        assert library == "default" or switch.fp32_precision == "bf16"
        a, b = gemm._matrices(gemm.LARGE)
        np.testing.assert_allclose(a @ b, a.double() @ b.double(), atol=1e-4)
    assert switch is None or switch.fp32_precision == before


class WatchedProducts(TorchDispatchMode):
    """Record the state of the switch at each matrix product."""

    def __init__(self, switch: SimpleNamespace) -> None:
        super().__init__()
        self.switch = switch
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.name().partition(".")[0] in MULTIPLICATIONS:
            self.seen.append(self.switch.fp32_precision)
        return func(*args, **(kwargs or {}))


def train(library: str, way: Way, units: int) -> np.ndarray:
    """Train an MLP with `units` hidden units for two steps of 96 samples, products by `library`."""
    with gemm.override_auto(library):
        learner = MlpLearner(Mlp(hidden=(units,)), Training(lr=0.1, batch_size=96, epochs=2), (14, 14), 10, way=way)
        random = np.random.default_rng(0)
        base = random.normal(0, 0.1, learner.n_parameters).astype(np.float32)
        images = random.normal(0, 1, (96, 14, 14)).astype(np.float32)
        order = np.tile(np.arange(96), (2, 1))
        row = np.empty((1, learner.n_parameters), dtype=np.float32)
        learner.train(row, [Job(base=base, images=images, labels=np.arange(96) % 10, order=order)])
    return row[0]


@pytest.mark.parametrize("way", ["gram", "direct"])
@pytest.mark.parametrize(
    ("library", "units", "expected"),
    [("default", 300, "none"), ("onednn", 8, "bf16"), ("mixed", 8, "none"), ("mixed", 300, "bf16")],
)
def test_mixed_sends_large_products_of_an_mlp_to_onednn_and_small_ones_to_the_default(
    monkeypatch: pytest.MonkeyPatch, way: Way, library: str, units: int, expected: str
) -> None:
    """The switch stands on "bf16" for oneDNN and on "none" for the default, at every product of a training."""
    with WatchedProducts(pretend(monkeypatch, 2.0)) as watched:
        train(library, way, units)
    products = watched.seen[1:] if library != "default" else watched.seen  # the first is the check for exactness
    assert len(products) >= 9
    assert set(products) == {expected}


@pytest.mark.parametrize("way", ["gram", "direct"])
def test_an_mlp_learns_the_same_by_any_library_within_rounding(way: Way) -> None:
    default = train("default", way, 300)
    for library in ("onednn", "mixed"):
        np.testing.assert_allclose(train(library, way, 300), default, rtol=0, atol=1e-5)


def test_an_earlier_run_is_repeated_with_its_threads_and_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1.0)
    with computing_with(threads=2, gemm="onednn"):
        assert torch.get_num_threads() == 2
        assert gemm.resolve("auto") == "onednn"
        with numpy_as_torch():
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {2}
    assert torch.get_num_threads() == 1
    assert gemm.resolve("auto") == "default"
