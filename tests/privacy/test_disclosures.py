"""Declarations of what messages and events tell about data, held against neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from statistics import NormalDist
from typing import Any, get_args

import numpy as np
import pytest

from asyncfl.base.disclosure import Leak, Public, disclosures, leaks
from asyncfl.base.tables import columns_of
from asyncfl.client.poison import Poison
from asyncfl.extras.live import client_messages
from asyncfl.extras.live.remote_client import RemoteClient
from asyncfl.learning import Job
from asyncfl.privacy.flags import BATCHES, BUDGETS, FLAGS, LOSSES, NO_NOISE, SCORES, UNCOVERED
from asyncfl.protocol import Server
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import DISCLOSED, SCORING_UP, EventsTable, Kind
from asyncfl.protocol.messages import Collected, Dispatch, Input, ScoreRequest, ScoresArrived
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from docs.disclosures import disclosure_page
from tests.extras.live.conftest import live

MESSAGES = (
    *get_args(Input),
    Dispatch,
    ScoreRequest,
    *get_args(client_messages.FromClient),
    *get_args(client_messages.FromServer),
    client_messages.Hello,
    client_messages.Welcome,
    client_messages.ClientEvent,
)
EVENT_COLUMNS = {name: one.disclosure for name, one in columns_of(EventsTable).items()}
SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 5, "epochs": 1},
    "protocol": {"kind": "sync", "rounds": 3},
}
NOISED = {"kind": "dp_fedavg", "noise_multiplier": 4.0}
POWER = {"kind": "power_of_choice", "candidates": 4}
CHOSEN = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
VICTIM = 1


def scenario(**changes: Any) -> Scenario:
    return Scenario.read(SMALL).override({name.replace("__", "."): value for name, value in changes.items()})


def play(world: Scenario, how: str) -> Any:
    return simulate_seed(world, 0) if how == "simulated" else live(world)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return epsilon from the likelihood ratio of N(0, 1) and N(mu, 1): the root of P(L > eps) - e^eps Q(L > eps)."""
    phi = NormalDist().cdf
    low, high = 0.0, 500.0
    for _ in range(200):
        middle = (low + high) / 2
        past = phi(mu / 2 - middle / mu) - np.exp(middle) * phi(-mu / 2 - middle / mu)
        low, high = (middle, high) if past > delta else (low, middle)
    return high


# --- declarations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.__name__)
def test_every_field_of_every_message_is_declared(message: type) -> None:
    assert [name for name, one in disclosures(message).items() if one is None] == []


@pytest.mark.parametrize(
    "message", [client_messages.Hello, *get_args(client_messages.FromClient)], ids=lambda one: one.__name__
)
def test_no_client_can_send_a_time_or_a_message_to_the_servers_state_machine(message: type) -> None:
    assert "time_s" not in disclosures(message)
    assert not issubclass(message, get_args(Input))


def test_every_kind_and_column_of_events_is_declared() -> None:
    assert set(DISCLOSED) == set(Kind)
    assert [name for name, one in EVENT_COLUMNS.items() if one is None] == []


def test_leaks_have_flags_that_prove_nothing() -> None:
    declared = [one for message in MESSAGES for one in disclosures(message).values()]
    found = {one.flag for one in (*declared, *EVENT_COLUMNS.values(), *DISCLOSED.values()) if isinstance(one, Leak)}
    assert found <= set(FLAGS)
    # A rejection is counted as a release without noise.
    assert found - {"rejected for what it holds"} <= set(UNCOVERED)


def test_live_messages_leak_nothing_that_the_ledger_does_not_look_for() -> None:
    assert set(leaks(client_messages.Update, FLAGS)) <= set(leaks(Collected, FLAGS))
    assert (
        set(leaks(client_messages.Scores, FLAGS)) - {BUDGETS}
        == set(leaks(ScoresArrived, FLAGS)) - {BATCHES}
        == {SCORES}
    )


# --- messages on neighbouring data ---------------------------------------------------------------------------------


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Run a function and return the messages that its server was sent.

    `bad`: the victim's first sample is infinite.
    """

    def recorded(run: Callable[[], object], bad: bool) -> list[Any]:
        found: list[Any] = []
        handle, hear, job = Server.handle, RemoteClient.receive, Poison.job

        def handled(self: Server, message: Any) -> Any:
            found.append(message)
            return handle(self, message)

        def heard(self: RemoteClient, said: Any, *more: Any) -> Any:
            found.append(said)
            return hear(self, said, *more)

        def job_of(self: Poison, assignment: Any, attacked: bool = False) -> Job:
            made = job(self, assignment, attacked)
            if not bad or assignment.client != VICTIM:
                return made
            images = made.images.copy()
            images[0] = np.inf
            return replace(made, images=images)

        with monkeypatch.context() as patched:
            patched.setattr(Server, "handle", handled)
            patched.setattr(RemoteClient, "receive", heard)
            patched.setattr(Poison, "job", job_of)
            run()
        return found

    return recorded


def public_values(messages: Iterable[Any], in_force: Collection[str] = ()) -> list[Any]:
    """Return the values of all fields that tell nothing about data in a run with the flags `in_force`."""
    found: list[Any] = []
    for message in messages:
        for name, one in disclosures(type(message)).items():
            if isinstance(one, Leak) and one.flag not in in_force:
                one = one.otherwise
            if isinstance(one, Public):
                value = getattr(message, name)
                value = value.tolist() if isinstance(value, np.ndarray) else value
                found.append((type(message).__name__, name, value))
    return found


WORLDS = {
    "dp_fedavg": {"privacy": NOISED},
    "dp_sgd": {
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 4.0},
        "training.example_clip": 1.0,
        "training.example_noise": 4.0,
    },
    "budgets": {"privacy": {**NOISED, "stop_at": {"epsilon": 4.0}}},
}


@pytest.mark.parametrize("name", ["dp_fedavg", "budgets"])
@pytest.mark.parametrize("how", ["simulated", "live"])
def test_public_fields_are_equal_on_neighbouring_data(record: Callable[..., list[Any]], name: str, how: str) -> None:
    world = scenario(**WORLDS[name])
    one, other = (public_values(record(lambda: play(world, how), bad)) for bad in (False, True))
    assert one == other
    assert len(one) > 20


@pytest.mark.parametrize("how", ["simulated", "live"])
def test_no_loss_is_sent_where_nothing_needs_it(record: Callable[..., list[Any]], how: str) -> None:
    world = scenario(**WORLDS["dp_sgd"])
    messages = record(lambda: play(world, how), False)
    assert {one.losses for one in messages if isinstance(one, Collected)} == {None}
    assert {one.loss for one in messages if isinstance(one, client_messages.Update)} <= {None}


# --- leaks in the ledger -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["simulated", "live"])
def test_losses_that_a_selection_needs_make_epsilon_infinite(record: Callable[..., list[Any]], how: str) -> None:
    world = scenario(privacy=NOISED, protocol={**CHOSEN, "selection": POWER})
    runs: list[Any] = []
    sent = (record(lambda: runs.append(play(world, how)), bad) for bad in (False, True))
    one, other = ([message.losses for message in messages if isinstance(message, Collected)] for messages in sent)
    # The losses have no noise: the two worlds never give equal messages, so the likelihood ratio is infinite.
    assert any((mine != others).any() for mine, others in zip(one, other, strict=False))
    ledger = SeedLedger(runs[0]).ledger.to_pandas()
    rows = ledger[ledger["holder"] == "client"].set_index(["adversary", "client"])
    told = set(select(runs[0].events, kinds=[Kind.UPLOADED])["client"].to_pylist())
    for who in ("server", "both"):
        own = rows.loc[who].loc[sorted(told)]
        assert np.isinf(own["exact_epsilon"]).all()
        assert np.isinf(own["provable"]).all()
        assert own["flags"].str.contains(LOSSES).all()
        assert own["flags"].str.contains(NO_NOISE).all()
    # Whoever sees only models knows what the selection decided.
    public = rows.loc["public"].loc[sorted(told)]
    assert np.isinf(public["provable"]).all()
    assert public["flags"].str.contains(LOSSES).all()


@pytest.mark.parametrize(
    ("batches", "virtual", "flagged"), [("poisson", False, True), ("poisson", True, False), ("shuffled", False, False)]
)
def test_times_of_real_trainings_on_secret_batches_prove_nothing(batches: str, virtual: bool, flagged: bool) -> None:
    run = live(scenario(**WORLDS["dp_sgd"], training__batches=batches), virtual=virtual)
    rows = SeedLedger(run).ledger.to_pandas().query("adversary in ('server', 'public')")
    assert rows["flags"].str.contains(BATCHES).tolist() == [flagged] * len(rows)
    assert np.isinf(rows["provable"]).tolist() == [flagged] * len(rows)
    assert np.isfinite(rows["exact_epsilon"]).all(), "of the noised releases alone"
    assert (rows["claim_holds"] == True).any() != flagged  # noqa: E712


LOSSY = {
    "defence": {"detector": {"kind": "safl"}},
    "protocol": {"kind": "sync", "rounds": 6},
    "world.uplink": {"mtu_bytes": 10**6, "loss": {"kind": "independent", "probability": 0.4}, "retransmissions": 0},
    "world.downlink": {"mtu_bytes": 10**6},
    "world.tap": {"uplink": True, "downlink": False, "scoring": True, "packet_loss": 0.0},
}


def test_lost_scores_that_the_tap_caught_count_against_it() -> None:
    std, z = 3.0, 4.0
    run = simulate_seed(scenario(**LOSSY, privacy={**NOISED, "scores": {"std": std}}), 0)
    scored = select(run.events, kinds=[Kind.SCORES_REQUESTED, Kind.SCORED]).to_pylist()
    heard = [row for row in select(run.events, kinds=[Kind.OVERHEARD]).to_pylist() if row["detail"] == SCORING_UP]
    arrived = [row for row in scored if row["kind"] == Kind.SCORED and row["detail"] != "no answer"]
    assert len(heard) > len(arrived) > 0
    squared_mu = np.zeros(5)
    for row in heard:
        asked = next(r for r in reversed(scored) if r["seq"] < row["seq"] and r["kind"] == Kind.SCORES_REQUESTED)
        assert asked["client"] == row["client"]
        # Each of k accuracies moves by at most 1 if all data of the client are replaced.
        squared_mu[row["client"]] += int(asked["detail"].split()[0]) / std**2
    tasks = {(row["task"], row["client"]) for row in select(run.events, kinds=[Kind.OVERHEARD]).to_pylist()}
    for task, client in tasks:
        squared_mu[client] += (2 / z) ** 2 if task >= 0 else 0.0
    truth = [gaussian_epsilon(mu, 1e-5) for mu in np.sqrt(squared_mu)]
    ledger = SeedLedger(run).ledger.to_pandas()
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "eavesdropper")]
    assert own["exact_epsilon"].to_numpy() == pytest.approx(truth, rel=1e-6)
    both = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "both")]
    assert (both["exact_epsilon"].to_numpy() >= np.array(truth) * (1 - 1e-9)).all()


def test_lost_scores_without_noise_make_epsilon_infinite_for_the_tap() -> None:
    run = simulate_seed(scenario(**LOSSY, privacy=NOISED), 0)
    heard = [row for row in select(run.events, kinds=[Kind.OVERHEARD]).to_pylist() if row["detail"] == SCORING_UP]
    answered = select(run.events, kinds=[Kind.SCORED]).to_pylist()
    arrived = {row["client"] for row in answered if row["detail"] != "no answer"}
    rows = SeedLedger(run).ledger.to_pandas().query("holder == 'client'").set_index(["adversary", "client"])
    for who, clients in (("eavesdropper", {row["client"] for row in heard}), ("server", arrived)):
        own = rows.loc[who]
        # An accuracy without noise differs between neighbouring data sets with probability 1.
        assert set(own.index[np.isinf(own["exact_epsilon"])]) == clients, who
        assert own.loc[sorted(clients), "flags"].str.contains(SCORES).all()
    assert {row["client"] for row in heard} > arrived


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_lists_every_declared_field_and_kind() -> None:
    lines = disclosure_page().splitlines()
    for name in (*(name for message in MESSAGES for name in disclosures(message)), *EVENT_COLUMNS, *Kind):
        assert any(line.startswith(f"| `{name}` | ") for line in lines), name
    assert "| `loss` | **leak** (losses without noise); otherwise public: not sent |" in lines
