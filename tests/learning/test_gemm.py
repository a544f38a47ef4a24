"""Which library multiplies: what `auto` means, and that it means the same as long as the machine remembers."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from asyncfl.errors import ScenarioError
from asyncfl.learning import Job, Training, gemm
from asyncfl.learning.mlp import MlpLearner, Way
from asyncfl.learning.models import Mlp


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A user's cache with nothing in it, and no variable that says what `auto` means."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(gemm.VARIABLE)
    remembered = gemm.remembered
    _forget()
    yield tmp_path / "cache" / "asyncfl"
    remembered.cache_clear()
    gemm.is_exact.cache_clear()


def _forget() -> None:
    gemm.remembered.cache_clear()
    gemm.is_exact.cache_clear()


def found(monkeypatch: pytest.MonkeyPatch, speedup: float, exact: bool = True) -> None:
    """A machine on which a probe would find that."""
    _forget()
    monkeypatch.setattr(gemm, "speedup", lambda product: speedup)
    monkeypatch.setattr(gemm, "_switch", lambda: torch.backends.mkldnn.matmul if exact else None)
    monkeypatch.setattr(gemm, "EXACT", 1.0)


def test_default_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "remembered", lambda: pytest.fail("was asked"))
    assert gemm.resolve("default") == "default"


@pytest.mark.parametrize(("speedup", "expected"), [(1.5, "mixed"), (gemm.FASTER, "default"), (1.05, "default")])
def test_auto_takes_onednn_where_it_is_faster_and_stays_with_that(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path, speedup: float, expected: str
) -> None:
    found(monkeypatch, speedup)
    assert gemm.resolve("auto") == expected
    (file,) = cache_folder.iterdir()
    assert json.loads(file.read_text()) == {"gemm": expected}
    found(monkeypatch, 2.5 - speedup)  # the machine is busy this time
    assert gemm.resolve("auto") == expected
    assert gemm.resolve("onednn") == "onednn"


def test_onednn_is_not_used_where_it_is_not_exact_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, 2.0, exact=False)
    assert gemm.resolve("auto") == gemm.resolve("onednn") == "default"
    found(monkeypatch, 2.0)
    monkeypatch.setattr(gemm, "EXACT", 0.0)
    assert gemm.resolve("onednn") == "default"


def test_the_variable_says_what_auto_means(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    found(monkeypatch, 2.0)
    monkeypatch.setenv(gemm.VARIABLE, "default")
    assert gemm.resolve("auto") == "default"
    with gemm.fixed("onednn"):
        assert gemm.resolve("auto") == "onednn"
    assert gemm.resolve("auto") == "default"
    assert not cache_folder.exists()
    monkeypatch.setenv(gemm.VARIABLE, "mkl")
    with pytest.raises(ScenarioError, match="ASYNCFL_GEMM must be default, onednn or mixed, got 'mkl'"):
        gemm.resolve("auto")


def test_a_cache_that_cannot_be_written_or_read_is_done_without(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    cache_folder.parent.write_text("a file")
    found(monkeypatch, 2.0)
    assert gemm.resolve("auto") == "mixed"
    cache_folder.parent.unlink()
    gemm._place().parent.mkdir(parents=True)
    gemm._place().write_text("{")
    _forget()
    assert gemm.resolve("auto") == "mixed"
    assert json.loads(gemm._place().read_text()) == {"gemm": "mixed"}
    assert len(list(cache_folder.iterdir())) == 1


@pytest.mark.parametrize("asked", ["auto", "default", "onednn"])
def test_it_is_found_out_in_one_thread_and_the_threads_are_there_again(
    monkeypatch: pytest.MonkeyPatch, cache_folder: Path, asked: str
) -> None:
    found(monkeypatch, 2.0)
    threads = []

    def probed(product: tuple[int, int, int]) -> float:
        threads.append(torch.get_num_threads())
        return 2.0

    monkeypatch.setattr(gemm, "speedup", probed)
    torch.set_num_threads(2)  # several wait for each other where the machine is busy
    set_to = []
    monkeypatch.setattr(torch, "set_num_threads", lambda n, really=torch.set_num_threads: set_to.append(n) or really(n))
    gemm.resolve(asked)
    assert torch.get_num_threads() == 2
    assert set_to == [1, 2], "whatever is asked, the libraries are left in the same state"
    assert threads == ([1] if asked == "auto" else [])


def test_of_processes_that_start_at_once_the_first_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, 2.0)
    place = gemm._place()

    def slow(product: tuple[int, int, int]) -> float:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('{"gemm": "default"}')
        return 2.0

    monkeypatch.setattr(gemm, "speedup", slow)
    assert gemm.resolve("auto") == "default"
    assert [file.name for file in place.parent.iterdir()] == [place.name]


def test_products_are_those_of_float32_and_the_setting_is_restored() -> None:
    switch = gemm._switch()
    before = None if switch is None else switch.fp32_precision
    library = gemm.resolve("onednn")
    assert gemm.speedup(gemm.LARGE) > 0
    with gemm.products(library):
        assert library == "default" or switch.fp32_precision == "bf16"
        a, b = gemm._matrices(gemm.LARGE)
        np.testing.assert_allclose(a @ b, a.double() @ b.double(), atol=1e-4)
    assert switch is None or switch.fp32_precision == before


def test_mixed_leaves_small_products_to_the_default() -> None:
    switch = gemm._switch()
    if switch is None:
        pytest.skip("no oneDNN here")
    a, b = gemm._matrices((20, 100, 256))
    default = (a @ b).numpy()
    with gemm.products("mixed"):
        assert switch.fp32_precision == "bf16"
        with gemm.small_products("mixed", small=True):
            np.testing.assert_array_equal(a @ b, default)
        assert switch.fp32_precision == "bf16"
        for library, small in (("onednn", True), ("mixed", False)):
            with gemm.small_products(library, small):
                assert switch.fp32_precision == "bf16"


@pytest.mark.parametrize("way", ["gram", "direct"])
@pytest.mark.parametrize(("units", "chosen"), [(8, "default"), (300, "onednn")])
def test_an_mlp_is_trained_by_onednn_where_its_products_are_large(
    monkeypatch: pytest.MonkeyPatch, way: Way, units: int, chosen: str
) -> None:
    found(monkeypatch, 2.0)
    rows = {}
    for library in ("mixed", "default", "onednn"):
        monkeypatch.setenv(gemm.VARIABLE, library)
        learner = MlpLearner(Mlp(hidden=(units,)), Training(lr=0.1, batch_size=96, epochs=2), (14, 14), 10, way=way)
        random = np.random.default_rng(0)
        base = random.normal(0, 0.1, learner.n_parameters).astype(np.float32)
        images = random.normal(0, 1, (96, 14, 14)).astype(np.float32)
        order = np.tile(np.arange(96), (2, 1))
        row = np.empty((1, learner.n_parameters), dtype=np.float32)
        learner.train(row, [Job(base=base, images=images, labels=np.arange(96) % 10, order=order)])
        rows[library] = row.tobytes()
    assert rows["mixed"] == rows[chosen]
    assert rows["default"] != rows["onednn"] or gemm.resolve("onednn") == "default"


def test_a_variable_that_was_not_set_is_not_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gemm.VARIABLE not in os.environ
    with gemm.fixed("onednn"):
        assert os.environ[gemm.VARIABLE] == "onednn"
    assert gemm.VARIABLE not in os.environ


@pytest.mark.parametrize(("seconds", "products"), [(0.0008, 10), (0.0018, 4), (1.0, 2)])
def test_a_probe_takes_the_best_of_ten_in_turn_or_ten_milliseconds_but_two(
    monkeypatch: pytest.MonkeyPatch, seconds: float, products: int
) -> None:
    """A product by each takes so long together, thrice that the first time; the second library takes half as long."""
    now = [5.0]
    tried: list[str] = []

    @contextmanager
    def library(name: str) -> Iterator[None]:
        tried.append(name)
        yield

    class Matrix:
        def __matmul__(self, other: object) -> None:
            now[0] += (2 if tried[-1] == "default" else 1) / 3 * seconds * (3 if len(tried) <= 2 else 1)

    monkeypatch.setattr(gemm.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(gemm, "products", library)
    monkeypatch.setattr(gemm, "_matrices", lambda product: (Matrix(), Matrix()))
    assert gemm.speedup(gemm.LARGE) == pytest.approx(2)
    assert tried == ["default", "onednn"] * products


def test_a_processor_is_told_by_its_first_core_or_else_by_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = "processor\t: 0\nmodel name\t: Fast 9\nmodel\t: 7\nno tab\nflags\t: avx\n\nmodel name\t: Other\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **how: cores)
    assert gemm._processor() == ": Fast 9 : 7 : avx"
    monkeypatch.setattr(Path, "read_text", lambda self, **how: "processor\t: 0\n")
    assert gemm._processor() == f"{platform.machine()} {platform.processor()}"
