"""The metrics of a broker [metrics/names], as Prometheus' own library reads them."""

import asyncio
import json
import re
import subprocess
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coterie.client.control_port import ControlPort
from coterie.server.broker import Broker
from coterie.server.metrics import metrics
from coterie.server.metrics.endpoint import Snapshot
from coterie.server.metrics.metrics import collect
from coterie.server.operating_system import resident_bytes
from coterie.storage.errors import CorruptLog
from tests.live.deadlines import eventually
from tests.unit.server.groups import commit, join, sync
from tests.unit.server.manual import COMMIT, Client, make_broker, wait_for_disk
from tests.unit.server.process import run, serving
from tests.unit.server.produced import batch, produce
from tests.unit.server.running import PATIENCE_S

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def finished(coroutine: Coroutine[Any, Any, list[Metric]]) -> tuple[str, int]:
    """Return the text of the metrics that a coroutine collects, and how often it yielded."""
    turns = 0
    try:
        while True:
            coroutine.send(None)
            turns += 1
    except StopIteration as end:
        return generate_latest(Snapshot(end.value)).decode(), turns


def scrape(broker: Broker) -> Samples:
    text, _ = finished(collect(broker))
    return read(text)


def read(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_a_group_is_counted_in_its_state() -> None:
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    prefix = "kafka_coordinator_group_"
    assert value(scrape(client.broker), f"{prefix}num_groups") == 0
    first = client.call(join(), 4)
    client.send(join(first.member_id), 4)
    client.loop.advance(10)
    ((_, joined),) = client.answers()
    during = scrape(client.broker)
    assert value(during, f"{prefix}groups", state="CompletingRebalance") == 1
    client.call(sync(joined.member_id, 1, b"\0\0"), 4)
    fields = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    client.call(commit(7, 0, 1, **fields), 8)
    client.call(commit(8, 1, **fields), 8)
    now = scrape(client.broker)
    assert value(now, f"{prefix}groups", state="Stable") == 1
    assert value(now, f"{prefix}groups", state="CompletingRebalance") == 0
    assert value(now, f"{prefix}num_groups") == 1
    assert value(now, f"{prefix}num_offsets") == 2
    assert value(now, f"{prefix}offset_commits_total") == 3
    assert value(now, f"{prefix}completed_rebalances_total") == 1
    assert value(now, "coterie_group_members") == 1
    assert value(now, "coterie_group_events_total", event="rebalance_began") == 1
    assert value(now, f"{prefix}num_partitions", state="active") == 4
    client.broker.delete_topic(client.broker.topics.by_name["t"])
    client.loop.turn()
    assert value(scrape(client.broker), f"{prefix}offset_deletions_total") == 2


def test_logs_are_measured_by_topic_and_failed_ones_counted() -> None:
    client = Client(make_broker())
    topic = client.broker.controller.create("t", 3, {})
    for partition in (0, 1):
        produce(client, batch(b"a", b"b"), partition=partition)
    samples = scrape(client.broker)
    size_bytes = sum(topic.partitions[index].log.size_bytes for index in (0, 1))
    assert value(samples, "kafka_log_size_bytes", topic="t") == size_bytes > 0
    assert value(samples, "kafka_log_num_log_segments", topic="t") == 2
    assert value(samples, "coterie_log_offsets", topic="t") == 4
    assert value(samples, "kafka_server_partition_count") == 7
    assert value(samples, "kafka_server_offline_replica_count") == 0
    topic.partitions[0].log.fail(OSError(5, "Input/output error"))
    topic.partitions[2].fail(OSError(5, "Input/output error"))
    assert value(scrape(client.broker), "kafka_server_offline_replica_count") == 2


def test_cleaner_and_disk_are_measured() -> None:
    client = Client(make_broker(flush=COMMIT))
    broker = client.broker
    broker.controller.create("t", 1, {})
    client.send(commit(7), 8)
    wait_for_disk(client)
    cleaner = broker.maintenance.cleaner
    cleaner.cleanings, cleaner.bytes_read, cleaner.bytes_written = 3, 1000, 250
    cleaner.longest_cleaning_s, cleaner.max_dirty_ratio = 1.5, 0.75
    partition = broker.topics.by_name["t"].partitions[0]
    cleaner._logs.failed(partition, CorruptLog("t-0/0.log", 7, "a test"))
    samples = scrape(broker)
    assert value(samples, "coterie_log_cleaner_cleanings_total") == 3
    assert value(samples, "kafka_log_cleaner_recopy_percent") == 25
    assert value(samples, "kafka_log_cleaner_max_clean_time_secs") == 1.5
    assert value(samples, "kafka_log_cleaner_max_dirty_percent") == 75
    assert value(samples, "kafka_log_cleaner_uncleanable_partitions_count") == 1
    assert value(samples, "kafka_log_flushes_total") == broker.flusher.syncs >= 1
    assert value(samples, "kafka_server_connection_count") == 1
    if (resident := resident_bytes()) is not None:
        assert value(samples, "process_resident_memory_bytes") > resident // 2 > 1 << 20
    broker.flusher.stop()


def test_many_groups_are_counted_in_slices() -> None:
    client = Client(make_broker())
    client.broker.controller.create("t", 1, {})
    groups = 2 * metrics._GROUPS_PER_TURN + 1
    for number in range(groups):
        client.call(commit(7, group_id=f"g{number}"), 8)
    text, turns = finished(collect(client.broker))
    assert value(read(text), "kafka_coordinator_group_num_groups") == groups
    assert turns == 2


def test_groups_may_be_deleted_between_two_slices() -> None:
    client = Client(make_broker({"offsets.topic.num.partitions": "1"}))
    client.broker.controller.create("t", 1, {})
    for number in range(metrics._GROUPS_PER_TURN + 10):
        client.call(commit(7, group_id=f"g{number}"), 8)
    collecting = collect(client.broker)
    collecting.send(None)
    client.broker.delete_topic(client.broker.topics.by_name["t"])
    client.broker.coordinator.shards[0].groups.clear()
    text, _ = finished(collecting)
    assert "\nkafka_coordinator_group_num_groups " in text


def test_every_metric_is_documented_and_named_once() -> None:
    text, _ = finished(collect(make_broker()))
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)) > 30
    for family in families:
        assert family.documentation.endswith("."), family.name
        assert family.type in ("counter", "gauge"), family.name
        if family.name.startswith("kafka_"):
            assert re.match(r"kafka\.\w", family.documentation), family.name
        else:
            assert family.name.startswith(("coterie_", "process_")), family.name


class TestServe:
    def test_metrics_are_served_at_the_printed_address(self, tmp_path: Path) -> None:
        with serving("--data-dir", ":memory:", "--metrics-port", "0") as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("coterie ")
            match = re.fullmatch(
                r"metrics on (http://127\.0\.0\.1:\d+/metrics)\n", process.stdout.readline()
            )
            assert match
            with urllib.request.urlopen(match[1], timeout=PATIENCE_S) as response:
                samples = read(response.read().decode())
            assert value(samples, "kafka_coordinator_group_num_partitions", state="active") == 50

    def test_a_port_in_use_is_an_error_with_a_remedy(self) -> None:
        async def go() -> "subprocess.CompletedProcess[str]":
            server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            arguments = ("--data-dir", ":memory:", "--port", "0", "--metrics-port", str(port))
            try:
                return await asyncio.to_thread(run, *arguments, "--log-level", "error")
            finally:
                server.close()

        result = asyncio.run(go())
        assert result.returncode == 1
        assert "--metrics-port 0 picks a free one" in result.stderr


def test_metrics_beside_a_control_port_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "control.json"
    arguments = ("--control", "0", "--control-file", str(file), "--metrics-port", "0")
    with serving("--data-dir", ":memory:", *arguments) as process:
        assert process.stdout is not None
        process.stdout.readline()
        line = re.fullmatch(r"metrics on (\S+)\n", process.stdout.readline())
        assert line is not None
        eventually(file.exists, "the control file is there")
        announced = json.loads(file.read_text())
        port = ControlPort.of(announced["control_url"], announced["token"], PATIENCE_S)
        assert not port.send("POST", "/restart", {}).is_error
        text = urllib.request.urlopen(line[1]).read().decode()
        assert "\nkafka_coordinator_group_num_groups 0.0\n" in text
        assert "broker=" not in text
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
