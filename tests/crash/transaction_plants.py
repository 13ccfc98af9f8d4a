"""Planted bugs about the files of transactions, which crashes of their stories must find.

A text is replaced where one step of a function comes too early or reads a field wrong.
"""

from typing import Any

from tests.crash.group_plants import acknowledges_at_once
from tests.faults import Function, answers, calling, does_nothing, given, gives_no_answer
from tests.planting import Plant


def _in_memory(_: Function) -> Function:
    """Take settings, and do not write them."""

    def save(file: Any, settings: Any) -> None:
        file.stored = settings

    return save


PLANTS = (
    Plant(
        "the decision of a transaction is not synced",
        "coterie.server.coordinators.appends:Appends._acknowledge",
        fault=acknowledges_at_once("transaction"),
        kinds=("power:both_protocols:commit",),
    ),
    Plant(
        "markers are not written again after a crash",
        "coterie.coordinator.transactions.shard:TransactionShard.loaded",
        fault=calling(
            "coterie.coordinator.transactions.shard:TransactionShard.complete", does_nothing
        ),
        kinds=("death:both_protocols:commit",),
    ),
    Plant(
        "a block of producer ids is used before it is stored",
        "coterie.server.metadata.settings_file:SettingsFile.reserve_producer_ids",
        fault=calling("coterie.server.metadata.settings_file:SettingsFile._save", _in_memory),
        kinds=("death:both_protocols:commit",),
    ),
    Plant(
        "a transaction is complete before its markers are durable",
        "coterie.server.transactions.markers:MarkerWriter._append",
        fault=given({"self._flusher.commit": False}),
        kinds=("power:both_protocols:commit",),
    ),
    Plant(
        "a transaction is complete before its markers are written",
        "coterie.server.transactions.runtime:TransactionRuntime._write",
        "self._markers.write(markers, written)",
        "self._host.loop.call_later(5, self._markers.write, markers, lambda: None); written()",
        ("death:both_protocols:never",),
    ),
    Plant(
        "an entry of a transaction index replaces the one before",
        "coterie.storage.aborted_transactions:TransactionIndex.add",
        fault=calling("tests.crash.disk:RecordingFile.write", given(position=0)),
        kinds=("death:aborts_and_segments:commit",),
    ),
    Plant(
        "a transaction index has only what was read of its segment",
        "coterie.storage.producer_loading:ProducerLoading.read",
        "self._has_skipped = self._from_offset > segment.base_offset",
        "pass",
        ("power:both_protocols:commit",),
    ),
    Plant(
        "transaction indexes are not synced before the next segment",
        "coterie.storage.aborted_transactions:TransactionIndex.sync",
        fault=does_nothing,
        kinds=("power:aborts_and_segments:commit",),
    ),
    Plant(
        "an abort that a start finds is not entered in the index",
        "coterie.storage.producer_loading:ProducerLoading._read_batch",
        fault=calling("coterie.storage.producer_loading:note_batch", gives_no_answer),
        kinds=("death:aborts_and_segments:commit",),
    ),
    Plant(
        "a snapshot of producers forgets which transactions are open",
        "coterie.storage.producer_state:ProducerState.restore",
        "first_offset = fields",
        "first_offset = (*fields[:-1], -1)",
        ("death:aborts_and_segments:commit",),
    ),
    Plant(
        "pending offsets are forgotten at a load",
        "coterie.server.coordinators.loading:LogReplay._work",
        fault=calling("coterie.coordinator.kernel.loading:NewestRecords.open_records", answers(())),
        kinds=("death:both_protocols:commit",),
    ),
    Plant(
        "the epoch of a producer is forgotten at a load",
        "coterie.coordinator.transactions.transaction:Transaction.restored",
        fault=given({"value.producer_epoch": 0}),
        kinds=("death:both_protocols:commit",),
    ),
    Plant(
        "the partitions of a transaction are forgotten at a load",
        "coterie.coordinator.transactions.transaction:Transaction.restored",
        fault=given({"value.transaction_partitions": ()}),
        kinds=("death:both_protocols:commit",),
    ),
)
