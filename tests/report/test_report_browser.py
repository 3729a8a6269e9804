"""The report in a real browser: it opens, sorts, filters, and follows a point to its sample, without any error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import browser, page_of, until
from tests.report.report_runs import EVIL, PROMPTS, pictured_run

from beholder.reporting import write_report

FORMS = ("folder", "file")
SIZE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a report as a folder and as a file, and of one whose every text tries to be code."""
    home = tmp_path_factory.mktemp("report")
    run, evil = pictured_run(home / "plain"), pictured_run(home / "evil", evil=True)
    found = {"folder": write_report(run, out=home / "r"), "file": write_report(run, out=home / "r.html")}
    found |= {
        f"evil {form}": write_report(evil, out=home / name) for form, name in (("folder", "e"), ("file", "e.html"))
    }
    return {name: path.resolve().as_uri() for name, path in found.items()}


def loaded(page: Any) -> Any:
    until(page, "document.getElementById('loading') === null")
    return page


def to_gallery(page: Any) -> None:
    page.evaluate("document.getElementById('gallery').scrollIntoView()")
    page.wait_for_selector("#view .card")


def cards(page: Any) -> list[str]:
    """Ids of the cards that are drawn, in the order of the gallery."""
    found = page.evaluate("[...document.querySelectorAll('#view .card')].map(c => [Number(c.dataset.at), c.title])")
    return [title for _, title in sorted(found)]


def count(page: Any) -> str:
    return str(page.inner_text("#count"))


@pytest.mark.parametrize("form", FORMS)
def test_it_opens_with_pictures_charts_and_all_samples(opened: Any, pages: dict[str, str], form: str) -> None:
    with page_of(opened, pages[form], viewport=SIZE) as page:
        loaded(page)
        assert page.inner_text(".verdict") == "better beats base on 1 of 1 metric."
        assert page.locator("#picks .beside").count() == 8
        until(page, "[...document.querySelectorAll('#picks img')].length === 16")
        until(page, "[...document.querySelectorAll('#picks img')].every(i => i.naturalWidth === 192)")
        assert page.locator("#distributions svg").count() == 2
        until(page, "B.done === true")
        assert page.locator("#groups-charts svg").count() == 2
        assert count(page) == f"{2 * PROMPTS} of {2 * PROMPTS} samples"
        to_gallery(page)
        until(page, "[...document.querySelectorAll('#view img')].some(i => i.naturalWidth === 192)")


def test_it_sorts_by_a_metric_in_both_directions(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        to_gallery(loaded(page))
        assert cards(page)[0] == "base 0 a plain text"
        page.select_option("#by-show", "best")
        assert cards(page)[0] == "better 10 a plain text"
        page.select_option("#by-by-metric", label="other")
        assert cards(page)[0] == "better 0 a plain text"
        page.select_option("#by-show", "random")
        assert sorted(cards(page)) != cards(page)


@pytest.mark.parametrize("form", FORMS)
def test_it_filters_by_text_status_method_and_column(opened: Any, pages: dict[str, str], form: str) -> None:
    with page_of(opened, pages[form], viewport=SIZE) as page:
        to_gallery(loaded(page))
        page.keyboard.press("/")
        page.keyboard.type("number 7")
        until(page, "document.getElementById('count').textContent.startsWith('2 of')")
        assert sorted(cards(page)) == ["base 7 a plain text", "better 7 a plain text"]
        page.click("#reset")
        page.select_option("#by-status", "missing")
        assert sorted(cards(page)) == ["base 11 a plain text", "better 11 a plain text"]
        assert page.locator("#view .nothing").count() == 2
        page.select_option("#by-status", "ok")
        page.select_option("#by-method", label="better")
        assert count(page).startswith(f"{PROMPTS - 1} of")
        page.select_option("#by-category", label="cats")
        assert count(page).startswith("6 of")
        page.click("#reset")
        assert count(page).startswith(f"{2 * PROMPTS} of")


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_shows_everything_and_keys_walk_on(opened: Any, pages: dict[str, str], form: str) -> None:
    with page_of(opened, pages[form], viewport=SIZE) as page:
        to_gallery(loaded(page))
        page.locator("#view .card").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "base 1 a plain text"
        text = page.inner_text("#detail-body")
        assert "prompt number 1 a plain text" in text
        assert "0.310" in text
        assert "THE SAME PROMPT ELSEWHERE" in text
        page.locator("#detail summary").first.click()
        assert "Frames 0 of 9 (first)" in page.inner_text("#detail-body")
        until(page, "document.querySelectorAll('#detail .strip img').length === 2")
        assert page.evaluate("document.querySelector('.large img').naturalWidth") == 320
        page.keyboard.press("ArrowRight")
        until(page, "document.getElementById('detail-title').textContent === 'base 2 a plain text'")
        assert "sample=base%202" in page.url
        page.keyboard.press("Escape")
        page.wait_for_selector("#detail", state="hidden")
        assert "sample=" not in page.url


def test_an_address_with_a_sample_opens_it(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"] + "#sample=better%203%20a%20plain%20text&side=1", viewport=SIZE) as page:
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "better 3 a plain text"


def scatter_place(page: Any, row: int) -> tuple[float, float]:
    box = page.locator("#scatter-canvas").bounding_box()
    x, y = page.evaluate(f"B.toPixel({row})")
    return box["x"] + x, box["y"] + y


def test_a_point_is_followed_to_its_sample(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        page.evaluate("document.getElementById('scatter').scrollIntoView()")
        page.mouse.click(*scatter_place(page, PROMPTS + 4))
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "better 4 a plain text"


def test_a_brush_chooses_the_samples_of_the_gallery(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        page.evaluate("document.getElementById('scatter').scrollIntoView()")
        (x0, y0), (x1, y1) = scatter_place(page, 2), scatter_place(page, 5)
        page.mouse.move(x0 - 5, y0 - 5)
        page.mouse.down()
        page.mouse.move(x1 + 5, y1 + 5, steps=4)
        page.mouse.up()
        assert count(page).startswith("4 of")
        to_gallery(page)
        assert cards(page) == [f"base {at} a plain text" for at in (2, 3, 4, 5)]
        page.click("#chips .chip >> nth=0")
        assert count(page).startswith(f"{2 * PROMPTS} of")


def test_charts_lead_to_their_samples(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        page.locator("#groups .mark circle").first.click()
        until(page, "document.getElementById('count').textContent.startsWith('6 of')")
        page.locator("#distributions .hit").first.click()
        until(page, "/^[1-9] of/.test(document.getElementById('count').textContent)")
        assert page.locator("#chips .chip").count() == 1


def test_marks_of_charts_are_walked_by_keys_and_followed_by_enter(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        for part, mark in (("groups", ".mark"), ("distributions", ".hit")):
            until(page, f"document.querySelector('#{part} {mark}') !== null")
            figures = f"[...document.querySelectorAll('#{part} figure svg')]"
            stops = page.evaluate(f"{figures}.map(s => s.querySelectorAll('[tabindex=\"0\"]').length)")
            assert set(stops) == {1}, "one stop a chart"
            page.locator(f"#{part} {mark}[tabindex='0']").first.focus()
            page.keyboard.press("ArrowRight")
            told = page.evaluate("document.activeElement.getAttribute('aria-label')")
            title = page.evaluate(f"document.querySelectorAll('#{part} {mark}')[1].querySelector('title').textContent")
            assert told == title
            page.keyboard.press("Enter")
            until(page, "B.state.brush !== null || Object.keys(B.state.columns).length > 0")
            assert not count(page).startswith(f"{2 * PROMPTS} of")
            page.click("#reset")


def test_points_are_walked_chosen_and_opened_by_keys(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        page.locator("#scatter-canvas").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("B.core.ids[B.scatter.at]") == "base 1 a plain text"
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        assert count(page).startswith("3 of")
        assert cards_by_key(page) == [1, 2, 3]
        page.keyboard.press("Escape")
        assert count(page).startswith(f"{2 * PROMPTS} of")
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.wait_for_selector("#detail[open]")
        assert page.inner_text("#detail-title") == "better 10 a plain text"


def cards_by_key(page: Any) -> list[int]:
    """Rows that pass the filters."""
    return list(page.evaluate("B.core.ids.map((_, row) => row).filter(B.passes)"))


def test_the_table_of_groups_is_printed_whole_and_fits(opened: Any, tmp_path: Path) -> None:
    from tests.comparing.made_runs import made_metric, made_run

    metrics = [made_metric(f"a_metric_{at}") for at in range(8)]
    names = [str(metric["label"]) for metric in metrics]
    rows = [
        {"prompt_id": f"p{at}", "method": method, "place": f"a place {at % 30}"} | dict.fromkeys(names, 0.3 + at / 90)
        for at in range(90)
        for method in ("one", "two")
    ]
    address = write_report(made_run(tmp_path / "run", rows, metrics), out=tmp_path / "r", by=["place"])
    with page_of(opened, address.resolve().as_uri(), viewport={"width": 720, "height": 1000}) as page:
        until(page, "B.done === true")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#groups-table tbody tr").count() == 60
        assert page.locator("#groups-table").is_visible()
        assert page.evaluate("document.querySelector('#groups-table table').getBoundingClientRect().right") <= 720
        assert page.evaluate("document.documentElement.scrollWidth") <= 720


def test_a_choice_with_long_names_fits_a_phone(opened: Any, tmp_path: Path) -> None:
    from tests.comparing.made_runs import made_run

    rows = [{"prompt": f"p{at}", "clip_score": at / 9, "kind": f"{at % 2} a very long name " * 6} for at in range(9)]
    address = write_report(made_run(tmp_path / "run", rows), out=tmp_path / "r")
    with page_of(opened, address.resolve().as_uri(), viewport={"width": 390, "height": 844}) as page:
        to_gallery(loaded(page))
        assert page.locator("#by-kind").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_side_by_side_shows_the_pairs(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        to_gallery(loaded(page))
        page.check("#beside")
        titles = page.evaluate(
            "[...document.querySelectorAll('#view .beside')]"
            ".map(n => [...n.querySelectorAll('.card')].map(c => c.title))"
        )
        assert ["base 3 a plain text", "better 3 a plain text"] in titles
        assert len(titles) == PROMPTS


@pytest.mark.parametrize("form", ["evil folder", "evil file"])
def test_hostile_texts_are_only_shown(opened: Any, pages: dict[str, str], form: str) -> None:
    with page_of(opened, pages[form], viewport=SIZE) as page:
        to_gallery(loaded(page))
        for opener in ("#view .card >> nth=0", "#view .card >> nth=1"):
            page.click(opener)
            page.wait_for_selector("#detail[open]")
            page.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
            assert EVIL.split("\u2028")[0].strip() in page.inner_text("#detail-title")
            page.click("#detail-close")
        page.check("#beside")
        assert page.evaluate("window.evil") is None
        assert page.locator("img[src='x']").count() == 0


def test_copy_buttons_copy_what_they_name(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        loaded(page)
        page.evaluate("B.copy = async (text) => { window.copied = text; return true; }")
        for name, start in (("latex", "% needs"), ("markdown", "| method |"), ("command", "beholder run")):
            page.click(f"[data-copy={name}]")
            assert page.evaluate("window.copied").startswith(start)
            assert page.inner_text(f"[data-copy={name}]") == "Copied"


def colours(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_light_dark_and_the_button_between(opened: Any, pages: dict[str, str]) -> None:
    with page_of(opened, pages["folder"], viewport=SIZE) as page:
        light = colours(loaded(page))
    with page_of(opened, pages["folder"], viewport=SIZE, color_scheme="dark") as page:
        dark = colours(loaded(page))
        page.click("#theme")
        assert colours(page) == light != dark


def test_it_fits_a_phone_and_a_sheet_of_paper(opened: Any, pages: dict[str, str], tmp_path: Path) -> None:
    with page_of(opened, pages["file"], viewport={"width": 360, "height": 740}, has_touch=True) as page:
        to_gallery(loaded(page))
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.locator("#view .card").first.tap()
        page.wait_for_selector("#detail[open]")
        assert page.evaluate("document.getElementById('detail').getBoundingClientRect().right") <= 360
    with page_of(opened, pages["file"], viewport=SIZE) as page:
        loaded(page)
        page.pdf(path=str(tmp_path / "sheet.pdf"), format="A4")
        data = (tmp_path / "sheet.pdf").read_bytes()
        assert data.startswith(b"%PDF")
        # The table, the picks and the charts, and not one sheet for each screen of the gallery.
        assert 1 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") <= 8


def test_only_what_is_on_the_screen_exists(opened: Any, tmp_path: Path) -> None:
    from tests.comparing.made_runs import made_run

    rows = [{"prompt": f"p{at}", "clip_score": (at * 7919 % 5000) / 5000, "output": f"{at}.png"} for at in range(5000)]
    page_path = write_report(made_run(tmp_path / "run", rows), out=tmp_path / "r")
    with page_of(opened, page_path.resolve().as_uri(), viewport=SIZE) as page:
        to_gallery(loaded(page))
        assert 0 < page.locator("#view .card").count() < 120
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        until(page, "[...document.querySelectorAll('#view .card')].some(c => Number(c.dataset.at) === 4999)")
        assert page.locator("#view .card").count() < 120
        assert page_path.stat().st_size < 200_000
