"""The page: its content, that hostile names stay text, and that it is replaced in one step.

Rules: [report/page-data], [report/short-names], [report/ranking], [report/limits].
"""

import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.client.names import short_member
from coterie.pipeline.report.content import Row, Unowned, content_of
from coterie.pipeline.report.data import MAX_REBALANCES, page_data
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
# The tags of the skeleton. Any other tag came out of a name.
TAGS = frozenset(
    (
        "html", "head", "meta", "title", "style", "body", "header", "main", "h1", "p", "noscript",
        "script",
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


def data_of(path: str) -> dict[str, Any]:
    """Return the data of the page about an output directory, as the script reads it."""
    page = render(read_content(Store.reading(path)))
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture
def busy(tmp_path: Path) -> str:
    tables = tables_of(busy_group("orders", 30), busy_group("billing", 4, seed=2))
    tables |= minutes_of("orders", "a", 3, 60)
    return write_store(str(tmp_path / "out"), tables, ["/var/lib/kafka"])


def test_page_has_totals_and_the_costliest_group_first(busy: str) -> None:
    content = read_content(Store.reading(busy))
    data = data_of(busy)
    assert [group["id"] for group in data["groups"]] == ["orders", "billing"]
    count = sum(len(group.rebalances) for group in content.groups)
    assert [count, "rebalances"] in data["figures"]
    newest = content.groups[0].rebalances[-1]
    first = data["groups"][0]["rebalances"][0]
    assert first[1] + data["zero"] == newest["completed_ts"]
    assert first[2:4] == [newest["from_generation"], newest["to_generation"]]
    assert data["inputs"] == ["/var/lib/kafka"]


def test_axis_begins_with_the_first_event_and_ends_with_the_last(busy: str) -> None:
    data = data_of(busy)
    for group, content in zip(
        data["groups"], read_content(Store.reading(busy)).groups, strict=True
    ):
        times = [
            at
            for name, columns in (
                ("rebalances", ("started_ts", "completed_ts")),
                ("ownership", ("from_ts", "to_ts")),
                ("member_sessions", ("first_seen_ts", "last_seen_ts")),
            )
            for row in content.tables[name]
            for column in columns
            if (at := row[column]) is not None
        ]
        # Commits in the minute of the first event do not extend the axis, later ones do.
        minutes = [row["window_start_ts"] for row in content.tables["progress"]]
        first = min([min(times), *(each for each in minutes if each <= min(times) - MINUTE_MS)])
        assert [each + data["zero"] for each in group["span"]] == [first, max(times + minutes)]


def test_what_was_owned_is_all_in_the_data(busy: str) -> None:
    data = data_of(busy)
    group = data["groups"][0]
    found = sorted(
        (group["lanes"][lane], begin + data["zero"], None if length is None else length)
        for _, _, begin, length, *runs in group["owned"]
        for first, count in zip(runs[::2], runs[1::2], strict=True)
        for lane in range(first, first + count)
    )
    rows = read_content(Store.reading(busy)).groups[0].tables["ownership"]
    assert found == sorted(
        (
            f"{row['topic']}-{row['partition']}",
            row["from_ts"],
            None if row["to_ts"] is None else row["to_ts"] - row["from_ts"],
        )
        for row in rows
    )


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
    assert found.tags.count("script") == 2
    assert not [key for key, _ in found.attributes if key.startswith("on")]
    assert all(each.isprintable() for each in page.replace("\n", ""))


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
    data = data_of(write_store(str(tmp_path), tables))
    assert ["unknown", "time without owner"] in data["figures"]
    (group,) = data["groups"]
    assert group["unowned"] == [None, False]
    assert {row[0] for row in group["rebalances"]} == {None}
    assert {row[10] for row in group["rebalances"]} == {None}
    # There is no lag to draw, and progress is known.
    assert [chart is None for chart in group["charts"]] == [True, False]


@pytest.mark.parametrize(
    ("known", "unowned"),
    [((0, None), (None, False)), ((5, None), (5, False)), ((5, 0), (5, True)), ((), (0, True))],
)
def test_time_that_is_partly_known_is_at_least_that_time(
    known: tuple[int | None, ...], unowned: tuple[int | None, bool]
) -> None:
    assert Unowned.of({"unowned_partition_ms": ms} for ms in known) == unowned


def test_page_without_tables_has_no_time(tmp_path: Path) -> None:
    assert data_of(write_store(str(tmp_path), {}))["span"] is None


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


def test_minute_of_the_first_event_does_not_extend_the_axis(tmp_path: Path) -> None:
    place = {"group_id": "g", "topic": "t", "partition": 0, "advance": 5, "commits": 1}
    for begin_ms, first_ms in (
        (START_MS, START_MS + 59_000),
        (START_MS - MINUTE_MS, START_MS - MINUTE_MS),
    ):
        rebalance = {"group_id": "g", "started_ts": START_MS + 59_000}
        rebalance |= {"completed_ts": START_MS + 70_000, "evidence": "log"}
        path = write_store(
            str(tmp_path / str(begin_ms)),
            {
                "rebalances": [rebalance],
                "commit_velocity_1m": [place | {"window_start_ts": begin_ms}],
            },
        )
        assert data_of(path)["zero"] == first_ms


def test_findings_are_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    """A finding about several groups is among them, and links to the groups."""
    rows = [
        {"rule": "a", "severity": "info", "group_id": "g", "rank": 3, "evidence": "x"},
        {"rule": "b", "severity": "critical", "group_id": "h", "rank": 2, "evidence": "y"},
        {"rule": "c", "severity": "warning", "rank": 1, "evidence": "z", "groups": ["g", "h"]},
    ]
    found = data_of(write_store(str(tmp_path), {"anomalies": rows}))["findings"]
    assert found["total"] == 3
    assert [row[1] for row in found["rows"]] == ["c", "b", "a"]
    assert (found["rows"][0][2], found["rows"][0][9]) == (None, ["g", "h"])


def test_static_restart_without_a_rebalance_is_in_the_data(tmp_path: Path) -> None:
    session = {"group_id": "g", "member_key": "room-1", "member_id": "c-1", "client_id": "c"}
    rows = [
        session | {"first_seen_ts": START_MS, "last_seen_ts": START_MS + 5, "entry_kind": "join",
                   "exit_kind": "replaced", "exit_evidence": "recorded in the journal"},
        session | {"first_seen_ts": START_MS + 5,
                   "entry_kind": "static restart without rebalance"},
    ]  # fmt: skip
    (group,) = data_of(write_store(str(tmp_path), {"member_sessions": rows}))["groups"]
    newest, first = group["members"]
    assert newest[3:7] == [5, None, "static restart without rebalance", ""]
    assert first[5:8] == ["join", "replaced", "recorded in the journal"]


def test_page_says_how_much_it_leaves_out(tmp_path: Path) -> None:
    rows = [
        {"group_id": "g", "started_ts": START_MS + n, "completed_ts": START_MS + n + 1}
        for n in range(MAX_REBALANCES + 5)
    ]
    (group,) = data_of(write_store(str(tmp_path), {"rebalances": rows}))["groups"]
    assert (group["count"], len(group["rebalances"])) == (MAX_REBALANCES + 5, MAX_REBALANCES)
    assert group["rebalances"][0][0] == MAX_REBALANCES + 4


def test_instigators_are_counted_by_client_and_ranked(tmp_path: Path) -> None:
    """A client that comes back with a new member id each time is one instigator."""

    def row(key: str | None, member_id: str | None, client: str | None, **more: object) -> Row:
        found = {
            "group_id": "g", "trigger_member_key": key, "trigger_member_id": member_id,
            "trigger_client_id": client, "trigger_client_host": "/10.0.0.1" if client else None,
            "trigger": "join", "unowned_partition_ms": 5, "started_ts": None, "completed_ts": 1,
        }  # fmt: skip
        return found | more

    rows = [
        row("c-1", "c-1", "c"),
        row("c-2", "c-2", "c", trigger="leave"),
        row("c-3", "c-3", "c", trigger="leave"),
        row("static", "d-1", "d"),
        row("static", "d-2", "d"),
        row(None, None, None, unowned_partition_ms=None),
    ]
    (group,) = content_of({"rebalances": rows}, []).groups
    assert [tuple(each) for each in group.instigators()] == [
        ("c at 10.0.0.1", 3, "leave", 3, (15, True)),
        ("static", 1, "join", 2, (10, True)),
        ("(unknown)", 0, "join", 1, (None, False)),
    ]


@pytest.mark.parametrize(
    ("key", "member_id", "client_id", "short"),
    [
        ("c-0a1b2c3d-1111-2222-3333-444455556666", None, None, "c 0a1b2c3d"),
        ("c-0a1b2c3d-1111-2222-3333-444455556666", None, "c", "c 0a1b2c3d"),
        ("k4uW5XQmTqKx1p0aY8sT3w", None, "worker", "worker k4uW5XQm"),
        ("instance-1", "c-0a1b2c3d-1111-2222-3333-444455556666", "c", "instance-1"),
        ("c-7", "c-7", "c", "c 7"),
        ("c", "c", "c", "c"),
    ],
)
def test_short_name_has_the_client_and_eight_letters(
    key: str, member_id: str | None, client_id: str | None, short: str
) -> None:
    assert short_member(key, member_id, client_id) == short


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
def test_page_of_200_groups_is_small_and_written_quickly(tmp_path: Path) -> None:
    """The limit is on processor time, on which other load of the machine has little influence."""
    groups = [busy_group(f"group-{n:03d}", 21, partitions=24, seed=n) for n in range(200)]
    store = Store.reading(write_store(str(tmp_path), tables_of(*groups)))
    began = time.process_time()
    content = read_content(store)
    page = render(content)
    assert sum(len(group.rebalances) for group in content.groups) >= 4_000
    # Three seconds on a quiet machine, and ten times as long on the slowest and busiest.
    assert time.process_time() - began < 3 * 10
    assert len(page.encode()) < 3_000_000


def test_cards_have_no_zeros() -> None:
    """A zero says nothing that a reader needs to know first."""
    figures = page_data(content_of({}, ["/data"]))["figures"]
    assert figures == [[0, "groups"]]
    busy = page_data(content_of(tables_of(busy_group("orders", 12)), ["/data"]))["figures"]
    assert [1, "groups"] in busy
    assert all(value not in (0, "0 ms") for value, _ in busy)


def test_no_target_comes_before_its_epoch() -> None:
    """The record of an epoch is stamped when it is appended, after the target in its batch."""
    at = {"epoch": 3, "at_ts": 1_002, "cause": "join", "member_key": None, "members": 2}
    more = {"moved_partitions": 3, "stable_ms": 5, "assignor": "sticky", "evidence": "journal"}
    rows = [{**at, **more, "group_id": "g", "target_ts": target} for target in (1_000, 1_005, None)]
    (group,) = page_data(content_of({"epoch_bumps": rows}, []))["groups"]
    assert [row[5] for row in group["bumps"]] == [None, 3, 0]
