"""The page: its content, that hostile names stay text, and that it is replaced in one step."""

import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.report.content import content_of
from coterie.pipeline.report.page import render, write_page
from coterie.pipeline.report.reading import NEWEST_OWNERSHIP, read_content
from coterie.pipeline.store import Store
from tests.pipeline.report.stores import (
    MINUTE_MS,
    START_MS,
    busy_group,
    minutes_of,
    tables_of,
    write_store,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</title></style></svg>&amp;",
    "\x00\x1b[31mred\x07",
    "\u202egnirts desrever",
    "قائمة",
    "very-" * 200,
    "",
)
# The tags that the templates use. Any other tag came out of a name.
TAGS = frozenset(
    (
        "html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2",
        "h3", "p", "br", "a", "bdi", "span", "i", "div", "dl", "dt", "dd", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "input", "script", "svg", "rect", "line", "text",
        "path",
    )
)  # fmt: skip


class Elements(HTMLParser):
    """The tags and attributes of a page, and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page_of(path: Path, **tables: list[dict[str, object]]) -> str:
    return render(read_content(Store.reading(write_store(str(path), tables))))


@pytest.fixture
def busy(tmp_path: Path) -> str:
    tables = tables_of(busy_group("orders", 30), busy_group("billing", 4, seed=2))
    tables |= minutes_of("orders", "a", 3, 60)
    return write_store(str(tmp_path / "out"), tables, ["/var/lib/kafka"])


def test_page_has_totals_drawings_and_tables(busy: str) -> None:
    content = read_content(Store.reading(busy))
    assert [group.group_id for group in content.groups] == ["orders", "billing"]
    orders = content.groups[0]
    page = render(content, "Last week")
    found = Elements(page)
    assert "Last week" in found.text
    assert f"{sum(len(group.rebalances) for group in content.groups)}" in found.text
    # Ownership, the costliest rebalance, lag and progress of one group; two drawings of the other.
    assert found.tags.count("svg") == 4 + 2
    assert page.count("class='critical'") == page.count(">stalled<")
    newest = orders.rebalances[-1]
    assert f"{newest['from_generation']} → {newest['to_generation']}" in found.text
    assert {"/var/lib/kafka"} <= set(found.text)


def test_page_loads_nothing_from_elsewhere(busy: str) -> None:
    page = render(read_content(Store.reading(busy)))
    assert not re.findall(r"https?://|//[a-z]|url\(|@import|\bsrc=", page.replace("</", ""))
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(name: str, tmp_path: Path) -> None:
    """A client chooses its ids, the name of its host and the reason that it gives."""
    tables = tables_of(busy_group("g", 5))
    for rows in tables.values():
        for row in rows:
            row["group_id"] = name
            for column in ("topic", "member_key", "client_id", "client_host", "trigger_reason"):
                if column in row:
                    row[column] = name
            if "trigger" in row:
                row["trigger"] = row["trigger_member_key"] = name
    tables["anomalies"] = [
        {"rule": name, "severity": name, "group_id": name, "subject": name, "evidence": name}
    ]
    store = Store.reading(write_store(str(tmp_path), tables, [name]))
    page = render(read_content(store), name)
    found = Elements(page)
    assert set(found.tags) <= TAGS
    assert found.tags.count("script") == 1
    assert not [key for key, _ in found.attributes if key.startswith("on")]
    shown = page.replace("\n", "")
    assert all(each.isprintable() for each in re.sub(r"data-group='[^']*'", "", shown))


def test_check_of_names_fails_on_an_unescaped_name() -> None:
    found = Elements(f"<p>{HOSTILE[1]}</p>")
    assert not set(found.tags) <= TAGS
    assert [key for key, _ in found.attributes if key.startswith("on")]


def test_page_says_what_is_unknown(tmp_path: Path) -> None:
    tables = tables_of(busy_group("g", 3))
    for row in tables["rebalances"]:
        row |= dict.fromkeys(
            ("started_ts", "duration_ms", "join_ms", "sync_ms", "unowned_partition_ms")
        )
        row |= {"evidence": "log", "moved_min": None, "excess_moved": None}
    tables |= minutes_of("g", "a", 2, 5, known=False)
    found = Elements(page_of(tmp_path, **tables)).text
    assert "unknown" in found
    assert "0 ms" not in found


def test_page_without_tables_says_that_there_are_no_records(tmp_path: Path) -> None:
    assert "no records" in page_of(tmp_path)


def test_lags_and_commits_are_summed_over_partitions(tmp_path: Path) -> None:
    place = {"group_id": "g", "topic": "t", "window_start_ts": START_MS}
    later = place | {"window_start_ts": START_MS + MINUTE_MS}
    path = write_store(
        str(tmp_path),
        {
            "commit_velocity_1m": [
                place | {"partition": 0, "advance": 5, "commits": 1},
                place | {"partition": 1, "advance": 7, "commits": 2},
            ],
            "lag_1m": [
                place | {"partition": 0, "lag": 3},
                place | {"partition": 1, "lag": 4},
                later | {"partition": 0, "lag": 9},
                later | {"partition": 1, "lag": None},
            ],
        },
    )
    (group,) = read_content(Store.reading(path)).groups
    (minute,) = group.tables["progress"]
    assert (minute["advance"], minute["commits"]) == (12, 3)
    assert [row["lag"] for row in group.tables["lag"]] == [7, None]
    newest = [(row["partition"], row["lag"]) for row in group.tables["partition_lag"]]
    assert newest == [(0, 9), (1, None)]


def test_newest_owners_are_kept_where_there_are_too_many(tmp_path: Path) -> None:
    rows = [
        {
            "group_id": group_id,
            "topic": "t",
            "partition": 0,
            "member_key": "m",
            "generation": number,
            "from_ts": START_MS + number,
            "to_ts": START_MS + number + 1,
        }
        for group_id in ("a", "b")
        for number in range(NEWEST_OWNERSHIP + 5)
    ]
    content = read_content(Store.reading(write_store(str(tmp_path), {"ownership": rows})))
    for group in content.groups:
        generations = [row["generation"] for row in group.tables["ownership"]]
        assert generations == list(range(5, NEWEST_OWNERSHIP + 5))


def test_instigators_are_ranked_by_the_rebalances_they_caused() -> None:
    def row(who: str | None, cause: str, unowned_ms: int | None) -> dict[str, object]:
        return {
            "group_id": "g", "trigger_member_key": who, "trigger": cause,
            "unowned_partition_ms": unowned_ms, "started_ts": None, "completed_ts": 1,
        }  # fmt: skip

    rows = [row("a", "join", 5), row("b", "leave", 9), row("b", "leave", 1), row(None, "x", None)]
    (group,) = content_of({"rebalances": rows}, []).groups
    assert [each[0:1] + each[2:] for each in group.instigators()] == [
        ("b", 2, 10),
        ("a", 1, 5),
        ("(unknown)", 1, 0),
    ]


def test_page_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_page(str(path), None)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    write_page(str(path), "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["page.html"]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.slow
def test_page_of_a_thousand_rebalances_takes_two_seconds(tmp_path: Path) -> None:
    """The limit is on processor time, on which other load of the machine has little influence."""
    groups = [busy_group(f"group-{n}", 101, partitions=24, seed=n) for n in range(10)]
    store = Store.reading(write_store(str(tmp_path), tables_of(*groups)))
    began = time.process_time()
    content = read_content(store)
    page = render(content)
    assert sum(len(group.rebalances) for group in content.groups) >= 1_000
    assert time.process_time() - began < 2
    assert len(page) < 8_000_000
