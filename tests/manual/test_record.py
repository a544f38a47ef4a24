"""The verdicts that the package keeps are of the experiments as they are."""

import json
from pathlib import Path

import pandas as pd
import pytest

from asyncfl.analysis.tables import write_csv
from asyncfl.experiment.files import find
from asyncfl.experiment.loading import load
from asyncfl.manual import record
from asyncfl.manual.lookup import find as find_entry
from asyncfl.manual.measured import remembered, using
from asyncfl.manual.parts import components
from asyncfl.manual.text import explained, facts
from asyncfl.manual.verdicts import DECIDED, NOT_RUN, SAID, Kept, kept, tally

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "workflow" / "experiments"
STALE = "measured.json is of other experiments: `python -m asyncfl.manual.record workflow/experiments` writes it anew"


def test_experiments_and_claims_of_the_file_are_those_of_the_workflow() -> None:
    there = {name: record.outline(name, load(path, name, check=False)) for name, path in find(EXPERIMENTS).items()}
    assert sorted(kept().experiments) == sorted(there), STALE
    for name, one in kept().experiments.items():
        asked = {key: one[key] for key in ("title", "source", "made_of")}
        assert {**asked, "claims": [{key: c[key] for key in ("says", "expected")} for c in one["claims"]]} == there[
            name
        ], f"{name}: {STALE}"
        assert all(claim["verdict"] in SAID for claim in one["claims"])
    paths = {part.path for part in components()}
    assert {path for one in kept().experiments.values() for path in one["components"]} <= paths, STALE


def test_components_of_an_experiment_are_those_of_its_scenarios() -> None:
    """Of one whose grid changes them; for others `made_of` tells that nothing that they follow from has changed."""
    name = "clock/flooding"
    text = record.made({name: load(find(EXPERIMENTS)[name], name, check=False)}, kept().claims, kept().date)
    assert json.loads(text)["experiments"][name] == kept().experiments[name]


def test_verdicts_come_from_a_folder_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fig9.yaml").write_text(
        "title: T\nsource: {paper: nbafl}\n"
        "scenario: {protocol: {kind: sync, rounds: 2}, data: {clients: 4, source: embedded}}\n"
        "axes: {defence.rule.kind: [mean, median]}\n"
        "claims: [{check: order, value: final train_loss, along: defence.rule.kind, says: it falls},\n"
        "  {check: order, value: final test_loss, along: defence.rule.kind, says: new}]\n"
    )
    row = {"experiment": "fig9", "claim": "it falls", "verdict": "holds", "reason": "by [0.4, 0.6]", "seeds": 2}
    gone = {**row, "claim": "it was there once"}
    write_csv(pd.DataFrame([{**row, "scale": "quick"}, {**gone, "scale": "quick"}]), tmp_path / "claims.csv")
    monkeypatch.setattr(record, "KEPT", tmp_path / "measured.json")
    record.main(str(tmp_path), str(tmp_path))
    told = json.loads((tmp_path / "measured.json").read_text())
    assert len(told["date"]) == 10
    assert told["experiments"]["fig9"]["claims"] == [
        {"says": "it falls", "expected": "holds", "verdict": "holds", "reason": "by [0.4, 0.6]", "seeds": 2}
        | {"scale": "quick"},
        {"says": "new", "expected": "holds", "verdict": NOT_RUN},
    ]
    assert {"defence.rule.mean", "defence.rule.median", "protocol.sync"} <= set(
        told["experiments"]["fig9"]["components"]
    )
    # Later the same experiment keeps its verdicts, and another of that name has none.
    monkeypatch.setattr(record, "kept", lambda: Kept(told["date"], told["experiments"]))
    record.main(str(tmp_path))
    assert json.loads((tmp_path / "measured.json").read_text()) == told
    # So do claims that later results have not run.
    left_out = {**row, "verdict": NOT_RUN, "scale": "quick"}
    write_csv(pd.DataFrame([left_out]), tmp_path / "claims.csv")
    record.main(str(tmp_path), str(tmp_path))
    assert json.loads((tmp_path / "measured.json").read_text())["experiments"] == told["experiments"]
    changed = (tmp_path / "fig9.yaml").read_text().replace("rounds: 2", "rounds: 3")
    (tmp_path / "fig9.yaml").write_text(changed)
    record.main(str(tmp_path))
    claims = json.loads((tmp_path / "measured.json").read_text())["experiments"]["fig9"]["claims"]
    assert [claim["verdict"] for claim in claims] == [NOT_RUN, NOT_RUN]


def test_explain_shows_the_verdicts_of_a_components_experiments() -> None:
    (krum,) = find_entry("krum")
    text = explained(krum, 80)
    assert "Measured (" in text
    found, uses = using(krum, remembered())
    assert len(found) == uses > 1
    for one in found:
        assert f"  {one.name}  {one.tally}"[:60] in text
    decided = [claim for one in found for claim in one.claims_about(krum) if claim.verdict in DECIDED]
    assert text.count("\n      holds: ") + text.count("\n      does not hold: ") == len(decided)
    assert [row["experiment"] for row in facts(krum)["measured"]]
    # What nearly every scenario has is told of where a claim names it.
    (iid,) = find_entry("iid")
    few, all_of_them = using(iid, remembered())
    assert len(few) < all_of_them
    assert "here are those with claims that name it" in explained(iid, 80)


def test_a_tally_counts_each_verdict() -> None:
    assert tally(["holds", "holds", "not decided", NOT_RUN]) == "4 claims: 2 hold, 1 is not decided, 1 was not run"
    assert tally(["does not hold"]) == "1 claim: 1 does not hold"
    assert tally([]) == "0 claims"
