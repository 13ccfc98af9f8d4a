"""One request on its way through the coordinator, with what the checks noted about it."""

from collections.abc import Hashable
from typing import Any

from coterie.coordinator.effects import RequestContext
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest

# Request class to (name of the API, method of the coordinator).
APIS: dict[type, tuple[str, str]] = {
    JoinGroupRequest: ("JoinGroup", "join_group"),
    SyncGroupRequest: ("SyncGroup", "sync_group"),
    HeartbeatRequest: ("Heartbeat", "heartbeat"),
    LeaveGroupRequest: ("LeaveGroup", "leave_group"),
    OffsetCommitRequest: ("OffsetCommit", "offset_commit"),
    OffsetFetchRequest: ("OffsetFetch", "offset_fetch"),
    OffsetDeleteRequest: ("OffsetDelete", "offset_delete"),
    ListGroupsRequest: ("ListGroups", "list_groups"),
    DescribeGroupsRequest: ("DescribeGroups", "describe_groups"),
    DeleteGroupsRequest: ("DeleteGroups", "delete_groups"),
}


class Call:
    """A request and its fate.

    Attributes:
        number: its reply address; unique over a run.
        request, version: what is asked.
        client: who asks; the header's client id.
        sent_ms: when.
        api: its name.
        early: it is decided before its group is looked at, and so waits for nothing.
        expected: what the specification's tables say of it: see `checks.oracle`.
        batches: (partition, number) of the appends this request made.
        behind: (partition, number) of the newest append before it on each partition it concerns.
        parked: it waits in a member, for an event of its group.
        answered, orphaned: it has its answer; it will never get one, through its own retry.
        notes: what a check noted when it was sent, by the name of the check.
    """

    __slots__ = (
        "answered",
        "api",
        "batches",
        "behind",
        "client",
        "early",
        "expected",
        "method",
        "notes",
        "number",
        "orphaned",
        "parked",
        "request",
        "sent_ms",
        "version",
    )

    def __init__(self, number: int, request: Any, version: int, client: str, sent_ms: int) -> None:
        self.number = number
        self.request = request
        self.version = version
        self.client = client
        self.sent_ms = sent_ms
        self.api, self.method = APIS[type(request)]
        self.early = False
        self.expected: Any = None
        self.batches: list[tuple[int, int]] = []
        self.behind: list[tuple[int, int]] = []
        self.parked = False
        self.answered = False
        self.orphaned = False
        self.notes: dict[str, Any] = {}

    def context(self) -> RequestContext:
        """The sender as the coordinator sees it."""
        to: Hashable = self.number
        return RequestContext(self.client, f"/10.0.0.{len(self.client)}", self.version, to)

    def group_ids(self) -> list[str]:
        """The groups it concerns."""
        request = self.request
        if type(request) is OffsetFetchRequest and self.version >= 8:
            return [group.group_id for group in request.groups]
        if type(request) is DescribeGroupsRequest:
            return list(request.groups)
        if type(request) is DeleteGroupsRequest:
            return list(request.groups_names)
        if type(request) is ListGroupsRequest:
            return []
        return [request.group_id]

    def __repr__(self) -> str:
        return f"#{self.number} at {self.sent_ms} {self.client} v{self.version} {self.request!r}"
