"""When clients are online, from what is seen of it."""

import math

import pytest

from asyncfl.extras.calibration.presence import SHORTEST_S, PresenceObservations, fit_availability
from asyncfl.protocol.events import Kind
from asyncfl.scenario import Scenario
from asyncfl.world.availability import AlternatingAvailability, AlwaysOnline
from asyncfl.world.distributions import Exponential, Fixed
from tests.extras.calibration.conftest import fitted_to, observe_run


def test_the_likelihood_of_a_gap_is_that_of_the_chain_of_two_states() -> None:
    on, off = 1 / 30, 1 / 10
    seen = PresenceObservations(gaps_online=[5.0], gaps_offline=[7.0])
    stays = 0.75 + 0.25 * math.exp(-(on + off) * 5)
    leaves = 0.25 * (1 - math.exp(-(on + off) * 7))
    assert seen.log_likelihood(on, off) == pytest.approx(math.log(stays) + math.log(leaves))


def test_observations_are_read_from_tasks_and_events() -> None:
    def at(time_s: float, kind: Kind, task: int, client: int) -> tuple[float, Kind, dict[str, int]]:
        return time_s, kind, {"task": task, "client": client}

    run = observe_run(
        at(1.0, Kind.DISPATCHED, 0, 0),
        at(2.0, Kind.DISPATCHED, 1, 1),
        at(4.0, Kind.WENT_OFFLINE, 0, 0),
        at(4.0, Kind.DROPPED_OUT, 0, 0),
        at(5.0, Kind.UPLOADED, 1, 1),
        at(8.0, Kind.WENT_OFFLINE, -1, 1),
        at(9.0, Kind.CAME_ONLINE, -1, 0),
        at(9.0, Kind.DISPATCHED, 2, 0),
        at(10.0, Kind.DISPATCHED, 3, 2),
        at(14.0, Kind.WENT_OFFLINE, 3, 2),
        at(14.0, Kind.DROPPED_OUT, 3, 2),
        at(20.0, Kind.STOPPED, -1, -1),
        samples=(10, 20, 30),
    )
    found = fit_availability([run])
    assert found.observations == PresenceObservations(
        online_s=3.0 + 11.0 + 3.0 + 4.0,
        went=2,
        offline_s=5.0 + 12.0 + 6.0,
        came=1,
        gaps_offline=[3.0],
        first_online=3,
        whole_off=[5.0],
        periods=[(0, math.nan, 4.0, 4.0), (0, 9.0, 20.0, math.inf), (1, math.nan, 5.0, 8.0), (2, math.nan, 14.0, 14.0)],
    )
    twice = fit_availability([run, run]).observations
    assert (twice.online_s, twice.first_online, twice.whole_off) == (42.0, 6, [5.0, 5.0])


def test_fitted_rates_solve_the_likelihood_equations() -> None:
    def at(time_s: float, kind: Kind, task: int) -> tuple[float, Kind, dict[str, int]]:
        return time_s, kind, {"task": task, "client": 0}

    # Online for 3 s, offline for 5 s, and so on, without a gap, and online at first, as m/(l + m) of all clients are:
    # 4/l - 12 = 1/(l + m) = 5/m - 20.
    story = []
    for number in range(4):
        story += [at(8.0 * number, Kind.DISPATCHED, number), at(8.0 * number + 3, Kind.WENT_OFFLINE, number)]
        story += [at(8.0 * number + 8, Kind.CAME_ONLINE, -1)]
    found = fit_availability([observe_run(*story, samples=(10,))])
    assert isinstance(found.availability, AlternatingAvailability)
    turns_off = 1 / found.availability.on_s.expected()
    turns_on = 1 / (4 / turns_off - 12) - turns_off
    assert 4 / turns_off - 12 == pytest.approx(5 / turns_on - 20, rel=0.01)
    assert isinstance(found.availability.on_s, Exponential)
    # All of 5 s: fixed periods are likelier than any.
    assert found.availability.off_s == Fixed(value=5.0)
    always = fit_availability([observe_run(at(0.0, Kind.DISPATCHED, 0), at(3.0, Kind.UPLOADED, 0), samples=(10,))])
    assert always.availability == AlwaysOnline()
    assert always.off is None


def test_absences_of_no_length_are_fitted(known: Scenario) -> None:
    """Clients that come back in the moment in which they go: how often is known, how long is too short to measure."""
    story = []
    for number in range(4):
        of = {"task": number, "client": 0}
        story += [(3.0 * number, Kind.DISPATCHED, of), (3.0 * number + 3, Kind.WENT_OFFLINE, of)]
        story += [(3.0 * number + 3, Kind.CAME_ONLINE, {"task": -1, "client": 0})]
    found = fit_availability([observe_run(*story, samples=(10,))]).availability
    assert isinstance(found, AlternatingAvailability)
    assert found.on_s.expected() == pytest.approx(3.0), "four departures in 12 s online"
    assert found.off_s == Fixed(value=SHORTEST_S)
    availability = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 20}, "off_s": 1e-12}
    fitted = fitted_to(known.override({"world.availability": availability, "protocol.rounds": 60})).world().availability
    assert isinstance(fitted, AlternatingAvailability)
    assert fitted.on_s.expected() == pytest.approx(20, rel=0.25)


def test_absences_of_no_length_beside_long_ones_leave_the_exponential() -> None:
    of = {"task": 0, "client": 0}
    went = [(0.0, Kind.DISPATCHED, of), (3.0, Kind.WENT_OFFLINE, of), (3.0, Kind.CAME_ONLINE, {"client": 0})]
    unreachable = [(4.0, Kind.WENT_OFFLINE, {"client": 1}), (8.0, Kind.CAME_ONLINE, {"client": 1})]
    found = fit_availability([observe_run(*went, *unreachable)]).availability
    assert isinstance(found, AlternatingAvailability)
    assert isinstance(found.off_s, Exponential)


def test_connections_that_end_during_a_task_are_departures() -> None:
    """A server in real time does not say of which task; with a lease the task ends later than the client's presence."""
    of = {"task": 0, "client": 0}
    for lost_s in (3.0, 4.0):
        lost = (lost_s, Kind.DROPPED_OUT, {**of, "detail": "offline"})
        away = [(3.0, Kind.WENT_OFFLINE, {"client": 0}), lost, (8.0, Kind.CAME_ONLINE, {"client": 0})]
        found = fit_availability([observe_run((0.0, Kind.DISPATCHED, of), *away, samples=(10,))]).observations
        assert (found.went, found.came, found.online_s, found.whole_off) == (1, 1, 3.0, [5.0])
