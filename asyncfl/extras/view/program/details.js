// What there is to say of a task: in the box beside the mouse, and of the one that is followed, event by event.

const detailOf = (events, row) => events.detail.names[events.detail.of[row]];
const runName = (run) => model.compared ? ` · ${run ? "second" : "first"} run` : "";

function headline({ run, seed, i }) {
  const { tasks } = seed;
  return `task ${tasks.task[i]} of client ${tasks.client[i]}, ${spoken(model.fates[tasks.fate[i]])}${runName(run)}`;
}

// Pairs of a word and what there is to say, everything that is known of a task.
function factsOf({ seed, i }) {
  const { tasks } = seed;
  const fate = model.fates[tasks.fate[i]];
  const facts = [["client", `${tasks.client[i]}${seed.attackers.has(tasks.client[i]) ? ", an attacker" : ""}`
    + (seed.samples ? `, ${many(seed.samples[tasks.client[i]], "sample")}` : "")]];
  facts.push(["was sent", `version ${tasks.base_version[i]} at ${seconds(tasks.dispatched[i])}`]);
  for (const [phase, began, ended] of PHASES) {
    const [from, to] = [tasks[began][i], tasks[ended][i]];
    if (!Number.isNaN(from)) facts.push([phase, Number.isNaN(to) ? `not finished, from ${seconds(from)}` : seconds(to - from, 4)]);
  }
  const traffic = (bytes, attempts) => `${amount(bytes)}${attempts > 1 ? ` in ${attempts} transmissions` : ""}`;
  if (tasks.attempts_down[i]) facts.push(["sent down", traffic(tasks.bytes_down[i], tasks.attempts_down[i])]);
  if (tasks.attempts_up[i]) facts.push(["sent up", traffic(tasks.bytes_up[i], tasks.attempts_up[i])]);
  if (tasks.overheard[i]) facts.push(["the tap holds", many(tasks.overheard[i], "message")]);
  if (tasks.held[i] && !Number.isNaN(tasks.settled[i])) facts.push(["waited", seconds(tasks.settled[i] - tasks.uploaded[i], 4)]);
  facts.push(["fate", spoken(fate) + (Number.isNaN(tasks.settled[i]) ? "" : ` at ${seconds(tasks.settled[i])}`)]);
  if (tasks.staleness[i] >= 0) facts.push(["staleness", many(tasks.staleness[i], "version")]);
  if (fate === "aggregated") facts.push(["went into", `version ${tasks.making[i]} with weight ${number(tasks.weight[i])}`]);
  return facts;
}

const listed = (facts) => make("dl", {}, ...facts.flatMap(([word, said]) => [make("dt", {}, word), make("dd", {}, said)]));

function showTip(found, clientX, clientY) {
  const tip = byId("tip");
  tip.hidden = !found || (found.i === null && !found.marks.length);
  if (tip.hidden) return;
  const { seed, marks, i } = found;
  const said = marks.slice(0, 4).map((row) => {
    const detail = detailOf(seed.events, row);
    const kind = model.kinds[seed.events.kind[row]];
    return `${spoken(kind)} at ${seconds(seed.events.time[row])}${detail ? `: ${spoken(detail)}` : ""}`;
  });
  tip.replaceChildren(...(i === null ? [] : [make("b", {}, headline(found)), listed(factsOf(found))]),
    ...said.map((text) => make("div", {}, text)));
  placeTip(tip, clientX, clientY);
}

function placeTip(tip, clientX, clientY) {
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(clientX + 14, window.innerWidth - box.width - 8))}px`;
  tip.style.top = `${clientY + 18 + box.height > window.innerHeight ? Math.max(4, clientY - box.height - 12) : clientY + 18}px`;
}

// All that happened to a task, in order: its phases, its events, and what belongs to its fate.
function stepsOf({ seed, i }) {
  const { tasks, events, curves } = seed;
  const kindOf = (row) => model.kinds[events.kind[row]];
  const [number_, client] = [tasks.task[i], tasks.client[i]];
  const fate = model.fates[tasks.fate[i]];
  const steps = [{ time: tasks.dispatched[i], event: "dispatched", said: `version ${tasks.base_version[i]} to client ${client}` }];
  for (const [phase, began, ended] of PHASES) {
    const [from, to] = [tasks[began][i], tasks[ended][i]];
    if (!Number.isNaN(from)) steps.push({ time: from, event: spoken(began), said: "" });
    if (Number.isNaN(to)) continue;
    const [bytes, attempts] = { download: [tasks.bytes_down[i], tasks.attempts_down[i]], upload: [tasks.bytes_up[i],
      tasks.attempts_up[i]] }[phase] || [0, 0];
    const sent = bytes ? `${number(bytes)} bytes sent${attempts > 1 ? ` in ${attempts} transmissions` : ""}` : "";
    steps.push({ time: to, event: spoken(ended), said: sent, took: to - from });
  }
  for (let row = 0; row < events.time.length; row++) {
    const own = events.task[row] === number_;
    const ban = kindOf(row) === "banned" && events.client[row] === client && events.time[row] === tasks.settled[i];
    const over = fate === "unfinished" && kindOf(row) === "stopped";
    if (own || ban || over) steps.push({ time: events.time[row], event: spoken(kindOf(row)), said: saidOf(events, row, kindOf(row)) });
  }
  if (fate === "aggregated") {
    const weight = `weight ${number(tasks.weight[i])}, ${many(tasks.staleness[i], "version")} stale`;
    if (!steps.some((step) => step.event === "aggregated")) steps.push({ time: tasks.settled[i], event: "aggregated", said: weight });
    const place = curves.version.indexOf(tasks.making[i]);
    if (place >= 0) steps.push({ time: curves.time[place], event: "published", said: `version ${tasks.making[i]}` });
  }
  const requests = seed.requests;
  for (let n = 0; n < requests.making.length; n++) {
    if (requests.making[n] !== tasks.making[i] || Number.isNaN(tasks.staleness[i]) || tasks.staleness[i] < 0) continue;
    steps.push({ time: requests.ended[n], event: "scored", took: requests.ended[n] - requests.began[n],
      said: `client ${requests.client[n]}: ${requests.said.names[requests.said.of[n]]}` });
  }
  return steps.map((step, place) => ({ ...step, place })).sort((one, other) => one.time - other.time || one.place - other.place);
}

function saidOf(events, row, kind) {
  const said = [];
  const detail = detailOf(events, row);
  if (detail) said.push(["up", "down"].includes(detail) ? `on the way ${detail}` : spoken(detail));
  if (kind === "retransmitted") said.push(`transmission ${events.attempt[row]}`);
  else if (events.attempt[row] > 1) said.push(`in ${events.attempt[row]} transmissions`);
  if (events.bytes[row] >= 0) said.push(`${number(events.bytes[row])} bytes`);
  if (events.staleness[row] >= 0) said.push(`staleness ${events.staleness[row]}`);
  return said.join(", ");
}

function showDetails() {
  const panel = byId("details");
  const found = placeOf(state.followed);
  if (!found) { panel.replaceChildren(); return; }
  const go = (step) => () => follow(neighbour(found, step));
  const head = ["event", "time / s", "after / s", "took / s"];
  const steps = stepsOf(found);
  const begun = steps[0].time;
  const rows = steps.map((step) => [[step.event, ...(step.said ? [make("small", {}, step.said)] : [])], trimmed(step.time, 7),
    trimmed(step.time - begun, 4), step.took === undefined ? "" : trimmed(step.took, 4)]);
  panel.replaceChildren(make("h2", {}, headline(found)),
    make("div", { class: "steps" }, button("← earlier task", go(-1)), button("later task →", go(1)), button("let go", () => follow(null))),
    listed(factsOf(found)), make("h2", {}, many(steps.length, "event")), tableOf(head, rows, true));
}

// The task before or after one in its lane, of those that are shown.
function neighbour({ run, seed, i }, step) {
  const lane = seed.lanes.of(seed.tasks.client[i]);
  for (let place = lane.indexOf(i) + step; place >= 0 && place < lane.length; place += step)
    if (fateShown(seed, lane[place])) return { run, task: seed.tasks.task[lane[place]] };
  return { run, task: seed.tasks.task[i] };
}

function follow(chosen) {
  state.followed = chosen;
  if (chosen) state.cursor = chosen;
  showDetails();
  if (chosen) bringIntoView(chosen);
  showTip(null);
  const found = placeOf(chosen);
  if (found) moveAbovePanel(found);
  byId("live").textContent = found ? `Following ${headline(found)}` : "Following no task";
  redraw();
}

// On a narrow page the panel lies over the lanes: the lane of its task is moved above it.
function moveAbovePanel(found) {
  const [panel, lanes] = [byId("details").getBoundingClientRect(), byId("scroll").getBoundingClientRect()];
  const bottom = lanes.top - byId("scroll").scrollTop + (shownClients.indexOf(found.seed.tasks.client[found.i]) + 1) * laneHeight();
  if (panel.left < lanes.right && bottom > panel.top) window.scrollBy(0, bottom - panel.top + 8);
}

function bringIntoView(chosen) {
  const found = placeOf(chosen);
  if (!found) return;
  showLane(shownClients.indexOf(found.seed.tasks.client[found.i]), laneHeight());
  const [from, to] = [found.seed.tasks.dispatched[found.i], endOf(found.seed, found.i)];
  const width = state.to - state.from;
  if (to < state.from || from > state.to) setWindow((from + to - width) / 2, (from + to + width) / 2);
}
