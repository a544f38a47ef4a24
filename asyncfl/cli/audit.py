"""`asyncfl audit`: measure what a finished run reveals about its training data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import ValidationError

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.cli.options import (
    Adversary,
    CommandGroup,
    Json,
    OwnCode,
    Quiet,
    RunFolder,
    Seed,
    check_own_code,
    integer,
    load_run,
    option,
)
from asyncfl.cli.output import console, format_number, print_json, print_rows, print_table, print_text
from asyncfl.cli.progress import ProgressBar
from asyncfl.measurements import OF_CLIENTS, OF_SAMPLES, TwinAudit

if TYPE_CHECKING:
    from asyncfl.extras.audit.finished_run import FinishedRun
    from asyncfl.extras.audit.reconstruction.image_reconstruction import ReconstructedImages

HELP = """Measure what a finished run reveals about its training data.

Each command simulates the run again and attacks it in one way. What it measures is written into the run's folder.

Example: asyncfl audit neighbours results/runs/HASH
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)


def _finished(folder: Path, own_code: bool) -> FinishedRun:
    """Load a finished run that an audit repeats. Raises RunError."""
    from asyncfl.extras.audit.finished_run import FinishedRun

    run = load_run(folder, own_code=own_code)
    check_own_code(run)
    return FinishedRun.of(folder, run)


@contextmanager
def _audited(
    folder: Path, seed: int | None, own_code: bool, quiet: bool
) -> Iterator[tuple[FinishedRun, tuple[int, ...], ProgressBar]]:
    """Load a finished run, and show a progress bar; yield the run, the audited seeds (None: all) and the bar."""
    finished = _finished(folder, own_code)
    seeds = finished.seeds(seed)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": seeds}), quiet) as bar:
        yield finished, seeds, bar


# --- neighbouring data sets -------------------------------------------------------------------------------------------

UNITS = {"sample": OF_SAMPLES, "client": OF_CLIENTS, "all": (*OF_SAMPLES, *OF_CLIENTS)}
"""Word of `--neighbours` -> the kinds of neighbouring data sets that it stands for."""
MEASURED = ["seed", "holder", "client", "adversary", "status", "claimed_epsilon", "provable", "measured", "delta"]
"""Columns of the ledger in the printed table."""


@app.command("neighbours")
def neighbours(
    run: RunFolder,
    clients: Annotated[str, option("Number of clients, or the clients themselves: 0,3,7 (client 3 alone: 3,).")] = "5",
    neighbours: Annotated[
        str,
        option(
            f"Kinds of neighbouring data sets, with commas: {', '.join(UNITS['all'])}; or sample, client or all, "
            "which stand for all kinds with another sample, with another client, or both."
        ),
    ] = "all",
    twins: Annotated[int, option("Neighbouring data sets to try for each client.", min=1, max=1_000_000)] = 200,
    seed: Seed = None,
    own_code: OwnCode = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bound epsilon from below by training clients' tasks again on neighbouring data sets.

    A neighbouring data set (a twin) differs from the client's data in one sample, or in all of them. The further its
    update lies from the client's own, relative to the noise, the easier an adversary tells them apart. Writes
    audit.parquet, the ledger's measured epsilons, and an example for each assumed sensitivity that is exceeded.

    Example: asyncfl audit neighbours results/runs/HASH --clients 5 --twins 200
    """
    from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours, save_run

    audit = _twin_audit(clients, neighbours, twins)
    with _audited(run, seed, own_code, quiet or json) as (finished, seeds, bar):
        audited = audit_neighbours(finished, audit, seeds, [bar])
    save_run(finished, audited)
    ledger = audited.ledger
    measured = ledger[ledger["seed"].isin(seeds) & ledger["measured"].notna()][MEASURED]
    if json:
        print_json({"run": str(run), "rows": measured.to_dict("records")})
        return
    headings = [name.replace("_", " ").replace("status", "sensitivity") for name in MEASURED]
    print_table(headings, measured.to_numpy(object).tolist(), keys=4)
    print_text(*(note for note in audited.summary["notes"] if note.startswith("audit: ")))
    print_text("measured: a lower bound on epsilon, given the models that the clients' tasks started from")
    rows_are = "1 row of the ledger is" if len(measured) == 1 else f"{len(measured)} rows of the ledger are"
    print_text(f"{run}: audit.parquet is written, {rows_are} measured")


def _twin_audit(clients: str, neighbours: str, twins: int) -> TwinAudit:
    """Build the audit that the texts of the options describe. Raises ScenarioError that names each wrong option."""
    words = [word for word in neighbours.replace(" ", "").split(",") if word]
    kinds = dict.fromkeys(kind for word in words for kind in UNITS.get(word, (word,)))
    numbers = [word for word in clients.replace(" ", "").split(",") if word]
    if not numbers or not all(word.isdecimal() for word in numbers):
        raise ScenarioError([Fault("--clients", f"must be a number, or numbers with commas (0,3,7), got {clients!r}")])
    wanted = [int(word) for word in numbers] if "," in clients else int(numbers[0])
    description = {"clients": wanted, "neighbours": list(kinds), "twins": twins}
    try:
        return TwinAudit.model_validate(description)
    except ValidationError as error:
        faults = faults_of(error, TwinAudit, description)
        named = {fault.field.split(".")[0]: fault.message for fault in reversed(faults)}
        raise ScenarioError([Fault(f"--{field}", message) for field, message in named.items()]) from None


# --- canaries ---------------------------------------------------------------------------------------------------------


@app.command("canaries")
def canaries(
    run: RunFolder,
    count: Annotated[
        int | None,
        option("Canaries to plant. Default: 1000 samples, or half of the clients.", min=1, max=10_000_000),
    ] = None,
    unit: Annotated[
        Literal["sample", "client"],
        option("Unit that is included or left out by a fair coin: one sample, or one client's updates."),
    ] = "sample",
    kind: Annotated[
        Literal["mislabelled", "noise"], option("Data of a canary: a wrong label, or noise.")
    ] = "mislabelled",
    delta: Annotated[float | None, option("Delta of the epsilon. Default: that of the claim.", min=0, max=0.5)] = None,
    seed: Seed = None,
    own_code: OwnCode = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bound epsilon from below by counting the planted canaries that an adversary recognises.

    Canaries change what is trained, so the audit simulates a run of its own: the scenario with canaries. The bound
    holds at 95 % confidence and needs no knowledge of the noise (Steinke, Nasr and Jagielski 2023). Writes
    audit/attacks.parquet and the ledger's measured epsilons.

    Example: asyncfl audit canaries results/runs/HASH --count 1000
    """
    from asyncfl.extras.audit.canaries import audit_canaries, canaries_for, enter_bounds, save
    from asyncfl.extras.audit.neighbours.audit_run import save_run

    with _audited(run, seed, own_code, quiet or json) as (finished, seeds, bar):
        usual = 1000 if unit == "sample" else max(1, finished.run.scenario.data.clients // 2)
        planted = canaries_for(finished.run.scenario, count or usual, unit, kind)
        audit = audit_canaries(finished, planted, seeds, delta, [bar])
        folder = save(finished, audit)
        bounded = enter_bounds(finished.run, audit)
        save_run(finished, finished.run)
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    if json:
        print_json({"run": str(run), "canaries": str(folder), "ledger_rows": bounded, "rows": rows})
        return
    print_text(f"{planted.description}: {folder}", f"rows of the ledger with a bound from them: {bounded}")
    print_bounds(rows)
    print_text(*filter(None, [finished.note]))


def print_bounds(rows: list[dict[str, Any]]) -> None:
    """Print the measured epsilons, and sentences that explain them. `rows`: columns `audit.canaries.FOUND`."""
    epsilons = {
        "measured": "measured",
        "could show": "most",
        "if Gaussian": "measured_gaussian",
        "claimed": "claimed_epsilon",
        "exact": "exact_epsilon",
    }
    cells = [
        {"seed": row["seed"], "adversary": row["adversary"]}
        | {heading: _epsilon(row[name]) for heading, name in epsilons.items()}
        | {"right guesses": f"{row['right']} of {row['guesses']}, {row['score']}" if row["guesses"] else "—"}
        for row in rows
    ]
    print_rows(cells, keys=2)
    print_text(*dict.fromkeys(_sentences(rows)))


def _epsilon(value: float | None) -> str:
    if value is None or math.isnan(value):
        return format_number(None)
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def _sentences(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield sentences that explain the columns of the table, and rows without a bound."""
    for delta, neighbours in {row["delta"]: row["neighbours"] for row in rows}.items():
        yield (
            f"Each number is an epsilon at delta {delta:g} (neighbours: {neighbours}). Measured: a lower bound at 95 % "
            "confidence for each row. Could show: the largest bound that so many canaries can give."
        )
    for row in rows:
        who = f"{row['adversary']}, seed {row['seed']}"
        if not row["canaries"]:
            yield f"{who}: all canaries belong to attacking clients, so nothing can be measured"
        elif not row["held"]:
            yield f"{who}: holds no upload or model to recognise canaries by"
        elif row["most"] == 0:
            yield (
                f"{who}: {row['canaries']} canaries can show nothing at delta {row['delta']:g}; change --count, or "
                "choose a smaller --delta"
            )
        claimed = row["claimed_epsilon"]
        if claimed is not None and row["measured"] > claimed:
            yield f"{who}: the claimed epsilon {claimed:.3g} is disproved; it is at least {row['measured']:.3g}"


# --- membership -------------------------------------------------------------------------------------------------------


@app.command("membership")
def membership(
    run: RunFolder,
    adversary: Adversary = "eavesdropper",
    worlds: Annotated[int, option("Shadow worlds to train for each attacked upload.", min=8, max=100_000)] = 64,
    seed: Seed = None,
    own_code: OwnCode = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infer which samples were trained on, by loss and by likelihood ratio.

    Writes rates of true positives, and a figure of the ROC curve for each seed, below audit/membership. It bounds no
    epsilon.

    Example: asyncfl audit membership results/runs/HASH --adversary server
    """
    from asyncfl.extras.audit.membership import audit_membership, save

    with _audited(run, seed, own_code, quiet or json) as (finished, seeds, bar):
        audit = audit_membership(finished, seeds, adversary, shadow_worlds=worlds, instruments=[bar])
        files = [str(file) for file in save(finished, audit)]
    rows: list[dict[str, Any]] = audit.found.to_pylist()
    if json:
        print_json({"run": str(run), "rows": rows, "files": files})
        return
    for file in files:
        console.print(file)
    print_rates(rows)
    print_text(*filter(None, [finished.note]))


def print_rates(rows: list[dict[str, Any]]) -> None:
    """Print true positive rates and their meaning. `rows`: columns `audit.membership.FOUND`."""
    cells = [
        {
            **{name: row[name] for name in ("seed", "adversary", "attack")},
            "found, %": f"{100 * row['true_positive_rate']:.2f}",
            "95 % interval, %": f"{100 * row['rate_low']:.2f} to {100 * row['rate_high']:.2f}",
            "members": row["members"],
            "non-members": row["others"],
            "area": f"{row['area']:.3f}",
            "its interval": f"{row['area_low']:.3f} to {row['area_high']:.3f}",
        }
        for row in rows
    ]
    print_rows(cells, keys=3)
    print_text(
        "Found: share of the members that the attack finds when it takes at most 1 % of the non-members for members; "
        "guessing finds 1 %. Area: area under the ROC curve; guessing has 0.5. The intervals are for samples drawn "
        "independently, at 95 %; below 437 non-members no share above 0 can be shown."
    )


# --- reconstruction ---------------------------------------------------------------------------------------------------


@app.command("reconstruct")
def reconstruct(
    run: RunFolder,
    adversary: Adversary = "eavesdropper",
    client: Annotated[int | None, integer("Client of the upload. Default: the first that was overheard.")] = None,
    task: Annotated[int | None, integer("Task of the upload. Default: the client's first.")] = None,
    method: Annotated[
        Literal["first_layer", "cosine", "l2", "labels"] | None,
        option(
            "Attack: division at a dense first layer, descent on the cosine or L2 distance of gradients, or labels "
            "alone. Default: first_layer where the network allows it, else cosine."
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        option(
            "Attack the upload under noise of this epsilon too; inf: without noise. May be repeated. Default: inf, "
            "10000, 1000, 100 and 10. The upload as it was sent is always attacked."
        ),
    ] = None,
    images: Annotated[int, option("Largest number of images to reconstruct.", min=1, max=1000)] = 16,
    steps: Annotated[int, option("Gradient steps of a descent.", min=1, max=1_000_000)] = 1000,
    most_parameters: Annotated[int, option("Refuse descent on larger networks.", min=1, max=10**9)] = 2_000_000,
    out: Annotated[Path | None, option("Folder for the images and their table. Default: RUN/reconstruction.")] = None,
    seed: Annotated[int | None, integer("Seed of the upload. Default: the run's first.")] = None,
    own_code: OwnCode = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reconstruct images and labels from one overheard upload.

    Writes a sheet of the true images and their reconstructions, one row for each level of noise, and a table of PSNR
    and SSIM.

    Example: asyncfl audit reconstruct results/runs/HASH --client 3 --epsilon inf --epsilon 100
    """
    from asyncfl.extras.audit.reconstruction.image_reconstruction import LEVELS, ReconstructionSettings, write_images
    from asyncfl.extras.audit.reconstruction.image_reconstruction import reconstruct as reconstruct_upload
    from asyncfl.extras.audit.reconstruction.upload import choose_task, find_upload

    finished = _finished(run, own_code)
    chosen = finished.seeds(seed)[0]
    levels = tuple(dict.fromkeys(epsilon)) if epsilon else LEVELS
    if low := [level for level in epsilon or () if not level > 0]:
        raise ScenarioError([Fault("--epsilon", f"must be above 0, or inf for no noise, got {low[0]:g}")])
    attack = ReconstructionSettings(method, images, steps, most_parameters)
    attack.check(finished.run.scenario)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": (chosen,)}), quiet or json) as bar:
        held = find_upload(finished, chosen, choose_task(finished, chosen, adversary, client, task), [bar])
        with finished.compute_settings(chosen):
            pictures = reconstruct_upload(held, attack, [*levels, None], bar)
    provenance = finished.run.summary["data"]["provenance"]
    written = write_images(pictures, provenance, out or finished.folder / "reconstruction")
    (_print_json if json else _print_quality)(finished.folder, chosen, pictures, written)


def _print_quality(run: Path, seed: int, pictures: ReconstructedImages, written: Sequence[Path]) -> None:
    """Print the quality of the images for each level of noise, and the written files."""
    from asyncfl.extras.audit.reconstruction.image_reconstruction import GRANTED, METHODS, level_name
    from asyncfl.results.contact_sheet import decibels

    steps = "1 local step" if pictures.steps == 1 else f"{pictures.steps} local steps, attacked as one"
    print_text(
        f"{run}, seed {seed}: task {pictures.task} of client {pictures.client}, {pictures.samples} images, {steps}; "
        f"{METHODS[pictures.method]}",
        GRANTED,
    )
    has_images = pictures.method != "labels"
    rows: list[list[Any]] = []
    for level in [*pictures.levels, pictures.guess]:
        name = "guess without upload" if level is pictures.guess else level_name(level.epsilon)
        quality = [decibels(level.mean_psnr_db), f"{level.ssim.mean():.3f}", f"{level.ssim.max():.3f}"]
        std = "—" if math.isnan(level.noise_std) else f"{level.noise_std:.3g}"
        rows.append([name, std, *(quality if has_images else []), f"{100 * level.labels_right:.0f} %"])
    quality_names = ["PSNR", "SSIM", "best SSIM"] if has_images else []
    print_table(["noise", "noise std", *quality_names, "labels right"], rows)
    for path in written:
        console.print(f"{path} written")


def _print_json(run: Path, seed: int, pictures: ReconstructedImages, written: Sequence[Path]) -> None:
    guess, rows = pictures.guess, pictures.table.to_dict("records")
    levels = [
        {**row, "epsilon": one.epsilon, "no_noise": one.epsilon == math.inf, "as_sent": one.epsilon is None}
        for row, one in zip(rows, pictures.levels, strict=True)
    ]
    guessed = {"psnr_db": guess.mean_psnr_db, "ssim": float(guess.ssim.mean()), "labels_right": guess.labels_right}
    held = {name: getattr(pictures, name) for name in ("client", "task", "samples", "method")}
    of_run = {"run": str(run), "seed": seed, "local_steps": pictures.steps}
    print_json(of_run | held | {"levels": levels, "guess": guessed, "files": list(map(str, written))})
