"""The folder of a Flower app that holds a scenario: what `flwr run` takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from asyncfl.base.files.own_folder import OwnFolder
from asyncfl.scenario import Scenario

HOLDS = "Flower app"

_PROJECT = """\
# Written by asyncfl live flower. flwr run takes this folder.
[project]
name = "asyncfl-federation"
version = "1.0.0"
description = "A federation of asyncfl: {clients} clients, {rounds} versions"
license = "Apache-2.0"
# asyncfl[flower] must be installed where the SuperLink and the SuperNodes run.
dependencies = []

[tool.flwr.app]
publisher = "asyncfl"

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"

[tool.flwr.app.config]
# The run is written to a folder of this one, on the machine of the SuperLink.
results = {results}
# Seconds after which a message that is not answered counts as a lost upload.
timeout-s = {timeout_s}
scenario = {scenario}
"""

_SERVER = '''\
"""The server of the federation: the scenario in pyproject.toml, asked for over Flower's grid."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from asyncfl.cli.live_flower import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Hold the federation, and write what came of it."""
    serve(grid, context.run_config)
'''

_CLIENT = '''\
"""A client of the federation: it trains on its part of the scenario's data."""

from asyncfl.live.flower.client_app import client_app

app = client_app()
'''


def write_app(
    folder: Path, scenario: Scenario, results: Path, timeout_s: float, modules: Iterable[Path] = (), *, force: bool
) -> None:
    """Write the app of `scenario` to `folder`, new, empty, or an app that was written before.

    `results`: where its runs are to be written. `modules`: files of the scenario's own components. force: the app of
    another scenario is replaced. Raises OutputError; what was there is then as it was.
    """
    files = texts(scenario, results, timeout_s)

    def write(into: Path) -> None:
        for name, text in files.items():
            (into / name).write_text(text, encoding="utf-8")
        for module in modules:
            shutil.copy(module, into / module.name)

    own = OwnFolder(folder, HOLDS, scenario.digest())
    own.check(force)
    with own.working(force) as area:
        own.replace(area, write, "pyproject.toml")


def texts(scenario: Scenario, results: Path, timeout_s: float) -> Mapping[str, str]:
    """Name -> contents of the app's files."""
    project = _PROJECT.format(
        clients=scenario.data.clients,
        rounds=scenario.protocol.rounds,
        results=_quoted(str(results)),
        timeout_s=float(timeout_s),
        scenario=_quoted_lines(scenario.to_yaml()),
    )
    return {"pyproject.toml": project, "server_app.py": _SERVER, "client_app.py": _CLIENT}


def _quoted(text: str) -> str:
    """A string of TOML: those of JSON are such."""
    return json.dumps(text, ensure_ascii=False)


def _quoted_lines(text: str) -> str:
    """A string of TOML over several lines."""
    lines = [json.dumps(line, ensure_ascii=False)[1:-1] for line in text.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""'
