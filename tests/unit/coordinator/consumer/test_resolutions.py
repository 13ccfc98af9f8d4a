"""Regular expressions of a group are matched in parts, and the group may change between them.

[consumer-groups/regex] The situation K67 of tests/transcripts/scenarios.tsv is here: a transcript
sees the result of a heartbeat at once, because it lets all timers fire that are due.
"""

from collections.abc import Callable

import pytest

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.consumer.regexes import MIN_REFRESH_MS
from coterie.protocol.messages.consumer_group_records import ConsumerGroupRegularExpressionKey
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.consumer.harness import ConsumerHarness

TIMER = ("regex", "g", "")
# More names than are matched in one part.
TOPICS = 3_000
RANGE = ("range", encode_subscription(ConsumerProtocolSubscription(topics=["foo1"]), 1))


class Matching(ConsumerHarness):
    """A group whose only member has just subscribed to a regular expression."""

    def __init__(self) -> None:
        super().__init__({f"foo{number}": 1 for number in range(TOPICS)})
        self.subscribe()

    def subscribe(self) -> None:
        self.beat("m1", 0, subscribed_topic_regex="foo[0-9]")
        self.advance()
        assert self.consumer_group().resolution is not None, "it takes several parts"

    def results(self) -> int:
        """Return how many results were written."""
        return sum(
            value is not None and isinstance(key, ConsumerGroupRegularExpressionKey)
            for batch in self.written
            for key, value in batch
        )


def is_deleted(harness: Matching) -> None:
    harness.beat("m1", -1)
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, "delete")
    assert harness.coordinator.group("g") is None


def is_replaced_by_a_classic_group(harness: Matching) -> None:
    harness.beat("m1", -1)
    harness.join("c1", protocols=(RANGE,))
    assert isinstance(harness.coordinator.group("g"), Group)


def is_unloaded(harness: Matching) -> None:
    harness.carry_out(harness.coordinator.unload(0, None, harness.now_ms))


def is_loaded_again(harness: Matching) -> None:
    harness.restart()


def drops_its_expression(harness: Matching) -> None:
    harness.beat("m1", 1, subscribed_topic_regex="")


@pytest.mark.parametrize(
    "event",
    [
        is_deleted,
        is_replaced_by_a_classic_group,
        is_unloaded,
        is_loaded_again,
        drops_its_expression,
    ],
)
def test_result_of_a_group_that_is_gone_meanwhile_is_not_written(
    event: Callable[[Matching], None],
) -> None:
    harness = Matching()
    event(harness)
    harness.wait(0)
    assert harness.results() == 0
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None
    if event is not is_unloaded:
        assert harness.live() == harness.replayed()


def test_group_of_the_same_id_matches_anew() -> None:
    harness = Matching()
    harness.advance()
    is_deleted(harness)
    harness.create_topic("foo", 1)
    harness.subscribe()
    harness.wait(0)
    assert harness.results() == 1
    found = harness.consumer_group().regexes["foo[0-9]"].topics
    assert found == {f"foo{number}" for number in range(10)}
    assert harness.live() == harness.replayed()


def test_many_names_that_match_are_encoded_in_parts() -> None:
    """A regular expression that is dropped between two parts is not written."""
    harness = ConsumerHarness({f"foo{number}": 1 for number in range(TOPICS)})
    regexes = [f"f.*|{number}" for number in range(15)]
    for number, regex in enumerate(regexes):
        harness.beat(f"m{number}", 0, subscribed_topic_regex=regex)
    group = harness.consumer_group()
    # The first resolution is of the first member's.
    harness.wait(MIN_REFRESH_MS + 1)
    assert list(group.regexes) == regexes[:1]
    harness.beat("m1", group.members["m1"].epoch)
    parts = 0
    while not group.resolution.matches:
        harness.advance()
        parts += 1
        assert parts < 200, "names are matched"
    encoded = list(group.resolution.matches)
    assert 1 < len(encoded) < len(regexes)
    harness.beat("m14", group.members["m14"].epoch, subscribed_topic_regex="")
    harness.wait(0)
    assert list(group.regexes) == regexes[:-1]
    everything = {f"foo{number}" for number in range(TOPICS)}
    assert all(each.topics == everything for each in group.regexes.values())
    assert harness.live() == harness.replayed()
