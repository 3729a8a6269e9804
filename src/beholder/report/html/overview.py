"""The first screen: blockers, verdict, table, slices, and the place of the samples to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from beholder.records import Summary
from beholder.report.html.data import Delta, Metric, Report
from beholder.report.html.escape import Markup, element
from beholder.report.numbers import format_interval, format_value

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
