"""The first screen: blockers, verdict, table, slices, and the place of the samples to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from beholder.records import Summary
from beholder.report.html.data import Delta, Metric, Report
from beholder.report.html.escape import Markup, element
from beholder.report.numbers import DASH, format_interval, format_value

ARROWS = {True: " ↑", False: " ↓", None: ""}
_SIGNS = {"better": "▲", "worse": "▼", "higher": "△", "lower": "▽", "inconclusive": "≈", "equal": "="}
_SHOWN_WARNINGS = 5

h = element


def overview(report: Report) -> Markup:
    """The section of the first screen."""
    return h(
        "section",
        _blockers(report.blockers),
        h("div", *(h("p", line) for line in report.verdicts), class_="verdict"),
        h("div", *(h("p", line) for line in report.facts), class_="facts"),
        h("div", _sides_table(report) if len(report.sides) > 1 else _metrics_table(report), class_="wide")
        if report.sides
        else None,
        _copies(report),
        _warnings(report.warnings),
        _slices(report),
        h(
            "div",
            h(
                "div",
                h("h2", "Samples to look at first"),
                h("label", "by ", h("select", id="pick-metric"), class_="chooser"),
                class_="heading",
            ),
            h("div", id="picks"),
        )
        if report.picks
        else None,
        id="overview",
    )


def _copies(report: Report) -> Markup:
    offered = (("latex", "LaTeX", report.latex), ("markdown", "Markdown", report.markdown),
               ("command", "command", report.command))  # fmt: skip
    buttons = [h("button", f"Copy {name}", type="button", data_copy=key) for key, name, text in offered if text]
    return h("div", *buttons, class_="copies")


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
    """The shorter of the two lists stands in the columns, so that a table of many metrics fits a screen."""
    metrics = _all_metrics(report)
    sides = range(len(report.sides))
    if len(metrics) <= len(report.sides):
        heads = [_metric_head(metric, "col") for metric in metrics]
        rows = [
            h(
                "tr",
                _side_head(report, at, "row"),
                *(_side_cell(report, at, metric, name=metric.label) for metric in metrics),
            )
            for at in sides
        ]
    else:
        heads = [_side_head(report, at, "col") for at in sides]
        rows = [
            h(
                "tr",
                _metric_head(metric, "row"),
                *(_side_cell(report, at, metric, name=report.sides[at].name) for at in sides),
            )
            for metric in metrics
        ]
    return h("table", h("thead", h("tr", h("td", ""), *heads)), h("tbody", *rows), class_="sides")


def _all_metrics(report: Report) -> list[Metric]:
    return [*report.metrics, *report.set_metrics]


def _side_head(report: Report, at: int, scope: str) -> Markup:
    dot = h("i", style=f"background:var(--s{at % 8})")
    told = _place_in_comparison(report, at)
    under = h("div", told, class_="coverage") if told else None
    return h("th", dot, report.sides[at].name, under, scope=scope, class_="number" if scope == "col" else None)


def _place_in_comparison(report: Report, at: int) -> str:
    """Whether a side is a baseline; where there are several, which one is its own."""
    baselines = set(report.against.values()) or {0}
    if at in baselines:
        return "baseline"
    return f"against {report.sides[report.against[at]].name}" if len(baselines) > 1 else ""


def _metric_head(metric: Metric, scope: str) -> Markup:
    return h(
        "th",
        metric.label + ARROWS[metric.higher_is_better],
        h("div", metric.unit, class_="coverage"),
        class_="number" if scope == "col" else None,
        title=metric.identity,
        scope=scope,
    )


def _side_cell(report: Report, side: int, metric: Metric, *, name: str) -> Markup:
    """A cell; `name` is its column, which stands in the cell itself on a phone."""
    item = report.cells.get((side, metric.label))
    if item is None:
        return h("td", "—", class_="number", data_name=name)
    return h(
        "td",
        h("div", *_value(item)),
        _delta(report.deltas.get((side, metric.label))),
        _coverage(item),
        class_="number best" if _is_best(report, side, metric) else "number",
        data_name=name,
    )


def _value(item: Summary) -> list[Markup]:
    value = h("span", _minus(format_value(item.value, item.low, item.high)), class_="value")
    if item.value is None:
        return [value]
    interval = _minus(format_interval(item.value, item.low, item.high))
    return [value, Markup(" "), h("span", interval, class_="interval", title=_how(item))]


def _minus(text: str) -> str:
    """Numbers with a sign as long as their plus."""
    return text.replace("-", "−")


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
    told = f"{_SIGNS[found.verdict]} {found.verdict}" if found.text != DASH else "nothing to compare"
    return h(
        "div",
        f"Δ {found.text} {told}",
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
    for metric in _all_metrics(report):
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
