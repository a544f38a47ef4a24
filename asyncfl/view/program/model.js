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
    const tasks = {};
    for (const name of ["task", "client", "base_version", "fate", "making", "staleness", "weight", "held", "overheard",
      "bytes_down", "bytes_up", "attempts_down", "attempts_up"]) tasks[name] = numbers(told[name]);
    const dispatched = numbers(told.dispatched);
    const count = dispatched.length;
    const last = Float64Array.from(dispatched);
    tasks.dispatched = last.map((at) => at / 1e6);
    for (const [, ...names] of PHASES) {
      for (const name of names) {
        const took = numbers(told[name]);
        const times = new Float64Array(count);
        for (let i = 0; i < count; i++) {
          if (took[i] < 0) { times[i] = NaN; continue; }
          last[i] += took[i];
          times[i] = last[i] / 1e6;
        }
        tasks[name] = times;
      }
    }
    for (const name of ["left", "settled"]) {
      const took = numbers(told[name]);
      tasks[name] = Float64Array.from(took, (after, i) => after < 0 ? NaN : (dispatched[i] + after) / 1e6);
    }
    return Object.assign(tasks, { count });
  }

  function eventsOf(told) {
    const events = { time: inSeconds(told.time), detail: texts(told.detail) };
    for (const name of ["kind", "task", "client", "version", "staleness", "bytes", "attempt", "weight"])
      events[name] = numbers(told[name]);
    return events;
  }

  // Where the rows of each client begin and end, in an order by client; `chosen` are rows in order of time.
  function byClient(chosen, clientOf, clients) {
    const start = new Int32Array(clients + 2);
    for (const row of chosen) start[clientOf[row] + 1]++;
    for (let client = 0; client <= clients; client++) start[client + 1] += start[client];
    const rows = new Int32Array(chosen.length);
    const next = start.slice();
    for (const row of chosen) rows[next[clientOf[row]]++] = row;
    return { start, rows, of: (client) => rows.subarray(start[client] ?? rows.length, start[client + 1] ?? rows.length) };
  }

  function seedOf(told, clients) {
    const tasks = tasksOf(told.tasks);
    const events = eventsOf(told.events);
    const marked = new Set(MARKS.map((kind) => kinds.indexOf(kind)));
    const away = new Set(["went_offline", "came_online"].map((kind) => kinds.indexOf(kind)));
    const rows = [...events.kind.keys()];
    const ofClients = rows.filter((row) => events.client[row] >= 0);
    const seed = {
      seed: told.seed, end: told.end / 1e6, tasks, events,
      lanes: byClient([...tasks.task.keys()], tasks.client, clients),
      marks: byClient(ofClients.filter((row) => marked.has(events.kind[row])), events.client, clients),
      offline: spansOffline(byClient(ofClients.filter((row) => away.has(events.kind[row])), events.client, clients)),
      serverMarks: rows.filter((row) => SERVER_MARKS.includes(kinds[events.kind[row]]) && isOfServer(events, row)),
      aggregations: rows.filter((row) => kinds[events.kind[row]] === "aggregation_started"),
      requests: {
        client: numbers(told.requests.client), making: numbers(told.requests.making),
        began: inSeconds(told.requests.began), ended: inSeconds(told.requests.ended), said: texts(told.requests.said),
      },
      attackers: new Set(told.attackers || []),
      samples: told.samples ? numbers(told.samples) : null,
      curves: curvesOf(told.rounds, tasks),
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

  function curvesOf(told, tasks) {
    const curves = { time: inSeconds(told.time), version: numbers(told.version) };
    for (const [name, ref] of Object.entries(told))
      if (!["time", "version", "measured_time", "fill_time"].includes(name)) curves[name] = numbers(ref);
    if (told.measured_time) curves.measured_time = inSeconds(told.measured_time);
    // Of a window, where updates of tasks that are not here are held too, it is told.
    if (told.fill) return Object.assign(curves, { fill_time: inSeconds(told.fill_time) });
    return Object.assign(curves, fillOf(tasks, curves.time));
  }

  function densityOf(told, end) {
    const layers = Object.fromEntries(Object.entries(told.layers).map(([name, ref]) => {
      const parts = numbers(ref);
      return [name, { parts, most: parts.reduce((one, other) => Math.max(one, other), 0) / told.parts }];
    }));
    const value = (layer, lane, span) => layers[layer].parts[lane * told.spans + span] / told.parts;
    return { ...told, layers, value, span_s: end / told.spans };
  }

  // How many updates the server holds, whenever that changes; those that are used as they come are counted before they go.
  function fillOf(tasks, published) {
    const changes = [];
    for (let i = 0; i < tasks.count; i++) {
      if (!tasks.held[i]) continue;
      changes.push([tasks.uploaded[i], 1]);
      if (!Number.isNaN(tasks.settled[i])) changes.push([tasks.settled[i], -1]);
    }
    changes.sort((one, other) => one[0] - other[0] || other[1] - one[1]);
    const fill_time = [published.length ? published[0] : 0], fill = [0];
    let last = 0;
    for (const [at, change] of changes) {
      if (at > fill_time.at(-1) || change < last) { fill_time.push(at); fill.push(fill.at(-1) + change); }
      else fill[fill.length - 1] += change;
      last = change;
    }
    return { fill_time, fill };
  }

  const runs = header.runs.map((told) => ({
    name: told.name, facts: told.facts, notes: told.notes, window: told.window, asked: told.asked, clients: told.clients,
    seeds: told.seeds.map((seed) => seedOf(seed, told.clients)),
    tables: told.tables.map((table) => Object.assign(table, {
      columns: table.columns.map((column) => Object.assign(column, column.codes
        ? { values: Array.from(numbers(column.codes), (place) => column.texts[place]), numeric: false }
        : { values: numbers(column), numeric: true })),
    })),
  }));
  return { runs, kinds, fates: header.fates, going: header.going, reload_s: header.reload_s, command: header.command,
    compared: header.compared };
}
