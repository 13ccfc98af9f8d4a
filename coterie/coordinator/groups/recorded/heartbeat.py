"""A heartbeat of a group of any type: a step of its group, or refused and without effect.

Most heartbeats change nothing. `unchanged` answers those: it stores a deadline on the member and
makes no record, no timer and no event.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.tentative_step import TentativeStep
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import MemberFenced

S = TypeVar("S", bound=TentativeStep[Any])

# The errors of heartbeats whose sender is not the member that it says it is.
_FENCING = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class HeartbeatVerbs(NamedTuple):
    """What a type of groups does with a heartbeat. Each may raise a `Refusal`.

    Attributes:
        group_class: the class of its groups.
        leave: handles one that leaves.
        step: returns a step of the group of another one, which may be a new group.
        beat: handles it, with the step.
    """

    group_class: type[RecordedGroup[Any]]
    leave: Callable[[PartitionState, int, Any, RequestContext], Effects[Any]]
    step: Callable[[PartitionState, int, Any, RequestContext], Any]
    beat: Callable[[Any, Any], Effects[Any]]


def unchanged(partition: PartitionState, now_ms: int, request: Any, client: ClientContext) -> Any:
    """Start a session anew and return the answer; None if the heartbeat may change something.

    The answer is shared by the heartbeats of a member: it is not changed when it is sent.

    Args:
        partition: the partition of its group.
        now_ms: the time.
        request: a heartbeat of any type.
        client: who sends it.
    """
    group = partition.groups.get(request.group_id)
    if not isinstance(group, RecordedGroup):
        return None
    epoch: int = request.member_epoch
    member: RecordedMember | None = group.members.get(request.member_id)
    if (
        member is None
        or member.answer is None
        or member.epoch != epoch
        or group.epoch != epoch
        or member.client is not client
        or group.checked_version != group.topics.version
        or not group.hears_nothing_new(request, member, partition.config)
    ):
        return None
    member.deadline_ms = now_ms + member.session_ms
    return member.answer


def handle_heartbeat(
    verbs: HeartbeatVerbs,
    partition: PartitionState,
    now_ms: int,
    request: Any,
    context: RequestContext,
) -> Effects[Any]:
    """Handle a heartbeat whose fields were checked.

    Args:
        verbs: what its type of groups does with it.
        partition, now_ms, request, context: those of a verb.
    """
    step: TentativeStep[Any] | None = None
    try:
        if request.member_epoch < JOIN_EPOCH:
            return verbs.leave(partition, now_ms, request, context)
        step = verbs.step(partition, now_ms, request, context)
        return verbs.beat(step, request)
    except Refusal as refusal:
        if step is not None:
            step.undo()
        effects = Effects(heartbeat_error(request, refusal.error, text=refusal.text))
        group = partition.groups.get(request.group_id)
        if refusal.error in _FENCING and isinstance(group, verbs.group_class):
            _note_fenced(effects, now_ms, group, request, refusal.error)
        return effects


def first_step(
    steps: type[S],
    groups: type[RecordedGroup[Any]],
    partition: PartitionState,
    group_id: str,
    now_ms: int,
    context: RequestContext,
) -> S:
    """Return the first step of a group that does not exist yet.

    Args:
        steps: the class of the steps of its type.
        groups: that of its groups.
        partition: the partition of the group.
        group_id: its id.
        now_ms, context: those of a verb.
    """
    group = groups(group_id)
    group.topics = partition.topics
    step = steps(partition, group, now_ms, context)
    step.creates = True
    return step


def _note_fenced(
    effects: Effects[Any],
    now_ms: int,
    group: RecordedGroup[Any],
    request: Any,
    error: ErrorCode,
) -> None:
    """Note that a heartbeat was refused whose sender is not the member that it says it is.

    Another process has the instance id, or the coordinator knows another epoch of the member
    [journal/members].

    Args:
        effects: receive the fact.
        now_ms: the time.
        group: the group of the request.
        request: the heartbeat.
        error: the error of the answer.
    """
    holder = group.holder(request)
    member_id: str = holder or request.member_id
    assert member_id in group.members, f"{member_id} is no member of {group} and is fenced"
    effects.note(
        group.group_id,
        MemberFenced(
            at_ms=now_ms,
            member_id=request.member_id,
            group_instance_id=None if holder is None else request.instance_id,
            holder=member_id,
            generation_id=group.epoch,
            request=type(request).__name__.removesuffix("Request"),
            error_code=error,
            said_epoch=request.member_epoch,
            known_epoch=group.members[member_id].epoch,
        ),
    )
