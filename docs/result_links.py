"""Lead links to published results, which are tables, to the pages and figures that `make docs` makes of them.

| in a page of the repository | on the site |
|---|---|
| `[holds](results/claims.md#nbafl-fig2-0)` | the claim on the page of its paper |
| `[all](results/claims.md)` | the front page of the results |
| `[Figure: Loss](results/full/nbafl/fig2/table.md "figure.svg")` | the figure of that file |
"""

from __future__ import annotations

import re

from docs.quotes import RESULTS, anchored

CLAIMS = re.compile(r"\]\(([^)\s#]*results/)claims\.md(?:#([\w-]+))?\)")
FIGURE = re.compile(r"\[Figure: ([^\]]*)\]\(([^)\s]*/)[^/)\s]+ \"(\w+\.svg)\"\)")


def site_links(text: str) -> str:
    """Return the Markdown text of a page with its links to results as the site has them."""

    def page(found: re.Match[str]) -> str:
        if found[2] is None:
            return f"]({found[1]}index.html)"
        return f"]({found[1]}papers/{anchored(RESULTS).loc[found[2], 'page']}#{found[2]})"

    return CLAIMS.sub(page, FIGURE.sub(r"![\1](\2\3)", text))
