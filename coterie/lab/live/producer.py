"""The producer of a live run: records at a steady rate in every partition, and lines about them.

python -m coterie.lab.live.producer '{"bootstrap": ..., "counts": ..., "rate": ..., "lines": ...}'
"""

import json
import os
import signal
import sys
import threading
import time

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.lab.live.clients import cluster_at
from coterie.processes.lines import Writer
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from coterie.protocol.records import Record, encode_records

_EVERY_S = 0.1
_TIMEOUT_MS = 5_000


class Producer:
    """Appends what has become due since the last time."""

    def __init__(self, cluster: Cluster, counts: dict[str, int], rate: int, lines: str) -> None:
        self._cluster = cluster
        self._partitions = [(name, index) for name in counts for index in range(counts[name])]
        self._rate = rate
        self._writer = Writer(lines)
        self._began_s = time.monotonic()
        self._sent = dict.fromkeys(self._partitions, 0)
        # From version 13 on, Produce names topics by their ids.
        topics = cluster.metadata(dict.fromkeys(counts)).topics
        self._ids = {str(topic.name): topic.topic_id for topic in topics}

    def produce(self) -> None:
        """Append the records that are due, in one request to each leader."""
        passed_s = time.monotonic() - self._began_s
        count = len(self._partitions)
        due = {}
        for index, each in enumerate(self._partitions):
            # Each partition begins at a moment of its own.
            number = int(passed_s * self._rate + index / count)
            if number > self._sent[each]:
                due[each] = number - self._sent[each]
        if not due:
            return
        ends = self._cluster.call_leaders(
            due,
            lambda keys: self._request({key: due[key] for key in keys}),
            ProduceResponse,
            self._ends,
        )
        for each, number in due.items():
            self._sent[each] += number
        self._writer.write(
            "produced", ends=[[*each, first + due[each]] for each, first in ends.items()]
        )

    def _request(self, due: dict[TopicPartition, int]) -> ProduceRequest:
        now_ms = time.time_ns() // 1_000_000
        topics: dict[str, list[ProduceRequestPartition]] = {}
        for (topic, index), number in due.items():
            records = [Record(offset, now_ms, None, b"x", ()) for offset in range(number)]
            part = ProduceRequestPartition(index=index, records=encode_records(records))
            topics.setdefault(topic, []).append(part)
        return ProduceRequest(
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[
                ProduceRequestTopic(name=name, topic_id=self._ids[name], partition_data=parts)
                for name, parts in topics.items()
            ],
        )

    def _ends(self, response: ProduceResponse) -> dict[TopicPartition, tuple[int, int]]:
        names = {topic_id: name for name, topic_id in self._ids.items()}
        return {
            (topic.name or names[topic.topic_id], part.index): (part.error_code, part.base_offset)
            for topic in response.responses
            for part in topic.partition_responses
        }


def _exit_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Produce until SIGTERM."""
    options = json.loads(sys.argv[1])
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: stopping.set())
    threading.Thread(target=_exit_with_input, daemon=True).start()
    with cluster_at(options["bootstrap"], options.get("command_config")) as cluster:
        producer = Producer(cluster, options["counts"], options["rate"], options["lines"])
        while not stopping.wait(_EVERY_S):
            try:
                producer.produce()
            except ClientError as error:
                print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
