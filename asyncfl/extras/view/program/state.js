// What the reader has chosen. It stands behind # in the address, so that a page that loads itself again keeps it.

const state = {
  seed: 0, from: 0, to: 1, whole: true, laneHeight: 0, theme: "", attackers: "all", clients: "",
  hiddenFates: [], hiddenMarks: [], table: "summary", tableRun: 0, sortBy: "", sortDown: false, scroll: 0,
  followed: null, // {run, task}: number of a task of the chosen seed
  cursor: null, // the same, where the keyboard is
  layer: "all", // what a density is of
  cell: null, // {lane, span}: where the keyboard is in a density
};
const REMEMBERED = Object.keys(state).filter((name) => name !== "cursor" && name !== "cell");

let model;
let shownClients = [];
let redraw = () => {};

// Take over what stands in the address; whether there was anything.
function recall() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const name of REMEMBERED) if (typeof kept[name] === typeof state[name]) state[name] = kept[name];
    return true;
  } catch { return false; /* nothing is kept, or not by this page */ }
}

function remember() {
  const kept = Object.fromEntries(REMEMBERED.map((name) => [name, state[name]]));
  try {
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  } catch { /* a page inside another may have no address of its own */ }
}

// The chosen seed of a run; of the second run its only one where numbers differ.
function seedIn(run) {
  const pair = model.compared && run === 1 && model.compared.seeds.find((one) => one.seed === state.seed);
  const wanted = pair ? pair.other_seed : state.seed;
  return model.runs[run].seeds.find((one) => one.seed === wanted) || null;
}

const runNumbers = () => [...model.runs.keys()].filter((run) => seedIn(run));

// Whether the page knows no more of a run than its window: of others it knows a density, or all.
const isCut = (run) => model.runs[run].window && !seedIn(run).density;

function wholeEnd() {
  return Math.max(...runNumbers().map((run) => isCut(run) ? lastShown(seedIn(run)) : seedIn(run).end), 1e-6);
}

const lastShown = (seed) => Math.min(seed.end, seed.tasks.task.reduce((last, _, i) => Math.max(last, endOf(seed, i)), 0));

function wholeStart() {
  const starts = runNumbers().filter(isCut)
    .map((run) => seedIn(run).tasks.dispatched.reduce((least, at) => Math.min(least, at), Infinity));
  return starts.length === runNumbers().length && starts.length ? Math.min(...starts) : 0;
}

// When a client was done with a task; tasks that never ended last as long as the trace.
function endOf(seed, i) {
  const left = seed.tasks.left[i];
  return Number.isNaN(left) ? seed.end : left;
}

function setWindow(from, to) {
  const [first, last] = [wholeStart(), wholeEnd()];
  const least = (last - first) * 1e-6;
  const width = Math.min(Math.max(to - from, least), last - first);
  state.from = Math.min(Math.max(from, first), last - width);
  state.to = state.from + width;
  state.whole = width >= last - first;
  redraw();
}

const zoom = (factor, around = (state.from + state.to) / 2) =>
  setWindow(around - (around - state.from) * factor, around + (state.to - around) * factor);
const pan = (share) => setWindow(state.from + (state.to - state.from) * share, state.to + (state.to - state.from) * share);
const showAll = () => setWindow(wholeStart(), wholeEnd());

// The span in which tasks can be seen one by one in all runs that are shown, where not all can; null: all can.
function heldSpan() {
  const spans = runNumbers().map((run) => seedIn(run).held).filter(Boolean);
  return spans.length ? [Math.max(...spans.map((span) => span[0])), Math.min(...spans.map((span) => span[1]))] : null;
}

// Whether a density is drawn in place of tasks, as not all that are in view are here.
function isDense() {
  const held = heldSpan();
  const near = 1e-9 * wholeEnd();
  return held !== null && (state.from < held[0] - near || state.to > held[1] + near);
}

// Clients whose lanes are shown: "3, 7-12" names some, empty all. null: it cannot be read.
function clientsNamed(text, clients) {
  if (!text.trim()) return [...Array(clients).keys()];
  const chosen = new Set();
  for (const part of text.split(",")) {
    const found = part.trim().match(/^(\d+)(?:\s*-\s*(\d+))?$/);
    if (!found) return null;
    const last = Math.min(Number(found[2] ?? found[1]), clients - 1);
    for (let client = Number(found[1]); client <= last; client++) chosen.add(client);
  }
  return [...chosen].sort((one, other) => one - other);
}

function chooseClients() {
  const clients = Math.max(...model.runs.map((run) => run.clients));
  const attacks = (client) => runNumbers().some((run) => seedIn(run).attackers.has(client));
  shownClients = (clientsNamed(state.clients, clients) || []).filter((client) =>
    state.attackers === "all" || (state.attackers === "only") === attacks(client));
}

const fateShown = (seed, i) => !state.hiddenFates.includes(model.fates[seed.tasks.fate[i]]);

// Whether an event's mark is shown: its kind is, and the task that it is of.
function markShown(seed, row) {
  if (state.hiddenMarks.includes(model.kinds[seed.events.kind[row]])) return false;
  const task = seed.events.task[row];
  const place = task < 0 ? undefined : seed.place.get(task);
  return place === undefined ? task < 0 : fateShown(seed, place);
}
