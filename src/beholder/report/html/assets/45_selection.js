// The samples that were chosen in the page as a slice: means with intervals over prompts, beside those of all samples.
"use strict";

B.Z = 1.959963984540054;  // 95 %

// Mean of one metric over some rows: Σ values / n, se² = U/(U−1) · Σ_u (sum_u − mean·count_u)² / n² over U prompts.
B.meanOf = function (rows, label) {
  const values = B.core.values[label], sums = new Map(), missing = {};
  let total = 0, n = 0;
  for (const row of rows) {
    const value = values[row];
    if (value === null) {
      const status = B.core.statusNames[B.core.statuses[label][row]];
      missing[status] = (missing[status] || 0) + 1;
      continue;
    }
    const unit = B.core.units[row], own = sums.get(unit) || [0, 0];
    own[0] += value;
    own[1] += 1;
    sums.set(unit, own);
    total += value;
    n += 1;
  }
  if (!n) return { mean: null, n, units: 0, missing };
  const mean = total / n, units = sums.size;
  if (units < 2) return { mean, n, units, missing };
  let spread = 0;
  for (const [sum, count] of sums.values()) spread += (sum - mean * count) ** 2;
  const reach = B.Z * Math.sqrt((units / (units - 1)) * spread) / n;
  return { mean, low: mean - reach, high: mean + reach, n, units, missing };
};

B.selectionCell = function (found, metric) {
  const told = [`n ${found.n}`, ...Object.entries(found.missing).map(([status, count]) => `${count} ${status}`)].join(", ");
  if (found.mean === null) return { t: "—", v: null, s: told };
  const interval = found.low === undefined ? "" : ` [${B.number(found.low, metric)}, ${B.number(found.high, metric)}]`;
  return { t: `${B.number(found.mean, metric)}${interval}`, v: found.mean, l: found.low, h: found.high, s: told,
    k: found.low === undefined ? "no interval: it needs two prompts" : `95 % interval by the spread over ${found.units} prompts (normal)` };
};

B.selectionTable = function (chosen) {
  const rows = [], sides = B.head.sides.length, all = B.core.ids.length;
  for (let side = 0; side < sides; side++) {
    const own = chosen.filter((row) => B.core.sides[row] === side);
    if (!own.length) continue;
    const whole = [];
    for (let row = 0; row < all; row++) if (B.core.sides[row] === side) whole.push(row);
    for (const [name, list] of [["chosen", own], ["all", whole]]) rows.push({ published: name === "all",
      cells: [...(sides > 1 ? [B.head.sides[side].name] : []), name, ...B.head.metrics.map((metric) => B.selectionCell(B.meanOf(list, metric.label), metric))] });
  }
  const columns = [...(sides > 1 ? [{ title: "method", numeric: false }] : []), { title: "samples", numeric: false },
    ...B.head.metrics.map((metric) => ({ title: metric.label + B.arrow(metric), numeric: true }))];
  const told = "Intervals are normal, by the spread over prompts; with few prompts they are too narrow. Samples chosen by a metric's own values say nothing of that metric.";
  return [B.table({ title: "", columns, rows, notes: [] }, { title: false, marked: false }), B.h("p", { class: "quiet" }, told)];
};

// The means are made when they are looked at: typing into the search must stay light.
B.drawSelection = function (chosen) {
  const place = B.byId("selection");
  if (!B.head.metrics.length || !chosen.length || chosen.length === B.core.ids.length) return void place.replaceChildren();
  const inner = B.h("div", {}), fill = () => { if (B.selectionOpen && !inner.firstChild) inner.append(...B.selectionTable(chosen)); };
  place.replaceChildren(B.h("details", { open: B.selectionOpen, ontoggle: (event) => { B.selectionOpen = event.target.open; fill(); } },
    B.h("summary", {}, "Means of the chosen samples"), inner));
  fill();
};
