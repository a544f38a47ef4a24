import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.run_tables import collect


def write_spending(folder, seeds, holders=("median", "model", "client")):
    """Epsilon of a holder in seed s at version v: v + s, for the models only at versions 2 and 4."""
    rows = [
        {"seed": seed, "holder": holder, "adversary": who, "version": version}
        | {f"{name}_epsilon": version + seed + extra for name, extra in EXTRA.items()}
        for seed in range(seeds)
        for who in ("server", "eavesdropper", "public")
        for holder in holders
        for version in ((2, 4) if holder == "model" else (0, 1, 2, 3, 4, 4))
    ]
    pd.DataFrame(rows).to_parquet(folder / "spending.parquet")


EXTRA = {"claimed": 0.3, "basic": 0.2, "advanced": 0.25, "rdp": 0.1, "exact": 0.0}


def test_each_version_has_the_epsilon_spent_so_far(tmp_path, make_run):
    folder = make_run(tmp_path / "x", 0.5, seeds=2)
    rounds = pd.read_parquet(folder / "rounds.parquet").assign(epsilon_exact_max=10.0)
    rounds.to_parquet(folder / "rounds.parquet")
    write_spending(folder, 2)
    frames = collect([({}, folder)])
    second = frames["rounds"].query("seed == 1")
    assert second["epsilon_exact_median"].tolist() == [1, 2, 3, 4, 5]
    # models have rows only where something changed: what was spent stays spent
    assert second["epsilon_exact_model"].tolist() == [0, 0, 3, 3, 5]
    assert second["epsilon_claimed_model"].tolist() == pytest.approx([0, 0, 3.3, 3.3, 5.3])
    assert second["epsilon_exact_sum"].tolist() == [10, 10, 13, 13, 15]
    final = over_seeds(frames["ends"], [], by_round=False).set_index("metric")["mean"]
    assert final["epsilon_exact_model"] == 4.5


def test_a_scheme_that_states_nothing_about_models_has_no_epsilon_of_them(tmp_path, make_run):
    folder = make_run(tmp_path / "x", 0.5, seeds=1)
    write_spending(folder, 1, holders=("median",))
    ends = collect([({}, folder)])["ends"]
    assert np.isnan(ends["epsilon_exact_model"]).all()
    assert ends["epsilon_exact_median"].tolist() == [4]
