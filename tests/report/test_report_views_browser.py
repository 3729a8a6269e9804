"""The views of benchmarks and attribute evaluations in a real browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import browser, page_of, until
from tests.comparing.made_runs import made_run
from tests.report.report_runs import EVIL, pictured_run
from tests.report.report_views import attribute_folder, subject_run, video_run

from beholder.reporting import write_report

SIZE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a report of each kind, and of one whose every text tries to be code."""
    home = tmp_path_factory.mktemp("views")
    faces = attribute_folder(home / "faces")
    runs = {
        "subjects": [subject_run(home / "s")], "videos": [video_run(home / "v")], "attributes": [faces],
        "groups": [pictured_run(home / "g")],
        "evil": [subject_run(home / "es", mark=EVIL), video_run(home / "ev", mark=EVIL),
                 attribute_folder(home / "ea", mark=EVIL)],
    }  # fmt: skip
    found = {name: write_report(*folders, out=home / f"r-{name}") for name, folders in runs.items()}
    found["evil file"] = write_report(*runs["evil"], out=home / "evil.html")
    return {name: path.resolve().as_uri() for name, path in found.items()}


def drawn(page: Any) -> Any:
    until(page, "B.done === true")
    return page


def rows(page: Any, place: str) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(
        f"[...document.querySelectorAll('{place} tbody tr')].map(r => [...r.cells].map(c => c.firstChild.textContent))"
    )
    return found


def test_tables_sort_by_their_headings_and_filter(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["subjects"], viewport=SIZE) as page:
        drawn(page)
        place = ".sheet:has(> h3:text-is('Concepts by task'))"
        heading = page.locator(f"{place} th", has_text="CLIP-I-Seg").locator("button")
        table = page.locator(place)
        column = "xpath=.//tbody/tr/td[5]"
        heading.click()
        values = [text.split()[0] for text in table.locator(column).all_inner_texts()]
        assert values == sorted(values, reverse=True)
        heading.press("Enter")  # buttons work by keyboard
        values = [text.split()[0] for text in table.locator(column).all_inner_texts()]
        assert values == sorted(values)
        assert table.locator("th[aria-sort='ascending']").count() == 1
        heading.click()
        assert table.locator("th[aria-sort='ascending'], th[aria-sort='descending']").count() == 0
        assert table.locator("tbody tr").count() == 8
        table.locator("select").first.select_option("generation")
        assert table.locator("tbody tr").count() == 4
        assert "4 of 8 rows" in table.inner_text()


def test_a_concept_shows_references_masks_and_outputs_side_by_side(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["subjects"], viewport=SIZE) as page:
        drawn(page)
        page.locator(".sheet:has(> h3:text-is('Concepts by task')) tbody tr", has_text="dog").first.click()
        until(page, "document.querySelector('.concept').dataset.concept === 'dog'")
        until(page, "document.querySelectorAll('.concept .references img').length === 2")  # picture and mask
        assert page.locator(".concept .entry").count() == 2
        assert page.locator(".concept .line-up").first.locator(".card").count() == 2
        until(page, "document.querySelectorAll('.concept .outputs .mask').length === 4")
        hidden = "getComputedStyle(document.querySelector('.outputs .mask')).display"
        assert page.evaluate(hidden) == "none"
        page.get_by_label("the subject alone").check()
        until(page, "document.querySelectorAll('.concept .outputs .mask').length === 4")
        assert page.evaluate(hidden) == "block"
        page.locator(".concept .tabs button", has_text="generation").click()
        assert "0.9" in page.inner_text(".concept .outputs")
        page.locator(".concept .card").first.click()
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "gen/faithful/dog-generation-0.png"


def test_a_corner_of_the_square_leads_to_its_samples(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["subjects"], viewport=SIZE) as page:
        drawn(page)
        trap = page.locator(".corner.trap:not([disabled])")
        assert trap.count() == 1
        assert "100 %" in trap.inner_text()
        assert "CLIP-I-Seg" in trap.inner_text()
        trap.click()
        assert page.inner_text("#count") == "8 of 16 samples"
        assert page.locator("#chips .chip").inner_text().startswith("another thing in the references' surroundings")
        page.click("#reset")
        assert page.inner_text("#count") == "16 of 16 samples"


def test_totals_bars_and_reasons_of_videos(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["videos"], viewport=SIZE) as page:
        drawn(page)
        bars = page.locator("#view-0 svg.bars")
        assert bars.locator(".part").count() == 7 + 6
        assert "partial" in bars.locator("text.partial").text_content()
        page.get_by_label("with published models").check()
        assert page.locator("#view-0 svg.bars .part").count() > 13
        alert = page.locator("[role=alert]")
        assert "gone: Total v1.1 open is not whole" in alert.inner_text()
        place = page.locator(".sheet", has=page.locator("h3", has_text="Why a video counts 0"))
        place.locator("tbody tr", has_text="no box").first.click()
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "gone/faceobj_1"


def test_a_video_that_the_browser_cannot_play_says_so(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"no video")
    rows = [{"id": "a", "output": str(tmp_path / "clip.mp4"), "prompt": "p", "clip_score": 0.5}]
    address = write_report(made_run(tmp_path / "run", rows), out=tmp_path / "r").resolve().as_uri()
    with page_of(opened, address, viewport=SIZE) as page:
        drawn(page)
        assert page.evaluate("B.detail(0).then(found => found.plays)") is True
        page.locator("#picks .card").first.click()
        until(page, "document.querySelector('.large .nothing') !== null")
        assert page.locator(".large video").count() == 0


def test_attributes_are_drawn_and_chosen(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["attributes"], viewport=SIZE) as page:
        drawn(page)
        assert page.locator("#view-0 svg.bars .bar").count() == 2
        assert page.locator("#view-0 svg.bars .null").count() == 2
        cells = page.locator("svg.matrix .cell")
        assert cells.count() == 2
        cells.first.click()
        assert "a cat with a dog: PaD 0.750" in page.inner_text(".told")
        assert page.locator("svg.matrix .dot").count() == 1
        assert page.locator("svg.map rect").count() == 3 * 4 + 1
        assert page.locator("svg.map .edge").count() == 6  # around the left half, which is two cells
        assert page.locator(".move.sure").count() == 1
        lengths = "[...document.querySelectorAll('#view-0 svg.bars .bar')].map(b => Number(b.getAttribute('width')))"
        plain = page.evaluate(lengths)
        assert plain[0] / plain[1] == pytest.approx(25, rel=1e-3)  # 0.5 against 0.02
        page.get_by_label("logarithmic").check()
        assert page.evaluate(lengths)[0] / page.evaluate(lengths)[1] < 10


def test_groups_have_charts_a_table_and_lead_to_samples(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["groups"], viewport=SIZE) as page:
        drawn(page)
        found = rows(page, "#groups-table")
        assert [row[:2] for row in found] == [
            ["cats", "base"], ["cats", "better"], ["dogs", "base"], ["dogs", "better"],
        ]  # fmt: skip
        assert found[3][2] == "0.580"
        page.locator("#groups-table tbody tr").nth(3).click()
        until(page, "document.getElementById('count').textContent.startsWith('6 of')")


def test_what_is_chosen_in_the_page_is_a_slice_with_means_and_intervals(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["groups"], viewport=SIZE) as page:
        drawn(page)
        assert page.inner_text("#selection") == ""
        page.select_option("#by-category", label="dogs")
        page.locator("#selection summary").click()
        until(page, "document.querySelector('#selection tbody tr') !== null")  # it is filled once it has opened
        found = rows(page, "#selection")
        assert [row[:2] for row in found] == [
            ["base", "chosen"],
            ["base", "all"],
            ["better", "chosen"],
            ["better", "all"],
        ]
        values = [0.3 + 0.01 * number for number in range(6, 11)]  # of `base`; the twelfth output is missing
        mean = sum(values) / 5
        reach = 1.959964 * math.sqrt(sum((value - mean) ** 2 for value in values) / 4 / 5)
        cell = page.locator("#selection tbody tr").first.locator("td").nth(2).inner_text()
        assert f"{mean:.3f}" in cell
        assert f"[{mean - reach:.3f}, {mean + reach:.3f}]" in cell
        assert "n 5, 1 missing" in cell


@pytest.mark.parametrize("form", ["evil", "evil file"])
def test_hostile_texts_are_only_shown_in_views(opened: Any, pages: dict[str, str], form: str) -> None:
    with page_of(opened, pages[form], viewport=SIZE) as page:
        drawn(page)
        page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
        for view in range(3):
            assert "<script>window.evil=1" in page.inner_text(f"#view-{view}")
        page.locator(".corner:not([disabled])").first.click()
        page.locator("svg.matrix .cell").first.click()
        assert page.evaluate("window.evil") is None
        assert page.locator("img[src='x']").count() == 0


@pytest.mark.parametrize("name", ["subjects", "videos", "attributes", "groups"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_only_blockers_are_red_and_nothing_is_wider_than_a_phone(
    opened: Any, pages: dict[str, str], name: str, scheme: str
) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with page_of(opened, pages[name], **phone) as page:
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        red = page.evaluate(
            """[...document.querySelectorAll('body *')].filter(node => !node.closest('.blockers') &&
                 node.children.length === 0 && node.textContent.trim()).filter(node => {
                 const [r, g, b] = getComputedStyle(node).color.match(/[0-9.]+/g).map(Number);
                 return r > 160 && g < 90 && b < 90; }).map(node => node.textContent)"""
        )
        assert red == []
