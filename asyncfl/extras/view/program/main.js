// Puts the page together.

let drawing = false;

redraw = () => {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    drawAxis();
    drawLanes();
    drawCurves();
    showMode();
    state.scroll = byId("scroll").scrollTop;
    remember();
  });
};

function setTheme() {
  const dark = state.theme ? state.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", dark ? "Light theme" : "Dark theme");
  readColours();
}

function switchTheme() {
  state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  setTheme();
  countFilters();
  redraw();
}

function showHead() {
  const names = model.runs.map((run) => run.name);
  document.querySelector("h1").replaceChildren(names.join(" and "), " ", make("small", {}, "a run of asyncfl"));
  const facts = model.runs[0].facts.map(([word, said], place) => {
    const other = model.runs[1]?.facts.find((fact) => fact[0] === word);
    return make("div", {}, make("dt", {}, word), make("dd", {}, other && other[1] !== said ? `${said} | ${other[1]}` : said));
  });
  byId("facts").replaceChildren(...facts);
  const said = [...(model.going ? [model.going] : []), ...model.runs.map((run) => run.window).filter(Boolean)];
  const notes = [...new Set(model.runs.flatMap((run) => run.notes))];
  byId("said").replaceChildren(...said.map((text) => make("p", { class: "said" }, text)), ...(notes.length
    ? [make("details", { class: "said" }, make("summary", {}, many(notes.length, "note")), make("ul", {}, ...notes.map((note) => make("li", {}, note))))]
    : []));
}

function showComparison() {
  const found = model.compared;
  if (!found) return;
  const over = (colour, text) => [make("i", { class: "over", style: `background: var(--${colour})` }), text];
  const of = (seed) => seed.seed === seed.other_seed ? `Seed ${seed.seed}` : `Seed ${seed.seed} beside seed ${seed.other_seed}`;
  const section = byId("compared");
  section.hidden = false;
  section.replaceChildren(
    make("h2", {}, found.same ? "The two runs are the same" : "How the two runs differ"),
    make("p", {}, ...over(RUN_COLOURS[0], `first: ${model.runs[0].name}`), ...over(RUN_COLOURS[1], `second: ${model.runs[1].name}`)),
    ...(found.fields.length ? [tableOf(["field", "first", "second"], found.fields)] : [make("p", {}, "The scenarios are the same.")]),
    ...found.only.map((text) => make("p", {}, text)),
    ...found.seeds.map((seed) => make("details", {},
      make("summary", {}, `${of(seed)}: ${seed.said.join("; ")}`),
      make("div", { class: "beside" },
        ...(seed.events.length ? [tableOf(seed.events[0], seed.events.slice(1))] : []),
        ...(seed.lines.length ? [tableOf(["in sum", "first", "second", "change"], seed.lines)] : [])))));
}

async function start() {
  model = modelOf(await unpacked(byId("data").textContent));
  byId("data").remove();
  const known = recall();
  if (!model.runs[0].seeds.some((one) => one.seed === state.seed)) state.seed = model.runs[0].seeds[0].seed;
  setTheme();
  showHead();
  showComparison();
  chooseClients();
  if (state.whole || !(state.to > state.from)) showAll();
  if (!known && heldSpan() && model.runs.some((run) => run.asked)) setWindow(...heldSpan());
  buildFilters();
  count();
  buildTables();
  byId("theme").addEventListener("click", switchTheme);
  byId("help-open").addEventListener("click", openHelp);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { setTheme(); redraw(); });
  byId("curves").setAttribute("aria-label", `Over the same time: ${shownCurves().map((curve) => curve.name).join(", ")}`);
  listen();
  showDetails();
  layLanes();
  byId("scroll").scrollTop = state.scroll;
  redraw();
  if (model.reload_s) setTimeout(() => location.reload(), model.reload_s * 1000);
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "yes"; }));
}

start().catch((error) => {
  byId("said").replaceChildren(make("p", { class: "said" }, `This page cannot be drawn here: ${error.message}`));
  throw error;
});
