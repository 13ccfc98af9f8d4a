"""Subscriptions to a regular expression, which the broker matches with the names of topics."""

import re
from functools import partial

from coterie.assignors.model import TopicPartition
from coterie.client_check.checks.joining import refused_for_good
from coterie.client_check.checks.static import INSTANCE
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, partitions_text, scenario
from coterie.client_check.run import OTHER_TOPIC, TOPIC, Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_LATE_TOPIC = "check-late"
_LATE_PARTITIONS = 2
_PATTERN = "check-(topic|late)"
_OTHER_PATTERN = "check-o.*"
_SOURCE = "KIP-848; [consumer-groups/regex]"
# The broker matches again after ten seconds; the client learns of it with its next heartbeat.
_MATCHED_AGAIN_S = 10.0
_SETTLED_BEATS = 2
# What a client may have under way when its partitions change.
_SETTLED_S = 2.0
_NEEDS = ("regex",)


def _expression(beat: ClientExchange) -> str:
    """Return the regular expression of a heartbeat; "" if it says nothing of one."""
    return getattr(beat.request, "subscribed_topic_regex", None) or ""


def _matches(expression: str, topic: str) -> bool:
    try:
        return re.fullmatch(expression, topic) is not None
    except re.error:
        return False


@scenario(
    Check(
        "patterns/sends-expression",
        "The first heartbeat has the regular expression, and names no topic.",
        _SOURCE,
        _NEEDS,
    ),
    Check(
        "patterns/reads-matches",
        "The client reads the topics that the broker has found, and no others.",
        _SOURCE,
        _NEEDS,
    ),
    Check(
        "patterns/says-it-once",
        "A settled member does not repeat its regular expression.",
        "KIP-848; [consumer-groups/heartbeat-order]",
        _NEEDS,
    ),
    Check(
        "patterns/follows-new-topic",
        "A topic that is created later and matches is read, too.",
        _SOURCE,
        _NEEDS,
    ),
    protocols=(CONSUMER,),
    regex=_PATTERN,
)
async def matched(run: Run) -> None:
    """The program subscribes to a regular expression, and a topic that it matches is created."""
    await run.start()
    join = await run.joined(0, "joined the group")
    said, names = _expression(join), join.request.subscribed_topic_names or []
    right = _matches(said, TOPIC) and not _matches(said, OTHER_TOPIC) and not names
    run.check(
        "patterns/sends-expression",
        right,
        f"regular expression {said!r}, topics {sorted(names)}",
        # A client that matches names itself is served, but not by the broker.
        Judgement.DIFFERS if TOPIC in names else Judgement.BREAKS,
    )
    await run.stable()

    def reads() -> bool:
        return run.fetched() >= run.partitions()

    await run.reached(reads, f"read {partitions_text(run.partitions())}")
    others = run.fetched() - run.partitions()
    run.check("patterns/reads-matches", not others, f"it reads {partitions_text(others)}, too")
    await _judge_repetition(run)
    await _judge_new_topic(run)


async def _judge_repetition(run: Run) -> None:
    """Judge the heartbeats after the client has said what it owns."""
    reported = await run.reached(
        lambda: next((each for each in run.heartbeats() if run.consumer.owned(each)), None),
        "said what it owns",
        run.heartbeat_limit_s,
    )

    def later() -> list[ClientExchange]:
        return run.heartbeats(reported.answered_place)

    await run.until(lambda: len(later()) >= _SETTLED_BEATS, _SETTLED_BEATS * run.heartbeat_limit_s)
    repeated = [each for each in later() if _expression(each)]
    run.check(
        "patterns/says-it-once",
        not repeated,
        f"{len(repeated)} of {len(later())} heartbeats repeat it",
        Judgement.DIFFERS,
    )


async def _judge_new_topic(run: Run) -> None:
    run.say(f"the topic {_LATE_TOPIC} is created")
    await run.broker.create_topic(_LATE_TOPIC, _LATE_PARTITIONS)
    late = run.partitions(_LATE_PARTITIONS, _LATE_TOPIC)
    await run.reached(
        lambda: run.fetched() >= late,
        f"read {partitions_text(late)}",
        _MATCHED_AGAIN_S + 2 * run.heartbeat_limit_s,
    )
    run.passes("patterns/follows-new-topic")


@scenario(
    Check(
        "patterns/keeps-expression-when-fenced",
        "A fenced member joins again with its regular expression.",
        "KIP-848; [consumer-groups/member-epochs]",
        _NEEDS,
    ),
    protocols=(CONSUMER,),
    regex=_PATTERN,
)
async def fenced(run: Run) -> None:
    """A member that subscribes to a regular expression is fenced."""
    await run.begin()
    rule = run.rule(AnswerError(ErrorCode.FENCED_MEMBER_EPOCH), run.heartbeat)
    refused = await run.hit(rule, "sent a heartbeat")
    first, again = run.joins()[0], await run.joined(refused.place, limit_s=run.heartbeat_limit_s)
    run.check(
        run.name,
        _expression(again) == _expression(first)
        and again.request.subscribed_topic_names == first.request.subscribed_topic_names,
        f"it joins with {_expression(again)!r}, before it was {_expression(first)!r}",
    )


@scenario(
    Check(
        "patterns/changes-expression",
        "A static member that comes back with another regular expression reads what that matches.",
        _SOURCE,
        (*_NEEDS, "instance_id", "ends"),
    ),
    protocols=(CONSUMER,),
    regex=_PATTERN,
    instance_id=INSTANCE,
)
async def changed(run: Run) -> None:
    """A static member is started again with another regular expression."""
    await run.begin()
    await run.stop()
    run.values["regex"] = _OTHER_PATTERN
    begin = run.talk.now
    run.say(f"the regular expression is {_OTHER_PATTERN} from now on")
    await run.start_again()
    join = await run.joined(begin)
    said = _expression(join)

    def reads() -> set[TopicPartition]:
        return {each for each in run.fetched(begin) if each.topic == OTHER_TOPIC}

    await run.reached(
        reads, f"read {OTHER_TOPIC}; it has said {said!r}", _MATCHED_AGAIN_S + run.heartbeat_limit_s
    )
    late_s = run.talk.exchanges[-1].at_s
    await run.sleep(_SETTLED_S)
    old = {
        partition
        for each in run.talk.of("Fetch", after=begin)
        if each.at_s > late_s
        for partition in run.positions(each)
        if partition.topic == TOPIC
    }
    run.check(run.name, not old, f"it still reads {partitions_text(old)}")


scenario(
    Check(
        "patterns/accepts-invalid-expression",
        "After INVALID_REGULAR_EXPRESSION (128) the client stops, or tries again slowly.",
        _SOURCE,
        _NEEDS,
    ),
    title="The broker cannot read the regular expression.",
    protocols=(CONSUMER,),
    regex=_PATTERN,
)(partial(refused_for_good, error=ErrorCode.INVALID_REGULAR_EXPRESSION))
