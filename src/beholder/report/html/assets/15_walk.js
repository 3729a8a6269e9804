// Marks of charts by the keyboard: one stop a chart, arrows walk over its marks, Enter does what a click does.
"use strict";

// `marks` selects what can be clicked, in the order in which arrows walk.
B.walkable = function (svg, marks) {
  const all = [...svg.querySelectorAll(marks)];
  if (!all.length) return svg;
  svg.setAttribute("role", "group");  // an image would hide its marks from a screen reader
  all.forEach((mark, at) => {
    mark.setAttribute("tabindex", at ? "-1" : "0");
    mark.setAttribute("role", "button");
    mark.setAttribute("aria-label", mark.querySelector("title")?.textContent ?? "");
  });
  svg.addEventListener("keydown", (event) => {
    const at = all.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else if (B.walkTo(event.key, at, all.length) === null) return;
    else {
      const next = all[B.walkTo(event.key, at, all.length)];
      event.target.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    }
    event.preventDefault();
  });
  return svg;
};

// The place that a key leads to from a place among `count`; null where the key leads nowhere.
B.walkTo = function (key, at, count) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[key];
  if (by !== undefined) return Math.max(0, Math.min(count - 1, at + by));
  return key === "Home" ? 0 : key === "End" ? count - 1 : null;
};
