// The time axis with the server's row, and a lane for each client.

const AXIS_HEIGHT = 44;
const RUN_COLOURS = ["first", "second"]; // of two runs

function drawAxis() {
  const { context, width, height, left } = sized(byId("axis"), AXIS_HEIGHT);
  const scale = scaleX(width);
  const { ticks, step } = ticksBetween(state.from, state.to, Math.max(2, (width - left) / 90));
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.fillText("virtual s", 8, 11);
  context.fillText("server", 8, 32);
  context.textAlign = "center";
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  let free = left - 30;
  for (const tick of ticks) {
    const [x, text] = [scale.x(tick), tick.toFixed(Math.min(places, 9))];
    const wide = context.measureText(text).width / 2 + 5;
    if (x - wide < free || x + wide > width) continue;
    context.fillText(text, x, 11);
    context.fillRect(x, 19, 1, 4);
    free = x + wide;
  }
  for (const run of runNumbers()) drawServer(context, scale, run, width, left);
  drawGuides(context, scale, height, left, width);
}

// Published versions, the time that aggregations and scoring took, and what else the server did.
function drawServer(context, scale, run, width, left) {
  const seed = seedIn(run);
  const { curves, events, requests } = seed;
  const rows = runNumbers().length;
  const [top, high] = [24 + 18 * run / rows, 18 / rows - 1];
  const bar = (colour, from, to) => {
    const x = scale.x(from);
    context.fillStyle = colour;
    context.fillRect(x, top + 2, Math.max(1, scale.x(to) - x), high - 4);
  };
  clipped(context, left, 0, width - left, AXIS_HEIGHT, () => {
    requests.began.forEach((began, i) => bar(colours.scoring, began, requests.ended[i]));
    for (const row of seed.aggregations)
      bar(colours.good, events.time[row], curves.time[curves.version.indexOf(events.version[row] + 1)] ?? seed.end);
    context.fillStyle = rows > 1 ? colours[RUN_COLOURS[run]] : colours.text;
    let last = -9;
    for (const at of curves.time) {
      const x = Math.round(scale.x(at));
      if (x > last + 1) { context.fillRect(x, top, 1, high); last = x; }
    }
    context.fillStyle = colours.bad;
    for (const row of seed.serverMarks) {
      const x = scale.x(events.time[row]);
      context.beginPath();
      context.moveTo(x - 3, top); context.lineTo(x + 3, top); context.lineTo(x, top + 6);
      context.fill();
    }
  });
}

// Where the runs first differ, and where the update that is followed was settled.
function drawGuides(context, scale, height, left, width) {
  const line = (time, colour, dash) => {
    const x = Math.round(scale.x(time)) + 0.5; // not drawn where the time is NaN
    if (x >= left && x <= width) stroke(context, colours[colour], [[x, 0], [x, height]], { dash });
  };
  const apart = model.compared?.seeds.find((one) => one.seed === state.seed);
  if (apart && apart.first !== null) line(apart.first / 1e6, "bad", [6, 3]);
  const followed = placeOf(state.followed);
  if (followed) line(followed.seed.tasks.settled[followed.i], "focus", [3, 3]);
}

function placeOf(chosen) {
  const seed = chosen && model.runs[chosen.run] && seedIn(chosen.run);
  const i = seed ? seed.place.get(chosen.task) : undefined;
  return i === undefined ? null : { run: chosen.run, seed, i };
}

// Heights: a lane holds the same client of one run, or of both below each other.
const laneHeight = () => {
  if (state.laneHeight) return state.laneHeight;
  const [least, most] = runNumbers().length > 1 ? [14, 40] : [8, 26];
  return Math.max(least, Math.min(most, Math.floor(440 / Math.max(1, shownClients.length))));
};

function layLanes() {
  const whole = isDense() ? denseHeight() * Math.max(1, groupsShown().length) : laneHeight() * Math.max(1, shownClients.length);
  byId("tall").style.height = `${whole}px`;
  byId("scroll").style.height = `${Math.min(whole + 2, Math.max(160, window.innerHeight * 0.58))}px`;
}

function drawLanes() {
  layLanes();
  if (isDense()) { drawDensity(); return; }
  const scroll = byId("scroll");
  const { context, width, height, left } = sized(byId("lanes"), scroll.clientHeight);
  const [scale, high] = [scaleX(width), laneHeight()];
  const runs = runNumbers();
  const first = Math.floor(scroll.scrollTop / high);
  const followed = placeOf(state.followed);
  const rects = new Map(); // colour and strength -> x, y, width, height, ...
  const marks = [];
  const visible = shownClients.slice(first, first + Math.ceil(height / high) + 1);
  visible.forEach((client, number) => {
    const top = (first + number) * high - scroll.scrollTop;
    if ((first + number) % 2) { context.fillStyle = colours.stripe; context.fillRect(0, top, width, high); }
    for (const run of runs) {
      const lane = { client, run, top: top + high * run / runs.length, high: high / runs.length };
      drawAway(context, scale, lane, left, width);
      gather(rects, marks, lane, scale, width, followed);
    }
  });
  visible.forEach((client, number) => drawLabel(context, client, (first + number) * high - scroll.scrollTop, high, left, first + number));
  clipped(context, left, 0, width - left, height, () => {
    for (const [key, list] of rects) {
      const [colour, strength] = key.split("@");
      context.globalAlpha = Number(strength);
      context.fillStyle = colours[colour];
      for (let n = 0; n < list.length; n += 4) context.fillRect(list[n], list[n + 1], list[n + 2], list[n + 3]);
    }
    for (const mark of marks) {
      context.globalAlpha = mark.faded ? 0.15 : 1;
      if (mark.radius >= 2.2) { drawMark(context, mark.kind, mark.x, mark.y, mark.radius); continue; }
      context.fillStyle = colours[MARK_COLOURS[mark.kind]];
      // What the tap caught is a dot at the upper edge.
      context.fillRect(mark.x - 0.75, mark.y - 3, 1.5, mark.kind === "overheard" ? 1.6 : 6);
    }
    context.globalAlpha = 1;
    drawGuides(context, scale, height, left, width);
    for (const [chosen, colour] of [[state.cursor, "text"], [state.followed, "focus"]]) frame(context, scale, chosen, colour, high);
  });
}

// The run of a point within a lane: lanes hold the runs below each other.
function runAt(place) {
  const runs = runNumbers();
  return runs[Math.min(runs.length - 1, Math.floor((place % 1) * runs.length))];
}

// Scroll to a lane of that height.
function showLane(lane, high) {
  const [scroll, top] = [byId("scroll"), lane * high];
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + high > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + high - scroll.clientHeight;
}

function drawLabel(context, client, top, high, left, place) {
  const attacks = runNumbers().some((run) => seedIn(run).attackers.has(client));
  if (attacks) { context.fillStyle = colours.bad; context.fillRect(0, top + 1, 4, high - 2); }
  if (runNumbers().length > 1) {
    for (const run of runNumbers()) {
      context.fillStyle = colours[RUN_COLOURS[run]];
      context.fillRect(left - 4, top + high * run / 2 + 1, 3, high / 2 - 2);
    }
  }
  // Where lanes are low not every number has a place.
  const every = Math.ceil(13 / high);
  if (place % every) return;
  context.fillStyle = attacks ? colours.bad : colours.text;
  context.textAlign = "left";
  context.fillText(attacks ? `${client} ${left > 100 ? "attacker" : "att."}` : `${client}`, 9, top + Math.max(high, 12) / 2);
}

function drawAway(context, scale, lane, left, width) {
  const seed = seedIn(lane.run);
  const span = (from, to, colour) => {
    const x = Math.max(left, scale.x(from));
    const wide = Math.min(width, scale.x(to)) - x;
    if (wide > 0) { context.fillStyle = colours[colour]; context.fillRect(x, lane.top + 1, wide, lane.high - 2); }
  };
  for (const [from, to] of seed.offline(lane.client)) span(from, to, "off");
  if (seed.bannedAt.has(lane.client)) span(seed.bannedAt.get(lane.client), seed.end, "banned");
}

const used = (seed, i) => model.fates[seed.tasks.fate[i]] === "aggregated" && seed.tasks.weight[i] > 0;

function gather(rects, marks, lane, scale, width, followed) {
  const seed = seedIn(lane.run);
  const { tasks } = seed;
  const put = (colour, strength, ...rect) => {
    const key = `${colour}@${strength}`;
    if (!rects.has(key)) rects.set(key, []);
    rects.get(key).push(...rect);
  };
  // The phases have heights of their own, too.
  const inset = { download: 0.3, training: 0.12, upload: 0.22 };
  const drawn = { download: -1, training: -1, upload: -1 };
  for (const i of seed.lanes.of(lane.client)) {
    if (tasks.dispatched[i] > state.to) break;
    const end = endOf(seed, i);
    if (end < state.from || !fateShown(seed, i)) continue;
    const isFollowed = followed && followed.seed === seed && followed.i === i;
    const strength = followed && !isFollowed ? 0.14 : used(seed, i) || isFollowed ? 1 : 0.5;
    for (const [phase, began, ended] of PHASES) {
      const from = tasks[began][i];
      if (Number.isNaN(from)) continue;
      const to = Number.isNaN(tasks[ended][i]) ? end : tasks[ended][i];
      const x = Math.max(scale.x(from), -5);
      const wide = Math.max(Math.min(scale.x(to), width + 5) - x, 0.8);
      if (x + wide <= drawn[phase] && !isFollowed) continue; // nothing of it would be seen
      drawn[phase] = Math.ceil(x + wide);
      const gap = lane.high * inset[phase];
      put(phase, strength, x, lane.top + gap, wide, lane.high - 2 * gap);
    }
    if (isFollowed && !Number.isNaN(tasks.settled[i]) && tasks.settled[i] > tasks.uploaded[i])
      put("focus", 1, scale.x(tasks.uploaded[i]), lane.top + lane.high / 2 - 1, scale.x(tasks.settled[i]) - scale.x(tasks.uploaded[i]), 2);
  }
  const requests = seed.requests;
  for (let n = 0; n < requests.client.length; n++) {
    if (requests.client[n] !== lane.client) continue;
    const x = scale.x(requests.began[n]);
    put("scoring", followed ? 0.14 : 1, x, lane.top + lane.high - 3, Math.max(1, scale.x(requests.ended[n]) - x), 2);
  }
  gatherMarks(marks, lane, seed, scale, width, followed);
}

function gatherMarks(marks, lane, seed, scale, width, followed) {
  const { events } = seed;
  const inView = [...seed.marks.of(lane.client)].filter((row) =>
    events.time[row] >= state.from && events.time[row] <= state.to && markShown(seed, row));
  // Where marks would cover the bars they are small.
  const radius = Math.min(5, lane.high / 3, Math.max(1, width / inView.length / 4));
  const last = {};
  for (const row of inView) {
    const time = events.time[row];
    const kind = model.kinds[events.kind[row]];
    const faded = followed && !(followed.seed === seed && seed.tasks.task[followed.i] === events.task[row]);
    const x = scale.x(time);
    if (x - (last[kind] ?? -9) < 0.7 && (faded || !followed)) continue; // nothing of it would be seen
    last[kind] = x;
    marks.push({ kind, x, y: lane.top + lane.high / 2, radius, faded });
  }
}

function frame(context, scale, chosen, colour, high) {
  const found = placeOf(chosen);
  const lane = found ? shownClients.indexOf(found.seed.tasks.client[found.i]) : -1;
  if (lane < 0) return;
  const runs = runNumbers().length;
  const top = lane * high - byId("scroll").scrollTop + high * found.run / runs;
  const x = scale.x(found.seed.tasks.dispatched[found.i]);
  context.strokeStyle = colours[colour];
  context.lineWidth = 2;
  context.strokeRect(x - 2, top + 1, Math.max(scale.x(endOf(found.seed, found.i)) - x, 1) + 4, high / runs - 2);
}

// The task at a point of the lanes, and the mark there; null where there is none.
function taskAt(x, y) {
  const [width, high] = [byId("drawing").clientWidth, laneHeight()];
  if (x < leftOf(width)) return null;
  const scale = scaleX(width);
  const place = (y + byId("scroll").scrollTop) / high;
  const [client, run] = [shownClients[Math.floor(place)], runAt(place)];
  if (client === undefined || run === undefined) return null;
  const seed = seedIn(run);
  let [found, least] = [null, 4];
  for (const i of seed.lanes.of(client)) {
    const from = scale.x(seed.tasks.dispatched[i]);
    if (from > x + 4) break;
    if (!fateShown(seed, i)) continue;
    const away = Math.max(from - x, x - scale.x(endOf(seed, i)), 0);
    if (away < least || away === 0) [found, least] = [i, away];
  }
  const near = [...seed.marks.of(client)].filter((row) => markShown(seed, row) && Math.abs(scale.x(seed.events.time[row]) - x) < 5);
  return { run, seed, client, i: found, marks: near };
}
