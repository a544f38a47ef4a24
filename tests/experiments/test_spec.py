"""Fields of an experiment and their words, without any file or cell."""

from typing import Any

import pytest
from pydantic import ValidationError

from asyncfl.experiments.evidence.decision import Looks
from asyncfl.experiments.spec import Experiment, LookPlan, SeedPlan, Source


def experiment(**fields: Any) -> Experiment:
    variants: dict[str, Any] = {"M": {"x": {}, "y": {"training.lr": 0.3}}}
    whole = {"title": "t", "source": {"paper": "nbafl"}, "scenario": {}, "variants": variants}
    return Experiment.model_validate({**whole, **fields})


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
def test_a_source_is_written_as_paper_and_figure(source: dict[str, Any], told: str) -> None:
    assert str(Source.model_validate(source)) == told


def test_seeds_are_counted_listed_or_looked_at() -> None:
    plan = SeedPlan(quick=3, full=LookPlan(looks=(2, 5)))
    assert (plan.at("quick"), plan.at("full")) == ((0, 1, 2), (0, 1, 2, 3, 4))
    assert (plan.looks("quick").at, plan.looks("full")) == ((), Looks((0, 1, 2, 3, 4), (2, 5)))
    listed = SeedPlan(quick=(7, 1), full=1)
    assert (listed.at("quick"), listed.at("full")) == ((7, 1), (0,))
    with pytest.raises(ValidationError, match=r"must be numbers of seeds in ascending order, got \[5, 2\]"):
        LookPlan(looks=(5, 2))


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
