"""The server's state machine, driven by messages: no clock, no network, no training."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import (
    ClientGone,
    ClientIdle,
    ClientRetired,
    CohortRepeated,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Publish,
    SetTimer,
    Settle,
    ShortBuffer,
    Stop,
    TimerFired,
    UpdateArrived,
)
from asyncfl.base.streams import Streams
from asyncfl.server import Buffered, FedAsync, Protocol, Server, ServerPhase, ServerPlan, Sync
from asyncfl.server.aggregation import AggregationResult
from asyncfl.server.dispatch import CohortDispatch, ConstantDispatch, ContinuousDispatch, OpenDeadline, OpenQuorum
from asyncfl.server.staleness import ConstantStaleness, ExponentialStaleness
from asyncfl.testing import Play, arrivals, builders


def server(protocol: Protocol, clients: int = 4, initial: float = 0.0, **plan: object) -> Server:
    samples = np.full(clients, 10)
    return Server(ServerPlan(protocol, samples, np.array([initial], np.float32), Streams(1), **plan))


def kinds(actions: list[object], kind: type) -> list[object]:
    return [action for action in actions if isinstance(action, kind)]


def collected(
    server_: Server, actions: list[object], values: list[float] | None = None, time_s: float | None = None
) -> list:
    """The answer to the `Collect` among `actions`: models with these values (default: 1, 2, ...)."""
    (collect,) = kinds(actions, Collect)
    values = [float(n + 1) for n in range(len(collect.tasks))] if values is None else values
    models = np.array(values, np.float32).reshape(len(collect.tasks), -1)
    now_s = server_.validator.time_s if time_s is None else time_s
    return server_.handle(Collected(now_s, collect.tasks, models, np.zeros(len(values))))


def test_a_synchronous_round_waits_for_all_then_publishes_their_mean() -> None:
    machine = server(Sync(rounds=1), clients=3)
    actions = machine.start()
    assert [a.client for a in kinds(actions, Dispatch)] != []
    assert sorted(a.client for a in kinds(actions, Dispatch)) == [0, 1, 2]
    assert machine.handle(UpdateArrived(1.0, 0)) == []
    assert machine.handle(UpdateArrived(2.0, 1)) == []
    actions = machine.handle(UpdateArrived(3.0, 2))
    assert sorted(kinds(actions, Collect)[0].tasks) == [0, 1, 2]
    assert machine.phase is ServerPhase.COLLECTING
    actions = collected(machine, actions, [1.0, 2.0, 6.0])
    (publish,) = kinds(actions, Publish)
    assert publish.version == 1
    assert publish.model == pytest.approx([3.0])
    assert kinds(actions, Stop) == [Stop("all versions published")]
    assert machine.tasks.fates == {Fate.AGGREGATED: 3}


def test_the_mean_weighs_clients_by_samples_or_equally() -> None:
    for weighting, mean in (("samples", 2.5), ("uniform", 2.0)):
        protocol = Sync(rounds=1, weighting=weighting)
        machine = Server(ServerPlan(protocol, np.array([10, 30]), np.zeros(1, np.float32), Streams(1)))
        clients = [a.client for a in kinds(machine.start(), Dispatch)]
        machine.handle(UpdateArrived(1.0, 0))
        actions = machine.handle(UpdateArrived(1.0, 1))
        by_client = {0: 1.0, 1: 3.0}
        (publish,) = kinds(collected(machine, actions, [by_client[c] for c in clients]), Publish)
        assert publish.model == pytest.approx([mean])


def test_an_update_after_its_quorum_is_late_and_its_client_idle_again() -> None:
    machine = server(Sync(rounds=3, participants=2, open=OpenQuorum(share=0.5)), clients=2)
    machine.start()
    collected(machine, machine.handle(UpdateArrived(1.0, 0)))
    actions = machine.handle(UpdateArrived(2.0, 1))
    assert kinds(actions, Settle) == [Settle(1, Fate.LATE)]
    assert machine.population.is_idle(1) or 1 in {t.client for t in machine.tasks.open.values()}


def test_over_selection_draws_reserves_whose_late_updates_are_surplus() -> None:
    machine = server(Sync(rounds=2, participants=2, over_selection=1.5), clients=4)
    assert len(kinds(machine.start(), Dispatch)) == 3
    machine.handle(UpdateArrived(1.0, 2))
    actions = machine.handle(UpdateArrived(1.0, 0))
    assert sorted(kinds(actions, Collect)[0].tasks) == [0, 2]
    collected(machine, actions)
    assert kinds(machine.handle(UpdateArrived(2.0, 1)), Settle) == [Settle(1, Fate.SURPLUS)]


def test_a_repeated_cohort_has_a_deadline_of_its_own() -> None:
    machine = server(Sync(rounds=2, participants=2, open=OpenDeadline(seconds=5.0)), clients=2)
    machine.start()
    for task in machine.tasks.open.copy().values():
        machine.handle(ClientGone(4.0, task.client, task.number, Fate.LOST_UP))
        machine.handle(ClientIdle(4.0, task.client))
    assert SetTimer("deadline:1", 5.0) in machine.handle(TimerFired(4.0, "cohort"))
    machine.handle(TimerFired(5.0, "deadline:0"))
    assert kinds(machine.handle(UpdateArrived(6.0, 2)), Collect) == [], "it has until 9"
    assert kinds(machine.handle(TimerFired(9.0, "deadline:1")), Collect) == [Collect((2,))]


def test_at_the_deadline_arrived_updates_are_aggregated_or_the_next_arrival() -> None:
    machine = server(Sync(rounds=2, open=OpenDeadline(seconds=5.0)), clients=3)
    assert SetTimer("deadline:0", 5.0) in machine.start()
    machine.handle(UpdateArrived(1.0, 0))
    actions = machine.handle(TimerFired(5.0, "deadline:0"))
    assert kinds(actions, Collect) == [Collect((0,))]
    actions = collected(machine, actions, time_s=5.0)
    assert SetTimer("deadline:1", 5.0) in actions
    machine.handle(TimerFired(10.0, "deadline:1"))
    assert machine.phase is ServerPhase.FILLING
    actions = machine.handle(UpdateArrived(11.0, 3))
    assert kinds(actions, Collect) == [Collect((3,))]


def test_a_task_whose_lease_has_ended_is_given_up_and_its_update_refused() -> None:
    machine = server(Sync(rounds=2), clients=2)
    machine.start()
    machine.handle(UpdateArrived(1.0, 0))
    actions = machine.handle(ClientGone(3.0, 1, 1, Fate.TIMED_OUT))
    assert kinds(actions, Settle)[0] == Settle(1, Fate.TIMED_OUT)
    collected(machine, actions, time_s=3.0)
    assert not machine.population.is_idle(1)
    with pytest.raises(MessageError, match="answered already"):
        machine.handle(UpdateArrived(4.0, 1))


def test_a_cohort_that_cannot_be_reached_is_replaced_before_its_buffer_opens() -> None:
    machine = server(Sync(rounds=1, participants=1, late="carry"), clients=3)
    (first,) = kinds(machine.start(), Dispatch)
    (second,) = kinds(machine.handle(ClientGone(0.0, first.client, first.task, None)), Dispatch)
    (third,) = kinds(machine.handle(ClientGone(0.0, second.client, second.task, None)), Dispatch)
    assert {first.client, second.client, third.client} == {0, 1, 2}
    assert kinds(machine.handle(UpdateArrived(1.0, third.task)), Collect) == [Collect((third.task,))]
    assert machine.tasks.withdrawn == 2


def test_a_buffer_is_replaced_one_by_one_and_its_last_update_gets_the_new_version() -> None:
    machine = server(Buffered(rounds=2, buffer=2, dispatch=ConstantDispatch(in_flight=2)), clients=4)
    machine.start()
    (replacement,) = kinds(machine.handle(UpdateArrived(1.0, 0)), Dispatch)
    assert (replacement.task, replacement.version) == (2, 0)
    actions = machine.handle(UpdateArrived(2.0, 1))
    assert kinds(actions, Dispatch) == []
    (fresh,) = kinds(collected(machine, actions, time_s=2.0), Dispatch)
    assert (fresh.task, fresh.version) == (3, 1)


def test_staleness_counts_versions_up_to_the_one_an_update_is_applied_to() -> None:
    protocol = Buffered(rounds=9, buffer=1, dispatch=ConstantDispatch(in_flight=2))
    machine = server(protocol, clients=3)
    machine.start()
    fates = []
    for task in (0, 2, 1):  # task 1 is sent version 0 and arrives when version 2 is out
        actions = collected(machine, machine.handle(UpdateArrived(1.0, task)), [1.0])
        fates += kinds(actions, Settle)
    assert [(s.task, s.staleness) for s in fates] == [(0, 0), (2, 0), (1, 2)]
    assert [s.weight for s in fates] == pytest.approx([1.0, 1.0, 3**-0.5])


def test_updates_that_are_too_old_are_stale() -> None:
    protocol = Buffered(rounds=9, buffer=1, dispatch=ConstantDispatch(in_flight=2), max_staleness=0)
    machine = server(protocol, clients=3)
    machine.start()
    collected(machine, machine.handle(UpdateArrived(1.0, 0)), [1.0])
    actions = machine.handle(UpdateArrived(1.0, 1))
    assert kinds(actions, Settle) == [Settle(1, Fate.STALE)]
    assert kinds(actions, Collect) == []


def test_arrivals_while_the_server_aggregates_wait_for_the_next_buffer() -> None:
    protocol = Buffered(rounds=2, buffer=1, dispatch=ConstantDispatch(in_flight=3))
    machine = server(protocol, clients=5, aggregate_s=2.0)
    machine.start()
    actions = collected(machine, machine.handle(UpdateArrived(1.0, 0)), [1.0])
    assert SetTimer("aggregated", 2.0) in actions
    assert kinds(actions, Publish) == []
    assert kinds(machine.handle(UpdateArrived(2.0, 1)), Collect) == []
    actions = machine.handle(TimerFired(3.0, "aggregated"))
    assert [p.version for p in kinds(actions, Publish)] == [1]
    assert kinds(actions, Collect) == [Collect((1,))]
    assert kinds(collected(machine, actions, [1.0], time_s=3.0), Settle) == []
    (settled,) = kinds(machine.handle(TimerFired(5.0, "aggregated")), Settle)[:1]
    assert (settled.task, settled.fate, settled.staleness) == (1, Fate.AGGREGATED, 1)


@pytest.mark.parametrize(("every", "evaluated"), [(2, [2, 3]), (1, [1, 2, 3]), (0, [3])])
def test_aggregation_time_grows_with_updates_and_includes_due_evaluations(every: int, evaluated: list[int]) -> None:
    plan = server(Sync(rounds=3, participants=2), clients=2, aggregate_s=2.0).plan
    machine = Server(replace(plan, aggregate_s_per_update=0.25, evaluate_s=10.0, evaluate_every=every))
    machine.start()
    for version in (1, 2, 3):
        tasks = (2 * version - 2, 2 * version - 1)
        held = list(tasks) if version != 2 else [tasks[0]]
        for task in tasks:
            if task in held:
                actions = machine.handle(UpdateArrived(version * 100.0, task))
            else:
                client = machine.validator.sender_of(task)
                assert client is not None
                actions = machine.handle(ClientGone(version * 100.0, client, task, Fate.LOST_UP))
                machine_idle = ClientIdle(version * 100.0, client)
        (timer,) = kinds(collected(machine, actions, [1.0] * len(held), time_s=version * 100.0), SetTimer)
        assert timer == SetTimer("aggregated", 2.0 + 0.25 * len(held) + 10.0 * (version in evaluated))
        if version == 2:
            machine.handle(machine_idle)
        machine.handle(TimerFired(version * 100.0 + timer.delay_s, "aggregated"))
    assert machine.phase is ServerPhase.STOPPED


def test_updates_in_an_unfinished_aggregation_end_unfinished() -> None:
    machine = server(Buffered(rounds=2, buffer=1, dispatch=ConstantDispatch(in_flight=3)), clients=5, aggregate_s=2.0)
    machine.start()
    collected(machine, machine.handle(UpdateArrived(1.0, 0)), [1.0])
    settled = kinds(machine.stop("time limit reached"), Settle)
    assert sorted((one.task, one.fate) for one in settled) == [(task, Fate.UNFINISHED) for task in range(4)]


def test_a_cohort_that_is_too_small_for_the_buffer_opens_it_short() -> None:
    protocol = Buffered(rounds=3, buffer=3, dispatch=CohortDispatch(participants=2))
    machine = server(protocol, clients=4)
    machine.start()
    machine.handle(UpdateArrived(1.0, 0))
    actions = machine.handle(UpdateArrived(2.0, 1))
    assert kinds(actions, ShortBuffer) == [ShortBuffer(2, 3)]
    assert kinds(actions, Collect) == [Collect((0, 1))]


def test_fedasync_mixes_each_update_at_once() -> None:
    protocol = FedAsync(rounds=2, in_flight=2, mixing=0.5, staleness=ExponentialStaleness(rate=math.log(2)))
    machine = server(protocol, clients=3)
    machine.start()
    (first,) = kinds(collected(machine, machine.handle(UpdateArrived(1.0, 0)), [8.0]), Publish)
    assert first.model == pytest.approx([4.0])
    (second,) = kinds(collected(machine, machine.handle(UpdateArrived(1.0, 1)), [8.0]), Publish)
    assert second.model == pytest.approx([4.0 + 0.5 * 0.5 * 4.0])


def test_server_noise_is_added_before_publication() -> None:
    def noise(made: AggregationResult, version: int) -> tuple[np.ndarray, float]:
        assert (version, made.clip_norm) == (1, None)
        assert [(one.task.number, one.task.client, one.weight) for one in made.updates] == [(0, 0, 0.5), (1, 1, 0.5)]
        return made.model + np.float32(0.5), 0.25

    machine = server(Sync(rounds=1), clients=2, noise=noise)
    machine.start()
    machine.handle(UpdateArrived(1.0, 0))
    (publish,) = kinds(collected(machine, machine.handle(UpdateArrived(1.0, 1)), [1.0, 3.0]), Publish)
    assert publish.model == pytest.approx([2.5])
    assert publish.noise_std == 0.25


@pytest.mark.parametrize("task", [77, -1])
def test_an_unrequested_update_is_rejected_without_other_effect(task: int) -> None:
    machine = server(Buffered(rounds=2, buffer=2, dispatch=ContinuousDispatch()), clients=2)
    machine.start()
    before = (machine.version, machine.phase, dict(machine.tasks.open), len(machine.population))
    assert machine.handle(UpdateArrived(1.0, task)) == [Settle(task, Fate.REJECTED, detail="not asked for")]
    assert (machine.version, machine.phase, dict(machine.tasks.open), len(machine.population)) == before
    assert machine.unknown_tasks == 1
    machine.handle(UpdateArrived(2.0, 0))
    assert machine.handle(UpdateArrived(3.0, task)) == [Settle(task, Fate.REJECTED, detail="not asked for")]
    machine.stop("the test is over")
    assert sum(machine.tasks.fates.values()) == machine.tasks.begun


def test_a_stopped_server_answers_nothing() -> None:
    machine = server(Sync(rounds=1), clients=1)
    machine.start()
    assert kinds(machine.stop("enough"), Stop) == [Stop("enough")]
    assert machine.handle(ClientIdle(1.0, 0)) == []
    assert machine.stop("again") == []
    assert machine.tasks.fates == {Fate.UNFINISHED: 1}


def test_models_that_no_open_task_was_sent_are_forgotten() -> None:
    machine = server(Buffered(rounds=9, buffer=1, dispatch=ConstantDispatch(in_flight=2)), clients=3)
    machine.start()
    for task in (0, 2, 3):
        collected(machine, machine.handle(UpdateArrived(1.0, task)), [1.0])
    assert tuple(machine.tasks._downloads) == (0, 3), "task 1 was sent version 0 and is still open"
    collected(machine, machine.handle(UpdateArrived(1.0, 1)), [1.0])
    assert 0 not in machine.tasks._downloads


def drive(machine: Server, seed: int, steps: int) -> list[Publish]:
    """Random but legal messages until the server stops or `steps` are over."""
    random = np.random.default_rng(seed)
    actions = list(machine.start())
    flying: list[Dispatch] = []
    published: list[Publish] = []
    repeat = False
    for step in range(steps):
        while actions:
            action = actions.pop(0)
            if isinstance(action, Dispatch):
                flying.append(action)
            elif isinstance(action, Collect):
                models = random.normal(size=(len(action.tasks), 1)).astype(np.float32)
                actions += machine.handle(Collected(step, action.tasks, models, np.zeros(len(action.tasks))))
            elif isinstance(action, Publish):
                published.append(action)
            elif action == SetTimer("cohort", 0.0):
                repeat = True
        if repeat:
            repeat = False
            actions += machine.handle(TimerFired(step, "cohort"))
            continue
        if machine.phase is ServerPhase.STOPPED or not flying:
            break
        task = flying.pop(int(random.integers(len(flying))))
        if random.random() < 0.2:
            actions += machine.handle(ClientGone(step, task.client, task.task, Fate.LOST_UP))
            actions += machine.handle(ClientIdle(step, task.client))
        else:
            actions += machine.handle(UpdateArrived(step, task.task))
    return published


@given(st.integers(0, 2**20), st.integers(1, 5))
@settings(deadline=None)
def test_sync_is_the_buffered_protocol_with_a_buffer_for_the_whole_cohort(seed: int, participants: int) -> None:
    sync = server(Sync(rounds=4, participants=participants), clients=6)
    buffered = server(
        Buffered(
            rounds=4,
            buffer=participants,
            dispatch=CohortDispatch(participants=participants),
            staleness=ConstantStaleness(),
        ),
        clients=6,
    )
    for left, right in zip(drive(sync, seed, 400), drive(buffered, seed, 400), strict=True):
        np.testing.assert_array_equal(left.model, right.model)
        assert left.staleness == right.staleness


def test_a_lost_cohort_is_replaced_by_one_of_all_idle_clients() -> None:
    machine = server(Sync(rounds=2), clients=3)
    tasks = kinds(machine.start(), Dispatch)
    for number, task in enumerate(tasks):
        actions = machine.handle(ClientGone(1.0 + number, task.client, task.task, Fate.LOST_UP))
        # Only with the last of them nothing more can come; it asks for work only after it is known to be lost.
        assert kinds(actions, SetTimer) == ([SetTimer("cohort", 0.0)] if number == 2 else [])
        assert kinds(actions, Dispatch) == []
        assert machine.handle(ClientIdle(1.0 + number, task.client)) == []
    actions = machine.handle(TimerFired(3.0, "cohort"))
    assert kinds(actions, CohortRepeated) == [CohortRepeated(3)]
    again = kinds(actions, Dispatch)
    assert sorted(action.client for action in again) == [0, 1, 2]
    assert {action.version for action in again} == {0}


def test_a_client_that_has_spent_its_budget_is_asked_no_more() -> None:
    machine = server(Buffered(rounds=9, buffer=2, dispatch=ContinuousDispatch()), clients=3)
    tasks = {action.client: action.task for action in kinds(machine.start(), Dispatch)}
    assert machine.handle(ClientRetired(0.5, 1)) == [], "it is still at its last task"
    assert machine.handle(UpdateArrived(1.0, tasks[1])) == []
    assert [action.client for action in kinds(machine.handle(ClientIdle(1.5, 1)), Dispatch)] == []
    actions = machine.handle(UpdateArrived(2.0, tasks[0]))
    (collect,) = kinds(actions, Collect)
    assert collect.tasks == (tasks[1], tasks[0]), "what it sent is used"
    assert [action.client for action in kinds(collected(machine, actions), Dispatch)] == [0]


def test_a_client_that_cannot_afford_a_single_upload_says_so_before_the_start() -> None:
    machine = server(Sync(rounds=2), clients=3)
    assert machine.handle(ClientRetired(0.0, 1)) == []
    assert sorted(action.client for action in kinds(machine.start(), Dispatch)) == [0, 2]
    empty = server(Sync(rounds=2), clients=2)
    for client in (0, 1):
        empty.handle(ClientRetired(0.0, client))
    actions = empty.start()
    assert [type(action) for action in actions] == [Publish, Stop]
    assert empty.stopped == "every client has spent its budget"


@pytest.mark.parametrize("fate", [None, Fate.LOST_UP])
def test_when_all_budgets_are_spent_the_last_updates_are_used_and_the_run_ends(fate: Fate | None) -> None:
    """Three clients, buffers of two: the last update is alone, or lost."""
    machine = server(Buffered(rounds=9, buffer=2, dispatch=ContinuousDispatch()), clients=3)
    machine.start()
    for client in range(3):
        machine.handle(ClientRetired(0.5, client))
    machine.handle(UpdateArrived(1.0, 0))
    assert kinds(collected(machine, machine.handle(UpdateArrived(2.0, 1))), Stop) == []
    if fate is None:
        actions = machine.handle(UpdateArrived(3.0, 2))
        assert kinds(actions, ShortBuffer) == [ShortBuffer(1, 2)]
        actions = collected(machine, actions)
    else:
        actions = machine.handle(ClientGone(3.0, machine.tasks.open[2].client, 2, fate))
    assert kinds(actions, Stop) == [Stop("every client has spent its budget")]
    assert machine.version == (2 if fate is None else 1)
    machine.tasks.check()


@given(order=st.permutations(range(8)), late=st.sampled_from(["drop", "carry"]))
def test_a_cohort_is_summed_in_the_order_of_its_clients(order: list[int], late: str) -> None:
    changes = {client: np.random.default_rng(client).normal(size=5) for client in range(8)}

    def play(sequence: list[int]) -> Play:
        protocol = Sync(rounds=1, late=late)
        return arrivals(builders.server(protocol, clients=8, n_parameters=5), sequence, changes=changes)

    there = play(order)
    (collect,) = kinds(there.actions, Collect)
    clients = {dispatch.task: dispatch.client for dispatch in kinds(there.actions, Dispatch)}
    asked = [clients[task] for task in collect.tasks]
    if late == "drop":
        assert asked == sorted(asked)
        assert there.model.tobytes() == play(sorted(order)).model.tobytes()
    else:
        assert asked == order
