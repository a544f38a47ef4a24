// Mouse and keyboard. Everything that the mouse does can be done by keys, while the lanes have the focus.

const KEYS = [
  ["← →", "the task before, after"], ["↑ ↓", "the lane above, below"], ["Home End", "the first, the last task of the lane"],
  ["Enter", "follow the task, or let it go"], ["Esc", "let it go"], ["+ −", "show less, more time"],
  ["[ ]", "earlier, later"], ["0", "the whole run"], ["Enter", "in a density: show its tasks one by one, or come nearer"], ["m", "theme: light, dark"], ["?", "this list"],
];

function moveInLane(step) {
  const found = placeOf(state.cursor);
  setCursor(found ? neighbour(found, step) : firstTask());
}

function moveLanes(step) {
  const found = placeOf(state.cursor);
  if (!found) { setCursor(firstTask()); return; }
  const runs = runNumbers();
  const lane = shownClients.indexOf(found.seed.tasks.client[found.i]) * runs.length + runs.indexOf(found.run);
  for (let next = lane + step; next >= 0 && next < shownClients.length * runs.length; next += step) {
    const run = runs[next % runs.length];
    const seed = seedIn(run);
    const time = found.seed.tasks.dispatched[found.i];
    const near = [...seed.lanes.of(shownClients[Math.floor(next / runs.length)])].filter((i) => fateShown(seed, i))
      .sort((one, other) => Math.abs(seed.tasks.dispatched[one] - time) - Math.abs(seed.tasks.dispatched[other] - time))[0];
    if (near !== undefined) { setCursor({ run, task: seed.tasks.task[near] }); return; }
  }
}

function firstTask() {
  for (const client of shownClients) {
    for (const run of runNumbers()) {
      const seed = seedIn(run);
      for (const i of seed.lanes.of(client))
        if (fateShown(seed, i) && endOf(seed, i) >= state.from) return { run, task: seed.tasks.task[i] };
    }
  }
  return null;
}

function toEnd(last) {
  const found = placeOf(state.cursor);
  if (!found) return;
  const lane = [...found.seed.lanes.of(found.seed.tasks.client[found.i])].filter((i) => fateShown(found.seed, i));
  setCursor({ run: found.run, task: found.seed.tasks.task[last ? lane.at(-1) : lane[0]] });
}

function setCursor(chosen) {
  state.cursor = chosen;
  const found = placeOf(chosen);
  if (!found) return;
  bringIntoView(chosen);
  pointer = found.seed.tasks.dispatched[found.i]; // the curves tell their values there
  redraw();
  byId("live").textContent = [headline(found), ...factsOf(found).map(([word, said]) => `${word}: ${said}`)].join("; ");
  const box = byId("scroll").getBoundingClientRect();
  const width = byId("drawing").clientWidth;
  const lane = shownClients.indexOf(found.seed.tasks.client[found.i]);
  showTip({ ...found, marks: [] }, box.left + Math.max(leftOf(width), scaleX(width).x(found.seed.tasks.dispatched[found.i])),
    box.top + (lane + 1) * laneHeight() - byId("scroll").scrollTop);
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const inDensity = isDense() && denseKeys(event.key);
  if (inDensity) { event.preventDefault(); inDensity(); return; }
  const same = state.followed && state.cursor && state.followed.task === state.cursor.task && state.followed.run === state.cursor.run;
  const act = {
    ArrowLeft: () => moveInLane(-1), ArrowRight: () => moveInLane(1), ArrowUp: () => moveLanes(-1), ArrowDown: () => moveLanes(1),
    Home: () => toEnd(false), End: () => toEnd(true), Enter: () => state.cursor && follow(same ? null : state.cursor),
    " ": () => state.cursor && follow(same ? null : state.cursor), Escape: () => { follow(null); showTip(null); },
    "+": () => zoom(0.5, cursorTime()), "=": () => zoom(0.5, cursorTime()), "-": () => zoom(2, cursorTime()),
    "[": () => pan(-0.5), "]": () => pan(0.5), 0: showAll,
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function cursorTime() {
  const found = placeOf(state.cursor);
  const time = isDense() && state.cell ? timesOf(state.cell)[0] : found ? found.seed.tasks.dispatched[found.i] : NaN;
  return time >= state.from && time <= state.to ? time : undefined;
}

function listen() {
  const [scroll, drawing] = [byId("scroll"), byId("drawing")];
  const at = (event) => event.clientX - drawing.getBoundingClientRect().left - 1;
  let dragged = null;
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && at(event) < drawing.clientWidth) dragged = { x: at(event), from: state.from, to: state.to, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const width = drawing.clientWidth;
    const moved = at(event) - dragged.x;
    if (Math.abs(moved) > 3) dragged.moved = true;
    if (!dragged.moved) return;
    const shift = moved * (dragged.to - dragged.from) / (width - leftOf(width) - 8);
    setWindow(dragged.from - shift, dragged.to - shift);
  });
  window.addEventListener("pointerup", () => { setTimeout(() => { dragged = null; }); });
  drawing.addEventListener("pointermove", (event) => {
    pointer = scaleX(drawing.clientWidth).time(at(event));
    const inLanes = scroll.contains(event.target) && !(dragged && dragged.moved);
    const y = event.clientY - scroll.getBoundingClientRect().top - 1;
    if (inLanes && isDense()) showCell(cellAt(at(event), y), event.clientX, event.clientY);
    else showTip(inLanes ? taskAt(at(event), y) : null, event.clientX, event.clientY);
    redraw();
  });
  drawing.addEventListener("pointerleave", () => { pointer = null; showTip(null); redraw(); });
  scroll.addEventListener("click", (event) => {
    if (dragged && dragged.moved) return;
    const y = event.clientY - scroll.getBoundingClientRect().top - 1;
    if (isDense()) { openCell(cellAt(at(event), y)); return; }
    const found = taskAt(at(event), y);
    const row = found && found.i === null && found.marks.length ? found.seed.events.task[found.marks[0]] : -1;
    if (found && found.i !== null) follow({ run: found.run, task: found.seed.tasks.task[found.i] });
    else follow(row >= 0 ? { run: found.run, task: row } : null);
  });
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, scaleX(drawing.clientWidth).time(at(event)));
    else pan((event.deltaY || event.deltaX) > 0 ? 0.1 : -0.1);
  }, { passive: false });
  scroll.addEventListener("scroll", () => redraw());
  scroll.addEventListener("keydown", onKey);
  scroll.addEventListener("blur", () => showTip(null));
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "?") openHelp();
    if (event.key === "m") switchTheme();
  });
  window.addEventListener("resize", redraw);
}

function openHelp() {
  const help = byId("help");
  const rows = KEYS.map(([keys, said]) => [keys.split(" ").flatMap((key) => [make("kbd", {}, key), " "]), said]);
  help.replaceChildren(make("h2", {}, "Keys, while the lanes have the focus"), tableOf([], rows),
    make("p", {}, "By mouse: drag to move in time, Ctrl and wheel to zoom, click a task to follow it. Tab leads to all else."),
    button("Close", () => help.close()));
  help.showModal();
}
