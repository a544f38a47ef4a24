"""Folder of a Flower app with a scenario, for `flwr run`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
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
scenario = \"\"\"
{scenario}\"\"\"
"""

_SERVER = '''\
"""Server of the federation, whose scenario stands in pyproject.toml. It writes the run."""

from flwr.serverapp import ServerApp

from asyncfl.cli.live import serve_grid

app = ServerApp()
app.main()(lambda grid, context: serve_grid(grid, context.run_config))
'''

_CLIENT = '''\
"""Client of the federation, which trains on its part of the scenario's data."""

from asyncfl.extras.live.flower.client_app import client_app

app = client_app()
'''


def write_app(
    folder: Path, scenario: Scenario, results: Path, timeout_s: float, modules: Iterable[Path] = (), *, force: bool
) -> None:
    """Write the app of `scenario` to `folder`, which must be new, empty or an app written before.

    `results`: folder for its runs. `modules`: files of the user's own components. `force`: replace the app of another
    scenario. Raises OutputError, and then leaves the folder unchanged.
    """
    own = OwnFolder(folder, HOLDS, scenario.digest())
    own.check(force)
    project = _PROJECT.format(
        clients=scenario.data.clients,
        rounds=scenario.protocol.rounds,
        results=json.dumps(str(results), ensure_ascii=False),
        timeout_s=float(timeout_s),
        # JSON strings are valid in TOML.
        scenario="\n".join(json.dumps(line, ensure_ascii=False)[1:-1] for line in scenario.to_yaml().split("\n")),
    )

    def write(into: Path) -> None:
        for name, text in {"pyproject.toml": project, "server_app.py": _SERVER, "client_app.py": _CLIENT}.items():
            (into / name).write_text(text, encoding="utf-8")
        for module in modules:
            shutil.copy(module, into / module.name)

    with own.working(force) as area:
        own.replace(area, write, "pyproject.toml")
