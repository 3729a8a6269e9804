// Wires the page: what stands in the head is drawn at once, the samples after the first paint.
"use strict";

B.pickCard = function (row, metric) {
  const found = B.head.cards[row];
  if (row < 0 || !found) return B.h("span", { class: "card empty" }, "no sample");
  const value = found.values[metric.label], status = found.statuses[metric.label];
  const picture = B.h("span", { class: "picture" });
  B.fillPicture(picture, Promise.resolve(found.thumb), found.output);
  return B.h("button", { class: "card", type: "button", "data-row": row, onclick: () => B.open(row), title: found.id }, picture,
    B.h("span", { class: "line" }, B.h("b", { class: status === "ok" ? "" : "missing" }, status === "ok" ? B.number(value, metric) : status),
      B.head.sides.length > 1 ? B.h("span", { class: "side" }, B.h("i", { style: `background:${B.sideColour(found.side)}` }), B.head.sides[found.side].name) : null),
    B.head.sides.length > 1 ? null : B.h("span", { class: "prompt" }, found.prompt || found.id));
};

B.drawPicks = function () {
  const place = B.byId("picks"), chooser = B.byId("pick-metric");
  if (!B.head.picks.length) return;
  const labels = [...new Set(B.head.picks.map((pick) => pick.label))];
  for (const label of labels) chooser.append(B.h("option", { value: label }, label));
  const draw = () => {
    const metric = B.metricOf(chooser.value);
    place.replaceChildren(...B.head.picks.filter((pick) => pick.label === chooser.value).map((pick) => B.h("div", { class: "pick" },
      B.h("h3", {}, pick.title),
      pick.rows[0].length > 1
        ? pick.rows.map((rows, at) => B.h("div", { class: "beside" },
          B.h("p", { class: "prompt" }, B.head.cards[rows.find((row) => row >= 0)].prompt || "", B.h("small", {}, ` moved by ${pick.notes[at]}`)),
          B.h("div", { class: "row" }, rows.map((row) => B.pickCard(row, metric)))))
        : B.h("div", { class: "row" }, pick.rows.map(([row]) => B.pickCard(row, metric))))));
  };
  chooser.addEventListener("change", draw);
  draw();
};

B.setUpCopying = function () {
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", async () => {
    const text = B.head.copies[button.dataset.copy], before = button.dataset.name || button.textContent;
    button.dataset.name = before;
    button.textContent = (await B.copy(text)) ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = before; }, 1600);
  });
};

// Pages from a file may have no clipboard of their own; a selected field is the older way.
B.copy = async function (text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = B.h("textarea", { style: "position:fixed;opacity:0" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
};

B.setUpTheme = function () {
  const root = document.documentElement, button = B.byId("theme");
  const stored = () => { try { return localStorage.getItem("beholder-theme"); } catch { return null; } };
  const use = (name) => {
    root.dataset.theme = name;
    try { localStorage.setItem("beholder-theme", name); } catch { /* pages from a file may not store */ }
    B.drawScatter();
  };
  if (stored()) root.dataset.theme = stored();
  button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    use(dark ? "light" : "dark");
  });
};

B.setUpKeys = function () {
  addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    const jump = { g: "gallery", s: "scatter", o: "overview", d: "distributions", i: "identity" }[event.key];
    if (event.key === "/" && B.byId("search")) { event.preventDefault(); B.byId("search").focus(); }
    else if (event.key === "?") B.byId("keys").showModal();
    else if (event.key === "b") B.byId("view-0")?.scrollIntoView();
    else if (jump && B.byId(jump)) B.byId(jump).scrollIntoView();
  });
  B.byId("keys-close").addEventListener("click", () => B.byId("keys").close());
  B.byId("help").addEventListener("click", () => B.byId("keys").showModal());
};

B.load = async function () {
  // The second frame begins when the first has been painted: the samples must not stand in its way.
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))));
  B.core = await B.part("core");
  if (!B.head.samples) return;
  B.setUpControls();
  B.setUpGallery();
  B.setUpScatter();
  B.changed({});
  B.byId("loading").remove();
};

B.setUpTheme();
B.setUpCopying();
B.drawPicks();
B.drawCharts();
B.setUpDetail();
B.setUpKeys();
B.loaded = B.load();
B.loaded.then(B.openFromAddress).then(B.drawGroups).then(B.drawViews).then(() => { B.done = true; }).catch((error) => {
  const loading = B.byId("loading");
  if (!loading) throw error;
  loading.textContent = `The samples cannot be shown: ${error.message}`;
});
