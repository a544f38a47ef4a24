"""`asyncfl live flower`: write a scenario as a Flower app, and the function that the app's server runs."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from asyncfl.base.component import own_files
from asyncfl.base.errors import ScenarioError
from asyncfl.base.files.yaml_text import read_text
from asyncfl.cli.live_server import print_log, print_version, run_seeds
from asyncfl.cli.options import Assignments, ScenarioFile, limit_threads, option
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import data_line, read_scenario
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.federation.seed_run import SeedRun


def flower(
    scenario: ScenarioFile,
    out: Annotated[Path, option("Folder of the app: new, empty or an app of the same scenario.")],
    set_: Assignments = None,
    results: Annotated[Path, option("Folder for the app's runs, on the machine of the SuperLink.")] = Path(
        "results/live"
    ),
    timeout_s: Annotated[float, option("Seconds to wait for the answer to a message.", min=1)] = 3600.0,
    force: Annotated[bool, option("Replace the app of another scenario.", "--force")] = False,
) -> None:
    """Write a Flower app that runs the scenario's federation.

    Example: asyncfl live flower scenario.yaml --out app
    """
    description = read_scenario(scenario, set_ or [])
    from asyncfl.federation.prepare import privacy_context, resolve
    from asyncfl.live.faults import live_faults
    from asyncfl.live.flower.app_folder import write_app
    from asyncfl.simulation import SimulatedRuns

    resolved = resolve(description, description.seeds[0], SimulatedRuns())
    sizes = description.data.client_sizes(resolved.streams)
    if faults := list(live_faults(resolved.scenario, privacy_context(resolved, sizes))):
        raise ScenarioError(faults)
    if description.model.initial is not None:
        # The server may be started in another working directory.
        place = Path(description.model.initial).expanduser().resolve()
        description = description.override({"model.initial": str(place)})
    modules = own_files(description)
    beside = {name: path for name, path in modules.items() if "." not in name}
    write_app(out, description, results.resolve(), timeout_s, beside.values(), force=force)
    console.print(f"{out} written")
    if packages := sorted({name.partition(".")[0] for name in modules.keys() - beside.keys()}):
        print_text(f"note: {', '.join(packages)} must be installed where the SuperLink and the SuperNodes run")
    print_text(f"For each client N (0..{description.data.clients - 1}), where its SuperNode is to run:")
    console.print("  flower-supernode --insecure --superlink HOST:8000 --node-config partition-id=N")
    print_text("Then, NAME being the connection to the SuperLink in Flower's configuration:")
    console.print(f"  flwr run {shlex.quote(str(out))} NAME --stream")


def serve(grid: Any, config: Mapping[str, Any]) -> None:
    """Run all seeds of the scenario one after another, and write the run. The app's ServerApp calls this.

    Args:
        grid: Flower's `Grid`, through which the server exchanges messages with the SuperNodes.
        config: Configuration of the app: `scenario`, `results`, `timeout-s`.
    """
    limit_threads()
    print_log(quiet=False)
    from asyncfl.federation.prepare import resolve
    from asyncfl.federation.storage import LIVE, RunFolder
    from asyncfl.live.flower.nodes import GRID_ENDED, run_on_grid
    from asyncfl.live.flower.records import GridTransport
    from asyncfl.live.interrupts import Interrupts
    from asyncfl.simulation import SimulatedRuns

    scenario = Scenario.read(read_text(str(config["scenario"]), "the scenario of the app"))
    folder = Path(str(config["results"])) / time.strftime("%Y%m%d-%H%M%S")
    RunFolder(folder, scenario, LIVE).check_new()
    print_text(f"data: {data_line(scenario.data)}")
    print_text(f"waiting for {scenario.data.clients} SuperNodes with partition-id=0..{scenario.data.clients - 1}")
    transport = GridTransport(grid, float(config["timeout-s"]))

    def run_seed(seed: int) -> SeedRun:
        resolved = resolve(scenario, seed, SimulatedRuns())
        return asyncio.run(run_on_grid(resolved, transport, progress=print_version, interrupts=interrupts))

    with Interrupts() as interrupts:
        run_seeds(
            *(scenario, scenario.seeds, folder, run_seed),
            lambda run: bool(interrupts.came) or run.stopped.startswith(GRID_ENDED),
        )
