"""How heartbeats of groups of any type that change nothing come to their partitions."""

from typing import Any

from coterie.coordinator.groups.group_requests import GroupRequests
from coterie.coordinator.groups.recorded.heartbeat import unchanged
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.kernel.shard_state import ACTIVE


class HeartbeatRequests(GroupRequests):
    """The ways of requests, with those of heartbeats."""

    def unchanged_heartbeat(self, now_ms: int, request: Any, client: ClientContext) -> Any:
        """Answer a heartbeat of any type that changes nothing, if that may be done at once.

        It does what the verb of the type does, without the parts for what may be delayed.

        Returns:
            The answer; None if the verb has to handle the request.
        """
        # As in `_shard`, without the call.
        shard = self._shard_of.get(request.group_id)
        if shard is None or shard.state is not ACTIVE or shard.unacknowledged:
            return None
        return unchanged(shard, now_ms, request, client)

    def answered_again(
        self, now_ms: int, request: Any, context: RequestContext
    ) -> Effects[Any] | None:
        """Handle a heartbeat of any type that changes nothing, whose fields need no check.

        The answer waits for the records that are not durable yet.

        Returns:
            None if the heartbeat may change something.
        """
        shard = self._shard(request.group_id)
        if shard.state is not ACTIVE:
            return None
        answer = unchanged(shard, now_ms, request, context.client)
        if answer is None:
            return None
        effects = Effects(answer)
        if not shard.unacknowledged:
            return effects
        return shard.settle(effects, now_ms, request, context.to, context.version)
