"""Check somebody else's strategy for Flower against laws, without a network or training.

    python -m asyncfl.testing.flower flwr.server.strategy:FedAvg
    python -m asyncfl.testing.flower my_package:make_strategy --with min_fit_clients=4 --skip once

The strategy is a class, or a function that returns one, with `aggregate_fit` (`flwr.server.strategy`) or with
`aggregate_train` (`flwr.serverapp.strategy`). It is called with `initial_parameters` where it takes them, and with what
`--with` says. The laws are those of `asyncfl.testing.strategy_laws`. Exit status: 0 all laws hold, 1 one is broken, 2
the strategy cannot be checked.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import AsyncflError
from asyncfl.extras.live.flower.records import flower
from asyncfl.testing.strategy_laws import LAWS, N_PARAMETERS, Driven, Make, Reply, check_strategy, report

CLIENTS = 10
SHAPES = ((3, 2), (N_PARAMETERS - 6,))
"""Shapes of the arrays of a model."""


class StrategyError(AsyncflError):
    """A strategy that cannot be checked."""


def strategy_of(name: str) -> Any:
    """Return the class or function that `name`, as `package.module:name`, stands for. Raises StrategyError."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise StrategyError(f"name a strategy as package.module:Strategy, got {name}")
    sys.path.insert(0, "")  # modules of the current folder
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise StrategyError(f"{name} cannot be imported: {error}") from None
    finally:
        sys.path.remove("")
    if not callable(found):
        raise StrategyError(f"{name} must be a class or a function that returns a strategy, got {found!r}")
    return found


class FitStrategy:
    """A strategy with `aggregate_fit` (`flwr.server`) as the laws drive it, with `CLIENTS` clients."""

    def __init__(self, made: Any, version_key: str | None = None) -> None:
        from flwr.server import SimpleClientManager

        self._made, self._key = made, version_key
        self._manager = SimpleClientManager()
        for client in range(CLIENTS):
            self._manager.register(_proxy(client))
        made.initialize_parameters(self._manager)

    def ask(self, round_: int, model: Vector) -> list[int]:
        asked = self._made.configure_fit(round_, _parameters(model), self._manager)
        return [int(proxy.cid) for proxy, _ in asked]

    def promised(self) -> int | None:
        count = getattr(self._made, "num_fit_clients", None)
        return None if count is None else min(int(count(CLIENTS)[0]), CLIENTS)

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        from flwr.common import Code, FitRes, Status, parameters_to_ndarrays

        results = []
        for one in replies:
            answer = FitRes(Status(Code.OK, ""), _parameters(one.model), one.examples, _told(one, self._key))
            results.append((_proxy(one.client), answer))
        made, _ = self._made.aggregate_fit(round_, results, [])
        return None if made is None else _flat(parameters_to_ndarrays(made))


class MessageStrategy:
    """A strategy with `aggregate_train` (`flwr.serverapp`) as the laws drive it, with `CLIENTS` nodes."""

    def __init__(self, made: Any, version_key: str | None = None) -> None:
        from flwr.supercore.task_identity import TaskIdentity

        for name in ("task_id", "run_id", "node_id"):
            # Flower makes messages in a process that it has started for a run.
            if getattr(TaskIdentity, f"_{name}") is None:
                setattr(TaskIdentity, name, 1)
        self._made, self._key = made, version_key
        self._asked: dict[int, Any] = {}

    def ask(self, round_: int, model: Vector) -> list[int]:
        from flwr.app import ArrayRecord, ConfigRecord

        grid = SimpleNamespace(get_node_ids=lambda: range(1, CLIENTS + 1))
        messages = [*self._made.configure_train(round_, ArrayRecord(_arrays(model)), ConfigRecord(), grid)]
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = f"{round_}-{number}"
        asked = [int(message.metadata.dst_node_id) for message in messages]
        self._asked = dict(zip(asked, messages, strict=True))
        return asked

    def promised(self) -> int | None:
        share = getattr(self._made, "fraction_train", None)
        return None if share is None else max(int(CLIENTS * share), int(getattr(self._made, "min_train_nodes", 0)))

    def aggregate(self, round_: int, replies: Sequence[Reply]) -> Vector | None:
        from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

        messages = []
        for one in replies:
            metrics = MetricRecord({"num-examples": one.examples, **_told(one, self._key)})
            content = RecordDict({"arrays": ArrayRecord(_arrays(one.model)), "metrics": metrics})
            messages.append(Message(content, reply_to=self._asked[one.client]))
        made, _ = self._made.aggregate_train(round_, messages)
        return None if made is None else _flat(made.to_numpy_ndarrays())


def _told(one: Reply, key: str | None) -> dict[str, Any]:
    return {} if key is None or one.version is None else {key: one.version}


def _arrays(model: Vector) -> list[Vector]:
    split = int(np.prod(SHAPES[0]))
    return [model[:split].reshape(SHAPES[0]).copy(), model[split:].reshape(SHAPES[1]).copy()]


def _flat(arrays: Sequence[Any]) -> Vector:
    return np.concatenate([np.asarray(one, dtype=np.float32).ravel() for one in arrays])


def _parameters(model: Vector) -> Any:
    from flwr.common import ndarrays_to_parameters

    return ndarrays_to_parameters(_arrays(model))


def _proxy(client: int) -> Any:
    from flwr.server.client_proxy import ClientProxy

    def never(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("no law sends a message")

    names = "get_properties", "get_parameters", "fit", "evaluate", "reconnect"
    return type("Proxy", (ClientProxy,), dict.fromkeys(names, never))(str(client))


def _name(strategy: Any) -> str:
    return str(getattr(strategy, "__name__", strategy))


def making(strategy: Any, given: Mapping[str, Any], version_key: str | None = None) -> Make:
    """Return a function that makes fresh strategies, given the initial model."""
    try:
        takes = set(inspect.signature(strategy).parameters)
    except ValueError:  # a class without a signature
        takes = set()

    def make(initial: Vector) -> Driven:
        own = {"initial_parameters": _parameters(initial)} if "initial_parameters" in takes else {}
        try:
            made = strategy(**own, **given)
        except Exception as error:  # somebody else's code
            why = f"{type(error).__name__}: {error}"
            raise StrategyError(f"{_name(strategy)} cannot be made: {why}; name arguments by --with") from None
        if hasattr(made, "aggregate_fit"):
            return FitStrategy(made, version_key)
        if hasattr(made, "aggregate_train"):
            return MessageStrategy(made, version_key)
        raise StrategyError(f"{_name(strategy)} has neither aggregate_fit nor aggregate_train")

    return make


def _given(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a strategy, print the report, and return the exit status."""
    parser = argparse.ArgumentParser("python -m asyncfl.testing.flower", description="Check a strategy for Flower.")
    parser.add_argument("strategy", help="package.module:Strategy, a class or a function that returns one")
    parser.add_argument("--with", dest="given", metavar="NAME=VALUE", type=_given, action="append", default=[])
    parser.add_argument("--version-key", metavar="KEY", help="metric of replies that tells the version trained from")
    parser.add_argument("--skip", metavar="LAW", choices=list(LAWS), action="append", default=[])
    asked = parser.parse_args(arguments)
    try:
        flower()
        import flwr

        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make = making(strategy_of(asked.strategy), dict(asked.given), asked.version_key)
            found = check_strategy(make, versions=asked.version_key is not None, skip=asked.skip)
    except AsyncflError as error:
        print(f"asyncfl: {error}", file=sys.stderr)
        return 2
    print("\n".join(report(f"{asked.strategy}, flwr {flwr.__version__}", found)))
    return int(any(one.holds is False for one in found))


if __name__ == "__main__":
    sys.exit(main())
