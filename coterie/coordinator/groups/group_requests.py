"""How requests reach the partitions of their groups, and their responses leave them.

A request of one group is handled by its partition. One about several groups has a part for each,
which may be delayed [coordinator/durable-responses].
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from coterie.coordinator.groups.group_partitions import GroupPartitions
from coterie.coordinator.groups.shard import GroupShard
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.response_parts import MultiGroupResponse, ResponsePart
from coterie.coordinator.kernel.shard_state import availability_error
from coterie.protocol.errors import ErrorCode


class GroupRequest(Protocol):
    """A request about one group."""

    group_id: str


# A request and its response.
Q = TypeVar("Q", bound=GroupRequest)
R = TypeVar("R")


class GroupRequests(GroupPartitions):
    """The partitions, with the ways by which requests come to them."""

    def run(
        self,
        verb: Callable[[GroupShard, int, Q, RequestContext], Effects[R]],
        error: ErrorCode,
        now_ms: int,
        request: Q,
        context: RequestContext,
    ) -> Effects[R]:
        """Let a verb handle a request unless `error` or its partition's state refuses it.

        A type of groups may have requests that have no method here.
        """
        shard = self._shard(request.group_id)
        error = error or availability_error(shard.state)
        if error:
            return Effects(shard.error_response(request, error, context.version))
        effects = verb(shard, now_ms, request, context)
        return self.applied(shard.settle(effects, now_ms, request, context.to, context.version))

    def run_for_each(
        self,
        verb: Callable[[GroupShard, Any, ResponsePart], Effects[Any]],
        response: MultiGroupResponse,
        groups: Sequence[Any],
        now_ms: int,
        version: int,
    ) -> Effects[Any]:
        """Let a verb handle every group of a request; the response leaves with its last part.

        Args:
            verb: returns effects with the part of one group as their response; it gets the place of
                that part, too, for one that comes later.
            response: receives the parts.
            groups: the parts of the request, with a `group_id` each.
            now_ms: the time.
            version: the version of the request.
        """
        assert len(response.parts) == len(groups), "each group has a part of the response"
        effects: Effects[Any] = Effects()
        for index, group in enumerate(groups):
            part = ResponsePart(response, index)
            shard = self._shard(group.group_id)
            error = availability_error(shard.state)
            if error:
                done = Effects(shard.error_response(group, error, version))
            else:
                done = shard.settle(verb(shard, group, part), now_ms, group, part)
            if done.response is not None:
                part.deliver(done.response, done)
            # Without its replies: if the last part was delivered here, the whole is the response.
            effects.absorb_all_but_replies(done)
        if not response.missing:
            effects.response = response.message
        return self.applied(effects)

    def look_at_each(
        self,
        look: Callable[[GroupShard, Any], Any],
        asked: Callable[..., Any],
        response: Callable[..., Any],
        now_ms: int,
        request: Any,
        context: RequestContext,
    ) -> Effects[Any]:
        """Let groups be described; those without an id come first, as in Kafka.

        Args:
            look: returns the part of one group.
            asked: makes the part of the request of one group.
            response: makes the response of `groups`.
            now_ms: the time.
            request: the request, with `group_ids`.
            context: where it comes from.
        """
        with_operations = request.include_authorized_operations
        group_ids = sorted(request.group_ids, key=bool)
        parts: list[Any] = [None] * len(group_ids)
        return self.run_for_each(
            lambda shard, group, _: Effects(look(shard, group)),
            MultiGroupResponse(context.to, response(groups=parts), parts),
            [asked(each, with_operations=with_operations) for each in group_ids],
            now_ms,
            context.version,
        )
