"""Whatever is asked of a consumer group, its log is what it has in memory, and nothing breaks.

Clients of the simulation behave sensibly. Here Hypothesis draws any epoch, any owned partitions and
any order, and shrinks a failure to the few steps that matter.
"""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.conformance.harness import START_MS
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.log_records import decode_key, decode_value
from coterie.protocol.messages.record_types import UnknownKey
from tests.simulation.log import newest
from tests.unit.coordinator.consumer.harness import ConsumerHarness, image, topic_id

TOPICS = ("foo", "bar", "baz")
MEMBERS = ("m1", "m2", "m3")
_IDS = [topic_id(name) for name in TOPICS]
_INTERNAL = (ErrorCode.UNKNOWN_SERVER_ERROR,)

member = st.sampled_from(MEMBERS)
names = st.lists(st.sampled_from(TOPICS), max_size=3)
owned = st.none() | st.dictionaries(
    st.sampled_from(_IDS), st.lists(st.integers(0, 3), max_size=3, unique=True), max_size=2
)
instance = st.none() | st.sampled_from(["i1", "i2"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), member, names, instance),
        st.tuples(st.just("enter_regex"), member, st.sampled_from(["f.*", ".*", "", "x"])),
        st.tuples(st.just("beat"), member, st.integers(-2, 1), owned, instance),
        st.tuples(st.just("confirm"), member),
        st.tuples(st.just("subscribe"), member, names),
        st.tuples(st.just("classic"), st.sampled_from(["c1", "c2"]), names),
        st.tuples(st.just("admin"), st.sampled_from([*MEMBERS, "c1", "c2"])),
        st.tuples(st.just("topic"), st.sampled_from(TOPICS), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.sampled_from([1, 1_000, 11_000, 45_000, 300_000])),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("fail")),
    ),
    max_size=40,
)


class _Harness(ConsumerHarness):
    """A harness in which a member may ask again before it has been answered."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self._unanswered: Counter[str] = Counter()

    def send(self, request: Any, version: int, to: str) -> Any:
        """See `UnitHarness`."""
        self._unanswered[to] += 1
        return super().send(request, version, to)

    def deliver(self, to: str, message: Any) -> None:
        """Keep the newest response; no request gets two."""
        self._unanswered[to] -= 1
        assert self._unanswered[to] >= 0, f"{to} gets more responses than it has sent requests"
        self.responses[to] = message


class Model:
    """A coordinator whose log is compared with its memory after every step."""

    def __init__(self, *, holds: bool) -> None:
        self.harness = _Harness({"foo": 3, "bar": 2})
        self.harness.holds = holds
        self._ids: dict[str, str] = {}
        self._lives = 0

    def step(self, verb: str, *arguments: Any) -> None:
        """Do one step, and check."""
        harness = self.harness
        getattr(self, f"_{verb}")(*arguments)
        assert harness.live() == harness.replayed()
        for group in harness.coordinator.groups():
            if isinstance(group, ConsumerGroup):
                self._check(group)

    def _check(self, group: ConsumerGroup) -> None:
        assert not group.unlogged
        deadline_ms = self.harness.coordinator.purgatory.deadline_ms
        for each in group.members.values():
            armed_ms = deadline_ms(("consumer session", group.group_id, each.member_id))
            assert armed_ms == each.armed_ms >= START_MS
            assert armed_ms <= each.deadline_ms

    def _group(self) -> ConsumerGroup | None:
        found = self.harness.coordinator.group("g")
        return found if isinstance(found, ConsumerGroup) else None

    def _epoch(self, member_id: str) -> int:
        group = self._group()
        known = None if group is None else group.members.get(member_id)
        return 0 if known is None else known.epoch

    # -- the steps ---------------------------------------------------------------------------------

    def _enter(self, member_id: str, topics: list[str], instance_id: str | None) -> None:
        self.harness.enter(member_id, *topics, instance_id=instance_id)

    def _enter_regex(self, member_id: str, regex: str) -> None:
        self.harness.beat(member_id, 0, subscribed_topic_regex=regex)

    def _beat(
        self,
        member_id: str,
        more: int,
        owns: dict[bytes, list[int]] | None,
        instance_id: str | None,
    ) -> None:
        epoch = self._epoch(member_id) + more
        if epoch == 0:
            return
        self.harness.beat(member_id, epoch, owns, instance_id=instance_id)

    def _confirm(self, member_id: str) -> None:
        group = self._group()
        known = None if group is None else group.members.get(member_id)
        if known is not None and known.epoch > 0:
            answer = self.harness.beat(member_id, known.epoch, known.assigned)
            assert answer is None or answer.error_code not in _INTERNAL

    def _subscribe(self, member_id: str, topics: list[str]) -> None:
        epoch = self._epoch(member_id)
        if epoch:
            self.harness.beat(member_id, epoch, subscribed_topic_names=topics)

    def _classic(self, name: str, topics: list[str]) -> None:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=topics), 1)
        answer = self.harness.join(
            name, self._ids.get(name, ""), protocols=(("range", subscription),)
        )
        if answer is None:
            return
        if answer.error_code:
            self._ids[name] = ""
            return
        self._ids[name] = answer.member_id
        self.harness.sync(f"{name} syncs", answer.member_id, answer.generation_id)
        self.harness.heartbeat(answer.member_id, answer.generation_id)

    def _admin(self, name: str) -> None:
        self.harness.leave("admin", self._ids.get(name) or name)

    def _topic(self, name: str, count: int) -> None:
        before = self.harness.topics.image.by_name.get(name)
        if not count and before is not None:
            self.harness.delete_topic(name)
        elif before is None:
            self._lives += 1
            self.harness.create_topic(name, max(count, 1), self._lives)
        elif count > before.partitions:
            self.harness.create_topic(name, count, before.topic_id[-1])

    def _wait(self, duration_ms: int) -> None:
        self.harness.wait(duration_ms)

    def _restart(self, keeps: bool) -> None:
        if keeps:
            self.harness.store()
        self.harness.restart()

    def _fail(self) -> None:
        if self.harness.pending_appends():
            self.harness.lose()


@given(st.booleans(), STEPS)
@settings(deadline=None)
def test_log_is_memory(holds: bool, steps: list[tuple[Any, ...]]) -> None:
    model = Model(holds=holds)
    for step in steps:
        model.step(*step)


@given(STEPS)
@settings(deadline=None)
def test_records_that_are_read_again_change_nothing(steps: list[tuple[Any, ...]]) -> None:
    """A reader that has read a log and reads its newest records again is where it was."""
    model = Model(holds=False)
    for step in steps:
        model.step(*step)
    group = model._group()
    if group is None:
        return
    before = image(group)
    for raw_key, raw_value in newest(model.harness.logs[0]).items():
        key = decode_key(raw_key)
        if type(key) in ConsumerGroup.KEYS.all:
            assert not isinstance(key, UnknownKey)
            group.apply(key, decode_value(key, raw_value))
    assert image(group) == before
