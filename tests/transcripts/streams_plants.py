"""Bugs of streams groups, each with the transcript that finds it."""

from tests.faults import answers, calling, does_nothing, given
from tests.planting import Plant

_GROUPS = "coterie.coordinator.groups.streams"

STREAMS_PLANTS: tuple[tuple[Plant, str], ...] = (
    (
        Plant(
            "the initial rebalance delay is skipped",
            f"{_GROUPS}.target:update_target",
            "group.delay_ends_ms or (is_first and settings.initial_rebalance_delay_ms > 0)",
            "False",
        ),
        "streams_groups/initial_delay",
    ),
    (
        Plant(
            "the end of the initial rebalance delay computes nothing",
            f"{_GROUPS}.target:end_delay",
            fault=does_nothing,
        ),
        "streams_groups/delay_of_a_group_that_was_left",
    ),
    (
        Plant(
            "the assignment interval is not kept",
            f"{_GROUPS}.target:update_target",
            fault=calling(f"{_GROUPS}.target:is_target_due", answers(value=True)),
        ),
        "streams_groups/assignment_interval",
    ),
    (
        Plant(
            "a task is assigned while its owner has it",
            f"{_GROUPS}.reconciliation:_next",
            "return holders.is_active(subtopology, index) or holders.has_copy(",
            "return holders.has_copy(",
        ),
        "streams_groups/two_members",
    ),
    (
        Plant(
            "tasks are given up without a report",
            f"{_GROUPS}.reconciliation:reconcile",
            "tasks is None or tasks.has_any_of(member.pending)",
            "tasks is not None and tasks.has_any_of(member.pending)",
        ),
        "streams_groups/two_members",
    ),
    (
        Plant(
            "a process has two copies of a task for a while",
            f"{_GROUPS}.reconciliation:_next",
            fault=calling(f"{_GROUPS}.holders:TaskHolders.is_active_in", answers(value=False)),
        ),
        "streams_groups/standby_becomes_active",
    ),
    (
        Plant(
            "a member that does not confirm stays",
            f"{_GROUPS}.members:time_revocation",
            fault=does_nothing,
        ),
        "streams_groups/owner_does_not_confirm",
    ),
    (
        Plant(
            "the epoch before is accepted without tasks",
            f"{_GROUPS}.lookup:find_member",
            "epoch != member.previous_epoch or not is_within",
            "epoch != member.previous_epoch",
        ),
        "streams_groups/wrong_epochs",
    ),
    (
        Plant(
            "the epoch before is not accepted",
            f"{_GROUPS}.lookup:find_member",
            "epoch != member.previous_epoch or not is_within",
            "True",
        ),
        "streams_groups/wrong_epochs",
    ),
    (
        Plant(
            "topics that change raise no epoch",
            f"{_GROUPS}.heartbeat:_beat",
            fault=calling(f"{_GROUPS}.heartbeat:may_have_other_topics", answers(value=False)),
        ),
        "streams_groups/source_topic_grows",
    ),
    (
        Plant(
            "another number of standby tasks raises no epoch",
            f"{_GROUPS}.epochs:bump_if_needed",
            "configs != group.assignment_configs",
            "False",
        ),
        "streams_groups/standby_tasks",
    ),
    (
        Plant(
            "tasks that do not exist may be reported",
            f"{_GROUPS}.heartbeat:_beat",
            fault=calling(f"{_GROUPS}.heartbeat:check_tasks", does_nothing),
        ),
        "streams_groups/invalid_tasks",
    ),
    (
        Plant(
            "a group takes another topology",
            f"{_GROUPS}.heartbeat:_beat",
            "take_topology(step, request.topology)",
            "take_topology(step, request.topology if group.topology is None else None)",
        ),
        "streams_groups/other_topology",
    ),
    (
        Plant(
            "a request to shut down is forgotten when its member leaves",
            f"{_GROUPS}.members:remove_member",
            "if not group.members:",
            "if member_id == group.shutdown_by:",
        ),
        "streams_groups/shutdown",
    ),
    (
        Plant(
            "a request to shut down outlives the members",
            f"{_GROUPS}.members:remove_member",
            "if not group.members:",
            "if False:",
        ),
        "streams_groups/shutdown",
    ),
    (
        Plant(
            "the endpoints are told to members that know them",
            f"{_GROUPS}.heartbeat:_set_endpoints",
            "if epoch != request.endpoint_information_epoch:",
            "if True:",
        ),
        "streams_groups/endpoints",
    ),
    (
        Plant(
            "the tasks are not told again to a member that joins again",
            f"{_GROUPS}.heartbeat:_beat",
            "request.member_epoch == JOIN_EPOCH or member.assigned != before",
            "member.assigned != before",
        ),
        "streams_groups/first_join",
    ),
    (
        Plant(
            "a stale topology is not told",
            f"{_GROUPS}.statuses:statuses_of",
            "member.topology_epoch < topology.epoch",
            "False",
        ),
        "streams_groups/stale_topology",
    ),
    (
        Plant(
            "a departure does not raise the epoch of a streams group",
            f"{_GROUPS}.members:remove_member",
            fault=calling(f"{_GROUPS}.members:bump_for_removal", does_nothing),
        ),
        "streams_groups/departure",
    ),
    (
        Plant(
            "members of a full streams group may join again",
            f"{_GROUPS}.heartbeat:_step",
            "            check_room(found, partition.config.streams.max_size)",
            "            if request.member_id not in found.members:\n"
            "                check_room(found, partition.config.streams.max_size)",
        ),
        "streams_groups/full_group",
    ),
    (
        Plant(
            "the rise of the epoch of endpoints is kept by the heartbeat that creates a group",
            f"{_GROUPS}.heartbeat:_set_endpoints",
            fault=given({"step.creates": False}),
        ),
        "streams_groups/endpoints",
    ),
)
