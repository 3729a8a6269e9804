// Tables that sort by a click on a heading, filter by their text columns, and draw a few rows at a time.
"use strict";

B.tableStep = 20;
B.tablePrints = 400;
B.cellText = (cell) => (cell === null || cell === undefined ? "" : typeof cell === "object" ? cell.t : String(cell));
B.cellValue = (cell) => (cell !== null && typeof cell === "object" ? cell.v : null);

// data: {title, columns: [{title, numeric}], rows: [{cells, published, row}], notes}; a number's cell is
// {t: text, v: value, l: low, h: high, k: what a pointer shows, s: a line below, c: class}.
B.table = function (data, options = {}) {
  const state = { sort: -1, falls: false, text: "", picks: {}, shown: B.tableStep };
  const ranges = data.columns.map((column, at) => (column.numeric && options.intervals !== false ? B.tableRange(data.rows, at) : null));
  const body = B.h("tbody", {}), more = B.h("button", { type: "button", class: "more" }), count = B.h("span", { class: "quiet" });
  const heads = data.columns.map((column, at) => B.h("th", { class: column.numeric ? "number" : null, scope: "col" },
    B.h("button", { type: "button", class: "sort", onclick: () => sortBy(at) }, column.title)));
  const draw = () => {
    const rows = B.tableRows(data, state);
    body.replaceChildren(...rows.slice(0, state.shown).map((row) => B.tableRow(data, row, ranges, options)));
    more.hidden = rows.length <= state.shown;
    more.textContent = `Show ${Math.min(200, rows.length - state.shown)} more of ${rows.length}`;
    count.textContent = rows.length < data.rows.length ? `${rows.length} of ${data.rows.length} rows` : `${rows.length} rows`;
    heads.forEach((head, at) => head.setAttribute("aria-sort", state.sort !== at ? "none" : state.falls ? "descending" : "ascending"));
  };
  const sortBy = (at) => {
    // Numbers fall first: the largest is what is looked for.
    if (state.sort !== at) Object.assign(state, { sort: at, falls: data.columns[at].numeric });
    else if (state.falls === data.columns[at].numeric) state.falls = !state.falls;
    else state.sort = -1;
    draw();
  };
  more.addEventListener("click", () => { state.shown += 200; draw(); });
  // Paper has no button for the rest.
  addEventListener("beforeprint", () => { if (body.isConnected && data.rows.length <= B.tablePrints) { state.shown = Infinity; draw(); } });
  const filters = B.tableFilters(data, state, () => { state.shown = B.tableStep; draw(); });
  draw();
  return B.h("div", { class: "sheet" },
    options.title === false ? null : B.h("h3", {}, options.title || data.title),
    filters.length ? B.h("div", { class: "controls plain" }, filters, count) : null,
    B.h("div", { class: "wide" }, B.h("table", {}, B.h("thead", {}, B.h("tr", {}, heads)), body)),
    more,
    (data.notes || []).length ? B.h("details", {}, B.h("summary", {}, "notes"), data.notes.map((note) => B.h("p", { class: "quiet" }, note))) : null);
};

B.tableRange = function (rows, at) {
  let low = Infinity, high = -Infinity, known = 0;
  for (const row of rows) {
    const cell = row.cells[at];
    if (row.published || !cell || typeof cell !== "object" || cell.l === undefined) continue;
    known += 1;
    low = Math.min(low, cell.l);
    high = Math.max(high, cell.h);
  }
  return known > 1 && high > low ? [low, high] : null;
};

B.tableRows = function (data, state) {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = data.rows.filter((row) => {
    for (const [at, wanted] of Object.entries(state.picks)) if (wanted !== "" && B.cellText(row.cells[at]) !== wanted) return false;
    if (!words.length) return true;
    const text = row.cells.map(B.cellText).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  if (state.sort < 0) return rows;
  const sign = state.falls ? -1 : 1, numeric = data.columns[state.sort].numeric;
  return rows.map((row, at) => [row, at]).sort(([a, x], [b, y]) => {
    if (!numeric) return sign * B.cellText(a.cells[state.sort]).localeCompare(B.cellText(b.cells[state.sort]), "en", { numeric: true }) || x - y;
    const [one, other] = [B.cellValue(a.cells[state.sort]), B.cellValue(b.cells[state.sort])];
    if (one === null || other === null) return (one === null) - (other === null) || x - y;  // without a value: last
    return sign * (one - other) || x - y;
  }).map(([row]) => row);
};

B.tableRow = function (data, row, ranges, options) {
  const open = options.onrow && (!options.canopen || options.canopen(row)) ? () => options.onrow(row) : null;
  const line = B.h("tr", { class: [row.published ? "published" : "", open ? "opens" : ""].join(" ").trim() || null, onclick: open });
  row.cells.forEach((cell, at) => {
    const column = data.columns[at];
    if (!column.numeric || cell === null || typeof cell !== "object") {
      const told = at === 0 && row.published && options.marked !== false ? [B.cellText(cell), B.h("small", {}, " published")] : B.cellText(cell);
      const inner = at === 0 && open ? B.h("button", { type: "button", class: "link" }, told) : told;
      return void line.append(B.h("td", { class: column.numeric ? "number" : B.cellText(cell).length > 28 ? "text long" : "text" }, inner));
    }
    line.append(B.h("td", { class: `number ${cell.c ? `delta ${cell.c}` : ""}`, title: cell.k }, B.valueParts(cell.t),
      cell.s ? B.h("small", { class: "said" }, cell.s) : null,
      ranges[at] && cell.l !== undefined && !row.published ? B.miniInterval(cell, ranges[at]) : null));
  });
  return line;
};

// Value above, interval below: narrow columns.
B.valueParts = function (text) {
  const found = /^(\S+) (\[.*)$/.exec(text);
  return found ? [found[1], B.h("small", { class: "said" }, found[2])] : text;
};

// The interval of a cell on the scale of its column.
B.miniInterval = function (cell, [low, high]) {
  const x = (value) => 2 + ((value - low) / (high - low)) * 96;
  const zero = low < 0 && high > 0 ? B.h("line", { x1: x(0), x2: x(0), y1: 0, y2: 7, class: "zero" }) : null;
  return B.h("svg", { class: "mini", viewBox: "0 0 100 7", "aria-hidden": "true" }, zero,
    B.h("line", { x1: x(cell.l), x2: x(cell.h), y1: 3.5, y2: 3.5, class: "reach" }), B.h("circle", { cx: x(cell.v), cy: 3.5, r: 2.4 }));
};

B.tableFilters = function (data, state, changed) {
  if (data.rows.length < 7) return [];
  const found = [];
  data.columns.forEach((column, at) => {
    if (column.numeric) return;
    const texts = [...new Set(data.rows.map((row) => B.cellText(row.cells[at])))];
    if (texts.length < 2 || texts.length > 12 || texts.some((text) => text.length > 36)) return;
    const select = B.h("select", { onchange: (event) => { state.picks[at] = event.target.value; changed(); } },
      B.h("option", { value: "" }, "all"), texts.map((text) => B.h("option", { value: text }, text)));
    found.push(B.h("label", {}, B.h("span", {}, column.title), select));
  });
  if (data.rows.length > 15) found.push(B.h("label", {}, B.h("span", {}, "Search"),
    B.h("input", { type: "search", placeholder: "any column", oninput: (event) => { state.text = event.target.value; changed(); } })));
  return found;
};

// ---- views: parts that only some runs have, read one after another when the samples are there
B.viewKinds = {
  tables: (data) => [B.viewFacts(data), data.tables.map((table) => B.table(table))],
};

B.viewFacts = (data) => B.h("div", { class: "facts" }, data.facts.map((fact) => B.h("p", {}, fact)));

B.drawViews = async function () {
  for (const [at, view] of B.head.views.entries()) {
    const place = B.byId(`view-${at}`), reading = place.querySelector(".reading");
    try {
      const data = await B.part(`view-${at}`);
      place.append(...[B.viewKinds[view.kind](data, place)].flat(Infinity).filter((node) => node !== null));
      reading.remove();
    } catch (error) {
      reading.textContent = `This part cannot be shown: ${error.message}`;
      throw error;
    }
  }
};

// A row of buttons of which one is pressed.
B.tabs = function (names, chosen, onchange) {
  const buttons = names.map((name, at) => B.h("button", { type: "button", "aria-pressed": String(at === chosen), onclick: () => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === at)));
    onchange(at);
  } }, name));
  return B.h("div", { class: "tabs", role: "group" }, buttons);
};
