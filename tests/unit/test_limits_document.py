"""The page of the limits has a value for each limit that a file of the code has."""

import pytest

from documentation.reference.limits import Limit, limits

# What has no number of its own, or several parts in several files.
WITHOUT_CONSTANT = {
    "one group named many times (DescribeGroups, OffsetFetch)",
    "other memory of a cleaning",
    "logs cleaned at the same time",
}
LIMITS = {each.what: each for each in limits()}


def test_a_limit_of_a_file_has_its_constant() -> None:
    without = {each.what for each in LIMITS.values() if each.file and not each.names()}
    assert without == WITHOUT_CONSTANT


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("size of a request", "`socket.request.max.bytes`, 100 MiB; closed when"),
        ("smallest request", "10 bytes (`server/network/limits.py`); closed"),
        ("time to log in, with the handshakes of TLS and SASL", "10 s from the accept"),
        ("time of the event loop for a cleaning", "0.5 ms, then three times as long"),
        ("unread responses of a connection", "muted; closed after 30 s, or at once above 128 MiB"),
        ("groups", "100,000; of one partition twice"),
    ],
)
def test_a_limit_is_written_with_its_unit(what: str, line: str) -> None:
    assert line in LIMITS[what].line()


def test_every_limit_can_be_written() -> None:
    assert all("{" not in each.line() for each in LIMITS.values())


def test_a_constant_that_is_gone_is_an_error() -> None:
    with pytest.raises(AttributeError):
        Limit("this", "{GONE}", "server/network/limits.py", "closed").line()
