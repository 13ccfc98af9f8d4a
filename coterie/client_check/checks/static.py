"""Static members: they state their instance, do not leave, come back, and stop when fenced."""

from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

INSTANCE = "check-instance"
# Longer than the five seconds between two commits.
_WATCHED_S = 7.0
_UNDER_WAY_S = 0.3


def _check(name: str, sentence: str, source: str, *needs: str) -> Check:
    return Check(name, sentence, source, ("instance_id", *needs))


@scenario(
    _check(
        "static/states-instance",
        "JoinGroup has the instance id of a static member.",
        "KIP-345; [static-membership/direct-join]",
    ),
    _check(
        "static/states-instance-always",
        "SyncGroup, Heartbeat and OffsetCommit have the instance id, too.",
        "KIP-345; [static-membership/replacement]",
    ),
    _check(
        "static/does-not-leave",
        "A static member does not leave the group when the program ends.",
        "KIP-345; [static-membership/kept-at-join-timeout]",
        "ends",
    ),
    _check(
        "static/comes-back",
        "After a restart a static member joins with an empty member id and the same instance id.",
        "KIP-345; [static-membership/stable-replacement]",
        "ends",
    ),
    instance_id=INSTANCE,
)
async def restarted(run: Run) -> None:
    """A static member ends and is started again."""
    await run.begin()
    await run.read_more()
    await run.reached(
        lambda: run.talk.first("Heartbeat"), "sent a heartbeat", run.heartbeat_limit_s
    )
    joined = run.joins()[-1].request.group_instance_id if run.joins()[-1].version >= 5 else None
    run.check(
        "static/states-instance", joined == INSTANCE, f"JoinGroup has the instance id {joined!r}"
    )
    without = {
        each.api.kafka_name
        for each in run.talk.of("SyncGroup", "Heartbeat", "OffsetCommit")
        if each.request.group_instance_id != INSTANCE
    }
    name = "static/states-instance-always"
    run.check(name, not without, f"{', '.join(sorted(without))} have none")
    stopped = run.talk.now
    await run.stop()
    left = run.talk.first("LeaveGroup", after=stopped)
    run.check("static/does-not-leave", left is None, "it sends LeaveGroup")
    begin = run.talk.now
    await run.start_again()
    join = await run.joined(begin, "joined after its restart", 30.0)
    request = join.request
    run.check(
        "static/comes-back",
        (request.member_id, request.group_instance_id) == ("", INSTANCE),
        f"it joins as '{request.member_id}' with the instance id {request.group_instance_id!r}",
    )


@scenario(
    _check(
        "fenced/stops",
        "After FENCED_INSTANCE_ID (82) a static member does not join again.",
        "KIP-345; [static-membership/replacement]",
    ),
    _check(
        "fenced/does-not-commit",
        "After FENCED_INSTANCE_ID (82) a static member does not commit any more.",
        "KIP-345; [static-membership/replacement]",
        "commits",
    ),
    _check(
        "fenced/stops-heartbeats",
        "After FENCED_INSTANCE_ID (82) a static member sends no heartbeats any more.",
        "KIP-345; [static-membership/replacement]",
    ),
    instance_id=INSTANCE,
    protocols=BOTH,
)
async def fenced(run: Run) -> None:
    """Another program uses the same instance id."""
    await run.begin()
    end = await run.read_more()
    fence = AnswerError(ErrorCode.FENCED_INSTANCE_ID)
    rule = run.rule(fence, run.heartbeat, times=None)
    for api in ("JoinGroup", "SyncGroup", "OffsetCommit", "LeaveGroup"):
        run.rule(fence, api, times=None)
    beat = await run.hit(rule, "sent a heartbeat")
    for partition in range(len(run.partitions())):
        await run.broker.produce(run.values["topic"], partition, [f"{partition}-{end}"])
    await run.sleep(_WATCHED_S)
    joins = run.joins(beat.place)
    # Without its id it would take the place of the other program.
    takes_back = any(not each.request.member_id for each in joins)
    run.check(
        "fenced/stops",
        not joins,
        f"it joins {len(joins)} times more, {'without' if takes_back else 'with'} its member id",
        Judgement.BREAKS if takes_back else Judgement.DIFFERS,
    )
    commits = [
        each
        for each in run.talk.of("OffsetCommit", after=beat.answered_place)
        if each.at_s > beat.answered_s + _UNDER_WAY_S
    ]
    run.check("fenced/does-not-commit", not commits, f"{len(commits)} commits follow")
    beats = [each for each in rule.hits if each.at_s > beat.answered_s + _UNDER_WAY_S]
    run.check(
        "fenced/stops-heartbeats", not beats, f"{len(beats)} heartbeats follow", Judgement.DIFFERS
    )
