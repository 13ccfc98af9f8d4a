"""One run of the program in one scenario: broker, program, waits and verdicts."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from coterie.assignors.model import TopicPartition
from coterie.client_check.broker import ScriptedBroker
from coterie.client_check.conversation import NEVER, ClientExchange, Conversation
from coterie.client_check.members import ScriptedConsumerMember, ScriptedMember
from coterie.client_check.membership import (
    CONSUMER,
    ClassicMembership,
    ConsumerMembership,
    Membership,
)
from coterie.client_check.model import Judgement, NotReached, Profile, Scenario, Verdict
from coterie.client_check.program import Program
from coterie.client_check.script import Action, Rule

T = TypeVar("T")

TOPIC = "check-topic"
OTHER_TOPIC = "check-other"
GROUP = "check-group"
PARTITIONS = 4
RECORDS = 5
CLIENT_ID = "check-client"

# How often a condition is checked.
_PAUSE_S = 0.02
# How long a client may take to end in order.
END_LIMIT_S = 15.0
# How long a client may take for a reaction that nothing delays, and how much longer than its
# heartbeats' interval for one that a heartbeat's response causes.
_REACTION_LIMIT_S = 15.0
_START_LIMIT_S = 30.0
_READ_LIMIT_S = 30.0


class ReadRecord(NamedTuple):
    """A record that the program has printed."""

    place: int
    topic: str
    partition: int
    offset: int


class Run:
    """One run.

    Attributes:
        broker: the scripted broker.
        talk: its conversation.
        program: the program; another one after `restart`.
        profile: what is known of the client.
        membership: the client's place in its group, as the conversation shows it.
        verdicts: what was found out so far, by the names of checks.
        is_stuck: whether the scenario ended because the client sent nothing any more.
        has_not_started: whether the client did not begin to read although nothing was in its way.
    """

    def __init__(
        self,
        scenario: Scenario,
        broker: ScriptedBroker,
        make_program: Callable[[], Program],
        profile: Profile,
        values: Mapping[str, str],
    ) -> None:
        """Prepare a run; the scenario starts the program."""
        self.scenario = scenario
        self.broker = broker
        self.talk: Conversation = broker.conversation
        self.profile = profile
        self.verdicts: dict[str, Verdict] = {}
        self.has_not_started = False
        self.is_stuck = False
        self.values = dict(values)
        is_consumer = self.values["protocol"] == CONSUMER
        self.membership: Membership = self.consumer if is_consumer else ClassicMembership(self.talk)
        self.program = make_program()
        self._make_program = make_program
        self._names = {each.name for each in scenario.checks}

    # --- verdicts ---------------------------------------------------------------------------------

    def verdict(self, name: str, status: Judgement, reason: str = "") -> None:
        """Give the verdict of a check; the first one counts."""
        assert name in self._names, f"{name} is not a check of this scenario"
        self.verdicts.setdefault(name, Verdict(status, reason))

    def passes(self, name: str) -> None:
        """The client does as the check says."""
        self.verdict(name, Judgement.PASS)

    def check(
        self, name: str, holds: object, reason: str, otherwise: Judgement = Judgement.BREAKS
    ) -> None:
        """Let a check pass if a condition holds.

        Args:
            name: the check.
            holds: the condition.
            reason: what was seen if it does not hold.
            otherwise: the status then.
        """
        if holds:
            self.passes(name)
        else:
            self.verdict(name, otherwise, reason)

    @property
    def name(self) -> str:
        """The only check of the scenario."""
        (name,) = self._names
        return name

    def skip(self, name: str, reason: str) -> None:
        """The check cannot be decided."""
        self.verdict(name, Judgement.SKIPPED, reason)

    # --- the program ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the program."""
        self.talk.remark("scenario", "the program is started")
        await self.program.start(self.values, self._printed)

    async def begin(self) -> ClientExchange:
        """Start the program and wait until the client reads; see `stable`."""
        await self.start()
        return await self.stable()

    async def start_again(self) -> None:
        """Start the program another time."""
        self.program = self._make_program()
        await self.start()

    def _printed(self, text: str) -> int:
        return self.talk.remark("output", text).place

    async def stop(self) -> bool:
        """Ask the program to end; return whether it did."""
        self.talk.remark("scenario", "the program is asked to end (SIGTERM)")
        self.program.terminate()
        is_ended = await self.program.ended(END_LIMIT_S)
        if is_ended:
            self.talk.remark("ended", f"the program has ended with {self.program.exit_code}")
        return is_ended

    async def stable_or_differs(self) -> None:
        """Wait until the client reads; a program that ends instead differs.

        Raises:
            NotReached: it does not read.
        """
        try:
            await self.stable()
        except NotReached as early:
            if self.program.exit_code is not None:
                self.verdict(self.name, Judgement.DIFFERS, str(early))
            raise

    async def stable(self, generation: int = 0, after: int = 0) -> ClientExchange:
        """Wait until the client has partitions in a later generation, and reads them.

        Args:
            generation: the generation before, or the epoch.
            after: the partitions are assigned after this place.

        Returns:
            The client's newest request that was answered with an assignment.

        Raises:
            NotReached: it did not get there.
        """

        def found() -> ClientExchange | None:
            given = self.membership.settled(generation, after)
            own = set() if given is None else set(self.membership.assigned(given))
            reads = given is not None and own & self.fetched(after=given.answered_place)
            return given if reads else None

        what = "joined the group, received its partitions and begun to read"
        if generation:
            what = f"joined a generation after {generation} and read its partitions"
        try:
            return await self.reached(found, what, _START_LIMIT_S)
        except NotReached:
            is_running = self.program.exit_code is None
            is_first = not generation and not after
            self.has_not_started = is_running and is_first and not self.broker.has_acted
            raise

    # --- waits ------------------------------------------------------------------------------------

    async def until(
        self, holds: Callable[[], T | None], limit_s: float = _REACTION_LIMIT_S
    ) -> T | None:
        """Wait until a condition holds; return it, or None at last."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + limit_s
        while not (found := holds()):
            if loop.time() >= deadline_s:
                return None
            if self.program.exit_code is not None and not holds():
                return None
            await asyncio.sleep(_PAUSE_S)
        return found

    async def reached(
        self,
        holds: Callable[[], T | None],
        what: str,
        limit_s: float = _REACTION_LIMIT_S,
        status: Judgement = Judgement.BREAKS,
    ) -> T:
        """Wait until a condition holds.

        Raises:
            NotReached: it did not; `what` completes "the client has not ...".
        """
        found = await self.until(holds, limit_s)
        if found:
            return found
        if self.program.exit_code is not None:
            reason = f"the program ended with {self.program.exit_code} before it {what}"
            errors = self.program.last_errors()
            raise NotReached(reason + (f": {errors[-1]}" if errors else ""), status)
        raise NotReached(f"the client has not {what} within {limit_s:g} s", status)

    async def joined(
        self,
        after: int,
        what: str = "joined the group again",
        limit_s: float = _REACTION_LIMIT_S,
    ) -> ClientExchange:
        """Wait for the client's next request to join after a place; see `reached`."""
        return await self.reached(lambda: next(iter(self.joins(after)), None), what, limit_s)

    async def read_more(self, own: Iterable[TopicPartition] = ()) -> int:
        """Produce a record to each partition, and wait until the client has read its own ones.

        A program that prints what it reads has printed them then.

        Args:
            own: the client's partitions; all by default.

        Returns:
            The end offset of each partition.
        """
        end = 0
        for index in range(PARTITIONS):
            end = 1 + await self.broker.produce(TOPIC, index, [f"{index}-more"])
        wanted = set(own) or self.partitions()

        def is_read() -> bool:
            positions = self.newest_positions()
            if any(positions.get(each, -1) < end for each in wanted):
                return False
            records = self.records()
            printed = {each.partition for each in records if each.offset + 1 >= end}
            return not records or printed >= {each.partition for each in wanted}

        which = "its partitions" if own else "every partition"
        await self.reached(is_read, f"read {which} to offset {end}", _READ_LIMIT_S)
        return end

    @property
    def is_silent(self) -> bool:
        """Whether the client runs, but has sent nothing for longer than any heartbeat takes."""
        exchanges = self.talk.exchanges
        if not exchanges or self.program.exit_code is not None or self.broker.is_down:
            return False
        return self.talk.elapsed_s - exchanges[-1].at_s > _REACTION_LIMIT_S - 1

    async def sleep(self, seconds: float) -> None:
        """Let time pass, unless the program ends."""
        await self.until(lambda: None, seconds)

    @property
    def heartbeat_limit_s(self) -> float:
        """How long to wait for the next heartbeat and what follows from it."""
        interval_s = self.profile.heartbeat_interval_s or self.profile.session_timeout_ms / 3000
        return max(_REACTION_LIMIT_S, 2 * interval_s + 10)

    async def hit(
        self, rule: Rule, what: str, status: Judgement = Judgement.SKIPPED
    ) -> ClientExchange:
        """Wait until a request has met a rule and was answered, if it is.

        Raises:
            NotReached: none has.
        """
        return await self.reached(
            lambda: next(iter(rule.hits), None), what, self.heartbeat_limit_s, status
        )

    # --- the script -------------------------------------------------------------------------------

    def rule(
        self,
        action: Action,
        api: str | None,
        *,
        times: int | None = 1,
        skip: int = 0,
        with_field: str = "",
    ) -> Rule:
        """Lay an action over requests, by default over the next one; see `Rule`."""
        return self.broker.rule(action, api, times=times, skip=skip, with_field=with_field)

    def say(self, text: str) -> None:
        """Note an act of the scenario in the conversation."""
        self.talk.remark("scenario", text)

    def member(
        self,
        name: str = "other",
        *,
        protocols: Iterable[str] = (),
        topics: Iterable[str] = (TOPIC,),
        instance_id: str | None = None,
    ) -> ScriptedMember:
        """Return a scripted member of the client's group, which has not joined yet."""
        return ScriptedMember(
            self.broker,
            self.group,
            name,
            protocols=tuple(protocols),
            topics=tuple(topics),
            instance_id=instance_id,
        )

    def consumer_member(self) -> ScriptedConsumerMember:
        """Return a scripted member of the consumer protocol, which has not joined yet."""
        return ScriptedConsumerMember(self.broker, self.group, "other", TOPIC)

    @property
    def group(self) -> str:
        """The group id of the client."""
        return self.values["group"]

    # --- what was said ----------------------------------------------------------------------------

    def partitions(self, count: int = PARTITIONS, topic: str = TOPIC) -> set[TopicPartition]:
        """Return the first partitions of a topic."""
        return {TopicPartition(topic, index) for index in range(count)}

    def positions(self, fetch: ClientExchange) -> dict[TopicPartition, int]:
        """Return the partitions of a Fetch with the offsets to read from."""
        return {
            TopicPartition(self.topic_name(topic), each.partition): each.fetch_offset
            for topic in fetch.request.topics
            for each in topic.partitions
        }

    def newest_positions(self) -> dict[TopicPartition, int]:
        """Return where the client has read each partition last."""
        found: dict[TopicPartition, int] = {}
        for each in self.talk.of("Fetch"):
            found |= self.positions(each)
        return found

    def first_positions(self) -> dict[TopicPartition, int]:
        """Return where the client has begun to read each partition."""
        found: dict[TopicPartition, int] = {}
        for each in self.talk.of("Fetch"):
            found = self.positions(each) | found
        return found

    def read_again(self, end: int, after: int) -> ClientExchange | None:
        """Return the first Fetch after a place that reads before an offset."""
        for each in self.talk.of("Fetch", after=after):
            if any(offset < end for offset in self.positions(each).values()):
                return each
        return None

    def all_committed(self, after: int = 0, before: int = NEVER) -> dict[TopicPartition, int]:
        """Return the newest offsets that the client has committed between two places."""
        found: dict[TopicPartition, int] = {}
        for each in self.talk.of("OffsetCommit", after=after, before=before):
            found |= self.committed(each)
        return found

    def committed(self, commit: ClientExchange) -> dict[TopicPartition, int]:
        """Return the offsets of an OffsetCommit."""
        return {
            TopicPartition(self.topic_name(topic), each.partition_index): each.committed_offset
            for topic in commit.request.topics
            for each in topic.partitions
        }

    def topic_name(self, listed: Any) -> str:
        """Return the name of a topic in a request, which may give its id instead."""
        name = str(getattr(listed, "name", "") or getattr(listed, "topic", ""))
        return name or self.broker.topic_names.get(listed.topic_id, "?")

    def fetched(self, after: int = 0, before: int = NEVER) -> set[TopicPartition]:
        """Return the partitions that the client has fetched between two places."""
        found: set[TopicPartition] = set()
        for each in self.talk.of("Fetch", after=after, before=before):
            found |= self.positions(each).keys()
        return found

    def fetch_of(self, partition: TopicPartition, after: int = 0) -> ClientExchange | None:
        """Return the first Fetch of a partition after a place."""
        for each in self.talk.of("Fetch", after=after):
            if partition in self.positions(each):
                return each
        return None

    def joins(self, after: int = 0) -> list[ClientExchange]:
        """Return the requests with which the client joins, after a place."""
        return self.membership.joins(after)

    def identity(self) -> tuple[int, str]:
        """Return the client's newest generation, or its epoch, and its member id."""
        return self.membership.identity()

    @property
    def heartbeat(self) -> str:
        """The name of the API of the client's heartbeats."""
        return self.membership.heartbeat

    @property
    def consumer(self) -> ConsumerMembership:
        """The client as a member of the consumer protocol."""
        return ConsumerMembership(self.talk, self.broker.topic_names)

    def heartbeats(self, after: int = 0) -> list[ClientExchange]:
        """Return the client's heartbeats after a place."""
        return self.talk.of(self.heartbeat, after=after)

    def records(self) -> list[ReadRecord]:
        """Return the records that the program has printed, in order."""
        return read_records(self.program, self.values["topic"])


def read_records(program: Program, topic: str) -> list[ReadRecord]:
    """Return the records that a program has printed, in order."""
    pattern = re.compile(rf"^({re.escape(topic)}|{OTHER_TOPIC}) (\d+) (\d+)( |$)")
    return [
        ReadRecord(line.place, found[1], int(found[2]), int(found[3]))
        for line in program.lines
        if (found := pattern.match(line.text))
    ]
