"""The page that chooses a defence, made of the results of an experiment of few cells."""

import importlib.util
from itertools import product
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

PLACE = Path(__file__).parents[1] / "docs" / "choosing.py"
ACCURACY = {  # defence -> without attackers, under a label flip, under a sign flip
    "mean": (0.80, 0.50, 0.40),
    "Krum": (0.70, 0.69, 0.69),
    "SAFL": (0.80, 0.75, 0.70),
    "evidence": (0.80, 0.60, 0.60),
    "AFLGuard, 100": (0.795, 0.72, 0.60),
}


@pytest.fixture
def choosing() -> Any:
    spec = importlib.util.spec_from_file_location("choosing", PLACE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(left_out: tuple[str, str] = ("", ""), bans: int = 3, seeds: int = 3) -> pd.DataFrame:
    """Return an `ends.csv`; SAFL bans honest clients. `left_out`: defence and attack without a result."""
    rows = []
    runs = (("clean", "label flip"), ("attacked", "label flip"), ("attacked", "sign flip"))
    for (defence, values), partition, seed in product(ACCURACY.items(), ("IID", "Dirichlet .5"), range(seeds)):
        for (federation, attack), value in zip(runs, values, strict=True):
            if (defence, attack) == left_out and federation == "attacked":
                continue
            rows.append(
                {
                    "noise": "epsilon 6",
                    "partition": partition,
                    "federation": federation,
                    "attack": attack,
                    "defence": defence,
                    "seed": seed,
                    "test_accuracy": value,
                    "honest_banned": bans if defence == "SAFL" and attack == "sign flip" else 0,
                    "attack_success": nan if attack == "label flip" else 0.03 if defence == "SAFL" else 0.9,
                }
            )
    return pd.DataFrame(rows)


def test_the_best_defence_that_does_no_harm_is_chosen(choosing: Any) -> None:
    page = choosing.page(results(), "One seed")
    assert (
        "| 100 | alike | epsilon 6 | **AFLGuard, 100** | -0.5 ± 0.0 | 66.0, 60.0 (sign flip) | 45.0, 40.0 | +21.0 ± 0.0"
        in page
    )
    assert (
        "| none | skewed | epsilon 6 | **evidence** | +0.0 ± 0.0 | 60.0, 60.0 (label flip) | 45.0, 40.0 | +15.0 ± 0.0 |"
        in page
    )
    assert page.count("AFLGuard, 100: 66.0 (2 attacks; no defence 45.0) |") == 2
    assert page.count("evidence: 60.0 (2 attacks; no defence 45.0) |") == 2
    assert "Better than no defence under these attacks, never the best. It must be told the share" in page
    assert (
        "Where labels are alike it keeps 69.0 under `label flip`, `sign flip`, no defence 45.0, the best one 72.5"
        in page
    )
    assert "| SAFL | | 3 | 80.0 | 72.5, 70.0 (sign flip) | 3.0 |" in page
    assert "| Krum | share of attackers | | 70.0 | 69.0, 69.0 (label flip) | 90.0 |" in page
    # Those that do no harm come first, then those that cost accuracy, then those that ban.
    order = [page.rindex(f"| {name} |") for name in ("AFLGuard, 100", "evidence", "mean", "Krum", "SAFL")]
    assert order == sorted(order)
    assert "with clean samples AFLGuard, 100 in 2 of 2 settings, without evidence in 2 of 2 settings." in page
    assert "| sign flip | 40.0 / 40.0 | 60.0 / 60.0 | 60.0 / 60.0 |" in page


def test_a_choice_from_fewer_than_three_seeds_is_marked(choosing: Any) -> None:
    assert "| **AFLGuard, 100**, 1 seed | -0.5 | 66.0, 60.0 (sign flip) | 45.0, 40.0 | +21.0 |" in choosing.page(
        results(seeds=1), "One seed"
    )


def test_nothing_is_chosen_where_no_defence_helps(choosing: Any) -> None:
    useless = results()
    under_attack = useless["federation"] == "attacked"
    useless.loc[under_attack & (useless["defence"] != "mean"), "test_accuracy"] = 0.405
    useless.loc[under_attack & (useless["defence"] == "mean"), "test_accuracy"] = 0.40
    page = choosing.page(useless, "One seed")
    assert "| alike | epsilon 6 | nothing (evidence does no harm) | +0.0 ± 0.0 | 40.5, 40.5 (label flip) |" in page


def test_defences_are_compared_over_the_attacks_that_all_were_run_against(
    choosing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = results(left_out=("evidence", "sign flip"))
    assert "**evidence**" not in choosing.page(few, "One seed")  # too few attacks to be chosen
    monkeypatch.setattr(choosing, "ATTACKS", 1)
    page = choosing.page(few, "One seed")
    assert "Over `label flip`; 3 seeds, the same in all rows.\n" in page
    assert "**evidence** | +0.0 ± 0.0 | 60.0, 60.0 (label flip) | 50.0, 50.0 | +10.0 ± 0.0 | -, - |" in page


def test_defences_are_compared_over_the_seeds_that_both_have(choosing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All accuracies of seed 0 are higher: a defence that was run with it alone is not better for that."""
    monkeypatch.setattr(choosing, "ATTACKS", 1)
    lucky = results()
    lucky.loc[lucky["seed"] == 0, "test_accuracy"] += 0.09
    lucky = lucky[(lucky["defence"] != "evidence") | (lucky["seed"] == 0)]
    page = choosing.page(lucky, "One seed")
    # of seed 0: evidence .69, AFLGuard .75, of all seeds .69
    assert "| 100 | alike | epsilon 6 | **AFLGuard, 100** | -0.5 ± 0.0 | 69.0, 63.0 (sign flip) |" in page
    assert (
        "| none | alike | epsilon 6 | **evidence**, 1 seed | +0.0 | 69.0, 69.0 (label flip) | 54.0, 49.0 | +15.0"
        in page
    )
    assert "| Krum | share of attackers | | 79.0 | 78.0, 78.0 (label flip) | 90.0 |" in page
    assert "| label flip | 59.0 / 59.0 | 81.0 / 81.0 | 69.0 / 69.0 |" in page
