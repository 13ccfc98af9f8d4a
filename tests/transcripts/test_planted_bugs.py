"""Bugs planted into the core on purpose: for each, the transcript about that rule must fail.

Without this test, transcripts that pass whatever the core does would go unnoticed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coterie.coordinator.heartbeat
import coterie.coordinator.join
import coterie.coordinator.leave
import coterie.coordinator.members
import coterie.coordinator.offsets
import coterie.coordinator.rebalance
import coterie.coordinator.replay
import coterie.coordinator.shard
import coterie.coordinator.static_member
import coterie.coordinator.sync
from coterie.coordinator.group import Group, GroupState
from coterie.protocol.errors import ErrorCode
from tests.transcripts.test_transcripts import ROOT, core_differences

Bug = tuple[str, Any, str, Callable[..., Any]]

real_start_session = coterie.coordinator.members.start_session
real_replay = coterie.coordinator.replay.replay


def last_member_leads(group: Group) -> bool:
    joined = [each.member_id for each in group.members.values() if each.delayed_join is not None]
    group.leader = joined[-1] if joined else group.leader
    return bool(joined)


def half_a_session(group: Any, member: Any, timeout_ms: int, now_ms: int, effects: Any) -> None:
    real_start_session(group, member, timeout_ms // 2, now_ms, effects)


def drop_tombstones(state: Any, record: Any, undo: Any = None) -> None:
    if record[1] is not None:
        real_replay(state, record, undo)


BUGS: list[Bug] = [
    (
        "heartbeat/session_ends_on_time",
        coterie.coordinator.sync,
        "start_session",
        half_a_session,
    ),
    (
        "static/old_process_is_fenced_everywhere",
        coterie.coordinator.heartbeat,
        "identity_error",
        lambda group, member_id, _: (
            ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
        ),
    ),
    (
        "join_phase/waits_for_a_pending_id",
        Group,
        "all_joined",
        lambda group: len(group.members) == group.awaiting_joins,
    ),
    (
        "rejoin/absent_leader_is_replaced",
        Group,
        "elect_joined_leader",
        last_member_leads,
    ),
    (
        "sync/leader_leaves_before_it_syncs",
        coterie.coordinator.rebalance,
        "fail_syncs",
        lambda *_: None,
    ),
    (
        "rejoin/most_members_choose_the_protocol",
        Group,
        "select_protocol",
        lambda group: min(group.supported_protocols),
    ),
    (
        "size_limit/full_group_refuses_newcomers",
        coterie.coordinator.join,
        "_has_room",
        lambda *_: True,
    ),
    (
        "sync/log_errors_are_translated",
        coterie.coordinator.shard,
        "translate_append_error",
        lambda error: error,
    ),
    (
        "offsets/failed_commit_is_undone",
        coterie.coordinator.shard,
        "take_back",
        lambda undo: None,
    ),
    (
        "log/tombstones_in_the_log",
        coterie.coordinator.shard,
        "replay",
        drop_tombstones,
    ),
    (
        "initial_delay/new_member_extends_the_delay",
        coterie.coordinator.shard,
        "join_timer_fired",
        lambda shard, group, now_ms, effects: coterie.coordinator.rebalance.complete_join(
            group, now_ms, effects
        ),
    ),
    (
        "offsets/metadata_too_large",
        coterie.coordinator.offsets,
        "len",
        lambda value: 0 if isinstance(value, str) else len(value),
    ),
    (
        "leave/last_member_leaves",
        coterie.coordinator.rebalance,
        "_become_empty",
        lambda group, now_ms, effects: group.transition(GroupState.EMPTY, now_ms),
    ),
]


# The workers of a parallel run must collect the same names, so these have no object addresses.
IDS = [f"{name}-{what}" for name, _, what, _ in BUGS]


@pytest.mark.parametrize(("name", "where", "what", "bug"), BUGS, ids=IDS)
def test_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: Any, what: str, bug: Callable[..., Any]
) -> None:
    path = ROOT / f"{name}.txt"
    assert not fails(path)
    monkeypatch.setattr(where, what, bug, raising=what != "len")
    assert fails(path)


def fails(path: Path) -> bool:
    """Return whether a transcript does not hold."""
    try:
        return bool(core_differences(path))
    except AssertionError:
        return True  # an assertion of the core or of the driver has failed first
