// The samples that were chosen, as a grid of which only what is on the screen exists.
"use strict";

B.gallery = { rows: [], items: [], cards: new Map(), focused: 0 };

B.card = function (row, options) {
  const metric = B.metric(options.metric ?? B.state.metric), core = B.core;
  const picture = B.h("span", { class: "picture" });
  B.fillPicture(picture, B.thumb(core.outputThumbs[row]), core.outputs[row]);
  const side = B.head.sides[core.sides[row]].name;
  return B.h("button", { class: "card", type: "button", "data-row": row, onclick: () => B.open(row), title: core.ids[row] },
    picture,
    B.h("span", { class: "line" },
      metric ? B.cardValue(row, metric) : null,
      B.head.sides.length > 1 ? B.h("span", { class: "side" }, B.h("i", { style: `background:${B.sideColour(core.sides[row])}` }), side) : null),
    options.prompt === false ? null : B.h("span", { class: "prompt" }, core.prompts.texts[core.prompts.codes[row]] || core.ids[row]));
};

B.cardValue = function (row, metric) {
  const core = B.core, status = core.statusNames[core.statuses[metric.label][row]];
  return status === "ok" ? B.h("b", {}, B.number(core.values[metric.label][row], metric)) : B.h("b", { class: "missing" }, status);
};

B.fillPicture = async function (place, source, name) {
  let address = null;
  try { address = await source; } catch { address = null; }
  if (address) place.prepend(B.h("img", { src: address, alt: "", decoding: "async" }));
  else place.append(B.h("span", { class: "nothing" }, name ? "no picture" : "no output"));
};

// Side by side: one item a pair, in the order of the pairs' first chosen sample.
B.itemsOf = function (rows) {
  if (!B.state.beside) return rows;
  if (!B.pairs) {
    B.pairs = new Map();
    B.core.keys.forEach((key, row) => {
      if (key < 0) return;
      if (!B.pairs.has(key)) B.pairs.set(key, B.head.sides.map(() => -1));
      const own = B.pairs.get(key), side = B.core.sides[row];
      if (side < own.length && own[side] < 0) own[side] = row;
    });
  }
  const seen = new Set(), items = [];
  for (const row of rows) {
    const key = B.core.keys[row];
    if (key < 0) items.push([row]);
    else if (!seen.has(key)) { seen.add(key); items.push(B.pairs.get(key)); }
  }
  return items;
};

B.besideItem = function (rows) {
  const first = rows.find((row) => row >= 0);
  return B.h("div", { class: "beside" },
    B.h("p", { class: "prompt" }, B.core.prompts.texts[B.core.prompts.codes[first]] || B.core.ids[first]),
    B.h("div", { class: "row" }, rows.map((row, side) => row >= 0 ? B.card(row, { prompt: false })
      : B.h("span", { class: "card empty" }, `no ${B.head.sides[side].name}`))));
};

B.measureGallery = function () {
  const g = B.gallery, width = g.view.clientWidth, gap = 12;
  const sides = B.state.beside ? B.head.sides.length : 1;
  const least = B.state.beside ? Math.min(width, sides * 150 + 24) : width < 500 ? 140 : 168;
  g.columns = Math.max(1, Math.floor((width + gap) / (least + gap)));
  g.width = (width - gap * (g.columns - 1)) / g.columns;
  const lines = B.state.beside ? Math.ceil(sides / Math.max(1, Math.floor(g.width / 150))) : 1;
  g.height = B.state.beside ? 52 + lines * 204 : Math.round(Math.min(g.width, 192)) + 78;
  g.gap = gap;
  g.view.style.height = `${Math.ceil(g.items.length / g.columns) * (g.height + gap)}px`;
};

// Only the rows of the grid on the screen, and one screen above and below, are elements.
B.drawGallery = function () {
  const g = B.gallery;
  if (!g.view || !B.core) return;
  const box = g.view.getBoundingClientRect(), step = g.height + g.gap, screen = globalThis.innerHeight;
  const from = Math.max(0, Math.floor((-box.top - screen) / step)) * g.columns;
  const to = Math.min(g.items.length, Math.ceil((-box.top + 2 * screen) / step) * g.columns);
  for (const [at, node] of g.cards) if (at < from || at >= to) { node.remove(); g.cards.delete(at); }
  for (let at = from; at < to; at++) {
    if (g.cards.has(at)) continue;
    const item = g.items[at], node = Array.isArray(item) ? B.besideItem(item) : B.card(item, {});
    node.style.cssText = `position:absolute;width:${g.width}px;height:${g.height}px;` +
      `left:${(at % g.columns) * (g.width + g.gap)}px;top:${Math.floor(at / g.columns) * step}px`;
    node.dataset.at = at;
    g.cards.set(at, node);
    g.view.append(node);
  }
};

B.fillGallery = function () {
  const g = B.gallery;
  if (!B.core) return;
  g.rows = B.chosen();
  g.items = B.itemsOf(g.rows);
  for (const node of g.cards.values()) node.remove();
  g.cards.clear();
  B.measureGallery();
  B.drawGallery();
  B.byId("count").textContent = `${g.rows.length.toLocaleString("en")} of ${B.core.ids.length.toLocaleString("en")} samples`;
  B.byId("none").hidden = g.rows.length > 0;
  B.drawChips();
  B.drawSelection(g.rows);
};

B.drawChips = function () {
  const chips = [], state = B.state;
  const chip = (text, clear) => chips.push(B.h("button", { type: "button", class: "chip", onclick: clear, title: "Remove" }, text, " ×"));
  for (const axis of state.brush || []) {
    const metric = B.metricOf(axis.label);
    chip(`${axis.label} ${B.number(axis.low, metric)} to ${B.number(axis.high, metric)}`, () => B.changed({ brush: null }));
  }
  if (state.rows) chip(state.rows.name, () => B.changed({ rows: null }));
  B.byId("chips").replaceChildren(...chips);
};

B.select = function (name, options, onchange) {
  const select = B.h("select", { id: `by-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`, onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => B.h("option", { value }, text)));
  B.byId("controls").append(B.h("label", {}, B.h("span", {}, name), select));
  return select;
};

B.setUpControls = function () {
  const core = B.core, state = B.state, fields = B.fields = {};
  const orders = [["random", "random"], ["input", "input order"]], scored = B.head.metrics.length > 0;
  if (scored) orders.unshift(["worst", "worst first"], ["best", "best first"]);
  state.order = orders[scored ? 0 : 1][0];
  fields.order = B.select("Show", orders, (order) => B.changed({ order }));
  fields.order.value = state.order;
  if (scored) fields.metric = B.select("By metric", B.head.metrics.map((metric, at) => [at, metric.label + B.arrow(metric)]),
    (at) => B.changed({ metric: Number(at) }));
  const seen = [...new Set(Object.values(core.statuses).flatMap((codes) => [...new Set(codes)]))].map((code) => core.statusNames[code]);
  if (scored) fields.status = B.select("Status", [["any", "any"], ["none", "without a value"], ...seen.sort().map((name) => [name, name])],
    (status) => B.changed({ status }));
  if (B.head.sides.length > 1) fields.side = B.select("Method", [[-1, "all"], ...B.head.sides.map((side, at) => [at, side.name])],
    (side) => B.changed({ side: Number(side) }));
  for (const [name, known] of Object.entries(core.columns)) {
    const choices = known.texts.map((text, code) => [code, text]);
    if (known.codes.includes(-1)) choices.push([-1, "(none)"]);
    fields[`column ${name}`] = B.select(name, [["", "all"], ...choices], (code) => {
      const columns = { ...state.columns };
      if (code === "") delete columns[name]; else columns[name] = Number(code);
      B.changed({ columns });
    });
  }
  B.byId("search").addEventListener("input", (event) => {
    clearTimeout(B.typing);
    B.typing = setTimeout(() => B.changed({ text: event.target.value, words: event.target.value.toLowerCase().split(/\s+/).filter(Boolean) }), 120);
  });
  const beside = B.byId("beside");
  if (core.keys.some((key) => key >= 0)) beside.addEventListener("change", () => B.changed({ beside: beside.checked }));
  else beside.parentElement.remove();
  B.byId("reset").addEventListener("click", () => B.resetFilters({}));
};

B.resetFilters = function (change) {
  B.changed({ status: "any", text: "", words: [], side: -1, columns: {}, brush: null, rows: null, ...change });
  B.byId("search").value = "";
  if (B.fields.status) B.fields.status.value = B.state.status;
  if (B.fields.side) B.fields.side.value = B.state.side;
  for (const [name, select] of Object.entries(B.fields)) {
    if (name.startsWith("column ")) select.value = B.state.columns[name.slice(7)] ?? "";
  }
};

// Arrow keys walk over the grid; what is not on the screen is scrolled to first.
B.walk = function (event) {
  const g = B.gallery, card = event.target.closest("[data-at]");
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: g.columns, ArrowUp: -g.columns };
  if (!card || !(event.key in steps) || B.state.beside) return;
  event.preventDefault();
  const at = Math.max(0, Math.min(g.items.length - 1, Number(card.dataset.at) + steps[event.key]));
  const top = g.view.getBoundingClientRect().top + scrollY + Math.floor(at / g.columns) * (g.height + g.gap);
  if (top < scrollY + 130) scrollTo({ top: top - 140 });
  if (top + g.height > scrollY + innerHeight) scrollTo({ top: top + g.height - innerHeight + 20 });
  B.drawGallery();
  g.cards.get(at)?.focus({ preventScroll: true });
};

B.setUpGallery = function () {
  const g = B.gallery;
  g.view = B.byId("view");
  B.listeners.push(B.fillGallery);
  addEventListener("scroll", () => requestAnimationFrame(B.drawGallery), { passive: true });
  new ResizeObserver(() => {
    if (g.view.clientWidth === g.seen) return;
    g.seen = g.view.clientWidth;
    B.fillGallery();
  }).observe(g.view);
  g.view.addEventListener("keydown", B.walk);
};
