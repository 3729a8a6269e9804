"""The page: what stands in it before any script runs."""

from __future__ import annotations

import json
from typing import Any

from beholder.report.html.data import Report, View
from beholder.report.html.escape import Markup, element, script_json
from beholder.report.html.overview import overview

GENERATOR = "beholder report"
_KEYS = (
    ("o d s b g i", "overview, distributions, scatter, benchmark, gallery, identity"),
    ("/", "search"),
    (
        "Tab, ← → ↑ ↓",
        "walk over the gallery, a chart's marks, the points of the scatter; to the next sample",
    ),
    ("Shift ← →", "choose the points of the scatter from here on"),
    ("Enter", "open a sample, follow a mark to its samples"),
    ("Esc", "close it"),
    ("?", "these keys"),
)

h = element


def page(report: Report, head: dict[str, Any], *, policy: str, style: str, scripts: Markup) -> tuple[str, str]:
    """The page in two halves: the parts of a report in one file stand between them.

    Args:
        report: the report.
        head: the data of the first screen.
        policy: the content security policy.
        style: the style sheet.
        scripts: script elements of the application.
    """
    top = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="generator", content=GENERATOR),
        h("title", report.title),
        h("style", Markup(style)),
    )
    body = [
        _bar(report),
        h("main", *(overview(report), *_sections(report))),
        _dialogs(),
        h("script", Markup(script_json(head)), type="application/json", id="head-data"),
        scripts,
    ]
    return f'<!doctype html>\n<html lang="en">{top}<body>{"".join(body)}\n', "</body></html>\n"


def _bar(report: Report) -> Markup:
    places = [("overview", "Overview")]
    places += [("distributions", "Distributions")] if report.metrics else []
    places += [("groups", "Groups")] if report.groups else []
    places += [("scatter", "Scatter")] if len(report.metrics) > 1 else []
    names = [view.name for view in report.views]
    places += [(f"view-{at}", name if names.count(name) == 1 else f"{name} {at + 1}") for at, name in enumerate(names)]
    places += [("identity", "Identity")]
    places += [("gallery", "Gallery")] if report.samples.n else []
    return h(
        "header",
        h("h1", report.title),
        h("nav", *(h("a", name, href=f"#{at}") for at, name in places)),
        h("button", "?", type="button", id="help", title="Keys", aria_label="Keys"),
        h("button", "◐", type="button", id="theme", title="Light or dark", aria_label="Light or dark"),
        class_="top",
    )


def _sections(report: Report) -> list[Markup | None]:
    return [
        _charts("distributions", "Distributions", "Shares of each side's samples. A click shows the samples of a bin.")
        if report.metrics
        else None,
        _groups() if report.groups else None,
        _scatter() if len(report.metrics) > 1 else None,
        *(_view(at, view) for at, view in enumerate(report.views)),
        _identity(report),
        _gallery() if report.samples.n else None,
    ]


def _view(at: int, view: View) -> Markup:
    """The place of a view, which the page fills after the samples."""
    return h(
        "section", h("h2", view.title), h("p", "Reading …", class_="quiet reading"), id=f"view-{at}", class_="bench"
    )


def _charts(name: str, title: str, told: str, chooser: Markup | None = None, under: Markup | None = None) -> Markup:
    return h(
        "section",
        h("div", h("h2", title), chooser, class_="heading"),
        h("p", told, class_="quiet"),
        h("div", id=f"{name}-legend"),
        h("div", id=f"{name}-charts", class_="charts"),
        under,
        id=name,
    )


def _groups() -> Markup:
    chooser = h("label", "by ", h("select", id="group-column"), class_="chooser")
    told = "Means with their intervals. A click shows the samples of a group."
    return _charts("groups", "Groups", told, chooser, h("div", id="groups-table"))


def _scatter() -> Markup:
    told = "Drag to choose samples for the gallery; a click opens one, a click beside them lets go."
    axes = [h("label", f"{name} ", h("select", id=f"scatter-{name}")) for name in "xy"]
    spoken = "Two metrics against each other"
    canvas = h("canvas", id="scatter-canvas", role="application", tabindex="0", aria_label=spoken)
    return h(
        "section",
        h("div", h("h2", "Scatter"), axes, class_="heading"),
        h("p", told, class_="quiet"),
        h("div", id="scatter-legend"),
        h("div", canvas, class_="plot"),
        id="scatter",
    )


def _identity(report: Report) -> Markup:
    parts = []
    for name, facts in report.identity.items():
        parts.append(h("h3", name))
        for entry in facts.get("metrics") or []:
            models = facts.get("models", {})
            used = {
                slot: models.get(item.get("model_key"), {"id": item.get("model")})
                for slot, item in entry.get("slots", {}).items()
            }
            parts.append(
                h("details", h("summary", entry.get("identity", "")), h("pre", _json({**entry, "models": used})))
            )
        rest = {key: value for key, value in facts.items() if key not in ("metrics", "models")}
        parts.append(h("details", h("summary", "input, decoding, versions, settings"), h("pre", _json(rest))))
    note = (
        "Everything that a number depends on: definition, options, models with their weights' hashes, preprocessing, "
        "versions."
    )
    return h("section", h("h2", "Identity"), h("p", note, class_="quiet"), *parts, id="identity")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)


def _gallery() -> Markup:
    return h(
        "section",
        h("div", h("h2", "Gallery"), h("span", id="count", class_="quiet", aria_live="polite"), class_="heading"),
        h("p", "Reading the samples …", id="loading", class_="quiet"),
        h(
            "div",
            h(
                "label",
                h("span", "Search"),
                h("input", type="search", id="search", placeholder="prompt, id or file  ( / )"),
            ),
            h("div", id="controls"),
            h("label", h("input", type="checkbox", id="beside"), "side by side", class_="check"),
            h("button", "Reset", type="button", id="reset"),
            h("span", id="chips"),
            class_="controls",
        ),
        h("div", id="selection", aria_live="polite"),
        h("p", "No sample passes these filters.", id="none", class_="quiet", hidden=True),
        h("div", id="view", class_="view"),
        id="gallery",
    )


def _dialogs() -> Markup:
    detail = h(
        "dialog",
        h(
            "div",
            h("strong", id="detail-title"),
            h("button", "←", type="button", id="detail-previous", aria_label="Previous"),
            h("button", "→", type="button", id="detail-next", aria_label="Next"),
            h("button", "Close", type="button", id="detail-close"),
            class_="bar",
        ),
        h("div", id="detail-body"),
        id="detail",
        aria_labelledby="detail-title",
    )
    listed = [[h("dt", h("kbd", key)), h("dd", text)] for key, text in _KEYS]
    keys = h(
        "dialog",
        h("div", h("strong", "Keys"), h("button", "Close", type="button", id="keys-close"), class_="bar"),
        h("dl", listed),
        id="keys",
    )
    return Markup(detail + keys)
