"""`check_algorithm` accepts every algorithm of ours, and names what is wrong with others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from asyncfl.algorithms import AcceptedUpdates, Algorithm, Payload, Payloads
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import PAYLOADS, Leak, Public
from asyncfl.manual.parts import components
from asyncfl.testing import check_algorithm

OURS = [part.model for part in components() if part.path.startswith("algorithm.")]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_our_algorithms_keep_the_laws(kind: type[Algorithm]) -> None:
    check_algorithm(kind())


SHARED = np.zeros(7, dtype=np.float32)


def changed(algorithm: Any, state: ClientState, vectors: dict[str, Vector], base: Vector) -> tuple[Any, ClientState]:
    """What a wrong client does, by the name of its fault."""
    match algorithm.wrong:
        case "base":
            base += 1
        case "shared":
            SHARED.__iadd__(1)
            vectors = {"sum": SHARED}
        case "short":
            vectors = {"sum": vectors["sum"][:-1]}
        case "undeclared":
            vectors = {**vectors, "more": vectors["sum"]}
        case "random":
            vectors = {"sum": np.random.default_rng().normal(size=len(base)).astype(np.float32)}
        case "entry":
            return vectors, ClientState({"other": base})
        case "no state":
            return vectors, {}  # type: ignore[return-value]
    return vectors, state


class Wrong(Algorithm):
    """An algorithm with one fault."""

    kind: str = "tests.testing.test_algorithm_laws:Wrong"
    carries = ("own",)
    wrong: str

    def payloads(self, n_parameters: int) -> Payloads:
        return Payloads((Payload("sum", n_parameters, Leak(PAYLOADS, Public("never"))),))

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector | None:
        return np.zeros(3, dtype=np.float32) if self.wrong == "correction" else None

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        return changed(self, ClientState({"own": base.copy()}), {"sum": base + trained}, base)

    def start(self, n_parameters: int, clients: int) -> Any:
        return [] if self.wrong == "start" else {"steps": np.zeros(n_parameters, dtype=np.float32)}

    def apply(self, state: Any, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, Any]:
        match self.wrong:
            case "step":
                step *= 2
            case "server state":
                state["steps"] += step
            case "infinite":
                return step / np.float32(0), state
            case "order":
                return step + accepted.payloads["sum"][0], state
        return step, state


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ("base", "after_training must not change its arguments"),
        ("shared", "after_training must be a function of its arguments"),
        ("short", r"payload sum must be \(8,\) numbers"),
        ("undeclared", "sends payload more; declared payloads: sum"),
        ("random", "after_training must be a function of its arguments"),
        ("entry", r"a client's state must have \('own',\) only; it has {'other'}"),
        ("no state", "after_training must return a ClientState"),
        ("correction", r"correction must be \(8,\) numbers"),
        ("start", "the server's state must be arrays by name; got list"),
        ("step", "apply must not change its arguments"),
        ("server state", "apply must not change its arguments"),
        ("infinite", "apply: step must be finite"),
        ("order", "a step must not depend on the order of the updates"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_a_wrong_algorithm_is_caught(wrong: str, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_algorithm(Wrong(wrong=wrong))


def test_an_algorithm_without_a_fault_passes() -> None:
    check_algorithm(Wrong(wrong="nothing"))
