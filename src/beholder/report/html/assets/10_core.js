// Namespace, elements, data, filters. Text reaches the page through textContent only.
"use strict";
const B = {};

B.head = JSON.parse(document.getElementById("head-data").textContent);
B.core = null;
B.state = { metric: 0, order: "worst", status: "any", text: "", side: -1, columns: {}, brush: null, rows: null, beside: false };
B.listeners = [];

// h("p", {class: "x", onclick: f}, "text", child …)
B.h = function (tag, attributes, ...children) {
  const svg = B.svgTags.has(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
};
B.svgTags = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "title"]);  // no page has an HTML title to make

B.byId = (id) => document.getElementById(id);
B.metric = (at) => B.head.metrics[at];
B.metricOf = (label) => B.head.metrics.find((metric) => metric.label === label);
B.sideColour = (side) => `var(--s${side % 8})`;

B.number = function (value, metric) {
  if (value === null || value === undefined) return "—";
  const text = value.toFixed(metric.decimals);
  return (Number(text) === 0 && value !== 0 ? value.toExponential(1) : text).replace("-", "−");
};

B.arrow = (metric) => (metric.higher === true ? " ↑" : metric.higher === false ? " ↓" : "");

// ---- data: scripts of the folder, or elements of this file; each part is read when it is first needed
B.waiting = {};
B.parts = {};

globalThis.beholderData = function (name, value) {
  if (B.waiting[name]) B.waiting[name](value);
};

B.part = function (name) {
  if (!B.parts[name]) B.parts[name] = B.head.mode === "file" ? B.embedded(name) : B.script(name);
  return B.parts[name];
};

B.ready = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => resolve());
  else resolve();
});

B.embedded = async function (name) {
  await B.ready;
  const node = document.querySelector(`script[data-part="${name}"]`);
  if (!node) throw new Error(`this file lacks its part ${name}`);
  const value = JSON.parse(node.textContent);
  node.remove();
  return value;
};

B.script = function (name) {
  return new Promise((resolve, reject) => {
    B.waiting[name] = resolve;
    const node = B.h("script", { src: `data/${name}.js` });
    node.onerror = () => reject(new Error(`data/${name}.js is missing`));
    document.head.append(node);
  });
};

// The address of a thumbnail by its number; null where there is none.
B.thumb = async function (number) {
  if (number < 0) return null;
  const key = B.core.thumbs[number];
  if (B.head.mode !== "file") return `thumbs/${key}.jpg`;
  const part = await B.part(`thumbs-${Math.floor(number / B.head.thumbsPerPart)}`);
  return part[key] ? `data:image/jpeg;base64,${part[key]}` : null;
};

B.detail = async function (row) {
  const part = await B.part(`details-${Math.floor(row / B.head.detailsPerPart)}`);
  return part[row % B.head.detailsPerPart];
};

// ---- which samples are shown
B.changed = function (change) {
  Object.assign(B.state, change);
  for (const listener of B.listeners) listener();
};

B.passes = function (row) {
  const core = B.core, state = B.state;
  if (state.side >= 0 && core.sides[row] !== state.side) return false;
  if (state.rows && !state.rows.set.has(row)) return false;
  if (state.status !== "any") {
    const status = core.statusNames[core.statuses[B.metric(state.metric).label][row]];
    if (state.status === "none" ? status === "ok" : status !== state.status) return false;
  }
  for (const [name, code] of Object.entries(state.columns)) if (core.columns[name].codes[row] !== code) return false;
  if (state.brush && !B.inBrush(row, state.brush)) return false;
  return !state.words.length || state.words.every((word) => B.textOf(row).includes(word));
};
B.state.words = [];

B.inBrush = function (row, brush) {
  for (const axis of brush) {
    const value = B.core.values[axis.label][row];
    if (value === null || value < axis.low || value > axis.high) return false;
  }
  return true;
};

B.texts = [];
B.textOf = function (row) {
  if (B.texts[row] === undefined) {
    const prompt = B.core.prompts.texts[B.core.prompts.codes[row]] || "";
    B.texts[row] = `${prompt}\n${B.core.ids[row]}\n${B.core.outputs[row] || ""}`.toLowerCase();
  }
  return B.texts[row];
};

// A reproducible order that looks like chance: multiply-xorshift of the row's number.
B.chance = function (row) {
  let x = Math.imul(row + 1, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  return (x ^ (x >>> 13)) >>> 0;
};

B.chosen = function () {
  const rows = [];
  for (let row = 0; row < B.core.ids.length; row++) if (B.passes(row)) rows.push(row);
  const metric = B.metric(B.state.metric);
  if (B.state.order === "random") return rows.sort((a, b) => B.chance(a) - B.chance(b));
  if (B.state.order === "input" || !metric) return rows;
  const values = B.core.values[metric.label];
  const falls = (B.state.order === "best") === (metric.higher !== false);
  const last = falls ? -Infinity : Infinity;
  const of = (row) => (values[row] === null ? last : values[row]);
  return rows.sort((a, b) => (falls ? of(b) - of(a) : of(a) - of(b)) || a - b);
};
