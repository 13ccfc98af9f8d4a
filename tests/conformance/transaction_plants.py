"""Bugs planted into the transaction coordinator, each with the check that should find it.

A text is replaced where one branch of a verdict, one part of a filter or one of several assignments
is wrong: neither an argument nor a call stands for it.
"""

from typing import Any

from coterie.coordinator.transactions.states import ONGOING
from coterie.protocol.errors import ErrorCode
from tests.faults import (
    Function,
    Of,
    answers,
    calling,
    confuses,
    does_nothing,
    given,
    keeps,
    mistaking,
    where,
)
from tests.planting import Plant

_INIT = "coterie.coordinator.transactions.init_producer_id"
_END = "coterie.coordinator.transactions.end_transaction"
_USE = "coterie.coordinator.transactions.use_partitions"
_TRANSACTION = "coterie.coordinator.transactions.transaction:Transaction"
_EXPIRY = "coterie.coordinator.transactions.expiry"
_LISTING = "coterie.coordinator.transactions.listing"
_PRODUCE = "coterie.server.handlers.transactional_produce:TransactionCheck"
_PRODUCERS = "coterie.storage.producer_state:ProducerState"
_SERVICE = "coterie.coordinator.transactions.service:TransactionCoordinator"

_FENCE = "coterie.coordinator.transactions.fence:fence_and_abort"


def _or_is_open(may_take_over: Function) -> Function:
    """Let any producer take over an open transaction."""

    def run(transaction: Any, request: Any) -> bool:
        return transaction.state is ONGOING or may_take_over(transaction, request)

    return run


def _the_end_of(matches: Function) -> Function:
    """Let a pattern match the end of a text, too."""

    def run(pattern: Any, text: str) -> bool:
        return any(matches(pattern, text[first:]) for first in range(len(text)))

    return run


TRANSACTION_PLANTS: tuple[Plant, ...] = (
    Plant(
        "a new producer keeps the epoch of the one before it",
        f"{_TRANSACTION}.raise_epoch",
        "self.epoch += 1",
        "self.epoch += self.epoch < 1",
        ("init_producer_id/next_producer",),
    ),
    Plant(
        "a producer with another id may take over",
        f"{_INIT}:_may_take_over",
        fault=answers(value=True),
        kinds=("init_producer_id/fenced/other_id",),
    ),
    Plant(
        "a producer with a higher epoch may take over",
        f"{_INIT}:_next_epoch",
        fault=given(named_epoch=Of("min(named_epoch, transaction.epoch)")),
        kinds=("init_producer_id/fenced/higher_epoch",),
    ),
    Plant(
        "a producer that continues cannot repeat its request",
        f"{_INIT}:_next_epoch",
        fault=given({"transaction.last_epoch": None}),
        kinds=("init_producer_id/own_identity_twice",),
    ),
    Plant(
        "a replaced producer may repeat the request of the next one",
        f"{_INIT}:_next_epoch",
        "last_epoch = NO_EPOCH if is_new else transaction.epoch",
        "last_epoch = transaction.epoch",
        ("init_producer_id/replaced_producer",),
    ),
    Plant(
        "a producer with another identity aborts the open transaction",
        f"{_INIT}:init_producer_id",
        fault=calling(f"{_INIT}:_may_take_over", _or_is_open),
        kinds=("init_producer_id/open_transaction_of_another",),
    ),
    Plant(
        "the timeout of a new producer is ignored",
        f"{_INIT}:_taken_over",
        fault=given(
            {
                "request.transaction_timeout_ms": Of(
                    "transaction.timeout_ms or request.transaction_timeout_ms"
                )
            }
        ),
        kinds=("init_producer_id/timeout_of_the_next_producer",),
    ),
    Plant(
        "a timeout of zero is accepted",
        f"{_SERVICE}.init_producer_id",
        "elif not 0 < request.transaction_timeout_ms",
        "elif not 0 <= request.transaction_timeout_ms",
        ("init_producer_id/bad_timeout/zero",),
    ),
    Plant(
        "the start of the last transaction stays with the next producer",
        f"{_INIT}:_taken_over",
        "transaction.started_ms = NO_TIME",
        "pass",
        ("transaction_listings/taken_over",),
    ),
    Plant(
        "old versions get errors that they do not know",
        "coterie.coordinator.transactions.responses:error_of_version",
        fault=lambda _: lambda error, *_: error,
        kinds=("stale_epochs/end/old_commit",),
    ),
    Plant(
        "at level 1 the abort of a fenced producer keeps the epoch",
        _FENCE,
        fault=calling(f"{_TRANSACTION}.raise_epoch", does_nothing),
        kinds=("init_producer_id/open_transaction",),
    ),
    Plant(
        "the abort of a fenced producer keeps the epoch",
        _FENCE,
        fault=calling(f"{_TRANSACTION}.prepare", given(level=0)),
        kinds=("init_producer_id/open_transaction_is_aborted",),
    ),
    Plant(
        "the transaction of a fenced producer is committed",
        _FENCE,
        fault=calling(f"{_TRANSACTION}.prepare", given(commit=True)),
        kinds=("transaction_timeouts/aborted",),
    ),
    Plant(
        "a higher epoch adds partitions",
        f"{_USE}:_refusal",
        fault=given({"use.producer_epoch": Of("min(use.producer_epoch, transaction.epoch)")}),
        kinds=("transaction_partitions/other_epoch/newer",),
    ),
    Plant(
        "every producer adds partitions",
        f"{_USE}:_refusal",
        fault=given({"use.producer_id": Of("transaction.producer_id")}),
        kinds=("transaction_partitions/refused/other_producer",),
    ),
    Plant(
        "a request without partitions begins no transaction",
        f"{_TRANSACTION}.has_all",
        fault=given({"self.state": ONGOING}),
        kinds=("transaction_partitions/nothing_added",),
    ),
    Plant(
        "every partition counts as verified",
        f"{_USE}:use_partitions",
        "return Effects(ErrorCode.TRANSACTION_ABORTABLE)",
        "return Effects(ErrorCode.NONE)",
        ("add_partitions_batched/verified",),
    ),
    Plant(
        "a verification adds partitions",
        f"{_USE}:use_partitions",
        fault=given({"use.add": True}),
        kinds=("add_partitions_batched/verified",),
    ),
    Plant(
        "an ended transaction keeps its partitions",
        f"{_TRANSACTION}.complete",
        fault=keeps("self.partitions"),
        kinds=("transaction_listings/ended/CompleteCommit",),
    ),
    Plant(
        "an ended transaction cannot be ended again",
        f"{_END}:_verdict",
        fault=mistaking(_HAS_ENDED="_WRONG_STATE"),
        kinds=("end_transaction/older/commit_of_committed",),
    ),
    Plant(
        "an aborted transaction can be committed",
        f"{_END}:_ended_so",
        fault=answers(value=True),
        kinds=("end_transaction/older/commit_of_aborted",),
    ),
    Plant(
        "a transaction that has not begun can be ended",
        f"{_END}:_verdict",
        fault=where(EMPTY=None),
        kinds=("end_transaction/older/abort_of_empty",),
    ),
    Plant(
        "every epoch ends a transaction",
        f"{_END}:_verdict",
        fault=given({"request.producer_epoch": Of("transaction.epoch")}),
        kinds=("end_transaction/other_epoch/older_in_ongoing",),
    ),
    Plant(
        "an older end raises the epoch",
        f"{_END}:end_transaction",
        fault=where(_RAISES_EPOCH_SINCE=3),
        kinds=("end_transaction/older_keeps_the_epoch",),
    ),
    Plant(
        "a newer end keeps the epoch",
        f"{_TRANSACTION}.prepare",
        fault=calling(f"{_TRANSACTION}.raise_epoch", does_nothing),
        kinds=("end_transaction/newer/commit_of_ongoing",),
    ),
    Plant(
        "a newer abort of nothing is refused",
        f"{_END}:_newer_verdict",
        "if transaction.state is ONGOING or not request.committed:",
        "if transaction.state is ONGOING:",
        ("end_transaction/newer/abort_of_empty",),
    ),
    Plant(
        "a newer commit of nothing is accepted",
        f"{_END}:_newer_verdict",
        "return _WRONG_STATE\n    is_retry",
        "return _HAS_ENDED\n    is_retry",
        ("end_transaction/newer_refused/commit_of_empty",),
    ),
    Plant(
        "a newer end cannot be repeated",
        f"{_END}:_newer_verdict",
        "is_retry = has_rolled_over or epoch + 1 == transaction.epoch",
        "is_retry = has_rolled_over",
        ("end_transaction/newer_again/commit_of_committed",),
    ),
    Plant(
        "the epoch before the present one ends an open transaction",
        f"{_END}:_newer_verdict",
        "if not is_retry or transaction.state in (ONGOING, EMPTY):",
        "if not is_retry or transaction.state is EMPTY:",
        ("end_transaction/newer_refused/retried_commit_of_ongoing",),
    ),
    Plant(
        "abandoned transactions stay open",
        f"{_EXPIRY}:abort_timed_out",
        fault=where(ONGOING=None),
        kinds=("transaction_timeouts/aborted",),
    ),
    Plant(
        "the timeout counts from the start of the producer",
        f"{_TRANSACTION}.add",
        "self.started_ms = now_ms",
        "self.started_ms = self.updated_ms",
        ("transaction_timeouts/longest_timeout_in_use",),
    ),
    Plant(
        "unknown names of states are ignored",
        f"{_LISTING}:list_transactions",
        fault=given(
            {
                "request.state_filters": Of(
                    "[each for each in request.state_filters if each in STATES_BY_NAME]"
                )
            }
        ),
        kinds=("transaction_listings/unknown_states/alone",),
    ),
    Plant(
        "ids that have not begun a transaction pass no duration",
        f"{_LISTING}:list_transactions",
        "now_ms - each.started_ms > request.duration_filter)",
        "each.started_ms >= 0 and now_ms - each.started_ms > request.duration_filter)",
        ("transaction_listings/filtered_by_duration/never_begun",),
    ),
    Plant(
        "producer ids do not filter",
        f"{_LISTING}:list_transactions",
        fault=given({"request.producer_id_filters": []}),
        kinds=("transaction_listings/filtered_by_producer/none_fits",),
    ),
    Plant(
        "a pattern fits a part of an id",
        "coterie.coordinator.patterns:Pattern.matches",
        fault=_the_end_of,
        kinds=("transaction_listings/filtered_by_pattern/part",),
    ),
    Plant(
        "one bad partition keeps no other out",
        "coterie.server.handlers.add_partitions_to_txn:_Answer._ask",
        fault=mistaking(any="all"),
        kinds=("transaction_partitions/one_bad_partition/unknown_topic",),
    ),
    Plant(
        "records of a partition that was not added are accepted",
        f"{_PRODUCE}.verify",
        fault=calling(
            "coterie.server.transactions.runtime:TransactionRuntime.use_partitions",
            answers(ErrorCode.NONE),
        ),
        kinds=("transactional_records/not_added",),
    ),
    Plant(
        "version 10 gets the error of version 11",
        f"{_PRODUCE}._refusal",
        fault=where(_ABORTABLE_SINCE=0),
        kinds=("transactional_records/not_added",),
    ),
    Plant(
        "the first batch of a producer may have any sequence",
        f"{_PRODUCE}.verify",
        "if adds and known is None and header.base_sequence > 0:",
        "if False:",
        ("transactional_records/first_sequence",),
    ),
    Plant(
        "a producer may write other records into its transaction",
        f"{_PRODUCERS}.check",
        fault=confuses((ErrorCode.INVALID_TXN_STATE, None), (ErrorCode.NONE, None)),
        kinds=("transactional_records/plain_batch",),
    ),
    Plant(
        "the epoch of a coordinator is not compared",
        f"{_PRODUCERS}.check_marker",
        fault=confuses(ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NONE),
        kinds=("transaction_markers/old_coordinator",),
    ),
    Plant(
        "a marker of an old epoch is accepted",
        f"{_PRODUCERS}.check_marker",
        fault=confuses(ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE),
        kinds=("stale_epochs/write_markers",),
    ),
)
