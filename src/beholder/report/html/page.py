"""The page: what stands in it before any script runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from beholder.records import Summary
from beholder.report.html.data import Delta, Metric, Report
from beholder.report.html.escape import Markup, element, script_json
from beholder.report.numbers import format_interval, format_value
from beholder.report.tables import Table

ARROWS = {True: " ↑", False: " ↓", None: ""}
GENERATOR = "beholder report"
_SIGNS = {"better": "▲", "worse": "▼", "higher": "△", "lower": "▽", "inconclusive": "≈", "equal": "="}
_SHOWN_WARNINGS = 5
_KEYS = (
    ("o d s g i", "overview, distributions, scatter, gallery, identity"),
    ("/", "search"),
    ("← → ↑ ↓", "walk over the gallery; previous and next in a sample"),
    ("Enter", "open a sample"),
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
        h("main", *(_overview(report), *_sections(report))),
        _dialogs(),
        h("script", Markup(script_json(head)), type="application/json", id="head-data"),
        scripts,
    ]
    return f'<!doctype html>\n<html lang="en">{top}<body>{"".join(body)}\n', "</body></html>\n"


def _bar(report: Report) -> Markup:
    places = [("overview", "Overview"), ("distributions", "Distributions")]
    places += [("groups", "Groups")] if report.groups else []
    places += [("scatter", "Scatter")] if len(report.metrics) > 1 else []
    places += [("tables", "Benchmark")] if report.tables else []
    places += [("identity", "Identity"), ("gallery", "Gallery")]
    return h(
        "header",
        h("h1", report.title),
        h("nav", *(h("a", name, href=f"#{at}") for at, name in places)),
        h("button", "?", type="button", id="help", title="Keys", aria_label="Keys"),
        h("button", "◐", type="button", id="theme", title="Light or dark", aria_label="Light or dark"),
        class_="top",
    )


def _overview(report: Report) -> Markup:
    return h(
        "section",
        _blockers(report.blockers),
        h("div", *(h("p", line) for line in report.verdicts), class_="verdict"),
        h("div", *(h("p", line) for line in report.facts), class_="facts"),
        h("div", _sides_table(report) if len(report.sides) > 1 else _metrics_table(report), class_="wide"),
        h(
            "div",
            *(
                h("button", f"Copy {name}", type="button", data_copy=key)
                for key, name in (("latex", "LaTeX"), ("markdown", "Markdown"), ("command", "command"))
            ),
            class_="copies",
        ),
        _warnings(report.warnings),
        _slices(report),
        h(
            "div",
            h(
                "div",
                h("h2", "Samples to look at first"),
                h("select", id="pick-metric", aria_label="Metric"),
                class_="heading",
            ),
            h("div", id="picks"),
        ),
        id="overview",
    )


def _blockers(lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    return h(
        "div",
        h("strong", "Before you use these numbers"),
        h("ul", *(h("li", line) for line in lines)),
        class_="blockers",
        role="alert",
    )


def _warnings(lines: Sequence[str]) -> Markup | None:
    if not lines:
        return None
    title = f"{len(lines)} thing{'s' if len(lines) > 1 else ''} to know"
    return h(
        "details",
        h("summary", title),
        h("ul", *(h("li", line) for line in lines)),
        class_="warnings",
        open=len(lines) <= _SHOWN_WARNINGS,
    )


def _sides_table(report: Report) -> Markup:
    heads = [h("th", "")] + [_metric_head(metric) for metric in report.metrics]
    rows = []
    for at, side in enumerate(report.sides):
        name = h(
            "th",
            h("i", style=f"background:var(--s{at % 8})"),
            side.name,
            h("div", "baseline", class_="coverage") if at == 0 else None,
            scope="row",
        )
        cells = [_side_cell(report, at, metric) for metric in report.metrics]
        rows.append(h("tr", name, *cells))
    return h("table", h("thead", h("tr", *heads)), h("tbody", *rows))


def _metric_head(metric: Metric) -> Markup:
    return h(
        "th",
        metric.label + ARROWS[metric.higher_is_better],
        h("div", metric.unit),
        class_="number",
        title=metric.identity,
        scope="col",
    )


def _side_cell(report: Report, side: int, metric: Metric) -> Markup:
    item = report.cells.get((side, metric.label))
    if item is None:
        return h("td", "—", class_="number")
    under = h("div", _delta(report.deltas.get((side, metric.label))), _coverage(item), class_="under")
    return h("td", *_value(item), under, class_="number best" if _is_best(report, side, metric) else "number")


def _value(item: Summary) -> list[Markup]:
    return [
        h("span", format_value(item.value, item.low, item.high), class_="value"),
        Markup(" "),
        h("span", format_interval(item.value, item.low, item.high), class_="interval", title=_how(item)),
    ]


def _how(item: Summary) -> str:
    made = (
        f"{item.level * 100:g} % interval by {item.ci_method} over {item.n_units} {item.unit}s"
        if item.ci_method
        else "no interval"
    )
    return "; ".join(part for part in (f"{item.aggregate} mean", made, item.note or "") if part)


def _delta(found: Delta | None) -> Markup | None:
    if found is None:
        return None
    return h(
        "div",
        f"Δ {found.text} {_SIGNS[found.verdict]} {found.verdict}",
        class_=f"delta {found.verdict}",
        title=found.detail,
    )


def _coverage(item: Summary) -> Markup:
    missing = {str(status): count for status, count in item.n_missing.items() if count}
    total = item.n + sum(missing.values())
    told = ", ".join(f"{count} {status}" for status, count in missing.items())
    return h(
        "div", f"{item.n} of {total}", f": {told}" if told else "", class_="coverage partial" if missing else "coverage"
    )


def _is_best(report: Report, side: int, metric: Metric) -> bool:
    if metric.higher_is_better is None:
        return False
    sign = 1 if metric.higher_is_better else -1
    found = {
        at: sign * item.value
        for (at, label), item in report.cells.items()
        if label == metric.label and item.value is not None
    }
    return len(found) > 1 and side in found and found[side] == max(found.values())


def _metrics_table(report: Report) -> Markup:
    heads = [
        h("th", name, class_=kind)
        for name, kind in (
            ("metric", ""),
            ("value and interval", "number"),
            ("coverage", "number"),
            ("sd", "number"),
            ("what it is", ""),
        )
    ]
    rows = []
    for metric in report.metrics:
        item = report.cells.get((0, metric.label))
        name = h(
            "th",
            metric.label + ARROWS[metric.higher_is_better],
            h("div", metric.unit, class_="coverage"),
            scope="row",
            title=metric.identity,
        )
        if item is None:
            rows.append(h("tr", name, h("td", "—", colspan=4)))
            continue
        spread = "—" if item.sd is None else f"{item.sd:.{metric.decimals}f}"
        what = h("td", metric.summary, style="white-space:normal;min-width:16rem", class_="interval")
        rows.append(
            h(
                "tr",
                name,
                h("td", *_value(item), class_="number"),
                h("td", _coverage(item), class_="number"),
                h("td", spread, class_="number"),
                what,
            )
        )
    return h("table", h("thead", h("tr", *heads)), h("tbody", *rows))


def _slices(report: Report) -> Markup | None:
    if not report.slices:
        return None
    several = len(report.sides) > 1
    names = ["slice", "metric", *(["method"] if several else []), "change" if several else "value", "n", ""]
    rows = [
        h(
            "tr",
            h("td", h("small", f"{item.column} "), item.value),
            h("td", item.label),
            h("td", item.side) if several else None,
            h("td", item.text, class_="number"),
            h("td", item.n, class_="number"),
            h("td", f"{_SIGNS[item.verdict]} {item.verdict}", class_=f"delta {item.verdict}"),
        )
        for item in report.slices
    ]
    heads = [h("th", name, class_="number" if name in ("change", "value", "n") else None) for name in names]
    title = "Slices that changed most" if several else "Slices that stand out"
    table = h("table", h("thead", h("tr", *heads)), h("tbody", *rows))
    return h(
        "div",
        h("h2", title),
        h("div", table, class_="wide"),
        h("p", report.slices_note, class_="quiet"),
        class_="slices",
    )


def _sections(report: Report) -> list[Markup | None]:
    return [
        _charts("distributions", "Distributions", "Shares of each side's samples. A click shows the samples of a bin."),
        _charts("groups", "Groups", "Means with their intervals. A click shows the samples of a group."),
        _scatter(),
        _tables(report),
        _identity(report),
        _gallery(),
    ]


def _charts(name: str, title: str, told: str) -> Markup:
    chooser = h("select", id="group-column", aria_label="Group by") if name == "groups" else None
    return h(
        "section",
        h("div", h("h2", title), chooser, class_="heading"),
        h("p", told, class_="quiet"),
        h("div", id=f"{name}-legend"),
        h("div", id=f"{name}-charts", class_="charts"),
        id=name,
    )


def _scatter() -> Markup:
    told = "Drag to choose samples for the gallery; a click opens one, a click beside them lets go."
    axes = [h("label", f"{name} ", h("select", id=f"scatter-{name}")) for name in "xy"]
    canvas = h("canvas", id="scatter-canvas", role="img", aria_label="Two metrics against each other")
    return h(
        "section",
        h("div", h("h2", "Scatter"), axes, class_="heading"),
        h("p", told, class_="quiet"),
        h("div", id="scatter-legend"),
        h("div", canvas, class_="plot"),
        id="scatter",
    )


def _tables(report: Report) -> Markup | None:
    if not report.tables:
        return None
    return h(
        "section", h("h2", "Benchmark"), *(_plain_table(title, table) for title, table in report.tables), id="tables"
    )


def _plain_table(title: str, table: Table) -> Markup:
    kinds = ["number" if column.numeric else None for column in table.columns]
    heads = [h("th", column.title, class_=kind) for column, kind in zip(table.columns, kinds)]
    rows = [h("tr", *(h("td", cell, class_=kind) for cell, kind in zip(row, kinds))) for row in table.rows]
    drawn = h("div", h("table", h("thead", h("tr", *heads)), h("tbody", *rows)), class_="wide")
    return h(
        "div",
        h("h3", title),
        drawn,
        h("details", h("summary", "notes"), *(h("p", note, class_="quiet") for note in table.notes))
        if table.notes
        else None,
    )


def _identity(report: Report) -> Markup:
    parts = []
    for name, facts in report.identity.items():
        parts.append(h("h3", name))
        for entry in facts.get("metrics", []):
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
