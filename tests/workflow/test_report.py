"""The report of Snakemake opens on a page that says what it is."""

from pathlib import Path

import yaml
from docutils.core import publish_parts

ROOT = Path(__file__).parents[2]


def test_the_report_opens_on_its_description_not_on_the_graph_of_all_rules() -> None:
    profile = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    entries = yaml.safe_load((ROOT / profile["report-metadata"]).read_text(encoding="utf-8"))
    # Without an entry it opens on the graph; texts as values are shown with the parts that docutils makes of them.
    assert entries
    assert all(isinstance(name, str) and value == [] for name, value in entries.items())
    assert 'report: "workflow/report/workflow.rst"' in (ROOT / "Snakefile").read_text(encoding="utf-8")
    said = publish_parts((ROOT / "workflow/report/workflow.rst").read_text(encoding="utf-8"), writer="html")["body"]
    assert "index.html" in said
    assert "system-message" not in said
