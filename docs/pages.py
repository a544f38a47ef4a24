"""Generate pages: the reference of a scenario's fields, a page per component, and the experiments.

mkdocstrings would show the Python classes; these pages show what a YAML file may say: types in words, units, kinds.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typer.main import get_command

from asyncfl.base.tables import (
    FAMILIES,
    RoundsTable,
    columns_of,
)
from asyncfl.cli import COMMANDS, app
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.experiment_columns import (
    OF_WHOLE_RUN,
    TARGETS,
    WholeRunColumns,
    end_name,
    measured_columns,
)
from asyncfl.experiments.scores import NOUNS
from asyncfl.experiments.spec import AUTHORS, Experiment, Source
from asyncfl.manual.columns import TABLES, title_of
from asyncfl.manual.explanation import example_text
from asyncfl.manual.parts import SCENARIO, FieldEntry, Part, all_parts, components, places_of

Pages = dict[str, str]
"""File -> Markdown text."""


def page_of(part: Part) -> str:
    """Return the page of a section or component."""
    if part.kind:
        return f"components/{part.place}/{part.kind.replace('+', 'plus').replace('_', '-')}.md"
    return f"reference/{part.path.partition('.')[0] or 'scenario'}.md"


def anchor_of(name: str) -> str:
    """Return the anchor of a field or experiment."""
    return re.sub(r"[^\w-]", "-", name)


def reference_pages() -> Pages:
    """Return a page for the scenario and one for each section or choice in it, with every field."""
    sections = [part for part in all_parts() if part.path and not part.kind]
    paged = {field.name: field for field in SCENARIO.fields if field.parts}
    rows = [
        (
            f"[`{field.name}`]({f'{field.name}.md' if field.name in paged else f'#{field.name}'})",
            escaped(field.text),
            f"`{field.default}`" if field.default else "must be given",
        )
        for field in SCENARIO.fields
    ]
    blocks = [
        "# A scenario, field by field",
        escaped(SCENARIO.prose.text),
        "In the terminal, `asyncfl explain NAME` explains any name here; `asyncfl init` writes a scenario to start "
        "from, and `asyncfl schema` prints the JSON schema by which editors complete.",
        table(("section", "what it says", "default"), rows),
    ]
    for field in SCENARIO.fields:
        if field.name not in paged:
            blocks += _field(field, page_of(SCENARIO))
    pages = {"reference/scenario.md": "\n\n".join(blocks)}
    for name, field in paged.items():
        page = f"reference/{name}.md"
        blocks = [f"# {name}", escaped(field.text), *(_facts(field, page) if field.choices else ())]
        for part in sections:
            if part.path.partition(".")[0] == name:
                blocks += [f"## {part.path} {{ #section-{anchor_of(part.path)} }}"] if "." in part.path else []
                blocks += paragraphs(part.prose.text)
                blocks += [block for one in part.fields for block in _field(one, page)]
        pages[page] = "\n\n".join(blocks)
    return pages


def _field(field: FieldEntry, page: str) -> Iterator[str]:
    yield f"### `{field.name if field.owner.kind else field.path}` {{ #{anchor_of(field.path)} }}"
    yield from paragraphs(field.prose.text)
    yield from _facts(field, page)


def _facts(field: FieldEntry, page: str) -> Iterator[str]:
    """Yield type, unit, range, default and source in one line, and the kinds that may stand there."""
    base = field.base
    own = base and f"`kind: my_module:MyClass`, derived from `{base.__module__}.{base.__qualname__}`"
    facts = {
        "type": escaped(field.type_words),
        "unit": "none" if field.unit == "1" else field.unit,
        "range": escaped(field.range),
        "default": f"`{field.default}`" if field.default else "none, must be given",
        "source": escaped(field.source),
        "your own": own,
    }
    yield " · ".join(f"**{name}** {value}" for name, value in facts.items() if value)
    if field.choices:
        rows = [(_link(part, page), escaped(part.prose.summary)) for part in field.choices]
        yield table(("kind", "what it is"), rows)
    for part in field.parts:
        home = _home(part)
        if not part.kind and "." in home.path:
            yield f"A section: [its fields]({_to(page_of(home), page)}#section-{anchor_of(home.path)})."


def _home(part: Part) -> Part:
    """Return the same class at the place where its fields are documented."""
    return next(one for one in all_parts() if one.model is part.model)


def _link(part: Part, page: str) -> str:
    return f"[`{part.kind}`]({_to(page_of(_home(part)), page)})"


def _to(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page))


def component_pages() -> Pages:
    """Return a page per built-in component, and a list of them by place."""
    pages = {page_of(part): "\n\n".join(_component(part)) for part in components()}
    blocks = [
        "# Components",
        "Parts that a scenario chooses by `kind`. Each may as well be [your own](../own-components.md).",
    ]
    for place in dict.fromkeys(part.place for part in components()):
        rows = [
            (_link(part, "components/index.md"), escaped(part.prose.summary), escaped(part.source))
            for part in components()
            if part.place == place
        ]
        blocks += [f"## `{place}` {{ #{anchor_of(place)} }}", table(("kind", "what it is", "source"), rows)]
    pages["components/index.md"] = "\n\n".join(blocks)
    return pages


def _component(part: Part) -> Iterator[str]:
    page = page_of(part)
    yield f"# {part.kind}"
    yield escaped(part.prose.summary)
    yield "## Use"
    for paragraph in part.prose.body:
        yield from paragraphs(paragraph)
    yield f"```yaml\n{example_text(part)}```"
    others = [f"`{place}`" for place in places_of(part.model) if place != part.place]
    also = f" and at {', '.join(others)}" if others else ""
    yield f"It stands at `{part.place}`{also}. In Python it is `{part.import_path}`."
    for field in part.fields:
        yield from _field(field, page)
    yield "## What is logged"
    logged = ", ".join(f"`{name}`" for name in part.logged)
    yield f"It shows in {logged}; see [columns]({_to('columns.md', page)}) and [tables]({_to('tables.md', page)})."
    yield "## Formula and source"
    yield f"Source: {escaped(part.source)}." if part.source else "By definition; no paper stands behind it."
    yield from paragraphs(part.theory)
    findings, experiments = _to("findings.md", page), _to("experiments/index.md", page)
    yield f"Measurements of it are among the [findings]({findings}) and [experiments]({experiments})."


def experiment_pages(experiments: Mapping[str, Experiment]) -> Pages:
    """Return a page per paper or subject with its experiments and their claims, and a list of all."""
    pages: Pages = {}
    rows = []
    totals: Counter[str] = Counter()
    of_papers: Counter[str] = Counter()
    sentences: dict[str, set[str]] = {}
    for name, one in experiments.items():
        subject = name.partition("/")[0]
        claims = [
            (escaped(claim.says), _author(one, claim), claim.expected, escaped(claim.why)) for claim in one.claims
        ]
        counts = Counter(one.author(claim) for claim in one.claims)
        blocks = [
            pages.get(f"experiments/{subject}.md", f"# {subject}"),
            f"## {name} {{ #{anchor_of(name)} }}",
            f"{escaped(one.title)} ({escaped(str(one.source))}).",
            f"```console\nsnakemake --cores 8 {name.replace('/', '_')}\n```",
            table(("claim", "whose", "expected", "why"), claims) if claims else "",
        ]
        pages[f"experiments/{subject}.md"] = "\n\n".join(filter(None, blocks))
        link = f"[`{name}`]({subject}.md#{anchor_of(name)})"
        rows.append((link, escaped(one.title), *(str(counts[author] or "") for author in AUTHORS)))
        totals += counts
        for claim in one.claims:
            if one.author(claim) == "paper":
                sentences.setdefault(one.source_of(claim).paper, set()).add(one.sentence_of(claim))
                of_papers[one.source_of(claim).paper] += 1
    about = (
        "What papers say, what others measured, and what we say of our own designs, "
        "counted apart. `make results` runs them and writes `results/index.html`."
    )
    index = [
        "# Experiments",
        about,
        table(
            ("paper", "sentences", "checks"),
            [(str(Source(paper=key)), str(len(sentences[key])), str(n)) for key, n in of_papers.most_common()],
        ),
        f"Beside these {sum(map(len, sentences.values()))} {NOUNS['paper']}, with {totals['paper']} checks, stand "
        f"{totals['others']} {NOUNS['others']} and {totals['ours']} {NOUNS['ours']}.",
        table(("experiment", "title", *(NOUNS[author] for author in AUTHORS)), rows),
    ]
    return pages | {"experiments/index.md": "\n\n".join(index)}


def _author(experiment: Experiment, claim: Claim) -> str:
    """Return where a claim is printed; "ours" for one of ours."""
    return "ours" if experiment.author(claim) == "ours" else escaped(str(experiment.source_of(claim)))


def command_page() -> str:
    """Return the page of all commands: a table for each heading of `asyncfl --help`."""
    program: Any = get_command(app)
    tables = {
        title: [row for name in commands for row in _commands(f"asyncfl {name}", program.commands[name])]
        for title, commands in COMMANDS.items()
    }
    about = "`asyncfl COMMAND --help` lists a command's options and gives an example."
    blocks = [f"## {title}\n\n{table(('command', 'what it does'), rows)}" for title, rows in tables.items()]
    return "\n\n".join(["# Commands", about, *blocks]) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, str]]:
    summary = " ".join((command.help or "").partition("\n\n")[0].split())
    yield f"`{path}`", summary.replace("|", "\\|")
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(f"{path} {name}", below)


def columns_page() -> str:
    """Return `docs/columns.md`: every column with its unit and meaning."""
    lines = ["# Columns", ""]
    for table in TABLES:
        title = title_of(table)
        if title.startswith("`"):
            lines += [f"## {title.split('`')[1]}", ""]
        lines += [title, "", "| column | unit | meaning |", "|---|---|---|"]
        for name, about in columns_of(table).items():
            lines.append(f"| `{name}` | {about.unit} | {' '.join(about.meaning.split())} |")
        if table is WholeRunColumns:
            lines += list(_end_columns())
        if table is RoundsTable:
            lines += [f"| `{start}...` | {about.unit} | {about.meaning} |" for start, about in FAMILIES.items()]
        lines.append("")
    lines += [
        "An experiment's `targets` are columns of `ends.csv` too: their names begin with "
        + ", ".join(f"`{start}` ({unit})" for start, unit in TARGETS.items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def _end_columns() -> Iterator[str]:
    """Yield the lines of `docs/columns.md` on the columns of rounds that `ends.csv` has."""
    known = {name: about for name, about in measured_columns("rounds").items() if end_name(name) != name}
    for name, about in known.items():
        if name in OF_WHOLE_RUN:
            yield f"| `{end_name(name)}` | {about.unit} | `{name}` over the whole run. |"
    for name, about in known.items():
        if name not in OF_WHOLE_RUN:
            yield f"| `{end_name(name)}` | {about.unit} | `{name}` of the last version alone. |"
    yield "| `detector_..._last` |  | a number that the detector reported of the last buffer |"
    same = ", ".join(f"`{name}`" for name in measured_columns("rounds") if name not in known)
    same += ", and those that begin with `test_accuracy_` or `metric_`"
    yield f"\nFurther columns, of the last version or the last one that was evaluated, are named as in rounds: {same}."


# --- Markdown --------------------------------------------------------------------------------------------------------

_MARKS = {"<": "&lt;", "|": "&#124;"} | {mark: f"\\{mark}" for mark in "*_[]#"}


def escaped(text: str) -> str:
    """Escape marks of Markdown and HTML outside of backticks."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        piece if number % 2 else "".join(_MARKS.get(letter, letter) for letter in piece)
        for number, piece in enumerate(pieces)
    )


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a docstring as Markdown: formulas (indented) as code, lists as lists."""
    blocks: list[str] = []
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if any(line.startswith("    ") for line in lines) and not lines[0].startswith("- "):
            whole = all(line.startswith("    ") for line in lines)
            blocks.append("```text\n" + "\n".join(line[4:] if whole else line for line in lines) + "\n```")
        elif lines[0].startswith("- "):
            items = re.split(r"\n(?=- )", paragraph)
            blocks.append("\n".join("- " + escaped(" ".join(item[2:].split())) for item in items))
        else:
            blocks.append(escaped(" ".join(paragraph.split())))
    return blocks


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; cells are Markdown."""
    lines = [head, ["---" for _ in head], *rows]
    return "\n".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in lines)
