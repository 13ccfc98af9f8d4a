"""Crashes while transactions run: after each, the next start must decide all of them rightly.

A broker starts on the disk that the crash has left, writes the markers of decided transactions, and
aborts the open ones after their timeout. Then

- the records of a transaction are visible at READ_COMMITTED, all of them, if its commit was
  acknowledged; none if its abort was, or if no commit was asked for; all or none otherwise;
- the group has the offset of the last transaction that is visible, so a commit that was not
  acknowledged has both or neither;
- no partition has a transaction that never ends, and the last segments have right indexes;
- a producer id or an epoch that a client has got is not given again.
"""

from collections import Counter
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.records import decode_records, iterate_batches
from coterie.server.broker import Broker
from tests.crash.broker_run import answer_to
from tests.crash.losses import Crash
from tests.crash.restart import Wrong
from tests.crash.story_crashes import StoryCrashes
from tests.crash.transaction_story import (
    GROUP,
    PARTITIONS,
    SETTINGS,
    STORIES,
    TIMEOUT_MS,
    TOPIC,
    Transaction,
    record_story,
)
from tests.record_batches import committed
from tests.unit.server.manual import Client, open_log

_LATER_MS = 2 * TIMEOUT_MS
_NO_OFFSET = -1


class TransactionCrashes(StoryCrashes):
    """The crashes of one story of transactions."""

    what = "transactions"
    stories = tuple(STORIES)
    settings = SETTINGS
    record = staticmethod(record_story)

    def check(self, crash: Crash) -> None:
        """See `StoryCrashes`."""
        broker = self.start_after(crash)
        client = Client(broker)
        loop = client.loop
        loop.advance(1)
        self._check_ids(client, crash.operations)
        loop.advance(_LATER_MS)
        visible = set[bytes]().union(*(_visible(broker, each) for each in range(PARTITIONS)))
        self._check_records(visible, crash.operations)
        self._check_offset(client, visible)
        _check_states(client)

    def _check_records(self, visible: set[bytes], operations: int) -> None:
        known: set[bytes] = set()
        for each in self.story.transactions:
            values = {value for _, value in each.records}
            known |= values
            found = values & visible
            outcome = _outcome(each, operations)
            if outcome is True and found != values:
                raise Wrong(f"committed, and not visible: {sorted(values - found)}")
            if outcome is False and found:
                raise Wrong(f"not committed, and visible: {sorted(found)}")
            if found and found != values:
                raise Wrong(f"visible in part: {sorted(found)} of {sorted(values)}")
        if not visible <= known:
            raise Wrong(f"visible, of no transaction: {sorted(visible - known)}")

    def _check_offset(self, client: Client, visible: set[bytes]) -> None:
        expected = _NO_OFFSET
        for each in self.story.transactions:
            if each.offset is not None and each.records[0][1] in visible:
                expected = each.offset
        topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        (found,) = answer_to(client, request, 8).groups[0].topics[0].partitions
        if (found.error_code, found.committed_offset) != (ErrorCode.NONE, expected):
            raise Wrong(f"the group has {found.committed_offset} and not {expected}: {found}")

    def _check_ids(self, client: Client, operations: int) -> None:
        """Check that a new producer id is new, and that an epoch of an id is a later one."""
        given = [each for each in self.story.given if each.answered <= operations]
        found = _init(client, None)
        if found.producer_id in {each.producer_id for each in given}:
            raise Wrong(f"the producer id {found.producer_id} is given again")
        for transactional_id in {each.transactional_id for each in given} - {None}:
            newest = max(
                (each.producer_id, each.epoch)
                for each in given
                if each.transactional_id == transactional_id
            )
            found = _init(client, transactional_id)
            if (found.producer_id, found.producer_epoch) <= newest:
                raise Wrong(f"{transactional_id} gets {found} again; a client has {newest}")


def _outcome(transaction: Transaction, operations: int) -> bool | None:
    """Return whether a transaction must be committed after a crash; None if that is open."""
    if not transaction.commits or transaction.asked is None or transaction.asked > operations:
        return False
    return True if transaction.ended is not None and transaction.ended <= operations else None


def _init(client: Client, transactional_id: str | None) -> Any:
    """Get a producer id, as a new producer does."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    for _ in range(100):
        found = answer_to(client, request, 4)
        if found.error_code in (ErrorCode.NONE, ErrorCode.PRODUCER_FENCED):
            break
        client.loop.advance(100)
    if found.error_code:
        raise Wrong(f"{transactional_id or 'a producer'} gets no id: {found}")
    return found


def _visible(broker: Broker, index: int) -> set[bytes]:
    """Return what a reader at READ_COMMITTED gets from a partition."""
    log = open_log(broker, TOPIC, index)
    if log.last_stable_offset != log.log_end_offset:
        open_ones = [each for each in log.producers if each.current_txn_first_offset >= 0]
        raise Wrong(f"a transaction never ends in partition {index}: {open_ones}")
    offsets = set(committed(log, log.log_start_offset))
    values = {}
    for data in log.chunks():
        for position, header in iterate_batches(data):
            for record in decode_records(data, header, position):
                if record.offset in offsets:
                    values[record.offset] = bytes(record.value or b"")
    found = list(values.values())
    twice = [value for value, count in Counter(found).items() if count > 1]
    if twice:
        raise Wrong(f"visible twice: {twice}")
    return set(found)


def _check_states(client: Client) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["a", "b", "c"])
    for each in answer_to(client, request, 0).transaction_states:
        if each.transaction_state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
            raise Wrong(f"the transaction never ends: {each}")
