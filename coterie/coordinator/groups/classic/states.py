"""The states of a classic group and the table of its transitions.

The states and what leads out of them [joining/states]:

Empty
    The group has no members; it may have offsets.
    - A member is added: -> PreparingRebalance for the initial delay
      (initial_delay/no_response_before_the_delay_ends).
    - The sweep removes the group once it has no offsets (expiry/group_without_offsets), and
      DeleteGroups removes it with its offsets (admin/delete_groups).
PreparingRebalance
    The join phase: members are asked to rejoin, and their joins are delayed.
    - Every member has rejoined and no id is pending: -> CompletingRebalance
      (join_phase/waits_for_every_member).
    - The time is up: the same with those who rejoined and the static members
      (join_phase/members_that_do_not_rejoin_are_removed); with static members only, the phase
      is extended (join_phase/only_static_members_and_none_rejoined).
    - No member is left: -> Empty (leave/last_member_leaves).
CompletingRebalance
    The members know the generation; their syncs are delayed until the leader's assignment is
    durable.
    - The assignment is durable: -> Stable (sync/follower_before_leader).
    - A member joins, leaves, expires or changes its subscription, or the assignment cannot be
      logged: -> PreparingRebalance (rejoin/changed_metadata_while_completing,
      sync/leader_leaves_before_it_syncs, sync/assignment_that_cannot_be_logged).
    - The sync timer fires: members that have not synced are removed, -> PreparingRebalance
      (sync/leader_never_syncs).
Stable
    Every member has an assignment.
    - A member joins, leaves, expires or changes its subscription, or the leader rejoins:
      -> PreparingRebalance (traces/t03_third_member_joins, rejoin/leader_rejoin_always_rebalances).
    - The sync timer fires as above (sync/followers_never_sync).
    - A static member is replaced under the same protocol: the state stays
      (static/follower_restart).
Dead
    The partition was given up; every request is refused (log/unload_answers_delayed_requests).
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The states, by their names on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}
