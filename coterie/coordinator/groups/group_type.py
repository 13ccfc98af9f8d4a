"""A type of groups, as the group coordinator sees it, and the types that a coordinator serves.

Offsets, their expiry, administration and the life of partitions are the same for all types and know
none of them. What differs is a `GroupType`: the records, the timers, what follows from a durable
write, what a loaded group does first, and how a group ends. What can be asked of one group without
changing it, such as how it is described, is in `GroupLike`.

A type has a folder of its own, with the verbs of its requests. Adding one changes nothing outside
of it but the list in `served_types.py`, and the routes of its requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.replay import GroupRecords, LoggedState
from coterie.coordinator.groups.responses import ERROR_RESPONSES, ErrorResponse
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refusal


class GroupType:
    """A type of groups.

    Attributes:
        name: Kafka's name of it, in lower case; that of its groups, `GroupLike.group_type`.
        states: the names of the states of its groups.
        timers: the kinds of its timers; no two types have one in common.
        long_timers: those that do some milliseconds of work when they fire.
        error_responses: by the type of a request, or of the part of one about one group: makes the
            response that carries nothing but an error, where `refusal` does not make it.
    """

    name: str
    states: tuple[str, ...] = ()
    timers: frozenset[str] = frozenset()
    long_timers: frozenset[str] = frozenset()
    error_responses: Mapping[type, ErrorResponse] = {}

    # -- the log -----------------------------------------------------------------------------------

    def records(self) -> GroupRecords:
        """Return what the records of this type add up to before the first one."""
        raise NotImplementedError

    def restored(self, records: Any) -> Iterable[GroupLike]:
        """Yield the groups that the records of a log describe [coordinator/restored-groups].

        Args:
            records: what `records` returned, with every record of the log applied.
        """
        raise NotImplementedError

    # -- the life of a group -----------------------------------------------------------------------

    def create(self, group_id: str, now_ms: int | None) -> GroupLike:
        """Return a new group without members; the time is None if its age is not known."""
        raise NotImplementedError

    def loaded(
        self, partition: PartitionState, group: Any, now_ms: int, effects: Effects[Any]
    ) -> None:
        """Begin to serve a group that was loaded: its members' sessions start."""

    def removed(self, group: Any, effects: Effects[Any]) -> None:
        """Cancel the timers of a group that was removed, or replaced by one of another type.

        The verb that did it has answered the delayed requests.
        """

    def close(self, group: Any, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """Answer the delayed requests of a group whose partition is given up.

        Its timers are cancelled, and it does not exist any more.
        """

    # -- what happens to it ------------------------------------------------------------------------

    def timer_fired(
        self,
        partition: PartitionState,
        group: Any,
        kind: str,
        member_id: str,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """Handle a timer of a group; the member id is "" for one of the group itself."""
        raise NotImplementedError

    def complete(
        self,
        partition: PartitionState,
        group: Any,
        completion: Any,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """Do what follows from a durable operation of a group that is still the same one."""
        raise NotImplementedError

    def late(
        self,
        partition: PartitionState,
        group: Any,
        completion: Any,
        error: ErrorCode,
        now_ms: int,
        effects: Effects[Any],
    ) -> None:
        """Do what follows if an operation of a group takes too long to become durable."""
        raise NotImplementedError

    def handle(
        self,
        partition: PartitionState,
        group: Any,
        now_ms: int,
        request: Any,
        context: RequestContext,
    ) -> Effects[Any]:
        """Handle a request of another type's protocol; here it is refused."""
        raise NotImplementedError

    def before_deletion(
        self,
        partition: PartitionState,  # noqa: ARG002 - for types that have something to do
        group: Any,  # noqa: ARG002 - as above
        now_ms: int,  # noqa: ARG002 - as above
        context: RequestContext,  # noqa: ARG002 - as above
        to: Any,  # noqa: ARG002 - as above
    ) -> Effects[Any] | None:
        """Do what comes before the deletion of a group that may be deleted; None if nothing does.

        Args:
            partition: the partition of the group.
            group: the group.
            now_ms: the time.
            context: the client that asks for it.
            to: the place of the group in the response, which waits if something has to be done.
        """
        return None

    def topic_deleted(
        self,
        partition: PartitionState,  # noqa: ARG002 - for types that have something to do
        topic_id: bytes,  # noqa: ARG002 - as above
        now_ms: int,  # noqa: ARG002 - as above
    ) -> Iterator[Effects[Any]]:
        """Yield the steps by which the groups of a partition forget a topic that was deleted.

        Requests may be handled between two steps.
        """
        return iter(())


class GroupTypes:
    """The types of groups that a coordinator serves.

    Attributes:
        types: all of them.
        of_commits: the type of a group that comes into being by a commit of offsets.
        states: the names of the states that groups may have.
        by_timer: each by the kinds of its timers.
        long_timers: the kinds of timers that do some milliseconds of work.
    """

    def __init__(self, types: Sequence[GroupType]) -> None:
        """Serve some types; the first is that of groups which a commit creates."""
        self.types = types
        self.of_commits = types[0]
        self._by_name = {each.name: each for each in types}
        assert len(self._by_name) == len(types), "each type has a name of its own"
        self.states = list(dict.fromkeys(name for each in types for name in each.states))
        self.by_timer = {kind: each for each in types for kind in each.timers}
        self.long_timers = frozenset(kind for each in types for kind in each.long_timers)
        self._error_responses = dict(ERROR_RESPONSES)
        for each in types:
            self._error_responses.update(each.error_responses)
        kinds = sum(len(each.timers) for each in types)
        assert len(self.by_timer) == kinds, "a kind of timer belongs to one type"

    def of(self, group: GroupLike) -> GroupType:
        """Return the type of a group."""
        return self._by_name[group.group_type]

    def logged_state(self) -> LoggedState:
        """Return what the records of a partition add up to before the first one."""
        return LoggedState({each.name: each.records() for each in self.types})

    def error_response(self, request: Any, error: ErrorCode, version: int) -> Any:
        """Return the response that carries nothing but an error.

        Args:
            request: a group request, or the part of one that concerns one group.
            error: already translated if it comes from the log.
            version: the version of the request.
        """
        return self._error_responses.get(type(request), refusal)(request, error, version)
