// OpenS2V: totals out of weighted parts, sub-tracks, companions, and why a video counts 0.
"use strict";

B.viewKinds.opens2v = function (data) {
  return [
    B.viewFacts(data),
    data.bars ? B.totals(data.bars) : null,
    data.board ? B.table(data.board, { title: data.board.title }) : null,
    data.subtracks ? B.table(data.subtracks) : null,
    data.companions ? B.companions(data.companions) : null,
    data.why ? B.table(data.why, { canopen: (row) => row.row !== undefined, onrow: (row) => B.open(row.row) }) : null,
  ];
};

B.totals = function (bars) {
  const models = [...bars.models].sort((a, b) => a.published - b.published || (b.total ?? b.partial ?? -1) - (a.total ?? a.partial ?? -1));
  const shown = { all: false }, place = B.h("div", {});
  const draw = () => {
    const own = models.filter((model) => !model.published), theirs = models.filter((model) => model.published);
    place.replaceChildren(B.totalBars(bars, [...own, ...(shown.all ? theirs : [])]));
  };
  const published = models.some((model) => model.published)
    ? B.h("label", { class: "check" }, B.h("input", { type: "checkbox", onchange: (event) => { shown.all = event.target.checked; draw(); } }), "with published models") : null;
  draw();
  return B.h("div", { class: "sheet" },
    B.h("div", { class: "heading" }, B.h("h3", {}, `${bars.title}: weight × part, in percent`), published),
    B.h("div", { class: "wide" }, B.h("table", { class: "parts" },
      B.h("thead", {}, B.h("tr", {}, ["part", "weight", "cut to", "metric"].map((name, at) => B.h("th", { class: at === 1 ? "number" : null }, name)))),
      B.h("tbody", {}, bars.parts.map((part, at) => B.h("tr", {},
        B.h("td", {}, B.h("i", { style: `background:var(--s${at % 8})` }), part.title),
        B.h("td", { class: "number" }, part.weight.toFixed(2)), B.h("td", {}, part.bounds), B.h("td", {}, part.metric)))))),
    place);
};

B.totalBars = function (bars, models) {
  const names = 150, width = 900, line = 30, height = models.length * line + 22;
  const x = (value) => names + (value / 100) * (width - names - 120);
  const svg = B.h("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": bars.title, class: "bars" });
  for (const at of [0, 20, 40, 60, 80, 100]) svg.append(B.h("line", { x1: x(at), x2: x(at), y1: 0, y2: height - 18, class: "grid" }),
    B.h("text", { x: x(at), y: height - 4, "text-anchor": "middle" }, String(at)));
  models.forEach((model, row) => {
    const y = row * line + 5;
    svg.append(B.h("text", { x: names - 8, y: y + 15, "text-anchor": "end", class: "name" },
      model.name.length > 22 ? `${model.name.slice(0, 21)}…` : model.name, B.h("title", {}, model.name)));
    let from = 0;
    model.parts.forEach((part, at) => {
      if (part.adds === null) return;
      const told = `${model.name}, ${bars.parts[at].title}: ${part.value.toFixed(2)} × ${bars.parts[at].weight} = ${part.adds.toFixed(2)}${part.tip ? `\n${part.tip}` : ""}`;
      svg.append(B.h("rect", { x: x(from), y, width: Math.max(0, x(from + part.adds) - x(from)), height: 20, class: "part",
        style: `--c:var(--s${at % 8})`, "fill-opacity": model.published ? 0.45 : 0.9 }, B.h("title", {}, told)));
      from += part.adds;
    });
    const text = model.total === null ? `${(model.partial ?? from).toFixed(2)}, partial` : model.total.toFixed(2);
    svg.append(B.h("text", { x: x(from) + 8, y: y + 15, class: model.total === null ? "name partial" : "name" }, text,
      B.h("title", {}, model.note || (model.published ? "published" : "total"))));
  });
  return B.h("div", { class: "plot scrolls" }, svg);
};

B.companions = function (data) {
  return B.h("div", {},
    B.h("h3", {}, data.title),
    data.swaps.length ? B.h("ul", { class: "swaps" }, data.swaps.map((text) => B.h("li", {}, text))) : null,
    B.table(data, { title: false, intervals: false }));
};
