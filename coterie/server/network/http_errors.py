"""The errors of the HTTP ports: each kind with its status and a remedy.

An error is answered with {"error": TEXT, "remedy": TEXT, "kind": NAME}.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of error.

    Attributes:
        status: its HTTP status.
        remedy: what helps.
    """

    status: int
    remedy: str


KINDS: dict[str, Kind] = {
    "BadRequest": Kind(400, "correct the request; /docs describes each operation"),
    "BodyTooLarge": Kind(413, "send fewer records at a time"),
    "BrokerDown": Kind(503, "wait until the broker has started again, and ask again"),
    "HostRefused": Kind(403, "use the URL that was printed at the start"),
    "InternalError": Kind(500, "this is a bug of Coterie; its log has the traceback"),
    "MethodNotAllowed": Kind(405, "use a method of the header Allow; /docs lists all operations"),
    "NoSuchGroup": Kind(404, "`coterie groups list` lists the groups, and so does the first page"),
    "NothingToReplay": Kind(409, "ask again after a member has joined, left or died"),
    "NotFound": Kind(404, "/docs lists all operations"),
    "NotJson": Kind(415, "send the header `Content-Type: application/json`"),
    "OriginRefused": Kind(403, "open the URL that was printed at the start"),
    "PreviewGone": Kind(410, "preview the change again"),
    "ReadOnly": Kind(403, "start the console with --allow-changes"),
    "TooMany": Kind(429, "end one of the others; each ends by itself after ten minutes"),
    "Unauthorized": Kind(
        401, "send the header `Authorization: Bearer TOKEN` with the token printed at the start"
    ),
}


class Refused(Exception):  # noqa: N818 - it is an answer, no failure
    """A request that is answered with an error of `KINDS`.

    Attributes:
        kind: its name there.
        headers: further headers of the response.
    """

    def __init__(self, kind: str, text: str, *headers: tuple[bytes, bytes]) -> None:
        """Name the kind and describe the error."""
        super().__init__(text)
        self.kind = kind
        self.headers = headers


def not_served(method: str, shown: str, allowed: list[str]) -> Refused:
    """Return the refusal of a request for what is not served.

    Args:
        method: its method.
        shown: its path.
        allowed: the methods that are served there; none if there is no such path.
    """
    if not allowed:
        return Refused("NotFound", f"there is no {shown}")
    names = ", ".join(allowed)
    text = f"{method} is not served at {shown}, only {names}"
    return Refused("MethodNotAllowed", text, (b"allow", names.encode()))


class Failure(NamedTuple):
    """An error as it is answered.

    Attributes:
        status: the HTTP status.
        body: the JSON object.
    """

    status: int
    body: dict[str, str]


def failure_of(error: BaseException, raised: Mapping[type[Exception], Kind]) -> Failure:
    """Return how an error is answered.

    Args:
        error: the error; one that is not known here is a bug of ours.
        raised: further kinds, by the class that is raised.
    """
    # An error of a narrower class is answered as the class that clients know.
    known = next((cls for cls in raised if isinstance(error, cls)), None)
    if isinstance(error, Refused):
        name, kind = error.kind, KINDS[error.kind]
    elif known is not None:
        name, kind = known.__name__, raised[known]
    else:
        name, kind = "InternalError", KINDS["InternalError"]
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return Failure(kind.status, {"error": str(error), "remedy": kind.remedy, "kind": name})
