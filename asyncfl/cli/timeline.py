"""`asyncfl timeline`: the clock of a scenario, without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.quantities import NONE, quantity
from asyncfl.cli.options import Assignments, Json, MaxHours, Quiet, ScenarioFile, WorldFile, option
from asyncfl.cli.output import console, print_json, print_table
from asyncfl.cli.progress import ProgressBar
from asyncfl.cli.run import read_scenario


def timeline(
    scenario: ScenarioFile,
    set_: Assignments = None,
    world: WorldFile = None,
    out: Annotated[Path | None, option("Folder to write: new, empty or a timeline. Default: none.")] = None,
    fates: Annotated[bool, option("Record the fates of tasks alone, not their phases: less time.", "--fates")] = False,
    max_hours: MaxHours = 2.0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate the clock of a scenario without training: round times, staleness, traffic.

    Prints the exposure to eavesdroppers, the fates of tasks and the energy too.

    Example: asyncfl timeline scenario.yaml --set protocol.rounds=100 --out clock
    """
    description = read_scenario(scenario, set_ or [], world)
    if fates and description.world.power is not None:
        raise ScenarioError([Fault("world.power", "must be null with --fates: energy is computed from phases")])
    from asyncfl.experiments.timeline import summary, timeline_folder, timeline_of, write_timeline
    from asyncfl.results.run_tables import clients_table, rounds_table
    from asyncfl.simulation import simulate_clock
    from asyncfl.simulation.limits import Limits

    if out is not None:
        timeline_folder(out, description.digest()).check(force=True)
    Limits(hours=max_hours).check(description, training=False)
    timelines = []
    with ProgressBar(description, quiet or json) as bar:
        for seed in description.seeds:
            run = simulate_clock(description, seed, whole=not fates, instruments=[bar])
            tables = rounds_table(run), run.events, run.tasks, clients_table(run)
            found = timeline_of(seed, run.stopped, *tables, run.fates)
            timelines.append(replace(found, retransmitted=None) if fates else found)
    summaries = [summary(one) for one in timelines]
    if json:
        print_json({"scenario": description.digest(), "seeds": summaries})
    else:
        for one in summaries:
            _report(one)
    if out is not None:
        seeds = ", ".join(map(str, description.seeds))
        caption = f"{scenario.name}, seed {seeds}: the clock alone, without training."
        written = write_timeline(timelines, caption, out, description.digest())
        if not json:
            console.print(f"{out}: {', '.join(path.name for path in written)}")


def _report(found: dict[str, Any]) -> None:
    """Print the summary of one seed, as `asyncfl.experiments.timeline.summary` returns it."""
    versions = f"{found['versions']} versions in {quantity(found['virtual_s'], 's')}"
    console.print(f"seed {found['seed']}: {versions}; {found['ended']}")
    exposure, traffic = found["exposure"], found["traffic"]
    spreads = {
        "time between versions": ("s", found["round_s"]),
        "staleness in versions": ("", found["staleness"]),
        "tasks of a client": ("", found["tasks_of_client"]),
        "updates of a client overheard": ("", exposure["of_client"]),
        "models to a client overheard": ("", exposure["models_of_client"]),
    }
    shown = {"mean": "mean", "5 %": "low", "median": "median", "95 %": "high", "most": "most"}
    rows = [
        [name, *(NONE if values[key] is None else quantity(values[key], unit) for key in shown.values())]
        for name, (unit, values) in spreads.items()
    ]
    print_table(["", *shown], rows)
    console.print(
        f"exposure: L = {exposure['most_overheard_client']}; {exposure['clients_overheard']} clients overheard; "
        f"{exposure['versions_overheard']} of {exposure['versions_sent']} versions sent overheard on the downlink"
    )
    console.print(
        f"traffic: {quantity(traffic['up_bytes'], 'bytes')} up, {quantity(traffic['down_bytes'], 'bytes')} down"
        + ("" if (again := traffic["messages_retransmitted"]) is None else f", {again} messages retransmitted")
    )
    if found["cohorts_repeated"]:
        console.print(
            f"cohorts repeated: {found['cohorts_repeated']}, since their uploads failed; each upload counts for L, so "
            "L may exceed the number of versions"
        )
    if found["attackers_share_of_arrivals"] is not None:
        console.print(f"attackers: {found['attackers_share_of_arrivals']:.1%} of the updates that arrived")
    if "energy_j" in found:
        joules = found["energy_j"]
        parts = ", ".join(f"{name} {quantity(joules[name], 'J')}" for name in ("compute", "send", "receive", "idle"))
        median, most = (quantity(joules["of_client"][name], "J") for name in ("median", "most"))
        console.print(f"energy: {quantity(joules['sum'], 'J')} ({parts}); of a client {median} (median), {most} (most)")
    fates = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in found["fates"].items() if count)
    console.print(f"fates: {fates or 'no task was begun'}\n")
