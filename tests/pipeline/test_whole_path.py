"""The whole path: real consumers use our server, and the tables contain every rebalance.

Consumers of three libraries join, leave, are killed, come back as static members and rebalance
cooperatively. Then the server stops and a run reads its directory. The tables have each rebalance
once, with its cause and its member, and evidence `journal`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.live.broker_process import FAST_GROUPS, OUR_SHORT_SESSION_MS, BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.members import Members, wait_assigned

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.check_rules import ERROR
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOPIC, PARTITIONS = "orders", 4
STATIC_SESSION_MS = 20_000

Row = dict[str, Any]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", FAST_GROUPS)
    process.start()
    yield process
    process.stop()


def join_and_leave(members: Members, library: str) -> None:
    """Two members join, one leaves, a third one joins and is killed, the last one leaves."""
    options: dict[str, Any] = {
        "group": library,
        "topic": TOPIC,
        "session_timeout_ms": OUR_SHORT_SESSION_MS,
    }
    first = members.start(library, client_id="first", **options)
    wait_assigned([first], TOPIC, PARTITIONS)
    second = members.start(library, client_id="second", **options)
    wait_assigned([first, second], TOPIC, PARTITIONS)
    assert second.leave() == 0
    wait_assigned([first], TOPIC, PARTITIONS)
    third = members.start(library, client_id="third", **options)
    wait_assigned([first, third], TOPIC, PARTITIONS)
    third.kill()
    wait_assigned([first], TOPIC, PARTITIONS)
    assert first.leave() == 0


def restart_static_member(members: Members) -> None:
    """Two static members join; one is killed and started again."""
    options: dict[str, Any] = {
        "group": "static",
        "topic": TOPIC,
        "session_timeout_ms": STATIC_SESSION_MS,
    }
    first = members.start("aiokafka", instance="i0", client_id="first", **options)
    wait_assigned([first], TOPIC, PARTITIONS)
    second = members.start("aiokafka", instance="i1", client_id="second", **options)
    wait_assigned([first, second], TOPIC, PARTITIONS)
    owned = second.partitions
    second.kill()
    again = members.start("aiokafka", instance="i1", client_id="again", **options)
    eventually(lambda: again.partitions == owned, "the old partitions", evidence=again.summary)


def cooperate(members: Members) -> None:
    """Two members join and one leaves, with a cooperative assignor."""
    options: dict[str, Any] = {
        "group": "cooperative",
        "topic": TOPIC,
        "assignor": "cooperative-sticky",
    }
    first = members.start("kafka-python", client_id="first", **options)
    wait_assigned([first], TOPIC, PARTITIONS)
    second = members.start("kafka-python", client_id="second", **options)
    wait_assigned([first, second], TOPIC, PARTITIONS)
    assert second.leave() == 0
    wait_assigned([first], TOPIC, PARTITIONS)


def rows(output: Path, table: str, group: str) -> list[Row]:
    """Return the rows of a table for a group."""
    found: list[Row] = pq.read_table(output / table, filters=[("group_id", "=", group)]).to_pylist()
    return found


def rebalances(output: Path, group: str) -> list[Row]:
    """Return a group's rebalances in order, without those of leaders that found new metadata."""
    found = sorted(rows(output, "rebalances", group), key=lambda row: int(row["to_generation"]))
    assert {row["evidence"] for row in found} == {"journal"}
    return [row for row in found if row["trigger"] != "leader rejoin"]


def test_every_rebalance_is_found_with_its_cause(server: BrokerProcess, tmp_path: Path) -> None:
    create_topic(server.bootstrap, TOPIC, PARTITIONS)
    members = Members(server.bootstrap)
    try:
        with ThreadPoolExecutor() as scenarios:
            started = [
                scenarios.submit(join_and_leave, members, "kafka-python"),
                scenarios.submit(join_and_leave, members, "aiokafka"),
                scenarios.submit(restart_static_member, members),
                scenarios.submit(cooperate, members),
            ]
        for each in started:
            each.result()
    finally:
        members.close()
    server.stop()
    output = tmp_path / "tables"
    run(LocalEngine(), [str(tmp_path / "data")], str(output))

    for library in ("kafka-python", "aiokafka"):
        found = rebalances(output, library)
        causes = [(row["trigger"], row["trigger_client_id"]) for row in found]
        assert causes[:5] == [
            ("join", "first"),
            ("join", "second"),
            ("leave", "second"),
            ("join", "third"),
            ("session expiry", "third"),
        ]
        assert all(row["partitions"] == PARTITIONS for row in found[:5])
        ended = {
            row["client_id"]: row["exit_kind"] for row in rows(output, "member_sessions", library)
        }
        assert ended == {"first": "leave", "second": "leave", "third": "session expiry"}

    static = rebalances(output, "static")
    assert [(row["trigger"], row["trigger_client_id"]) for row in static[:2]] == [
        ("join", "first"),
        ("join", "second"),
    ]
    assert not [row for row in static if row["trigger_client_id"] == "again"]
    (replaced,) = (
        row
        for row in rows(output, "group_events", "static")
        if row["fact"] == "static_member_replaced"
    )
    assert replaced["member_key"] == "i1"

    # A client of kafka-python that leads may rejoin once more on a busy machine, between the two
    # phases of the handover. Then they are two rows.
    every = sorted(
        rows(output, "rebalances", "cooperative"), key=lambda row: int(row["to_generation"])
    )
    triggers = [(row["trigger"], row["trigger_client_id"]) for row in every]
    begins, ends = triggers.index(("join", "second")), triggers.index(("leave", "second"))
    assert triggers[0] == ("join", "first")
    handover = every[begins:ends]
    assert sum(row["generations"] for row in handover) >= 2, handover
    assert sum(row["moved"] for row in handover) == PARTITIONS // 2, handover

    findings = check(LocalEngine(), Store.reading(str(output)))
    assert [each for each in findings if each.severity == ERROR] == []
