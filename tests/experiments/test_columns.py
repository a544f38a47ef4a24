from pathlib import Path

from asyncfl.experiments.columns import TARGETS, measured_columns
from docs.pages import columns_page

ROOT = Path(__file__).parents[2]


def test_the_page_about_columns_is_up_to_date():
    """Write it anew with `python -c "from docs.pages import columns_page; print(columns_page(), end='')"`."""
    assert (ROOT / "docs" / "columns.md").read_text(encoding="utf-8") == columns_page()


def test_the_columns_of_an_experiment_are_those_of_its_domains_and_targets():
    assert "test_accuracy_usps" not in measured_columns("rounds")
    rounds = measured_columns("rounds", domains=["mnist", "usps"], targets=["time_to_70"])
    assert {"test_accuracy_usps", "test_accuracy_domains_min", "epsilon_exact_sum"} <= set(rounds)
    assert not {"test_accuracy_svhn", "versions", "time_to_70", "seed", "version"} & set(rounds)
    ends = measured_columns("ends", domains=["mnist", "usps"], targets=["time_to_70"])
    assert set(ends) - set(rounds) >= {"versions", "time_to_70", "exposures_up_max"}
    assert ends["time_to_70"].unit == TARGETS["time_to_"]
