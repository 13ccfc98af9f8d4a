"""Bugs planted into the core on purpose: the transcript about the broken rule must fail.

Without this test, transcripts that pass whatever the core does would go unnoticed.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.faults import Function, answers, calling, given, where
from tests.planting import Plant, planted
from tests.simulation.plants import PLANTS
from tests.transcripts.consumer_plants import CONSUMER_PLANTS
from tests.transcripts.share_plants import SHARE_PLANTS
from tests.transcripts.streams_plants import STREAMS_PLANTS
from tests.transcripts.test_transcripts import ROOT, core_differences
from tests.transcripts.transaction_plants import TRANSACTION_PLANTS


def _for_half_of_it(extend: Function) -> Function:
    """Extend a session by half of what is asked for."""
    return lambda step, member, kind, timeout_ms: extend(step, member, kind, timeout_ms // 2)


def _elects_the_last(_: Function) -> Function:
    """Elect the last member that has joined."""

    def elect(group: Any) -> bool:
        joined = [each for each in group.members.values() if each.delayed_join is not None]
        if joined:
            group.leader = joined[-1].member_id
        return bool(joined)

    return elect


# Bugs that the simulation does not plant, with the transcript that finds each.
MORE_PLANTS: tuple[tuple[Plant, str], ...] = (
    (
        Plant(
            "a session lasts half of its timeout",
            "coterie.coordinator.groups.sessions:extend_session",
            fault=_for_half_of_it,
        ),
        "heartbeat/session_ends_on_time",
    ),
    (
        Plant(
            "the last member that has rejoined always leads",
            "coterie.coordinator.groups.classic.group:Group.elect_joined_leader",
            fault=_elects_the_last,
        ),
        "rejoin/absent_leader_is_replaced",
    ),
    (
        Plant(
            "errors of appends are not translated",
            "coterie.coordinator.kernel.append_errors:translate_append_error",
            fault=where(_APPEND_ERRORS={}),
        ),
        "sync/log_errors_are_translated",
    ),
    (
        Plant(
            "the initial delay is not extended",
            "coterie.coordinator.groups.classic.rebalance:join_timer_fired",
            fault=given({"step.group.new_member_added": False}),
        ),
        "initial_delay/new_member_extends_the_delay",
    ),
    (
        Plant(
            "metadata of offsets is not limited",
            "coterie.coordinator.groups.offsets:commit",
            fault=calling(
                "coterie.coordinator.groups.offsets:is_metadata_too_large", answers(value=False)
            ),
        ),
        "offsets/metadata_too_large",
    ),
)

# By the name of a bug of the simulation, the transcript about the rule that it breaks.
TRANSCRIPTS = {
    "the size of a group is not limited": "size_limit/full_group_refuses_newcomers",
    "a first join is not answered with MEMBER_ID_REQUIRED": "join/answers_of_every_version",
    "a new member expires after its session timeout": (
        "join_phase/new_member_expires_after_five_minutes"
    ),
    "a leader that rejoins unchanged starts no rebalance": "rejoin/leader_rejoin_always_rebalances",
    "a changed subscription in CompletingRebalance is ignored": (
        "rejoin/changed_metadata_while_completing"
    ),
    "a pending id is accepted with an instance id": "join/pending_id_with_an_instance_id",
    "a joiner's protocols are not compared with those of the members": (
        "join/protocol_must_be_common_to_all_members"
    ),
    "fencing is skipped": "static/old_process_is_fenced_everywhere",
    "the join timer is not armed": "join_phase/members_that_do_not_rejoin_are_removed",
    "the initial delay is skipped": "initial_delay/no_response_before_the_delay_ends",
    "the initial delay ends when all members have joined": (
        "initial_delay/leaving_does_not_end_the_delay"
    ),
    "a new member extends the initial delay more than once": (
        "initial_delay/new_member_extends_the_delay_once"
    ),
    "the initial delay is extended beyond the rebalance timeout": (
        "initial_delay/extensions_end_at_the_rebalance_timeout"
    ),
    "members that do not rejoin stay in the group": (
        "join_phase/members_that_do_not_rejoin_are_removed"
    ),
    "a static member is removed at the join timeout": (
        "join_phase/static_members_are_kept_at_the_deadline"
    ),
    "an absent leader stays leader": "join_phase/static_members_are_kept_at_the_deadline",
    "the generation is not incremented": "rejoin/leader_rejoin_always_rebalances",
    "the member list is sent to followers": "traces/t01_two_members_form_a_group",
    "the sync timer is not armed": "sync/no_member_syncs",
    "a pending id does not keep a join phase open": "join_phase/waits_for_a_pending_id",
    "the join phase does not wait for the last member": "join_phase/waits_for_every_member",
    "delayed syncs are not answered when a rebalance starts": (
        "sync/leader_leaves_before_it_syncs"
    ),
    "the protocol with the fewest votes is chosen": "rejoin/most_members_choose_the_protocol",
    "a group without members is not logged": "leave/last_member_leaves",
    "a sync is accepted in PreparingRebalance": "errors_by_state/sync",
    "a sync of an old generation is accepted": "sync/checks_in_order",
    "the assignment is sent before it is durable": "sync/sync_while_the_assignment_is_written",
    "a member without an assignment gets a partition": "sync/leader_may_assign_nothing",
    "a commit to an unknown group creates no group": "offsets/simple_group",
    "the sync timer does not remove static members": "sync/followers_never_sync",
    "the sync timer is not cancelled when all have synced": "sync/all_have_synced_in_time",
    "a heartbeat does not move the deadline": "heartbeat/session_ends_on_time",
    "a commit does not restart the session": "heartbeat/commit_extends_the_session",
    "a heartbeat of an old generation is accepted": "heartbeat/refusals",
    "heartbeats do not report a rebalance": "heartbeat/while_preparing",
    "a member with a delayed request expires": "heartbeat/delayed_members_need_no_heartbeat",
    "an expiry does not start a rebalance": "heartbeat/session_ends_on_time",
    "the timer of an extended session is not armed again": ("heartbeat/commit_extends_the_session"),
    "an expired pending id does not complete the join phase": "join_phase/pending_id_times_out",
    "the delayed join of a removed member is not answered": "leave/delayed_joiner_leaves",
    "a leave from Stable does not start a rebalance": "leave/last_member_leaves",
    "the delayed request of a replaced process is not fenced": (
        "static/second_process_replaces_a_delayed_joiner"
    ),
    "a restarted static leader of an old version computes an assignment": (
        "static/leader_restart_of_old_versions"
    ),
    "a commit is accepted in CompletingRebalance": "offsets/while_completing",
    "a group with members can be deleted": "errors_by_state/delete_groups",
    "offsets expire while their topic is subscribed": (
        "expiry/stable_group_keeps_subscribed_offsets"
    ),
    "the subscriptions of the members count, not of the generation": (
        "offsets/delete_offsets_while_a_protocol_is_dropped"
    ),
    "offsets of a deleted topic stay in some groups": "offsets/deleted_topic",
    "a reply leaves before its records are durable": "offsets/fetch_shows_only_what_is_durable",
    "a read does not wait for earlier appends": "offsets/fetch_shows_only_what_is_durable",
    "the groups of the partition stay when an append fails": "join/creation_that_cannot_be_logged",
    "the requests that wait for a failed append are not answered": (
        "offsets/commit_that_cannot_be_logged"
    ),
    "delayed requests are not answered when an append fails": (
        "sync/assignment_that_cannot_be_logged"
    ),
    "a tombstone does not remove an offset": "log/tombstones_in_the_log",
    "a newer offset does not replace an older one": "offsets/simple_group",
    "a restart loses the assignments": "log/restart_of_a_stable_group",
    "members of a loaded group have no session timer": "log/member_that_does_not_return",
    "heartbeats are refused while loading": "log/loading",
    "the sweep timer is not armed again": "expiry/empty_group_expires",
    "a cancelled timer stays in the wheel": "heartbeat/session_ends_on_time",
    "a timer beyond the range of a level is lost": "initial_delay/new_member_extends_the_delay",
    "timers of coarse levels fire one tick late": "initial_delay/no_response_before_the_delay_ends",
}

# These bugs need a rare order of events, or no client can observe them at once.
ONLY_IN_THE_SIMULATION = {
    "the timer of a pending id outlives its join",
    "a repeated sync of the leader is logged again",
    "an assignment is accepted for another generation",
    "the session of a removed member is not cancelled",
    "a pending id that leaves keeps its timer",
    "the sync of a replaced member is not awaited",
    "the timers of a deleted group's pending ids are not cancelled",
    "a restart loses the leader",
}

BY_NAME = {plant.name: plant for plant in PLANTS}
BUGS = [
    *((BY_NAME[name], transcript) for name, transcript in TRANSCRIPTS.items()),
    *MORE_PLANTS,
    *TRANSACTION_PLANTS,
    *CONSUMER_PLANTS,
    *SHARE_PLANTS,
    *STREAMS_PLANTS,
]


@pytest.mark.parametrize(
    ("plant", "name"), BUGS, ids=[plant.name.replace(" ", "-") for plant, _ in BUGS]
)
def test_transcript_about_the_rule_finds_a_planted_bug(plant: Plant, name: str) -> None:
    path = ROOT / f"{name}.txt"
    assert not fails(path)
    with planted(plant):
        assert fails(path)


def test_every_bug_of_the_simulation_has_a_transcript_or_cannot_have_one() -> None:
    assert TRANSCRIPTS.keys() | ONLY_IN_THE_SIMULATION == BY_NAME.keys()


def fails(path: Path) -> bool:
    """Return whether a transcript does not hold."""
    try:
        return bool(core_differences(path))
    except Exception:
        return True  # an assertion of the core or of the driver has failed first
