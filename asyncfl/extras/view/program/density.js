// A run of too many tasks to draw each: how many are under way, by groups of neighbouring clients and spans of time.

const LAYERS = { all: ["tasks under way", "focus"], download: ["downloads", "download"], training: ["trainings", "training"],
  upload: ["uploads", "upload"], unused: ["tasks whose update is not used", "bad"] };

const densityIn = (run) => seedIn(run).density;
const firstDensity = () => densityIn(runNumbers()[0]);

// Numbers of the lanes in which a chosen client is.
const groupsShown = () => [...new Set(shownClients.map((client) => Math.floor(client / firstDensity().clients_per_lane)))];

const denseHeight = () => state.laneHeight || Math.max(3 * runNumbers().length, Math.min(26, Math.floor(440 / Math.max(1, groupsShown().length))));
const layerMost = () => Math.max(...runNumbers().map((run) => densityIn(run).layers[state.layer].most), 1e-9);

function clientsOf(lane) {
  const { clients_per_lane } = firstDensity();
  const last = Math.min((lane + 1) * clients_per_lane, Math.max(...model.runs.map((run) => run.clients))) - 1;
  const first = lane * clients_per_lane;
  return first === last ? `${first}` : `${first}–${last}`;
}

function timesOf({ span, run = runNumbers()[0] }) {
  const { span_s } = densityIn(run);
  return [span * span_s, (span + 1) * span_s];
}

function drawDensity() {
  const scroll = byId("scroll");
  const { context, width, height, left } = sized(byId("lanes"), scroll.clientHeight);
  const [scale, high, runs, groups] = [scaleX(width), denseHeight(), runNumbers(), groupsShown()];
  const first = Math.floor(scroll.scrollTop / high);
  const visible = groups.slice(first, first + Math.ceil(height / high) + 1);
  const every = Math.ceil(13 / high);
  const most = layerMost();
  context.fillStyle = colours.text;
  visible.forEach((lane, number) => {
    if ((first + number) % every) return;
    context.fillText(clientsOf(lane), 9, (first + number) * high - scroll.scrollTop + Math.max(high, 12) / 2);
  });
  const frame = (from, to, top, bottom, colour, how) => stroke(context, colour,
    [[from, top], [to, top], [to, bottom], [from, bottom], [from, top]], how);
  clipped(context, left, 0, width - left, height, () => {
    visible.forEach((lane, number) => {
      for (const run of runs) {
        const density = densityIn(run);
        context.fillStyle = colours[runs.length > 1 ? RUN_COLOURS[run] : LAYERS[state.layer][1]];
        const top = (first + number) * high - scroll.scrollTop + high * run / runs.length;
        const last = Math.min(density.spans - 1, Math.floor(state.to / density.span_s));
        for (let span = Math.max(0, Math.floor(state.from / density.span_s)); span <= last; span++) {
          const value = density.value(state.layer, lane, span);
          if (!value) continue;
          const x = scale.x(span * density.span_s);
          context.globalAlpha = 0.06 + 0.94 * value / most;
          context.fillRect(x, top, scale.x((span + 1) * density.span_s) - x, high / runs.length - (high > 8 ? 1 : 0));
        }
      }
    });
    context.globalAlpha = 1;
    frame(...heldSpan().map(scale.x), 1, height - 1, colours.focus, { dash: [4, 3] });
    drawGuides(context, scale, height, left, width);
    if (!state.cell) return;
    const [[from, to], top] = [timesOf(state.cell).map(scale.x), groups.indexOf(state.cell.lane) * high - scroll.scrollTop];
    frame(from - 1, to + 1, top, top + high, colours.text, { wide: 2 });
  });
}

// The cell at a point of the lanes; null beside them.
function cellAt(x, y) {
  const width = byId("drawing").clientWidth;
  const place = (y + byId("scroll").scrollTop) / denseHeight();
  const lane = groupsShown()[Math.floor(place)];
  const [time, run] = [scaleX(width).time(x), runAt(place)];
  const span = run === undefined ? -1 : Math.floor(time / densityIn(run).span_s);
  return x < leftOf(width) || lane === undefined || span < 0 || span >= densityIn(run).spans ? null : { lane, span, run };
}

function cellFacts({ lane, span, run }) {
  const facts = Object.entries(LAYERS).map(([layer, [said]]) => [said, number(densityIn(run).value(layer, lane, span), 3)]);
  const [from, to] = timesOf({ span, run });
  return [`clients ${clientsOf(lane)}, ${seconds(from, 5)} to ${seconds(to, 5)}${runName(run)}`, facts];
}

function showCell(cell, clientX, clientY) {
  const tip = byId("tip");
  tip.hidden = !cell;
  if (!cell) return;
  const [head, facts] = cellFacts(cell);
  tip.replaceChildren(make("b", {}, head), listed(facts), make("div", {}, "on the mean of the span, per client"));
  placeTip(tip, clientX, clientY);
}

// Show the tasks of a cell one by one where they are here; otherwise come nearer, and say how they can be had.
function openCell(cell) {
  if (!cell) return;
  showTip(null);
  const [from, to] = timesOf(cell);
  const wide = to - from;
  const held = heldSpan();
  if (to > held[0] && from < held[1]) setWindow(Math.max(held[0], from - 2 * wide), Math.min(held[1], to + 2 * wide));
  else setWindow(from - 2 * wide, to + 2 * wide);
}

function denseKeys(key) {
  const move = (lanes, spans) => () => {
    const groups = groupsShown();
    const { span_s, spans: all } = firstDensity();
    const now = state.cell || { lane: groups[0], span: Math.floor(Math.max(state.from, 0) / span_s) - spans };
    const place = Math.min(groups.length - 1, Math.max(0, groups.indexOf(now.lane) + (state.cell ? lanes : 0)));
    setCell({ lane: groups[place], span: Math.min(all - 1, Math.max(0, now.span + spans)), run: runNumbers()[0] });
  };
  const all = firstDensity().spans;
  return { ArrowLeft: move(0, -1), ArrowRight: move(0, 1), ArrowUp: move(-1, 0), ArrowDown: move(1, 0), Home: move(0, -all),
    End: move(0, all), Enter: () => openCell(state.cell), " ": () => openCell(state.cell) }[key];
}

function setCell(cell) {
  state.cell = cell;
  const [from, to] = timesOf(cell);
  if (from < state.from || to > state.to) pan((from - state.from) / (state.to - state.from) - 0.5);
  const [scroll, high, lane] = [byId("scroll"), denseHeight(), groupsShown().indexOf(cell.lane)];
  showLane(lane, high);
  pointer = from;
  redraw();
  const [head, facts] = cellFacts(cell);
  byId("live").textContent = [head, ...facts.map(([said, value]) => `${said}: ${value} per client`)].join("; ");
  const box = scroll.getBoundingClientRect();
  showCell(cell, box.left + scaleX(byId("drawing").clientWidth).x(from), box.top + (lane + 1) * high - scroll.scrollTop);
}

// What the density is of, and the way to the tasks that are here.
function buildLayers() {
  const held = heldSpan();
  if (!held) return;
  const pairs = Object.entries(LAYERS).map(([name, [said]]) => [name, said]);
  const layer = select(pairs, state.layer, (value) => choose({ layer: value }), { id: "layer" });
  byId("density").replaceChildren(make("legend", {}, "density"), make("label", {}, "of", layer), make("label", { id: "key" }),
    button(`tasks one by one: ${seconds(held[0], 5)} to ${seconds(held[1], 5)}`, () => setWindow(...heldSpan())));
}

function countDense() {
  const density = firstDensity();
  const tasks = runNumbers().reduce((sum, run) => sum + densityIn(run).tasks, 0);
  const colour = runNumbers().length > 1 ? "text" : LAYERS[state.layer][1];
  byId("key").replaceChildren("0 ", make("i", { style: `background: linear-gradient(to right, transparent, var(--${colour}))` }),
    ` ${number(layerMost(), 3)} per client`);
  const [lanes, of] = [groupsShown().length, density.lanes];
  byId("counts").textContent = `${many(tasks, "task")} as a density: ${lanes < of ? `${lanes} of ` : ""}${many(of, "lane")} of `
    + `${many(density.clients_per_lane, "client")}, ${number(density.spans)} spans of ${seconds(density.span_s, 3)}`;
}

let wasDense = null;

// Tells what is drawn now, tasks or a density, and how others of those in view can be had.
function showMode() {
  if (!heldSpan()) return;
  const dense = isDense();
  if (dense !== wasDense) {
    wasDense = dense;
    byId("density").hidden = byId("beyond").hidden = !dense;
    byId("phases").hidden = dense;
    if (dense) showTip(null);
    countFilters();
    count();
  }
  const told = (time) => String(Number(time.toPrecision(7)));
  byId("beyond").replaceChildren("A page with the tasks of what is in view: ",
    make("code", {}, `${model.command} --since ${told(state.from)} --until ${told(state.to)}`));
}
