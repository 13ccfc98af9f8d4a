"""A small consumer of the consumer protocol (KIP-848) that keeps to the rules, and can have flaws.

A flaw is named by one word, as those of the classic consumer beside it.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from typing import ClassVar

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import (
    FENCED,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerProtocolMember,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopic
from tests.client_check.program import BACKOFF_S, LOOK_UP, Fatal, Program
from tests.client_check.wire import Lost

_REBALANCE_MS = 60_000
_OTHER_TOPIC = "check-other"
_HASTY_S = 0.2
_SLOW_S = 4.0
_FATAL = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)


class ConsumerOfProtocol(ConsumerProtocolMember, Program):
    """One member of a group."""

    _made = 0
    # The first regular expression of each static member.
    _expressions: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        values: dict[str, str],
        printed: Callable[[str], object],
        flaws: Collection[str] = (),
    ) -> None:
        self._topics: tuple[str, ...] = (values["topic"],)
        if "subscribes-to-more" in flaws:
            self._topics += (_OTHER_TOPIC,)
        ConsumerProtocolMember.__init__(
            self,
            values["group"],
            "",
            names=self._topics,
            topic_ids={},
            rebalance_ms=_REBALANCE_MS,
            instance_id=values["instance_id"] or None,
        )
        Program.__init__(self, values, printed, flaws)
        self._subscribe(values["regex"])
        self._make_id()
        self._owned: frozenset[TopicPartition] = frozenset()
        self._now = asyncio.Event()
        self._is_accepted = False
        self._is_accepted_once = False

    def _subscribe(self, regex: str) -> None:
        """Subscribe to a regular expression, if there is one."""
        if not regex:
            return
        if "keeps-old-expression" in self.flaws and self.instance_id is not None:
            regex = ConsumerOfProtocol._expressions.setdefault(self.instance_id, regex)
        if "matches-itself" in self.flaws:
            self.names = [self.topic] if re.fullmatch(regex, self.topic) else []
            return
        self.names, self.regex = [], regex

    def _make_id(self) -> None:
        ConsumerOfProtocol._made += 1
        is_blank = "lets-broker-name-it" in self.flaws
        self.member_id = "" if is_blank else f"tiny-{ConsumerOfProtocol._made}"

    def loops(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        """Return what a member does."""
        return [self._heartbeats]

    @property
    def may_commit(self) -> bool:
        """Whether it is a member."""
        return self._is_accepted

    # --- heartbeats -------------------------------------------------------------------------------

    async def _heartbeats(self) -> None:
        """Send heartbeats: at the interval, and at once if there is something to say or to do."""
        while not self.topic_ids:
            with suppress(Lost):
                await self._look_up()
                self.topic_ids = self.reader.topic_ids
        while True:
            if "silent-while-processing" in self.flaws and self.reader.is_processing:
                await asyncio.sleep(BACKOFF_S)
                continue
            self._now.clear()
            try:
                await self._heartbeat()
            except Lost:
                self.says_all = "says-little-after-error" not in self.flaws
                if "new-id-each-join" in self.flaws:
                    self._make_id()
                await asyncio.sleep(BACKOFF_S)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._now.wait(), self._pause_s())

    def _pause_s(self) -> float:
        if "hasty-heartbeats" in self.flaws:
            return _HASTY_S
        if "slow-heartbeats" in self.flaws:
            return _SLOW_S
        if not self._is_accepted and "hammers" in self.flaws:
            return 0.0
        if "fixed-interval" in self.flaws and self.interval_ms:
            return 1.0
        return self.interval_ms / 1000 if self._is_accepted else BACKOFF_S

    async def _look_up(self) -> None:
        """Ask for the topics that it may read."""
        await self.reader.counts(self._topics if self.regex is None else None)

    async def _heartbeat(self) -> None:
        request = self._flawed(self.heartbeat_request(self._reported(), await self._version()))
        response = await self.ask_coordinator(request, ConsumerGroupHeartbeatResponse)
        epoch = self.generation_id
        assignment = response.assignment
        topics = [] if assignment is None else assignment.topic_partitions
        known = set(self.topic_ids.values())
        if any(each.topic_id not in known for each in topics):
            await self._look_up()
        given = self.take(response)
        self._is_accepted = not response.error_code
        self._is_accepted_once = self._is_accepted_once or self._is_accepted
        if "keeps-old-epoch" in self.flaws and epoch != JOIN_EPOCH:
            self.generation_id = epoch
        if response.error_code:
            if "says-little-after-error" in self.flaws and self.generation_id != JOIN_EPOCH:
                self.says_all = False
            self._refused(response.error_code, epoch)
        elif given is not None:
            await self._reconcile(given)

    async def _version(self) -> int:
        return (await self.coordinator()).version(ApiKey.CONSUMER_GROUP_HEARTBEAT)

    def _reported(self) -> frozenset[TopicPartition]:
        if self.generation_id == JOIN_EPOCH:
            return frozenset()
        return self._owned

    def _flawed(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        joins = request.member_epoch == JOIN_EPOCH
        if "never-reports" in self.flaws and not joins:
            request.topic_partitions = None
        if "repeats-itself" in self.flaws and not joins:
            request.subscribed_topic_names = list(self._topics)
        if "repeats-expression" in self.flaws:
            request.subscribed_topic_regex = self.regex
        if "forgets-expression" in self.flaws and self._is_accepted_once and joins:
            request.subscribed_topic_regex = None
        if "forgets-epoch" in self.flaws and not joins:
            request.member_epoch = JOIN_EPOCH
            request.rebalance_timeout_ms = self.rebalance_ms
            request.subscribed_topic_names = list(self._topics)
            request.topic_partitions = []
        return request

    def _refused(self, error: int, epoch: int) -> None:
        """Do what an error of a heartbeat at an epoch demands."""
        if error == ErrorCode.GROUP_ID_NOT_FOUND and "ignores-fence" not in self.flaws:
            raise Fatal(ErrorCode(error).name)
        if error in FENCED:
            if "ignores-fence" in self.flaws:
                self.generation_id = epoch
                return
            if "keeps-positions-when-fenced" not in self.flaws:
                self.reader.keep(())
            self._owned = frozenset()
            if "new-id-each-join" in self.flaws:
                self._make_id()
            self._now.set()
            return
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and "rejoins-when-loading" in self.flaws:
            self.generation_id = JOIN_EPOCH
        self.handle(error)

    def handle(self, error: int) -> None:
        """Do what an error demands; see `Program`."""
        if error in LOOK_UP and "keeps-coordinator" not in self.flaws:
            self.forget_coordinator()
        elif error == ErrorCode.TOPIC_AUTHORIZATION_FAILED and "stops-when-refused" in self.flaws:
            raise Fatal(ErrorCode(error).name)
        elif error in _FATAL and "hammers" not in self.flaws:
            if error == ErrorCode.FENCED_INSTANCE_ID and (
                self.flaws & {"rejoins-when-fenced", "commits-when-fenced"}
            ):
                self._is_accepted = True
                if "rejoins-when-fenced" in self.flaws:
                    self.generation_id = JOIN_EPOCH
                return
            raise Fatal(ErrorCode(error).name)

    # --- partitions -------------------------------------------------------------------------------

    async def _reconcile(self, given: frozenset[TopicPartition]) -> None:
        """Give up what is not assigned, then take what is new, and say so."""
        if "reads-other-topics" in self.flaws:
            await self.reader.counts(None)
            await self.reader.add({TopicPartition(_OTHER_TOPIC, 0)})
        if "reads-everything" in self.flaws:
            counts = await self.reader.counts(self._topics)
            await self.reader.add(
                {TopicPartition(self.topic, n) for n in range(counts[self.topic])}
            )
        revoked = self._owned - given
        if revoked and "gives-up-uncommitted" not in self.flaws:
            await self.try_commit()
        if not self.flaws & {"reads-revoked", "reads-everything", "reads-other-topics"}:
            self.reader.keep(() if "stops-everything" in self.flaws and revoked else given)
        new = given - self._owned
        if not (self._owned and new and "ignores-additions" in self.flaws):
            await self.reader.add(given)
        if given != self._owned:
            self._now.set()
        self._owned = given

    def commit_request(
        self,
        offsets: Mapping[TopicPartition, int],
        version: int,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> OffsetCommitRequest:
        """Return a commit; a flaw gives it another epoch."""
        request = super().commit_request(offsets, version, topic_ids)
        if "commits-in-epoch-before" in self.flaws:
            request.generation_id_or_member_epoch -= 1
        return request

    def offsets_of(self, topics: list[OffsetFetchRequestTopic]) -> OffsetFetchRequestGroup:
        """Ask for offsets as this member."""
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)
        if "asks-as-nobody" not in self.flaws:
            group.member_id, group.member_epoch = self.member_id, self.generation_id
        return group

    async def leave(self) -> None:
        """Send the heartbeat of a member that leaves."""
        if "does-not-leave" in self.flaws or self.generation_id <= JOIN_EPOCH:
            return
        request = self.leave_request(await self._version())
        if "leaves-as-static" in self.flaws:
            request.member_epoch = LEAVE_EPOCH
        if "hides-instance" in self.flaws:
            request.instance_id = None
            request.member_epoch = LEAVE_EPOCH
        await self.ask_coordinator(request, ConsumerGroupHeartbeatResponse)
