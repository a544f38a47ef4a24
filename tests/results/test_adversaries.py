"""Knowledge of each adversary in whole seeds, counted by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.privacy.accounting.gaussian import analytic_multiplier, classical_constant, exact_epsilon
from asyncfl.privacy.flags import COMPUTED, CRAFTED, LOSSES, NO_NOISE, REJECTION, SCORES, WEIGHTS
from asyncfl.privacy.ledger.views import NEVER, UploadTable
from asyncfl.privacy.release import Release
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import RejectedUpdate, ScoreRelease, adversary_views, overheard_answers
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.world import TaskDraws, Transfer, World

SERVER = {"kind": "dp_fedavg", "noise_multiplier": 1.1, "noise_at": "server"}
CLIENTS = {"kind": "dp_fedavg", "noise_multiplier": 4.0}
WHOLE = {"world.uplink.mtu_bytes": 10**6, "world.downlink": {"mtu_bytes": 10**6}}
"""One packet per message."""


def of(scenario: Scenario, **changes: Any) -> tuple[SeedRun, pd.DataFrame]:
    run = simulate_seed(scenario.override({name.replace("__", "."): value for name, value in changes.items()}), 0)
    return run, SeedLedger(run).ledger.to_pandas()


def largest(ledger: pd.DataFrame, adversary: str, column: str = "exact_epsilon") -> float:
    own = ledger[(ledger["adversary"] == adversary) & (ledger["holder"] == "client")]
    return float(own[column].max())


def test_a_model_reveals_earlier_missed_models(scenario: Scenario) -> None:
    changes = {
        "data.clients": 8,
        "protocol": {
            "kind": "buffered",
            "rounds": 60,
            "buffer": 4,
            "dispatch": {"kind": "constant", "in_flight": 6},
            "staleness": {"kind": "constant"},
        },
        **WHOLE,
        "world.tap": {"uplink": False, "downlink": True, "packet_loss": 0.9},
        "privacy": SERVER,
        "evaluation": {"train_every": 0, "test_every": 0},
    }
    run, ledger = of(scenario, **changes)
    caught = sorted(run.traffic.overheard_versions - {0})
    assert 5 < len(caught) < 30
    # z = 1.1 for the client with most updates in a version; the noise hides the others better.
    squares = np.zeros((61, 8))
    for version, model in run.models.items():
        times = np.bincount([upload.client for upload in model.uploads], minlength=8)
        squares[version] = (2 / 1.1 * times / times.max()) ** 2
    truth = exact_epsilon(squares[: caught[-1] + 1].sum(axis=0).max(), 1e-5)
    of_caught = exact_epsilon(squares[caught].sum(axis=0).max(), 1e-5)
    assert largest(ledger, "eavesdropper") == pytest.approx(truth)
    assert truth > 1.3 * of_caught
    models = ledger[(ledger["holder"] == "model") & (ledger["adversary"] == "eavesdropper")]
    assert models["exact_epsilon"].tolist() == pytest.approx([truth])
    # The server knows its own noise, and holds bare uploads.
    assert largest(ledger, "server") == largest(ledger, "both") == np.inf


def test_noise_of_an_upload_that_is_held_protects_no_later_model(scenario: Scenario) -> None:
    changes: dict[str, Any] = {"data.clients": 6, "protocol.rounds": 5, "privacy": CLIENTS, **WHOLE}
    changes["world.tap"] = {"uplink": True, "downlink": True, "packet_loss": 0.3}
    run, ledger = of(scenario, **changes)
    heard = select(run.events, kinds=[Kind.OVERHEARD]).to_pylist()
    held = {one["task"] for one in heard if one["detail"] == "up"}
    newest = max(one["base_version"] for one in heard)
    squares = np.zeros(6)
    for version, model in run.models.items():
        left = [upload for upload in model.uploads if upload.task not in held]
        for upload in model.uploads:
            if upload.task in held:
                squares[upload.client] += (2 / 4) ** 2
            elif version <= newest:
                squares[upload.client] += 2**2 / (len(left) * 4**2)
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "eavesdropper")]
    assert own["squared_mu"].to_numpy() == pytest.approx(squares)
    assert largest(ledger, "eavesdropper") == pytest.approx(4.4819, abs=5e-5), "1.99 and 1.80 were told"
    assert largest(ledger, "public") == pytest.approx(1.8005, abs=5e-5)


def test_an_upload_reveals_the_versions_it_was_trained_from(scenario: Scenario) -> None:
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 4.0}}
    training = {"training.example_clip": 1.0, "training.example_noise": 4.0}
    tap = {"world.tap": {"uplink": True, "downlink": False, "packet_loss": 0.8}, **WHOLE}
    run, ledger = of(scenario, **private, **training, **tap, **{"data.clients": 2, "protocol.rounds": 6})
    caught = [one for one in select(run.events, kinds=[Kind.OVERHEARD]).to_pylist() if one["detail"] == "up"]
    assert 0 < len(caught) < 6
    base = max(one["base_version"] for one in caught)
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "eavesdropper")].set_index("client")
    for client in (0, 1):
        held = {one["base_version"] for one in caught if one["client"] == client} | set(range(base))
        assert own.loc[client, "exact_epsilon"] == pytest.approx(exact_epsilon(len(held) * (2 / 4) ** 2, 1e-5))


@pytest.mark.parametrize("mtu", [1500, 10**6])
def test_the_server_holds_lost_uploads_of_which_packets_arrived(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, mtu: int
) -> None:
    arrived = dict.fromkeys(range(5), 0)
    upload = TaskDraws.upload

    def counted(self: TaskDraws, size: int) -> Transfer:
        transfer = upload(self, size)
        arrived[self.client] += transfer.packets_lost < transfer.packets_sent
        return transfer

    monkeypatch.setattr(TaskDraws, "upload", counted)
    link = {"loss": {"kind": "independent", "probability": 0.2}, "retransmissions": 0, "mtu_bytes": mtu}
    protocol = {"kind": "sync", "rounds": 3, "time_limit_s": 300.0}
    run, ledger = of(scenario, privacy=CLIENTS, world__uplink=link, protocol=protocol)
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]
    assert own["releases"].tolist() == list(arrived.values())
    assert sum(arrived.values()) > 0
    assert (sum(arrived.values()) > run.fates["aggregated"]) == (mtu == 1500)
    # Noise of z = 4 on each coordinate of an update that moves by 2 S.
    truth = exact_epsilon(own["releases"].to_numpy() * (2 / 4) ** 2, 1e-5)
    assert own["provable"].to_numpy() == pytest.approx(truth)


def test_the_server_holds_what_arrived_of_uploads_at_the_end_of_the_run(scenario: Scenario) -> None:
    """Uploads take five seconds, and all five clients begin theirs within a fifth of a second."""
    protocol = {"kind": "fedbuff", "rounds": 1, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 5}}
    world = {
        "world.uplink.bandwidth_bps": 2e4,
        "world.device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.1},
    }
    run, ledger = of(scenario, privacy=CLIENTS, protocol=protocol, **world)
    assert select(run.events, kinds=[Kind.UPLOADED]).num_rows == 2
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]
    assert own["releases"].tolist() == [1] * 5
    assert own["provable"].tolist() == pytest.approx([exact_epsilon((2 / 4) ** 2, 1e-5)] * 5)


def test_the_server_holds_uploads_that_broke_off_after_a_packet(scenario: Scenario) -> None:
    away = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 3.0}, "off_s": 1.0}
    changes = {"world.uplink.bandwidth_bps": 1e4, "world.availability": away, "privacy": CLIENTS}
    run, ledger = of(scenario, **changes, protocol={"kind": "sync", "rounds": 3, "time_limit_s": 60.0})
    events = run.events.to_pylist()
    started = {row["task"] for row in events if row["kind"] == Kind.UPLOAD_STARTED}
    whole = [row["client"] for row in events if row["kind"] == Kind.UPLOADED]
    broken = [row for row in events if row["kind"] == Kind.WENT_OFFLINE and row["task"] in started]
    left = [row["client"] for row in broken if row["bytes"] > 0]
    own = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]
    ended = {row["task"] for row in events if row["kind"] in (Kind.UPLOADED, Kind.WENT_OFFLINE)}
    begun = [row for row in events if row["kind"] == Kind.UPLOAD_STARTED and row["time_s"] < events[-1]["time_s"]]
    last = [row["client"] for row in begun if row["task"] not in ended]
    assert own["releases"].tolist() == [(whole + left + last).count(client) for client in range(5)]
    assert left


@pytest.mark.parametrize(("victim", "epsilon"), [("first", 56.678), ("outlying", np.inf)])
def test_attackers_that_copy_an_update_multiply_it(scenario: Scenario, victim: str, epsilon: float) -> None:
    changes = {"data.clients": 6, "protocol.rounds": 1, "privacy": SERVER}
    run, ledger = of(scenario, **changes, threats={"attack": {"kind": "mimic", "victim": victim}, "attackers": 3})
    assert largest(ledger, "public") == pytest.approx(epsilon, abs=5e-4), "8.9 was told"
    rows = ledger[(ledger["adversary"] == "public") & (ledger["holder"] == "client")].set_index("client")
    assert {client for client, flags in rows["flags"].items() if CRAFTED in flags} == set(run.attackers)
    honest = rows.drop(index=run.attackers)
    assert honest["flags"].str.contains(COMPUTED).all() == (victim == "outlying")


def test_attacks_computed_from_noised_updates_reveal_no_more(scenario: Scenario) -> None:
    changes = {"data.clients": 6, "protocol.rounds": 2, "privacy": CLIENTS}
    attack = {"kind": "ipm", "knowledge": "buffer"}
    _, ledger = of(scenario, **changes, threats={"attack": attack, "attackers": 2})
    assert largest(ledger, "public") == pytest.approx(exact_epsilon(2 * (2 / 4) ** 2, 1e-5))


def test_updates_that_a_rule_does_not_select_still_count(scenario: Scenario) -> None:
    changes: dict[str, Any] = {"data.clients": 6, "protocol.rounds": 2, "defence": {"rule": {"kind": "krum"}}}
    noised = {"kind": "dp_fedavg", "noise_multiplier": 1.0, "noise_at": "client"}
    run, ledger = of(scenario, **changes, privacy=noised, world__tap={"uplink": False, "downlink": True})
    chosen = {upload.client for model in run.models.values() for upload in model.uploads if upload.weight}
    assert len(chosen) <= 2
    of_clients = ledger[ledger["holder"] == "client"]
    # Another client's data may change who is chosen: each of two noised uploads is as good as held.
    public = of_clients[of_clients["adversary"] == "public"]
    assert public["exact_epsilon"].to_numpy() == pytest.approx(np.full(6, exact_epsilon(2 * 2**2, 1e-5)))
    # The tap has the first version, when clients are sent it.
    heard = of_clients[of_clients["adversary"] == "eavesdropper"]
    assert heard["exact_epsilon"].to_numpy() == pytest.approx(np.full(6, exact_epsilon(2**2, 1e-5)))
    _, ledger = of(scenario, **changes, privacy=SERVER)
    rows = ledger[(ledger["adversary"] == "public") & (ledger["holder"] == "client")]
    assert np.isinf(rows["exact_epsilon"]).all()
    assert np.isinf(rows["provable"]).all()
    assert rows["flags"].str.contains(WEIGHTS).all()


def test_flagged_updates_still_count(scenario: Scenario) -> None:
    changes: dict[str, Any] = {"defence": {"detector": {"kind": "safl"}}, "protocol.rounds": 4, "privacy": CLIENTS}
    run, ledger = of(scenario, **changes)
    flagged = select(run.events, kinds=[Kind.FLAGGED]).to_pylist()
    assert flagged
    entered = [upload.client for model in run.models.values() for upload in model.uploads]
    assert len(entered) + len(flagged) == 4 * 5
    rows = ledger[(ledger["adversary"] == "public") & (ledger["holder"] == "client")]
    assert rows["squared_mu"].to_numpy() == pytest.approx(np.full(5, 4 * (2 / 4) ** 2))


def test_nothing_is_proven_of_whom_no_number_is_told_where_what_no_ledger_covers_was_decided(
    scenario: Scenario,
) -> None:
    # The median norm follows the norms of all, heard or not: of 8, of whom 4 are asked.
    private = {"kind": "nbafl", "epsilon": 60, "clip_norm": "median"}
    changes = {"data.clients": 8, "protocol": {"kind": "sync", "rounds": 1, "participants": 4}, "privacy": private}
    tap = {"uplink": True, "downlink": False, "packet_loss": 0.5}
    run, ledger = of(scenario, **changes, **WHOLE, world__tap=tap)
    asked = {upload.client for upload in run.uploads}
    own = ledger[ledger["holder"] == "client"].set_index(["adversary", "client"])
    heard = own.loc["eavesdropper"]
    unheard = heard[heard["exact_epsilon"] == 0].index
    assert 4 < len(unheard) < 8
    assert np.isinf(heard.loc[sorted(asked), "provable"]).all()
    assert (heard.loc[sorted(set(range(8)) - asked), "provable"] == 0).all()


@pytest.mark.parametrize("selection", [{"kind": "oort"}, {"kind": "power_of_choice", "candidates": 4}])
def test_selection_by_losses_is_flagged(scenario: Scenario, selection: dict[str, Any]) -> None:
    protocol = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
    changes: dict[str, Any] = {"data.clients": 8, "privacy": CLIENTS}
    run, ledger = of(scenario, **changes, protocol={**protocol, "selection": selection})
    begun = select(run.events, kinds=[Kind.UPLOAD_STARTED]).to_pylist()
    ended_s = run.events["time_s"][-1].as_py()
    # Also an upload of which a part had arrived at the end.
    told = {row["client"] for row in begun if row["time_s"] < ended_s}
    assert 2 < len(told) < 8
    for who, rows in ledger[ledger["holder"] == "client"].groupby("adversary"):
        flagged = rows[rows["flags"].str.contains(LOSSES)]
        # Without a tap the eavesdropper has nothing.
        assert set(flagged["client"]) == (set() if who == "eavesdropper" else told), who
        assert np.isinf(flagged["provable"]).all()
    models = ledger[(ledger["holder"] == "model") & (ledger["adversary"] == "public")]
    assert models["flags"].str.contains(LOSSES).all()
    _, ledger = of(scenario, **changes, protocol=protocol)
    assert not ledger["flags"].str.contains(LOSSES).any()


SCORED: dict[str, Any] = {
    "defence": {"detector": {"kind": "safl"}},
    "training.gradient_clip": 1.0,
    "world.tap": {"uplink": True, "downlink": False, "packet_loss": 0.0},
}


def test_noised_scores_are_counted_and_bare_scores_flagged(scenario: Scenario) -> None:
    private = {"kind": "local_gaussian", "epsilon": 6, "curious": [0]}
    run, bare = of(scenario, **SCORED, privacy=private)
    answers = select(run.events, kinds=[Kind.SCORED]).to_pylist()
    asked = {row["client"] for row in answers}
    of_server = bare[(bare["adversary"] == "server") & (bare["holder"] == "client")]
    flagged = set(of_server["client"][of_server["flags"].str.contains(SCORES)])
    assert flagged == asked
    # What they decided stands in the models: who holds these sees it. The tap has no model but those before the last.
    for who, versions in (("public", 3), ("public_last", 3), ("eavesdropper", 2), ("curious", 2)):
        rows = bare[(bare["adversary"] == who) & (bare["holder"] == "client")].set_index("client")
        seen = {row["client"] for row in answers if row["version"] < versions} & {*rows.index}
        assert {client for client, flags in rows["flags"].items() if SCORES in flags} == seen, who
        assert seen, who
        assert np.isinf(rows.loc[sorted(seen), "provable"]).all(), who
    run, noised = of(scenario, **SCORED, privacy={**private, "scores": {"epsilon": 0.5}})
    assert not noised["flags"].str.contains(SCORES).any()
    times = np.bincount([row["client"] for row in select(run.events, kinds=[Kind.SCORED]).to_pylist()], minlength=5)
    own = noised[(noised["adversary"] == "server") & (noised["holder"] == "client")]
    upload = (6 / classical_constant(1e-5)) ** 2
    answer = analytic_multiplier(0.5, 1e-5) ** -2
    assert own["squared_mu"].to_numpy() == pytest.approx(own["releases"].to_numpy() * upload + times * answer)
    assert own["naive_epsilon"].to_numpy() == pytest.approx(own["releases"].to_numpy() * 6 + times * 0.5)
    # A detector decides by them: all that entered, or did not, and each score, is known to who holds all models.
    public = noised[(noised["adversary"] == "public") & (noised["holder"] == "client")]
    assert public["squared_mu"].to_numpy() == pytest.approx(3 * upload + times * answer)


def test_scores_with_personal_layers_count_with_a_sensitivity_of_one_each(scenario: Scenario) -> None:
    private = {"kind": "local_gaussian", "epsilon": 6, "scores": {"std": 0.3}}
    run, ledger = of(scenario, **SCORED, privacy=private, **{"model.personal": ["3.*"]})
    squares = np.zeros(5)
    for row in select(run.events, kinds=[Kind.SCORED]).to_pylist():
        squares[row["client"]] += int(row["detail"].split()[0]) / 0.3**2
    own = ledger[(ledger["adversary"] == "server") & (ledger["holder"] == "client")]
    upload = (6 / classical_constant(1e-5)) ** 2
    assert own["squared_mu"].to_numpy() == pytest.approx(own["releases"].to_numpy() * upload + squares)
    assert squares.any()


def test_overheard_scores_count_against_the_eavesdropper(scenario: Scenario) -> None:
    private = {"kind": "local_gaussian", "epsilon": 6, "scores": {"epsilon": 0.5}}
    run, ledger = of(scenario, **{**SCORED, "world.tap": {"scoring": True, "packet_loss": 0.3}}, privacy=private)
    heard = np.zeros(5)
    for row in overheard_answers(run.events).to_pylist():
        heard[row["client"]] += 1
    answers = select(run.events, kinds=[Kind.SCORED]).to_pylist()
    assert 0 < heard.sum() < len(answers)
    own = ledger[(ledger["adversary"] == "eavesdropper") & (ledger["holder"] == "client")]
    # The models to score go in many packets: a part of each was caught, and reveals the versions that it began with.
    tasks = Tasks.of(run.tasks)
    scored = ~np.isnan(np.fmin(tasks.overheard_scoring_s, tasks.overheard_scoring_in_part_s))
    uploads = np.bincount(tasks.client[scored], minlength=5)
    newest = tasks.base_version[scored].max()
    known = {(row["client"], row["version"]) for row in overheard_answers(run.events).to_pylist()}
    known |= {(row["client"], row["version"]) for row in answers if row["version"] < newest}
    scores = np.bincount([client for client, _ in known], minlength=5) / analytic_multiplier(0.5, 1e-5) ** 2
    upload = (6 / classical_constant(1e-5)) ** 2
    assert own["squared_mu"].to_numpy() == pytest.approx(uploads * upload + scores)


def test_a_rejection_reveals_a_non_finite_update(scenario: Scenario) -> None:
    run, ledger = of(scenario, **{"training.lr": 1e30, "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0}})
    honest = {row["client"] for row in select(run.events, kinds=[Kind.REJECTED]).to_pylist()}
    own = ledger[(ledger["adversary"] == "server") & ledger["client"].isin(honest)]
    assert honest
    assert own["flags"].str.contains(REJECTION).all()
    assert np.isinf(own["exact_epsilon"]).all()
    assert own["releases"].tolist() == [1] * len(honest)


@pytest.mark.parametrize("curious", [[1, 4], [0, 3], [2, 5]])
def test_curious_clients_know_their_uploads_and_received_models(scenario: Scenario, curious: list[int]) -> None:
    changes = {"data.clients": 6, "protocol.rounds": 4, "privacy": {**CLIENTS, "curious": curious}}
    _, ledger = of(scenario, **changes)
    own = ledger[(ledger["adversary"] == "curious") & (ledger["holder"] == "client")]
    assert own["client"].tolist() == sorted({0, 1, 2, 3, 4, 5} - set(curious))
    # They are sent versions 1 to 3; four of six noises are unknown to them.
    assert own["squared_mu"].to_numpy() == pytest.approx(np.full(4, 3 * 2**2 / (4 * 4**2)))
    assert set(own["trusts"]) == {"server, links, other clients"}
    _, shared = of(scenario, **{**changes, "privacy": {**CLIENTS, "curious": 0.34}})
    assert len(shared[(shared["adversary"] == "curious") & (shared["holder"] == "client")]) == 4


@pytest.mark.parametrize(
    "changes",
    [{"compression": {"kind": "top_k", "share": 0.1}}, {"defence": {"rule": {"kind": "krum"}}, "data.clients": 6}],
    ids=["compressed", "krum"],
)
def test_a_claim_is_undecided_if_epsilon_has_no_known_bound(scenario: Scenario, changes: dict[str, Any]) -> None:
    _, ledger = of(scenario, **changes, privacy=SERVER)
    rows = ledger.set_index(["adversary", "holder"]).loc[("public", "model")]
    row = rows.iloc[0] if isinstance(rows, pd.DataFrame) else rows
    assert np.isfinite(row["claimed_epsilon"])
    assert row["exact_epsilon"] == row["provable"] == np.inf
    assert row["claim_holds"] is None
    assert NO_NOISE not in row["flags"]
    # The server knows its noise and holds bare uploads: that is known, and breaks what is claimed.
    own = ledger.set_index(["adversary", "holder"]).loc[("server", "model")]
    broken = own.iloc[0] if isinstance(own, pd.DataFrame) else own
    assert broken["claim_holds"] is False
    assert NO_NOISE in broken["flags"]


def test_views_of_all_adversaries_on_a_small_trace_by_hand() -> None:
    """Versions 1 and 2 at seconds 10 and 20. The scores of one client influenced each of them, those of two clients
    version 3."""
    book = Recorder(seed=0)
    for time_s, kind, more in (
        *((0.0, Kind.DISPATCHED, {"client": client, "task": task}) for task, client in ((0, 4), (1, 3))),
        (20.0, Kind.DISPATCHED, {"client": 4, "task": 2, "base_version": 2}),
        (8.0, Kind.UPLOADED, {"client": 4, "task": 0, "detail": "up"}),
        (22.0, Kind.OVERHEARD, {"client": 3, "detail": "up", "task": 1}),
        (23.0, Kind.DOWNLOADED, {"client": 4, "base_version": 2, "task": 2, "detail": "down"}),
    ):
        book.add(time_s, kind, **more)
    told = Release("gaussian", 1.0, 1.0, 1, 2.0)
    answers = [
        ScoreRelease(0, told, 1, 3.0, 3.0),
        ScoreRelease(1, told, 2, 11.5, None),
        ScoreRelease(2, told, 3, 25.0, 21.0),
        ScoreRelease(3, told, 3, 26.0, None),
        # Only the eavesdropper received this one.
        ScoreRelease(3, told, None, None, 12.0),
    ]
    n, ones = 2, np.ones(2)
    sent = UploadTable(
        np.arange(n), np.array([4, 3]), np.zeros(n, int), np.array([1, 0]), ones, ones < 0, ones, ones, ones,
        np.ones(n, int), ones, ones, ones > 0, np.full(n, -1),
    )  # fmt: skip
    published = {version: 10.0 * version for version in (0, 1, 2)}
    moments = [0.0, 10.0, 20.0, 26.0]
    further = (frozenset({4}), World(), answers, [RejectedUpdate(1, 3, 2)])
    tasks = Tasks.of(tasks_of_events(book.table()))
    found_views = adversary_views(
        tasks, [], published, sent, lambda time_s: int(np.searchsorted(moments, time_s)), *further
    )
    views = {view.adversary: view for view in found_views}
    assert list(views) == ["eavesdropper", "server", "both", "curious", "public_last", "public"]

    found = {
        who: (view.uploads.tolist(), view.versions.tolist(), [(client, at) for client, at, _ in view.further])
        for who, view in views.items()
    }
    of_all = [(0, 1), (1, 2), (3, 2), (2, 3), (3, 3)]
    assert found == {
        "eavesdropper": ([NEVER, 3], [NEVER] * 3, [(0, 1), (3, 2), (2, 3), (3, 3)]),
        "server": ([1, NEVER], [0, 1, 2], of_all),
        "both": ([1, 3], [0, 1, 2], [*of_all[:3], (3, 2), *of_all[3:]]),
        "curious": ([1, NEVER], [NEVER, NEVER, 3], [(0, 3), (1, 3), (3, 3)]),
        "public_last": ([NEVER] * 2, [NEVER, NEVER, 2], [(0, 2), (1, 2), (3, 2)]),
        "public": ([NEVER] * 2, [0, 1, 2], [(0, 1), (1, 2), (3, 2)]),
    }
    assert [who for who, view in views.items() if view.knows_server_noise] == ["server", "both"]
    # What was rejected is known as if it were bare: nothing hides that it was not finite.
    bare = [release for client, _, release in views["public"].further if client == 3]
    assert bare == [Release("gaussian", 0.0, 1.0, 1, 0.0)]
