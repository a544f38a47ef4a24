from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from asyncfl.learning import gemm


@pytest.fixture(autouse=True)
def fresh_probe() -> Iterator[None]:
    gemm.probe.cache_clear()
    yield
    gemm.probe.cache_clear()


def test_default_changes_nothing() -> None:
    assert gemm.resolve("default") == ("default", "default")


def test_the_probe_has_one_of_its_answers_and_restores_the_setting() -> None:
    switch = gemm._switch()
    before = None if switch is None else switch.fp32_precision
    assert gemm.probe() in {"onednn", "not exact", "not faster", "not available"}
    if switch is not None:
        assert switch.fp32_precision == before
        with gemm.products("onednn"):
            assert switch.fp32_precision == "bf16"
        assert switch.fp32_precision == before


@pytest.mark.parametrize(
    ("found", "expected"),
    [("onednn", ("onednn", "onednn")), ("not faster", ("default", "default (oneDNN not faster)"))],
)
def test_onednn_is_used_only_where_the_probe_allows(
    monkeypatch: pytest.MonkeyPatch, found: str, expected: tuple[str, str]
) -> None:
    monkeypatch.setattr(gemm, "probe", lambda: found)
    assert gemm.resolve("onednn") == expected


def test_without_the_switch_torch_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_switch", lambda: None)
    assert gemm.probe() == "not available"
    with gemm.products("onednn"):
        pass


def test_an_inexact_product_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if gemm._switch() is None:
        pytest.skip("this torch has no such switch")
    monkeypatch.setattr(gemm, "EXACT", 0.0)
    assert gemm.probe() == "not exact"


def test_a_faster_library_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_switch", lambda: torch.backends.mkldnn.matmul if gemm_switchable() else None)
    monkeypatch.setattr(gemm, "FASTER", 0.0)
    monkeypatch.setattr(gemm, "EXACT", 1.0)
    assert gemm.probe() in {"onednn", "not available"}


def gemm_switchable() -> bool:
    return hasattr(torch.backends.mkldnn, "matmul") and hasattr(torch.backends.mkldnn.matmul, "fp32_precision")
