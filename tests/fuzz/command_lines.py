"""Command lines with words changed, left out, put in twice or taken from another command, called in this process."""

import contextlib
import io
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from asyncfl.api import simulate
from asyncfl.base.errors import ScenarioError
from asyncfl.cli import main
from asyncfl.scenario import Scenario
from tests.fuzz.judging import NonsenseError

SOUND = [
    "privacy nbafl --clients 50 --participants 20 --rounds 25 --exposures 2 --epsilon 50 --delta 0.01 --constant 1.25"
    " --clip-norm 20 --samples 100 --sensitivity 2C --composition rdp --b-rule none --parameters 100",
    "privacy epsilon --noise-multiplier 1.1 --releases 100 --delta 1e-5 --sampling-rate 0.5 --neighbours replace",
    "privacy noise --epsilon 2 --releases 10 --delta 1e-5 --sensitivity 3 --neighbours add_remove --laplace",
    "privacy compose gaussian:1.1x10 gaussian:2@0.01x9 laplace:5x3 pure:0.5 --delta 1e-5 --json",
    "privacy exposure --epsilon 60 --delta 0.01 --noise-multiplier 3 --constant 1.25 --exposures 3",
    "bounds --rounds 25 --participants 20 --epsilon 50 --clients 50 --lambda1 corrected --curve --largest-rounds 99",
    "bounds --initial-gap 2 --polyak-lojasiewicz 0.5 --lipschitz 1 --smoothness 0.5 --proximal-mu 1 --json",
    "trace events {run} --client 1 --kind uploaded --task 3 --version 1 --seed 0 --since 0 --until 9 --limit 5",
    "trace events {run} --count --json",
    "trace follow {run} 3 --seed 0",
    "trace table {run} --by client --since 0.5",
    "trace diff {run} {other} --seed 0",
    "trace save {run} {folder}/t.json.gz --seed 0",
    "timeline {folder}/scenario.yaml --set protocol.rounds=2 --out {folder}/clock --json",
    "replay {run} --seed 0 --json",
    "replay {run} --train",
    "data list --json",
    "schema",
    "explain defence.rule.krum.byzantine --json",
    "init {folder}/new.yaml --kind dp",
    "run {folder}/scenario.yaml --set protocol.rounds=1 --out {folder}/out --quiet --threads 1",
]
"""Lines that are answered; they hold every option of every command but those that download."""

NASTY = [
    *("", "0", "-1", "1", "2", "1e-5", "1e5", "1e300", "1e-300", "1e309", "nan", "inf", "-inf", "0.5", "3.5"),
    *("1e1", "x"),
    *("9" * 30, "9" * 400, "9" * 5000, "9223372036854775807", "9223372036854775808", "-9223372036854775809", "0x10"),
    *("1_000", "é", "[/b]", "[bold]", ":smile:", "%s", "{0}", "\udc80", "x" * 5000, "--", "-", "--json", "--help"),
    *("{run}", "{folder}", "{folder}/scenario.yaml", "{folder}/nothing", "{folder}/scenario.yaml/below", "{damaged}"),
    *("a=b", "seeds=0", "privacy={", "protocol.kind=sync", "=", "data.source=real", "protocol.rounds=1e1", "=3"),
    *("gaussian:1e-5@1e-5", "gaussian:1e-9@0.5x1000000000", "gaussian:1@0.5x1000000000", "laplace:1e-9x1000000000"),
    *("pure:1e9x1000000000", "laplace:1x999999 pure:3", "gaussian:1e9@1e-300", "gaussian:", ":x", "pure:nanx1"),
]


def changed(rng: random.Random) -> tuple[list[str], str]:
    """Words of a line with one to three changes, and the changes in words."""
    words = rng.choice(SOUND).split(" ")
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(1, len(words)) if len(words) > 1 else 0
        match rng.choice(["replace", "replace", "replace", "replace", "drop", "twice", "graft"]):
            case "replace":
                words[at] = rng.choice(NASTY)
            case "drop" if len(words) > 1:
                del words[at]
            case "twice":
                words.insert(at, words[at])
            case _:
                words.insert(at, rng.choice(rng.choice(SOUND).split(" ")))
        done.append(f"word {at}")
    return words, ", ".join(done)


def prepare(folder: Path) -> None:
    """A scenario, two recorded runs, and one that is damaged."""
    text = (
        "{data: {clients: 3, samples_per_client: 10, source: embedded, test_samples: 10},"
        " model: {kind: mlp, hidden: [2]}, protocol: {kind: sync, rounds: 2}, evaluation: {record: digests}}"
    )
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    scenario = Scenario.load(folder / "scenario.yaml")
    for name, changes in (("run", {}), ("other", {"protocol.rounds": 1}), ("damaged", {})):
        simulate(scenario.override(changes)).save(folder / name)
    table = folder / "damaged" / "events.parquet"
    table.write_bytes(table.read_bytes()[:-100])


def calling(words: list[str], folder: Path) -> Callable[[], None]:
    """The program with these words: it may answer, with status 0 (or 1 where runs differ), or refuse with 2."""
    places = {"{folder}": folder, "{run}": folder / "run", "{other}": folder / "other", "{damaged}": folder / "damaged"}
    for mark, place in places.items():
        words = [word.replace(mark, str(place)) for word in words]

    def call() -> None:
        out, err = io.StringIO(), io.StringIO()
        status: object = 0
        before = os.getcwd()
        os.chdir(folder)
        try:
            with (
                mock.patch.object(sys, "argv", ["asyncfl", *words]),
                mock.patch.dict(os.environ, {"ASYNCFL_DATA_DIR": "", "XDG_CACHE_HOME": str(folder / "cache")}),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                main()
        except SystemExit as ended:
            status = 0 if ended.code is None else ended.code
        finally:
            os.chdir(before)
        if "Traceback" in err.getvalue() or status not in (0, 1, 2):
            raise NonsenseError(f"status {status}: {err.getvalue()[-300:]}")
        if status == 0 and not out.getvalue().strip():
            raise NonsenseError("status 0 without a word")
        if status == 1 and words[0] not in ("trace", "replay"):
            raise NonsenseError(f"status 1: {err.getvalue()[-300:]}")
        if status == 2:
            raise ScenarioError(err.getvalue())

    return call
