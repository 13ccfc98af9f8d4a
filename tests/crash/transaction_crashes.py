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

import math
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

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
from tests.crash.disk import RecordingFileSystem
from tests.crash.losses import A_FEW, Crash, deaths, power_losses
from tests.crash.restart import Wrong
from tests.crash.transaction_story import (
    GROUP,
    PARTITIONS,
    STORIES,
    TIMEOUT_MS,
    TOPIC,
    Story,
    Transaction,
    answer_to,
    record_story,
    start_broker,
)
from tests.record_batches import committed
from tests.unit.server.manual import Client, open_log
from tests.unit.server.manual_loop import ManualLoop

DEATH, POWER = "death", "power"
# How many unsynced operations a loss of power loses, or keeps, at once.
_LOST = 1
_LATER_MS = 2 * TIMEOUT_MS
_NO_OFFSET = -1
_COMMAND = "python -m tests.crash --repeat-transactions"


@lru_cache(maxsize=4)
def _recorded(name: str, flush: bool) -> Story:
    return record_story(name, flush=flush)


def forget_stories() -> None:
    """Forget all stories, because the product has changed."""
    _recorded.cache_clear()


class Task(NamedTuple):
    """The crashes of one kind after one number of operations of a story."""

    kind: str
    story: str
    flush: bool
    operations: int


class TransactionCrashes:
    """The crashes of one story.

    Attributes:
        story: what was recorded.
        tried: how many disks were started on, by the kind of crash.
    """

    def __init__(self, name: str, *, flush: bool) -> None:
        self.story = _recorded(name, flush)
        self.tried: Counter[str] = Counter()
        self._name = f"{name}:{'commit' if flush else 'never'}"
        self._seen: set[int] = set()

    def crashes(self, kind: str, operations: int) -> Iterator[Crash]:
        """Yield the disks that crashes after so many operations leave."""
        base, every = self.story.base, self.story.operations
        if kind == DEATH:
            return deaths(base, every, operations, operations, A_FEW)
        # Without syncs a loss of power may lose anything.
        assert self.story.flush, "without syncs nothing is promised"
        return power_losses(base, every, operations, operations, _LOST, A_FEW)

    def run(
        self,
        kind: str,
        operations: int,
        sample: int = 1,
        only: str = "",
        until_s: float = math.inf,
    ) -> list[str]:
        """Try crashes after so many operations.

        Args:
            kind: the kind of crash.
            operations: how many operations were done.
            sample: one in this many crashes is tried.
            only: try only the crash with this detail.
            until_s: nothing is tried later, on the monotonic clock.

        Returns:
            What was wrong, with the option that repeats it; at most one failure.
        """
        for number, crash in enumerate(self.crashes(kind, operations)):
            if time.monotonic() > until_s:
                break
            if (number + operations) % sample or only not in ("", crash.detail):
                continue
            identity = hash((crash.disk.identity(), operations))
            if identity in self._seen:
                continue
            self._seen.add(identity)
            self.tried[f"transactions, {crash.kind}"] += 1
            try:
                self._check(crash)
            except Exception as error:
                where = f"{kind}:{self._name}:{operations}:{crash.detail}"
                return [f"{type(error).__name__}: {error}\n    {_COMMAND} '{where}'"]
        return []

    def _check(self, crash: Crash) -> None:
        loop = ManualLoop()
        loop.now_ms = self.story.now_ms
        filesystem = RecordingFileSystem(crash.disk.copy(), crash.boot)
        broker = start_broker(filesystem, loop, flush=self.story.flush)
        client = Client(broker)
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


def repeat(where: str) -> list[str]:
    """Repeat the crash that a failure has printed."""
    kind, name, mode, operations, detail = where.split(":", 4)
    crashes = TransactionCrashes(name, flush=mode == "commit")
    return crashes.run(kind, int(operations), only=detail)


def all_kinds() -> list[tuple[str, str, bool]]:
    """Return every kind of crash: kind, story and whether the broker syncs."""
    return [
        (kind, name, flush)
        for kind in (DEATH, POWER)
        for name in STORIES
        for flush in (True, False)
        if flush or kind == DEATH
    ]


def crash_until(until_s: float, processes: int) -> tuple[Counter[str], list[str]]:
    """Try as many crashes as there is time for, until a time on the monotonic clock.

    Returns:
        How many disks were started on, by the kind of crash, and the failures.
    """
    tasks = [
        Task(*each, operations)
        for each in all_kinds()
        for operations in range(len(_recorded(*each[1:]).operations) + 1)
    ]
    # Each kind and each part of a story gets time.
    random.Random(1).shuffle(tasks)
    tried: Counter[str] = Counter()
    failures: list[str] = []
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        work = partial(_run, until_s=until_s)
        for found, wrong in pool.imap_unordered(work, tasks):
            tried += found
            failures += wrong
    return tried, failures


def _run(task: Task, until_s: float) -> tuple[Counter[str], list[str]]:
    if time.monotonic() > until_s:
        return Counter(), []
    crashes = TransactionCrashes(task.story, flush=task.flush)
    return crashes.tried, crashes.run(task.kind, task.operations, until_s=until_s)
