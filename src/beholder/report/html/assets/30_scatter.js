// Two metrics against each other: drag to brush, click to open a sample.
"use strict";

B.scatter = { left: 52, bottom: 30, top: 8, right: 10, drag: null, at: -1, anchor: -1 };

B.setUpScatter = function () {
  const s = B.scatter, metrics = B.head.metrics;
  if (metrics.length < 2) return;
  s.canvas = B.byId("scatter-canvas");
  s.x = B.byId("scatter-x");
  s.y = B.byId("scatter-y");
  metrics.forEach((metric, at) => {
    s.x.append(B.h("option", { value: at, selected: at === 0 }, metric.label + B.arrow(metric)));
    s.y.append(B.h("option", { value: at, selected: at === 1 }, metric.label + B.arrow(metric)));
  });
  s.x.addEventListener("change", () => B.changed({ brush: null }));
  s.y.addEventListener("change", () => B.changed({ brush: null }));
  s.canvas.addEventListener("pointerdown", B.scatterDown);
  s.canvas.addEventListener("pointermove", B.scatterMove);
  s.canvas.addEventListener("pointerup", B.scatterUp);
  s.canvas.addEventListener("keydown", B.scatterKey);
  s.canvas.addEventListener("blur", () => { s.at = -1; B.drawScatter(); });
  s.canvas.addEventListener("pointercancel", () => { s.drag = null; B.drawScatter(); });
  B.byId("scatter-legend").append(B.legend() || "");
  B.listeners.push(B.drawScatter);
  new ResizeObserver(B.drawScatter).observe(s.canvas.parentElement);
};

B.scatterScale = function () {
  const s = B.scatter, labels = [s.x, s.y].map((select) => B.metric(Number(select.value)).label);
  const [xs, ys] = labels.map((label) => B.core.values[label]);
  if (s.labels && s.labels[0] === labels[0] && s.labels[1] === labels[1]) return;
  s.labels = labels;
  s.points = [];
  s.at = s.anchor = -1;
  let range = [Infinity, -Infinity, Infinity, -Infinity];
  for (let row = 0; row < xs.length; row++) {
    if (xs[row] === null || ys[row] === null) continue;
    s.points.push(row);
    range = [Math.min(range[0], xs[row]), Math.max(range[1], xs[row]), Math.min(range[2], ys[row]), Math.max(range[3], ys[row])];
  }
  const [px, py] = [(range[1] - range[0] || 1) * 0.03, (range[3] - range[2] || 1) * 0.03];
  s.range = [range[0] - px, range[1] + px, range[2] - py, range[3] + py];
};

B.toPixel = function (row) {
  const s = B.scatter, [a, b, c, d] = s.range;
  return [
    s.left + ((B.core.values[s.labels[0]][row] - a) / (b - a)) * (s.width - s.left - s.right),
    s.height - s.bottom - ((B.core.values[s.labels[1]][row] - c) / (d - c)) * (s.height - s.bottom - s.top),
  ];
};

B.fromPixel = function (x, y) {
  const s = B.scatter, [a, b, c, d] = s.range;
  return [
    a + ((x - s.left) / (s.width - s.left - s.right)) * (b - a),
    c + ((s.height - s.bottom - y) / (s.height - s.bottom - s.top)) * (d - c),
  ];
};

B.drawScatter = function () {
  const s = B.scatter;
  if (!s.canvas || !B.core) return;
  B.scatterScale();
  const box = s.canvas.parentElement.clientWidth, ratio = globalThis.devicePixelRatio || 1;
  s.width = Math.max(240, box);
  s.height = Math.round(Math.min(440, Math.max(260, s.width * 0.55)));
  s.canvas.width = s.width * ratio;
  s.canvas.height = s.height * ratio;
  s.canvas.style.height = `${s.height}px`;
  const pen = s.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  pen.scale(ratio, ratio);
  B.scatterAxes(pen, style);
  if (!s.points.length) return;
  const colours = B.head.sides.map((_, side) => style.getPropertyValue(`--s${side % 8}`).trim());
  const size = s.points.length > 3000 ? 2 : 3;
  const drawn = s.points.map((row) => [row, B.passes(row)]);
  for (const wanted of [false, true]) for (const [row, passes] of drawn) {
    if (passes !== wanted) continue;
    const [x, y] = B.toPixel(row);
    pen.globalAlpha = passes ? 0.6 : 0.08;
    pen.fillStyle = colours[B.core.sides[row]];
    pen.beginPath();
    pen.arc(x, y, size, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
  B.ringPoint(pen, style);
  const rect = s.drag || B.brushPixels();
  if (!rect) return;
  pen.strokeStyle = style.getPropertyValue("--text");
  pen.setLineDash([4, 3]);
  pen.strokeRect(Math.min(rect[0], rect[2]), Math.min(rect[1], rect[3]), Math.abs(rect[2] - rect[0]), Math.abs(rect[3] - rect[1]));
};

B.brushPixels = function () {
  const s = B.scatter, brush = B.state.brush;
  if (!brush || brush.length !== 2 || brush[0].label !== s.labels[0] || brush[1].label !== s.labels[1]) return null;
  const [a, b, c, d] = s.range, [x, y] = brush;
  const px = (value) => s.left + ((value - a) / (b - a)) * (s.width - s.left - s.right);
  const py = (value) => s.height - s.bottom - ((value - c) / (d - c)) * (s.height - s.bottom - s.top);
  return [px(x.low), py(y.high), px(x.high), py(y.low)];
};

B.scatterAxes = function (pen, style) {
  const s = B.scatter;
  pen.font = "11px system-ui, sans-serif";
  pen.strokeStyle = style.getPropertyValue("--line");
  pen.fillStyle = style.getPropertyValue("--quiet");
  if (!s.points.length) return void pen.fillText("No sample has both values.", s.left, s.height / 2);
  const [a, b, c, d] = s.range;
  for (const [value, text] of B.ticks(a, b, 6)) {
    const x = s.left + ((value - a) / (b - a)) * (s.width - s.left - s.right);
    pen.beginPath(); pen.moveTo(x, s.top); pen.lineTo(x, s.height - s.bottom); pen.stroke();
    pen.textAlign = "center";
    pen.fillText(text, x, s.height - s.bottom + 15);
  }
  for (const [value, text] of B.ticks(c, d, 5)) {
    const y = s.height - s.bottom - ((value - c) / (d - c)) * (s.height - s.bottom - s.top);
    pen.beginPath(); pen.moveTo(s.left, y); pen.lineTo(s.width - s.right, y); pen.stroke();
    pen.textAlign = "right";
    pen.fillText(text, s.left - 6, y + 4);
  }
};

B.scatterPlace = function (event) {
  const box = B.scatter.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

B.nearest = function (x, y) {
  let best = -1, least = 100;
  for (const row of B.scatter.points) {
    if (!B.passes(row)) continue;
    const [px, py] = B.toPixel(row), away = (px - x) ** 2 + (py - y) ** 2;
    if (away < least) [best, least] = [row, away];
  }
  return best;
};

B.scatterDown = function (event) {
  const place = B.scatterPlace(event);
  B.scatter.drag = [...place, ...place];
  B.scatter.canvas.setPointerCapture(event.pointerId);
};

B.scatterMove = function (event) {
  const s = B.scatter;
  if (s.drag) {
    [s.drag[2], s.drag[3]] = B.scatterPlace(event);
    requestAnimationFrame(B.drawScatter);
  } else if (event.pointerType === "mouse" && B.core) {
    const row = B.nearest(...B.scatterPlace(event));
    s.canvas.style.cursor = row < 0 ? "crosshair" : "pointer";
    s.canvas.title = row < 0 ? "" : B.core.ids[row];
  }
};

B.scatterUp = function () {
  const s = B.scatter, drag = s.drag;
  s.drag = null;
  if (!drag) return;
  if (Math.abs(drag[2] - drag[0]) + Math.abs(drag[3] - drag[1]) < 6) {
    const row = B.nearest(drag[2], drag[3]);
    if (row >= 0) return void B.open(row);
    return void B.changed({ brush: null });
  }
  B.brush(B.fromPixel(drag[0], drag[1]), B.fromPixel(drag[2], drag[3]));
};

// Chooses the samples between two corners, in values of the metrics.
B.brush = function ([x0, y0], [x1, y1]) {
  const s = B.scatter;
  B.changed({ brush: [
    { label: s.labels[0], low: Math.min(x0, x1), high: Math.max(x0, x1) },
    { label: s.labels[1], low: Math.min(y0, y1), high: Math.max(y0, y1) },
  ] });
};

// Arrows walk over the points from left to right, with Shift they choose those from where it was pressed; Enter opens one.
B.scatterKey = function (event) {
  const s = B.scatter;
  if (event.ctrlKey || event.metaKey || event.altKey || !s.points || !s.points.length) return;
  const value = (row, at) => B.core.values[s.labels[at]][row];
  const order = s.points.filter((row) => row === s.at || event.shiftKey || B.passes(row)).sort((a, b) => value(a, 0) - value(b, 0) || a - b);
  if (event.key === "Enter" && s.at >= 0) B.open(s.at);
  else if (event.key === "Escape") B.changed({ brush: null });
  else {
    const from = order.indexOf(s.at), to = from < 0 ? 0 : B.walkTo(event.key, from, order.length);
    if (!order.length || B.walkTo(event.key, 0, 1) === null) return;
    if (!event.shiftKey || s.anchor < 0) s.anchor = event.shiftKey && s.at >= 0 ? s.at : order[to];
    s.at = order[to];
    s.canvas.setAttribute("aria-label", `Two metrics against each other: ${B.core.ids[s.at]}`);
    if (event.shiftKey) B.brush([value(s.anchor, 0), value(s.anchor, 1)], [value(s.at, 0), value(s.at, 1)]);
    else { s.anchor = -1; B.drawScatter(); }
  }
  event.preventDefault();
};

// A ring around the point at which the keyboard is.
B.ringPoint = function (pen, style) {
  if (B.scatter.at < 0) return;
  pen.strokeStyle = style.getPropertyValue("--text");
  pen.beginPath();
  pen.arc(...B.toPixel(B.scatter.at), 6, 0, 7);
  pen.stroke();
};
