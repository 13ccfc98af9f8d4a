"""The planted bugs that the simulation of transactions must find, and the seeds that find them.

A text is replaced where one field of each entry of a snapshot is read wrong.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from coterie.protocol.errors import ErrorCode
from tests.faults import (
    Function,
    Of,
    answers,
    calling,
    does_nothing,
    given,
    lacking,
    mistaking,
    where,
)
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


PLANTS = (
    Plant(
        "a batch is appended behind the marker of its transaction",
        _VERIFIES,
        fault=given({"self._error": ErrorCode.NONE}),
        also=(
            Plant(
                "every partition is in the transaction",
                _VERIFIES,
                fault=calling(
                    "coterie.server.transactions.runtime:TransactionRuntime.use_partitions",
                    answers(ErrorCode.NONE),
                ),
            ),
        ),
    ),
    Plant(
        "READ_COMMITTED returns records of open transactions",
        "coterie.storage.log_reader:LogReader.read_committed",
        fault=calling(
            "coterie.storage.log_reader:LogReader.last_stable_offset", _the_end_of_the_log
        ),
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
        _APPENDS_MARKER,
        fault=calling("coterie.protocol.control_records:encode_marker", given(commit=True)),
    ),
    Plant(
        "every transaction counts as aborted",
        _APPENDS_MARKER,
        fault=calling("coterie.protocol.control_records:encode_marker", given(commit=False)),
    ),
    Plant(
        "markers are not appended",
        _APPENDS_MARKER,
        fault=calling("coterie.server.logs.partition:Partition.append_marker", does_nothing),
    ),
    Plant(
        "a batch that was sent again is stored again",
        "coterie.server.handlers.produce_partitions:_append_validated",
        fault=calling("coterie.storage.producer_state:ProducerState.check", lacking(1)),
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
        "coterie.coordinator.transactions.shard:TransactionShard.loaded",
        fault=calling(
            "coterie.coordinator.transactions.shard:TransactionShard.complete", does_nothing
        ),
    ),
    Plant(
        "no transaction times out",
        "coterie.coordinator.transactions.expiry:abort_timed_out",
        fault=where(ONGOING=None),
    ),
    Plant(
        "a fenced transaction is committed",
        "coterie.coordinator.transactions.fence:fence_and_abort",
        fault=calling(
            "coterie.coordinator.transactions.transaction:Transaction.prepare", given(commit=True)
        ),
    ),
    Plant(
        "no partition is verified",
        _VERIFIES,
        fault=calling(
            "coterie.storage.producer_state:ProducerState.has_open_transaction", answers(value=True)
        ),
    ),
)
