"""The privacy ledger of whole seeds: holdings, times, and agreement of its tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.privacy import Contribution
from asyncfl.privacy.accounting import MechanismEvent, epsilons_of
from asyncfl.privacy.accounting.gaussian import classical_constant, exact_epsilon
from asyncfl.privacy.flags import SCALES
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.release import Upload
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import CAUGHT, Kind
from asyncfl.results.run_tables import rounds_table
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.results.sent_uploads import SentUploads
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed

EPSILONS = ("basic", "advanced", "rdp", "exact")
TAPPED: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
    "protocol.max_staleness": 1,
    "world.device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 1.0},
    "world.uplink.loss": {"kind": "independent", "probability": 0.05},
    "world.uplink.retransmissions": 1,
    "world.tap": {"uplink": True, "downlink": True, "packet_loss": 0.02},
    "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": 4},
}


@pytest.fixture(scope="module")
def seeds() -> dict[str, tuple[Scenario, Any]]:
    return {}


@pytest.fixture
def tapped(scenario: Scenario, seeds: dict[str, tuple[Scenario, Any]]) -> tuple[Scenario, Any]:
    """An asynchronous seed with losses and a tap. Simulated once."""
    if "tapped" not in seeds:
        own = scenario.override(TAPPED)
        seeds["tapped"] = (own, simulate_seed(own, 0))
    return seeds["tapped"]


def test_the_server_holds_arrived_and_the_eavesdropper_overheard_uploads(tapped: tuple[Scenario, Any]) -> None:
    _, run = tapped
    ledger = SeedLedger(run).ledger.to_pandas()
    events = run.events.to_pandas()
    of_clients = ledger[ledger["holder"] == "client"]
    held = {who: rows.set_index("client")["releases"] for who, rows in of_clients.groupby("adversary")}
    # Of each upload that began the server has packets, also of those that were lost or not complete at the end.
    begun = events[(events["kind"] == "upload_started") & (events["time_s"] < events["time_s"].max())]
    whole = events[(events["kind"] == "overheard") & (events["detail"] == "up")]
    caught = events[events["kind"].isin(CAUGHT) & (events["detail"] == "up")]
    assert held["server"].sum() == begun["task"].nunique() > 0
    of_uploads = caught.groupby("client")["task"].nunique().reindex(range(5), fill_value=0)
    assert of_uploads.sum() > 0
    # Uploads that it caught, and what models say of those that it did not.
    assert (held["eavesdropper"] >= of_uploads).all()
    entered: dict[int, set[int]] = {client: set() for client in range(5)}
    client_of = {upload.task: upload.client for upload in run.uploads}
    for version, model in run.models.items():
        for upload in model.uploads:
            entered[client_of[upload.task]].add(version)
    for who in ("public", "public_last"):
        assert held[who].to_dict() == {client: len(versions) for client, versions in entered.items()}
    assert sum(map(len, entered.values())) > 0
    assert held["both"].sum() == len(set(begun["task"]) | set(caught["task"]))
    assert dict(whole.groupby("client")["task"].nunique()) == run.traffic.overheard_up
    assert len(whole) < len(caught), "of some uploads it caught a part"
    models = ledger[ledger["holder"] == "model"].set_index("adversary")["releases"]
    assert models.to_dict() == {who: of.max() for who, of in held.items()}


def test_untrained_uploads_are_recorded_as_typical(tapped: tuple[Scenario, Any]) -> None:
    scenario, run = tapped
    every = SentUploads(run).uploads
    assert [one.task for one in every] == sorted(one.task for one in every)
    trained = {one.task: one for one in run.uploads}
    assert [trained[one.task] for one in every if one.task in trained] == [trained[task] for task in sorted(trained)]
    seen = select(run.events, kinds=[Kind.UPLOADED, *CAUGHT]).to_pylist()
    left = {row["task"]: row for row in seen if row["task"] >= 0 and row["task"] not in trained}
    made = [one for one in every if one.task not in trained]
    assert [one.task for one in made] == sorted(left)
    assert made
    for one in made:
        contribution = Contribution(one.client, 20)
        std = scenario.privacy.upload_noise(run.context, 5.0, contribution).std
        assert one == Upload(
            one.task,
            left[one.task]["base_version"],
            contribution,
            upload_release(scenario.privacy, run.context, 5.0, contribution),
            5.0,
            None,
            False,
            std,
        )
        assert one.client == left[one.task]["client"]


def test_traces_of_earlier_updates_take_one_entry_for_each_upload(scenario: Scenario) -> None:
    """Error feedback carries what compression left out of all earlier uploads of a client into the next."""
    privacy = {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 1.0}
    compressed = {"compression": {"kind": "top_k", "share": 0.1}, "privacy": privacy}
    run = simulate_seed(scenario.override({**compressed, "protocol": {"kind": "sync", "rounds": 6}}), 0)
    sent = SentUploads(run).sent(7)
    assert len(sent.task) == 30
    assert len(sent.carried) == 25, "all but the first of each client"
    assert sent.computed_from == ()
    for row, before in sent.carried:
        own = np.flatnonzero(sent.client[:row] == sent.client[row])
        assert before == own[-1] == sent.previous[row]


def test_every_ledger_row_equals_the_accountants_of_its_releases(tapped: tuple[Scenario, Any]) -> None:
    _, run = tapped
    ledger = SeedLedger(run).ledger.to_pandas()
    # Of the server: it holds all that entered a model, so that models say no more to it.
    of_server = (ledger["holder"] == "client") & (ledger["adversary"] == "server")
    for row in ledger[of_server & (ledger["releases"] > 0)].to_dict("records"):
        found = epsilons_of([MechanismEvent("gaussian", row["noise_multiplier"], row["releases"])], row["delta"])
        for name in EPSILONS:
            assert row[f"{name}_epsilon"] == pytest.approx(getattr(found, name), rel=1e-9), name
        assert row["naive_epsilon"] == pytest.approx(row["releases"] * 60 / 4)


def test_spending_ends_at_the_ledger_and_never_falls(tapped: tuple[Scenario, Any]) -> None:
    _, run = tapped
    books = SeedLedger(run)
    ledger, spending = books.ledger.to_pandas(), books.spending.to_pandas()
    names = [f"{name}_epsilon" for name in EPSILONS]
    for (holder, client, adversary), rows in spending.groupby(["holder", "client", "adversary"]):
        assert (rows["time_s"].diff().dropna() > 0).all()
        assert (rows[names].diff().dropna() >= -1e-9).all(axis=None)
        if holder in ("client", "model"):
            end = ledger[(ledger["holder"] == holder) & (ledger["client"] == client)]
            end = end[end["adversary"] == adversary]
            assert rows[names].iloc[-1].tolist() == end[names].iloc[0].tolist()
            assert rows["naive_epsilon"].iloc[-1] == end["naive_epsilon"].iloc[0]
    of_clients = ledger[ledger["holder"] == "client"].groupby("adversary")[names]
    for name, reduced in (("largest", of_clients.max()), ("median", of_clients.median()), ("mean", of_clients.mean())):
        last = spending[spending["holder"] == name].groupby("adversary").last()
        pd.testing.assert_frame_equal(last[names], reduced, check_names=False)


def test_the_table_of_rounds_has_the_largest_epsilon_so_far(tapped: tuple[Scenario, Any]) -> None:
    _, run = tapped
    books = SeedLedger(run)
    rounds, spending = books.with_epsilons(rounds_table(run)).to_pandas(), books.spending.to_pandas()
    largest = spending[spending["holder"] == "largest"].drop_duplicates(["adversary", "version"])
    server = largest[largest["adversary"] == "server"]
    for name in ("naive", "basic", "rdp", "exact"):
        assert rounds[f"epsilon_{name}_max"].tolist() == server[f"{name}_epsilon"].tolist()
    overheard = largest[largest["adversary"] == "eavesdropper"]["exact_epsilon"]
    assert rounds["epsilon_exact_overheard_max"].tolist() == overheard.tolist()
    assert rounds["epsilon_exact_max"].iloc[0] == 0


def test_a_synchronous_round_costs_each_client_one_upload(scenario: Scenario) -> None:
    private = scenario.override(
        {"privacy": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 1.0}, "training.gradient_clip": 1.0}
    )
    books = SeedLedger(simulate_seed(private, 0))
    spending = books.spending.to_pandas()
    server = spending[(spending["holder"] == "client") & (spending["adversary"] == "server")]
    assert server.groupby("version")["releases"].unique().apply(list).to_dict() == {1: [1], 2: [2], 3: [3]}
    rounds = books.with_epsilons(rounds_table(books.run)).to_pandas()
    assert rounds["epsilon_naive_max"].tolist() == [0, 6, 12, 18]
    z = classical_constant(1e-5) / 6
    assert rounds["epsilon_exact_max"].tolist() == pytest.approx(exact_epsilon(np.arange(4) / z**2, 1e-5))
    assert (rounds["epsilon_exact_overheard_max"] == 0).all()


def test_a_timeline_has_no_ledger(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="releases nothing"):
        SeedLedger(simulate_clock(scenario, 0))


def test_scales_measured_on_the_clients_rows_leave_nothing_proven(scenario: Scenario, tmp_path: Path) -> None:
    """The row of one client moves the inputs, and so the gradients, of every client: no release is free of it."""
    rows = pd.DataFrame({"age": np.arange(40.0), "income": ["low", "high"] * 20})
    rows.to_csv(tmp_path / "people.csv", index=False)
    table = {"kind": "table", "path": str(tmp_path / "people.csv"), "target": "income"}
    private = {"training.example_clip": 1.0, "training.example_noise": 8.0}
    private |= {"privacy": {"kind": "dp_sgd", "noise_multiplier": 8.0}, "data.samples_per_client": None}
    for measured_on in ("test", "train"):
        data = {**table, "measured_on": measured_on}
        run = simulate_seed(
            scenario.override(
                {"data.dataset": data, "data.clients": 4, "data.source": "auto", "data.test_samples": None, **private}
            ),
            0,
        )
        ledger = SeedLedger(run).ledger.to_pandas()
        server = ledger[ledger["adversary"] == "server"]
        assert (server["exact_epsilon"] > 0).all()
        assert np.isinf(server["provable"]).all() == (measured_on == "train")
        assert (server["flags"].str.contains(SCALES)).all() == (measured_on == "train")
        # Without a tap the eavesdropper holds nothing.
        assert (ledger.loc[ledger["adversary"] == "eavesdropper", "provable"] == 0).all()


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_printed_step_of_safl_is_accounted_for_with_its_learning_rate(scenario: Scenario, epochs: int) -> None:
    """An upload of one epoch moves by lr 2C/n, and its noise is c1 2C/(n epsilon): mu = lr epsilon/c1."""
    own = scenario.override(
        {
            "training": {
                "lr": 0.01,
                "gradient_step": "printed",
                "batch_size": 1,
                "gradient_clip": 1.0,
                "epochs": epochs,
            },
            "privacy": {"kind": "local_gaussian", "epsilon": 6, "delta": 1e-5},
        }
    )
    ledger = SeedLedger(simulate_seed(own, 0)).ledger.to_pandas()
    rows = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server") & (ledger["releases"] > 0)]
    if epochs > 1:
        assert (rows["status"] == "heuristic").all()
        return
    squared_mu = rows["releases"] * (0.01 * 6 / classical_constant(1e-5)) ** 2
    np.testing.assert_allclose(rows["provable"], exact_epsilon(squared_mu.to_numpy(), 1e-5), rtol=1e-6)
    assert (rows["status"] == "proven").all()
    assert (rows["exact_epsilon"] > 5).all()
    assert rows["claim_holds"].all()


@pytest.mark.parametrize("value", [1e20, 3e38])
def test_a_sample_that_overflows_is_not_seen_in_dp_sgd(scenario: Scenario, tmp_path: Path, value: float) -> None:
    """Its update would be NaN and the server would reject it: an event of probability 0 or 1, at any epsilon."""
    rows = pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40.0) / 40, "income": ["low", "high"] * 20})
    rows.loc[:, "x"] = np.where(rows.index % 4 < 2, value, rows["x"])
    rows.to_csv(tmp_path / "people.csv", index=False)
    table = {"kind": "table", "path": str(tmp_path / "people.csv"), "target": "income", "standardised": False}
    changes: dict[str, Any] = {"training.example_clip": 1.0, "training.example_noise": 2.0, "data.dataset": table}
    changes |= {"privacy": {"kind": "dp_sgd", "noise_multiplier": 2.0}, "data.samples_per_client": None}
    changes |= {"data.clients": 4, "data.source": "auto", "data.test_samples": None, "evaluation.test_every": 0}
    run = simulate_seed(scenario.override({**changes, "evaluation.train_every": 0}), 0)
    kinds = run.events["kind"].to_pylist()
    assert "rejected" not in kinds
    assert run.fates["aggregated"] == kinds.count("trained")


def test_spending_ends_with_uploads_that_began_after_the_last_version(scenario: Scenario) -> None:
    changes: dict[str, Any] = {"protocol": {"kind": "sync", "rounds": 9, "time_limit_s": 0.7}}
    changes |= {"world.uplink.bandwidth_bps": 5e5, "privacy": {"kind": "dp_fedavg", "noise_multiplier": 4.0}}
    run = simulate_seed(scenario.override(changes), 0)
    last = run.events.to_pylist()[-1]
    begun = [row for row in run.events.to_pylist() if row["kind"] == Kind.UPLOAD_STARTED]
    assert run.rounds[-1]["time_s"] < begun[-1]["time_s"] < last["time_s"]
    books = SeedLedger(run)
    ledger, spending = books.ledger.to_pandas(), books.spending.to_pandas()
    for frame in (ledger, spending):
        own = frame[(frame["holder"] == "client") & (frame["adversary"] == "server")].groupby("client").last()
        assert own["releases"].sum() == len(begun)
