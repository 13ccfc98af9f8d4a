"""The error code that the rules require for a request, from the state of its group beforehand.

The module is independent of the code under test: it reads the fields of the group and calls none of
its methods. `DELAYED` stands for a request that gets its response from a later event of its group
or of the log.
"""

from typing import Any

from coterie.coordinator.groups.classic.group import Group, classic
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.groups.shard import GroupShard
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode as E
from tests.simulation.call import Call

DELAYED = "delayed"

_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE


def expected(coordinator: GroupCoordinator, call: Call) -> Any:
    """Return the required error code, or `DELAYED`.

    For a request with several parts it is the list of their codes, and None where no rule applies.
    """
    rule = _RULES.get(call.api)
    if rule is None:
        return expected_each(coordinator, call)
    error = _early(coordinator, call)
    if error is not None:
        call.early = True
        return error
    group_id = call.request.group_id
    shard = coordinator.shards[coordinator.partition_for(group_id)]
    return rule(shard, classic(shard.groups.get(group_id)), call)


def _early(coordinator: GroupCoordinator, call: Call) -> E | None:
    """Return the error that does not depend on the group; None if there is none."""
    request = call.request
    if (
        call.api == "SyncGroup"
        and call.version >= 5
        and None in (request.protocol_type, request.protocol_name)
    ):
        return E.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id and call.api != "OffsetCommit":
        return E.INVALID_GROUP_ID
    if call.api == "JoinGroup":
        config = coordinator.config
        timeout = request.session_timeout_ms
        if timeout < config.group_min_session_timeout_ms:
            return E.INVALID_SESSION_TIMEOUT
        if timeout > config.group_max_session_timeout_ms:
            return E.INVALID_SESSION_TIMEOUT
    shard = coordinator.shards[coordinator.partition_for(request.group_id)]
    if shard.state is ShardState.LOADING:
        return E.NONE if call.api == "Heartbeat" else E.COORDINATOR_LOAD_IN_PROGRESS
    return None if shard.state is ShardState.ACTIVE else E.NOT_COORDINATOR


def identity(group: Group, member_id: str, instance: str | None) -> E:
    """Return the result of [sessions/identity-check]."""
    instances = {
        member.group_instance_id: member.member_id
        for member in group.members.values()
        if member.group_instance_id is not None
    }
    if instance is not None and instance not in instances:
        return E.UNKNOWN_MEMBER_ID
    if instance is not None and instances[instance] != member_id:
        return E.FENCED_INSTANCE_ID
    return E.NONE if member_id in group.members else E.UNKNOWN_MEMBER_ID


def chosen_protocol(members: list[Member]) -> str:
    """Return the protocol with the most votes [joining/protocol-choice]."""
    common = set.intersection(*({name for name, _ in each.protocols} for each in members))
    votes = [next(name for name, _ in each.protocols if name in common) for each in members]
    return min(set(votes), key=lambda name: (-votes.count(name), name))


# -- JoinGroup [joining/order-of-checks] -----------------------------------------------------------


def _join(shard: GroupShard, group: Group | None, call: Call) -> Any:
    request = call.request
    names = [protocol.name for protocol in request.protocols]
    if group is None:
        if request.member_id:
            return E.UNKNOWN_MEMBER_ID
        accepted = bool(request.protocol_type) and bool(names)
    else:
        if not _has_room(group, request.member_id, shard.config):
            return E.GROUP_MAX_SIZE_REACHED
        accepted = _accepts_protocols(group, request.protocol_type, names)
    if not accepted:
        return E.INCONSISTENT_GROUP_PROTOCOL
    if request.member_id:
        assert group is not None
        return _join_known(group, call)
    if request.group_instance_id is not None or call.version < 4:
        return DELAYED
    return E.MEMBER_ID_REQUIRED


def _has_room(group: Group, member_id: str, config: GroupConfig) -> bool:
    limit = config.group_max_size
    member = group.members.get(member_id)
    if group.state is _EMPTY:
        return True
    if group.state is _PREPARING:
        delayed = sum(each.delayed_join is not None for each in group.members.values())
        return (member is not None and member.delayed_join is not None) or delayed < limit
    return member is not None or len(group.members) < limit


def _accepts_protocols(group: Group, protocol_type: str, names: list[str]) -> bool:
    if group.state is _EMPTY:
        return bool(protocol_type) and bool(names)
    supported = [{name for name, _ in member.protocols} for member in group.members.values()]
    return protocol_type == group.protocol_type and any(
        all(name in each for each in supported) for name in names
    )


def _join_known(group: Group, call: Call) -> Any:
    request = call.request
    member_id = request.member_id
    if member_id in group.pending_joins:
        return DELAYED if request.group_instance_id is None else E.UNKNOWN_SERVER_ERROR
    error = identity(group, member_id, request.group_instance_id)
    if error:
        return error
    member = group.members[member_id]
    same = tuple((each.name, each.metadata) for each in request.protocols) == member.protocols
    if group.state is _COMPLETING and same:
        return E.NONE
    if group.state is _STABLE and same and group.leader != member_id:
        return E.NONE
    return DELAYED


# -- the other requests ----------------------------------------------------------------------------


def _sync(_shard: GroupShard, group: Group | None, call: Call) -> Any:
    if group is None or group.state is _EMPTY:
        return E.UNKNOWN_MEMBER_ID
    request = call.request
    error = identity(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return E.ILLEGAL_GENERATION
    for named, current in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if None not in (named, current) and named != current:
            return E.INCONSISTENT_GROUP_PROTOCOL
    by_state = {_PREPARING: E.REBALANCE_IN_PROGRESS, _COMPLETING: DELAYED, _STABLE: E.NONE}
    return by_state[group.state]


def _heartbeat(_shard: GroupShard, group: Group | None, call: Call) -> Any:
    if group is None:
        return E.UNKNOWN_MEMBER_ID
    request = call.request
    error = identity(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return E.ILLEGAL_GENERATION
    return E.REBALANCE_IN_PROGRESS if group.state is _PREPARING else E.NONE


def _leave(_shard: GroupShard, group: Group | None, call: Call) -> Any:
    request = call.request
    if call.version < 3:
        listed: list[tuple[str, str | None]] = [(request.member_id, None)]
    else:
        listed = [(each.member_id, each.group_instance_id) for each in request.members]
    codes = []
    removed: set[str] = set()
    for member_id, instance in listed:
        code = E.UNKNOWN_MEMBER_ID
        leaving = member_id
        if group is not None:
            holders = {
                member.group_instance_id: member.member_id
                for member in group.members.values()
                if member.member_id not in removed and member.group_instance_id is not None
            }
            if not member_id:
                leaving = holders.get(instance, "") if instance is not None else ""
                code = E.NONE if leaving else E.UNKNOWN_MEMBER_ID
            elif member_id in removed:
                known = instance is not None and instance in holders
                code = E.FENCED_INSTANCE_ID if known else E.UNKNOWN_MEMBER_ID
            elif member_id in group.pending_joins:
                code = E.NONE
            else:
                code = identity(group, member_id, instance)
                if instance is not None and instance not in holders:
                    code = E.UNKNOWN_MEMBER_ID
        if code is E.NONE:
            removed.add(leaving)
        codes.append(code)
    return codes


def _commit(_shard: GroupShard, group: Group | None, call: Call) -> Any:
    request = call.request
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:
            return E.NONE
        return E.GROUP_ID_NOT_FOUND if call.version >= 9 else E.ILLEGAL_GENERATION
    if group.state is _EMPTY and generation_id < 0:
        return E.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return E.UNKNOWN_MEMBER_ID
    error = identity(group, request.member_id, request.group_instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return E.ILLEGAL_GENERATION
    return E.REBALANCE_IN_PROGRESS if group.state is _COMPLETING else E.NONE


def _offset_delete(_shard: GroupShard, group: Group | None, _call: Call) -> Any:
    if group is None:
        return E.GROUP_ID_NOT_FOUND
    if group.state is not _EMPTY and group.protocol_type != "consumer":
        return E.NON_EMPTY_GROUP
    return E.NONE


_RULES = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetDelete": _offset_delete,
}


# -- requests about several groups -----------------------------------------------------------------


def expected_each(coordinator: GroupCoordinator, call: Call) -> list[Any] | None:
    """Return the state of each group for DescribeGroups and the error for DeleteGroups.

    For other requests it is None.
    """
    if call.api not in ("DescribeGroups", "DeleteGroups"):
        return None
    results: list[Any] = []
    for group_id in (
        dict.fromkeys(call.group_ids()) if call.api == "DeleteGroups" else call.group_ids()
    ):
        shard = coordinator.shards[coordinator.partition_for(group_id)]
        group = classic(shard.groups.get(group_id))
        if shard.state is ShardState.LOADING:
            results.append(E.COORDINATOR_LOAD_IN_PROGRESS)
        elif shard.state is not ShardState.ACTIVE:
            results.append(E.NOT_COORDINATOR)
        elif call.api == "DescribeGroups":
            results.append("Dead" if group is None else group.state.value)
        elif group is None:
            results.append(E.GROUP_ID_NOT_FOUND)
        else:
            results.append(E.NONE if group.state is _EMPTY else E.NON_EMPTY_GROUP)
    return results


def codes_of(call: Call, message: Any) -> Any:
    """Return the error codes of a response in the form of `expected`."""
    if call.api == "OffsetCommit":
        codes = [each.error_code for topic in message.topics for each in topic.partitions]
        others = {code for code in codes if code != E.OFFSET_METADATA_TOO_LARGE}
        return others.pop() if len(others) == 1 else sorted(others) or E.NONE
    if call.api == "LeaveGroup":
        if call.version < 3 and type(call.expected) is list:
            return [message.error_code]
        if call.version < 3 or message.error_code:
            return message.error_code
        return [each.error_code for each in message.members]
    if call.api == "DeleteGroups":
        return [each.error_code for each in message.results]
    if call.api == "DescribeGroups":
        described = (E.NONE, E.GROUP_ID_NOT_FOUND)
        return [
            each.group_state if each.error_code in described else each.error_code
            for each in message.groups
        ]
    return message.error_code


def fetch_codes(message: Any) -> list[int]:
    """Return the errors of an OffsetFetch: at the top, of its groups and of its partitions."""
    if message.groups:
        return [group.error_code for group in message.groups]
    codes = [each.error_code for topic in message.topics for each in topic.partitions]
    return [message.error_code, *(code for code in codes if code)]
