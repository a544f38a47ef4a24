"""`asyncfl audit`: what an attacker finds out from a finished run, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from asyncfl.cli.audit_canaries import audit_with_canaries, print_found
from asyncfl.cli.audit_membership import audit_memberships
from asyncfl.cli.audit_membership import print_found as print_memberships
from asyncfl.cli.output import print_text
from asyncfl.cli.progress import ProgressBar
from asyncfl.cli.reconstruct import Holder, Method, reconstruct_upload
from asyncfl.cli.twins import UNITS, described, measure_with_twins, tell_measured
from asyncfl.data.canaries import Canaries
from asyncfl.errors import Fault, ScenarioError

_LARGEST = 2**63 - 1
"""No number of a run is larger."""


SERVES = {
    "twins": ("clients", "neighbours", "twins"),
    "canaries": ("canary_unit", "canary_kind", "canary_delta"),
    "membership": ("worlds", "adversary"),
    "reconstruct": ("adversary", "client", "task", "method", "epsilon", "images", "steps", "most_parameters", "out"),
}
"""Audit -> the options that it takes notice of, besides --seed, --json and --quiet."""


def _check_given(context: typer.Context, audit: str) -> None:
    """Raises ScenarioError for options of another audit than the one that was asked for, and for two audits at once."""
    given = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
    faults = []
    for name in given:
        of = [kind for kind, names in SERVES.items() if name in names]
        if of and audit not in of:
            needed = " or ".join(f"--{kind}" for kind in of)
            why = f"has no effect with --{audit}" if of == ["twins"] else f"needs {needed}"
            faults.append(Fault(f"--{name.replace('_', '-')}", why))
    for other in ("canaries", "membership", "reconstruct"):
        if other in given and other != audit:
            faults.append(Fault(f"--{other}", f"must be left out with --{audit}: each is an audit of its own"))
    if audit in ("canaries", "membership") and "json" in given:
        faults.append(Fault("--json", f"has no effect with --{audit}: what it finds is in audit/attacks.parquet"))
    if (count := context.params["canaries"]) is not None and count < 1:
        faults.append(Fault("--canaries", f"must be at least 1, got {count}"))
    if faults:
        raise ScenarioError(faults)


def audit(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    clients: Annotated[str, typer.Option(help="of how many twins are trained, or of which: 0,3,7 (one: 3,)")] = "5",
    neighbours: Annotated[
        str, typer.Option(help=f"how twins differ: {', '.join(UNITS['all'])}; or sample, client, all")
    ] = "all",
    twins: Annotated[int, typer.Option(help="twins that are tried of each client", min=1, max=1_000_000)] = 200,
    seed: Annotated[int | None, typer.Option(help="only this seed", max=2**63 - 1)] = None,
    canaries: Annotated[
        int | None,
        typer.Option(help="plant so many canaries in a run of its own, and count who recognises them"),
    ] = None,
    canary_unit: Annotated[
        Literal["sample", "client"], typer.Option(help="with --canaries: what is in or out by a coin")
    ] = "sample",
    canary_kind: Annotated[
        Literal["mislabelled", "noise"], typer.Option(help="with --canaries: what their data are")
    ] = "mislabelled",
    canary_delta: Annotated[
        float | None, typer.Option(help="with --canaries: delta of the bounds; left out: the claim's", min=0, max=0.5)
    ] = None,
    membership: Annotated[
        bool, typer.Option("--membership", help="tell training samples from others by what was released")
    ] = False,
    worlds: Annotated[
        int, typer.Option(help="with --membership: shadow worlds of each attacked upload", min=8, max=100_000)
    ] = 64,
    reconstruct: Annotated[
        bool, typer.Option("--reconstruct", help="make images and labels out of one overheard upload instead")
    ] = False,
    adversary: Annotated[
        Holder, typer.Option(help="with --reconstruct and --membership: who holds the uploads; the server holds all")
    ] = Holder.EAVESDROPPER,
    client: Annotated[
        int | None, typer.Option(help="with --reconstruct: whose upload; left out: the first", min=0, max=_LARGEST)
    ] = None,
    task: Annotated[int | None, typer.Option(help="with --reconstruct: of which task", min=0, max=_LARGEST)] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            help="with --reconstruct: division at a dense first layer, descent on the cosine or L2 distance of "
            "gradients, or labels alone; left out: first_layer where the network allows it, else cosine"
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            help="with --reconstruct: noise that the upload is looked at under, inf for none; left out: inf, 10000, "
            "1000, 100 and 10; and always as it was sent"
        ),
    ] = None,
    images: Annotated[
        int, typer.Option(help="with --reconstruct: most images that are looked for", min=1, max=1000)
    ] = 16,
    steps: Annotated[int, typer.Option(help="with --reconstruct: gradients of a descent", min=1, max=1_000_000)] = 1000,
    most_parameters: Annotated[
        int, typer.Option(help="with --reconstruct: of the largest network that descent is tried on", min=1, max=10**9)
    ] = 2_000_000,
    out: Annotated[
        Path | None, typer.Option(help="with --reconstruct: folder for the contact sheet; left out: RUN/reconstruction")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Simulate a finished run again and measure what it gave away, by training tasks once more on neighbouring data.

    audit.parquet, examples, and what was measured are written into the run.

    Example: asyncfl audit results/runs/HASH --clients 5 --twins 200

    Example: asyncfl audit results/runs/HASH --canaries 1000

    Example: asyncfl audit results/runs/HASH --membership

    Example: asyncfl audit results/runs/HASH --reconstruct
    """
    from asyncfl.audit.again import FinishedRun

    asked = {"canaries": canaries is not None, "membership": membership, "reconstruct": reconstruct}
    _check_given(context, next((name for name, wanted in asked.items() if wanted), "twins"))
    audit_by_twins = described(clients, neighbours, twins)
    finished = FinishedRun.load(run)
    seeds = finished.seeds(seed)
    wanted = finished.run.scenario.model_copy(update={"seeds": seeds[:1] if reconstruct else seeds})
    if canaries is not None:
        planted = Canaries(count=canaries, unit=canary_unit, kind=canary_kind)
        with ProgressBar(wanted, quiet) as bar:
            found = audit_with_canaries(finished, seeds, planted, canary_delta, bar)
        print_found(found)
        if finished.note:
            print_text(finished.note)
        return
    if membership:
        with ProgressBar(wanted, quiet) as bar:
            memberships = audit_memberships(finished, seeds, adversary.value, worlds, bar)
        print_memberships(memberships)
        if finished.note:
            print_text(finished.note)
        return
    with ProgressBar(wanted, quiet or json) as bar:
        if reconstruct:
            reconstruct_upload(
                finished,
                seeds[0],
                bar,
                adversary,
                client,
                task,
                method,
                epsilon,
                images,
                steps,
                most_parameters,
                out,
                json,
            )
            return
        audited, replaced = measure_with_twins(finished, seeds, bar, audit_by_twins)
    tell_measured(run, audited, replaced, seeds, json)
