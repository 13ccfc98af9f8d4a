"""The errors of the control port: each kind with its HTTP status and a remedy.

An error is answered with {"error": TEXT, "remedy": TEXT, "kind": NAME}. The kinds that
`coterie.testing` raises have the names of its exceptions, which `ProcessBroker` raises again.
"""

from typing import NamedTuple

from coterie.testing.errors import (
    BrokerLeak,
    BrokerNotStarted,
    FaultNotHit,
    RequestNotSeen,
    WaitTimedOut,
    WrongUse,
)


class Kind(NamedTuple):
    """A kind of error.

    Attributes:
        status: its HTTP status.
        remedy: what helps.
    """

    status: int
    remedy: str


# Raised by `coterie.testing`; a failed wait is a timeout of the request.
RAISED: dict[type[Exception], Kind] = {
    BrokerLeak: Kind(500, "stop the clients of this broker before it is closed"),
    BrokerNotStarted: Kind(503, "wait until GET /ready answers 200, or start a new broker"),
    FaultNotHit: Kind(409, "GET /requests shows what clients have sent; widen the fault's scope"),
    RequestNotSeen: Kind(404, "wait for the client, or GET /requests to see what it has sent"),
    WaitTimedOut: Kind(408, "read the picture of the group, or wait longer with timeout_s"),
    WrongUse: Kind(400, "correct the request; /docs describes each operation"),
}
# Found by the control port itself.
HTTP: dict[str, Kind] = {
    "BadRequest": Kind(400, "correct the request; /docs describes each operation"),
    "BodyTooLarge": Kind(413, "send fewer records at a time"),
    "HostRefused": Kind(403, "use the URL that was printed at the start"),
    "InternalError": Kind(500, "this is a bug of Coterie; its log has the traceback"),
    "MethodNotAllowed": Kind(405, "use a method of the header Allow; /docs lists all operations"),
    "NotFound": Kind(404, "/docs lists all operations"),
    "NotJson": Kind(415, "send the header `Content-Type: application/json`"),
    "Unauthorized": Kind(
        401, "send the header `Authorization: Bearer TOKEN` with the token printed at the start"
    ),
}
EXCEPTIONS = {cls.__name__: cls for cls in RAISED}


class Refused(Exception):  # noqa: N818 - it is an answer, no failure
    """A request that is answered with an error of `HTTP`.

    Attributes:
        kind: its name there.
        headers: further headers of the response.
    """

    def __init__(self, kind: str, text: str, *headers: tuple[bytes, bytes]) -> None:
        """Name the kind and describe the error."""
        super().__init__(text)
        self.kind = kind
        self.headers = headers


class Failure(NamedTuple):
    """An error as it is answered.

    Attributes:
        status: the HTTP status.
        body: the JSON object.
    """

    status: int
    body: dict[str, str]


def failure_of(error: BaseException) -> Failure:
    """Return how an error is answered."""
    # An error of a narrower class is answered as the class that clients know.
    raised = next((cls for cls in RAISED if isinstance(error, cls)), None)
    if isinstance(error, Refused):
        name, kind = error.kind, HTTP[error.kind]
    elif raised is not None:
        name, kind = raised.__name__, RAISED[raised]
    else:
        name, kind = "InternalError", HTTP["InternalError"]
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return Failure(kind.status, {"error": str(error), "remedy": kind.remedy, "kind": name})
