"""Numbers of results in README and the findings: generated between two comments, or quoted beside a link to a claim.

`<!-- score -->` ... `<!-- end -->` holds a block that `blocks` writes; so does `<!-- claims: nbafl-fig2-0 ... -->`, a
table of these claims by their anchors, and `<!-- table: prediction.md median error -->`, the table of another page
whose head begins so. Elsewhere a paragraph, an item of a list or a row of a table that states a
number of a result links the claim or table that it is from, `[holds](results/claims.md#nbafl-fig2-0)`: the
number must be there, rounded or not, and a verdict that the link's text names must be the verdict.
The paper may link a page that states how it measured, such as `docs/performance.md`, in place of a result.
`python docs/quotes.py` writes the blocks anew and lists what is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from asyncfl.experiments.csv_files import read_csv  # noqa: E402
from asyncfl.experiments.files import find  # noqa: E402
from asyncfl.experiments.loading import load  # noqa: E402
from asyncfl.experiments.scores import ALIKE, Score, score_of, sentences_of  # noqa: E402
from asyncfl.experiments.site.contents import anchors_of, file_of_paper, name_of_paper  # noqa: E402

RESULTS = ROOT / "docs" / "results"
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "findings.md",
    *sorted((ROOT / "docs" / "findings").glob("*.md")),
    PAPER := ROOT / "docs" / "paper" / "paper.md",
)
MEASURED = ("prediction.md", "performance.md", "detectors.md", "live.md")
"""Pages with measured numbers of their own, each with its command and date; the paper may quote them."""
VERDICTS = {
    "does not hold": "does not hold",
    "undecided": "not decided",
    "depends": "depends",
    "not run": "not run",
    "alike": "alike",
    "holds": "holds",
}
"""Words of a link's text -> the verdict that they stand for; the first that is found counts."""
BLOCK = re.compile(
    r"(<!-- (score|score in words|published|(?:claims|table): [^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL
)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
NUMBER = re.compile(r"(?<![\w.,-])[-+−]?(\d[\d,]*\.\d+|\.\d+|\d[\d,]*)(?:e[-+]?\d+)?(?![\w.,]*\d)")
UNITS = ("%", "points", "times", "s", "MB", "core-hours")
"""Words behind an integer that make it a number of a result; those with a decimal point always are."""


def blocks(name: str, page: Path, results: Path = RESULTS) -> str:
    """Return the Markdown text of a block: `score`, `score in words`, `published`, `claims: ANCHOR ...`, or
    `table: PAGE HEAD`."""
    if name.startswith("table: "):
        return table_of(page, *name.removeprefix("table: ").split(" ", 1))
    claims = anchored(results)
    if name == "score":
        return score(claims)
    if name == "score in words":
        return in_a_sentence(claims)
    if name == "published":
        return published(results)
    wanted = name.removeprefix("claims: ").split()
    missing = [anchor for anchor in wanted if anchor not in claims.index]
    if missing:
        raise SystemExit(f"{page}: no published claim has the anchor {', '.join(missing)}")
    up = "../" * len(page.parent.relative_to(results.parent).parts)
    lines = ["| claim | printed | verdict | measured |", "|---|---|---|---|"]
    for anchor in wanted:
        row = claims.loc[anchor]
        verdict = f"[{in_words(row)}]({up}results/claims.md#{anchor})"
        printed = row["source"] if row["of"] == "paper" else "ours" if row["of"] == "ours" else "others"
        measured = str(row["measured"]) if len(str(row["measured"])) <= 160 else str(row["reason"])
        lines.append(f"| {_cell(row['claim'])} | {_cell(printed)} | {verdict} | {_cell(measured)} |")
    return "\n".join(lines)


def table_of(page: Path, of: str, head: str) -> str:
    """Return the table of a page below docs/ whose head begins with these words, without links. Raises SystemExit.

    page: where it is written.
    """
    lines = (ROOT / "docs" / of).read_text(encoding="utf-8").splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith(f"| {head}")), None)
    if start is None:
        raise SystemExit(f"{page}: docs/{of} has no table whose head begins with {head!r}")
    end = next(place for place, line in enumerate([*lines[start:], ""]) if not line.startswith("|"))
    return LINK.sub(r"\1", "\n".join(lines[start : start + end]))


def in_words(row: Any) -> str:
    """Return a verdict, with the way that an undecided one leans."""
    if row["verdict"] == "depends":
        return f"depends on {row['depends_on']}"
    if row["verdict"] != "not decided":
        return str(row["verdict"])
    leans = {"holds": ", leans to yes", "does not hold": ", leans to no"}
    return f"undecided{leans.get(str(row['leaning']), '')}"


HEAD = ["holds", "does not hold", "in part", "no difference", "undecided", "not run"]


def score(claims: pd.DataFrame) -> str:
    """Return a table for the sentences of each paper, one for the numbers of others and one for our own claims."""
    sentences = sentences_of(claims)
    parts = []
    lines = [f"| sentences of papers | {' | '.join(HEAD)} | checks |", f"|---|{'---|' * len(HEAD)}---|"]
    for otherwise, ending in ((False, ""), (True, ", otherwise than printed")):
        chosen = sentences[sentences["otherwise"].astype(bool) == otherwise]
        for paper, rows in chosen.groupby("paper", sort=False):
            lines.append(
                f"| {name_of_paper(str(paper))}{ending} | {_counts(score_of(rows))} | {rows['checks'].sum()} |"
            )
        if not otherwise:
            lines.append(f"| all, as printed | {_counts(score_of(chosen))} | {chosen['checks'].sum()} |")
    parts.append("\n".join(lines))
    for author, title in (("others", "numbers of others"), ("ours", "our own claims")):
        lines = [f"| {title} | {' | '.join(HEAD)} |", f"|---|{'---|' * len(HEAD)}"]
        for paper, rows in claims[claims["of"] == author].groupby("paper", sort=False):
            lines.append(f"| {name_of_paper(str(paper))} | {_counts(score_of(rows))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def in_a_sentence(claims: pd.DataFrame) -> str:
    """Return the scores of the sentences of the papers, and of the numbers of others."""
    sentences = sentences_of(claims)
    otherwise = sentences["otherwise"].astype(bool)
    of_papers, apart = score_of(sentences[~otherwise]), score_of(sentences[otherwise])
    of_others = claims[claims["of"] == "others"]
    others, by_one = score_of(of_others), int(((of_others["verdict"] == "holds") & (of_others["seeds"] == 1)).sum())

    def alike(score: Score) -> str:
        return f"{score.alike} {ALIKE}, " if score.alike else ""

    def why(score: Score) -> str:
        reasons = {"for want of the original data": score.without_data, "after all planned seeds": score.spent}
        told = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
        return f" ({told})" if told else ""

    said = [
        f"Of {len(sentences)} sentences of papers ({sentences['checks'].sum()} checks) {of_papers.total} are judged as "
        f"printed: {of_papers.holds} hold, {_do(of_papers.fails)} not, {of_papers.in_part} hold in part, "
        f"{alike(of_papers)}{of_papers.undecided} are undecided{why(of_papers)}"
        + (f", {of_papers.not_run} are not run." if of_papers.not_run else "."),
        f"{apart.total} are judged otherwise than printed: {apart.holds} hold, {_do(apart.fails)} not, "
        f"{apart.in_part} in part, {alike(apart)}{apart.undecided} undecided{why(apart)}.",
        f"Of {others.total} numbers that others published {others.holds} hold ({by_one} of them by one seed), "
        f"{_do(others.fails)} not, "
        f"{others.undecided} are undecided and {others.not_run} are not run.",
    ]
    return "\n".join(fill(sentence, 118) for sentence in said)


def _do(number: int) -> str:
    return f"{number} does" if number == 1 else f"{number} do"


def _counts(score: Score) -> str:
    return " | ".join(map(str, (score.holds, score.fails, score.in_part, score.alike, score.undecided, score.not_run)))


def published(results: Path) -> str:
    """Return in a sentence what was computed, when, by which commits, and how long it took."""
    table = read_csv(results / "experiments.csv")
    there = table[table["computed"].notna()]
    commits = sorted(set(" ".join(there["commits"].dropna()).split()))
    missing = table[table["computed"].isna()]["experiment"]
    part = there[there["cut"].astype(object).fillna("").str.endswith("not run")]
    in_part = "; ".join(f"{row['experiment']}: {row['cut']}" for _, row in part.iterrows())
    hours = there["core_hours"].sum()
    dates = sorted(there["computed"].unique())
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"{len(there)} of {len(table)} experiments are published at full scale, computed {when} in {hours:.1f} "
        f"core-hours by commits {', '.join(commits)}. Not run: {', '.join(missing)}."
        + (f" In part: {in_part}." if in_part else "")
    )


@cache
def anchored(results: Path) -> pd.DataFrame:
    """Return the published claims, those of experiments that are not run included, by their anchors on the site."""
    experiments = {
        name: load(path, name, check=False) for name, path in find(ROOT / "workflow" / "experiments").items()
    }
    claims = pd.read_csv(results / "claims.csv", keep_default_na=False, dtype={"commit": str})
    claims.index = pd.Index(anchors_of(claims))
    claims["page"] = [file_of_paper(experiments[name].source.paper) for name in claims["experiment"]]
    return claims


def filled(text: str, page: Path, results: Path = RESULTS) -> str:
    """Return the text of a page with its blocks written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{blocks(found[2], page, results)}\n{found[3]}", text)


def faults(text: str, page: Path, results: Path = RESULTS) -> Iterator[str]:
    """Report numbers without a source, numbers that their source does not have, and verdicts that are others.

    Outside of the findings and the paper only what links a result is looked at.
    """
    strict = page == PAPER or page.name == "findings.md" or page.parent.name == "findings"
    for unit in units(BLOCK.sub("", text)):
        measured = MEASURED if page == PAPER else ()
        found = [(words, where) for words, where in LINK.findall(unit) if "://" not in where]
        links = [(words, to) for words, to in found if "results/" in to or Path(to.partition("#")[0]).name in measured]
        sources = []
        for words, where in links:
            path, _, anchor = where.partition("#")
            of_claim = bool(anchor) and "results/" in path
            if of_claim and anchor not in anchored(results).index:
                yield f"{page.name}: {where}: there is no such claim"
                continue
            if not of_claim and not (page.parent / path).is_file():
                yield f"{page.name}: {where}: there is no such file"
                continue
            if of_claim:
                row = anchored(results).loc[anchor]
                if Path(path).name != "claims.md":
                    yield f"{page.name}: {where}: link results/claims.md#{anchor}"
                said = next((verdict for word, verdict in VERDICTS.items() if word in words), row["verdict"])
                if said != row["verdict"]:
                    yield f"{page.name}: {anchor}: is called {said!r}, but the verdict is {row['verdict']!r}"
                sources.append(" ".join(map(str, row)))
            else:
                sources.append((page.parent / path).read_text(encoding="utf-8"))
        known = [number for source in sources for number in numbers(source)]
        for shown in stated(unit) if links or strict else ():
            if not any(agrees(shown, value) for value in known):
                yield f"{page.name}: {shown} in {' '.join(unit.split())[:90]!r} is in none of its sources"


def units(text: str) -> Iterator[str]:
    """Yield paragraphs, items of lists and rows of tables, without code."""
    without = re.sub(r"```.*?```|`[^`\n]*`|<!--.*?-->|(?:!\[|\[Figure: )[^\]]*\]\([^)]*\)", " ", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", without):
        yield from (part for part in re.split(r"\n(?=[|#]|\s*[-*] |\s*\d+\. )", paragraph) if part.strip())


def stated(unit: str) -> Iterator[str]:
    """Yield the numbers of results in a text."""
    words = LINK.sub(r"\1", unit)
    for found in NUMBER.finditer(words):
        behind = words[found.end() :].split(maxsplit=1)
        unit_behind = behind[0].rstrip(".,;:)") if behind and words[found.end()] == " " else ""
        level = found[0] == "95" and unit_behind == "%"
        if not level and ("." in found[1] or unit_behind in UNITS):
            yield found[0]


def numbers(text: str) -> list[float]:
    return [float(found[0].replace(",", "").replace("−", "-")) for found in NUMBER.finditer(text)]


def agrees(shown: str, value: float) -> bool:
    """Tell whether a number, as it is shown, is `value` rounded, or `value` as a percentage; signs are in the words."""
    plain = shown.replace(",", "").replace("−", "-").lstrip("+")
    half = 0.5000001 * 10.0 ** -len(plain.partition(".")[2])
    return any(abs(abs(float(plain)) - abs(of)) <= half for of in (value, 100 * value))


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "/")


def main() -> None:
    """Write the blocks of all pages anew; exit with 1 where a quotation is wrong."""
    wrong: list[str] = []
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = filled(before, page)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: written anew")
        wrong += faults(after, page)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
