// Attributes of whole sets: which are too frequent (SaD), which come together (PaD), and where they moved (R-SaD).
"use strict";

B.viewKinds.attributes = function (data) {
  const place = B.h("div", {});
  const show = (at) => place.replaceChildren(...B.attributeSet(data, data.sets[at]));
  if (data.sets.length) show(0);
  return [
    B.viewFacts(data),
    B.table(data.ranking),
    data.sets.length > 1 ? B.tabs(data.sets.map((set) => set.name), 0, show) : null,
    place,
    data.figures.length ? B.h("details", {}, B.h("summary", {}, "Drawn figures"), B.h("div", { class: "charts drawn" }, data.figures.map((figure) =>
      B.h("figure", {}, B.h("img", { src: `data:image/png;base64,${figure.data}`, alt: figure.name, loading: "lazy" }), B.h("figcaption", {}, figure.name))))) : null,
  ];
};

B.attributeSet = function (data, set) {
  const bars = B.h("div", { class: "plot scrolls" }), maps = B.h("div", {});
  const state = { order: "sad", log: false, chosen: null };
  const choose = (name) => { state.chosen = name; drawBars(); drawMaps(); };
  const drawBars = () => bars.replaceChildren(B.sadBars(set, state, choose));
  const drawMaps = () => maps.replaceChildren(...(set.maps ? B.regionMaps(data, set, state.chosen, choose) : [B.h("p", { class: "quiet" }, "No maps were made.")]));
  const largest = set.attributes.filter((one) => one.sad !== null).sort((a, b) => b.sad - a.sad)[0];
  state.chosen = largest ? largest.name : null;
  drawBars();
  drawMaps();
  const order = B.h("select", { onchange: (event) => { state.order = event.target.value; drawBars(); } },
    [["sad", "SaD"], ["change", "size of the change"], ["input", "the list"]].map(([value, text]) => B.h("option", { value }, text)));
  return [
    B.h("div", { class: "heading" }, B.h("h3", {}, `SaD of ${set.name}, ${data.unit}`), B.h("label", { class: "chooser" }, "order ", order),
      B.h("label", { class: "check" }, B.h("input", { type: "checkbox", onchange: (event) => { state.log = event.target.checked; drawBars(); } }), "logarithmic")),
    B.h("p", { class: "quiet" }, "Bar: SaD. Line: its interval. Notch: the level that it stays under by chance. Pale: not significant after Benjamini-Hochberg. A click shows the attribute's maps."),
    bars,
    B.h("h3", {}, "Pairs"), B.pairMatrix(data, set.pairs),
    B.h("h3", {}, "Where"), maps,
    B.table(set.table, { onrow: (row) => choose(B.cellText(row.cells[0])) }),
  ];
};

B.sadBars = function (set, state, choose) {
  const rows = [...set.attributes];
  const key = { sad: (one) => one.sad, change: (one) => (one.change === null ? null : Math.abs(one.change)) }[state.order];
  if (key) rows.sort((a, b) => (key(b) ?? -1) - (key(a) ?? -1));
  const known = rows.filter((one) => one.sad !== null);
  const width = 900, names = 170, right = 235, line = 24, height = rows.length * line + 26;
  const top = Math.max(1e-9, ...known.map((one) => Math.max(one.sad, one.high ?? 0, one.null ?? 0)));
  const least = Math.max(1e-6, Math.min(top / 10, ...known.map((one) => Math.max(one.sad, 1e-6)))) / 2;
  const share = (value) => state.log ? Math.max(0, Math.log(Math.max(value, least) / least) / Math.log(top / least)) : value / top;
  const x = (value) => names + share(value) * (width - names - right);
  const svg = B.h("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `SaD of ${set.name}`, class: "bars" });
  const ticks = state.log ? B.powers(least, top) : B.ticks(0, top, 5);
  for (const [value, text] of ticks) svg.append(B.h("line", { x1: x(value), x2: x(value), y1: 0, y2: height - 20, class: "grid" }),
    B.h("text", { x: x(value), y: height - 6, "text-anchor": "middle" }, text));
  rows.forEach((one, row) => {
    const y = row * line + 3, mark = B.h("g", { class: `mark${one.name === state.chosen ? " chosen" : ""}`, onclick: () => choose(one.name) });
    mark.append(B.h("rect", { x: 0, y: y - 3, width, height: line, class: "hit" },
      B.h("title", {}, `${one.name}${one.sad === null ? `: ${one.status}` : `: SaD ${one.sad.toPrecision(3)}${one.low === null ? "" : ` [${one.low.toPrecision(3)}, ${one.high.toPrecision(3)}]`}, ${one.tip}`}`)),
      B.h("text", { x: names - 8, y: y + 13, "text-anchor": "end", class: "name" }, one.name.length > 26 ? `${one.name.slice(0, 25)}…` : one.name));
    if (one.sad === null) mark.append(B.h("text", { x: names + 4, y: y + 13 }, one.status));
    else {
      mark.append(B.h("rect", { x: names, y, width: Math.max(1, x(one.sad) - names), height: 17, class: "bar", "fill-opacity": one.sure ? 0.85 : 0.3 }));
      if (one.low !== null) mark.append(B.h("line", { x1: x(one.low), x2: x(one.high), y1: y + 8.5, y2: y + 8.5, class: "whisker" }));
      if (one.null !== null) mark.append(B.h("line", { x1: x(one.null), x2: x(one.null), y1: y - 2, y2: y + 19, class: "null" }));
      const told = one.irrelevant ? "irrelevant" : `${one.change > 0 ? "more" : "less"} in generated (${one.change > 0 ? "+" : "−"}${Math.abs(one.change).toFixed(3)})`;
      mark.append(B.h("text", { x: Math.max(x(one.sad), x(one.high ?? 0), x(one.null ?? 0)) + 7, y: y + 13 }, told));
    }
    svg.append(mark);
  });
  return B.walkable(svg, ".mark");
};

B.powers = function (low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power++) found.push([10 ** power, power >= -3 && power <= 4 ? String(Number((10 ** power).toPrecision(1))) : `1e${power}`]);
  return found;
};

B.shade = (colours, share) => colours[Math.max(0, Math.min(colours.length - 1, Math.round(share * (colours.length - 1))))];

// PaD above the diagonal, the dependence term below it.
B.pairMatrix = function (data, pairs) {
  const count = pairs.names.length;
  if (count < 2) return B.h("p", { class: "quiet" }, "There are no pairs.");
  const cell = Math.max(14, Math.min(34, Math.floor(560 / count))), left = 150, top = 110, size = count * cell;
  const svg = B.h("svg", { viewBox: `0 0 ${left + size + 8} ${top + size + 8}`, role: "img", "aria-label": "Pairs of attributes", class: "matrix", style: `max-width:${left + size + 8}px` });
  const told = B.h("p", { class: "quiet told", "aria-live": "polite" }, "Above the diagonal: PaD. Below: dependence, PaD − SaD − SaD. Dot: significant. Point at a cell or click it for its numbers.");
  const short = (text) => (text.length > 22 ? `${text.slice(0, 21)}…` : text);
  pairs.names.forEach((name, at) => {
    svg.append(B.h("text", { x: left - 6, y: top + at * cell + cell / 2 + 4, "text-anchor": "end", class: "name" }, short(name)),
      B.h("text", { x: left + at * cell + cell / 2 + 4, y: top - 6, class: "name", transform: `rotate(-60 ${left + at * cell + cell / 2 + 4} ${top - 6})` }, short(name)));
  });
  const most = Math.max(1e-12, ...pairs.cells.map((one) => one[2] ?? 0)), reach = Math.max(1e-12, ...pairs.cells.map((one) => Math.abs(one[3] ?? 0)));
  const put = (row, column, value, colour, sure, text) => {
    if (value === null) return;
    const say = () => { told.textContent = text; };
    svg.append(B.h("rect", { x: left + column * cell, y: top + row * cell, width: cell - 1, height: cell - 1, fill: colour, class: "cell", onclick: say, onfocus: say, onpointerenter: say }, B.h("title", {}, text)));
    if (sure) svg.append(B.h("circle", { cx: left + column * cell + cell / 2, cy: top + row * cell + cell / 2, r: 2.6, class: "dot" }));
  };
  for (const [i, j, pad, dependence, sure, bound, padTip, dependenceTip] of pairs.cells) {
    const [first, second] = [Math.min(i, j), Math.max(i, j)], names = `${pairs.names[i]} with ${pairs.names[j]}`;
    put(first, second, pad, B.shade(data.sequential, (pad ?? 0) / most), sure, `${names}: PaD ${(pad ?? 0).toPrecision(3)} (${padTip})`);
    put(second, first, dependence, B.shade(data.diverging, 0.5 + (dependence ?? 0) / reach / 2), bound, `${names}: dependence ${(dependence ?? 0).toPrecision(3)} (${dependenceTip})`);
  }
  return B.h("div", { class: "plot scrolls" }, B.walkable(svg, ".cell"),
    B.h("div", { class: "legend" }, B.scaleBar(data.sequential, "PaD", "0", most.toPrecision(2)), B.scaleBar(data.diverging, "dependence", `−${reach.toPrecision(2)}`, `+${reach.toPrecision(2)}`)),
    told, pairs.left_out ? B.h("p", { class: "quiet" }, `${pairs.left_out} attributes with smaller values are not shown; all pairs stand in pairs.parquet.`) : null);
};

B.scaleBar = (colours, name, low, high) => B.h("span", { class: "scale" }, `${name} ${low} `,
  B.h("svg", { viewBox: `0 0 ${colours.length} 4`, "aria-hidden": "true", preserveAspectRatio: "none" }, colours.map((colour, at) => B.h("rect", { x: at, y: 0, width: 1.05, height: 4, fill: colour }))), ` ${high}`);

B.regionMaps = function (data, set, chosen, choose) {
  const known = Object.keys(set.maps.of), name = known.includes(chosen) ? chosen : known[0], found = set.maps.of[name];
  const chooser = B.h("select", { onchange: (event) => choose(event.target.value) }, known.map((one) => B.h("option", { value: one, selected: one === name }, one)));
  const heat = Math.max(1e-12, ...found.ref_mean.flat(), ...found.gen_mean.flat()), reach = Math.max(1e-12, ...found.r_sad.flat().map(Math.abs));
  return [
    B.h("p", { class: "quiet" }, B.h("label", {}, "attribute ", chooser), ` ${found.tip}. R-SaD is reference minus generated; outlined cells are significant.`),
    B.h("div", { class: "maps" },
      B.map("reference, mean", found.ref_mean, (value) => B.shade(data.sequential, value / heat), null),
      B.map(`${set.name}, mean`, found.gen_mean, (value) => B.shade(data.sequential, value / heat), null),
      B.map("R-SaD", found.r_sad, (value) => B.shade(data.diverging, 0.5 + value / reach / 2), found.significant),
      B.placements(set, name, choose)),
    B.h("div", { class: "legend" }, B.scaleBar(data.sequential, "mean score", "0", heat.toPrecision(2)), B.scaleBar(data.diverging, "R-SaD", `−${reach.toPrecision(2)} (more generated)`, `+${reach.toPrecision(2)} (less generated)`)),
  ];
};

B.map = function (title, values, colour, significant) {
  const rows = values.length, columns = values[0].length;
  const svg = B.h("svg", { viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": title, class: "map" });
  values.forEach((line, row) => line.forEach((value, column) => svg.append(
    B.h("rect", { x: column, y: row, width: 1.02, height: 1.02, fill: colour(value) }, B.h("title", {}, `row ${row + 1}, column ${column + 1}: ${value.toPrecision(3)}`)))));
  const sure = (row, column) => Boolean(significant && significant[row] && significant[row][column]);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
    if (!sure(row, column)) continue;
    const edges = [[-1, 0, column, row, column + 1, row], [1, 0, column, row + 1, column + 1, row + 1], [0, -1, column, row, column, row + 1], [0, 1, column + 1, row, column + 1, row + 1]];
    for (const [down, across, x1, y1, x2, y2] of edges) if (!sure(row + down, column + across)) svg.append(B.h("line", { x1, y1, x2, y2, class: "edge" }));
  }
  return B.h("figure", {}, B.h("figcaption", {}, title), svg);
};

// From where each attribute is in the reference to where it is in the generated set.
B.placements = function (set, chosen, choose) {
  const svg = B.h("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": "Placement", class: "map placement" }, B.h("rect", { x: 0, y: 0, width: 100, height: 100, class: "frame" }));
  for (const [name, found] of Object.entries(set.maps.of)) {
    if (!found.move) continue;
    const { x, y, dx, dy, sure, tip } = found.move, [x1, y1, x2, y2] = [100 * x, 100 * y, 100 * (x + dx), 100 * (y + dy)];
    const angle = Math.atan2(y2 - y1, x2 - x1), wing = (turn) => `${(x2 - 3.4 * Math.cos(angle + turn)).toFixed(2)},${(y2 - 3.4 * Math.sin(angle + turn)).toFixed(2)}`;
    const long = Math.hypot(x2 - x1, y2 - y1) > 1.5;
    svg.append(B.h("g", { class: `move${sure ? " sure" : ""}${name === chosen ? " chosen" : ""}`, onclick: () => choose(name) },
      B.h("title", {}, `${name}: right ${dx.toFixed(3)}, down ${dy.toFixed(3)} (${tip})`),
      B.h("circle", { cx: x1, cy: y1, r: 1.4 }), B.h("line", { x1, y1, x2, y2 }), long ? B.h("path", { d: `M${x2},${y2}L${wing(0.45)}L${wing(-0.45)}Z` }) : null,
      !sure && name !== chosen ? null : B.h("text", { x: Math.min(82, x2 + 2), y: Math.max(5, y2 - 2) }, name.length > 16 ? `${name.slice(0, 15)}…` : name)));
  }
  return B.h("figure", {}, B.h("figcaption", {}, "placement"), B.walkable(svg, ".move"));
};
