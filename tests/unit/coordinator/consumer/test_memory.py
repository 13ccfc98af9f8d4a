"""What a consumer group of one member takes in memory, offsets and connections left out."""

import gc
import tracemalloc

from tests.unit.coordinator.consumer.harness import ConsumerHarness, topic_id

GROUPS = 300
# 5,000 groups then take 24 MiB beside the 37 MiB of a started broker, and the aim is 70 MiB
# (docs/benchmarks.md).
MOST_BYTES = 5_000


def test_group_of_one_member_is_small() -> None:
    harness = ConsumerHarness({"foo": 1})

    def create(first: int, last: int) -> None:
        for number in range(first, last):
            group_id, member_id = f"group-{number:010}", f"member-{number:016}"
            harness.enter(member_id, "foo", group_id=group_id)
            answer = harness.beat(member_id, 2, {topic_id("foo"): [0]}, group_id=group_id)
            assert not answer.error_code
        # What the harness keeps is not memory of the coordinator.
        harness.written.clear()
        harness.responses.clear()
        harness.events.clear()
        for log in harness.logs:
            log.durable.clear()

    create(0, 10)  # compiles codecs
    sizes = []
    # What else the process allocates meanwhile counts, too, so the least of three is taken.
    for first in range(10, 10 + 3 * GROUPS, GROUPS):
        gc.collect()
        tracemalloc.start()
        try:
            create(first, first + GROUPS)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert 1_000 < min(sizes) / GROUPS < MOST_BYTES
