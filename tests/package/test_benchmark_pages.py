"""The pages of benchmarks say what was measured: the growth page its figures, a table what could not run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import growth
from benchmarks.table import at_most, format_rows, not_runnable

HOME = Path(growth.__file__).parent


def test_the_growth_page_shows_the_figures_that_were_measured() -> None:
    found = {int(size): item for size, item in json.loads(growth.FIGURES.read_text()).items()}
    assert tuple(found) == growth.SIZES
    page = (HOME / "GROWTH.md").read_text(encoding="utf-8")
    assert growth.table(found) in page
    assert f"({growth.PLOT.name})" in page
    drawn = growth.PLOT.read_text(encoding="utf-8")
    for kind in ("times", "memory"):
        for name in found[100][kind]:
            assert f"{name} ({growth.fitted_slope(found, kind, name):.2f})" in drawn


def test_slopes_are_those_of_a_line_through_logarithms() -> None:
    sizes = [10, 100, 1000]
    assert growth.slope(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    bent = np.log([1.0, 10.0, 1000.0])
    at = np.log(sizes)
    plain = ((at - at.mean()) * (bent - bent.mean())).sum() / ((at - at.mean()) ** 2).sum()
    assert growth.slope(sizes, [1.0, 10.0, 1000.0]) == pytest.approx(plain)


def test_what_cannot_run_stands_in_the_table_with_its_reason() -> None:
    lines = format_rows([at_most("ours", 2.0, 1.0, 3), not_runnable("theirs", "the package is missing")]).splitlines()
    assert lines[2] == "| ours | 2.000 s | 1.000 s | 2.000 | ≤ 3 | yes |"
    assert lines[3] == "| theirs | | not runnable: the package is missing | | | |"
    assert len({line.count("|") for line in lines}) == 1
