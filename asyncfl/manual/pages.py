"""Pages of the documentation that are made from the classes: the reference of a scenario, a page per component, and the
experiments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from asyncfl.manual.example import example_text, setting
from asyncfl.manual.logged import logged_by
from asyncfl.manual.markdown import escaped, paragraphs, table
from asyncfl.manual.measured import ClaimSaid, Experimented, using
from asyncfl.manual.parts import FieldEntry, Part, components, places_of, scenario_part, sections
from asyncfl.manual.verdicts import kept


def page_of(part: Part) -> str:
    """File of the page that tells of a section or component."""
    if part.kind:
        return f"components/{part.place}/{_file_name(part.kind)}.md"
    return f"reference/{part.path.partition('.')[0] or 'scenario'}.md"


def anchor_of(name: str) -> str:
    """Anchor of a heading with the name of a field or experiment."""
    return re.sub(r"[^\w-]", "-", name)


def _file_name(kind: str) -> str:
    return kind.replace("+", "plus").replace("_", "-")


def reference_pages() -> dict[str, str]:
    """File -> text: a page for the scenario, and one for each section or choice in it, with every field."""
    scenario = scenario_part()
    below: dict[str, list[Part]] = {}
    for part in sections():
        if part.path:
            below.setdefault(part.path.partition(".")[0], []).append(part)
    pages = {"reference/scenario.md": "\n\n".join(_scenario_page(scenario, below))}
    for field in scenario.fields:
        if field.name in below or field.choices:
            blocks = [f"# {field.name}", escaped(field.text)]
            if field.choices:
                blocks += _field_blocks(field, "reference/x.md", heading=False)
            for part in below.get(field.name, ()):
                blocks += _section_blocks(part)
            pages[f"reference/{field.name}.md"] = "\n\n".join(blocks)
    return pages


def _scenario_page(scenario: Part, below: dict[str, list[Part]]) -> Iterator[str]:
    yield "# A scenario, field by field"
    yield escaped(scenario.prose.text)
    yield (
        "In the terminal, `asyncfl explain NAME` tells the same of any name here; `asyncfl init` writes a scenario to "
        "start from, and `asyncfl schema` prints the JSON schema by which editors complete."
    )
    rows = []
    for field in scenario.fields:
        paged = field.name in below or field.choices
        name = f"[`{field.name}`]({field.name}.md)" if paged else f"[`{field.name}`](#{anchor_of(field.path)})"
        rows.append((name, escaped(field.text), _code(field.default) or "must be given"))
    yield table(("section", "what it says", "default"), rows)
    for field in scenario.fields:
        if not (field.name in below or field.choices):
            yield from _field_blocks(field, "reference/x.md")


def _section_blocks(part: Part) -> Iterator[str]:
    if "." in part.path:
        yield f"## {part.path} {{ #section-{anchor_of(part.path)} }}"
    yield from paragraphs(part.prose.text)
    for field in part.fields:
        yield from _field_blocks(field, page_of(part))


def _field_blocks(field: FieldEntry, page: str, heading: bool = True) -> Iterator[str]:
    """A field: what it means, then its facts in a table, then the kinds it offers."""
    if heading:
        shown = field.name if field.owner.kind else field.path
        yield f"### `{shown}` {{ #{anchor_of(field.path)} }}"
        yield from paragraphs(field.prose.text)
    facts = [
        ("type", escaped(field.type_words)),
        ("unit", "none" if field.unit == "1" else field.unit),
        ("range", escaped(field.range)),
        ("default", _code(field.default) or "none, must be given"),
        ("source", escaped(field.source)),
    ]
    if field.base is not None:
        facts.append(("your own", f"`kind: my_module:MyClass`, derived from `{_import_path(field.base)}`"))
    yield " · ".join(f"**{name}** {value}" for name, value in facts if value)
    if field.choices:
        rows = [(_link(part, page), escaped(part.prose.summary)) for part in field.choices]
        yield table(("kind", "what it is"), rows)
    for part in field.parts:
        if not part.kind:
            place = f"{_to(page_of(part), page)}#section-{anchor_of(_home(part).path)}"
            yield f"A section: [its fields]({place})." if "." in _home(part).path else ""


def _home(part: Part) -> Part:
    """The same class at the place where its fields are documented."""
    return next(one for one in [*sections(), *components()] if one.model is part.model)


def _link(part: Part, page: str) -> str:
    return f"[`{part.kind}`]({_to(page_of(_home(part)), page)})"


def _to(target: str, page: str) -> str:
    """Relative link from a page to another."""
    up = "../" * (len(PurePosixPath(page).parts) - 1)
    return up + target


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _import_path(model: type) -> str:
    return f"{model.__module__}.{model.__qualname__}"


def component_pages(experiments: Sequence[Experimented]) -> dict[str, str]:
    """File -> text: a page per built-in component, all in one order, and a list of them by place."""
    pages = {page_of(part): "\n\n".join(_component(part, experiments)) for part in components()}
    pages["components/index.md"] = "\n\n".join(_index())
    return pages


def _index() -> Iterator[str]:
    yield "# Components"
    yield (
        "What a scenario chooses by `kind`. Each page has one order: its use and its fields, what it leaves in a run's "
        "tables, formula and source, what was measured with it here, and the command that runs it. Each may as well be "
        "[your own](../own-components.md)."
    )
    by_place: dict[str, list[Part]] = {}
    for part in components():
        by_place.setdefault(part.place, []).append(part)
    for place, parts in by_place.items():
        yield f"## `{place}` {{ #{anchor_of(place)} }}"
        page = "components/index.md"
        yield table(
            ("kind", "what it is", "source"),
            [(_link(part, page), escaped(part.prose.summary), escaped(part.source)) for part in parts],
        )


def _component(part: Part, experiments: Sequence[Experimented]) -> Iterator[str]:
    page = page_of(part)
    yield f"# {part.kind}"
    yield escaped(part.prose.summary)
    yield "## Use"
    for paragraph in part.prose.body:
        yield from paragraphs(paragraph)
    yield f"```yaml\n{example_text(part)}```"
    others = [place for place in places_of(part.model) if place != part.place]
    also = f" and at {', '.join(f'`{place}`' for place in others)}" if others else ""
    yield f"It stands at `{part.place}`{also}. In Python it is `{_import_path(part.model)}`."
    for field in part.fields:
        yield from _field_blocks(field, page)
    yield "## What is logged"
    rows = [(f"`{one.table}`", f"`{one.name}`", escaped(one.meaning)) for one in logged_by(part.model)]
    yield table(("table of a run", "column or kind of event", "meaning"), rows)
    yield f"All columns: [columns]({_to('columns.md', page)})."
    yield "## Formula and source"
    yield f"Source: {escaped(part.source)}." if part.source else "By definition; no paper stands behind it."
    yield from paragraphs(part.theory)
    yield "## What was measured here"
    yield from _measured(part, experiments, page)
    yield "## The command"
    yield "\n".join(["```console", *(setting(part) or ["asyncfl run scenario.yaml"]), "```"])
    yield "`asyncfl init scenario.yaml` writes a scenario to put it into."


def _measured(part: Part, experiments: Sequence[Experimented], page: str) -> Iterator[str]:
    yield f"Results paper by paper: [findings]({_to('findings.md', page)}). Experiments that use it:"
    found, uses = using(part, experiments)
    if not uses:
        yield "none; its tests do."
        return
    if len(found) < uses:
        them = f"[experiments]({_to('experiments/index.md', page)})"
        yield f"It is part of {uses} of the {len(experiments)} {them}; here are those with claims about it."
    yield _whence(experiments)
    for one in found:
        link = f"{_to(_experiment_page(one), page)}#{anchor_of(one.name)}"
        yield f"[`{one.name}`]({link}): {escaped(one.title)}. {one.tally}."
        if claims := one.claims_about(part):
            yield _claims(claims)


def _claims(claims: Sequence[ClaimSaid]) -> str:
    """Claims with their verdicts; where no results are there, with what is expected."""
    if any(claim.verdict for claim in claims):
        rows = [(escaped(one.says), one.verdict or "not run", escaped(one.measured)) for one in claims]
        return table(("claim", "verdict", "measured"), rows)
    rows = [(escaped(one.says), one.expected, escaped(one.why)) for one in claims]
    return table(("claim", "expected", "why"), rows) if any(one.why for one in claims) else _two_columns(claims)


def _two_columns(claims: Sequence[ClaimSaid]) -> str:
    return table(("claim", "expected"), [(escaped(one.says), one.expected) for one in claims])


def experiment_pages(experiments: Sequence[Experimented]) -> dict[str, str]:
    """File -> text: a page per paper, or subject, with its experiments and their claims, and a list of all."""
    by_page: dict[str, list[Experimented]] = {}
    for one in experiments:
        by_page.setdefault(_experiment_page(one), []).append(one)
    pages = {page: "\n\n".join(_experiments(page, some)) for page, some in by_page.items()}
    page = "experiments/index.md"
    rows = []
    for one in experiments:
        link = f"{_to(_experiment_page(one), page)}#{anchor_of(one.name)}"
        rows.append((f"[`{one.name}`]({link})", escaped(one.title), f"{len(one.claims)}"))
    about = "What the papers say, as checks. `make results` runs all of them and writes `results/index.html`."
    pages[page] = "\n\n".join(
        ["# Experiments", about, _whence(experiments), table(("experiment", "title", "claims"), rows)]
    )
    return pages


def _whence(experiments: Sequence[Experimented]) -> str:
    if any(claim.verdict for one in experiments for claim in one.claims):
        return (
            f"Verdicts are those of {kept().date}; at quick scale, which lowers what is simulated, they tell which way "
            "to look, and are no evidence."
        )
    return "No verdicts are kept: claims stand with what is expected of them."


def _experiment_page(one: Experimented) -> str:
    return f"experiments/{one.name.partition('/')[0]}.md"


def _experiments(page: str, experiments: Sequence[Experimented]) -> Iterator[str]:
    yield f"# {PurePosixPath(page).stem}"
    yield _whence(experiments)
    for one in experiments:
        yield f"## {one.name} {{ #{anchor_of(one.name)} }}"
        yield f"{escaped(one.title)} ({escaped(one.source)})."
        yield f"```console\n{one.command}\n```"
        if one.claims:
            yield _claims(one.claims)
