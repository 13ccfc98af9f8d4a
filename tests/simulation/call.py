"""One request on its way through the coordinator, with the notes of the checks."""

from typing import Any

from coterie.conformance.harness import GROUP_APIS
from coterie.conversation.versions import FETCH_GROUPS_SINCE
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest


class Call:
    """A request and its fate.

    Attributes:
        number: its reply address, unique in a run.
        request, version: the request and the version in which it is sent.
        client: the client id in the request header.
        sent_ms: when it was sent.
        api: Kafka's name of its API.
        early: the coordinator decides without reading the group, so the response waits for nothing.
        expected: the error code that the specification requires; see `checks.oracle`.
        batches: (partition, batch number) of each append that this request made.
        behind: (partition, batch number) of the newest pending append on each partition concerned
            when it was sent.
        delayed: it waits in a member for an event of its group.
        answered: its response has left the coordinator.
        superseded: a repeated request took its place, so it gets no response.
        notes: what the checks noted when it was sent, by the name of the note.
    """

    __slots__ = (
        "answered",
        "api",
        "batches",
        "behind",
        "client",
        "delayed",
        "early",
        "expected",
        "notes",
        "number",
        "request",
        "sent_ms",
        "superseded",
        "version",
    )

    def __init__(self, number: int, request: Any, version: int, client: str, sent_ms: int) -> None:
        self.number = number
        self.request = request
        self.version = version
        self.client = client
        self.sent_ms = sent_ms
        self.api = GROUP_APIS[type(request)].name
        self.early = False
        self.expected: Any = None
        self.batches: list[tuple[int, int]] = []
        self.behind: list[tuple[int, int]] = []
        self.delayed = False
        self.answered = False
        self.superseded = False
        self.notes: dict[str, Any] = {}

    def context(self) -> RequestContext:
        """Return the sender as the coordinator sees it."""
        return RequestContext(
            ClientContext(client_host=f"/10.0.0.{len(self.client)}", client_id=self.client),
            self.version,
            self.number,
        )

    def group_ids(self) -> list[str]:
        """Return the groups that the request names."""
        request = self.request
        if type(request) is OffsetFetchRequest and self.version >= FETCH_GROUPS_SINCE:
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
