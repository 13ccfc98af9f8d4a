"""The client follows with cooperative-sticky: it keeps what it is not asked to give up."""

import asyncio

from coterie.assignors.model import TopicPartition
from coterie.client_check.checks.following import leader_of, partitions
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.members import ScriptedMember
from coterie.client_check.model import Check, Judgement, NotReached, partitions_text, scenario
from coterie.client_check.run import Run
from coterie.protocol.messages.consumer_protocol import decode_subscription

_NAME = "cooperative-sticky"
_HELD_S = 3.0
_HANDLED_S = 0.5


def _check(name: str, sentence: str, *needs: str) -> Check:
    return Check(f"cooperative/{name}", sentence, "KIP-429", (f"assignor:{_NAME}", *needs))


@scenario(
    _check("states-owned", "JoinGroup states the partitions that the member owns."),
    _check("reads-during-rebalance", "The member reads its partitions on during a rebalance."),
    _check(
        "commits-revoked",
        "The member commits what it has read of a partition before it joins without it.",
        "commits",
    ),
    _check(
        "rejoins-after-revoking",
        "The member joins again when it has given a partition up, and states the others.",
    ),
    _check("keeps-its-place", "The member reads no record of a kept partition again."),
    assignor=_NAME,
)
async def cooperative_follower(run: Run) -> None:
    """A leader takes one of three partitions away."""
    leader = await leader_of(run, _NAME)
    await _joined(run, leader)
    client_id = leader.others()[0]
    await leader.sync({client_id: partitions(0, 1, 2), leader.member_id: partitions(3)})
    await run.reached(lambda: run.fetched() >= set(partitions(0, 1, 2)), "fetched its partitions")
    end = await run.read_more(partitions(0, 1, 2))
    # What it has read is also handled then.
    await run.sleep(_HANDLED_S)
    join = await _rebalance_held(run, leader)
    place = run.talk.now
    await leader.sync({client_id: partitions(0, 1), leader.member_id: partitions(3)})
    again = await run.joined(
        join.place, "joined again after it gave a partition up", run.heartbeat_limit_s
    )
    owned = _stated(again)
    run.check(
        "cooperative/rejoins-after-revoking",
        owned == set(partitions(0, 1)),
        f"it states {partitions_text(owned)}",
    )
    committed = run.all_committed(before=again.place)
    run.check(
        "cooperative/commits-revoked",
        committed.get(partitions(2)[0], -1) >= end,
        f"it had read to {end}, committed is {committed.get(partitions(2)[0])}",
        Judgement.DIFFERS,
    )
    await _joined(run, leader)
    await leader.sync(
        {client_id: partitions(0, 1), leader.member_id: partitions(3)},
    )
    await run.reached(
        lambda: run.fetch_of(partitions(0)[0], run.talk.of("SyncGroup")[-1].answered_place),
        "read on after the rebalance",
    )
    kept = [
        offset
        for each in run.talk.of("Fetch", after=place)
        for partition, offset in run.positions(each).items()
        if partition in partitions(0, 1)
    ]
    run.check(
        "cooperative/keeps-its-place",
        min(kept) >= end,
        f"it had read to {end}, and reads from {min(kept)}",
        Judgement.DIFFERS,
    )


async def _joined(run: Run, leader: ScriptedMember) -> None:
    """Let the leader join and wait for the client."""
    join = asyncio.ensure_future(leader.join())
    try:
        limit_s = max(30.0, run.heartbeat_limit_s)
        await run.reached(join.done, "joined the next generation", limit_s)
    finally:
        join.cancel()
    if not leader.leads:
        raise NotReached("the coordinator has made the client the leader", Judgement.SKIPPED)


async def _rebalance_held(run: Run, leader: ScriptedMember) -> ClientExchange:
    """Begin a rebalance, and let the client wait for the leader; return its JoinGroup."""
    before = run.talk.now
    run.broker.begin_rebalance(run.group)
    join = await run.joined(before, "joined again", run.heartbeat_limit_s)
    owned = _stated(join)
    run.check(
        "cooperative/states-owned",
        owned == set(partitions(0, 1, 2)),
        f"it owns {partitions_text(set(partitions(0, 1, 2)))}, and states {partitions_text(owned)}",
    )
    await run.sleep(_HELD_S)
    read = run.fetched(after=join.place)
    run.check(
        "cooperative/reads-during-rebalance",
        read == set(partitions(0, 1, 2)),
        f"it reads {partitions_text(read)}",
        Judgement.DIFFERS,
    )
    await _joined(run, leader)
    return join


def _stated(join: ClientExchange) -> set[TopicPartition]:
    """Return the partitions that the subscription in a JoinGroup states as owned."""
    for each in join.request.protocols:
        owned = decode_subscription(each.metadata).owned_partitions
        return {TopicPartition(one.topic, index) for one in owned for index in one.partitions}
    return set()
