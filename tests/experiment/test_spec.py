"""What an experiment says of itself, without reading any file or making any cell."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from asyncfl.analysis.evidence.looks import Looks
from asyncfl.experiment.spec import Experiment, LookPlan, SeedPlan, Source

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "L": {"one": {"privacy.exposures": 1, "seeds": 9}, "a.b": {"seeds": [4, 5]}, "a": {}},
    "M": {"x": {}, "y": {"training.lr": 0.3}},
}
QUICK: dict[str, Any] = {
    "data.clients": 4,
    "model": {"kind": "mlp", "hidden": [8]},
    "axes.privacy.epsilon": [50],
    "variants.L": ["one", "a.b"],
    "variants.L.a.b.protocol.rounds": 2,
    "variants.M.y.training.lr": 0.1,
}


def experiment(**fields: Any) -> Experiment:
    whole = {
        "title": "t",
        "source": {"paper": "nbafl"},
        "scenario": {},
        "axes": {"privacy.epsilon": [50, 60, 70], "protocol.rounds": [2]},
        "variants": VARIANTS,
        "quick": QUICK,
        "seeds": {"quick": 2, "full": [3, 5, 7], "cells": [{"where": {"L": "one"}, "seeds": 12}]},
        **fields,
    }
    return Experiment.model_validate(whole)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"paper": "nbafl", "figure": 2}, "NbAFL, fig. 2"),
        ({"paper": "adaptive", "figure": "table 3"}, "adaptive DP, table 3"),
        ({"paper": "dp_fedavg"}, "DP-FedAvg"),
        ({"paper": "safl", "figure": 1}, "SAFL, fig. 1"),
        ({"paper": "nobody", "figure": 0}, "nobody, fig. 0"),
    ],
)
def test_a_source_is_told_in_words(source: dict[str, Any], told: str) -> None:
    assert str(Source.model_validate(source)) == told


def test_seeds_are_counted_listed_or_looked_at() -> None:
    plan = SeedPlan(quick=3, full=LookPlan(looks=(2, 5)))
    assert (plan.at("quick"), plan.at("full")) == ((0, 1, 2), (0, 1, 2, 3, 4))
    assert (plan.looks("quick").at, plan.looks("full")) == ((), Looks((0, 1, 2, 3, 4), (2, 5)))
    listed = SeedPlan(quick=(7, 1), full=1)
    assert (listed.at("quick"), listed.at("full")) == ((7, 1), (0,))
    with pytest.raises(ValidationError, match=r"must be numbers of seeds in ascending order, got \[5, 2\]"):
        LookPlan(looks=(5, 2))


def test_what_quick_scale_lowers_is_told() -> None:
    made = experiment()
    fields = ["data.clients = 4", "model = {kind: mlp, hidden: [8]}"]
    thinned = ["privacy.epsilon at 1 of 3 values", "L at 2 of 3 values"]
    within = ["protocol.rounds = 2 where L is a.b", "training.lr = 0.1 where M is y"]
    assert made.lowered("full") == []
    assert made.lowered("quick") == [*fields, *thinned, *within, "2 of 12 seeds"]
    assert made.lowered("quick", {"L": "one"}) == [*fields, thinned[0], within[1], "2 of 12 seeds"]
    assert made.lowered("quick", {"L": ["a.b"], "M": "x"}) == [*fields, thinned[0], within[0], "2 of 12 seeds"]
    same = experiment(quick={}, seeds={"quick": 9, "full": 3})
    assert same.lowered("quick") == []


def test_margins_are_numbers_that_have_a_reason() -> None:
    claim = {"check": "alike", "along": "M", "at": "x", "than": "y", "says": "s"}
    made = experiment(
        margins={"0.05": "as the paper has it", "1e-1": "twice that"},
        claims=[
            {**claim, "margin": 0.05},
            {**claim, "margin": 0.1},
            {**claim, "margin": 0.2},
            {**claim, "margin": 0.05, "margin_why": "its own"},
        ],
    )
    told = [made.margin_why(one) for one in made.claims]
    assert told == ["as the paper has it", "twice that", "", "its own"]
    with pytest.raises(ValidationError, match="names of margins must be numbers, got 'five'"):
        experiment(margins={"five": "x"})
