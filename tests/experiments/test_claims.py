"""Answers of claims, at their margins too, and the words of their numbers."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from asyncfl.experiments.claims import AtLeast, Claim, Order
from asyncfl.experiments.csv_files import plain, read_csv, write_csv
from asyncfl.experiments.evidence.p_values import Sample
from asyncfl.experiments.grid import Grid, MissingError, NotRunError, UnpublishedError, bound_grid

NOISE = np.array([0.0, 0.01, 0.02, -0.01, 0.015, -0.02, 0.005])


def table(column, values, diverged=(), last=1):
    """Values of a column by axis value and seed, in runs of `last` rounds."""
    rows = [
        {"x": x, "seed": seed, "round": last, column: value, "diverged": (x, seed) in diverged}
        for x, of in values.items()
        for seed, value in enumerate(of)
    ]
    return Grid({"x": tuple(values)}, pd.DataFrame(rows), pd.DataFrame(rows))


def grid(means, shared=True, diverged=(), seeds=6, sd=1e-4):
    """Final losses `means` by axis value; `shared` seed effects, which pairing removes but for `sd`."""
    generator = np.random.default_rng(1)
    effects = 10 * np.resize(NOISE, seeds)
    losses = {x: mean + effects + generator.normal(0, sd if shared else 0.2, seeds) for x, mean in means.items()}
    return table("train_loss", losses, diverged)


def judged(claim, on):
    (found,) = TypeAdapter(Claim).validate_python({"says": "so", **claim}).judge(on)
    return found


def answer(claim, on):
    return judged(claim, on).answer


ORDER = {"check": "order", "along": "x"}


PAIR = {"along": "x", "at": 1, "than": 2}


@pytest.mark.parametrize(
    ("claim", "holding", "failing", "open_"),
    [
        (ORDER, (3.0, 2.0, 1.0), (3.0, 3.5, 1.0), (3.0, 3.0, 1.0)),
        ({**ORDER, "direction": "rises"}, (1.0, 2.0), (2.0, 1.0), (1.0, 1.0)),
        ({**ORDER, "strict": False, "margin": 0.1}, (3.0, 3.05, 1.0), (3.0, 3.5, 1.0), (3.0, 3.1, 1.0)),
        ({"check": "best_at", "along": "x", "at": 2}, (3.0, 1.0, 2.0), (3.0, 2.0, 1.0), (3.0, 1.0, 1.0)),
        ({"check": "interior_best", "along": "x"}, (3.0, 1.0, 2.0), (3.0, 1.0, 0.5), (3.0, 1.0, 1.0)),
        ({"check": "no_worse", **PAIR, "margin": 0.1}, (1.05, 1.0), (1.5, 1.0), (1.1, 1.0)),
        ({"check": "alike", **PAIR, "margin": 0.1}, (1.05, 1.0), (1.0, 1.5), (1.1, 1.0)),
        ({"check": "alike", **PAIR, "margin": 0.1}, (1.0, 1.05), (1.5, 1.0), (1.0, 1.1)),
        ({"check": "times", "along": "x", "at": 2, "than": 1, "factor": 3}, (4.0, 1.0), (2.0, 1.0), (3.0, 1.0)),
        ({"check": "at_least", "threshold": 0.5}, (0.1,), (0.8,), (0.5,)),
    ],
    ids=lambda one: one["check"] if isinstance(one, dict) else None,
)
def test_each_kind_of_claim_holds_fails_or_stays_open(claim, holding, failing, open_):
    """Losses of the points 1, 2, ...; at the margin, with seeds that share nothing, six seeds decide nothing."""
    assert answer(claim, grid(dict(enumerate(holding, 1)))) == "holds"
    assert answer(claim, grid(dict(enumerate(failing, 1)))) == "does not hold"
    assert answer(claim, grid(dict(enumerate(open_, 1)), shared=False)) == "not decided"


def test_an_accuracy_is_best_where_it_is_high():
    claim = {"check": "best_at", "along": "x", "at": 2, "value": "final test_accuracy"}
    accuracies = {1: 0.5 + NOISE, 2: 0.9 + NOISE, 3: 0.6 + NOISE + 1e-4 * np.arange(7)}
    assert answer(claim, table("test_accuracy", accuracies)) == "holds"


def test_claims_that_cannot_be_judged_are_refused():
    with pytest.raises(MissingError, match="no interior point"):
        answer({"check": "interior_best", "along": "x"}, grid({1: 3.0, 2: 1.0}))
    with pytest.raises(ValueError, match="margin"):
        TypeAdapter(Claim).validate_python({"says": "so", "check": "alike", **PAIR, "margin": 0})


def crossing(early_gap, late_gap, diverged=()):
    """Curve 25 minus curve 20 is `early_gap` in rounds 1..5 and `late_gap` in rounds 6..10, but for a little."""
    rows = [
        {
            "x": x,
            "seed": seed,
            "round": r,
            "train_loss": 2.0
            + (10 if x == 20 else 9) * NOISE[seed]
            + (0 if x == 20 else early_gap if r <= 5 else late_gap),
            "diverged": (x, seed) in diverged,
        }
        for x in (20, 25)
        for seed in range(6)
        for r in range(11)
    ]
    frame = pd.DataFrame(rows)
    return Grid({"x": (20, 25)}, frame, frame[frame["round"] == 10])


def test_crossover():
    claim = {"check": "crossover", "along": "x", "early": 25, "late": 20, "rounds": (5, 6)}
    assert answer(claim, crossing(-0.1, 0.2)) == "holds"
    assert answer(claim, crossing(0.1, 0.2)) == "does not hold"
    assert answer(claim, crossing(0.0, 0.2)) == "not decided"
    assert answer(claim, crossing(-0.1, 0.2, diverged={(25, 0)})) == "not decided"
    assert "cross at round 6" in judged(claim, crossing(-0.1, 0.2)).measured
    with pytest.raises(MissingError, match="end at round 10"):
        answer({**claim, "rounds": (13, 14)}, crossing(-0.1, 0.2))


def test_losses_over_decades_are_judged_on_their_logarithm():
    wide = table("train_loss", {1: 10.0 ** (3 + 2 * np.arange(6))})
    claim = {"check": "at_least", "value": "final train_loss", "threshold": 2.3, "goal": "low"}
    assert answer(claim, wide) == "not decided"
    assert answer({**claim, "log": True}, wide) == "does not hold"
    found = judged({**claim, "log": True}, wide)
    assert "1e+08 (geometric mean)" in found.measured
    few = table("train_loss", {1: [1.0, 16.0], 2: [1.0, 4.0]})
    assert "1: 4, 2: 2 (geometric means)" in judged({**ORDER, "log": True}, few).measured
    assert "geometric" not in judged({**ORDER, "log": True}, table("train_loss", {1: [4.0], 2: [2.0]})).measured
    assert re.fullmatch(r"wanted at most 2.3, got \[.*e.*, .*e.*\]", found.reason)  # the value is no factor
    assert "a factor in [" in judged({**ORDER, "log": True}, grid({1: 4.0, 2: 2.0})).reason


def test_an_interval_of_a_share_ends_at_0_and_1():
    shares = table("test_accuracy", {1: [0.9, 0.97, 1.0]})
    high = judged({"check": "at_least", "value": "final test_accuracy", "threshold": 0.95}, shares)
    assert re.search(r"got \[0\.\d+, 1\]$", high.reason)
    near = {"check": "near", "value": "final test_accuracy", "target": 0.02, "tolerance": 0.01}
    assert re.search(r"got \[0, 0\.\d+\]$", judged(near, table("test_accuracy", {1: [0.0, 0.03, 0.1]})).reason)
    difference = judged(
        {**ORDER, "value": "final test_accuracy"}, table("test_accuracy", {1: [0.5, 1, 0], 2: [0.5, 0, 1]})
    )
    assert "[-" in difference.reason, "a difference may be negative"


def test_a_tie_in_every_seed_is_not_better():
    tie = grid({1: 1.0, 2: 1.0}, seeds=7, sd=0)
    assert answer({"check": "times", "along": "x", "at": 1, "than": 2, "factor": 1}, tie) == "does not hold"
    assert answer({"check": "best_at", "along": "x", "at": 1}, tie) == "does not hold"
    assert answer(ORDER, tie) == "does not hold"
    twice = grid({1: 1.0, 2: 2.0}, shared=True)
    assert answer({"check": "times", "along": "x", "at": 1, "than": 2, "factor": 1}, twice) == "holds"


def test_points_are_compared_at_the_seeds_that_both_have():
    uneven = grid({1: 1.0, 2: 1.0}, shared=False)
    fewer = replace(uneven, ends=uneven.ends[(uneven.ends["x"] == 1) | uneven.ends["seed"].isin((2, 3, 5))])
    found = judged(ORDER, fewer)
    assert (found.answer, found.decision.by.reading.seeds) == ("not decided", 3)
    loss = {x: uneven.ends[uneven.ends["x"] == x].set_index("seed")["train_loss"] for x in (1, 2)}
    assert list(found.decision.by.comparison.excess) == pytest.approx((loss[1] - loss[2])[[2, 3, 5]].tolist())
    none = replace(uneven, ends=uneven.ends[(uneven.ends["x"] == 1) == (uneven.ends["seed"] < 2)])
    assert answer(ORDER, none) == "not decided"


def test_a_diverged_seed_is_worse_than_any():
    lost = grid({1: 3.0, 2: 1.0}, diverged={(1, 0)}, seeds=7)
    assert answer(ORDER, lost) == "holds"
    assert answer(ORDER, grid({1: 3.0, 2: 1.0}, diverged={(2, 0)}, seeds=7)) == "not decided"
    assert answer(ORDER, grid({1: 3.0, 2: 1.0}, diverged={(2, s) for s in range(7)}, seeds=7)) == "does not hold"


@pytest.mark.parametrize("goal", ["low", "high"])
def test_on_a_logarithm_too_divergence_is_the_worst_value(goal):
    values = {1: [0.9, 0.91, 0.92, 0.9, 0.91, 0.93, 0.9], 2: [0.5, 0.51, 0.5, 0.52, 0.5, 0.5, 0.51]}
    if goal == "low":
        values = {x: [1 / v for v in of] for x, of in values.items()}
    on = table("test_loss", values, {(1, seed) for seed in range(2, 6)})
    claim = {"check": "times", "value": "final test_loss", "goal": goal, "along": "x"}
    claim |= {"factor": 1.1, "at": 1, "than": 2}
    found = judged(claim, on)
    assert (found.answer, found.decision.by.reading.seeds) == ("not decided", 7)
    assert answer({**claim, "factor": 1, "at": 2, "than": 1}, on) == "not decided"


@pytest.mark.parametrize(("seeds", "expected"), [(2, "not decided"), (5, "not decided"), (6, "holds")])
def test_seeds_that_do_not_differ_are_no_certainty(seeds, expected):
    assert answer(ORDER, grid({1: 0.505, 2: 0.5}, sd=0, seeds=seeds)) == expected


def counts(banned, column="honest_banned"):
    return table(column, {1: banned})


def test_counts_have_an_exact_limit():
    claim = {"check": "at_least", "value": "final honest_banned", "goal": "low", "threshold": 0}
    found = judged(claim, counts([0] * 30))
    assert found.answer == "not decided"
    assert "30 of 30 runs keep it; at most 11.6% of runs break it" in found.reason
    assert answer(claim, counts([0] * 36)) == "holds"
    assert answer({**claim, "tolerated": 0.3}, counts([0] * 30)) == "holds"
    assert answer(claim, counts([0] * 3)) == "not decided"
    assert answer(claim, counts([0, 2, 0])) == "not decided"
    assert answer({**claim, "tolerated": 0.05}, counts([0, 2, 1])) == "does not hold"


def test_what_is_said_of_each_run_is_counted():
    """All of 100 versions are made in each run but one; a mean cannot exceed 100."""
    claim = {"check": "at_least", "value": "final versions", "goal": "high", "threshold": 100}
    assert answer(claim, counts([100] * 3, "versions")) == "not decided"
    counted = {**claim, "judged_as": "count"}
    found = judged(counted, counts([47, 48, 90], "versions"))
    assert (found.answer, found.decision.p_fails) == ("does not hold", pytest.approx(0.1**3))
    assert answer(counted, counts([100] * 35 + [99], "versions")) == "not decided"
    assert answer(counted, counts([100] * 36, "versions")) == "holds"


@pytest.mark.parametrize(
    ("private", "bare", "expected"),
    [
        ([5.1, 5.3, 5.2], [np.inf] * 3, "holds"),
        ([np.inf] * 3, [5.1, 5.3, 5.2], "does not hold"),
        ([5.1, 5.3, np.inf], [np.inf] * 3, "not decided"),  # by chance
        ([5.1], [np.inf], "not decided"),
    ],
)
def test_infinite_accounting_against_finite_is_without_randomness(private, bare, expected):
    claim = {"check": "best_at", "value": "final epsilon_exact_max", "along": "x", "at": 1}
    found = judged(claim, table("epsilon_exact_max", {1: private, 2: bare}))
    assert found.answer == expected
    assert (found.decision.by.comparison.kind == "deterministic") == (expected != "not decided")
    # a loss that diverges is a matter of chance
    assert judged({**claim, "value": "final train_loss"}, table("train_loss", {1: private, 2: bare})).answer == (
        "not decided"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.9705], "holds"),
        ([0.9680], "not decided"),  # one seed has no interval of its own
        ([0.9680, 0.9690, 0.9685], "holds"),  # 2.4 thousandths from it: theirs is 1.7, ours 1.2
        ([0.9680, 0.9681, 0.9682], "does not hold"),
        ([0.9680, 0.9681, np.inf], "does not hold"),
    ],
)
def test_a_mean_agrees_within_both_intervals(values, expected):
    claim = {"check": "agrees", "value": "final test_accuracy", "target": 0.9709, "spread": 0.0017}
    assert answer(claim, table("test_accuracy", {1: values})) == expected


def test_the_strongest_attack_is_compared_with_the_worst_number():
    attacks = table("test_accuracy", {1: [0.98], 2: [0.61], 3: [0.87]})
    claim = {"check": "agrees", "value": "final test_accuracy", "target": 0.6, "spread": 0.03, "worst_along": "x"}
    assert answer(claim, attacks) == "holds"
    assert answer({**claim, "target": 0.98}, attacks) == "not decided"


def test_accounting_without_randomness_is_deterministic():
    claim = {"check": "near", "value": "final epsilon_exact_max", "target": 4, "tolerance": 0.1}
    for values, expected in (([4.05, 4.05], "holds"), ([4.2, 4.2], "does not hold"), ([4.05], "not decided")):
        assert answer(claim, counts(values, "epsilon_exact_max")) == expected
    same = counts([4.05, 4.05], "epsilon_exact_max")
    found = judged(claim, same)
    assert found.decision.by.comparison.kind == "deterministic"
    assert answer({**claim, "judged_as": "statistical"}, same) == "not decided"
    with pytest.raises(MissingError, match="its seeds differ"):
        answer({**claim, "judged_as": "deterministic"}, counts([4.05, 4.06], "epsilon_exact_max"))


@pytest.mark.parametrize(
    ("diverged", "difference"),
    [
        ({(1, 0)}, "[2, ∞]"),
        ({(2, 0)}, "[−∞, 2]"),
        ({(1, s) for s in range(7)}, "∞"),
        ({(2, s) for s in range(7)}, "−∞"),
    ],
)
def test_a_diverged_difference_is_reported_with_its_sign(diverged, difference):
    found = judged(ORDER, grid({1: 3.0, 2: 1.0}, diverged=diverged, seeds=7))
    assert found.reason == f"least clear step: from 1 to 2 it falls by {difference}"


def two_axes():
    """Best T is 1, 2, 3 for epsilon 10, 20, 30."""
    rows = [
        {"T": t, "e": e, "seed": seed, "round": 1, "train_loss": abs(t - e / 10) + NOISE[seed] * t, "diverged": False}
        for t in (1, 2, 3)
        for e in (10, 20, 30)
        for seed in range(7)
    ]
    frame = pd.DataFrame(rows)
    return Grid({"T": (1, 2, 3), "e": (10, 20, 30)}, frame, frame)


def test_the_axis_value_at_which_another_value_is_best():
    claim = {**ORDER, "along": "e", "value": "best T of final train_loss", "direction": "rises"}
    # the best T is the same in each of seven seeds
    assert answer(claim, two_axes()) == "holds"


def test_a_claim_is_judged_at_each_point_of_the_open_axes_unless_where_fixes_them():
    claim = TypeAdapter(Claim).validate_python({"check": "interior_best", "along": "T", "says": "so"})
    assert [f.answer for f in claim.judge(two_axes())] == ["does not hold", "holds", "does not hold"]
    fixed = claim.model_copy(update={"where": {"e": [20]}})
    assert [f.answer for f in fixed.judge(two_axes())] == ["holds"]
    with pytest.raises(MissingError, match="e = 99 is not run"):
        claim.model_copy(update={"where": {"e": 99}}).judge(two_axes())


def test_a_target_that_is_never_reached_is_not_called_diverged():
    reached = {
        "early": [90.0, 100.0, 110.0, 90.0, 100.0, 110.0, 100.0],
        "late": [150.0, np.inf, 160.0, 150.0, np.inf, 160.0, 150.0],
        "never": [np.inf] * 7,
    }
    on = table("rounds_to_converge", reached, last=250)
    best = {"check": "best_at", "along": "x", "at": "early", "value": "final rounds_to_converge"}
    assert judged(best, on).measured == "x early: 100, late: not by all seeds, never: not by all seeds"
    not_within = {"check": "at_least", "value": "final rounds_to_converge", "goal": "high", "threshold": 250}
    answers = [answer({**not_within, "where": {"x": x}}, on) for x in reached]
    assert answers == ["does not hold", "not decided", "holds"]


@pytest.mark.parametrize(
    ("claim", "wanted"),
    [
        ({"check": "at_least", "goal": "high", "threshold": 250}, 250),
        ({"check": "at_least", "goal": "low", "threshold": 250}, 250),
        ({"check": "near", "target": 170, "tolerance": 20}, 190),
    ],
)
def test_a_run_shorter_than_the_rounds_of_a_claim_does_not_judge_it(claim, wanted):
    value = {"value": "final rounds_to_converge"}
    short, long = (table("rounds_to_converge", {1: [np.inf] * 8}, last=last) for last in (wanted - 1, wanted))
    with pytest.raises(NotRunError, match=f"runs of {wanted - 1} rounds do not tell what happens until round {wanted}"):
        answer({**claim, **value}, short)
    assert answer({**claim, **value}, long) in ("holds", "does not hold")


def test_a_share_of_the_gain_that_the_source_measured():
    claim = {"check": "times", "along": "x", "at": 1, "than": 2, "factor": 1.2, "value": "final test_accuracy"}
    accuracies = {x: mean + 0.2 * x * NOISE[:6] for x, mean in ((1, 0.84), (2, 0.7))}
    on = table("test_accuracy", accuracies)
    assert answer(claim, on) == "not decided"
    found = judged({**claim, "share": 0.5}, on)
    assert found.answer == "holds"
    assert found.reason.endswith(", wanted 1.1: 50% of the gain of 1.2")


YES, NO, OPEN = "holds", "does not hold", "not decided"
BOUND = {"value": "final bound", "along": "x", "at": "a", "than": "b"}


def formula(**values: float) -> Grid:
    """A bound over the axis `x`: exact values."""
    return bound_grid({"x": tuple(values)}, pd.DataFrame({"x": list(values), "bound": list(values.values())}))


@pytest.mark.parametrize(
    ("claim", "a", "told"),
    [
        ({"check": "alike", "margin": 0.5}, 3.5, YES),
        ({"check": "alike", "margin": 0.5}, 4.5, YES),
        ({"check": "alike", "margin": 0.5}, 3.25, NO),
        ({"check": "alike", "margin": 0.5}, 4.75, NO),
        ({"check": "no_worse", "margin": 0.5}, 4.5, YES),
        ({"check": "no_worse", "margin": 0.5}, 4.75, NO),
        ({"check": "no_worse"}, 4.0, YES),
        ({"check": "no_worse"}, 4.25, NO),
        ({"check": "times", "factor": 4}, 1.0, YES),
        ({"check": "times", "factor": 4}, 1.25, NO),
        ({"check": "times", "factor": 1}, 4.0, NO),
        ({"check": "times", "factor": 1}, 3.75, YES),
    ],
)
def test_values_at_the_margin_are_within_it(claim: dict[str, Any], a: float, told: str) -> None:
    assert answer({**BOUND, **claim}, formula(a=a, b=4.0)) == told


@pytest.mark.parametrize(
    ("values", "told"), [((4, 4, 2), YES), ((4, 4.5, 2), YES), ((4, 4.75, 2), NO), ((4, 4.5, 4), NO), ((4, 3, 4.5), NO)]
)
def test_neighbours_that_tie(values: tuple[float, ...], told: str) -> None:
    claim = {**ORDER, "value": "final bound", "strict": False, "margin": 0.5}
    assert answer(claim, formula(**dict(zip("abc", values, strict=True)))) == told


@pytest.mark.parametrize("seeds", [2, 7])
@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ({"check": "at_least", "threshold": 1.0}, OPEN),
        ({"check": "at_least", "threshold": 0.75}, NO),
        ({"check": "near", "target": 0.5, "tolerance": 0.5}, OPEN),
        ({"check": "near", "target": 0.5, "tolerance": 0.25}, NO),
    ],
)
def test_a_diverged_seed_gives_a_one_sided_interval(claim: dict[str, Any], told: str, seeds: int) -> None:
    found = judged({"value": "final train_loss", **claim}, table("train_loss", {1: [1.0] * seeds}, {(1, 0)}))
    assert (found.measured, found.decision.by.reading.seeds) == ("final train_loss diverged", seeds)
    assert found.answer == (told if seeds == 7 else OPEN)
    assert found.reason.endswith("got [1, ∞]" if seeds == 7 else "got [−∞, ∞]")


def sample(*values: float) -> Sample:
    return Sample(np.arange(len(values)), np.array(values, dtype=np.float64))


def order(value: str = "final train_loss", **of: Any) -> Order:
    return Order.model_validate({"check": "order", "along": "K", "says": "it falls", "value": value, **of})


def at_least(value: str = "final train_loss", **of: Any) -> AtLeast:
    return AtLeast.model_validate({"check": "at_least", "threshold": 0.5, "says": "enough", "value": value, **of})


def test_long_axes_list_only_the_ends_and_the_extremes() -> None:
    few = {point: sample(float(point)) for point in range(8)}
    assert order().listing(few) == "K 0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7"
    many = {point: sample(float((point - 3) ** 2 - (20 if point == 6 else 0))) for point in range(9)}
    assert order().listing(many) == "K 0: 9, 6: -11, 8: 25 (ends, lowest and highest of 9)"
    peak = {point: sample(-float((point - 3) ** 2)) for point in range(9)}
    assert order().listing(peak) == "K 0: -9, 3: 0, 8: -25 (ends, lowest and highest of 9)"


@pytest.mark.parametrize(
    ("value", "goal", "low_is_good"),
    [
        ("final train_loss", None, True),
        ("final test_accuracy", None, False),
        ("mean precision", None, False),
        ("highest test_r2", None, False),
        ("final test_accuracy", "low", True),
        ("final train_loss", "high", False),
    ],
)
def test_the_goal_follows_from_the_column_unless_it_is_given(value: str, goal: Any, low_is_good: bool) -> None:
    assert order(value, goal=goal).low_is_good is low_is_good


def test_what_is_true_for_nothing_is_not_true():
    """All attackers are banned in each run; in the first point honest clients are banned as well."""
    banned = {1: {"malicious": [1.0] * 40, "honest": [60.0] * 40}, 2: {"malicious": [1.0] * 40, "honest": [1.0] * 40}}
    rows = [
        {"x": x, "seed": seed, "round": 4, "diverged": False, "malicious_banned_share": m, "honest_banned": h}
        for x, of in banned.items()
        for seed, (m, h) in enumerate(zip(of["malicious"], of["honest"], strict=True))
    ]
    ends = pd.DataFrame(rows)
    claim = {"check": "at_least", "value": "final malicious_banned_share", "threshold": 1, "says": "all are found"}
    found = [
        point.answer
        for besides in ({}, {"final honest_banned": 30})
        for point in TypeAdapter(Claim)
        .validate_python({**claim, "besides": besides})
        .judge(Grid({"x": (1, 2)}, ends, ends))
    ]
    assert found == ["holds", "holds", "does not hold", "holds"]
    # what was measured in too few runs keeps nothing within its limit
    few = ends.assign(honest_banned=ends["honest_banned"].where(ends["seed"] < 3))
    asked = TypeAdapter(Claim).validate_python({**claim, "besides": {"final honest_banned": 30}})
    assert asked.judge(Grid({"x": (1, 2)}, few, few))[1].answer == "not decided"


def test_values_over_rounds_that_are_not_published_are_known_at_the_last_round_alone():
    ends = pd.DataFrame(
        {"x": [1] * 3, "seed": [0, 1, 2], "round": [4, 4, 3], "diverged": False, "train_loss": [1.0, 2, 3]}
    )
    grid = Grid({"x": (1,)}, None, ends)
    assert grid.seeds_of("final train_loss", {"x": 1}, True).values.tolist() == [1, 2, 3]
    # a server that stopped after round 3 keeps what it had
    assert grid.seeds_of("round 4 train_loss", {"x": 1}, True).values.tolist() == [1, 2, 3]
    for value in ("round 3 train_loss", "mean train_loss"):
        with pytest.raises(UnpublishedError):
            grid.seeds_of(value, {"x": 1}, True)
    with pytest.raises(NotRunError):
        grid.seeds_of("round 5 train_loss", {"x": 1}, True)


def test_a_run_that_ended_early_counts_in_later_rounds_with_its_last_value():
    rows = [
        {"x": 1, "seed": seed, "round": number, "diverged": False, "train_loss": 10.0 * seed + number}
        for seed, last in ((0, 5), (1, 2), (2, 5))
        for number in range(1, last + 1)
    ]
    frame = pd.DataFrame(rows)
    grid = Grid({"x": (1,)}, frame, frame.groupby("seed").tail(1))
    assert grid.seeds_of("round 4 train_loss", {"x": 1}, True).values.tolist() == [4, 12, 24]
    assert grid.seeds_of("round 2 train_loss", {"x": 1}, True).values.tolist() == [2, 12, 22]
    assert grid.window("train_loss", {"x": 1}, 3, 5, True).values.tolist() == [4, 12, 24]


def test_a_seed_that_diverged_everywhere_has_no_best_value():
    rows = [
        {"x": x, "seed": seed, "round": 1, "diverged": seed == 1, "train_loss": float(x)}
        for x in (3, 2, 1)
        for seed in range(2)
    ]
    grid = Grid({"x": (3, 2, 1)}, pd.DataFrame(rows), pd.DataFrame(rows))
    best = grid.seeds_of("best x of final train_loss", {}, True).values
    assert best[0] == 1
    assert np.isnan(best[1])


@pytest.mark.parametrize("values", [[[8], [16, 8]], [1 / 3, 2.5], ["1", "2"], [10**12 + 1, 2.5], [True, "auto"]])
def test_axis_values_are_found_again_in_the_tables_that_were_written(tmp_path: Path, values: list[Any]):
    ends = pd.DataFrame(
        {"x": [plain(v) for v in values], "seed": 0, "round": 1, "diverged": False, "train_loss": [1.0, 2.0]}
    )
    write_csv(ends, tmp_path / "ends.csv")
    grid = Grid({"x": tuple(values)}, None, read_csv(tmp_path / "ends.csv"))
    found = [grid.seeds_of("final train_loss", at, True).values.tolist() for at in grid.points({})]
    assert found == [[1.0], [2.0]]


def test_the_last_point_may_be_the_best_where_the_claim_says_so():
    falls = {"check": "interior_best", "along": "x", "says": "some x is best"}
    rows = [
        {"x": x, "seed": seed, "round": 1, "diverged": False, "train_loss": 10 - x + 0.001 * seed * x}
        for x in (1, 2, 3)
        for seed in range(6)
    ]
    grid = Grid({"x": (1, 2, 3)}, pd.DataFrame(rows), pd.DataFrame(rows))
    answers = [
        TypeAdapter(Claim).validate_python({**falls, "last_counts": last}).judge(grid)[0].answer
        for last in (False, True)
    ]
    assert answers == ["does not hold", "holds"]
