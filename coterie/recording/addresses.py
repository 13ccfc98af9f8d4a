"""Addresses of brokers in responses, which a proxy replaces by its own [recording/proxy].

Metadata, FindCoordinator and DescribeCluster name brokers, and Produce and Fetch name the new
leader of a partition. A broker may serve newer versions of these than this program can read, so the
response to ApiVersions is capped for them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey, is_declared
from coterie.protocol.apis import response_class
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.frames import decode_response
from coterie.protocol.wire import Message
from coterie.recording.redaction import RequestStart

# The APIs with addresses, and the first version of each that has any.
_WITH_ADDRESSES = {
    ApiKey.METADATA: 0,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}


class AddressedResponse(NamedTuple):
    """A response with addresses, decoded.

    Attributes:
        correlation_id, version: of the response.
        message: the message, whose structures can be changed.
        nodes: the structures that have a node id, a host and a port.
    """

    correlation_id: int
    version: int
    message: Message
    nodes: list[Any]

    def encode(self) -> bytes:
        """Return the frame, without its length."""
        frame: bytes = type(self.message).framer(self.version)(self.message, self.correlation_id)
        return frame[4:]


def addressed_response(frame: bytes, request: RequestStart) -> AddressedResponse | None:
    """Return a response that names brokers; None for every other one."""
    api_key, version, _ = request
    first = _WITH_ADDRESSES.get(api_key)  # type: ignore[call-overload]
    if first is None or version < first or not is_declared(ApiKey(api_key), version):
        return None
    try:
        correlation_id, message = decode_response(response_class(ApiKey(api_key)), frame, version)
    except DECODE_ERRORS:
        return None
    nodes = list(_nodes(message))
    return AddressedResponse(correlation_id, version, message, nodes) if nodes else None


def node_id_of(node: Any) -> int:
    """Return the node id of a structure with an address."""
    found = getattr(node, "node_id", None)
    return int(node.broker_id if found is None else found)


def address_of(node: Any) -> Address:
    """Return the address of a structure."""
    return Address(node.host, node.port)


def capped_versions(frame: bytes, request: RequestStart) -> bytes:
    """Return a response to ApiVersions in which clients find no version with hidden addresses."""
    cls: Any = response_class(ApiKey.API_VERSIONS)
    for version in (request.version, 0):
        if not is_declared(ApiKey.API_VERSIONS, version):
            continue
        try:
            correlation_id, message = decode_response(cls, frame, version)
        except DECODE_ERRORS:
            continue
        for each in message.api_keys:
            if each.api_key in _WITH_ADDRESSES:
                last = SERVED_VERSIONS[ApiKey(each.api_key)][1]
                each.max_version = min(each.max_version, last)
        encoded: bytes = cls.framer(version)(message, correlation_id)[4:]
        return encoded
    return frame


def _nodes(message: Any) -> Iterator[Any]:
    if hasattr(message, "host"):
        holders = [message]
    else:
        holders = []
    for field in ("brokers", "coordinators", "node_endpoints"):
        holders += getattr(message, field, ())
    # An error has no address.
    return (each for each in holders if each.host and each.port > 0)
