"""Build the paper: `make paper` writes build/paper/paper.html, and LaTeX and PDF where the programs for them are there.

The HTML holds its figures and asks no network. With pandoc on the PATH paper.tex is written beside it, and paper.pdf
with a TeX engine too, or else with Chromium. Raises SystemExit where a number of the paper is not that of its source.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.quotes import LINK, PAPER, faults, filled  # noqa: E402

INTO = ROOT / "build" / "paper"
ENGINES = ("xelatex", "lualatex", "pdflatex", "tectonic")
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
STYLE = """
@page { size: A4; margin: 22mm }
body { font: 16px/1.45 Georgia, "Times New Roman", serif; max-width: 46em; margin: 3em auto; padding: 0 1em;
  color: #1a1a1a; background: #fff; counter-reset: section }
h1 { font-size: 1.7em; line-height: 1.2; text-align: center } h1 + p { text-align: center }
h2 { font-size: 1.25em; counter-reset: subsection; margin-top: 1.8em } h3 { font-size: 1.05em }
h2.numbered { counter-increment: section } h2.numbered::before { content: counter(section) " \\2003" }
h3 { counter-increment: subsection } h3::before { content: counter(section) "." counter(subsection) " \\2003" }
table { border-collapse: collapse; font-size: .8em; margin: 1em 0; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .25em .5em; border-bottom: 1px solid #ccc }
thead th { border-bottom: 1.5px solid #333 } tr { break-inside: avoid }
img { display: block; max-width: 100%; margin: 1.5em auto .5em } a { color: #1a4a8a; text-decoration: none }
code { font-size: .9em } h2, h3 { break-after: avoid }
@media print { body { font-size: 9.5pt; max-width: none; margin: 0; padding: 0 } img { max-width: 80% } }
"""
NEEDS = {"paper.tex": "needs pandoc", "paper.pdf": "needs pandoc and TeX, or Chromium"}
"""File that is built where a program for it is found -> that program."""
UNNUMBERED = ("Abstract", "Reproducing this", "References")


def checked(text: str) -> str:
    """Return the paper without its comments. Raises SystemExit where a number or a table is not that of its source."""
    wrong = list(faults(text, PAPER))
    if filled(text, PAPER) != text:
        wrong.append("tables are not those of their sources")
    if wrong:
        raise SystemExit("\n".join([*wrong, "run `python docs/quotes.py`"]))
    return re.sub(r"<!--.*?-->\n?", "\n", text, flags=re.DOTALL)


def html_of(text: str) -> str:
    """Return the paper as one HTML page: figures within, links to files of this checkout."""

    def moved(found: re.Match[str]) -> str:
        where = found[2] if re.match(r"https?:|#", found[2]) else f"../../docs/paper/{found[2]}"
        return f"[{found[1]}]({where})"

    def embedded(found: re.Match[str]) -> str:
        image = (PAPER.parent / found[2]).read_bytes()
        return f"![{found[1]}](data:image/png;base64,{base64.b64encode(image).decode()})"

    images = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
    parts, place = [], 0
    for found in images.finditer(text):
        parts += [LINK.sub(moved, text[place : found.start()]), embedded(found)]
        place = found.end()
    body = markdown.markdown("".join([*parts, LINK.sub(moved, text[place:])]), extensions=["tables", "sane_lists"])
    titles = "|".join(UNNUMBERED)
    body = re.sub(rf"<h2>(?!{titles})", '<h2 class="numbered">', body)
    title = text.splitlines()[0].removeprefix("# ")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def for_pandoc(text: str) -> str:
    """Return the paper for pandoc: title and abstract as metadata, references as anchors, links into this checkout as
    their words."""
    title, authors = re.match(r"# (.*)\n\n(.*)\n", text).groups()  # type: ignore[union-attr]
    abstract, body = re.split(r"\n## (?=Introduction\n)", text.partition("## Abstract\n")[2], maxsplit=1)
    body = re.sub(r"(?<!!)\[((?:\[[^\]]*\]|[^\]\[])*)\]\((?!https?:|#)[^)\s]+\)", r"\1", f"## {body}")
    body = re.sub(rf"^## ({'|'.join(UNNUMBERED)})$", r"## \1 {-}", body, flags=re.MULTILINE)
    body = ANCHOR.sub(r"[]{#\1}", body)
    body = re.sub(r"\]\(\.\./figures/", f"]({ROOT}/docs/figures/", body)
    indented = "\n".join(f"  {line}".rstrip() for line in abstract.strip().splitlines())
    return f'---\ntitle: "{title}"\nauthor: "{authors}"\nabstract: |\n{indented}\n---\n\n{body}'


def write_latex(text: str) -> None:
    """Write paper.tex by pandoc, and paper.pdf where there is a TeX engine."""
    command = ["pandoc", "--from=markdown", "--standalone", "--number-sections", "--shift-heading-level-by=-1"]
    command += ["--variable=papersize:a4", "--variable=geometry:margin=25mm", "--variable=colorlinks"]
    engine = next((name for name in ENGINES if shutil.which(name)), None)
    made = {"paper.tex": command} | ({"paper.pdf": [*command, f"--pdf-engine={engine}"]} if engine else {})
    for name, by in made.items():
        subprocess.run([*by, f"--output={INTO / name}"], input=for_pandoc(text).encode(), check=True)


def print_page() -> None:
    """Write paper.pdf from paper.html by Chromium."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    page = (INTO / "paper.html").as_uri()
    subprocess.run([*command, f"--print-to-pdf={INTO / 'paper.pdf'}", page], check=True, capture_output=True)


def main() -> None:
    """Build what can be built, and name it."""
    text = checked(PAPER.read_text(encoding="utf-8"))
    shutil.rmtree(INTO, ignore_errors=True)
    INTO.mkdir(parents=True)
    (INTO / "paper.html").write_text(html_of(text), encoding="utf-8")
    if shutil.which("pandoc"):
        write_latex(text)
    if shutil.which("chromium") and not (INTO / "paper.pdf").exists():
        print_page()
    print("\n".join(map(str, sorted(INTO.iterdir()))))
    missing = [f"{name} ({needs})" for name, needs in NEEDS.items() if not (INTO / name).exists()]
    if missing:
        print(f"not built: {', '.join(missing)}")


if __name__ == "__main__":
    main()
