"""The client leads the group: what it assigns, computed from what it was sent."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.members import ScriptedMember
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import OTHER_TOPIC, PARTITIONS, TOPIC, Run
from coterie.conversation.subscriptions import decoded_assignment, subscription_of

MISSING_TOPIC = "check-missing"
_COUNTS = {TOPIC: PARTITIONS, OTHER_TOPIC: 2}
# Generations that an incremental assignor may need until each partition has an owner.
_MAX_GENERATIONS = 4

Assignment = dict[str, tuple[TopicPartition, ...]]


class Led:
    """One generation that the client has led.

    Attributes:
        join: its JoinGroup, whose response has the subscriptions.
        sync: its SyncGroup, with the assignment.
        subscriptions: of all members.
        assignment: what it assigned.
    """

    def __init__(self, join: ClientExchange, sync: ClientExchange) -> None:
        """Read what the client was sent and what it sent."""
        self.join = join
        self.sync = sync
        self.subscriptions = [subscription_of(each) for each in join.response.members]
        self.assignment: Assignment = {
            each.member_id: decoded_assignment(each.assignment) for each in sync.request.assignments
        }

    @property
    def partitions(self) -> list[TopicPartition]:
        """All assigned partitions, in no order."""
        return [each for own in self.assignment.values() for each in own]

    def wanted(self) -> set[TopicPartition]:
        """The partitions of all topics that exist and are subscribed to."""
        topics = {topic for each in self.subscriptions for topic in each.topics}
        return {
            TopicPartition(topic, index)
            for topic in topics
            for index in range(_COUNTS.get(topic, 0))
        }

    def foreign(self) -> list[str]:
        """The partitions that a member was assigned without a subscription."""
        topics = {each.member_id: each.topics for each in self.subscriptions}
        return [
            f"{partition} to {member}"
            for member, own in self.assignment.items()
            for partition in own
            if partition.topic not in topics.get(member, ())
        ]


async def lead(run: Run, members: Sequence[ScriptedMember], after: int) -> Led:
    """Let members join (again), so that the client leads them; return the generation.

    Raises:
        NotReached: the client does not join, or does not lead.
    """
    for _ in range(_MAX_GENERATIONS):
        await _all_of(run, [each.join() for each in members], "joined again when others joined")
        if any(each.leads for each in members):
            raise NotReached("the client does not lead the group", Judgement.SKIPPED)
        await _all_of(run, [each.sync() for each in members], "sent the assignment as leader")
        syncs = run.talk.of("SyncGroup", after=after)
        joins = [each for each in run.joins() if each.response is not None and not each.error]
        is_over = any(each.sync_error for each in members)
        if syncs and joins and not is_over:
            return Led(joins[-1], syncs[-1])
        # The client has begun another rebalance before the others had their partitions.
    raise NotReached(f"the client has not led {_MAX_GENERATIONS} generations to their end")


async def _all_of(run: Run, work: Sequence[Coroutine[Any, Any, object]], what: str) -> None:
    """Wait for requests of all members, which wait for the client."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await run.reached(
            lambda: all(each.done() for each in tasks), what, run.heartbeat_limit_s + 10
        )
    finally:
        for each in tasks:
            each.cancel()


async def _lead_some(run: Run, protocol: str) -> Led:
    """Let the client lead three more members, one of them with another subscription."""
    await run.begin()
    members = [
        run.member("same", protocols=[protocol]),
        run.member("foreign", protocols=[protocol], topics=[OTHER_TOPIC]),
        run.member("both", protocols=[protocol], topics=[TOPIC, OTHER_TOPIC]),
    ]
    return await _led_until_complete(run, members)


def _judge_exactly(run: Run, name: str, protocol: str, led: Led) -> None:
    """Compare with the assignor, whose result is determined."""
    expected = ASSIGNORS[protocol](_COUNTS, led.subscriptions)
    wanted = {member: sorted(own) for member, own in expected.items() if own}
    given = {member: sorted(own) for member, own in led.assignment.items() if own}
    run.check(
        name,
        given == wanted,
        f"Kafka's {protocol} assigns {_text(wanted)}, the client {_text(given)}",
        Judgement.DIFFERS if not _problem(led) else Judgement.BREAKS,
    )


def _text(assignment: dict[str, list[TopicPartition]]) -> str:
    listed = [
        f"{member[-6:]}: {' '.join(map(str, own))}" for member, own in sorted(assignment.items())
    ]
    return f"[{'; '.join(listed)}]"


def _problem(led: Led) -> str:
    """Return why an assignment breaks a rule; "" if it does not."""
    given = led.partitions
    if len(set(given)) < len(given):
        return "a partition is assigned twice"
    missing = led.wanted() - set(given)
    if missing:
        return f"{', '.join(map(str, sorted(missing)))} are not assigned"
    foreign = led.foreign()
    return f"it assigns {', '.join(foreign)} without a subscription" if foreign else ""


@scenario(
    Check(
        "assigning/range",
        "As leader with the assignor range the client assigns as Kafka does.",
        "[assignors/range]",
        ("assignor:range",),
    ),
    Check(
        "assigning/foreign-topics",
        "The leader assigns the partitions of topics that only others subscribe to.",
        "[assignors/existing-topics]",
        ("assignor:range",),
    ),
    assignor="range",
)
async def range_of_some(run: Run) -> None:
    """The client leads three members with the assignor range."""
    led = await _lead_some(run, "range")
    given = set(led.partitions)
    other = {each for each in led.wanted() if each.topic == OTHER_TOPIC}
    run.check("assigning/foreign-topics", other <= given, f"{OTHER_TOPIC} is not assigned")
    _judge_exactly(run, "assigning/range", "range", led)


@scenario(
    Check(
        "assigning/missing-topics",
        "The leader passes over a topic that does not exist, when another member subscribes to it.",
        "[assignors/existing-topics]",
    )
)
async def missing_topic(run: Run) -> None:
    """The client leads a member that also subscribes to a topic that does not exist."""
    await run.begin()
    protocols = run.profile.protocols
    member = run.member("missing", protocols=protocols, topics=[TOPIC, MISSING_TOPIC])
    try:
        led = await _led_until_complete(run, [member])
    except NotReached as early:
        # One wrong subscription must not stop the group.
        raise NotReached(str(early), Judgement.BREAKS) from None
    problem = _problem(led)
    run.check(run.name, not problem, problem)


@scenario(
    Check(
        "assigning/roundrobin",
        "As leader with the assignor roundrobin the client assigns as Kafka does.",
        "[assignors/round-robin]",
        ("assignor:roundrobin",),
    ),
    assignor="roundrobin",
)
async def round_robin(run: Run) -> None:
    """The client leads three members with the assignor roundrobin."""
    led = await _lead_some(run, "roundrobin")
    _judge_exactly(run, run.name, "roundrobin", led)


@scenario(
    Check(
        "assigning/static-members-first",
        "With range the leader orders static members by instance id, before all others.",
        "KIP-345; [assignors/member-order]",
        ("assignor:range", "version:JoinGroup>=5"),
    ),
    assignor="range",
)
async def static_order(run: Run) -> None:
    """The client leads two static members with the assignor range."""
    await run.begin()
    members = [
        run.member(name, protocols=["range"], instance_id=f"check-{name}") for name in ("z", "a")
    ]
    led = await _led_until_complete(run, members)
    _judge_exactly(run, run.name, "range", led)


@scenario(
    Check(
        "assigning/each-partition-once",
        "As leader the client assigns each partition to one member.",
        "[syncing/leader-assignment]",
    ),
    Check(
        "assigning/only-subscribed",
        "As leader the client assigns partitions to subscribers only.",
        "[assignors/existing-topics]",
    ),
    Check(
        "assigning/balanced",
        "Members with the same subscription get the same number of partitions, or one more.",
        "[assignors/sticky], [assignors/range]",
    ),
)
async def own_assignor(run: Run) -> None:
    """The client leads another member with the assignor that it prefers."""
    await run.begin()
    members = [run.member("same", protocols=run.profile.protocols)]
    led = await _led_until_complete(run, members)
    given = led.partitions
    run.check(
        "assigning/each-partition-once",
        sorted(given) == sorted(led.wanted()),
        f"it assigns {', '.join(map(str, sorted(given)))}",
    )
    foreign = led.foreign()
    run.check("assigning/only-subscribed", not foreign, f"it assigns {', '.join(foreign)}")
    sizes = [len(led.assignment.get(each.member_id, ())) for each in led.subscriptions]
    run.check("assigning/balanced", max(sizes) - min(sizes) <= 1, f"it assigns {sizes}")


async def _led_until_complete(run: Run, members: Sequence[ScriptedMember]) -> Led:
    """Lead members until each partition has an owner.

    That takes several generations if the assignor is incremental, or if the client learns of topics
    that others subscribe to when it leads them.
    """
    led = await lead(run, members, run.talk.now)
    for _ in range(_MAX_GENERATIONS):
        if set(led.partitions) >= led.wanted():
            break
        place = led.sync.place
        if not await run.until(lambda: run.joins(place), run.heartbeat_limit_s):  # noqa: B023
            break
        led = await lead(run, members, place)
    return led


@scenario(
    Check(
        "assigning/sticky",
        "With sticky each partition is assigned once, and the numbers differ by at most one.",
        "KIP-54; [assignors/sticky]",
        ("assignor:sticky",),
    ),
    Check(
        "assigning/sticky-keeps",
        "With sticky the client keeps partitions that it had, when another member joins.",
        "KIP-54; [assignors/sticky]",
        ("assignor:sticky",),
    ),
    assignor="sticky",
)
async def sticky(run: Run) -> None:
    """The client leads two members, one after the other, with the assignor sticky."""
    await run.begin()
    first = run.member("first", protocols=["sticky"])
    led = await lead(run, [first], run.talk.now)
    own_id = run.identity()[1]
    before = set(led.assignment.get(own_id, ()))
    second = run.member("second", protocols=["sticky"])
    led = await lead(run, [first, second], run.talk.now)
    own = set(led.assignment.get(own_id, ()))
    sizes = [len(each) for each in led.assignment.values()]
    problem = _problem(led)
    fair = max(sizes) - min(sizes) <= 1
    run.check("assigning/sticky", not problem and fair, problem or f"it assigns {sizes}")
    kept = f"it had {', '.join(map(str, sorted(before)))} and takes {_new(own - before)}"
    run.check("assigning/sticky-keeps", own <= before, kept, Judgement.DIFFERS)


def _new(partitions: set[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


@scenario(
    Check(
        "assigning/cooperative-withholds",
        "With cooperative-sticky the leader assigns no partition that another member still owns.",
        "KIP-429; [assignors/cooperative-sticky]",
        ("assignor:cooperative-sticky",),
    ),
    Check(
        "cooperative/second-rebalance",
        "A member that has to give partitions up joins again, so that they find their new owner.",
        "KIP-429",
        ("assignor:cooperative-sticky",),
    ),
    Check(
        "assigning/cooperative-completes",
        "After the second rebalance each partition has one owner, and the numbers are equal.",
        "KIP-429; [assignors/cooperative-sticky]",
        ("assignor:cooperative-sticky",),
    ),
    assignor="cooperative-sticky",
)
async def cooperative_sticky(run: Run) -> None:
    """The client leads another member with the assignor cooperative-sticky."""
    await run.begin()
    members = [run.member("new", protocols=["cooperative-sticky"])]
    place = run.talk.now
    led = await lead(run, members, place)
    first = _first_of(run, place)
    owners = {partition: each.member_id for each in first.subscriptions for partition in each.owned}
    taken = [
        str(partition)
        for member, own in first.assignment.items()
        for partition in own
        if owners.get(partition, member) != member
    ]
    states = any(own for own in _owned(first.subscriptions))
    name = "assigning/cooperative-withholds"
    if not states:
        run.verdict(
            name, Judgement.BREAKS, "its subscription does not state the partitions it owns"
        )
    else:
        run.check(name, not taken, f"it assigns {', '.join(taken)}, which have an owner")
    await run.reached(
        lambda: run.joins(first.sync.place),
        "joined again after it gave partitions up",
        run.heartbeat_limit_s,
    )
    run.passes("cooperative/second-rebalance")
    if led.sync is first.sync:
        led = await lead(run, members, first.sync.place)
    sizes = [len(own) for own in led.assignment.values()]
    problem = _problem(led)
    run.check(
        "assigning/cooperative-completes",
        not problem and max(sizes) - min(sizes) <= 1,
        problem or f"it assigns {sizes}",
    )


def _first_of(run: Run, place: int) -> Led:
    """Return the first generation that the client has led after a place."""
    sync = run.talk.of("SyncGroup", after=place)[0]
    answered = [each for each in run.joins() if each.response is not None and not each.error]
    return Led([each for each in answered if each.place < sync.place][-1], sync)


def _owned(subscriptions: Sequence[MemberSubscription]) -> list[tuple[TopicPartition, ...]]:
    return [each.owned for each in subscriptions]
