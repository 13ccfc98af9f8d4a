"""A whole broker on a loop that a test turns: the same again for a seed, and time that jumps."""

import os
import subprocess
import sys
from time import thread_time

from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.topic_names import JOURNAL_TOPIC
from tests.unit.server.groups import commit, committed, join
from tests.unit.server.manual import Client, log_of, make_broker
from tests.unit.server.story import Story, Trace, settle, tell
from tests.unit.server.turns import turn_limit


def assert_same(first: Trace, second: Trace) -> None:
    """Compare part by part, so that a failure names what differs."""
    assert first.lines == second.lines
    assert first.responses == second.responses
    assert first.files.keys() == second.files.keys()
    for path, data in first.files.items():
        assert data == second.files[path], path


def test_same_seed_leaves_the_same_bytes() -> None:
    first = tell(7)
    assert_same(first, tell(7))
    # The trace has what it is there to compare.
    written = {path.split("/")[1].rpartition("-")[0] for path, data in first.files.items() if data}
    assert {"t", "__consumer_offsets", JOURNAL_TOPIC} <= written
    assert {name for _, name, _ in first.responses} == {"admin", "producer", "a", "b", "c"}
    assert any("member_removed" in line for line in first.lines)
    assert first.responses[-1][0] - first.responses[0][0] > 10_000


def test_other_seed_leaves_other_ids() -> None:
    assert tell(7).digest != tell(8).digest


def test_another_process_leaves_the_same_bytes() -> None:
    """Sets of strings are in another order there."""
    code = "from tests.unit.server.story import tell; print(tell(7).digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == tell(7).digest


def test_half_an_hour_passes_in_a_moment() -> None:
    story = Story(1)
    story.broker.controller.create("t", 1, {})
    began_s = thread_time()
    with turn_limit(1.0):
        members = {"a": story.ask("a", join(), 9).member_id}
        generation = settle(story, members)
        fields = {"generation_id_or_member_epoch": generation, "member_id": members["a"]}
        began_ms = story.loop.clock()
        for minute in range(30):
            for _ in range(12):
                story.loop.advance(5_000)
                beat = HeartbeatRequest(
                    group_id="g", generation_id=generation, member_id=members["a"]
                )
                assert story.ask("a", beat, 4).error_code == 0
            story.ask("a", commit(minute, **fields), 8)
        # Then the member is silent, and its session expires.
        story.loop.advance(60_000)
        assert story.loop.clock() - began_ms >= 31 * 60_000
        assert committed(story.client("b")) == [29]
        assert len(log_of(story.broker).named("member_removed")) == 1
        story.stop()
    # On a quiet machine this takes a tenth of a second.
    assert thread_time() - began_s < 30


def test_offsets_expire_after_a_week() -> None:
    broker = make_broker({"log.cleaner.enable": "false"})
    broker.maintenance.start()
    broker.controller.create("t", 1, {})
    client = Client(broker)
    client.call(commit(5), 8)
    client.connection.connection_lost(None)
    began_s = thread_time()
    day_ms = 86_400_000
    client.loop.advance(6 * day_ms)
    early = Client(broker)
    assert committed(early) == [5]
    early.connection.connection_lost(None)
    client.loop.advance(2 * day_ms)
    assert committed(Client(broker)) == [-1]
    # On a quiet machine this takes a tenth of a second.
    assert thread_time() - began_s < 30
