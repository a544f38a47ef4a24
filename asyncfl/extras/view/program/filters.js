// What is shown: seed, clients, attackers, fates, kinds of marks; zoom and the height of lanes.

const PHASE_LEGEND = [["download", "download"], ["training", "training"], ["upload", "upload"], ["scoring", "scoring"], ["off", "offline"],
  ["banned", "client is banned"]];
const COUNTED = { fates: { banned: "of banned clients" }, marks: { banned: "clients banned" } }; // tasks, and bans

function buildFilters() {
  const form = byId("filters");
  const seeds = model.runs[0].seeds.map((one) => [one.seed, one.seed]);
  const seed = select(seeds, state.seed, (value) => choose({ seed: Number(value) }, true), { id: "seed" });
  const groups = [["all", "everybody"], ["only", "attackers"], ["without", "the honest"]];
  const attackers = select(groups, state.attackers, (value) => choose({ attackers: value }), { id: "attackers" });
  const clients = make("input", { id: "clients", type: "text", placeholder: "3, 7-12", value: state.clients,
    oninput: (event) => {
      const sound = clientsNamed(event.target.value, model.runs[0].clients) !== null;
      event.target.classList.toggle("bad-input", !sound);
      event.target.setAttribute("aria-invalid", String(!sound));
      if (sound) choose({ clients: event.target.value });
    } });
  const height = make("input", { id: "height", type: "range", min: 4, max: 60, value: laneHeight(),
    oninput: (event) => choose({ laneHeight: Number(event.target.value) }) });
  const sign = (said, about, act) => button(said, act, { "aria-label": about, title: about });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.replaceChildren(
    make("label", {}, "seed", seed), make("label", {}, "clients", clients), make("label", {}, "of", attackers),
    make("label", {}, "lane height", height),
    make("fieldset", { "aria-label": "Zoom" }, sign("−", "Show more time", () => zoom(2)), sign("+", "Show less time", () => zoom(0.5)),
      sign("◂", "Earlier", () => pan(-0.5)), sign("▸", "Later", () => pan(0.5)), sign("whole run", "Show the whole run", showAll)),
    make("fieldset", { class: "row", id: "density", hidden: true }),
    make("fieldset", { class: "row", id: "fates" }, make("legend", {}, "tasks")),
    make("fieldset", { class: "row", id: "marks" }, make("legend", {}, "marks")),
    make("fieldset", { class: "row", id: "phases" }, make("legend", {}, "bars"),
      ...PHASE_LEGEND.filter(([colour]) => occurs(colour)).map(([colour, said]) => make("label", {}, make("i", { style: `background: var(--${colour})` }), said)),
      make("label", {}, "pale: its update was not used")));
  buildLayers();
  countFilters();
}

// Whether anything is drawn in a colour that not every run needs.
function occurs(colour) {
  const seeds = model.runs.flatMap((run) => run.seeds);
  if (colour === "scoring") return seeds.some((seed) => seed.requests.client.length);
  if (colour === "banned") return seeds.some((seed) => seed.bannedAt.size);
  const left = model.kinds.indexOf("went_offline");
  return colour !== "off" || seeds.some((seed) => seed.events.kind.includes(left));
}

// Boxes for the fates and marks that occur, with how often they do in what else is chosen.
function countFilters() {
  const fates = new Map(), marks = new Map();
  for (const run of runNumbers()) {
    const seed = seedIn(run);
    for (const client of shownClients) {
      for (const i of seed.lanes.of(client)) add(fates, model.fates[seed.tasks.fate[i]]);
      for (const row of seed.marks.of(client)) add(marks, model.kinds[seed.events.kind[row]]);
    }
  }
  boxes("fates", model.fates.filter((fate) => fates.has(fate)), fates, "hiddenFates", () => "");
  boxes("marks", MARKS.filter((kind) => marks.has(kind)), marks, "hiddenMarks", (kind) => {
    const shape = make("canvas", { width: 28, height: 28, style: "width: 14px; height: 14px", "aria-hidden": "true" });
    const context = shape.getContext("2d");
    context.scale(2, 2);
    drawMark(context, kind, 7, 7, 5);
    return shape;
  });

  function add(counts, name) { counts.set(name, (counts.get(name) || 0) + 1); }
}

function boxes(id, names, counts, hidden, shape) {
  const focused = document.activeElement?.dataset?.name;
  const legend = byId(id).firstChild;
  byId(id).hidden = !names.length || isDense();
  byId(id).replaceChildren(legend, ...names.map((name) => {
    const box = make("input", { type: "checkbox", checked: !state[hidden].includes(name), "data-name": name, onchange: (event) => {
      const others = state[hidden].filter((one) => one !== name);
      choose({ [hidden]: event.target.checked ? others : [...others, name] });
    } });
    return make("label", { "data-of": name }, box, shape(name), `${COUNTED[id][name] || spoken(name)} ${number(counts.get(name))}`);
  }));
  if (focused && names.includes(focused)) byId(id).querySelector(`[data-name="${focused}"]`).focus();
}

// Take a choice of the reader's over; `anew`: what is drawn is of another seed.
function choose(changes, anew = false) {
  Object.assign(state, changes);
  if (anew) { state.followed = state.cursor = state.cell = null; showDetails(); }
  chooseClients();
  if (anew) { showAll(); buildLayers(); }
  countFilters();
  count();
  redraw();
}

// One sentence: how many tasks and marks are shown.
function count() {
  if (isDense()) { countDense(); return; }
  let [tasks, marks] = [0, 0];
  for (const run of runNumbers()) {
    const seed = seedIn(run);
    for (const client of shownClients) {
      for (const i of seed.lanes.of(client)) tasks += fateShown(seed, i);
      for (const row of seed.marks.of(client)) marks += markShown(seed, row);
    }
  }
  byId("counts").textContent = `${many(tasks, "task")} and ${many(marks, "mark")} of ${many(shownClients.length, "client")} shown`;
}
