"""Reasons of the margins in our own experiments."""

from pathlib import Path

from asyncfl.experiments.files import find
from asyncfl.experiments.loading import load

FOLDER = Path(__file__).resolve().parents[2] / "workflow" / "experiments"


def test_every_margin_states_its_reason() -> None:
    silent = []
    for name, path in find(FOLDER).items():
        experiment = load(path, name, check=False)
        silent += [
            f"{name}: {claim.says}"
            for claim in experiment.claims
            if claim.margin_asked and not experiment.margin_why(claim)
        ]
    assert silent == [], "give the number its reason in `margins` of the experiment, or the claim its `margin_why`"


def test_no_order_with_ties_grants_none() -> None:
    for name, path in find(FOLDER).items():
        for claim in load(path, name, check=False).claims:
            assert claim.check != "order" or claim.strict or claim.margin > 0, f"{name}: {claim.says}"
