"""What a console is told by a control port, in another process or beside it.

`HttpControl` is the control of brokers in another process. `present_over` returns what a group does
now, by the same operations in both cases [console/inside].
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from coterie.client.control_port import ControlPort, ControlUnreachable
from coterie.server.beside import BrokerControl
from coterie.server.network.http_errors import Refused
from coterie.server.present import MOST_RANGES, InPartition, MemberSession, Present
from coterie.server.share.seen_records import InFlight


class HttpControl:
    """The control of brokers in another process; see `BrokerControl`."""

    def __init__(self, port: ControlPort) -> None:
        """Take where the control port is; nothing is sent yet."""
        self._port = port

    def perform(self, method: str, path: str, fields: Mapping[str, Any]) -> Any:
        """Perform an operation, and return its answer.

        Args:
            method, path: those of the operation, as docs/control.md has them.
            fields: its fields as JSON, with those that the path names.

        Raises:
            Refused: a field is wrong, the brokers do not run, or the port does not answer.
        """
        names = {name for name in fields if f"{{{name}}}" in path}
        address = path.format(**{name: quote(str(fields[name]), safe="") for name in names})
        rest = {name: each for name, each in fields.items() if name not in names}
        try:
            answer = self._port.send(method, address, rest if method == "POST" else None)
        except ControlUnreachable as error:
            raise Refused("BrokerDown", error.cause) from None
        if answer.is_error:
            found = answer.body if isinstance(answer.body, dict) else {}
            kind = "BrokerDown" if found.get("kind") == "BrokerNotStarted" else "BadRequest"
            raise Refused(kind, str(found.get("error", "this is no control port of Coterie")))
        return answer.body


def present_over(control: BrokerControl, group_id: str) -> Present | None:
    """Return what a group does now, as a control tells it.

    Args:
        control: that of the brokers.
        group_id: the group.

    Returns:
        None if there is no such group, or nobody answers.
    """
    fields = {"group_id": group_id}
    try:
        sessions = control.perform("GET", "/groups/{group_id}/sessions", fields)
        shared = control.perform("GET", "/groups/{group_id}/share_partitions", fields)
    except Refused:
        return None
    records = []
    for partition, each in shared.items():
        topic, _, index = partition.rpartition("-")
        records += [InPartition(topic, int(index), InFlight(**one)) for one in each["records"]]
    return Present(
        {each["member_id"]: MemberSession(**each) for each in sessions},
        records=tuple(records[:MOST_RANGES]) if shared else None,
    )
