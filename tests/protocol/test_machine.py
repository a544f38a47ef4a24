"""The server's state machine, driven by messages: no clock, no network, no training."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import MessageError
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, Detector, Strikes, Verdict, accept_all
from asyncfl.protocol import Buffered, DefencePlan, FedAsync, Protocol, Server, ServerPhase, ServerPlan, Sync
from asyncfl.protocol.aggregation import AggregationResult
from asyncfl.protocol.dispatch import (
    CohortDispatch,
    ConstantDispatch,
    ContinuousDispatch,
    OpenDeadline,
    OpenPoll,
    OpenQuorum,
)
from asyncfl.protocol.messages import (
    Ban,
    BufferVerdict,
    ClientGone,
    ClientIdle,
    ClientRetired,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Publish,
    ScoreRequest,
    ScoresArrived,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
    TimerFired,
    UpdateArrived,
)
from asyncfl.protocol.staleness import ConstantStaleness, ExponentialStaleness
from asyncfl.testing import Fires, Lost, Play, Waits, arrivals, builders, context


def server(protocol: Protocol, clients: int = 4, **plan: Any) -> Server:
    """A server of one parameter; `detector` and `strikes` judge, other fields are those of its plan."""
    defence = DefencePlan(detector=plan.pop("detector", None), strikes=plan.pop("strikes", None), context=context(4, 1))
    zero = np.zeros(1, np.float32)
    return Server(ServerPlan(protocol, np.full(clients, 10), zero, Streams(1), defence=defence, **plan))


def uploads(machine: Server, *tasks: int, changes: Any = 1.0) -> Play:
    """Start the server; the updates of these tasks arrive in this order."""
    play = Play(machine, changes).start()
    for task in tasks:
        play.tell(UpdateArrived(task, time_s=play.time_s))
    return play


def kinds(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def given_to(play: Play) -> list[int]:
    """Clients by the numbers of their tasks."""
    return [dispatch.client for dispatch in kinds(play.actions, Dispatch)]


def settled(play: Play) -> list[tuple[int, Fate]]:
    return [(one.task, one.fate) for one in kinds(play.actions, Settle)]


def constant(in_flight: int, **fields: Any) -> Buffered:
    """A buffer of one, unless another is asked for, with so many tasks in flight."""
    return Buffered(**{"rounds": 9, "buffer": 1, **fields}, dispatch=ConstantDispatch(in_flight=in_flight))


def test_a_synchronous_round_waits_for_all_then_publishes_their_mean() -> None:
    play = arrivals(server(Sync(rounds=1), clients=3), [0, 1], changes={0: 1.0, 1: 2.0, 2: 6.0})
    assert sorted(given_to(play)) == [0, 1, 2]
    assert [one.version for one in play.published] == [0]
    play.step(2)
    assert [one.version for one in play.published] == [0, 1]
    assert play.model == pytest.approx([3.0])
    assert play.stopped == "all versions published"
    assert play.server.tasks.fates == {Fate.AGGREGATED: 3}


@pytest.mark.parametrize(("weighting", "mean"), [("samples", 2.5), ("uniform", 2.0)])
def test_the_mean_weighs_clients_by_samples_or_equally(weighting: str, mean: float) -> None:
    machine = builders.server(Sync(rounds=1, weighting=weighting), clients=2, samples=[10, 30])
    assert arrivals(machine, [0, 1], changes={0: 1.0, 1: 3.0}).model == pytest.approx([mean])


def test_an_update_after_its_quorum_is_late() -> None:
    play = arrivals(server(Sync(rounds=3, participants=2, open=OpenQuorum(share=0.5)), clients=2), [0, 1])
    assert [fate for _, fate in settled(play)] == [Fate.AGGREGATED, Fate.LATE]


def test_over_selection_draws_reserves_whose_late_updates_are_surplus() -> None:
    play = uploads(server(Sync(rounds=2, participants=2, over_selection=1.5)))
    assert len(given_to(play)) == 3
    for task in (2, 0, 1):
        play.tell(UpdateArrived(task, time_s=0.0))
    assert sorted(settled(play)[:2]) == [(0, Fate.AGGREGATED), (2, Fate.AGGREGATED)]
    assert settled(play)[2:] == [(1, Fate.SURPLUS)]


def test_a_repeated_cohort_has_a_deadline_of_its_own() -> None:
    machine = server(Sync(rounds=2, participants=2, open=OpenDeadline(seconds=5.0)), clients=2)
    play = arrivals(machine, [Waits(2.0), Lost(0), Lost(1)])
    assert play.timers == [SetTimer("deadline:0", 5.0), SetTimer("cohort", 0.0), SetTimer("deadline:1", 5.0)]
    for step, versions in ((Fires("deadline:0"), 1), (0, 1), (Waits(2.0), 1), (Fires("deadline:1"), 2)):
        assert len(play.step(step).published) == versions, "it has until 9"


def test_at_the_deadline_arrived_updates_are_aggregated_or_the_next_arrival() -> None:
    play = arrivals(server(Sync(rounds=2, open=OpenDeadline(seconds=5.0)), clients=3), [0, Fires("deadline:0")])
    assert play.timers == [SetTimer("deadline:0", 5.0), SetTimer("deadline:1", 5.0)]
    assert len(play.published) == 2
    play.step(Fires("deadline:1"))
    assert play.server.phase is ServerPhase.FILLING
    assert len(play.step(0).published) == 3


def polled(at_least: int, rounds: int = 3, **fields: Any) -> Sync:
    """Look at the buffer every 2 seconds; a client is asked again once its update has been taken."""
    opening = OpenPoll(at_least=at_least, poll_s=2.0, **fields)
    return Sync(rounds=rounds, open=opening, late="carry", per_client=1, aggregation="normalised")


def test_a_poll_takes_every_update_that_has_arrived_once_there_are_enough() -> None:
    play = Play(server(polled(2)), step_s=0.5).start()
    for client, versions in ((3, 1), (0, 1), (2, 1)):  # at 0.5, 1.0 and 1.5 s
        assert len(play.step(client).published) == versions
    assert play.timers == [SetTimer("poll:0", 1.0)], "set at 1.0 s, by the second update, for 2.0 s"
    play.step(Fires("poll:0"))
    assert [(one.version, one.participants) for one in play.published] == [(0, 0), (1, 3)]
    assert sorted(given_to(play)[4:]) == [0, 2, 3], "client 1 is still at its task"


def test_polls_are_counted_from_the_publication_of_a_version() -> None:
    play = Play(server(polled(1), clients=2), step_s=0.5).start()
    play.step(0).step(Waits(1.0)).step(Fires("poll:0"))  # 0.5 s: an update; 2.0 s: version 1
    assert len(play.published) == 2
    play.step(Waits(2.0)).step(1)  # 4.5 s, that is 2.5 s after version 1
    assert play.timers[-1].timer == "poll:1"
    assert play.timers[-1].delay_s == pytest.approx(1.5)


def test_updates_that_came_during_an_aggregation_are_taken_when_it_ends() -> None:
    play = Play(server(polled(1), clients=2, aggregate_s=5.0), step_s=0.5).start()
    play.step(0).step(Waits(1.0)).step(Fires("poll:0"))
    play.step(1)  # the server is busy with the update of client 0
    assert given_to(play).count(1) == 1
    play.step(Fires("aggregated"))
    assert play.published[-1].version == 1
    assert given_to(play)[2:] == [0], "the update of client 1 is taken at once, but it is asked with the next version"
    play.step(Fires("aggregated"))
    assert (play.published[-1].version, play.published[-1].staleness) == (2, (1,))
    assert given_to(play)[2:] == [0, 1]


def test_the_last_version_may_wait_for_all_updates_in_flight() -> None:
    play = Play(server(polled(1, rounds=1, last_waits=True), clients=3), step_s=0.5).start()
    play.step(0).step(1)
    assert play.timers == [], "two of three are not all"
    play.step(2).step(Fires("poll:0"))
    assert play.published[-1].participants == 3


def test_a_poll_takes_fewer_updates_where_no_more_can_arrive() -> None:
    machine = server(polled(3, rounds=1), clients=3)
    play = Play(machine, step_s=0.5).start()
    play.step(0).step(1).step(Lost(2)).step(Fires("poll:0"))
    assert kinds(play.actions, ShortBuffer) == [ShortBuffer(2, 3)]
    assert play.published[-1].participants == 2


def test_a_task_whose_lease_has_ended_is_given_up_and_its_update_refused() -> None:
    play = uploads(server(Sync(rounds=2), clients=2), 0)
    client = given_to(play)[1]
    play.tell(ClientGone(client, 1, Fate.TIMED_OUT, time_s=0.0))
    assert play.fates[1].fate is Fate.TIMED_OUT
    assert not play.server.population.is_idle(client)
    with pytest.raises(MessageError, match="answered already"):
        play.tell(UpdateArrived(1, time_s=0.0))


def test_a_cohort_that_cannot_be_reached_is_replaced_before_its_buffer_opens() -> None:
    play = uploads(server(Sync(rounds=1, participants=1, late="carry"), clients=3))
    for task in (0, 1):
        play.tell(ClientGone(given_to(play)[task], task, None, time_s=0.0))
    assert sorted(given_to(play)) == [0, 1, 2]
    play.tell(UpdateArrived(2, time_s=0.0))
    assert settled(play)[-1] == (2, Fate.AGGREGATED)
    assert play.server.tasks.withdrawn == 2


def test_a_buffer_is_replaced_one_by_one_and_its_last_update_gets_the_new_version() -> None:
    play = uploads(server(constant(2, buffer=2)), 0, 1)
    tasks = [(one.task, one.version) for one in kinds(play.actions, Dispatch)]
    assert tasks == [(0, 0), (1, 0), (2, 0), (3, 1)]


def test_staleness_counts_versions_up_to_the_one_an_update_is_applied_to() -> None:
    # Task 1 is sent version 0 and arrives when version 2 is out.
    fates = kinds(uploads(server(constant(2), clients=3), 0, 2, 1).actions, Settle)
    assert [(one.task, one.staleness) for one in fates] == [(0, 0), (2, 0), (1, 2)]
    assert [one.weight for one in fates] == pytest.approx([1.0, 1.0, 3**-0.5])


def test_updates_that_are_too_old_are_stale() -> None:
    play = uploads(server(constant(2, max_staleness=0), clients=3), 0, 1)
    assert settled(play) == [(0, Fate.AGGREGATED), (1, Fate.STALE)]


def test_each_version_tells_how_many_updates_waited_for_it() -> None:
    # Buffers of one: two updates wait behind the first, one behind the second, none behind the third.
    play = uploads(server(constant(3, rounds=4), clients=5, aggregate_s=2.0), 0, 1, 2)
    for _ in range(3):
        play.step(Fires("aggregated"))
    assert [one.waiting_max for one in play.published] == [0, 2, 1, 0]


def test_arrivals_while_the_server_aggregates_wait_for_the_next_buffer() -> None:
    play = uploads(server(constant(3, rounds=2), clients=5, aggregate_s=2.0), 0, 1)
    assert play.timers == [SetTimer("aggregated", 2.0)]
    assert (len(play.published), kinds(play.actions, Collect)) == (1, [Collect((0,))])
    play.step(Fires("aggregated"))
    assert (len(play.published), kinds(play.actions, Collect)) == (2, [Collect((0,)), Collect((1,))])
    assert settled(play) == [(0, Fate.AGGREGATED)]
    last = play.step(Fires("aggregated")).fates[1]
    assert (last.fate, last.staleness) == (Fate.AGGREGATED, 1)


@pytest.mark.parametrize(("every", "evaluated"), [(2, [2, 3]), (1, [1, 2, 3]), (0, [3])])
def test_aggregation_time_grows_with_updates_and_includes_due_evaluations(every: int, evaluated: list[int]) -> None:
    times = {"aggregate_s": 2.0, "aggregate_s_per_update": 0.25, "evaluate_s": 10.0, "evaluate_every": every}
    play = Play(server(Sync(rounds=3, participants=2), clients=2, **times)).start()
    for version in (1, 2, 3):
        lost = version == 2
        play.step(0).step(Lost(1) if lost else 1)
        assert play.timers[-1] == SetTimer("aggregated", 2.0 + 0.25 * (2 - lost) + 10.0 * (version in evaluated))
        play.step(Fires("aggregated"))
    assert play.server.phase is ServerPhase.STOPPED


def test_updates_in_an_unfinished_aggregation_end_unfinished() -> None:
    play = uploads(server(constant(3), clients=5, aggregate_s=2.0), 0)
    ended = kinds(play.server.stop("time limit reached"), Settle)
    assert sorted((one.task, one.fate) for one in ended) == [(task, Fate.UNFINISHED) for task in range(4)]


def test_a_cohort_that_is_too_small_for_the_buffer_opens_it_short() -> None:
    play = uploads(server(Buffered(rounds=3, buffer=3, dispatch=CohortDispatch(participants=2))), 0, 1)
    assert kinds(play.actions, ShortBuffer) == [ShortBuffer(2, 3)]
    assert kinds(play.actions, Collect) == [Collect((0, 1))]


def test_fedasync_mixes_each_update_at_once() -> None:
    protocol = FedAsync(rounds=2, in_flight=2, mixing=0.5, staleness=ExponentialStaleness(rate=math.log(2)))
    play = uploads(server(protocol, clients=3), 0, 1, changes=8.0)
    assert [one.model[0] for one in play.published] == pytest.approx([0.0, 4.0, 4.0 + 0.5 * 0.5 * 4.0])


def test_server_noise_is_added_before_publication() -> None:
    def noise(made: AggregationResult, version: int) -> tuple[np.ndarray, float]:
        assert (version, made.clip_norm) == (1, None)
        assert [(one.task.number, one.task.client, one.weight) for one in made.updates] == [(0, 0, 0.5), (1, 1, 0.5)]
        return made.model + np.float32(0.5), 0.25

    play = uploads(server(Sync(rounds=1), clients=2, noise=noise), 0, 1, changes={0: 1.0, 1: 3.0})
    assert play.model == pytest.approx([2.5])
    assert play.published[-1].noise_std == 0.25


@pytest.mark.parametrize("task", [77, -1])
def test_an_unrequested_update_is_rejected_without_other_effect(task: int) -> None:
    machine = uploads(server(Buffered(rounds=2, buffer=2, dispatch=ContinuousDispatch()), clients=2)).server
    before = (machine.version, machine.phase, dict(machine.tasks.open), len(machine.population))
    assert machine.handle(UpdateArrived(task, time_s=1.0)) == [Settle(task, Fate.REJECTED, detail="not asked for")]
    assert (machine.version, machine.phase, dict(machine.tasks.open), len(machine.population)) == before
    assert machine.unknown_tasks == 1
    machine.stop("the test is over")
    assert sum(machine.tasks.fates.values()) == machine.tasks.begun


def test_a_stopped_server_answers_nothing() -> None:
    machine = uploads(server(Sync(rounds=1), clients=1)).server
    assert kinds(machine.stop("enough"), Stop) == [Stop("enough")]
    assert machine.handle(ClientIdle(0, time_s=1.0)) == machine.stop("again") == []
    assert machine.tasks.fates == {Fate.UNFINISHED: 1}


def test_models_that_no_open_task_was_sent_are_forgotten() -> None:
    play = uploads(server(constant(2), clients=3), 0, 2, 3)
    assert tuple(play.server.tasks._downloads) == (0, 3), "task 1 was sent version 0 and is still open"
    play.tell(UpdateArrived(1, time_s=0.0))
    assert 0 not in play.server.tasks._downloads


def driven(machine: Server, seed: int) -> list[Publish]:
    """Versions that come of random but legal messages."""
    random = np.random.default_rng(seed)
    play = Play(machine, lambda task, base: random.normal(size=1)).start()
    while machine.phase is not ServerPhase.STOPPED and play.busy and len(play.inputs) < 400:
        client = int(random.choice(play.busy))
        play.step(Lost(client) if random.random() < 0.2 else client)
    return play.published


@given(st.integers(0, 2**20), st.integers(1, 5))
@settings(max_examples=40)
def test_sync_is_the_buffered_protocol_with_a_buffer_for_the_whole_cohort(seed: int, participants: int) -> None:
    cohort = CohortDispatch(participants=participants)
    sync = Sync(rounds=4, participants=participants)
    buffered = Buffered(rounds=4, buffer=participants, dispatch=cohort, staleness=ConstantStaleness())
    both = (driven(server(protocol, clients=6), seed) for protocol in (sync, buffered))
    for left, right in zip(*both, strict=True):
        np.testing.assert_array_equal(left.model, right.model)
        assert left.staleness == right.staleness


def test_a_lost_cohort_is_replaced_by_one_of_all_idle_clients() -> None:
    play = arrivals(server(Sync(rounds=2), clients=3), [Lost(0), Lost(1)])
    # Only with the last of them nothing more can come.
    assert (play.timers, len(given_to(play))) == ([], 3)
    play.step(Lost(2))
    assert play.timers == [SetTimer("cohort", 0.0)]
    assert kinds(play.actions, CohortRepeated) == [CohortRepeated(3)]
    assert sorted(given_to(play)[3:]) == [0, 1, 2]
    assert {dispatch.version for dispatch in kinds(play.actions, Dispatch)} == {0}


def test_a_client_that_has_spent_its_budget_is_asked_no_more() -> None:
    play = uploads(server(Buffered(rounds=9, buffer=2, dispatch=ContinuousDispatch()), clients=3))
    tasks = {client: task for task, client in enumerate(given_to(play))}
    for message in (ClientRetired(1, time_s=0.0), UpdateArrived(tasks[1], time_s=0.0), ClientIdle(1, time_s=0.0)):
        play.tell(message)
    play.tell(UpdateArrived(tasks[0], time_s=0.0))
    assert kinds(play.actions, Collect) == [Collect((tasks[1], tasks[0]))], "what it sent is used"
    assert given_to(play)[3:] == [0]


def test_a_client_that_cannot_afford_a_single_upload_says_so_before_the_start() -> None:
    some, none = Play(server(Sync(rounds=2), clients=3)), Play(server(Sync(rounds=2), clients=2))
    for play, client in ((some, 1), (none, 0), (none, 1)):
        play.tell(ClientRetired(client, time_s=0.0))
    assert sorted(given_to(some.start())) == [0, 2]
    assert [type(action) for action in none.start().actions] == [Publish, Stop]
    assert none.stopped == "every client has spent its budget"


@pytest.mark.parametrize("fate", [None, Fate.LOST_UP])
def test_when_all_budgets_are_spent_the_last_updates_are_used_and_the_run_ends(fate: Fate | None) -> None:
    """Three clients, buffers of two: the last update is alone, or lost."""
    play = uploads(server(Buffered(rounds=9, buffer=2, dispatch=ContinuousDispatch()), clients=3))
    for client in range(3):
        play.tell(ClientRetired(client, time_s=0.0))
    for task in (0, 1):
        play.tell(UpdateArrived(task, time_s=0.0))
    assert play.stopped is None
    play.tell(UpdateArrived(2, time_s=0.0) if fate is None else ClientGone(given_to(play)[2], 2, fate, time_s=0.0))
    assert kinds(play.actions, ShortBuffer) == ([ShortBuffer(1, 2)] if fate is None else [])
    assert play.stopped == "every client has spent its budget"
    assert play.server.version == (2 if fate is None else 1)
    play.server.tasks.check()


@settings(max_examples=30)
@given(order=st.permutations(range(8)), late=st.sampled_from(["drop", "carry"]))
def test_a_cohort_is_summed_in_the_order_of_its_clients(order: list[int], late: str) -> None:
    changes = {client: np.random.default_rng(client).normal(size=5) for client in range(8)}

    def play(sequence: list[int]) -> Play:
        protocol = Sync(rounds=1, late=late)
        return arrivals(builders.server(protocol, clients=8, n_parameters=5), sequence, changes=changes)

    there = play(order)
    (collect,) = kinds(there.actions, Collect)
    asked = [given_to(there)[task] for task in collect.tasks]
    assert asked == (sorted(order) if late == "drop" else order)
    if late == "drop":
        assert there.model.tobytes() == play(sorted(order)).model.tobytes()


# BufferVerdict, scored and malformed updates.


class Above(Detector):
    """Flags and strikes models above a threshold."""

    kind: str = "above"
    threshold: float = 10.0

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        bad = buffer.models[:, 0] > self.threshold
        return Verdict(bad, bad, details=tuple("too high" if b else "" for b in bad), notes={"highest": 1.0}), state


class Asking(Detector):
    """Asks the sender of each row in turn, at most twice, and flags updates of score 0."""

    kind: str = "asking"

    def request(self, state: Any, buffer: Buffer, tried: tuple[int, ...]) -> tuple[ScoreRequest | None, Any]:
        if len(tried) == 2:
            return None, state
        return ScoreRequest(int(buffer.clients[len(tried)]), buffer.models), state

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        if scores is None:
            return accept_all(buffer), state
        return Verdict(scores == 0, scores == 0), state


def by_hand(machine: Server, *values: float, **fields: Any) -> tuple[list[Any], list[Any]]:
    """Actions of the start, and those after the first updates have been collected with these models."""
    started = machine.start()
    asked = [action for task in range(len(values)) for action in machine.handle(UpdateArrived(task, time_s=1.0))]
    (collect,) = kinds(asked, Collect)
    models = np.array(values, np.float32)[:, None]
    return started, machine.handle(Collected(collect.tasks, models, np.zeros(len(values)), **fields, time_s=1.0))


def test_flagged_updates_are_left_out_and_the_verdict_is_recorded() -> None:
    play = uploads(server(Sync(rounds=2, participants=3), detector=Above()))
    clients = sorted(given_to(play))
    first, second, third = (given_to(play).index(client) for client in clients)
    play.changes = dict(zip(clients, (1.0, 50.0, 3.0), strict=True))
    for task in range(3):
        play.tell(UpdateArrived(task, time_s=0.0))
    assert settled(play) == [(second, Fate.FLAGGED), (first, Fate.AGGREGATED), (third, Fate.AGGREGATED)]
    assert play.fates[second].detail == "too high"
    assert play.judged == [
        BufferVerdict(0, tuple(clients), (False, True, False), (), (("highest", 1.0),), (first, second, third))
    ]
    assert play.model == pytest.approx([2.0])
    assert play.published[-1].participants == 2


def test_strikes_ban_a_client_and_settle_its_tasks() -> None:
    play = uploads(server(constant(4), detector=Above(), strikes=Strikes(threshold=1)), 0, changes=50.0)
    banned = given_to(play)[0]
    assert play.banned == [banned]
    play.tell(ClientIdle(banned, time_s=0.0))
    # It got one more task before its update was collected, at most: none after the verdict.
    after = play.actions[play.actions.index(Ban(banned)) :]
    assert banned not in {action.client for action in kinds(after, Dispatch)}
    assert not play.server.population.is_idle(banned)


def test_a_banned_clients_queued_and_flying_updates_end_as_banned() -> None:
    machine = server(constant(4, buffer=2), detector=Asking(), strikes=Strikes(threshold=1))
    started, actions = by_hand(machine, 1.0, 2.0)
    (request,), client = kinds(actions, ScoreRequest), kinds(started, Dispatch)[0].client
    # The client of task 0 has been given another task since, and delivers it while the scores are on their way.
    again = next(one.number for one in machine.tasks.open.values() if one.client == client and one.number > 1)
    machine.handle(UpdateArrived(again, time_s=1.0))
    actions = machine.handle(ScoresArrived(request.request, np.array([0.0, 1.0]), time_s=3.0))
    assert Settle(again, Fate.BANNED) in actions
    assert Ban(client) in actions
    machine.stop("the test is over")
    machine.tasks.check()


def test_scores_are_asked_for_and_waited_for_while_arrivals_queue() -> None:
    machine = server(constant(4, buffer=2), detector=Asking())
    started, actions = by_hand(machine, 1.0, 2.0)
    (request,) = kinds(actions, ScoreRequest)
    assert (request.client, machine.phase) == (kinds(started, Dispatch)[0].client, ServerPhase.SCORING)
    assert [kinds(machine.handle(UpdateArrived(task, time_s=1.0)), Collect) for task in (2, 3)] == [[], []]
    actions = machine.handle(ScoresArrived(request.request, np.array([1.0, 0.0]), time_s=3.0))
    assert [one.fate for one in kinds(actions, Settle)] == [Fate.FLAGGED, Fate.AGGREGATED]
    assert kinds(actions, Collect) == [Collect((2, 3))]


def test_an_evaluator_that_does_not_answer_is_replaced_and_a_late_answer_is_refused() -> None:
    machine = server(Sync(rounds=1, participants=3), detector=Asking())
    started, actions = by_hand(machine, 1.0, 2.0, 3.0)
    (first,) = kinds(actions, ScoreRequest)
    (second,) = kinds(machine.handle(ScoresArrived(first.request, None, time_s=2.0)), ScoreRequest)
    assert [first.client, second.client] == sorted(one.client for one in kinds(started, Dispatch))[:2]
    with pytest.raises(MessageError, match="answered already"):
        machine.handle(ScoresArrived(first.request, np.zeros(3), time_s=2.5))
    actions = machine.handle(ScoresArrived(second.request, None, time_s=3.0))
    assert kinds(actions, Publish)[0].model == pytest.approx([2.0])


def broken(*tasks: int, others: float = 1.0) -> Any:
    """NaN as the update of these tasks."""
    return lambda task, base: math.nan if task.task in tasks else others


def test_a_buffer_of_one_attacker_alone_is_discarded_and_the_next_serves_the_same_version() -> None:
    play = uploads(server(FedAsync(rounds=2, in_flight=2)), 0, changes=broken(0))
    assert settled(play) == [(0, Fate.REJECTED)]
    assert (play.stopped, len(play.published)) == (None, 1)
    assert [one.version for one in kinds(play.actions, Dispatch)] == [0, 0, 0]
    play.tell(UpdateArrived(1, time_s=0.0))
    assert play.published[-1].version == 1


def test_another_cohort_is_drawn_if_no_update_of_the_first_was_sound() -> None:
    play = uploads(server(Sync(rounds=1, participants=2)), 0, 1, changes=broken(0, 1, 2, others=4.0))
    assert play.timers == [SetTimer("cohort", 0.0)]
    for message in (TimerFired("cohort", time_s=0.0), UpdateArrived(2, time_s=0.0), UpdateArrived(3, time_s=0.0)):
        play.tell(message)
    assert play.model == pytest.approx([4.0])


def test_malformed_updates_are_rejected_and_struck() -> None:
    machine = server(Sync(rounds=2, participants=3), strikes=Strikes(threshold=1))
    started, actions = by_hand(machine, 1.0, 2.0, math.nan, sound=np.array([True, False, True]))
    task_of = {one.client: one.task for one in kinds(started, Dispatch)}
    clients = sorted(task_of)
    assert {one.task: one.fate for one in kinds(actions, Settle)} == {
        task_of[clients[0]]: Fate.AGGREGATED,
        task_of[clients[1]]: Fate.REJECTED,
        task_of[clients[2]]: Fate.REJECTED,
    }
    assert {ban.client for ban in kinds(actions, Ban)} == set(clients[1:])


def test_a_ban_for_a_malformed_update_takes_the_clients_other_update_out_of_the_buffer() -> None:
    # Task 4 is the same client's as task 0, since all others are busy, and so is task 5.
    machine = server(constant(4, buffer=3), strikes=Strikes(threshold=1))
    play = uploads(machine, 0, 4, 1, changes=broken(4, others=3.0))
    assert settled(play) == [(4, Fate.REJECTED), (5, Fate.BANNED), (0, Fate.BANNED), (1, Fate.AGGREGATED)]
    assert play.banned == given_to(play)[:1] == given_to(play)[4:5]
    assert play.model == pytest.approx([3.0])
    assert play.published[-1].participants == 1


@pytest.mark.parametrize(("detector", "seconds"), [(Above(), 3.0), (None, 2.0)])
def test_judging_takes_server_time_only_with_a_detector(detector: Detector | None, seconds: float) -> None:
    machine = server(Sync(rounds=2, participants=1), detector=detector, aggregate_s=2.0, score_s=1.0)
    assert uploads(machine, 0).timers == [SetTimer("aggregated", seconds)]


def test_a_run_ends_when_every_client_is_banned() -> None:
    machine = server(Sync(rounds=5), detector=Above(), strikes=Strikes(threshold=1))
    assert uploads(machine, 0, 1, 2, 3, changes=50.0).stopped == "every client is banned"
    machine.tasks.check()


def test_tasks_that_are_likely_to_begin_next_do_while_their_clients_are_idle() -> None:
    play = uploads(server(Buffered(rounds=99, buffer=3, dispatch=ConstantDispatch(in_flight=5)), clients=400))
    likely = play.server.likely_tasks(20)
    for task in range(20):
        play.tell(UpdateArrived(task, time_s=play.time_s))
    begun = [(one.client, 0) for one in kinds(play.actions, Dispatch)[5:]]
    assert len(begun) == 20
    assert set(likely) <= set(begun)
    assert len(likely) > 15


def test_a_task_is_likely_for_the_next_client_where_the_first_drawn_has_one() -> None:
    play = uploads(server(Buffered(rounds=99, buffer=3, dispatch=ConstantDispatch(in_flight=200)), clients=400))
    assert len(play.server.likely_tasks(40)) > 25


def test_no_task_is_likely_where_the_selection_is_not_uniform() -> None:
    fair = Buffered(rounds=9, buffer=3, dispatch=ConstantDispatch(in_flight=5), selection={"kind": "fair"})
    assert uploads(server(fair, clients=400)).server.likely_tasks(20) == []
    assert uploads(server(Sync(rounds=9, participants=3), clients=400)).server.likely_tasks(20) == []
