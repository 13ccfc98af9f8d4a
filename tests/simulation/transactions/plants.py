"""The planted bugs that the simulation of transactions must find, and the seeds that find them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.faults import Function, Of, answers, called_by, does_nothing, given, mistaking, where
from tests.planting import Plant

_APPENDS_MARKER = "coterie.server.transactions.markers:MarkerWriter._append"
_VERIFIES = "coterie.server.handlers.transactional_produce:TransactionCheck.verify"


def _the_end_of_the_log(_: Function) -> Function:
    """Give the end of a log in place of another of its offsets."""
    return lambda log: log.log_end_offset


def _the_first(search: Function) -> Function:
    """End a search with what it finds first."""

    def run(*arguments: Any) -> Iterator[Any]:
        return islice(search(*arguments), 1)

    return run


def _forgets_the_batch(check: Function) -> Function:
    """Find no batch that was stored before."""
    return lambda producers, header: (check(producers, header)[0], None)


PLANTS = (
    Plant(
        "a batch is appended behind the marker of its transaction",
        "coterie.server.handlers.transactional_produce:TransactionCheck.verify",
        "if error:",
        "if False:",
    ),
    Plant(
        "READ_COMMITTED returns records of open transactions",
        "coterie.storage.log_reader:LogReader.last_stable_offset",
        fault=called_by("coterie.storage.log_reader:LogReader.read_committed", _the_end_of_the_log),
    ),
    Plant(
        "aborted transactions are not listed",
        "coterie.storage.aborted_transactions:overlapping",
        fault=answers(()),
    ),
    Plant(
        "the search for aborted transactions ends at the first",
        "coterie.storage.aborted_transactions:overlapping",
        fault=_the_first,
    ),
    Plant(
        "a snapshot forgets which transactions are open",
        "coterie.storage.producer_state:ProducerState.restore",
        "first_offset = fields",
        "first_offset = (*fields[:-1], -1)",
    ),
    Plant(
        "every transaction counts as committed",
        "coterie.protocol.control_records:encode_marker",
        fault=called_by(_APPENDS_MARKER, given(commit=True)),
    ),
    Plant(
        "every transaction counts as aborted",
        "coterie.protocol.control_records:encode_marker",
        fault=called_by(_APPENDS_MARKER, given(commit=False)),
    ),
    Plant(
        "markers are not appended",
        "coterie.server.logs.partition:Partition.append_marker",
        fault=called_by(_APPENDS_MARKER, does_nothing),
    ),
    Plant(
        "a batch that was sent again is stored again",
        "coterie.storage.producer_state:ProducerState.check",
        fault=called_by(
            "coterie.server.handlers.produce_partitions:_append_validated", _forgets_the_batch
        ),
    ),
    Plant(
        "a zombie ends the transaction of its successor, in the newer protocol",
        "coterie.coordinator.transactions.end_transaction:_newer_verdict",
        fault=mistaking(_FENCED="_END"),
    ),
    Plant(
        "a zombie ends the transaction of its successor, in the older protocol",
        "coterie.coordinator.transactions.end_transaction:_verdict",
        fault=mistaking(_FENCED="_END"),
    ),
    Plant(
        "a zombie adds partitions",
        "coterie.coordinator.transactions.use_partitions:_refusal",
        fault=given({"use.producer_epoch": Of("transaction.epoch")}),
    ),
    Plant(
        "markers are not written again after a start",
        "coterie.coordinator.transactions.shard:TransactionShard.complete",
        fault=called_by(
            "coterie.coordinator.transactions.shard:TransactionShard.loaded", does_nothing
        ),
    ),
    Plant(
        "no transaction times out",
        "coterie.coordinator.transactions.expiry:abort_timed_out",
        fault=where(ONGOING=None),
    ),
    Plant(
        "a fenced transaction is committed",
        "coterie.coordinator.transactions.transaction:Transaction.prepare",
        fault=called_by(
            "coterie.coordinator.transactions.fence:fence_and_abort", given(commit=True)
        ),
    ),
    Plant(
        "no partition is verified",
        "coterie.storage.producer_state:ProducerState.has_open_transaction",
        fault=called_by(_VERIFIES, answers(value=True)),
    ),
)
