// Subject-driven benchmarks: methods, concepts, copied surroundings, and a concept's references beside its outputs.
"use strict";

B.viewKinds.subjects = function (data) {
  const panel = B.h("div", { class: "concept" });
  const concepts = Object.keys(data.outputs);
  const chooser = B.h("select", { onchange: () => B.drawConcept(panel, data, chooser.value) },
    concepts.map((name) => B.h("option", { value: name }, name)));
  const show = (name) => {
    if (!Object.hasOwn(data.outputs, name)) return;
    chooser.value = name;
    B.drawConcept(panel, data, name);
    panel.parentElement.scrollIntoView({ block: "start" });
  };
  if (concepts.length) B.drawConcept(panel, data, concepts[0]);
  const place = data.concepts ? data.concepts.columns.findIndex((column) => column.title === "concept") : -1;
  return [
    B.viewFacts(data),
    data.paper ? B.table(data.paper, { title: "Methods" }) : null,
    data.copied ? B.copied(data.copied) : null,
    data.concepts ? B.table(data.concepts, { title: "Concepts by task", onrow: (row) => show(B.cellText(row.cells[place])) }) : null,
    concepts.length ? B.h("div", { class: "sheet" },
      B.h("div", { class: "heading" }, B.h("h3", {}, "References and outputs"), B.h("label", { class: "chooser" }, "concept ", chooser)), panel) : null,
    data.cells ? B.h("details", {}, B.h("summary", {}, "All aggregates"), B.table(data.cells, { title: false })) : null,
  ];
};

// Two by two: is the subject there, and are the references' surroundings? One square a method.
B.copied = function (copied) {
  const sides = [...new Set(copied.corners.map((corner) => corner.side))];
  const most = Math.max(1, ...copied.corners.map((corner) => corner.n / (corner.of || 1)));
  return B.h("div", { class: "sheet" },
    B.h("h3", {}, "Subject and surroundings"),
    B.h("p", { class: "quiet" }, "Where subject and background, each alone, resemble the references more than references of other concepts do. ",
      "Copied surroundings lift CLIP-I without the subject; CLIP-I-Seg looks at the subject alone. A click shows the samples."),
    B.h("div", { class: "squares" }, sides.map((side) => B.h("figure", {},
      B.h("figcaption", {}, B.h("i", { style: `background:${B.sideColour(side)}` }), B.head.sides[side].name),
      B.h("div", { class: "square" },
        copied.corners.filter((corner) => corner.side === side).map((corner) => B.corner(copied, corner, most)))))));
};

B.corner = function (copied, corner, most) {
  const share = corner.of ? corner.n / corner.of : 0;
  return B.h("button", {
    type: "button", class: `corner ${corner.back && !corner.front ? "trap" : ""}`, style: `--share:${(share / most).toFixed(3)}`, disabled: !corner.n,
    onclick: () => B.follow({ rows: { name: corner.text, set: new Set(corner.rows) } }),
  },
    B.h("b", {}, `${Math.round(100 * share)} %`), B.h("span", {}, corner.text), B.h("small", {}, `n ${corner.n} of ${corner.of}`),
    B.h("dl", {}, copied.metrics.map((metric, at) => [B.h("dt", {}, metric.title),
      B.h("dd", { title: `n ${corner.means[at].n}` }, B.valueParts(corner.means[at].t))])));
};

B.drawConcept = async function (panel, data, concept) {
  panel.dataset.concept = concept;
  const entries = data.outputs[concept], first = entries.flatMap((entry) => entry.rows).find((row) => row >= 0);
  const detail = await B.detail(first);
  if (panel.dataset.concept !== concept) return;
  const tasks = [...new Set(entries.map((entry) => entry.task))];
  const state = { task: 0, masks: false, shown: 8 };
  const grid = B.h("div", { class: "outputs" });
  const draw = () => {
    const chosen = entries.filter((entry) => entry.task === tasks[state.task]);
    grid.style.setProperty("--sides", data.sides.length);
    grid.classList.toggle("masked", state.masks);
    grid.replaceChildren(...chosen.slice(0, state.shown).map((entry) => B.h("div", { class: "entry" },
      B.outputLabel(entry), B.h("div", { class: "line-up" }, entry.rows.map((row, at) => B.output(row, data, data.sides[at]))))));
    more.hidden = chosen.length <= state.shown;
  };
  const more = B.h("button", { type: "button", class: "more", onclick: () => { state.shown += 40; draw(); } }, "Show more");
  const masks = B.h("label", { class: "check" }, B.h("input", { type: "checkbox", onchange: (event) => {
    state.masks = event.target.checked;
    references.classList.toggle("masked", state.masks);
    draw();
  } }), "the subject alone");
  const references = B.h("div", { class: "strip references" }, detail.references.map(([name, number], at) =>
    B.h("figure", {}, B.maskedPicture(number, detail.referenceMasks[at], name), B.h("figcaption", { title: name }, `reference ${at + 1}`))));
  panel.replaceChildren(
    B.h("div", { class: "controls plain" },
      tasks.length > 1 ? B.tabs(tasks.map((task) => task || "(no task)"), 0, (at) => { state.task = at; state.shown = 8; draw(); }) : null, masks),
    detail.references.length ? references : B.h("p", { class: "quiet" }, "No references were found."), grid, more);
  draw();
};

B.outputLabel = function (entry) {
  const row = entry.rows.find((at) => at >= 0), prompt = B.core.prompts.texts[B.core.prompts.codes[row]];
  return B.h("p", { class: "prompt" }, prompt || "No prompt", entry.seed === null ? null : B.h("small", {}, ` seed ${entry.seed}`));
};

// An output with its values, and its mask over it when only the subject is to be seen.
B.output = function (row, data, side) {
  const name = B.h("b", { class: "side" }, B.h("i", { style: `background:${B.sideColour(side)}` }), B.head.sides[side].name);
  if (row < 0) return B.h("span", { class: "card empty" }, name, "no output");
  const picture = B.h("span", { class: "picture" });
  B.fillPicture(picture, B.thumb(B.core.outputThumbs[row]), B.core.outputs[row]);
  B.detail(row).then((detail) => { if (detail.masks.length) B.putMask(picture, detail.masks[0][1]); });
  const values = data.metrics.map((label) => {
    const metric = B.metricOf(label), status = B.core.statusNames[B.core.statuses[label][row]];
    if (!metric || status === "not_applicable") return null;
    return B.h("span", { class: "line" }, B.h("span", { class: "side" }, label),
      status === "ok" ? B.h("b", {}, B.number(B.core.values[label][row], metric)) : B.h("span", { class: "missing" }, status));
  });
  return B.h("button", { type: "button", class: "card", onclick: () => B.open(row), title: B.core.ids[row] }, picture, name, values);
};

B.maskedPicture = function (number, mask, name) {
  const picture = B.h("span", { class: "picture" });
  B.fillPicture(picture, B.thumb(number), name);
  if (mask !== undefined) B.putMask(picture, mask);
  return picture;
};

B.putMask = async function (picture, number) {
  const address = await B.thumb(number);
  if (address) picture.append(B.h("img", { src: address, alt: "", class: "mask" }));
};
