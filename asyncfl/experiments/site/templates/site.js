"use strict";
// Filters and sorts the table of all claims; arrow keys go from tile to tile.
(function () {
  const table = document.getElementById("all-claims");
  if (table) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const text = document.getElementById("filter-text");
    const author = document.getElementById("filter-of");
    const paper = document.getElementById("filter-paper");
    const verdict = document.getElementById("filter-verdict");
    const shown = document.getElementById("shown");
    const show = function () {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const all = row.textContent.toLowerCase();
        const fits = words.every((word) => all.includes(word)) &&
          (!author.value || row.dataset.of === author.value) &&
          (!paper.value || row.dataset.paper === paper.value) &&
          (!verdict.value || row.dataset.verdict === verdict.value);
        row.hidden = !fits;
        count += fits ? 1 : 0;
      }
      shown.textContent = count + " of " + rows.length + " claims";
    };
    for (const part of [text, author, paper, verdict]) part.addEventListener("input", show);
    document.addEventListener("keydown", function (event) {
      const busy = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !busy && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        text.focus();
      } else if (event.key === "Escape" && document.activeElement === text) {
        text.value = "";
        show();
      }
    });
    for (const head of table.tHead.rows[0].cells) {
      const button = head.querySelector("button");
      if (!button) continue;
      button.addEventListener("click", function () {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[head.cellIndex].dataset.key || row.cells[head.cellIndex].textContent;
        const sorted = rows.slice().sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }));
        body.append(...(down ? sorted.reverse() : sorted));
      });
    }
    show();
  }
  for (const strip of document.querySelectorAll(".tiles")) {
    const tiles = Array.from(strip.querySelectorAll("a"));
    tiles.forEach((tile, number) => { tile.tabIndex = number ? -1 : 0; });
    strip.addEventListener("keydown", function (event) {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -tiles.length, End: tiles.length }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const now = tiles.indexOf(document.activeElement);
      const next = Math.min(tiles.length - 1, Math.max(0, now + step));
      tiles[now].tabIndex = -1;
      tiles[next].tabIndex = 0;
      tiles[next].focus();
    });
  }
})();
