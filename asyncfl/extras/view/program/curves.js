// The curves below the lanes, on the same time axis: version, buffer fill, staleness, accuracy, epsilon, traffic.

const PANEL = 76;
const CURVES = [
  { name: "version", lines: [{ of: "version", said: "published", colour: "text", steps: true }] },
  { name: "buffer fill", unit: "updates", lines: [{ of: "fill", at: "fill_time", said: "held", colour: "upload", steps: true },
    { of: "waiting_max", said: "waiting for the server", colour: "bad", dash: [2, 3], none: 0 }] },
  { name: "staleness", unit: "versions", lines: [{ of: "staleness_mean", said: "mean", colour: "training" },
    { of: "staleness_max", said: "oldest", colour: "bad", dash: [2, 3], none: -1 }] },
  { name: "accuracy", unit: "of 1", lines: [{ of: "test_accuracy", said: "on the test set", colour: "good" },
    { of: "test_r2", said: "R², on the test set", colour: "good" }] },
  { name: "epsilon", wide: true, lines: [{ of: "epsilon_naive_max", said: "claimed", colour: "soft", dash: [7, 4], steps: true },
    { of: "epsilon_exact_max", said: "server, exact if the sensitivity holds", colour: "training", steps: true },
    { of: "epsilon_exact_overheard_max", said: "tap, the same", colour: "heard", dash: [2, 3], steps: true },
    { of: "measured", at: "measured_time", said: "measured", colour: "bad", steps: true }] },
  { name: "traffic", bytes: true, lines: [{ of: "bytes_up", said: "up", colour: "upload" },
    { of: "bytes_down", said: "down", colour: "training", dash: [7, 4] }] },
];

// Epsilon has no panel where no run has privacy and none was audited.
const shownCurves = () => CURVES.filter((curve) => curve.name !== "epsilon" || model.runs.some((run) => run.private));

let pointer = null; // virtual second that the mouse points at

// The known points of a line, and those of them that can be drawn: finite ones, where not all but zeros are infinite.
function pointsOf(line, curves) {
  const [values, times] = [curves[line.of], curves[line.at || "time"]];
  if (!values || !times) return null;
  const known = [];
  for (let i = 0; i < values.length; i++) if (!Number.isNaN(values[i]) && values[i] !== line.none) known.push([times[i], values[i]]);
  const infinite = known.some((point) => point[1] === Infinity);
  const finite = known.filter((point) => Number.isFinite(point[1]));
  return known.length ? { known, points: infinite && finite.every((point) => point[1] === 0) ? [] : finite, infinite } : null;
}

function drawCurves() {
  const shown = shownCurves();
  const { context, width, height, left } = sized(byId("curves"), PANEL * shown.length + 6);
  const scale = scaleX(width);
  shown.forEach((curve, place) => drawPanel(context, scale, curve, place * PANEL, left, width));
  drawGuides(context, scale, height, left, width);
  if (pointer !== null) {
    const x = scale.x(pointer);
    context.fillStyle = colours.soft;
    if (x >= left) context.fillRect(x, 0, 1, height);
  }
}

function drawPanel(context, scale, curve, top, left, width) {
  const drawn = runNumbers().flatMap((run) => curve.lines.map((line) => ({ run, line, found: pointsOf(line, seedIn(run).curves) })))
    .filter((one) => one.found);
  context.fillStyle = colours.line;
  context.fillRect(0, top + PANEL - 1, width, 1);
  context.fillStyle = colours.text;
  context.textAlign = "left";
  context.fillText(curve.name, 9, top + 14);
  if (!drawn.some((one) => one.found.points.length)) {
    context.fillStyle = colours.soft;
    const unbounded = drawn.length ? "infinite: nothing hides what was released" : "not known before a seed is finished";
    context.fillText(curve.name === "epsilon" ? unbounded : "not measured", left + 4, top + PANEL / 2);
    return;
  }
  const range = rangeOf(curve, drawn);
  const [bottom, high] = [top + PANEL - 6, PANEL - 28];
  const y = (value) => bottom - high * (range.of(value) - range.of(range.low)) / (range.of(range.high) - range.of(range.low));
  context.fillStyle = colours.soft;
  const unit = range.log ? "log scale" : curve.unit;
  if (unit && left > 100) context.fillText(unit, 9, top + 30);
  context.textAlign = "right";
  const said = (value) => curve.bytes ? amount(value) : number(value, 3);
  context.fillText(said(range.high), left - 6, y(range.high) + 1);
  context.fillText(said(range.low), left - 6, y(range.low) - 4);
  clipped(context, left, top, width - left, PANEL, () => {
    context.fillStyle = colours.line;
    for (const value of [range.low, range.high]) context.fillRect(left, y(value), width, 1);
    for (const one of drawn) drawLine(context, scale, y, one);
  });
  legend(context, curve, drawn, left, top, width);
}

// From zero to the largest value; powers of ten where values lie further apart.
function rangeOf(curve, drawn) {
  const values = drawn.flatMap((one) => one.found.points.map((point) => point[1]));
  let [low, high] = [0, 0];
  for (const value of values) { high = Math.max(high, value); low = Math.min(low, value); }
  const positive = values.filter((value) => value > 0);
  const least = positive.reduce((one, other) => Math.min(one, other), high);
  if (curve.wide && least > 0 && high / least > 100) {
    const floor = 10 ** Math.floor(Math.log10(least));
    return { low: floor, high: high * 1.1, log: true, of: (value) => Math.log10(Math.max(value, floor)) };
  }
  if (high === low) high = low + 1;
  return { low, high, of: (value) => value };
}

const colourOf = (run, line) => colours[model.compared ? RUN_COLOURS[run] : line.colour];

function drawLine(context, scale, y, { run, line, found }) {
  const points = [];
  let [before, lastX] = [null, -Infinity];
  for (const [time, value] of found.points) {
    const [x, at] = [scale.x(time), y(value)];
    if (line.steps && before !== null) points.push([x, before]);
    if (x - lastX > 0.3 || at !== before) points.push([x, at]);
    [before, lastX] = [at, x];
  }
  if (line.steps && before !== null) points.push([scale.x(seedIn(run).end), before]);
  stroke(context, colourOf(run, line), points, { dash: line.dash, wide: 1.6 });
  if (found.points.length === 1) context.fillRect(lastX - 2, before - 2, 4, 4);
}

// What the lines are, of one run or of both, and their values where the mouse points.
function legend(context, curve, drawn, left, top, width) {
  let x = left + 4;
  context.textAlign = "left";
  for (const line of curve.lines) {
    const same = drawn.filter((one) => one.line === line);
    const values = same.map(({ found }) => pointer === null ? null : valueAt(found.known, pointer))
      .map((value) => value === null ? "" : curve.bytes ? amount(value, 4) : number(value, 4));
    const value = values.some(Boolean) ? ` ${values.map((one) => one || "–").join(" | ")}` : "";
    const text = `${line.said}${!value && same.some(({ found }) => found.infinite) ? " ∞" : ""}${value}`;
    const wide = context.measureText(text).width;
    if (!same.length || x + wide + 30 > width) continue;
    same.forEach(({ run }, place) => {
      const y = top + 11 + 4 * (place - (same.length - 1) / 2);
      stroke(context, colourOf(run, line), [[x, y], [x + 18, y]], { dash: line.dash, wide: 2 });
    });
    context.fillStyle = colours.text;
    context.fillText(text, x + 23, top + 11);
    x += wide + 40;
  }
}

const valueAt = (points, time) => points.findLast((point) => point[0] <= time)?.[1] ?? null;
