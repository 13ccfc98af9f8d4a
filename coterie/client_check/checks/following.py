"""The client follows: a scripted leader gives it partitions and takes them away."""

import asyncio
from collections.abc import Mapping

from coterie.assignors.model import TopicPartition
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.members import ScriptedMember
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import TOPIC, Run
from coterie.conversation.subscriptions import encoded_assignment

# What a client may still have under way when it gets its partitions.
_UNDER_WAY_S = 0.5
_WATCHED_S = 2.0
_COMMITTED = 3
_NEWER_VERSION = (9).to_bytes(2, "big")
_LATER_FIELDS = b"later"


def partitions(*indexes: int) -> tuple[TopicPartition, ...]:
    """Return partitions of the topic."""
    return tuple(TopicPartition(TOPIC, index) for index in indexes)


async def leader_of(run: Run, *protocols: str) -> ScriptedMember:
    """Let a scripted member found the group, start the program and wait until it joins.

    Returns:
        The member, which leads the group and has to join again.
    """
    leader = run.member("leader", protocols=protocols)
    await leader.join()
    await leader.sync({leader.member_id: run.partitions()})
    await run.start()
    await run.reached(lambda: _delayed(run), "joined the group", 30.0)
    return leader


def _delayed(run: Run) -> ClientExchange | None:
    """Return a JoinGroup of the client that waits for the others."""
    waiting = [each for each in run.joins() if each.response is None]
    return waiting[-1] if waiting and run.talk.elapsed_s - waiting[-1].at_s > 0.1 else None


async def give(
    run: Run,
    leader: ScriptedMember,
    own: tuple[TopicPartition, ...],
    kept: tuple[TopicPartition, ...] = (),
    raw: Mapping[str, bytes] | None = None,
) -> ClientExchange:
    """Let the leader begin a generation in which the client gets partitions.

    Args:
        run: the run.
        leader: the scripted leader.
        own: the client's partitions.
        kept: the leader's.
        raw: assignments as bytes, by member id.

    Returns:
        The client's SyncGroup.
    """
    before = run.talk.now
    join = asyncio.ensure_future(leader.join())
    try:
        await run.reached(join.done, "joined the next generation", max(30.0, run.heartbeat_limit_s))
    finally:
        join.cancel()
    if not leader.leads:
        raise NotReached("the coordinator has made the client the leader", Judgement.SKIPPED)
    others = leader.others()
    if len(others) != 1:
        raise NotReached(f"{len(others)} members besides the leader, not the client alone")
    assignment = {others[0]: own, leader.member_id: kept}
    await leader.sync(assignment, raw)

    def synced() -> ClientExchange | None:
        later = run.talk.of("SyncGroup", after=before)
        return next((each for each in reversed(later) if each.response and not each.error), None)

    return await run.reached(synced, "received its partitions")


def fetched_late(run: Run, sync: ClientExchange) -> set[TopicPartition]:
    """Return what the client has fetched in a generation, without what was under way."""
    found: set[TopicPartition] = set()
    for each in run.talk.of("Fetch", after=sync.answered_place):
        if each.at_s > sync.answered_s + _UNDER_WAY_S:
            found |= run.positions(each).keys()
    return found


def eager(run: Run) -> list[str]:
    """Return the assignors that the client offers with which it gives everything up first.

    Raises:
        NotReached: it offers none.
    """
    if "assignor" in run.profile.places:
        return ["range"]
    found = [each for each in run.profile.protocols if "cooperative" not in each]
    if not found:
        offered = ", ".join(run.profile.protocols)
        raise NotReached(f"the client offers only {offered}", Judgement.SKIPPED)
    return found


@scenario(
    Check(
        "following/reads-assigned",
        "A follower reads the partitions that the leader gave it, and no others.",
        "[syncing/leader-assignment]",
    ),
    Check(
        "following/stops-reading-revoked",
        "A follower does not read a partition that it has lost.",
        "[syncing/leader-assignment]",
    ),
    Check(
        "following/starts-at-committed",
        "A follower starts a new partition at the offset that its former owner has committed.",
        "[offsets/fetch]",
    ),
    Check(
        "following/keeps-its-place",
        "A follower that keeps a partition reads no record of it again.",
        "[offsets/fetch]",
        ("commits",),
    ),
    Check(
        "committing/before-giving-up",
        "A follower commits what it has read of a partition before another member gets it.",
        "KIP-62, ConsumerCoordinator.onJoinPrepare; [offsets/commit-validation]",
        ("commits",),
    ),
    Check(
        "following/without-partitions",
        "A follower without partitions reads nothing and goes on with heartbeats.",
        "[syncing/leader-assignment]",
    ),
    Check(
        "following/newer-assignment",
        "A follower reads an assignment of a newer version as the newest that it knows.",
        "[consumer-protocol/protocol-type]",
    ),
)
async def follower(run: Run) -> None:
    """A leader gives the client partitions, others, none, and again some."""
    protocols = eager(run)
    await run.member("before").commit(dict.fromkeys(partitions(3), _COMMITTED))
    leader = await leader_of(run, *protocols)
    sync = await give(run, leader, partitions(0, 1, 2), partitions(3))
    await _reads_exactly(run, "following/reads-assigned", sync, partitions(0, 1, 2))
    end = await run.read_more(partitions(0, 1, 2))

    await _give_and_take(run, leader, end)

    sync = await give(run, leader, (), partitions(0, 1, 2, 3))
    beat = await run.until(
        lambda: run.talk.first("Heartbeat", after=sync.answered_place), run.heartbeat_limit_s
    )
    await run.sleep(_WATCHED_S)
    read = fetched_late(run, sync)
    run.check(
        "following/without-partitions",
        beat and not read,
        f"it reads {', '.join(map(str, sorted(read)))}" if read else "it sends no heartbeat",
    )

    client_id = run.identity()[1]
    data = _NEWER_VERSION + encoded_assignment(partitions(1), 0)[2:] + _LATER_FIELDS
    sync = await give(run, leader, (), partitions(0, 2, 3), {client_id: data})
    read_it = await run.until(lambda: fetched_late(run, sync) == set(partitions(1)))
    name = "following/newer-assignment"
    run.check(name, read_it, "it does not read the partition", Judgement.DIFFERS)


async def _give_and_take(run: Run, leader: ScriptedMember, end: int) -> None:
    """Take partitions 0 and 1 from the client, and give it 3; judge what it does."""
    before = run.talk.now
    sync = await give(run, leader, partitions(2, 3), partitions(0, 1))
    join = next(each for each in reversed(run.joins()) if each.place < sync.place)
    committed = run.all_committed(before=join.place)
    behind = [each for each in partitions(0, 1) if committed.get(each, -1) < end]
    run.check(
        "committing/before-giving-up",
        not behind,
        f"it had read to {end}; committed before JoinGroup is"
        f" {[committed.get(each) for each in partitions(0, 1)]}",
        Judgement.DIFFERS,
    )
    fetch = await run.reached(
        lambda: run.fetch_of(partitions(3)[0], sync.answered_place), "fetched its new partition"
    )
    await run.sleep(_WATCHED_S)
    read = fetched_late(run, sync)
    run.check(
        "following/stops-reading-revoked",
        not read & set(partitions(0, 1)),
        f"it reads {', '.join(map(str, sorted(read)))}",
    )
    position = run.positions(fetch)[partitions(3)[0]]
    run.check(
        "following/starts-at-committed",
        position == _COMMITTED,
        f"committed is {_COMMITTED}, it starts at {position}",
    )
    kept = [
        run.positions(each)[partitions(2)[0]]
        for each in run.talk.of("Fetch", after=before)
        if partitions(2)[0] in run.positions(each)
    ]
    run.check(
        "following/keeps-its-place",
        all(position >= end for position in kept),
        f"it had read to {end}, and reads from {min(kept, default=-1)}",
        Judgement.DIFFERS,
    )


async def _reads_exactly(
    run: Run, name: str, sync: ClientExchange, own: tuple[TopicPartition, ...]
) -> None:
    await run.reached(
        lambda: run.fetched(sync.answered_place) >= set(own), "fetched all of its partitions", 20.0
    )
    await run.sleep(_UNDER_WAY_S)
    read = run.fetched(sync.answered_place)
    run.check(name, read == set(own), f"it reads {', '.join(map(str, sorted(read)))}")
