// Runs as the page works with them: times in seconds, tasks and marks found by client.

const MARKS = ["retransmitted", "lost", "overheard", "dropped_out", "zeroed", "rejected", "flagged", "discarded", "banned",
  "budget_spent"];
const SERVER_MARKS = ["short_buffer", "cohort_repeated", "shuffled", "stopped", "timer_fired"];
const PHASES = [["download", "download_started", "downloaded"], ["training", "training_started", "trained"],
  ["upload", "upload_started", "uploaded"]];

const spoken = (name) => name.replaceAll("_", " ");

function modelOf({ header, numbers }) {
  const kinds = header.kinds;
  const inSeconds = (ref) => Float64Array.from(numbers(ref), (at) => at < 0 ? NaN : at / 1e6);
  const texts = (ref) => ({ of: numbers(ref.codes), names: ref.texts });

  function tasksOf(told) {
    const times = ["dispatched", "left", "settled", ...PHASES.flatMap(([, ...names]) => names)];
    const plain = Object.entries(told).filter(([name]) => !times.includes(name));
    const tasks = Object.fromEntries(plain.map(([name, ref]) => [name, numbers(ref)]));
    const dispatched = numbers(told.dispatched);
    const count = dispatched.length;
    const last = Float64Array.from(dispatched);
    tasks.dispatched = last.map((at) => at / 1e6);
    for (const name of PHASES.flatMap(([, ...names]) => names))
      tasks[name] = Float64Array.from(numbers(told[name]), (took, i) => took < 0 ? NaN : (last[i] += took) / 1e6);
    for (const name of ["left", "settled"])
      tasks[name] = Float64Array.from(numbers(told[name]), (after, i) => after < 0 ? NaN : (dispatched[i] + after) / 1e6);
    return Object.assign(tasks, { count });
  }

  function eventsOf(told) {
    const { time, detail, ...plain } = told;
    const columns = Object.entries(plain).map(([name, ref]) => [name, numbers(ref)]);
    return { time: inSeconds(time), detail: texts(detail), ...Object.fromEntries(columns) };
  }

  // The rows of each client, of `chosen` rows in order of time.
  function byClient(chosen, clientOf, clients) {
    const lists = Array.from({ length: clients }, () => []);
    for (const row of chosen) lists[clientOf[row]]?.push(row);
    return { of: (client) => lists[client] ?? [] };
  }

  function seedOf(told, clients) {
    const tasks = tasksOf(told.tasks);
    const events = eventsOf(told.events);
    const marked = new Set(MARKS.map((kind) => kinds.indexOf(kind)));
    const away = new Set(["went_offline", "came_online"].map((kind) => kinds.indexOf(kind)));
    const rows = [...events.kind.keys()];
    const ofKinds = (chosen) => byClient(rows.filter((row) => chosen.has(events.kind[row])), events.client, clients);
    const seed = {
      seed: told.seed, end: told.end / 1e6, tasks, events,
      lanes: byClient([...tasks.task.keys()], tasks.client, clients),
      marks: ofKinds(marked),
      offline: spansOffline(ofKinds(away)),
      serverMarks: rows.filter((row) => SERVER_MARKS.includes(kinds[events.kind[row]]) && isOfServer(events, row)),
      aggregations: rows.filter((row) => kinds[events.kind[row]] === "aggregation_started"),
      requests: {
        client: numbers(told.requests.client), making: numbers(told.requests.making),
        began: inSeconds(told.requests.began), ended: inSeconds(told.requests.ended), said: texts(told.requests.said),
      },
      attackers: new Set(told.attackers || []),
      samples: told.samples ? numbers(told.samples) : null,
      curves: curvesOf(told.rounds),
      density: told.density ? densityOf(told.density, told.end / 1e6) : null,
      held: told.held || null, // from when to when tasks can be seen one by one, where not all can
    };
    seed.bannedAt = new Map();
    for (const row of rows) if (kinds[events.kind[row]] === "banned") seed.bannedAt.set(events.client[row], events.time[row]);
    seed.place = new Map(); // number of a task -> its row
    for (let i = 0; i < tasks.count; i++) seed.place.set(tasks.task[i], i);
    return seed;

    function isOfServer(events, row) {
      const detail = events.detail.names[events.detail.of[row]].split(":")[0];
      return kinds[events.kind[row]] !== "timer_fired" || detail === "deadline" || detail === "time_limit";
    }

    function spansOffline(changes) {
      const left = kinds.indexOf("went_offline");
      return (client) => {
        const spans = [];
        let since = null;
        for (const row of changes.of(client)) {
          if (events.kind[row] === left) since = since === null ? events.time[row] : since;
          else if (since !== null) { spans.push([since, events.time[row]]); since = null; }
        }
        if (since !== null) spans.push([since, told.end / 1e6]);
        return spans;
      };
    }
  }

  const curvesOf = (told) => Object.fromEntries(Object.entries(told).map(([name, ref]) =>
    [name, name.endsWith("time") ? inSeconds(ref) : numbers(ref)]));

  function densityOf(told, end) {
    const layers = Object.fromEntries(Object.entries(told.layers).map(([name, ref]) => {
      const parts = numbers(ref);
      return [name, { parts, most: parts.reduce((one, other) => Math.max(one, other), 0) / told.parts }];
    }));
    const value = (layer, lane, span) => layers[layer].parts[lane * told.spans + span] / told.parts;
    return { ...told, layers, value, span_s: end / told.spans };
  }

  const runs = header.runs.map((told) => ({
    ...told,
    seeds: told.seeds.map((seed) => seedOf(seed, told.clients)),
    tables: told.tables.map((table) => Object.assign(table, {
      columns: table.columns.map((column) => Object.assign(column, column.codes
        ? { values: Array.from(numbers(column.codes), (place) => column.texts[place]), numeric: false }
        : { values: numbers(column), numeric: true })),
    })),
  }));
  return { ...header, runs };
}
