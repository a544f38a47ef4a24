// Drawing: sizes, colours, numbers for reading, ticks, and the shapes of marks.

const byId = (id) => document.getElementById(id);

function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(key, value);
    else element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

const button = (said, act, more = {}) => make("button", { type: "button", onclick: act, ...more }, said);

function select(pairs, chosen, act, more = {}) {
  const options = pairs.map(([value, said]) => make("option", { value, selected: value === chosen }, said));
  return make("select", { onchange: (event) => act(event.target.value), ...more }, ...options);
}

// A table; `numeric`: whether all columns but the first hold numbers.
function tableOf(heads, rows, numeric = false) {
  const kind = (place) => numeric && place ? { class: "number" } : {};
  const row = (cell, cells) => make("tr", {}, ...cells.map((inside, place) => make(cell, kind(place), ...[inside].flat())));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, row("th", heads)),
    make("tbody", {}, ...rows.map((cells) => row("td", cells)))));
}

// The custom properties of page.css as colours[name].
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "line", "text", "soft", "stripe", "download", "training", "upload", "scoring", "bad", "heard",
    "good", "mark", "focus", "off", "banned", "first", "second"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

function clipped(context, x, y, width, height, draw) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  draw();
  context.restore();
}

function stroke(context, colour, points, { dash = [], wide = 1 } = {}) {
  context.strokeStyle = colour;
  context.lineWidth = wide;
  context.setLineDash(dash);
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
  context.setLineDash([]);
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif";
const leftOf = (width) => width < 700 ? 84 : 116;

// A canvas of that height, as wide as what it stands in, sharp on every screen; its context.
function sized(canvas, height) {
  const width = byId("drawing").clientWidth;
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  return { context, width, height, left: leftOf(width) };
}

function scaleX(width) {
  const left = leftOf(width);
  const perSecond = (width - left - 8) / (state.to - state.from);
  return { x: (time) => left + (time - state.from) * perSecond, time: (x) => state.from + (x - left) / perSecond };
}

// Steps of 1, 2 or 5 of a power of ten.
function stepFor(span, most) {
  const rough = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

function ticksBetween(from, to, most) {
  const step = stepFor(to - from, most);
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n++) ticks.push(n * step);
  return { ticks, step };
}

const trimmed = (value, digits) => String(Number(value.toPrecision(digits)));

function number(value, digits = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en").replaceAll("-", "−");
  return trimmed(value, digits).replace("-", "−");
}

const seconds = (value, digits = 6) => Number.isNaN(value) ? "–" : `${trimmed(value, digits)} s`;

function amount(bytes, digits = 3) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (Math.abs(bytes) >= 1000 && place < units.length - 1) { bytes /= 1000; place++; }
  return `${trimmed(bytes, digits)} ${units[place]}`;
}

const many = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;

const MARK_COLOURS = { retransmitted: "mark", lost: "bad", overheard: "heard", dropped_out: "bad", zeroed: "soft", rejected: "bad",
  flagged: "bad", discarded: "mark", banned: "mark", budget_spent: "good" };

// Each kind has a shape of its own, so that nobody needs the colours.
function drawMark(context, kind, x, y, radius) {
  const r = radius;
  context.strokeStyle = context.fillStyle = colours[MARK_COLOURS[kind]];
  context.lineWidth = Math.max(1.2, r / 2.6);
  context.beginPath();
  switch (kind) {
    case "retransmitted": context.moveTo(x, y - r); context.lineTo(x, y + r); context.stroke(); break;
    case "lost": context.moveTo(x - r, y - r); context.lineTo(x + r, y + r); context.moveTo(x + r, y - r);
      context.lineTo(x - r, y + r); context.stroke(); break;
    case "overheard": context.arc(x, y - r * 0.9, r * 0.6, 0, 7); context.fillStyle = colours.ground; context.fill(); context.stroke(); break;
    case "dropped_out": context.arc(x, y, r, Math.PI / 2, Math.PI * 1.5); context.fill(); break;
    case "zeroed": context.moveTo(x - r, y); context.lineTo(x + r, y); context.stroke(); break;
    case "rejected": context.rect(x - r, y - r, 2 * r, 2 * r); context.stroke(); break;
    case "flagged": context.moveTo(x - r * 0.7, y + r); context.lineTo(x - r * 0.7, y - r); context.lineTo(x + r, y - r * 0.4);
      context.lineTo(x - r * 0.7, y + r * 0.2); context.stroke(); context.fill(); break;
    case "discarded": context.moveTo(x - r, y - r * 0.8); context.lineTo(x + r, y - r * 0.8); context.lineTo(x, y + r);
      context.closePath(); context.fillStyle = colours.ground; context.fill(); context.stroke(); break;
    case "banned": context.fillRect(x - r, y - r, 2 * r, 2 * r); context.fillStyle = colours.ground;
      context.fillRect(x - r * 0.7, y - r * 0.25, r * 1.4, r * 0.5); break;
    case "budget_spent": context.moveTo(x, y - r); context.lineTo(x + r, y); context.lineTo(x, y + r); context.lineTo(x - r, y);
      context.closePath(); context.fill(); break;
  }
}
