"""Why a check is skipped: releases, versions, settings, bounds and waits."""

from pathlib import Path

import pytest

from coterie.address import Address
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.preconditions import reason_to_skip
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.releases import NEWEST, Release, parse_release, resembled_release
from coterie.conformance.transcript import parse
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey


def check_of(
    text: str,
    suffix: str = ".txt",
    *,
    since: Release | None = None,
    until: Release | None = None,
) -> Check:
    transcript = parse(f"# A check.\n\n{text}", Path(f"x{suffix}"))
    check = Check("a/b", "a", "A check.", "KIP-1", "JoinGroup", (), "a/b", transcript)
    return check._replace(since=since, until=until)


def target_of(settings: dict[str, str], **versions: tuple[int, int]) -> Target:
    target = Target(Address("127.0.0.1", 9092))
    target.versions = {int(key): served for key, served in SERVED_VERSIONS.items()}
    target.versions |= {int(ApiKey[name]): served for name, served in versions.items()}
    target.settings = settings
    return target


def reason(
    check: Check, target: Target, release: Release = NEWEST, *, thorough: bool = False
) -> str:
    return reason_to_skip(check, target, release, thorough=thorough)


JOIN = "c1> JoinGroup v9 member=x\n----\nc1< JoinGroup v9 error=UNKNOWN_MEMBER_ID member=x\n"


@pytest.mark.parametrize(
    ("since", "until", "release", "expected"),
    [
        ((3, 2), None, (3, 2), ""),
        ((3, 2), None, (2, 8), "holds since Kafka 3.2"),
        (None, (2, 8), (2, 8), ""),
        (None, (2, 8), (3, 0), "holds until Kafka 2.8"),
    ],
)
def test_release(
    since: Release | None, until: Release | None, release: Release, expected: str
) -> None:
    found = reason(check_of(JOIN, since=since, until=until), target_of({}), release)
    assert found.partition(",")[0] == expected


def test_older_version_does_unless_the_check_is_about_the_version() -> None:
    old = target_of({}, JOIN_GROUP=(0, 7))
    assert not reason(check_of(JOIN), old)
    assert reason(check_of(JOIN, ".checks"), old) == "the broker does not serve JoinGroup version 9"
    assert reason(check_of(JOIN.replace("x\n-", "x reason=y\n-")), old)
    assert reason(check_of(JOIN), target_of({}, JOIN_GROUP=(0, 6)))


def test_settings() -> None:
    full = check_of(f"config group.max.size=2\n{JOIN}")
    assert not reason(full, target_of({"group.max.size": "2"}))
    assert reason(full, target_of({"group.max.size": "9"})) == (
        "needs group.max.size=2, the broker has 9"
    )
    delayed = check_of(f"tick 1s\n{JOIN}")
    assert not reason(delayed, target_of({}))
    assert reason(delayed, target_of({"group.initial.rebalance.delay.ms": "0"})) == (
        "needs group.initial.rebalance.delay.ms=3000, the broker has 0"
    )
    assert not reason(check_of(JOIN), target_of({"group.initial.rebalance.delay.ms": "0"}))


def test_session_timeout_is_within_the_brokers_bounds() -> None:
    assert not reason(check_of(JOIN), target_of({}))
    assert reason(check_of(JOIN), target_of({"group.min.session.timeout.ms": "30000"})) == (
        "needs a session timeout of 10000 ms, the broker allows 30000 to 1800000"
    )


def test_long_waits_are_for_thorough_runs() -> None:
    long = check_of(f"tick 1m\n{JOIN}")
    assert reason(long, target_of({})) == "takes 60 s; --thorough runs it"
    assert not reason(long, target_of({}), thorough=True)
    assert reason(check_of(f"tick 2h\n{JOIN}"), target_of({}), thorough=True) == "takes 7200 s"


def test_broker_resembles_the_newest_release_whose_versions_it_announces() -> None:
    assert resembled_release(target_of({}).versions) == NEWEST
    assert resembled_release({}) == (2, 5)
    served = {int(ApiKey.LIST_GROUPS): (0, 4), int(ApiKey.FETCH): (0, 12)}
    assert resembled_release(served) == (2, 7)
    assert parse_release("2.8.2") == (2, 8)
    with pytest.raises(ValueError, match="is not a release"):
        parse_release("trunk")


@pytest.mark.parametrize(
    ("level", "expected"),
    [("1", ""), ("2", ""), ("0", "needs transaction.version=1|2, the broker has 0")],
)
def test_one_of_several_values(level: str, expected: str) -> None:
    text = "config transaction.version=1|2\nc1> ApiVersions v0\n----\nc1< ApiVersions v0\n"
    found = reason(check_of(text, ".checks"), target_of({"transaction.version": level}))
    assert found == expected
