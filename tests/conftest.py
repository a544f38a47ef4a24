"""What all tests share: one thread, and data that are always there."""

import gc
import os
import shutil
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Which library multiplies faster on this machine, and what was found before, must not change what a test sees.
os.environ["ASYNCFL_GEMM"] = "default"

from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from asyncfl.cli import main  # noqa: E402
from asyncfl.scenario import Scenario  # noqa: E402

# The machines that run the tests are shared: a slow example is no failure, and examples are the same each time.
settings.register_profile("asyncfl", deadline=None, derandomize=True)
settings.load_profile("asyncfl")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays until the end: Python need not look for garbage in it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the workflow first.

    They share a run of the workflow, half a minute: what is first in line stays with one worker. Idle ones take over
    from the end.
    """
    items.sort(key=lambda item: not item.nodeid.startswith("tests/workflow/"))


@pytest.fixture
def tiny() -> dict[str, Any]:
    """A scenario that trains in a moment on stand-in data, as plain values."""
    return {
        "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 20, "source": "embedded", "test_samples": 50},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"lr": 0.05, "batch_size": 10},
        "protocol": {"kind": "sync", "rounds": 3},
        "world": {
            "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
            "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6},
        },
    }


@pytest.fixture
def scenario(tiny: dict[str, Any]) -> Scenario:
    """`tiny`, read."""
    return Scenario.read(tiny)


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls `asyncfl` with arguments in this process: its status, what it printed, its errors."""

    def call(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["asyncfl", *map(str, arguments)])
        status: object = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        return (status, *capsys.readouterr())

    return call


@pytest.fixture
def no_own_module_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports as `my_...`, and where from, is not what the next one finds by the same name."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("asyncfl.base.own_classes._beside", {})
    yield
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
