// One sample: picture, prompt, references, masks, every score with its evidence, and its partners of other sides.
"use strict";

B.shown = -1;

B.open = async function (row) {
  await B.loaded;
  const dialog = B.byId("detail");
  B.shown = row;
  const detail = await B.detail(row);
  if (B.shown !== row) return;
  B.byId("detail-body").replaceChildren(...B.detailParts(row, detail));
  B.byId("detail-title").textContent = B.core.ids[row];
  if (!dialog.open) dialog.showModal();
  B.byId("detail-body").scrollTop = 0;
  history.replaceState(null, "", `#sample=${encodeURIComponent(B.core.ids[row])}&side=${B.core.sides[row]}`);
};

B.detailParts = function (row, detail) {
  const core = B.core, prompt = core.prompts.texts[core.prompts.codes[row]];
  const picture = B.h("div", { class: "large" });
  B.largePicture(picture, row, detail);
  const side = B.head.sides[core.sides[row]];
  const left = B.h("div", { class: "left" }, picture,
    detail.original ? B.h("p", {}, B.h("a", { href: detail.original, target: "_blank", rel: "noreferrer" }, "Open the original file")) : null,
    B.strip("References", detail.references), B.strip("Masks", detail.masks));
  const right = B.h("div", { class: "right" },
    prompt ? B.h("blockquote", {}, prompt) : B.h("p", { class: "quiet" }, "No prompt."),
    B.scores(detail),
    B.partners(row),
    B.facts({ side: side.name, output: detail.output, ...detail.columns }));
  return [left, right];
};

// A video plays from its own file, and shows a frame where that has moved or has a codec that the browser lacks.
B.largeVideo = async function (place, row, detail) {
  const poster = await B.thumb(B.core.outputThumbs[row]).catch(() => null);
  const video = B.h("video", { src: detail.original, controls: true, loop: true, muted: true, preload: "metadata", poster });
  video.addEventListener("error", () => { video.remove(); B.largePicture(place, row, { ...detail, plays: false }); });
  place.append(video);
};

B.largePicture = async function (place, row, detail) {
  if (detail.plays) return B.largeVideo(place, row, detail);
  const address = detail.original && detail.shows ? detail.original : await B.thumb(B.core.outputThumbs[row]).catch(() => null);
  if (!address) return void place.append(B.h("p", { class: "nothing" }, detail.output ? `No picture of ${detail.output}.` : "The row names no output."));
  const image = B.h("img", { src: address, alt: B.core.prompts.texts[B.core.prompts.codes[row]] || "" });
  image.addEventListener("error", async () => {
    // The original has moved; the thumbnail is part of the report.
    const small = await B.thumb(B.core.outputThumbs[row]);
    if (small && image.getAttribute("src") !== small) image.src = small;
  });
  place.append(image);
};

B.strip = function (title, items) {
  if (!items.length) return null;
  return B.h("div", {}, B.h("h3", {}, title), B.h("div", { class: "strip" }, items.map(([name, number]) => {
    const figure = B.h("figure", {}, B.h("span", { class: "picture" }), B.h("figcaption", { title: name }, name));
    B.fillPicture(figure.firstChild, B.thumb(number), name);
    return figure;
  })));
};

B.scores = function (detail) {
  const lines = B.head.metrics.map((metric) => {
    const found = detail.scores[metric.label];
    if (!found) return null;
    const value = found.status === "ok" ? B.h("b", { title: String(found.value) }, B.number(found.value, metric)) : B.h("b", { class: "missing" }, found.status);
    const more = [];
    if (found.reason) more.push(B.h("p", { class: "quiet" }, found.reason));
    if (found.evidence !== undefined) more.push(B.evidence(found.evidence));
    return B.h("div", { class: "score" }, B.h("span", { title: metric.identity }, metric.label + B.arrow(metric)), value, more);
  });
  return B.h("div", { class: "scores" }, lines);
};

B.evidence = function (evidence) {
  const frames = evidence && evidence.frames && evidence.frames.indices;
  return B.h("details", {}, B.h("summary", {}, "evidence"),
    frames ? B.h("p", {}, `Frames ${frames.join(", ")} of ${evidence.frames.frame_count} (${evidence.frames.policy})`) : null,
    B.h("pre", {}, JSON.stringify(evidence, null, 1)));
};

B.partners = function (row) {
  const key = B.core.keys[row];
  if (key < 0 || B.head.sides.length < 2) return null;
  const rows = [];
  B.core.keys.forEach((other, at) => { if (other === key && at !== row && rows.length < 12) rows.push(at); });
  return rows.length ? B.h("div", {}, B.h("h3", {}, "The same prompt elsewhere"), B.h("div", { class: "row" }, rows.map((at) => B.card(at, { prompt: false })))) : null;
};

B.facts = function (facts) {
  const known = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined);
  return B.h("dl", {}, known.map(([name, value]) => [B.h("dt", {}, name), B.h("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))]));
};

B.step = function (by) {
  const rows = B.gallery.rows, at = rows.indexOf(B.shown);
  const next = rows[at < 0 ? 0 : at + by];
  if (next !== undefined) B.open(next);
};

B.setUpDetail = function () {
  const dialog = B.byId("detail");
  B.byId("detail-close").addEventListener("click", () => dialog.close());
  B.byId("detail-next").addEventListener("click", () => B.step(1));
  B.byId("detail-previous").addEventListener("click", () => B.step(-1));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    history.replaceState(null, "", location.href.split("#")[0]);
    B.shown = -1;
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight" || event.key === "j") B.step(1);
    else if (event.key === "ArrowLeft" || event.key === "k") B.step(-1);
    else return;
    event.preventDefault();
  });
};

// #sample=ID opens that sample.
B.openFromAddress = function () {
  const asked = new URLSearchParams(location.hash.slice(1)), id = asked.get("sample");
  if (id === null) return;
  const side = Number(asked.get("side") ?? -1);
  const row = B.core.ids.findIndex((name, at) => name === id && (side < 0 || B.core.sides[at] === side));
  if (row >= 0) B.open(row);
};
