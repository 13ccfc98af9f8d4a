"""One member alone in the consumer protocol: the first scenario."""

from itertools import pairwise

from coterie.client_check.checks.single_member import (
    CONNECTING,
    ENDS,
    POSITIONS,
    READING,
    Alone,
    judge_connecting,
    judge_end,
    judge_reading,
    play_alone,
)
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import TOPIC, Run

# A heartbeat may be late by this part of the interval and this time; more of it differs.
LATE_PART = 1.0
LATE_S = 0.5
# With Kafka's defaults nine intervals are a session.
_INTERVALS_A_SESSION = 9
# Heartbeats that come before half of the interval has passed, and say nothing, are too many.
_EARLY_PART = 0.5
_EARLY_ALLOWED = 2


@scenario(
    *CONNECTING,
    Check(
        "joining/makes-its-id",
        "The client makes its member id, and its first heartbeat has it.",
        "KIP-1082; [consumer-groups/order-of-checks]",
    ),
    Check(
        "joining/sends-subscription",
        "The first heartbeat names the subscribed topics, or a regular expression.",
        "KIP-848; [consumer-groups/heartbeat-order]",
    ),
    *POSITIONS,
    Check(
        "heartbeats/in-time",
        "Heartbeats keep to the interval that the broker states.",
        "KIP-848; [consumer-groups/timers]",
    ),
    Check(
        "heartbeats/not-too-often",
        "A heartbeat that has nothing to say waits until the interval has passed.",
        "KIP-848",
    ),
    Check(
        "heartbeats/identity",
        "Heartbeats have the epoch of the newest answer, and always the same member id.",
        "KIP-848; [consumer-groups/member-epochs]",
    ),
    Check(
        "heartbeats/says-only-changes",
        "What has not changed is not repeated: heartbeats of a settled member have id and epoch.",
        "KIP-848; [consumer-groups/heartbeat-order]",
    ),
    Check(
        "reconciling/reports-first-partitions",
        "After its first assignment the client says that it owns these partitions.",
        "KIP-848; [consumer-groups/reconciliation]",
    ),
    Check(
        "committing/identity",
        "Commits have the member id and the member epoch.",
        "KIP-848; [consumer-groups/commit]",
        ("commits",),
    ),
    *READING,
    Check(
        "closing/leaves",
        "At its end a dynamic member sends a heartbeat with epoch -1.",
        "KIP-848; [consumer-groups/leave]",
        ("ends",),
    ),
    ENDS,
    title="A member alone reads a topic and ends",
    protocols=(CONSUMER,),
)
async def alone(run: Run) -> None:
    """A member alone reads a topic and ends."""
    story = await play_alone(run)
    # A later heartbeat may have been answered with the same assignment.
    first = next(each for each in run.consumer.assignments() if run.membership.assigned(each))
    story = story._replace(given=first)
    judge_connecting(run)
    _judge_join(run)
    judge_reading(run, story)
    _judge_times(run, story)
    _judge_contents(run, story)
    left = [each for each in run.membership.leaves(story.stopped) if each.request.instance_id]
    if left:
        run.skip("closing/leaves", "it is a static member by itself")
    judge_end(run, story, "a heartbeat of epoch -1")


def _judge_join(run: Run) -> None:
    request = run.joins()[0].request
    run.check(
        "joining/makes-its-id",
        request.member_id,
        f"ConsumerGroupHeartbeat v{run.joins()[0].version} has none, so the broker makes it",
        Judgement.DIFFERS,
    )
    names = request.subscribed_topic_names or []
    regex = getattr(request, "subscribed_topic_regex", None)
    run.check(
        "joining/sends-subscription",
        set(names) == {TOPIC} or (not names and regex),
        f"topics {sorted(names)}, regular expression {regex!r}",
    )


def _settled_heartbeats(run: Run, story: Alone) -> list[ClientExchange]:
    """Return the heartbeats between the first assignment and the end."""
    return run.talk.of(run.heartbeat, after=story.given.place, before=story.stopped)


def _judge_times(run: Run, story: Alone) -> None:
    beats = [story.given, *_settled_heartbeats(run, story)]
    gaps = [later.at_s - one.at_s for one, later in pairwise(beats)]
    interval_s = story.given.response.heartbeat_interval_ms / 1000
    longest_s = max(gaps, default=float("inf"))
    run.check(
        "heartbeats/in-time",
        longest_s <= interval_s * (1 + LATE_PART) + LATE_S,
        f"{longest_s:.1f} s pass between heartbeats, the interval is {interval_s:g} s",
        Judgement.BREAKS if longest_s > interval_s * _INTERVALS_A_SESSION else Judgement.DIFFERS,
    )
    early = [
        later
        for one, later in pairwise(beats)
        if later.at_s - one.at_s < interval_s * _EARLY_PART and says_nothing(later)
    ]
    run.check(
        "heartbeats/not-too-often",
        len(early) <= _EARLY_ALLOWED,
        f"{len(early)} of {len(beats)} heartbeats come early and say nothing",
        Judgement.DIFFERS,
    )


def says_nothing(beat: ClientExchange) -> bool:
    """Whether a heartbeat has nothing but the member's id and epoch."""
    request = beat.request
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.rebalance_timeout_ms < 0
    )


def _judge_contents(run: Run, story: Alone) -> None:
    beats = _settled_heartbeats(run, story)
    wrong = _wrong_identities(run)
    first = wrong[0] if wrong else story.given
    run.check(
        "heartbeats/identity",
        not wrong,
        f"{len(wrong)} heartbeats have another, such as epoch {first.request.member_epoch} of"
        f" {first.request.member_id}",
    )
    reported = [each for each in beats if run.consumer.owned(each) is not None]
    wanted = set(run.membership.assigned(story.given))
    said = next((each for each in reported if set(run.consumer.owned(each) or ()) == wanted), None)
    run.check(
        "reconciling/reports-first-partitions",
        said,
        f"{len(reported)} of {len(beats)} heartbeats name partitions",
        Judgement.DIFFERS,
    )
    since = story.given.place if said is None else said.place
    repeated = [each for each in beats if each.place > since and not says_nothing(each)]
    run.check(
        "heartbeats/says-only-changes",
        not repeated,
        f"{len(repeated)} of {len(beats)} heartbeats repeat what the broker knows",
        Judgement.DIFFERS,
    )


def _wrong_identities(run: Run) -> list[ClientExchange]:
    """Return the heartbeats without the newest epoch and the first id; leaves are none of them."""
    beats = run.heartbeats()
    wrong = []
    for each in beats:
        answers = [
            one for one in beats if one.answered_place < each.place and one.response.member_epoch
        ]
        if not answers or each.request.member_epoch < 0:
            continue
        newest = max(answers, key=lambda one: one.answered_place).response
        if (each.request.member_epoch, each.request.member_id) != (
            newest.member_epoch,
            newest.member_id,
        ):
            wrong.append(each)
    return wrong
