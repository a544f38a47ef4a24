"""Pages made from the classes: every field and component has its place, and links lead somewhere."""

import posixpath
import re
from pathlib import Path

import pytest

from asyncfl.manual.logged import logged_by
from asyncfl.manual.markdown import escaped, paragraphs
from asyncfl.manual.measured import ClaimSaid, Experimented
from asyncfl.manual.pages import anchor_of, component_pages, experiment_pages, page_of, reference_pages
from asyncfl.manual.parts import all_parts, components
from asyncfl.manual.record import experimented

ROOT = Path(__file__).parents[2]
KRUM = next(part for part in components() if part.kind == "krum")
ONE = Experimented(
    "safl/fig4", "Accuracy", "SAFL", (ClaimSaid("Krum falls", "holds"), ClaimSaid("FedAvg too", "fails")),
    frozenset({KRUM.model}),
)  # fmt: skip


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages() | component_pages([ONE]) | experiment_pages([ONE])


def test_every_field_has_an_anchor_on_one_page(pages: dict[str, str]) -> None:
    anchors = [anchor for text in pages.values() for anchor in re.findall(r"^### .* \{ #(\S+) \}$", text, flags=re.M)]
    tabled = [f"{name}.md" for name in re.findall(r"\]\((\w+)\.md\)", pages["reference/scenario.md"])]
    asked = [field for part in all_parts() for field in part.fields]
    without = [
        field.path for field in asked if anchor_of(field.path) not in anchors and f"{field.path}.md" not in tabled
    ]
    assert without == []
    assert len(anchors) == len(set(anchors))


def test_every_component_has_a_page_in_one_order(pages: dict[str, str]) -> None:
    order = ["Use", "What is logged", "Formula and source", "What was measured here", "The command"]
    headings = {part.path: re.findall(r"^## (.*)$", pages[page_of(part)], flags=re.M) for part in components()}
    assert {path: found for path, found in headings.items() if found != order} == {}
    assert len({page_of(part) for part in components()}) == len(components())


def test_every_component_names_the_columns_it_logs() -> None:
    assert [part.path for part in components() if not logged_by(part.model)] == []


def test_every_algorithm_has_a_source() -> None:
    definitions = ("data.dataset", "world.", "model.linear", "compression.none", "privacy.none")
    asked = [part for part in components() if not part.path.startswith(definitions)]
    assert len(asked) > 60
    assert [part.path for part in asked if not part.source] == []


def test_links_lead_to_pages_and_anchors_that_are_there(pages: dict[str, str]) -> None:
    written = {f"{path.stem}.md" for path in (ROOT / "docs").glob("*.md")}
    broken = []
    for page, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
            known = target in pages or target in written
            if not known or (anchor and f"{{ #{anchor} }}" not in pages.get(target, "")):
                broken.append((page, link))
    assert broken == []


def test_a_page_tells_the_claims_about_its_component(pages: dict[str, str]) -> None:
    text = pages[page_of(KRUM)]
    assert "[`safl/fig4`](../../experiments/safl.md#safl-fig4)" in text
    assert "| Krum falls | holds |" in text
    assert "FedAvg too" not in text
    assert "Accuracy. 2 claims: 2 were not run." in text


def test_verdicts_stand_beside_claims_where_results_are(tmp_path: Path) -> None:
    (tmp_path / "fig9.yaml").write_text(
        "title: T\nsource: {paper: nbafl}\n"
        "scenario: {protocol: {kind: sync, rounds: 2}, data: {clients: 4, source: embedded}}\n"
        "axes: {protocol.rounds: [2, 3]}\n"
        "claims: [{check: order, value: final train_loss, along: protocol.rounds, says: it falls}]\n"
    )
    known = {("fig9", "it falls"): {"verdict": "holds", "reason": "by [0.4, 0.6]", "seeds": 2, "scale": "quick"}}
    (one,) = experimented(tmp_path, known)
    assert one.command == "snakemake --cores 8 fig9"
    assert one.claims == (ClaimSaid("it falls", "holds", "", "holds", "by [0.4, 0.6] (quick scale, 2 seeds)"),)
    page = experiment_pages([one])["experiments/fig9.md"]
    assert r"| it falls | holds | by \[0.4, 0.6\] (quick scale, 2 seeds) |" in page
    assert "are no evidence" in page
    (none,) = experimented(tmp_path, {})
    assert none.tally == "1 claim: 1 was not run"
    assert "No verdicts are kept" in experiment_pages([none])["experiments/fig9.md"]


def test_a_docstring_becomes_markdown_that_shows_the_same() -> None:
    assert escaped("a_i < `b_i` * [c]") == r"a\_i &lt; `b_i` \* \[c\]"
    assert paragraphs("One\nline.\n\n    w <- w + u\n\n- first\n- second") == [
        "One line.", "```text\nw <- w + u\n```", "- first\n- second",
    ]  # fmt: skip
