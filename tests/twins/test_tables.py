"""Tables of twins: their rows, the measured epsilons of the ledger, and notes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from asyncfl.federation.adversary_holdings import AdversaryHoldings
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.scheme import Guarantee
from asyncfl.twins import tables
from asyncfl.twins.neighbours import Neighbour
from asyncfl.twins.tables import counted_kinds
from asyncfl.twins.transcripts import TwinRelease

SAMPLE = Guarantee("sample", "replace", "heuristic", 2.0, 1e-3, 1)
CLIENT = Guarantee("client", "replace", "proven", 2.0, 1e-3, 1)
ZERO_OUT = Guarantee("client", "zero_out", "proven", 2.0, 1e-3, 1)
OF_SAMPLES = ("ordinary", "mislabelled", "noise", "brightest", "ascent")
IMAGE = Neighbour("noise", 0, sample=3, label=7)
NOBODYS = Neighbour("exchanged", 1, partner=2)


def released(time_s: float, task: int, distance: float, neighbour: Neighbour = IMAGE, **of: Any) -> TwinRelease:
    std, sensitivity = of.get("std", 2.0), of.get("sensitivity", 4.0)
    rows = ((10.0, distance**2, std, std),)
    return TwinRelease(time_s, task, neighbour, distance, sensitivity, std, std, rows, None, of.get("pure", 0.5))


def findings(stated: Guarantee | None = SAMPLE, versions: tuple[int, ...] = (0, 4, 5), **of: Any) -> Any:
    """Of seed 3, whose versions came at 0 s, 10 s, 20 s, ...; client 6 may be audited, and stands in the ledger."""
    scheme = SimpleNamespace(
        upload_guarantee=lambda context, client: stated, model_guarantee=lambda context: of.get("of_models", stated)
    )
    path = SimpleNamespace(scheme=scheme, context=None, data=None)
    audit = SimpleNamespace(clients=of.get("wanted", 1), neighbours=of.get("kinds", ("noise", "exchanged")))
    observer = SimpleNamespace(
        path=path,
        audit=audit,
        clients={one.client: one for one in of.get("clients", ())},
        not_finite=of.get("not_finite", {}),
        strayed=of.get("strayed", set()),
    )
    rounds = [{"version": version, "time_s": 10.0 * place} for place, version in enumerate(versions)]
    run = SimpleNamespace(seed=3, events=None, rounds=rounds, models={})
    keys: dict[str, list[Any]] = {"seed": [3], "holder": ["client"], "client": [6], "adversary": ["server"]}
    return tables._Findings(observer, run, pa.table(keys))  # type: ignore[arg-type]


def client(number: int = 6, **of: Any) -> Any:
    return SimpleNamespace(client=number, followed=of.get("followed", []), tasks=of.get("tasks", {}))


@pytest.fixture(autouse=True)
def _nobody_holds_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "holdings", lambda events, published: {"server": AdversaryHoldings({}, {})})


ROW = (3, "client", 6, "server")


def test_the_claim_decides_which_twins_are_neighbours() -> None:
    assert counted_kinds(ZERO_OUT) == ("zeroed",)
    assert counted_kinds(SAMPLE) == OF_SAMPLES
    assert counted_kinds(CLIENT) == counted_kinds(None) == (*OF_SAMPLES, "exchanged", "zeroed")


def test_each_release_is_a_row_and_the_last_epsilon_is_the_measured_one() -> None:
    found = findings()
    of_task = {place: SimpleNamespace(neighbour=one) for place, one in enumerate([IMAGE, NOBODYS, IMAGE])}
    audited = client(tasks={8: SimpleNamespace(twins=of_task)})
    found._add(ROW, audited, SAMPLE, [released(10.0, 8, 1.0), released(10.5, 9, 3.0, sensitivity=0.0)])
    first, second = found.rows
    alone = exact_epsilon([1 / 4, 9 / 4], 1e-3)
    assert first == {
        "seed": 3,
        "holder": "client",
        "client": 6,
        "adversary": "server",
        "kind": "noise",
        "counts": True,
        "task": 8,
        "version": 4,
        "time_s": 10.0,
        "twins": 2,
        "sample": 3,
        "label": 7,
        "distance": 1.0,
        "sensitivity": 4.0,
        "sensitivity_share": 0.25,
        "sigma": 2.0,
        "twin_sigma": 2.0,
        "delta": 1e-3,
        "epsilon_once": alone[0],
        "epsilon": alone[0],
    }
    assert (second["version"], second["twins"], second["epsilon_once"]) == (5, 1, alone[1])
    assert math.isnan(second["sensitivity_share"])
    assert second["epsilon"] == pytest.approx(exact_epsilon(10 / 4, 1e-3))
    assert found.measured == {ROW: second["epsilon"]}
    # A nearer twin takes nothing away, and what came after the last version stands with it.
    found._add(ROW, audited, SAMPLE, [released(99.0, 8, 0.1)])
    assert found.rows[-1]["version"] == 5
    assert found.measured == {ROW: second["epsilon"]}


def test_epsilons_are_pure_without_a_claim() -> None:
    found = findings(None)
    found._add(ROW, client(), None, [released(0.0, 8, 1.0, pure=0.5), released(0.0, 9, 1.0, pure=0.25)])
    assert [(row["delta"], row["epsilon_once"], row["epsilon"]) for row in found.rows] == [
        (0.0, 0.5, 0.5),
        (0.0, 0.25, 0.75),
    ]


def test_rounding_of_float32_breaks_no_sensitivity() -> None:
    assert not tables._exceeds(1.0 + 1e-5, 1.0)
    assert not tables._exceeds(2.0 * (1 + 1e-5), 2.0)
    assert tables._exceeds(1.0 + 1.01e-5, 1.0)
    assert not tables._exceeds(math.inf, math.inf)


def test_notes_say_why_nothing_is_measured() -> None:
    assert list(findings()._unmeasured()) == ["audit: nothing is measured in seed 3: no honest update was collected"]
    assert list(findings(not_finite={1: 2, 4: 5})._unmeasured()) == [
        "audit: nothing is measured in seed 3: not one of the 7 honest updates collected was finite"
    ]
    assert list(findings(ZERO_OUT, clients=[client()])._unmeasured()) == [
        "audit: nothing is measured in seed 3: for the claim (zero_out of a client) only these twins are neighbours: "
        "zeroed"
    ]
    assert list(findings(SAMPLE, clients=[client()], kinds=("zeroed",))._unmeasured()) == [
        "audit: nothing is measured in seed 3: for the claim (replace of a sample) only these twins are neighbours: "
        + ", ".join(OF_SAMPLES)
    ]


def test_an_example_is_a_collected_upload_beyond_what_is_assumed() -> None:
    def task(number: int, distance: float, sensitivity: float) -> Any:
        twin = SimpleNamespace(neighbour=IMAGE, distance=distance)
        release = SimpleNamespace(sensitivity=sensitivity)
        return SimpleNamespace(task=number, base_version=4, release=release, twins={0: twin})

    tasks = {8: task(8, 3.0, 2.0), 9: task(9, 9.0, 2.0), 10: task(10, 5.0, 2.0)}
    found = findings(clients=[client(tasks=tasks), client(2, tasks={8: task(8, 2.0, 2.0)}), client(1)])
    found.held = {"eavesdropper": AdversaryHoldings({8: 1.0}, {}), "server": AdversaryHoldings({10: 1.0}, {})}
    [one] = found._examples()
    assert (one.client, one.task, one.base_version, one.distance, one.sensitivity) == (6, 10, 4, 5.0, 2.0)
    assert one.said == (
        "client 6, task 10 from version 4: sample 3 is replaced (noise), the other one has label 7; "
        "|u - u'| is 5, assumed at most 2"
    )
