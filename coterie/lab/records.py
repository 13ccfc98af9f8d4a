"""The records of a simulated group: its group log and its journal, as a broker writes them.

Only machines at the coordinator of Coterie have them. The directory can be read like the data
directory of a broker: by `coterie pipeline`, and by `coterie serve`, which serves it.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.kernel.event import Event
from coterie.lab.errors import WrongInput
from coterie.protocol.messages.journal_records import (
    encode_fact,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

Pair = tuple[bytes, bytes | None]


class _Batch(NamedTuple):
    """Records that were appended together."""

    at_ms: int
    pairs: list[Pair]


class KeptRecords:
    """The records of a run.

    Attributes:
        start_ms: the time at which the run starts, in epoch milliseconds.
    """

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self._logs: dict[str, list[_Batch]] = {OFFSETS_TOPIC: [], JOURNAL_TOPIC: []}

    def append(self, at_ms: int, pairs: list[Pair]) -> None:
        """Keep a batch of the group log."""
        self._logs[OFFSETS_TOPIC].append(_Batch(at_ms, pairs))

    def add(self, at_ms: int, events: Sequence[Event]) -> None:
        """Keep events of the coordinator, each as a record of the journal."""
        pairs: list[Pair] = [
            encode_fact(event.group_id, event.fact)
            for event in events
            if not isinstance(event.fact, PartitionLoaded | PartitionUnloaded)
        ]
        if pairs:
            self.append_facts(at_ms, pairs)

    def append_facts(self, at_ms: int, pairs: list[Pair]) -> None:
        """Keep a batch of the journal."""
        self._logs[JOURNAL_TOPIC].append(_Batch(at_ms, pairs))

    def write(self, directory: str) -> None:
        """Write the logs into a new or empty directory.

        Raises:
            WrongInput: the directory is not empty, or can't be written.
        """
        try:
            os.makedirs(directory, exist_ok=True)
            if os.listdir(directory):
                raise WrongInput(f"{directory} is not empty: choose a new directory for --records.")
            for topic, batches in self._logs.items():
                os.mkdir(os.path.join(directory, f"{topic}-0"))
                path = os.path.join(directory, f"{topic}-0", f"{0:020d}.log")
                offset = 0
                with open(path, "wb") as file:
                    for batch in batches:
                        file.write(encode_batch(batch.pairs, offset, batch.at_ms))
                        offset += len(batch.pairs)
        except OSError as error:
            raise WrongInput(
                f"The records can't be written to {directory}: {error.strerror}."
            ) from None
