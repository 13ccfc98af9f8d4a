"""Another member joins and leaves: the client gives partitions up, says so, and takes them over."""

from functools import partial

from coterie.assignors.model import TopicPartition
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.members import ScriptedConsumerMember
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, NotReached, partitions_text, scenario
from coterie.client_check.run import Run
from coterie.client_check.script import Action
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError, CloseAfter

# What a client may still have under way when it gets another assignment.
_UNDER_WAY_S = 0.5
_WATCHED_S = 2.0
_LIMIT_S = 30.0


async def _another_joins(run: Run) -> tuple[ScriptedConsumerMember, ClientExchange]:
    """Let another member join; return it, and the client's heartbeat that is told to give up."""
    before = run.talk.now
    other = run.consumer_member()
    await other.heartbeat()

    def told() -> ClientExchange | None:
        count = len(run.partitions())
        given = run.consumer.assignments(before)
        return next((each for each in given if len(run.membership.assigned(each)) < count), None)

    return other, await run.reached(told, "received fewer partitions", _LIMIT_S)


def _report(run: Run, told: ClientExchange) -> ClientExchange | None:
    """Return the first heartbeat after an assignment that says the client owns no more than it."""
    kept = set(run.membership.assigned(told))
    for each in run.heartbeats(told.answered_place):
        owned = run.consumer.owned(each)
        if owned is not None and set(owned) <= kept:
            return each
    return None


async def _reported(run: Run, told: ClientExchange) -> ClientExchange:
    return await run.reached(
        lambda: _report(run, told), "said that it has given partitions up", _LIMIT_S
    )


def _lost(run: Run, told: ClientExchange) -> set[TopicPartition]:
    return run.partitions() - set(run.membership.assigned(told))


@scenario(
    Check(
        "reconciling/reports-what-is-left",
        "A client that shall give partitions up says which ones it still owns.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "reconciling/takes-new-epoch",
        "Then it goes on in the new epoch.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "reconciling/stops-reading-revoked",
        "It does not read a partition after it has said that it does not own it.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "reconciling/keeps-the-rest",
        "It reads on in the partitions that it keeps.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "committing/before-giving-up",
        "It commits what it has read before it says that a partition is given up.",
        "KIP-848; [consumer-groups/late-commit]",
        ("commits",),
    ),
    Check(
        "committing/in-new-epoch",
        "Later commits have the new epoch.",
        "KIP-848; [consumer-groups/commit]",
        ("commits",),
    ),
    Check(
        "reconciling/takes-over",
        "A client that gets partitions says so, and reads them.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "reconciling/starts-at-committed",
        "It starts a new partition at the offset that its former owner has committed.",
        "[offsets/fetch]",
    ),
    protocols=(CONSUMER,),
)
async def handover(run: Run) -> None:
    """Another member joins and leaves again."""
    await run.begin()
    end = await run.read_more()
    other, told = await _another_joins(run)
    report = await _reported(run, told)
    run.passes("reconciling/reports-what-is-left")
    lost, kept = _lost(run, told), set(run.membership.assigned(told))
    _judge_commit(run, report, lost, end)
    epoch = told.response.member_epoch
    await run.reached(
        lambda: any(
            each.request.member_epoch > epoch for each in run.heartbeats(report.answered_place)
        ),
        "sent a heartbeat with the new epoch",
        run.heartbeat_limit_s,
    )
    joins = run.joins(report.place)
    run.check("reconciling/takes-new-epoch", not joins, "it is fenced and joins again")
    await other.heartbeat()
    await run.read_more(kept)
    await run.sleep(_WATCHED_S)
    late = {
        partition
        for each in run.talk.of("Fetch", after=report.place)
        if each.at_s > report.answered_s + _UNDER_WAY_S
        for partition in run.positions(each).keys() & lost
    }
    run.check("reconciling/stops-reading-revoked", not late, f"it reads {partitions_text(late)}")
    again = [
        each
        for each in run.talk.of("Fetch", after=told.place)
        if any(run.positions(each).get(one, end) < end for one in kept)
    ]
    name = "reconciling/keeps-the-rest"
    run.check(name, not again, "it reads records again that it has read", Judgement.DIFFERS)
    await _judge_new_epoch(run, epoch)
    await _take_over(run, other, lost)


def _judge_commit(run: Run, report: ClientExchange, lost: set[TopicPartition], end: int) -> None:
    committed = run.all_committed(before=report.place)
    behind = {each for each in lost if committed.get(each, -1) < end}
    run.check(
        "committing/before-giving-up",
        not behind,
        f"the records end at {end}, committed is"
        f" {sorted(committed.get(each, -1) for each in lost)}",
        Judgement.DIFFERS,
    )


async def _judge_new_epoch(run: Run, epoch: int) -> None:
    """Judge the first commit after the client has read in its new epoch."""
    begin = run.talk.now
    name = "committing/in-new-epoch"
    commit = await run.until(lambda: run.talk.first("OffsetCommit", after=begin), 10.0)
    if commit is None:
        commit = run.talk.last("OffsetCommit")
    used = -1 if commit is None else commit.request.generation_id_or_member_epoch
    run.check(
        name,
        used > epoch,
        f"the newest commit has epoch {used}, the epoch before was {epoch}",
        Judgement.DIFFERS,
    )


async def _take_over(run: Run, other: ScriptedConsumerMember, lost: set[TopicPartition]) -> None:
    """Let the other member commit in the middle of what it has, and leave."""
    offset = 1
    begin = run.talk.now
    await other.commit(dict.fromkeys(sorted(lost), offset))
    await other.leave()

    def taken() -> bool:
        return any(set(run.consumer.owned(each) or ()) >= lost for each in run.heartbeats(begin))

    await run.reached(taken, "said that it owns the partitions of the other member", _LIMIT_S)
    firsts: dict[TopicPartition, int] = {}

    def reads() -> bool:
        for each in run.talk.of("Fetch", after=begin):
            for partition, position in run.positions(each).items():
                if partition in lost:
                    firsts.setdefault(partition, position)
        return firsts.keys() >= lost

    await run.reached(reads, "read the partitions of the other member", _LIMIT_S)
    run.passes("reconciling/takes-over")
    run.check(
        "reconciling/starts-at-committed",
        set(firsts.values()) == {offset},
        f"committed is {offset}, it starts at {sorted(firsts.values())}",
    )


@scenario(
    Check(
        "reconciling/waits-for-partitions",
        "A client that gets no partitions yet goes on with its heartbeats, and reads nothing.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "reconciling/reads-assigned",
        "It reads the partitions that others have given up for it, and no others.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    protocols=(CONSUMER,),
)
async def second_member(run: Run) -> None:
    """Another member has all partitions when the client joins."""
    other = run.consumer_member()
    await other.heartbeat()
    await run.start()
    join = await run.reached(
        lambda: next((each for each in run.consumer.assignments() if not each.error), None),
        "joined the group",
        _LIMIT_S,
    )
    await run.sleep(_WATCHED_S)
    beats, early = run.heartbeats(join.answered_place), run.fetched()
    run.check(
        "reconciling/waits-for-partitions",
        beats and not early,
        f"it reads {partitions_text(early)}" if early else "no heartbeat follows",
    )
    # It learns what it shall give up, and says that it has.
    await other.heartbeat()
    await other.heartbeat()
    own = run.partitions() - other.owned

    def reads() -> bool:
        return run.fetched() >= own

    await run.reached(reads, f"read {partitions_text(own)}", _LIMIT_S)
    await run.sleep(_WATCHED_S)
    others = run.fetched() - own
    run.check("reconciling/reads-assigned", not others, f"it reads {partitions_text(others)}, too")


@scenario(
    Check(
        "reconciling/learns-after-lost-answer",
        "When an answer is lost the client gets to know what it said.",
        "KIP-848: a heartbeat that says everything is answered with the assignment;"
        " [consumer-groups/heartbeat-order]",
    ),
    protocols=(CONSUMER,),
)
async def lost_assignment(run: Run) -> None:
    """The answer that takes partitions from the client is lost."""
    await _settled(run)
    rule = run.rule(CloseAfter(), run.heartbeat)
    other = run.consumer_member()
    await other.heartbeat()
    lost = await run.hit(rule, "sent a heartbeat")

    def told() -> ClientExchange | None:
        return next(iter(run.consumer.assignments(lost.place)), None)

    given = await run.reached(told, "asked for its assignment again", _LIMIT_S)
    await _reported(run, given)
    run.passes(run.name)


async def _settled(run: Run) -> None:
    """Start the program, and wait until the client has said that it owns every partition."""
    await run.begin()
    await run.read_more()
    await run.until(
        lambda: any(run.consumer.owned(each) for each in run.heartbeats()), run.heartbeat_limit_s
    )


async def _report_fails(run: Run, action: Action) -> None:
    """Let the heartbeat fail that gives partitions up; the client must say it again."""
    await _settled(run)
    rule = run.rule(action, run.heartbeat, with_field="topic_partitions")
    other, told = await _another_joins(run)
    report = await run.hit(rule, "said which partitions it owns", Judgement.BREAKS)
    if report.place < told.answered_place:
        raise NotReached("it said what it owns before it was asked to", Judgement.SKIPPED)
    epoch = told.response.member_epoch

    def is_back() -> bool:
        return any(
            each.response is not None and each.response.member_epoch > epoch
            for each in run.heartbeats(report.place)
        )

    await run.reached(is_back, "sent a heartbeat in the new epoch", _LIMIT_S)
    await other.heartbeat()
    joins = run.joins(report.place)
    run.check(run.name, not joins, "it is fenced and joins again", Judgement.DIFFERS)


scenario(
    Check(
        "reconciling/repeats-lost-report",
        "When the answer to what it owns is lost the client says it again, and is not fenced.",
        "KIP-848; [consumer-groups/member-epochs]",
    ),
    title="The answer to the heartbeat that gives partitions up is lost.",
    protocols=(CONSUMER,),
)(partial(_report_fails, action=CloseAfter()))
scenario(
    Check(
        "reconciling/repeats-refused-report",
        "After COORDINATOR_LOAD_IN_PROGRESS (14) the client says again what it owns.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    title="The heartbeat that gives partitions up is refused.",
    protocols=(CONSUMER,),
)(partial(_report_fails, action=AnswerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
