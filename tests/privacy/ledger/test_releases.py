"""Releases of scores and of published models by each client, and epsilon over time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy import Contribution, DpFedAvg, LaplaceNoise, Mechanisms, PrivacyContext
from asyncfl.privacy.accounting import MechanismEvent, epsilons_of
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.accounts import COLUMNS, Account, largest, spending
from asyncfl.privacy.ledger.releases import Release, Releases, answer_release, model_releases
from asyncfl.privacy.ledger.rows import ledger
from asyncfl.privacy.noise import ScoreNoise
from asyncfl.privacy.scheme import Guarantee, Unit
from tests.privacy.planned import model_accounts, published_models


def test_scores_without_noise_count_as_no_mechanism() -> None:
    stated = Guarantee("sample", "replace", "proven", 2.0, 1e-5, 10)
    assert answer_release(None, stated, 3, 20) == Release("gaussian", 0.0, 0.0, 0, 0.0)
    assert answer_release(None, None, 3, 20) == Release("gaussian", 0.0, 0.0, 0, 0.0)


@pytest.mark.parametrize(("unit", "sensitivity"), [("sample", math.sqrt(3) / 20), ("client", math.sqrt(3))])
def test_scores_with_noise_are_one_gaussian_release(unit: Unit, sensitivity: float) -> None:
    stated = Guarantee(unit, "replace", "proven", 2.0, 1e-5, 10)
    found = answer_release(ScoreNoise(std=0.25), stated, 3, 20)
    assert found == Release("gaussian", 0.25, sensitivity, 1, 0.0)
    noise = ScoreNoise(epsilon=0.5)
    budgeted = answer_release(noise, stated, 3, 20)
    assert (budgeted.epsilon, budgeted.std) == (0.5, noise.std_of(3, 20, False))


CONTEXT = PrivacyContext(clients=6, participants=4, rounds=8, smallest_samples=10, exposures=1)
SCHEME = DpFedAvg(noise_multiplier=1.0, neighbours="replace", noise_at="server")


def model(*clients, scheme=SCHEME, **noise):
    """A version that one update of each of `clients` entered, all with the same weight."""
    entered = [Contribution(client, 10, weight=1 / len(clients)) for client in clients]
    return model_releases(scheme, CONTEXT, 1.0, entered, **noise)


def after_each_model(account, column):
    """The values of `column` (n,) at the last release of each moment."""
    return column[np.flatnonzero(np.diff(account.releases.moment, append=-1))]


def test_model_epsilon_is_that_of_the_most_exposed_client():
    versions = [model(0, 1, 2, 3), model(4, 4, 1, 4), model(0, 1, 2, 3), model(5, 5, 5, 5)]
    (account,) = model_accounts(SCHEME, CONTEXT, {"server": published_models(enumerate(versions))})
    spent = after_each_model(account, account.spent.exact)
    # z = 1/2 for the client that weighs most in a version, and three times that for one with a third of its weight.
    one, third = 4.0, 4.0 / 9
    of_client_1 = [one, one + third, 2 * one + third, 2 * one + third]
    assert after_each_model(account, account.history.summed_mu) == pytest.approx(of_client_1)
    assert spent == pytest.approx(exact_epsilon(of_client_1, 1e-5))
    claimed = after_each_model(account, account.history.claimed)
    assert claimed == pytest.approx(np.array([1, 2, 3, 3]) * account.guarantee.epsilon / 8)
    found = ledger(SCHEME, CONTEXT, np.full(6, 10), [], [account], 1.0)
    assert found["releases"].tolist() == [3], "client 1 is in three of the four versions"
    assert found["sensitivity"].tolist() == [2.0], "of client 5 in the last version"
    assert found["rho"] == pytest.approx(of_client_1[-1:] / np.array(2))
    assert found["exact_epsilon"] == spent[-1:]
    assert found["squared_mu"] == account.history.summed_mu[-1:]
    assert found["noise_multiplier"] == pytest.approx([0.5])
    over_time = spending([], [account], 6, 4)
    assert over_time["exact_epsilon"].tolist() == spent[:3].tolist(), "the last says nothing new"
    assert over_time["releases"].tolist() == [1, 2, 3]


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_model_epsilon_is_the_largest_over_clients_for_random_versions(versions):
    made = [model(*clients, server_std=0.25) for clients in versions]
    (account,) = model_accounts(SCHEME, CONTEXT, {"server": published_models(enumerate(made))})
    for turn in range(len(versions)):
        sums = [sum((8 * of.count(c) / len(of)) ** 2 for of in versions[: turn + 1]) for c in range(6)]
        assert after_each_model(account, account.history.summed_mu)[turn] == pytest.approx(max(sums))
        assert after_each_model(account, account.spent.exact)[turn] == pytest.approx(exact_epsilon(max(sums), 1e-5))
    assert (np.diff(account.spent.basic) >= 0).all()
    assert (np.diff(account.spent.rdp) >= 0).all()


LAPLACE = LaplaceNoise(epsilon=1.0, delta=1e-5, composition="advanced", releases=10)


def test_model_epsilon_with_varying_laplace_noise_is_that_of_the_most_exposed_client():
    scheme = Mechanisms(server=LAPLACE)
    versions = [model(0, 1, 2, 3, scheme=scheme), model(4, 4, 1, 4, scheme=scheme), model(0, 0, 1, 2, scheme=scheme)]
    (account,) = model_accounts(scheme, CONTEXT, {"server": published_models(enumerate(versions))})
    b = versions[0][0].multiplier
    assert versions[1][1].multiplier == pytest.approx(3 * b)
    by_client = {0: [MechanismEvent("laplace", b, 2)], 1: [MechanismEvent("laplace", f * b, 1) for f in (1, 2, 3)]}
    exact = max(epsilons_of(parts, 1e-5).exact for parts in by_client.values())
    assert account.spent.basic[-1] == pytest.approx(2 / b)
    assert account.spent.exact[-1] == pytest.approx(exact)
    assert exact < account.spent.rdp[-1]
    even = [model(0, 1, 2, 3, scheme=scheme)] * 3
    (account,) = model_accounts(scheme, CONTEXT, {"server": published_models(enumerate(even))})
    assert account.spent.exact[-1] == pytest.approx(epsilons_of([MechanismEvent("laplace", b, 3)], 1e-5).exact)


def test_several_laplace_releases_of_a_client_in_one_model_all_count():
    """A reader of the last model alone learns what five versions say; pure epsilons add up."""
    scheme = Mechanisms(server=LaplaceNoise(epsilon=1.0))
    five = [model(0, 1, 2, 3, scheme=scheme)] * 5
    (account,) = model_accounts(scheme, CONTEXT, {"public_last": published_models((4, one) for one in five)})
    found = ledger(scheme, CONTEXT, np.full(6, 10), [], [account], 1.0)
    assert found["exact_epsilon"] == pytest.approx([5.0])
    assert found["provable"] == pytest.approx([5.0])
    assert found["rho"] == pytest.approx([5 / 2])
    assert (found["releases"].tolist(), found["claim_holds"].tolist()) == ([5], [False])


STATED = Guarantee("sample", "replace", "proven", 2.0, 1e-5, 1)


def account(holder, moment, multiplier, **columns):
    n = len(holder)
    values = {
        "laplace": np.zeros(n, dtype=bool),
        "sigma": np.array(multiplier, dtype=float),
        "sensitivity": np.ones(n),
        "count": np.ones(n, dtype=np.int64),
        "epsilon": np.full(n, 2.0),
        "counted": np.ones(n, dtype=np.int64),
        "rate": np.ones(n),
        "replaced": np.zeros(n, dtype=bool),
    }
    releases = Releases(np.array(holder, dtype=int), np.array(moment, dtype=int), **(values | columns))
    return Account("server", STATED, releases, frozenset(), frozenset())


def rows(found, holder, column="exact_epsilon"):
    chosen = found["holder"] == holder
    return list(zip(found["client"][chosen], found["moment"][chosen], found[column][chosen], strict=True))


def test_a_client_has_a_row_whenever_its_epsilon_changes():
    held = account([0, 1, 0, 0], [1, 1, 3, 3], [5.0, 9.0, 5.0, 5.0])
    found = spending([held], [], clients=3, moments=5)
    assert list(found) == list(COLUMNS)
    assert [row[:2] for row in rows(found, "client")] == [(0, 1), (0, 3), (1, 1)]
    assert [value for _, _, value in rows(found, "client", "releases")] == [1, 3, 1]
    assert [value for _, _, value in rows(found, "client", "naive_epsilon")] == [2, 6, 2]


def test_the_largest_the_median_and_the_mean_are_over_all_clients():
    held = account([0, 1, 0], [0, 2, 2], [5.0, 9.0, 5.0])
    spent = held.spent.exact
    found = spending([held], [], clients=3, moments=3)
    ends = {name: rows(found, name)[-1][2] for name in ("largest", "median", "mean")}
    assert ends == pytest.approx({"largest": spent[2], "median": spent[1], "mean": (spent[1] + spent[2]) / 3})
    assert [value for _, _, value in rows(found, "largest")] == largest(held, 3, 3)["exact"].tolist()
    assert len(rows(found, "mean")) == 3


def test_spending_without_releases():
    assert {len(column) for column in spending([], [], clients=3, moments=2).values()} == {0}
    empty = account([], [], [])
    found = spending([empty], [], clients=2, moments=2)
    assert rows(found, "largest") == [(-1, 0, 0.0), (-1, 1, 0.0)]


@pytest.mark.parametrize(("clients", "apart"), [(200, True), (201, False)])
def test_large_runs_have_only_summary_rows(clients, apart):
    found = spending([account([0, 1], [1, 1], [5.0, 9.0])], [], clients=clients, moments=2)
    assert ("client" in found["holder"]) == apart
    assert set(found["holder"]) - {"client"} == {"largest", "median", "mean"}
    assert [row[1] for row in rows(found, "mean")] == [0, 1]
