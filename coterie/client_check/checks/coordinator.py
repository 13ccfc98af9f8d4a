"""The coordinator moves, is not available, or is away for some seconds."""

from coterie.client_check.broker import OTHER_NODE
from coterie.client_check.checks.joining import remove_ghost
from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_AWAY_S = 3.0


@scenario(
    Check(
        "coordinator/looks-up-when-moved",
        "After NOT_COORDINATOR (16) to a heartbeat the client asks who coordinates the group.",
        "[coordinator/availability]",
    ),
    Check(
        "coordinator/follows-to-another-node",
        "The client sends heartbeats to the node that is the coordinator now.",
        "[coordinator/find-coordinator]",
    ),
    Check(
        "coordinator/keeps-id-when-moved",
        "A member keeps its id when its group has another coordinator.",
        "[coordinator/restored-groups]",
    ),
    Check(
        "coordinator/keeps-generation-when-moved",
        "A member does not join again only because its group has another coordinator.",
        "[coordinator/restored-groups]; AbstractCoordinator of Kafka's consumer",
    ),
    protocols=BOTH,
)
async def moved(run: Run) -> None:
    """The group gets another coordinator."""
    await run.begin()
    _, member_id = run.identity()
    begin = run.talk.now
    run.say("node 2 is the coordinator now")
    run.broker.coordinator_node = OTHER_NODE
    await run.reached(
        lambda: run.talk.first("FindCoordinator", after=begin),
        "asked for the coordinator",
        run.heartbeat_limit_s,
    )
    run.passes("coordinator/looks-up-when-moved")

    def at_new_node() -> bool:
        beats = run.heartbeats(begin)
        return any(each.node == OTHER_NODE and not each.error for each in beats)

    joined = await run.until(lambda: at_new_node() or run.joins(begin), run.heartbeat_limit_s)
    if joined and run.joins(begin):
        await remove_ghost(run, member_id, begin)
    await run.reached(at_new_node, "sent a heartbeat to node 2", run.heartbeat_limit_s)
    run.passes("coordinator/follows-to-another-node")
    ids = {each.request.member_id for each in run.joins(begin)}
    name = "coordinator/keeps-id-when-moved"
    run.check(name, ids <= {member_id}, f"it joins as {sorted(ids)}")
    name = "coordinator/keeps-generation-when-moved"
    run.check(name, not ids, "it joins again", Judgement.DIFFERS)


@scenario(
    Check(
        "coordinator/looks-up-when-not-available",
        "After COORDINATOR_NOT_AVAILABLE (15) to a heartbeat the client asks for the coordinator.",
        "[coordinator/availability]",
    ),
    protocols=BOTH,
)
async def not_available(run: Run) -> None:
    """The coordinator is not available when the client sends a heartbeat."""
    await run.begin()
    rule = run.rule(AnswerError(ErrorCode.COORDINATOR_NOT_AVAILABLE), run.heartbeat)
    beat = await run.hit(rule, "sent a heartbeat")
    found = await run.until(
        lambda: run.talk.first("FindCoordinator", after=beat.place), run.heartbeat_limit_s
    )
    run.check(
        run.name,
        found,
        "it goes on without FindCoordinator",
        Judgement.DIFFERS,
    )


@scenario(
    Check(
        "coordinator/asks-until-found",
        "FindCoordinator is sent again until it names a coordinator.",
        "[coordinator/find-coordinator]",
    ),
    protocols=BOTH,
)
async def not_found(run: Run) -> None:
    """FindCoordinator has no answer three times."""
    error = AnswerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    run.rule(error, "FindCoordinator", times=3)
    await run.begin()
    run.passes(run.name)


@scenario(
    Check(
        "coordinator/comes-back-after-outage",
        "After three seconds without a broker the client reads and sends heartbeats again.",
        "reconnect.backoff.ms of Kafka's clients",
    ),
    Check(
        "coordinator/keeps-id-after-outage",
        "A member keeps its id when the broker was away for less than its session.",
        "[sessions/session-timeout]",
    ),
    protocols=BOTH,
)
async def outage(run: Run) -> None:
    """The broker is away for three seconds."""
    await run.begin()
    _, member_id = run.identity()
    begin = run.talk.now
    run.say(f"every connection is closed, and none is accepted for {_AWAY_S:g} s")
    run.broker.is_down = True
    run.broker.close_connections()
    await run.sleep(_AWAY_S)
    run.say("connections are accepted again")
    run.broker.is_down = False
    joined = await run.until(
        lambda: run.joins(begin) or run.talk.first(run.heartbeat, after=begin), 40.0
    )
    if run.program.exit_code is not None:
        # The program knows, and may be started again; Kafka's own client waits.
        errors = run.program.last_errors()
        reason = f"the program ended with {run.program.exit_code}: {''.join(errors[-1:])}"
        raise NotReached(reason, Judgement.DIFFERS)
    if joined and run.joins(begin):
        await remove_ghost(run, member_id, begin)
    await run.reached(
        lambda: run.talk.first(run.heartbeat, after=begin), "sent a heartbeat again", 40.0
    )
    await run.read_more()
    run.passes("coordinator/comes-back-after-outage")
    ids = {each.request.member_id for each in run.joins(begin)}
    run.check(
        "coordinator/keeps-id-after-outage",
        ids <= {member_id},
        f"it joins as {sorted(ids)}",
        Judgement.DIFFERS,
    )
