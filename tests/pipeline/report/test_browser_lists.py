"""The lists of the page in a real browser: like findings, many groups, a narrow screen, ties."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.report.page import render
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.model import GroupHistory
from tests.pipeline.report.browser import Browser
from tests.pipeline.report.stores import START_MS, minutes_of, tables_of, write_store
from tests.pipeline.timeline.facts import began, completed, join_done, joined, member_of

GROUPS = 24
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def one_rebalance(group_id: str) -> GroupHistory:
    at = START_MS + 45_000
    return journal_history(
        group_id,
        [
            joined(at, "one"),
            began(at, "leave or expiry", "one", 0, state="Empty"),
            join_done(at + 5, 1, at),
            completed(at + 10, 1, at, member_of("one", "a-0")),
        ],
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists")
    tables = tables_of(*(one_rebalance(f"g{number}") for number in range(GROUPS)))
    # A consumer without management, whose minute begins before the first event of all groups.
    tables |= minutes_of("simple", "a", 1, 3)
    tables["anomalies"] = [
        {
            "rule": rule,
            "severity": "warning",
            "group_id": f"g{number}",
            "window_start_ts": START_MS + 60_000,
            "window_end_ts": START_MS + 60_000,
            "evidence": f"evidence of g{number}",
            "rank": number,
        }
        for rule, number in [
            *(("rewind", number) for number in range(1, 13)),
            ("zombie_commit", 13),
        ]
    ]
    store = Store.reading(write_store(str(path / "out"), tables))
    page = path / "page.html"
    page.write_text(render(read_content(store)), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def test_like_findings_are_one_line_until_it_is_pressed(browser: Browser, page: Path) -> None:
    tab = browser.open(page, width=1400)
    lines = "[...document.querySelectorAll('.findings li')].map(each => each.textContent)"
    first, other = tab.value(lines)
    assert "rewind \N{MULTIPLICATION SIGN} 12" in first
    assert "12 groups: g1, g2, g3, g4, g5, g6, g7, g8 and 4 more. The first: g1" in first
    assert "evidence of g13" in other
    tab.value("document.querySelector('.findings .like .plain').click()")
    assert "evidence of g2" in tab.value(lines)[1]
    assert tab.errors == []


def test_narrow_screen_shows_twenty_groups_and_all_on_demand(browser: Browser, page: Path) -> None:
    shown = (
        "[...document.querySelectorAll('#groups details')]"
        ".filter(each => each.offsetParent).map(each => each.dataset.group)"
    )
    # Those with equal numbers are in the order of the numbers in their names.
    names = [f"g{number}" for number in range(GROUPS)]
    narrow = browser.open(page, width=390)
    assert narrow.value(shown) == names[:20]
    heads = """[...document.querySelectorAll('.heads button')].map(each => {
      const { top, left, right } = each.getBoundingClientRect();
      return [top, left, right];
    })"""
    boxes = narrow.value(heads)
    # They are buttons beside each other, and not one line of words.
    for (top, _, right), (next_top, left, _) in pairwise(boxes):
        assert next_top > top or left > right
    narrow.value("document.getElementById('all-groups').click()")
    assert narrow.value(shown) == [*names, "simple"]
    assert narrow.value("document.getElementById('all-groups')") is None
    wide = browser.open(page, width=1400)
    assert wide.value(shown) == [*names, "simple"]
    wide.value("document.querySelectorAll('.heads button')[1].click()")
    assert wide.value(shown) == [*names, "simple"]


def test_axis_begins_with_the_first_event_and_what_is_unclear_has_its_colour(
    browser: Browser, page: Path
) -> None:
    tab = browser.open(page, width=1400)
    value = tab.value("document.querySelector('.range input').value")
    # 45 seconds after the beginning of the minute in which something was committed.
    assert value.endswith(":45.000")
    keys = tab.value("document.querySelector('.keys').textContent")
    assert keys == "leave or expiry"
