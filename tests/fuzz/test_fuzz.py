"""A few seconds of fuzzing in every run of the tests; `make fuzz` does it for minutes."""

import os
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.protocol.api_keys import SERVED_VERSIONS
from coterie.protocol.apis import request_class
from coterie.protocol.schema import fields_of
from coterie.server.metadata import topics
from tests.fuzz.amplification import costs
from tests.fuzz.canary import find_canary
from tests.fuzz.corpus import frames
from tests.fuzz.live import LiveTarget
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Target

SECONDS = float(os.environ.get("COTERIE_TEST_FUZZ_SECONDS", "3"))
CORPUS = frames()
# The APIs are filled in so many parts.
PARTS = 3


@pytest.fixture(autouse=True, scope="module")
def _limits() -> Iterator[None]:
    # Targets lower this limit; other tests of the same process need the original.
    before = topics.MAX_PARTITIONS
    yield
    topics.MAX_PARTITIONS = before


@pytest.fixture(scope="module")
def target() -> Target:
    return Target()


def test_the_planted_bug_is_found() -> None:
    find_canary(seed=1)


def test_the_corpus_is_served() -> None:
    """No frame of the corpus is malformed: mutation starts from correct requests."""
    target = Target()
    for frame in CORPUS:
        target.feed(frame)
    # A Produce with acks=0 and an error closes the connection too, because it has no response.
    assert target.refusals["MalformedFrame"] == 0
    assert target.answered > 0.9 * len(CORPUS)


def test_mutated_frames_keep_the_invariant() -> None:
    target, mutator = Target(), Mutator(CORPUS, seed=20_261_121)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for _ in range(200):
            target.feed(mutator.next())
        target.pass_time()
    assert min(target.answered, target.refused) > 0.1 * target.frames


def test_mutated_frames_over_sockets_affect_no_other_client() -> None:
    mutator = Mutator(CORPUS, seed=7)
    deadline = time.monotonic() + SECONDS
    with LiveTarget() as live:
        while time.monotonic() < deadline or live.connections <= 100:
            for _ in range(50):
                live.feed(mutator)
            live.regular_request()
        assert live.connections > 100


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_any_bytes_keep_the_invariant(target: Target, data: bytes) -> None:
    target.feed(data)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CORPUS),
    st.integers(0, 300),
    st.binary(max_size=8),
    st.integers(0, 8),
    st.booleans(),
)
def test_a_frame_with_replaced_bytes_keeps_the_invariant(
    target: Target, frame: bytes, position: int, data: bytes, removed: int, right_length: bool
) -> None:
    position = min(position + 4, len(frame))
    body = frame[4:position] + data + frame[position + removed :]
    length = len(body) if right_length else len(frame) - 4
    target.feed(length.to_bytes(4) + body)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(CORPUS), min_size=1, max_size=5), st.lists(st.integers(0, 2000)))
def test_responses_do_not_depend_on_how_the_stream_is_split(
    sent: list[bytes], cuts: list[int]
) -> None:
    """The same stream gets the same responses, however it is split into reads."""
    stream = b"".join(sent)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    reads = [stream[a:b] for a, b in pairwise(places)]
    assert _response_sizes([stream]) == _response_sizes(reads)


def _response_sizes(reads: list[bytes]) -> list[int]:
    """Return the sizes of the responses to a stream; their content includes random ids."""
    from tests.unit.server.manual import Client, make_broker

    broker = make_broker()
    broker.controller.create("t", 2, {})
    client = Client(broker)
    for data in reads:
        client.connection.data_received(data)
    client.loop.advance(100)
    received, sizes = b"".join(client.transport.written), []
    while received:
        size = int.from_bytes(received[:4]) + 4
        sizes.append(size)
        received = received[size:]
    return sizes


@pytest.mark.parametrize("part", range(PARTS))
def test_every_array_of_every_api_may_be_full(part: int) -> None:
    """No request fails by our mistake; `make fuzz` also measures the cost."""
    found = list(costs(metered=False, part=part, parts=PARTS))
    with_arrays = {
        api.kafka_name
        for api in list(SERVED_VERSIONS)[part::PARTS]
        if any(each.type.element is not None for each in fields_of(request_class(api)))
    }
    assert {cost.name.split(".")[0] for cost in found} == with_arrays
