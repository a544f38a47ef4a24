"""The library that multiplies matrices: what `gemm: auto` chooses, that the choice is kept, which products follow it.

On some CPUs oneDNN rounds as the default library of torch does, on others it does not, so bytes tell nothing:
these tests watch the switch that routes products, or compare numbers within the rounding of float32.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from asyncfl.base.errors import ScenarioError
from asyncfl.learning import Training, gemm
from asyncfl.learning.compute_settings import computing_with, numpy_as_torch
from asyncfl.learning.mlp import MlpLearner, Way
from asyncfl.learning.models import Mlp
from tests.learning.jobs import random_jobs
from tests.learning.jobs import train as train_jobs


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


def test_a_damaged_or_unwritable_cache_is_no_error(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    cache_folder.parent.write_text("a file where the folder should be")
    pretend(monkeypatch, 2.0)
    assert gemm.resolve("auto") == "mixed"
    cache_folder.parent.unlink()
    gemm._choice_file().parent.mkdir(parents=True)
    gemm._choice_file().write_text("{")
    forget()
    assert gemm.resolve("auto") == "mixed"
    assert json.loads(gemm._choice_file().read_text()) == {"gemm": "mixed"}
    assert len(list(cache_folder.iterdir())) == 1


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


def train(library: str, way: Way) -> np.ndarray:
    """Train an MLP for two steps of 96 samples, products by `library`."""
    model, shape = Mlp(hidden=(300,)), (14, 14)
    with gemm.override_auto(library):
        learner = MlpLearner(model, Training(lr=0.1, batch_size=96, epochs=2), shape, 10, way=way)
        return train_jobs(learner, *random_jobs(model, shape, 10, (96,), 2))[0][0]


@pytest.mark.parametrize("way", ["gram", "direct"])
def test_an_mlp_learns_the_same_by_any_library_within_rounding(way: Way) -> None:
    default = train("default", way)
    for library in ("onednn", "mixed"):
        np.testing.assert_allclose(train(library, way), default, rtol=0, atol=1e-5)


def test_an_earlier_run_is_repeated_with_its_threads_and_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1.0)
    with computing_with(threads=2, gemm="onednn"):
        assert torch.get_num_threads() == 2
        assert gemm.resolve("auto") == "onednn"
        with numpy_as_torch():
            assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {2}
    assert torch.get_num_threads() == 1
    assert gemm.resolve("auto") == "default"
