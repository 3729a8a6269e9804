// Distributions and groups, drawn as SVG.
"use strict";

B.ticks = function (low, high, count) {
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return found.map((at) => [at, at.toFixed(Math.min(8, decimals)).replace("-", "−")]);
};

B.legend = function () {
  if (B.head.sides.length < 2) return null;
  return B.h("p", { class: "legend" }, B.head.sides.map((side, at) =>
    B.h("span", {}, B.h("i", { style: `background:${B.sideColour(at)}` }), side.name)));
};

// One outline a side; a click on a bin shows its samples.
B.histogram = function (found) {
  const metric = B.metricOf(found.label);
  const width = 420, height = 150, left = 8, bottom = 22, edges = found.edges;
  const figure = B.h("figure", {}, B.h("figcaption", {}, metric.label + B.arrow(metric), B.h("small", {}, ` ${metric.unit}`)));
  if (!edges.length) return figure.append(B.h("p", { class: "quiet" }, "No sample has a value.")), figure;
  const totals = found.counts.map((counts) => counts.reduce((a, b) => a + b, 0) || 1);
  const top = Math.max(...found.counts.map((counts, side) => Math.max(...counts) / totals[side]));
  const x = (value) => left + ((value - edges[0]) / (edges.at(-1) - edges[0])) * (width - 2 * left);
  const y = (share) => height - bottom - (share / top) * (height - bottom - 8);
  const svg = B.h("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Distribution of ${metric.label}` });
  found.counts.forEach((counts, side) => {
    let path = `M${x(edges[0])},${y(0)}`;
    counts.forEach((count, bin) => { path += `V${y(count / totals[side])}H${x(edges[bin + 1])}`; });
    svg.append(B.h("path", { d: `${path}V${y(0)}Z`, class: "area", style: `--c:${B.sideColour(side)}` }));
  });
  svg.append(B.h("line", { x1: left, x2: width - left, y1: y(0), y2: y(0), class: "axis" }));
  for (const [value, text] of B.ticks(edges[0], edges.at(-1), 5))
    svg.append(B.h("text", { x: x(value), y: height - 6, class: "tick", "text-anchor": "middle" }, text));
  for (let bin = 0; bin + 1 < edges.length; bin++) {
    const told = B.head.sides.map((side, at) => `${side.name}: ${found.counts[at][bin]}`).join(", ");
    const range = `${B.number(edges[bin], metric)} to ${B.number(edges[bin + 1], metric)}`;
    svg.append(B.h("rect", {
      x: x(edges[bin]), y: 0, width: x(edges[bin + 1]) - x(edges[bin]), height: height - bottom, class: "hit",
      onclick: () => B.follow({ brush: [{ label: metric.label, low: edges[bin], high: edges[bin + 1] }] }),
    }, B.h("title", {}, `${range}\n${told}`)));
  }
  return figure.append(B.walkable(svg, ".hit")), figure;
};

// Means of groups with their intervals: one line a group, one dot a side.
B.groupChart = function (column, label, bars) {
  const metric = B.metricOf(label);
  const figure = B.h("figure", {}, B.h("figcaption", {}, label + B.arrow(metric), B.h("small", {}, ` ${metric.unit}`)));
  const known = bars.filter((bar) => bar.value !== null);
  if (!known.length) return figure.append(B.h("p", { class: "quiet" }, "No group has a value.")), figure;
  const groups = [...new Set(bars.map((bar) => bar.group))];
  const sides = B.head.sides.length, line = Math.max(20, 9 * sides + 8), names = 118, width = 420;
  const height = groups.length * line + 26;
  const low = Math.min(...known.map((bar) => bar.low ?? bar.value)), high = Math.max(...known.map((bar) => bar.high ?? bar.value));
  const pad = (high - low || 1) * 0.04;
  const x = (value) => names + ((value - low + pad) / (high - low + 2 * pad)) * (width - names - 8);
  const svg = B.h("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label} by ${column}` });
  for (const [value, text] of B.ticks(low, high, 4)) svg.append(
    B.h("line", { x1: x(value), x2: x(value), y1: 0, y2: height - 20, class: "grid" }),
    B.h("text", { x: x(value), y: height - 6, class: "tick", "text-anchor": "middle" }, text));
  groups.forEach((group, at) => {
    const shown = group.length > 19 ? `${group.slice(0, 18)}…` : group;
    svg.append(B.h("text", { x: names - 8, y: at * line + line / 2 + 4, class: "name", "text-anchor": "end" }, shown, B.h("title", {}, group)));
  });
  for (const bar of known) {
    const y = groups.indexOf(bar.group) * line + line / 2 + (bar.side - (sides - 1) / 2) * 9;
    const text = `${bar.group}, ${B.head.sides[bar.side].name}: ${B.number(bar.value, metric)}` +
      (bar.low === null ? "" : ` [${B.number(bar.low, metric)}, ${B.number(bar.high, metric)}]`) + `, n = ${bar.n}` +
      Object.entries(bar.missing).map(([status, count]) => `, ${count} ${status}`).join("");
    const mark = B.h("g", { class: "mark", style: `--c:${B.sideColour(bar.side)}`, onclick: () => B.followGroup(column, bar) }, B.h("title", {}, text));
    if (bar.low !== null) mark.append(B.h("line", { x1: x(bar.low), x2: x(bar.high), y1: y, y2: y }));
    mark.append(B.h("circle", { cx: x(bar.value), cy: y, r: 3.5 }));
    svg.append(mark);
  }
  return figure.append(B.walkable(svg, ".mark")), figure;
};

B.drawCharts = function () {
  if (!B.byId("distributions")) return;
  B.byId("distributions-charts").append(...B.head.histograms.map(B.histogram));
  B.byId("distributions-legend").append(B.legend() || "");
};

// Charts and table of the column that is chosen; their data come after the first screen.
B.drawGroups = async function () {
  if (!B.head.groupColumns.length) return;
  const chooser = B.byId("group-column"), groups = await B.part("groups");
  for (const name of B.head.groupColumns) chooser.append(B.h("option", { value: name }, name));
  const draw = () => {
    const column = chooser.value, found = groups[column];
    B.byId("groups-charts").replaceChildren(...Object.entries(found.bars).map(([label, bars]) => B.groupChart(column, label, bars)));
    B.byId("groups-table").replaceChildren(...(found.table ? [B.table(found.table, { onrow: (row) => B.followRow(column, found.table, row) })] : []));
  };
  chooser.addEventListener("change", draw);
  B.byId("groups-legend").append(B.legend() || "");
  draw();
};

// A row of the table of groups: its group, and its method where there are several.
B.followRow = function (column, table, row) {
  const at = table.columns.findIndex((head, place) => place > 0 && head.title === "method");
  const side = at < 0 ? (B.head.sides.length === 1 ? 0 : -1) : B.head.sides.findIndex((one) => one.name === B.cellText(row.cells[at]));
  return B.followGroup(column, { group: B.cellText(row.cells[0]), side });
};

// From a chart to the samples behind it.
B.follow = async function (change) {
  await B.loaded;
  B.resetFilters(change);
  B.byId("gallery").scrollIntoView({ behavior: "auto", block: "start" });
};

B.followGroup = async function (column, bar) {
  await B.loaded;
  const known = B.core.columns[column];
  const code = known ? (bar.group === "(none)" ? -1 : known.texts.indexOf(bar.group)) : -2;
  B.follow(code === -2 ? { side: bar.side } : { side: bar.side, columns: { [column]: code } });
};
