"""The page in a real browser: it paints without errors, zooms, opens, sorts, and takes touches.

Rules: [pipeline/outage], [report/page-data].
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.report.page import render
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from tests.pipeline.report.browser import Browser, Tab
from tests.pipeline.report.stores import START_MS, busy_group, minutes_of, tables_of, write_store

HOSTILE = "<script>document.title='run'</script>"
ORDERS = "#group-orders"
# Whether a canvas has pixels of more than a few colours.
IS_PAINTED = """
[...document.querySelectorAll('%s canvas')].filter(each => each.offsetParent).every(canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let n = 0; n < data.length; n += 4)
    found.add(data[n] + 256 * data[n + 1] + 65536 * data[n + 2]);
  return found.size > 4;
})
"""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page")
    tables = tables_of(busy_group("orders", 12), busy_group(HOSTILE, 4, seed=2))
    tables |= minutes_of("orders", "a", 2, 30)
    tables["anomalies"] = [
        {
            "rule": "rebalance_storm",
            "severity": "critical",
            "group_id": "orders",
            "subject": HOSTILE,
            "window_start_ts": START_MS + 60_000,
            "window_end_ts": START_MS + 120_000,
            "evidence": f"12 rebalances, mostly of {HOSTILE}",
        }
    ]
    store = Store.reading(write_store(str(path / "out"), tables))
    page = path / "page.html"
    page.write_text(render(read_content(store), "Last week"), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def opened(browser: Browser, page: Path, **options: object) -> Tab:
    """Open the page and the group orders in it, which is drawn then [report/drawn-on-opening]."""
    tab = browser.open(page, **options)  # type: ignore[arg-type]
    tab.value(f"document.querySelector('{ORDERS}').open = true")
    tab.wait(f"document.querySelectorAll('{ORDERS} canvas').length === 3 && {IS_PAINTED % ORDERS}")
    return tab


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 768, 390])
def test_page_is_painted_and_opened_without_errors(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    tab = opened(browser, page, width=width, dark=dark)
    assert tab.value("document.title") == "Last week"
    assert tab.value(IS_PAINTED % ".timeline")
    assert tab.value("document.querySelectorAll('.findings li').length") == 1
    # Nothing is wider than the window: only tables scroll sideways, and they show it.
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    for table in tab.value(
        "[...document.querySelectorAll('.scroller')].map(each => [each.className,"
        " each.firstChild.scrollWidth > each.firstChild.clientWidth + 2])"
    ):
        assert ("more-right" in table[0]) == table[1]
    paper = tab.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark
    assert tab.errors == []


def times(*seconds: float) -> list[datetime]:
    """Return times after the start."""
    return [datetime.fromtimestamp(START_MS / 1000 + each, UTC) for each in seconds]


def test_silences_are_shaded_and_replacements_marked(browser: Browser, tmp_path: Path) -> None:
    """What follows a silence, until the last member is replaced, is working time."""
    tables = tables_of(busy_group("orders", 12), busy_group("billing", 4, seed=2))
    tables["anomalies"] = [
        {
            "rule": "broker_restart",
            "severity": "warning",
            "window_start_ts": START_MS + 200_000,
            "window_end_ts": START_MS + 800_000,
            "evidence": "twice",
            "groups": ["billing", "orders"],
            "silent_from_ts": times(200, 350),
            "silent_to_ts": times(300, 400),
            "groups_at_ts": times(750, 800),
        }
    ]
    store = Store.reading(write_store(str(tmp_path / "out"), tables))
    path = tmp_path / "page.html"
    path.write_text(render(read_content(store)), encoding="utf-8")
    tab = browser.open(path)
    shaded, marked = tab.value(
        "(async () => { const rectangles = [], fill = CanvasRenderingContext2D.prototype.fillRect;"
        " CanvasRenderingContext2D.prototype.fillRect = function (x, y, wide, high) {"
        "   rectangles.push([this.fillStyle, x, wide]); fill.call(this, x, y, wide, high); };"
        " document.querySelector('.timeline canvas').dispatchEvent(new MouseEvent('dblclick'));"
        " await new Promise(done => setTimeout(() => requestAnimationFrame(done), 50));"
        " const context = document.createElement('canvas').getContext('2d');"
        " const colour = name => {"
        "   context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);"
        "   return context.fillStyle; };"
        " return ['--outage', '--alarm'].map(name =>"
        "   rectangles.filter(each => each[0] === colour(name)).map(each => each.slice(1))); })()"
    )
    # The silences last 100 and 50 s, the second one begins 150 s after the first.
    (first, wide), (second, narrow) = shaded
    assert wide / narrow == pytest.approx(2)
    assert (second - first) / wide == pytest.approx(1.5)
    # The members of billing and of orders were replaced 550 and 600 s after the beginning.
    middles = sorted(x + width / 2 for x, width in marked)
    assert [(each - first) / wide for each in middles] == pytest.approx([5.5, 6], abs=0.1)
    assert tab.errors == []


def test_dragging_zooms_every_drawing_and_the_rebalances(browser: Browser, page: Path) -> None:
    """[report/drawn-on-opening]"""
    tab = opened(browser, page)
    fields = "[...document.querySelectorAll('.range input')].map(each => each.value)"
    whole = tab.value(fields)
    table = f"document.querySelectorAll('{ORDERS} .body .scroller')[1]"
    rows = f"{table}.querySelectorAll('tbody tr').length"
    every = tab.value(rows)
    label = f"document.querySelector('{ORDERS} canvas').getAttribute('aria-label')"
    before = tab.value(label)
    tab.drag(f"{ORDERS} canvas", 0.3, 0.6)
    tab.wait(f"{fields}[0] !== {whole[0]!r}")
    assert whole[0] < tab.value(fields)[0] < tab.value(fields)[1] < whole[1]
    tab.wait(f"{rows} < {every}")
    assert tab.value(label) != before
    tab.value("document.querySelector('.range button').click()")
    tab.wait(f"{fields}[0] === {whole[0]!r} && {rows} === {every}")
    assert tab.errors == []


def test_typed_time_is_shown_and_a_wrong_one_is_marked(browser: Browser, page: Path) -> None:
    tab = browser.open(page)
    tab.value(
        "{ const field = document.querySelector('.range input'); field.value = '2026-11-01 00:10';"
        " field.dispatchEvent(new Event('change')) }"
    )
    tab.wait("document.querySelector('.range input').value === '2026-11-01 00:10:00.000'")
    tab.value(
        "{ const field = document.querySelector('.range input'); field.value = 'soon';"
        " field.dispatchEvent(new Event('change')) }"
    )
    invalid = "document.querySelector('.range input').getAttribute('aria-invalid')"
    assert tab.value(invalid) == "true"


def test_finding_leads_to_its_moment_and_its_group(browser: Browser, page: Path) -> None:
    tab = browser.open(page)
    tab.value("document.querySelector('.findings li > :last-child button').click()")
    tab.wait(f"document.querySelector('{ORDERS}').open")
    tab.wait("document.querySelector('.range input').value === '2026-11-01 00:00:30.000'")


def test_columns_are_sorted_when_their_heading_is_pressed(browser: Browser, page: Path) -> None:
    tab = opened(browser, page)
    table = f"document.querySelectorAll('{ORDERS} .body .scroller')[1]"
    heading = f"[...{table}.querySelectorAll('th')].find(each => each.textContent === 'moved')"
    cells = (
        f"[...{table}.querySelectorAll('tbody tr')].map(row => row.children["
        f"[...{table}.querySelectorAll('th')].indexOf({heading})].textContent)"
    )
    tab.value(f"{heading}.firstChild.click()")
    descending = [int(cell) for cell in tab.value(cells) if cell.isdigit()]
    assert descending == sorted(descending, reverse=True)
    assert len(set(descending)) > 1
    tab.value(f"{heading}.firstChild.click()")
    assert [int(cell) for cell in tab.value(cells) if cell.isdigit()] == sorted(descending)


def test_touch_shows_a_tip_with_both_times(browser: Browser, page: Path) -> None:
    tab = opened(browser, page, width=390)
    tab.touch(f"{ORDERS} canvas", 0.7)
    tab.wait("!document.querySelector('.tip').hidden")
    assert re.search(
        r"2026-11-01 0\d:.* UTC, 2026-11-01 0\d:.* UTC\+1",
        tab.value("document.querySelector('.tip').textContent"),
    )
    assert tab.errors == []


def test_finger_chooses_a_time(browser: Browser, page: Path) -> None:
    tab = opened(browser, page, width=390)
    first = "document.querySelector('.range input').value"
    whole = tab.value(first)
    tab.swipe(f"{ORDERS} canvas", 0.4, 0.7)
    tab.wait(f"{first} !== {whole!r}")


def test_reader_in_utc_sees_each_time_once(browser: Browser, page: Path) -> None:
    """[report/drawn-on-opening]"""
    tab = opened(browser, page, zone="UTC")
    assert "UTC+" not in tab.value("document.body.innerText")


def test_script_in_a_name_does_not_run(browser: Browser, page: Path) -> None:
    tab = opened(browser, page)
    tab.value("[...document.querySelectorAll('details')].forEach(each => { each.open = true })")
    tab.wait("[...document.querySelectorAll('details')].every(each => each.querySelector('.body'))")
    assert tab.value("document.title") == "Last week"
    assert HOSTILE in tab.value("document.body.innerText")
    assert tab.value("document.querySelectorAll('body script').length") == 2


def test_script_in_a_page_would_change_the_title(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><title>x</title><script>document.title='run';performance.mark('painted');"
        "console.error('seen')</script>"
    )
    tab = browser.open(path)
    assert tab.value("document.title") == "run"
    assert tab.errors
