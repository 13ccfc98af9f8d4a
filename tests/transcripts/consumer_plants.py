"""Bugs of consumer groups, each with the transcript that finds it.

A text is replaced where one condition on what a loop has found is wrong.
"""

from typing import Any

from coterie.coordinator.groups.consumer.regexes import resolved
from tests.faults import Function, Of, answers, calling, given, where
from tests.planting import Plant

_GROUPS = "coterie.coordinator.groups.consumer"
_RECORDED = "coterie.coordinator.groups.recorded"


def _about_the_present_one(ask: Function) -> Function:
    """Ask with what is resolved now in place of what was resolved before the request."""

    def run(step: Any, _: Any, **names: Any) -> None:
        ask(step, resolved(step.group), **names)

    return run


CONSUMER_PLANTS: tuple[tuple[Plant, str], ...] = (
    (
        Plant(
            "a member that gives partitions up is at the next epoch already",
            f"{_GROUPS}.reconciliation:_next",
            fault=given(epoch=Of("group.target_epoch")),
        ),
        "consumer_groups/two_members_become_three",
    ),
    (
        Plant(
            "partitions that others own are assigned",
            f"{_GROUPS}.reconciliation:_next",
            fault=given({"group.owners": {}}),
        ),
        "consumer_groups/joiner_without_an_interval",
    ),
    (
        Plant(
            "the assignment interval does not count",
            f"{_GROUPS}.target:update_target",
            fault=calling(f"{_RECORDED}.group:RecordedGroup.target_ms", answers(0)),
        ),
        "consumer_groups/joiner_within_the_assignment_interval",
    ),
    (
        Plant(
            "a lost answer is not forgiven",
            f"{_GROUPS}.identity:_owns_assigned",
            fault=answers(value=False),
        ),
        "consumer_groups/epoch_before_the_present_one",
    ),
    (
        Plant(
            "a resolution does not wait for ten seconds after the last one",
            f"{_GROUPS}.regexes:ask_for_resolution",
            fault=where(MIN_REFRESH_MS=-1),
        ),
        "consumer_groups/second_regex_within_ten_seconds",
    ),
    (
        Plant(
            "the result of a replaced regular expression counts no more",
            f"{_GROUPS}.heartbeat:_beat",
            fault=calling(f"{_GROUPS}.regexes:ask_for_resolution", _about_the_present_one),
        ),
        "consumer_groups/another_regex",
    ),
    (
        Plant(
            "a change of any topic counts",
            "coterie.coordinator.groups.epochs:may_have_other_topics",
            fault=answers(value=True),
        ),
        "consumer_groups/other_topics_raise_nothing",
    ),
    (
        Plant(
            "a change of topics does not count",
            "coterie.coordinator.groups.epochs:may_have_other_topics",
            fault=answers(value=False),
        ),
        "consumer_groups/topic_grows",
    ),
    (
        Plant(
            "late commits are accepted whatever they name",
            f"{_RECORDED}.committing:CommittingGroup._may_commit_late",
            fault=answers(value=True),
        ),
        "consumer_groups/late_commit",
    ),
    (
        Plant(
            "a refused heartbeat does not take its records back",
            "coterie.coordinator.groups.tentative_step:TentativeStep.undo",
            fault=answers(value=None),
        ),
        "consumer_groups/records_of_other_brokers",
    ),
    (
        Plant(
            "two owners of a partition both own it",
            f"{_GROUPS}.group_state:ConsumerGroupState._occupy",
            "if other is None or other.epoch <= member.epoch or member.epoch < 0:",
            "if other is None:",
        ),
        "consumer_groups/records_of_other_brokers",
    ),
    (
        Plant(
            "a downgraded group is always Stable",
            f"{_GROUPS}.classic_join:_join",
            fault=calling(f"{_GROUPS}.downgrade:begin_classic", given(rebalances=False)),
        ),
        "consumer_groups/replacement_with_a_stale_target",
    ),
    (
        Plant(
            "a member that is away loses its partitions to others",
            f"{_GROUPS}.identity:find_member",
            fault=where(STATIC_LEAVE_EPOCH=None),
        ),
        "consumer_groups/static_member_is_replaced",
    ),
    (
        Plant(
            "a removed member leaves its resolved regular expression behind",
            f"{_GROUPS}.subscription:drop_regexes",
            fault=answers(value=None),
        ),
        "consumer_groups/regex_that_is_resolved_already",
    ),
)
