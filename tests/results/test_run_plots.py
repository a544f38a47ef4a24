"""Figures of a run, and the table of what models come to at each client."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from asyncfl import Run, RunError, Scenario, simulate
from asyncfl.base.streams import Streams
from asyncfl.learning import make_learner
from asyncfl.results.run_plots import plot_clients, plot_rounds


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(
        Scenario.read(
            {
                "data": {"dataset": "iris", "clients": 12, "samples_per_client": 8},
                "model": {"kind": "linear"},
                "training": {"lr": 0.1},
                "protocol": {"kind": "sync", "rounds": 4},
                "privacy": {"kind": "nbafl", "epsilon": 50, "clip_norm": 5.0},
                "evaluation": {"clients_every": 3, "keep": {"every": 3}, "train_every": 2},
                "seeds": 2,
            }
        )
    )


def test_each_client_has_a_row_for_each_version_that_was_looked_at(run: Run, tmp_path: Path) -> None:
    table = run.per_client
    assert list(table.columns) == ["seed", "version", "time_s", "client", "loss", "accuracy"]
    assert table.groupby(["seed", "version"])["client"].apply(list).map(lambda own: own == list(range(12))).all()
    assert sorted(set(table["version"])) == [0, 3, 4]
    rounds = run.rounds.set_index(["seed", "version"])
    times = [rounds["time_s"][key] for key in table[["seed", "version"]].itertuples(index=False, name=None)]
    assert table["time_s"].tolist() == times
    for (seed, version), own in table.groupby(["seed", "version"]):
        row = rounds.loc[(seed, version)]
        worst = np.sort(own["loss"])[-2:].mean(), np.sort(own["accuracy"])[:2].mean()
        assert (row["client_loss_worst_decile"], row["client_accuracy_worst_decile"]) == pytest.approx(worst)
        if version in (0, 4):
            assert row["train_loss"] == pytest.approx(own["loss"].mean())
    data = run.scenario.data.build(Streams(1))
    learner = make_learner(run.scenario.model, run.scenario.training, data.shape, data.outputs)
    flat = np.concatenate([part.detach().numpy().ravel() for part in run.model(3, 1).parameters()])
    of_one = table[(table["seed"] == 1) & (table["version"] == 3)]
    found = np.array([learner.evaluate(flat, *data.client(client)) for client in range(12)])
    np.testing.assert_allclose(of_one[["loss", "accuracy"]], found, rtol=1e-6)
    again = Run.load(run.save(tmp_path / "run"))
    assert again.per_client.equals(table)
    plain = simulate(run.scenario.override({"evaluation.clients_every": 0, "seeds": 1}))
    assert not (plain.save(tmp_path / "plain") / "per_client.parquet").exists()
    with pytest.raises(RunError, match=r"holds no measurements by client; run it with evaluation\.clients_every: 5"):
        plain.plot(by_client=True)


@pytest.mark.parametrize(
    ("x", "label"),
    [("version", "version"), ("time_s", "virtual time (s)"), ("epsilon", "ε of the most exposed client, exact")],
)
def test_a_line_for_each_seed_and_their_mean(run: Run, x: str, label: str) -> None:
    open_before = plt.get_fignums()
    [axes] = run.plot(x=x).axes
    assert plt.get_fignums() == open_before
    assert (axes.get_xlabel(), axes.get_ylabel()) == (label, "test accuracy")
    column = {"epsilon": "epsilon_exact_max"}.get(x, x)
    for seed in (0, 1):
        own = run.rounds[run.rounds["seed"] == seed]
        np.testing.assert_array_equal(axes.lines[seed].get_xydata(), own[[column, "test_accuracy"]])
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names[:2] == ["seed 0", "seed 1"]
    if x == "version":
        mean = run.rounds.groupby("version")["test_accuracy"].mean()
        np.testing.assert_array_equal(axes.lines[2].get_ydata(), mean)
        assert names[2:] == ["mean"]


def test_a_regression_shows_how_much_it_explains() -> None:
    scenario = {
        "data": {"dataset": "diabetes", "clients": 3, "samples_per_client": 10},
        "model": {"kind": "linear"},
        "protocol": {"kind": "sync", "rounds": 1},
        "evaluation": {"clients_every": 1},
    }
    found = simulate(Scenario.read(scenario))
    [axes] = found.plot().axes
    assert (axes.get_ylabel(), axes.get_legend()) == ("test R²", None)
    with pytest.raises(RunError, match="y must be a column that was measured, accuracy is empty in this run"):
        found.plot("accuracy", by_client=True)


def test_clients_are_a_band_and_the_worst(run: Run) -> None:
    for y, worst in (("loss", "largest"), ("accuracy", "smallest")):
        [axes] = run.plot(y, by_client=True).axes
        assert axes.get_ylabel() == f"{y} on a client's own data"
        by_version = run.per_client.groupby("version")[y]
        np.testing.assert_allclose(axes.lines[0].get_ydata(), by_version.median())
        of_three = by_version.apply(lambda values, worst=worst: getattr(values, f"n{worst}")(3).mean())
        np.testing.assert_allclose(axes.lines[1].get_ydata(), of_three)
    assert plot_clients(run.per_client, "loss", "time_s").axes[0].get_xlabel() == "virtual time (s)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": "test_acuracy"}, r"y must be a column of numbers, got 'test_acuracy'; did you mean test_accuracy\?"),
        ({"x": "rounds"}, "x must be a column of numbers, got 'rounds'; "),
        ({"y": "attack_success"}, "y must be a column that was measured, attack_success is empty in this run"),
        ({"y": "train_loss", "by_client": True}, "y must be a column of numbers, got 'train_loss'; "),
    ],
)
def test_unknown_columns_are_refused(run: Run, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(RunError, match=message):
        run.plot(**arguments)


def test_infinite_values_are_not_drawn() -> None:
    frame = pd.DataFrame({"seed": 0, "version": [0, 1, 2], "test_loss": [1.0, np.inf, 0.5], "test_accuracy": 0.5})
    frame["epsilon_exact_max"] = [0.0, np.inf, np.inf]
    assert plot_rounds(frame, "test_loss", "version").axes[0].lines[0].get_xdata().tolist() == [0, 2]
    with pytest.raises(RunError, match=r"epsilon_exact_max is infinite throughout \(no noise\)"):
        plot_rounds(frame, None, "epsilon")
    frame["test_loss"] = np.inf
    with pytest.raises(
        RunError, match="y must be a column of finite numbers, test_loss has none where version is finite"
    ):
        plot_rounds(frame, "test_loss", "version")
    clients = pd.DataFrame({"seed": 0, "version": 1, "client": [0, 1, 2], "loss": [1.0, np.inf, 3.0]})
    median, worst = plot_clients(clients, "loss", "version").axes[0].lines
    assert (median.get_ydata().tolist(), worst.get_ydata().tolist()) == ([3.0], [np.inf])


def test_a_mean_is_drawn_of_two_places_that_all_seeds_have_and_not_of_one() -> None:
    frame = pd.DataFrame(
        {"seed": [0, 0, 1, 1, 1], "version": [0, 1, 0, 1, 2], "test_accuracy": [0.1, 0.3, 0.5, 0.5, 0.9]}
    )
    [axes] = plot_rounds(frame, None, "version").axes
    assert axes.lines[-1].get_xydata().tolist() == [[0.0, pytest.approx(0.3)], [1.0, pytest.approx(0.4)]]
    [axes] = plot_rounds(frame[frame["version"] != 1], None, "version").axes
    assert [line.get_label() for line in axes.lines] == ["seed 0", "seed 1"]
    assert axes.get_legend() is not None
