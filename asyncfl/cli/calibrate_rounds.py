"""The part of `asyncfl calibrate` that fits to logs of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.quantities import NONE, number, quantity
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.run import read_scenario
from asyncfl.extras.calibration.round_fit import LoggedFederation, RoundFit, fit_rounds, moments_of, simulated_logs
from asyncfl.extras.calibration.round_log import read_round_logs
from asyncfl.scenario import Scenario
from asyncfl.world import World
from asyncfl.world.world_file import write_world


def calibrate_rounds(
    logs: Sequence[Path],
    scenarios: Sequence[Path],
    skip: int,
    out: Path,
    checks: int,
    predict: Path | None,
    json: bool,
) -> None:
    """Fit to CSV files of rounds, write the world of the first scenario, and print the fit. Raises ScenarioError where
    scenarios do not fit the logs."""
    if len(scenarios) not in (1, len(logs)):
        got = f"got {len(scenarios)} for {len(logs)} logs"
        raise ScenarioError(
            [Fault("--scenario", f"must be given once for all logs of rounds, or once for each, {got}")]
        )
    read = {path: read_scenario(path, []) for path in (*scenarios, predict) if path is not None}
    _check_evaluation(read)
    described = [read[path] for path in scenarios]
    described = described * len(logs) if len(described) == 1 else described
    other = None if predict is None else read[predict]
    federations = [
        LoggedFederation(path.name, scenario, tuple(read_round_logs(path, scenario.data.clients, skip)))
        for path, scenario in zip(logs, described, strict=True)
    ]
    fit = fit_rounds(federations, skip)
    world = fit.world(described[0])
    write_world(world, out, ", ".join(map(str, logs)))
    predicted: dict[str, float] = {}
    if other is not None:
        asked = LoggedFederation("", other, federations[0].logs)
        runs = simulated_logs(asked, fit.world(other), range(100, 100 + max(checks, 2)), rounds=other.protocol.rounds)
        predicted = {one.name: one.observed for one in moments_of("", runs, skip)}
    if json:
        factors = {_of_group(group): factor for group, factor in fit.factors.items()}
        between = "evaluate_s" if world.evaluate_at == "clients" else "server_s"
        fitted = {"factors": factors, "sigma": fit.sigma, between: fit.between_s, "processors": fit.processors}
        moments = [asdict(one) for one in fit.moments]
        print_json(
            {"world": world.model_dump(mode="json"), "fitted": fitted, "moments": moments, "predicted": predicted}
        )
        return
    print_table(["part", "fitted"], _parts(fit, world))
    columns = ["log", "over its rounds", "observed", "fitted", "apart"]
    print_table(columns, [_moment_row(*one) for one in _moments(fit)])
    print_text("apart: in units of the standard error of the log, or of 1 % of the mean where that is more")
    if predicted:
        rows = [[name, number(value)] for name, value in predicted.items()]
        print_table([f"prediction of {predict}", "predicted"], rows)
    print_text(
        "note: a log of rounds shows no links, no absences and no single client: these are the scenario's, and all "
        "clients of a group share one factor"
    )
    console.print(f"{out} written")


def _check_evaluation(scenarios: Mapping[Path, Scenario]) -> None:
    """Refuse scenarios that differ in who evaluates between two rounds, which the fitted seconds are of, or in which
    clients do not evaluate after each round."""
    first = next(iter(scenarios.values()))
    for path, one in scenarios.items():
        if one.world.evaluate_at != first.world.evaluate_at:
            told = f"must be {first.world.evaluate_at} as in the first scenario, got {one.world.evaluate_at}"
            raise ScenarioError([Fault("world.evaluate_at", told)], path)
        every = one.evaluation.test_every
        if one.world.evaluate_at == "clients" and every != 1:
            told = f"must be 1 where clients evaluate (world.evaluate_at): a round is taken to hold that, got {every}"
            raise ScenarioError([Fault("evaluation.test_every", told)], path)


def _of_group(group: tuple[int, int] | None) -> str:
    return "other clients" if group is None else f"clients {group[0]} to {group[1]}"


def _parts(fit: RoundFit, world: World) -> list[list[str]]:
    """Return the rows of the table of fitted numbers. `world`: the fitted one."""
    alone = len(fit.factors) == 1
    rows = [
        [f"s per sample, {'all clients' if alone else _of_group(group)}", f"{number(factor)} x the scenario's"]
        for group, factor in fit.factors.items()
    ]
    shared = "one for each client and the server" if fit.processors is None else number(fit.processors)
    return [
        *rows,
        ["task jitter", f"lognormal, sigma {number(fit.sigma)}"],
        [
            "server, a version" if world.evaluate_at == "server" else "client, an evaluation",
            quantity(fit.between_s, "s"),
        ],
        ["processors", shared],
    ]


def _moments(fit: RoundFit) -> list[tuple[str, str, float, float, float]]:
    return [
        (one.federation, one.name, one.observed, one.fitted, (one.fitted - one.observed) / one.tolerance)
        for one in fit.moments
    ]


def _moment_row(federation: str, name: str, observed: float, fitted: float, apart: float) -> list[str]:
    return [federation, name, number(observed), number(fitted), f"{apart:+.1f}" if np.isfinite(apart) else NONE]
