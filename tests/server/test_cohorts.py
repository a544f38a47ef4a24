from asyncfl.base.messages import Dispatch
from asyncfl.base.streams import Streams
from asyncfl.server import Protocol, Sync
from asyncfl.server.cohorts import Cohorts
from asyncfl.server.population import Population
from asyncfl.server.tasks import TaskTable


def cohorts(protocol: Protocol, clients: int = 4) -> Cohorts:
    population = Population(clients)
    population.add_all()
    return Cohorts(protocol, population, TaskTable(), Streams(1))


def test_no_replacement_is_drawn_after_a_client_of_the_cohort_has_answered() -> None:
    tasks = cohorts(Sync(rounds=2, participants=2), clients=3)
    tasks.begin_cohort(0, 0.0, [])
    done = tasks.end(0, awaited=0)
    assert done is not None
    tasks.population.add(done.client)
    tasks.withdraw(1, awaited=0)
    tasks.refill(0, 1.0, actions := [], is_empty=False)
    assert actions == []
    assert tasks.filling(1).cohort == 1


def test_an_empty_cohort_is_drawn_when_a_client_becomes_idle() -> None:
    tasks = cohorts(Sync(rounds=2, participants=2), clients=2)
    for client in (0, 1):
        tasks.population.remove(client)
    tasks.begin_cohort(0, 0.0, actions := [])
    tasks.refill(0, 0.5, actions, is_empty=True)
    assert actions == []
    tasks.population.add(1)
    tasks.refill(0, 1.0, actions, is_empty=True)
    assert actions == [Dispatch(0, 1, 0)]
