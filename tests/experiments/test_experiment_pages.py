"""The documentation's pages of experiments: whose each claim is, and how many there are of each author."""

from docs.pages import experiment_pages
from tests.experiments.results_folder import marked_up


def test_pages_say_where_each_claim_is_printed_and_count_authors_apart() -> None:
    others = marked_up(name="outside/two", source={"paper": "outside", "figure": "Opacus"})
    pages = experiment_pages({"nbafl/one": marked_up(), "outside/two": others})
    rows = [line.split(" | ") for line in pages["experiments/nbafl.md"].splitlines() if line.startswith("| the loss")]
    assert [row[1] for row in rows] == ["NbAFL, fig. 2"] * 2
    assert "| accurate everywhere | ours |" in pages["experiments/nbafl.md"]
    index = pages["experiments/index.md"]
    assert "| NbAFL | 3 | 3 |" in index
    assert "3 sentences of papers, with 3 checks, stand 4 numbers of others and 1 statements of ours" in index
    assert any(line.endswith(" | 3 |  | 1 |") for line in index.splitlines())
    assert any(line.endswith(" |  | 4 |  |") for line in index.splitlines())
