"""Why a check is skipped: releases, versions, settings, bounds and waits."""

from pathlib import Path

import pytest

from coterie.address import Address
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.group_settings import DEFAULT_GROUP_SETTINGS
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


DELAY = "group.initial.rebalance.delay.ms"
DELAYED = 'c1> JoinGroup v3 member=""\n----\nc1  (delayed)\n'
PAIR = """\
given orders Stable c1 c2
----
orders Stable generation=1 leader=c1-1 members=[c1-1, c2-1]
"""
ALONE = "given orders Stable c1\n----\norders Stable generation=1 leader=c1-1 members=[c1-1]\n"
SHORT = """\
c1> JoinGroup v3 member="" session=5s
----
c1< JoinGroup v3 error=INVALID_SESSION_TIMEOUT member=""
"""
# A client that no core serves beside a group: the core cannot say with which settings this holds.
STRANGE = f"c2> ApiVersions v0\n{PAIR}"


@pytest.mark.parametrize(
    ("text", "name", "value", "holds"),
    [
        (JOIN, DELAY, "0", True),
        (DELAYED, DELAY, "0", False),
        (DELAYED, DELAY, "5000", True),
        (PAIR, DELAY, "0", False),
        (PAIR, DELAY, "2000", True),
        (ALONE, DELAY, "0", True),
        (STRANGE, DELAY, "0", False),
        (STRANGE, "group.max.size", "5", True),
        (PAIR, "group.max.size", "2", True),
        (PAIR, "group.max.size", "1", False),
        (JOIN, "group.min.session.timeout.ms", "30000", False),
        (SHORT, "group.min.session.timeout.ms", "5000", False),
        (SHORT, "group.min.session.timeout.ms", "5001", True),
        (PAIR, "group.max.session.timeout.ms", "9999", False),
        (JOIN, "num.partitions", "7", True),
    ],
)
def test_conversation_of_a_group_runs_only_with_settings_with_which_it_holds(
    text: str, name: str, value: str, *, holds: bool
) -> None:
    assert not reason(check_of(text), target_of({}))
    found = reason(check_of(text), target_of({name: value}))
    default = DEFAULT_GROUP_SETTINGS.get(name)
    assert found == ("" if holds else f"needs {name}={default}, the broker has {value}")


def test_deadline_near_the_brokers_delay_is_no_check_in_real_time() -> None:
    text = f"{DELAYED}\ntick 1s\n----\n"
    assert not reason(check_of(text), target_of({DELAY: "1600"}))
    assert reason(check_of(text), target_of({DELAY: "1400"}))


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


INIT = "c1> InitProducerId v3 transaction_timeout_ms=60000\n----\nc1< InitProducerId v3\n"
SESSION = "c1> Fetch v7 session_id=0 session_epoch=0\n----\nc1< Fetch v7\n"
DELETION = "c1> DeleteTopics v3 topic_names=[@t]\n----\nc1< DeleteTopics v3\n"
WAIT = "c1> ApiVersions v0\ntick 2s\ntick 2s\n----\nc1< ApiVersions v0\n"


@pytest.mark.parametrize(
    ("text", "name", "value", "expected"),
    [
        (INIT, "transaction.max.timeout.ms", "60000", ""),
        (INIT, "transaction.max.timeout.ms", "59999", "needs {} of at least 60000, "),
        (SESSION, "max.incremental.fetch.session.cache.slots", "1000", ""),
        (SESSION, "max.incremental.fetch.session.cache.slots", "9", "needs {} of at least 1000, "),
        (DELETION, "delete.topic.enable", "true", ""),
        (DELETION, "delete.topic.enable", "false", "needs {}=true, "),
        (WAIT, "connections.max.idle.ms", "4000", ""),
        (WAIT, "connections.max.idle.ms", "3999", "needs {} of at least 4000, "),
    ],
)
def test_limits_of_the_broker(text: str, name: str, value: str, expected: str) -> None:
    found = reason(check_of(text, ".checks"), target_of({name: value}))
    assert found == (expected and f"{expected.format(name)}the broker has {value}")


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [(0, "needs a cluster of 3 brokers, this one has 0"), (2, "this one has 2"), (3, ""), (4, "")],
)
def test_number_of_brokers(brokers: int, expected: str) -> None:
    target = target_of({})
    target.cluster = {node: Address("127.0.0.1", 9092 + node) for node in range(brokers)}
    check = check_of("c1> Metadata v1 topics=[]\n----\nc1< Metadata v1\n")
    assert reason(check, target) == ""
    found = reason(check._replace(brokers=3), target)
    assert (expected in found) if expected else not found
