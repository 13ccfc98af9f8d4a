"""Requests in the versions of an older broker, where that changes nothing that is compared.

Transcripts use the newest version of an API. A broker that ends earlier gets the request in its
own last version if the fields that are left out play no part in the transcript.
"""

import re
from typing import NamedTuple

from coterie.conformance.over_tcp.target import Target
from coterie.conformance.transcript import Transcript
from coterie.conversation.structures import API_KEYS
from coterie.conversation.syntax import RequestLine

CHAPTER_SUFFIX = ".checks"


class _Lowering(NamedTuple):
    """The versions from `floor` to `top` differ only in what the pattern `needs` finds."""

    floor: int
    top: int
    needs: str


_LOWERINGS = {
    # v8 has a reason, v9 skip_assignment, which only a static leader sees.
    "JoinGroup": _Lowering(7, 9, r"\breason="),
    # v5 has a reason.
    "LeaveGroup": _Lowering(3, 5, r"\breason="),
    # v9 is for consumer groups of KIP-848.
    "OffsetCommit": _Lowering(8, 9, r"$^"),
    "OffsetFetch": _Lowering(8, 9, r"$^"),
}
_RESPONSE = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)< (?P<api>[A-Z]\w+) v(?P<version>\d+)\b")


def is_exact(transcript: Transcript) -> bool:
    """Return whether a transcript is about its versions: it is a section of a chapter."""
    return transcript.path.suffix == CHAPTER_SUFFIX


def served_version(
    api: str, version: int, arguments: str, target: Target, *, exact: bool = False
) -> int | None:
    """Return the version in which to send a request; None if the broker serves none that fits.

    Args:
        api, version, arguments: of the request.
        target: the broker.
        exact: whether only this version will do.
    """
    if target.serves(API_KEYS[api], version):
        return version
    if exact:
        return None
    lowering = _LOWERINGS.get(api)
    if lowering is None or not lowering.floor < version <= lowering.top:
        return None
    last = target.versions.get(API_KEYS[api], (0, -1))[1]
    if not lowering.floor <= last < version or re.search(lowering.needs, arguments):
        return None
    return last


def lowered_request(request: RequestLine, target: Target) -> RequestLine:
    """Return a request in a version that the broker serves, if one fits."""
    version = served_version(request.api, request.version, request.arguments, target)
    return request if version is None else request._replace(version=version)


def lowered_expectation(line: str, target: Target) -> str:
    """Return the first line of an expected response in the version of the lowered request."""
    match = _RESPONSE.match(line)
    if match is None or match["api"] not in _LOWERINGS:
        return line
    version = served_version(match["api"], int(match["version"]), "", target)
    if version is None:
        return line
    head = f"{match['client']}< {match['api']} v{version}"
    return head + line[match.end() :]
