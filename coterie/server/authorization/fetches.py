"""Fetches of clients that may not read everything [security/fetch].

Every request asks for each topic anew, also for the partitions that a fetch session remembers. A
follower needs CLUSTER_ACTION on the cluster instead.
"""

from collections.abc import Iterable
from functools import partial

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import Handled, Outcome
from coterie.server.handlers.fetch import handle
from coterie.server.handlers.fetch_message_sets import handle as fetch_messages
from coterie.server.handlers.plain_fetch import READ_AT_ONCE, CheckedFetch, Wanted
from coterie.server.handlers.session_fetch import SessionFetch
from coterie.server.logs.fetch_sessions import FetchSession
from coterie.server.logs.fetching import FetchPartition
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class _MayRead:
    """Which topics the client of one request may read."""

    def __init__(self, broker: Services, access: ClientAccess, request: FetchRequest) -> None:
        self._topics = broker.topics
        self._access = access
        state = request.replica_state
        replica_id = request.replica_id if state is None else state.replica_id
        self._follows: bool | None = None
        if replica_id >= 0:
            self._follows = access.may_with_cluster(AclOperation.CLUSTER_ACTION)
        self._known: dict[str | bytes, bool] = {}
        self.version = access.version

    def may_read(self, topic: str | bytes) -> bool:
        """Return whether it may read a topic, named or by its id; an unknown id is not refused."""
        if self._follows is not None:
            return self._follows
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._decide(topic)
        return known

    def _decide(self, topic: str | bytes) -> bool:
        if isinstance(topic, bytes):
            found = self._topics.by_id.get(topic)
            if found is None:
                return True
            topic = found.name
        return self._access.may(AclOperation.READ, ResourceType.TOPIC, topic)

    def without(self, wanted: FetchPartition) -> FetchPartition:
        """Return a partition as it is wanted, or refused."""
        if self.may_read(wanted.topic):
            return wanted
        return wanted._replace(partition=None, error=_REFUSED)

    def refuse(self, wanted: Wanted) -> Iterable[None]:
        """Refuse those of the partitions that the client may not read."""
        for count, (key, each) in enumerate(wanted.items(), 1):
            wanted[key] = self.without(each)
            if not count % READ_AT_ONCE:
                yield


class _AuthorizedSessionFetch(SessionFetch):
    """A fetch with a session."""

    __slots__ = ("_may_read",)

    def __init__(
        self,
        may_read: _MayRead,
        broker: Services,
        request: FetchRequest,
        connection: Exchange,
        session: FetchSession | None,
    ) -> None:
        self._may_read = may_read
        super().__init__(broker, request, connection, session)

    def _look_up(self) -> Iterable[None]:
        yield from super()._look_up()
        session, may_read = self._session, self._may_read
        # An idle partition was read; it is asked for again only after a change of the rules.
        is_known = session.authorized_as == may_read.version
        among = session.active if is_known else session.partitions
        session.authorized_as = may_read.version
        for count, cached in enumerate(list(among.values()), 1):
            wanted = may_read.without(cached.wanted)
            if wanted is not cached.wanted:
                cached.wake()
                cached.wanted = wanted
            if not count % READ_AT_ONCE:
                yield


def fetch(
    broker: Services, access: ClientAccess, request: FetchRequest, _connection: Exchange
) -> Outcome:
    """Read what the client may read."""
    may_read = _MayRead(broker, access, request)
    return Handled(
        partial(
            handle,
            plain=partial(CheckedFetch, may_read.refuse),
            of_session=partial(_AuthorizedSessionFetch, may_read),
        )
    )


def fetch_message_sets(
    broker: Services, access: ClientAccess, request: FetchRequest, _connection: Exchange
) -> Outcome:
    """Read what the client may read, as messages."""
    may_read = _MayRead(broker, access, request)
    return Handled(partial(fetch_messages, refuse=may_read.refuse))
