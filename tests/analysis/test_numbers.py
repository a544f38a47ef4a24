"""What evidence, claims, statistics, targets, amounts and limits come to, against a written list.

`python tests/analysis/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from asyncfl.analysis.claims import Claim
from asyncfl.analysis.claims.asked import Asked, exceeds, reaches
from asyncfl.analysis.contact_sheet import decibels
from asyncfl.analysis.evidence import p_values, power
from asyncfl.analysis.evidence.decision import AllOf, AnyOf, Comparison, Decision
from asyncfl.analysis.evidence.discoveries import q_values
from asyncfl.analysis.evidence.looks import Looks
from asyncfl.analysis.evidence.samples import Sample, excess, pair
from asyncfl.analysis.figures.drawing import log_label
from asyncfl.analysis.final_values import difference, heading
from asyncfl.analysis.grid import Grid, MissingError, fluctuation
from asyncfl.analysis.over_seeds import over_seeds
from asyncfl.analysis.statistics import convention, half_width
from asyncfl.analysis.style import around
from asyncfl.analysis.target import Settling, Target
from asyncfl.analysis.timeline import spread
from asyncfl.limits import _duration
from asyncfl.quantities import number, quantity, scale_of, with_interval, with_unit
from asyncfl.results.verdicts import leaning, why_undecided
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
INF, NAN = math.inf, math.nan
LOOKS = Looks(tuple(range(12)), (3, 6, 12))
SAMPLES: dict[str, list[float]] = {
    "clear": [1.0, 1.1, 0.9, 1.2, 1.0, 1.1, 0.8, 1.0, 1.3, 0.9, 1.0, 1.1],
    "against": [-1.0, -1.1, -0.9, -1.2, -1.0, -1.1, -0.8],
    "unclear": [0.5, -0.4, 0.9, -0.1, 0.2, 0.4],
    "hopeless": [0.1, -0.4, 0.5, -0.1, 0.2, -0.4],
    "same": [0.3] * 8, "ties": [0.0] * 8, "diverged": [INF, 1.0, 2.0, INF, 1.0, 0.5, INF, 2.0],
    "both ways": [INF, -INF, 1.0, 2.0, 3.0, -1.0, 2.0], "two": [0.4, 0.5], "one": [0.4], "none": [],
}  # fmt: skip
VALUES = [
    0.0,
    1e-12,
    0.00123,
    0.0999,
    0.1,
    0.5,
    0.9994,
    0.9996,
    1.0,
    9.995,
    12.0,
    99.95,
    999.4,
    999.6,
    1e3,
    12_345.0,
    1e6,
    2.5e9,
    1e15,
    -3.3,
    INF,
    NAN,
]


def _decision(one: Decision) -> Any:
    by = one.by
    wanting = [[each.comparison.about, each.more] for each in one.wanting]
    return [
        one.answer,
        one.p_holds,
        one.p_fails,
        one.p,
        one.comparisons,
        wanting,
        by.comparison.about,
        by.reading,
        by.alpha,
        by.more,
        by.is_futile,
    ]


def _comparison(name: str, **fields: Any) -> Comparison:
    values = np.array(SAMPLES[name])
    return Comparison(np.arange(len(values)), values, name, **fields)


def _evidence() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, values in SAMPLES.items():
        for looks, called in ((Looks(), ""), (LOOKS, ", looks"), (Looks(LOOKS.seeds, (2, 8)), ", other looks")):
            yield f"{name}{called}", lambda name=name, looks=looks: [
                _decision(_comparison(name, strict=strict).decide(looks, *parts))
                for strict in (True, False) for parts in ((1.0, 1.0), (0.5, 0.01))
            ]  # fmt: skip
        for tolerated in (0.05, 0.3):
            if values:
                counted = partial(_comparison, name, kind="count", tolerated=tolerated)
                yield f"{name} counted, {tolerated}", lambda one=counted: [_decision(one().decide()), one().shown(0.2)]
    yield (
        "without randomness",
        lambda: [
            _decision(_comparison(name, kind="deterministic", strict=strict).decide(LOOKS))
            for name in ("same", "ties")
            for strict in (True, False)
        ],
    )
    for name in SAMPLES:
        for room in (None, 0.05, 5.0):
            yield f"undecided {name}, room {room}", lambda name=name, room=room: [
                [why_undecided(by), leaning(by)]
                for looks in (Looks(), LOOKS) for strict in (True, False)
                for by in [_comparison(name, strict=strict, room=room).decide(looks).by]
            ]  # fmt: skip
    parts = [_comparison(name, threshold=2.0, sign=-1.0) for name in ("clear", "unclear", "against", "same", "one")]
    for all_or_any in (AllOf, AnyOf):
        for chosen in ((0,), (0, 3), (0, 1), (1, 2), (0, 4), (1, 4), (2, 2), (0, 1, 2, 3, 4)):
            yield (
                f"{all_or_any.__name__} {chosen}",
                lambda kind=all_or_any, chosen=chosen: [
                    _decision(kind([parts[n] for n in chosen]).decide(looks)) for looks in (Looks(), LOOKS)
                ],
            )
    yield "shown", lambda: [parts[0].shown(0.5), p_values.student(np.array([1.0, 2.0, 4.0]), 0.01)]
    yield (
        "signs",
        lambda: [
            p_values.signs(np.arange(-2.0, n - 2), strict, 0.05) for n in (6, 7, 12, 13) for strict in (True, False)
        ],
    )
    yield "runs", lambda: [p_values.runs(broken, n, 0.1, 0.025) for broken, n in ((0, 5), (1, 5), (5, 5), (3, 40))]
    yield "power", lambda: [
        *(power.visible(sd, n, 0.025) for sd in (0.5, NAN) for n in (1, 2, 6)), power.visible(0.5, 6, 0.01, 0.9),
        *(power.seeds_needed(effect, 0.5, 0.025) for effect in (0.0, 1e-3, 0.2, -0.2, 5.0, 1e6, INF)),
        *(power.clean_runs_needed(t, 0.025) for t in (0.05, 0.3)),
        *(power.chance(e, 0.5, 6, 0.025) for e in (0.0, 0.5, 9.0)),
    ]  # fmt: skip
    yield "discoveries", lambda: [q_values([0.01, NAN, 0.04, 0.03, 0.9, 0.01]), q_values([]), q_values([0.6, 0.7])]
    a, b = (
        Sample(np.array([3, 1, 2]), np.array([1.0, NAN, 4.0])),
        Sample(np.array([1, 2, 5, 3]), np.array([2.0, 6.0, 1.0, 2.5])),
    )
    yield "pairs", lambda: [pair(a, b), difference(a, b), a.is_constant, a.among(np.array([2, 3]))]
    yield (
        "excess",
        lambda: [
            excess(np.array([1.0, INF, INF, 3.0]), np.array([0.5, INF, 1.0, INF]), by, log)
            for by in (0.0, 0.5)
            for log in (False, True)
        ],
    )
    for sign in (1.0, -1.0):
        asked = Asked("x", (), 0.1, "is more", True, sign)
        yield f"asked {sign}", lambda asked=asked: [
            [made.excess, made.threshold, made.sign, made.strict, made.shown(0.3)]
            for made in (exceeds(a, b, asked, "statistical", False), reaches(b, 2.0, asked, "statistical", False))
        ]  # fmt: skip


def _statistics() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield (
        "half widths",
        lambda: [half_width(np.array([[1.0, 2.0], [1.0, 1.0]])), half_width(np.array([[1.0, 2.0, 5.0]]))],
    )
    yield "conventions", lambda: [convention(seeds) for seeds in (1, 2, 12)]
    rounds = np.tile(np.arange(12), 3)
    learnt = np.minimum(rounds, 7) / 7 + 0.01 * np.sin(rounds)
    frame = pd.DataFrame({
        "a": "x", "seed": np.repeat([0, 1, 2], 12), "round": rounds,
        "test_accuracy": learnt * np.repeat([1.0, 0.9, 0.05], 12),
        "train_loss": 2 - learnt, "diverged": np.repeat([False, False, True], 12), "time_s": rounds * 2.0,
        "bytes_up": rounds * 10, "bytes_down": rounds * 7,
    })  # fmt: skip
    frame.loc[5, "test_accuracy"] = NAN
    yield "over seeds", lambda: over_seeds(frame, ["a"], by_round=True).to_dict("list")
    yield "over seeds, at the end", lambda: over_seeds(frame[frame["round"] == 11], [], by_round=False).to_dict("list")
    ends = frame[frame["round"] == 11]
    for cost in ("time_s", "round", "bytes_up", "bytes"):
        for reaches_ in (0.5, 0.89, 2.0):
            yield (
                f"{cost} to {reaches_}",
                lambda cost=cost, at=reaches_: Target(cost=cost, reaches=at).costs(frame, ends),
            )
    falls = Target(column="train_loss", reaches=1.5, direction="falls")
    yield "falls", lambda: [falls.costs(frame, ends), falls.unit, Target(cost="bytes", reaches=1.0).unit]
    for within in (0.0, 0.05, 0.3, 2.0):
        for direction, column in (("rises", "test_accuracy"), ("falls", "train_loss")):
            settles = Settling(within=within, window=0.2)
            target = Target(column=column, settles=settles, direction=direction, cost="round")  # type: ignore[arg-type]
            yield f"settles {direction} {within}", lambda target=target: target.costs(frame, ends)
    yield "fluctuation", lambda: [fluctuation(frame["test_accuracy"][:12]), fluctuation(pd.Series([1.0, 2.0]))]
    yield "spread", lambda: [spread(np.array(x)) for x in ([], [3], [1, 2, 3, 10])]


def _amounts() -> Iterator[tuple[str, Callable[[], Any]]]:
    for unit in ("", "s", "B", "bytes", "J", "bps", "%", "dB"):
        yield f"amounts of {unit}", lambda unit=unit: [
            [quantity(value, unit), with_interval(value, 0.0123 * abs(value), unit), with_interval(value, NAN, unit)]
            for value in VALUES
        ]  # fmt: skip
        yield f"scales of {unit}", lambda unit=unit: [list(scale_of([0.1 * abs(v), v, NAN], unit)) for v in VALUES]
    yield "numbers", lambda: [[number(value), log_label(abs(value)) if value else ""] for value in VALUES[:-2]]
    yield "labels", lambda: [with_unit("time", scale_of([2000.0], "s")), with_unit("epsilon", scale_of([2.0], ""))]
    yield (
        "headings",
        lambda: [heading(name) for name in ("time_s", "train_loss", "test_accuracy", "bytes_up", "detector_rank")],
    )
    yield (
        "durations",
        lambda: [_duration(s) for s in (60, 7200, 7201, 2 * 86400, 2 * 86400 + 1, 2 * 365.25 * 86400, 1e9)],
    )
    yield "decibels", lambda: [decibels(value) for value in (INF, 12.34, -0.5)]
    yield (
        "room around a figure",
        lambda: [
            around(width, title, caption)
            for width in (3.0, 9.2)
            for title in ("", "A title " * 9)
            for caption in ("", "A caption " * 30)
        ],
    )


def _grid(kind: str) -> Grid:
    """Six seeds of three rules at three noises over six rounds: clearly told apart, hardly, or with runs that diverge;
    or a formula."""
    random, rows = np.random.default_rng(7), []
    for rule, noise in itertools.product((1, 2, 3), (0.5, 1.0, 4.0)):
        for seed in range(1 if kind == "formula" else 6):
            lost = kind == "diverging" and rule == 3 and seed >= 4
            own = {"clear": 0.01, "unclear": 0.5}.get(kind, 0.05) * random.standard_normal()
            for at in range(7):
                loss = 2.3 - (2.3 - 0.4 * rule - 0.05 * noise - own) * at / 6 + 0.02 * (at % 2)
                row = {"rule": rule, "noise": noise, "seed": seed, "round": at, "train_loss": loss}
                row |= {"test_accuracy": 1 - loss / 3, "exact_epsilon": rule * at, "diverged": lost}
                rows.append(row | {"time_s": 10.0 * at * rule})
    frame = pd.DataFrame(rows).sample(frac=1.0, random_state=3)  # in no order
    axes = {"rule": (1, 2, 3), "noise": (0.5, 1.0, 4.0)}
    return Grid(axes, frame, frame[frame["round"] == 6], exact=kind == "formula", sources=frozenset({"real"}))


ACCURACY = "final test_accuracy"
CLAIMS: list[dict[str, Any]] = [
    {"check": "order", "along": "rule", "direction": "rises"},
    {"check": "order", "along": "rule", "direction": "rises", "strict": False, "where": {"rule": [2, 3], "noise": 1.0}},
    {"check": "order", "along": "noise", "direction": "rises", "margin": 0.1, "log": True},
    {"check": "order", "along": "noise", "direction": "rises", "margin": 0.1, "strict": False, "absolute": True},
    {"check": "order", "along": "rule", "value": ACCURACY},
    {"check": "order", "along": "rule", "value": "final exact_epsilon", "direction": "rises"},
    {"check": "best_at", "along": "rule", "at": 1, "where": {"noise": 0.5}},
    {"check": "best_at", "along": "rule", "at": 2, "value": ACCURACY},
    {"check": "interior_best", "along": "rule"},
    {"check": "crossover", "along": "rule", "early": 1, "late": 3, "rounds": [1, 4], "where": {"noise": 4.0}},
    {"check": "crossover", "along": "rule", "early": 3, "late": 1, "rounds": [2, 6], "where": {"noise": 0.5}},
    {"check": "at_least", "threshold": 0.6, "value": ACCURACY, "where": {"rule": 1}},
    {"check": "at_least", "threshold": 1.0, "tolerated": 0.4, "where": {"noise": [0.5, 4.0], "rule": 2}},
    {"check": "near", "target": 0.85, "tolerance": 0.1, "where": {"rule": 2, "noise": 1.0}},
    {"check": "near", "target": 2, "tolerance": 1, "value": "round 3 train_loss", "where": {"noise": 1.0}},
    {"check": "no_worse", "along": "rule", "at": 2, "than": 1, "margin": 0.3, "where": {"noise": 1.0}},
    {"check": "no_worse", "along": "rule", "at": 1, "than": 3, "absolute": True, "value": "mean train_loss"},
    {"check": "alike", "along": "noise", "at": 0.5, "than": 1.0, "margin": 0.1},
    {"check": "alike", "along": "rule", "at": 1, "than": 2, "margin": 0.2, "where": {"noise": 1.0}, "log": True},
    {"check": "times", "along": "rule", "at": 1, "than": 3, "factor": 2.5, "where": {"noise": 0.5}},
    {"check": "times", "along": "rule", "at": 1, "than": 3, "factor": 1.5, "share": 0.5, "value": ACCURACY},
    {"check": "times", "along": "rule", "at": 3, "than": 1, "factor": 2, "value": "final time_s", "goal": "high"},
    {"check": "near", "target": 1, "tolerance": 0.5, "value": "best rule of final train_loss"},
    {"check": "order", "along": "rule", "says": "nothing", "where": {"rule": [2]}},
    {"check": "at_least", "threshold": 0, "value": "final nothing"},
]
AT = {"rule": 3, "noise": [0.5]}
VALUES_OF = ("final", "mean", "lowest", "highest", "fluctuation", "round 2")


def _judged(claim: Any, kind: str) -> Any:
    try:
        found = claim.judge(_grid(kind), LOOKS if kind == "unclear" else Looks())
    except MissingError as error:
        return str(error)
    return [[one.at, one.measured, one.reason, _decision(one.decision)] for one in found]


def _claims() -> Iterator[tuple[str, Callable[[], Any]]]:
    for description in CLAIMS:
        claim: Any = TypeAdapter(Claim).validate_python({"says": "so", **description})
        for kind in ("clear", "unclear", "diverging", "formula"):
            yield f"{kind}: {json.dumps(description)}", partial(_judged, claim, kind)
        yield f"named by {json.dumps(description)}", lambda one=claim: [
            one.title, one.axes_named, one.columns_named, one.rounds_named, one.low_is_good,
        ]  # fmt: skip
    for kind in ("clear", "diverging"):
        yield f"{kind} values", lambda kind=kind: [
            _grid(kind).seeds_of(f"{when} train_loss", AT, low) for when in VALUES_OF for low in (True, False)
        ]  # fmt: skip
        yield f"{kind} windows", lambda kind=kind: [
            [_grid(kind).window("train_loss", AT, first, last, True) for first, last in ((0, 1), (1, 1), (3, 6))],
            _grid(kind).curve("time_s", AT).to_dict(),
        ]  # fmt: skip


CALLS = dict([*_evidence(), *_statistics(), *_amounts(), *_claims()])


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
