"""Length of the way through the code: of an uploaded update, of a scenario, and of each feature.

    python benchmarks/paths.py [--scenario examples/my_scenario.yaml] [--list]

The way of an upload begins when the last upload of the first buffer begins, and ends when version 1 is published. A
move is a call from one file of `asyncfl/` into another. A return of a scenario is a call into a package that is on the
stack already, below another package; each pair of packages counts once. The spread of a feature is the number of
packages of `asyncfl/` in which a name has its word; texts and comments do not count.
"""

from __future__ import annotations

import argparse
import re
import sys
import tokenize
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "asyncfl"
FEATURES = {
    "compression": r"(?<!De)compression|compressor",
    "personal layers": r"^_?personal|personal_layers",
    "budgets": r"budget",
    "canaries": r"canar(y|ies)",
}


class Walk:
    """Profile function that follows the calls between the files of the package."""

    def __init__(self) -> None:
        self.upload: list[tuple[str, str, str]] = []
        """Calls since the latest upload began: calling file, called file, called function."""
        self.returns: set[tuple[str, str]] = set()
        """Pairs of calling package and called package, which is on the stack already."""
        self._published = False
        self._files: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record a call; `sys.setprofile` calls this."""
        if event != "call" or (here := self._file(frame)) is None:
            return
        name = frame.f_code.co_name
        if name == "record_task" and frame.f_locals["kind"].value == "upload_started" and not self._published:
            self.upload = []
        self._published |= name == "_published" and getattr(frame.f_locals.get("action"), "version", 0) == 1
        callers, below = [], frame.f_back
        while below is not None:
            if (file := self._file(below)) is not None:
                callers.append(file)
            below = below.f_back
        if not callers:
            return
        if not self._published:
            self.upload.append((callers[0], here, name))
        package, caller = _package(here), _package(callers[0])
        if package not in (caller, "base") and package in map(_package, callers):
            self.returns.add((caller, package))

    def _file(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in self._files:
            self._files[path] = path[len(str(PACKAGE)) + 1 :] if path.startswith(f"{PACKAGE}/") else None
        return self._files[path]


def _package(file: str) -> str:
    return file.split("/")[0]


def spread(words: str) -> list[str]:
    """Return the packages, and modules beside them, in which `words` occur in names."""
    return sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if _names(path, words)})


def _names(path: Path, words: str) -> bool:
    with path.open("rb") as file:
        tokens = [one.string for one in tokenize.tokenize(file.readline) if one.type == tokenize.NAME]
    return any(re.search(words, name, re.IGNORECASE) for name in tokens)


def main() -> None:
    """Run the scenario twice, the second time watched, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="examples/my_scenario.yaml")
    parser.add_argument("--list", action="store_true", help="print each move of the upload")
    chosen = parser.parse_args()
    sys.path.insert(0, str(Path(chosen.scenario).parent))
    import yaml

    from asyncfl import Scenario, simulate

    scenario = Scenario.model_validate(yaml.safe_load(Path(chosen.scenario).read_text(encoding="utf-8")))
    simulate(scenario)
    walk = Walk()
    sys.setprofile(walk)
    simulate(scenario)
    sys.setprofile(None)
    moves = [one for one in walk.upload if one[0] != one[1]]
    files = {name for one in walk.upload for name in one[:2]}
    functions = {one[1:] for one in walk.upload}
    print(f"an upload: {len(functions)} functions in {len(files)} files, {len(moves)} moves")
    print(f"a scenario through simulate: {len(walk.returns)} returns: {sorted(walk.returns)}")
    for name, words in FEATURES.items():
        found = spread(words)
        print(f"{name}: {len(found)} packages: {', '.join(found)}")
    if chosen.list:
        for one in moves:
            print(*one)


if __name__ == "__main__":
    main()
