"""The choice of kernels for convolutions behind pooling: the installation, the CPU, the scenario, the environment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncfl.api import _conditions
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.learning import LeNet, Training, gemm, kernels, make_learner
from asyncfl.learning.kernels import TORCH, available, resolve_kernels
from asyncfl.scenario import Scenario


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    yield
    forget()


def forget() -> None:
    kernels.library.cache_clear()
    kernels.available.cache_clear()


class Cpu:
    """A compiled library on a CPU whose widest vectors have so many numbers."""

    def __init__(self, widest: int) -> None:
        self.asyncfl_widest = lambda: widest


def pretend(monkeypatch: pytest.MonkeyPatch, widest: int) -> None:
    forget()
    monkeypatch.setattr(kernels, "library", lambda: Cpu(widest))
    monkeypatch.setattr(kernels.library, "cache_clear", lambda: None, raising=False)


@pytest.mark.parametrize(
    ("widest", "names"), [(0, ("torch",)), (8, ("torch", "avx2")), (16, ("torch", "avx2", "avx512"))]
)
def test_the_widest_vectors_of_the_cpu_are_taken(
    widest: int, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, widest)
    assert available() == names
    assert resolve_kernels("auto") == resolve_kernels("compiled") == names[-1]
    assert resolve_kernels("torch") == TORCH


def test_auto_takes_torch_where_it_has_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 8)
    torch.set_num_threads(2)
    assert (resolve_kernels("auto"), resolve_kernels("compiled")) == (TORCH, "avx2")


def test_the_environment_variable_decides_unless_the_scenario_says_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 16)
    monkeypatch.setenv(kernels.VARIABLE, "avx2")
    assert (resolve_kernels("auto"), resolve_kernels("compiled"), resolve_kernels("torch")) == ("avx2", "avx2", TORCH)
    monkeypatch.setenv(kernels.VARIABLE, TORCH)
    assert resolve_kernels("compiled") == TORCH
    monkeypatch.setenv(kernels.VARIABLE, "sse")
    with pytest.raises(ScenarioError, match="ASYNCFL_KERNELS must be torch, avx2 or avx512, got 'sse'"):
        resolve_kernels("auto")


def test_an_installation_without_a_compiler_trains_by_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(kernels, "LIBRARY", tmp_path / "none.so")
    assert available() == (TORCH,)
    assert resolve_kernels("compiled") == TORCH
    assert make_learner(LeNet(), Training(kernels="compiled", device="cpu"), (1, 28, 28), 10).kernels == TORCH


def test_a_library_that_is_damaged_or_of_another_version_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "kernels.so"
    damaged.write_bytes(b"no library")
    forget()
    monkeypatch.setattr(kernels, "LIBRARY", damaged)
    assert available() == (TORCH,)
    monkeypatch.undo()
    forget()
    if kernels.library() is None:
        pytest.skip("this installation has no compiled kernels")
    forget()
    monkeypatch.setattr(kernels, "VERSION", kernels.VERSION + 1)
    assert available() == (TORCH,)


def test_other_processes_compute_with_the_kernels_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 16)
    with gemm.use(gemm.Arithmetic(1, "default", "avx2")):
        assert gemm.choice("default", kernels="auto").kernels == "avx2"
    assert gemm.choice("default", kernels="auto").kernels == "avx512"
    with gemm.use(gemm.Arithmetic(1, "default", TORCH)):
        assert resolve_kernels("compiled") == TORCH


@pytest.mark.parametrize(("network", "names"), [("lenet", 3), ("mlp", 1)])
def test_an_interrupted_run_goes_on_with_its_own_kernels_or_begins_again(
    network: str, names: int, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of a run lies in a folder that is named by its conditions; those of an MLP have no kernels."""
    pretend(monkeypatch, 16)
    scenario, found = Scenario.read({**tiny, "model": {"kind": network}}), set()
    for name in kernels.KERNELS:
        monkeypatch.setenv(kernels.VARIABLE, name)
        found.add(_conditions(scenario))
    assert len(found) == names


@pytest.mark.parametrize("name", ["avx512", "sse"])
def test_kernels_that_this_machine_lacks_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 8)
    with (
        pytest.raises(
            RunError, match=f"computed with kernels for {name}, which this machine or its installation lacks"
        ),
        gemm.use(gemm.Arithmetic(1, "default", name)),
    ):
        pass
