"""Changes of topics by one request, against the quota of its client (KIP-599).

[quotas/token-bucket]
"""

from coterie.protocol.errors import ErrorCode
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


class Mutations:
    """The partitions that one request creates or deletes.

    Attributes:
        wait_ms: how long the client must wait before it changes topics again.
    """

    def __init__(self, broker: Services, connection: Exchange, strict_since: int) -> None:
        """Begin with none.

        Args:
            broker: the broker.
            connection: the connection of the request.
            strict_since: the first version whose changes are refused above the quota.
        """
        self._broker = broker
        self._client = connection.client
        self._is_strict = connection.version >= strict_since
        self.wait_ms = 0

    def count(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            TopicRefused: the client must wait.
        """
        throttling = self._broker.quotas.throttling
        if not throttling.throttles_requests:
            return
        allowed, wait_ms = throttling.take_tokens(
            self._client.principal,
            self._client.client_id,
            partitions,
            self._broker.environment.now_ms(),
            is_strict=self._is_strict,
        )
        self.wait_ms = max(self.wait_ms, wait_ms)
        if not allowed:
            raise TopicRefused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
