// The tables of a run; a click on a column's name sorts by it, a second one the other way round.

const AT_ONCE = 200; // rows

function buildTables() {
  const tables = model.runs[state.tableRun]?.tables || [];
  if (!tables.some((table) => table.name === state.table)) state.table = tables[0].name;
  const tabs = tables.map((table) => make("button", { type: "button", role: "tab", id: `tab-${table.name}`, "aria-controls": "table",
    "aria-selected": String(table.name === state.table), tabindex: table.name === state.table ? 0 : -1,
    onclick: () => chooseTable(table.name) }, table.name));
  const chooseRun = (value) => { state.tableRun = Number(value); buildTables(); };
  const runs = [[0, "first run"], [1, "second run"]];
  const which = model.runs.length > 1 ? [select(runs, state.tableRun, chooseRun, { "aria-label": "Run" })] : [];
  const list = make("div", { role: "tablist", "aria-label": "Tables", onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.target.role !== "tab") return;
    const names = tables.map((table) => table.name);
    chooseTable(names[(names.indexOf(state.table) + step + names.length) % names.length]);
    byId(`tab-${state.table}`).focus();
  } }, ...tabs);
  const table = tables.find((one) => one.name === state.table);
  byId("tables").replaceChildren(list, ...which,
    make("div", { id: "table", role: "tabpanel", "aria-labelledby": `tab-${table.name}` }));
  showTable(table, table.columns.find((column) => column.name === state.sortBy) || null, state.sortDown, AT_ONCE);
}

function chooseTable(name) {
  state.table = name;
  buildTables();
  remember();
}

function showTable(table, by, down, most) {
  const order = orderOf(table, by, down);
  const heads = table.columns.map((column) => {
    const sorted = column === by;
    const act = () => {
      Object.assign(state, { sortBy: column.name, sortDown: sorted && !down });
      remember();
      showTable(table, column, sorted ? !down : false, most);
      byId("table").querySelectorAll("th button")[table.columns.indexOf(column)].focus();
    };
    const sign = sorted ? (down ? " ▾" : " ▴") : "";
    const unit = column.unit && !column.name.endsWith(`_${column.unit}`) ? [make("small", {}, ` ${column.unit}`)] : [];
    return make("th", { class: column.numeric ? "number" : "", title: column.meaning, scope: "col",
      "aria-sort": sorted ? (down ? "descending" : "ascending") : "none" },
    make("button", { type: "button", onclick: act }, `${column.name}${sign}`), ...unit);
  });
  const rows = order.slice(0, most).map((row) => make("tr", {}, ...table.columns.map((column) => {
    const value = column.values[row];
    return make("td", { class: column.numeric ? "number" : "text" }, column.numeric ? plain(value) : value);
  })));
  const more = order.length > most ? [button(`${number(order.length - most)} more rows`, () => showTable(table, by, down, most * 5))] : [];
  byId("table").replaceChildren(
    ...table.about.map((sentence) => make("p", { class: "said" }, sentence)),
    make("div", { class: "wide", tabindex: 0, "aria-label": `Table ${table.name}` }, make("table", {},
      make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))),
    ...more);
}

// A number as it can be copied: whole ones with all their digits and nothing between them.
const plain = (value) => Number.isInteger(value) ? String(value) : number(value);

// Numbers of rows, sorted by a column; what is missing comes last in both directions.
function orderOf(table, by, down) {
  const order = [...Array(table.rows).keys()];
  if (!by) return order;
  const missing = (value) => value === "" || Number.isNaN(value);
  const compare = by.numeric ? (one, other) => one === other ? 0 : one < other ? -1 : 1 : new Intl.Collator("en", { numeric: true }).compare;
  return order.sort((a, b) => {
    const [one, other] = [by.values[a], by.values[b]];
    return missing(one) - missing(other) || (missing(one) ? 0 : (down ? -1 : 1) * compare(one, other)) || a - b;
  });
}
