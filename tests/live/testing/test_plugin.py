"""The pytest plugin, in pytest processes of its own."""

import re
from pathlib import Path

from tests.live.testing.pytest_runs import run_pytest

SYNC = """
    import pytest

    def test_own_broker(kafka):
        assert kafka.topics == {}
        kafka.topic("t", records=["a"])

    def test_another_broker(kafka):
        assert kafka.topics == {}

    @pytest.mark.kafka(topics={"t": 2}, config={"group.max.size": "1"})
    def test_marked_broker(kafka):
        assert kafka.topics == {"t": 2}

    @pytest.mark.kafka(topics={"u": 1})
    class TestClass:
        @pytest.mark.kafka(config={"group.max.size": "1"})
        def test_marks_are_joined(self, kafka):
            assert kafka.topics == {"u": 1}
            assert kafka.server.config.get_int("group.max.size") == 1

    @pytest.mark.kafka(leaves="shared")
    def test_module_first(kafka_module, kafka_session):
        kafka_module.topic("shared")
        assert kafka_session.port != kafka_module.port

    def test_module_second(kafka_module):
        assert kafka_module.topics == {"shared": 1}
"""
ASYNC = """
    import pytest
    from aiokafka import AIOKafkaConsumer

    async def reads(kafka):
        config = kafka.client_config("aiokafka", group_id="g")
        async with AIOKafkaConsumer("t", **config) as consumer:
            await kafka.group("g").wait_assigned("t")
            kafka.produce("t", "a")
            assert (await consumer.getone()).value == b"a"

    @pytest.mark.asyncio
    @pytest.mark.kafka(topics={"t": 1})
    async def test_asyncio(kafka):
        await reads(kafka)

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    @pytest.mark.kafka(topics={"t": 1})
    async def test_anyio(kafka, anyio_backend):
        await reads(kafka)
"""
FAILING = """
    def test_fails(kafka):
        kafka.topic("t")
        config = kafka.client_config("confluent-kafka", group_id="billing")
        from confluent_kafka import Consumer
        consumer = Consumer({"client.id": "one", "log_level": 0, **config})
        consumer.subscribe(["t"])
        group = kafka.group("billing")
        while group.state != "Stable":
            consumer.poll(0.1)
        try:
            group.wait_stable(members=2, timeout_s=0.1)
        finally:
            consumer.close()
"""


VIRTUAL = """
    import asyncio, time
    import pytest
    import pytest_asyncio
    from aiokafka import AIOKafkaConsumer

    times = []

    async def expires(kafka):
        config = kafka.client_config("aiokafka", group_id="g", max_poll_interval_ms=30_000)
        async with AIOKafkaConsumer("t", **config):
            await kafka.group("g").wait_stable(members=1)
            await kafka.clock.advance(31)
            assert kafka.group("g").state == "Empty"
        times.append(kafka.clock.elapsed_s)
        assert kafka.clock.seed == 7

    @pytest_asyncio.fixture
    async def idle(kafka):
        began = time.monotonic()
        config = kafka.client_config("aiokafka", group_id="h")
        async with AIOKafkaConsumer("t", **config) as consumer:
            yield consumer
            await asyncio.sleep(60)
        assert time.monotonic() - began >= 60

    in_virtual_time = pytest.mark.kafka(topics={"t": 1}, virtual_time=True, seed=7)

    @pytest.mark.asyncio
    @in_virtual_time
    async def test_asyncio(kafka, idle):
        await kafka.group("h").wait_assigned("t")
        await expires(kafka)

    @pytest.mark.asyncio(loop_scope="module")
    @in_virtual_time
    async def test_asyncio_in_the_loop_of_the_module(kafka):
        await expires(kafka)

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    class TestAnyio:
        @in_virtual_time
        async def test_anyio(self, kafka, anyio_backend):
            await expires(kafka)

    @pytest.fixture
    def orders(kafka):
        kafka.topic("orders")
        kafka.produce("orders", "a", "b")
        kafka.group("nobody").wait_empty()
        return [each.value for each in kafka.records("orders")]

    @pytest.mark.asyncio
    @in_virtual_time
    async def test_plain_fixture_produces(kafka, orders):
        assert orders == [b"a", b"b"]

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    @in_virtual_time
    async def test_plain_fixture_produces_with_anyio(kafka, orders, anyio_backend):
        assert orders == [b"a", b"b"]

    @pytest.mark.asyncio
    async def test_real_time_goes_on(kafka):
        assert len(times) == 3
        assert times[1] == times[2]
        assert time.time() > 1_767_225_600 + 60
        with pytest.raises(Exception, match="virtual_time=True"):
            kafka.clock
"""
WRONG_VIRTUAL = """
    import pytest

    @pytest.mark.kafka(virtual_time=True)
    def test_plain(kafka): ...

    @pytest.mark.kafka(virtual_time=True)
    async def test_unmarked(kafka): ...

    @pytest.fixture
    def anyio_backend_name():
        return "trio"

    @pytest.mark.kafka(virtual_time=True)
    @pytest.mark.parametrize("anyio_backend", ["trio"])
    async def test_trio(kafka, anyio_backend): ...
"""
SHARED = """
    import pytest
    from coterie.testing import CloseBefore

    @pytest.fixture(scope="module")
    def orders(kafka_session):
        return kafka_session.topic("orders")

    def commit(kafka, group, topic):
        from confluent_kafka import Consumer, TopicPartition
        config = kafka.client_config("confluent-kafka", group_id=group)
        consumer = Consumer({"log_level": 0, **config})
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        consumer.close()

    def test_own_names(kafka_session, orders):
        topic = kafka_session.topic(kafka_session.unique("t"))
        commit(kafka_session, kafka_session.unique("billing"), topic)

    def test_nothing_is_left_of_it(kafka_session):
        assert kafka_session.topics == {"orders": 1}
        assert kafka_session.groups == []

    @pytest.mark.kafka(leaves=["allowed*"])
    def test_allowed(kafka_session):
        kafka_session.topic("allowed-1")

    def test_deletes(kafka_session):
        kafka_session.topic("t")
        kafka_session.delete_topic("t")

    def test_setting(kafka_session):
        kafka_session.topic("set-1")
"""
LEAKING = """
    from coterie.testing import CloseBefore

    def test_topic(kafka_session):
        kafka_session.topic("first-leak")

    def test_clean(kafka_session):
        pass

    def test_fault(kafka_session):
        kafka_session.fault(CloseBefore(), group="nobody")

    def test_member(kafka_module):
        from confluent_kafka import Consumer
        global consumer
        kafka_module.topic(kafka_module.unique("t"))
        name = kafka_module.unique("g")
        config = kafka_module.client_config("confluent-kafka", group_id=name, client_id="late")
        consumer = Consumer({"log_level": 0, "group.instance.id": "i", **config})
        consumer.subscribe(["t-1"])
        while kafka_module.group(name).state != "Stable":
            consumer.poll(0.1)
"""
WRONG_MARK = """
    import pytest

    @pytest.mark.kafka(topic={"t": 1})
    def test_it(kafka): ...
"""
UNUSED = """
    import sys

    def test_it():
        assert "coterie.pytest_plugin" in sys.modules
        assert not [name for name in sys.modules if name.startswith("coterie.server")]
        assert "coterie.testing" not in sys.modules
"""


def test_each_test_has_its_broker_and_coroutines_await(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [SYNC, ASYNC])
    assert code == 0, output
    assert "8 passed" in output


def test_workers_have_brokers_of_their_own(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [SYNC, SYNC], "-n", "2", "--dist", "loadfile")
    assert code == 0, output
    assert "12 passed" in output


def test_failure_shows_groups_and_requests(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [FAILING, WRONG_MARK])
    assert code == 1
    for text in (
        "group 'billing' is Stable with 2 members: not so within 0.1 s",
        "- groups of kafka -",
        "generation 1: join of one",
        "- last requests to kafka -",
        "-> ok, generation 1",
        "@pytest.mark.kafka takes acls, brokers, config, data_dir, features, flush, leaves",
        "not topic",
    ):
        assert text in output, output


def test_marked_tests_are_in_virtual_time(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [VIRTUAL])
    assert code == 0, output
    assert "6 passed" in output


def test_virtual_time_needs_the_event_loop_of_a_test(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [WRONG_VIRTUAL])
    assert code == 1
    assert "virtual_time=True is for `async def` tests" in output, output
    assert "virtual_time=True needs pytest-asyncio or anyio" in output, output
    assert "virtual time needs anyio's backend asyncio" in output, output


def test_shared_broker_is_left_clean(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [SHARED], "-o", "kafka_leaves=set-*")
    assert code == 0, output
    assert "5 passed" in output


def test_what_is_left_in_a_shared_broker_is_an_error_of_its_test(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [LEAKING])
    assert code == 1
    assert "4 passed, 3 errors" in output, output
    for text in (
        "ERROR at teardown of test_topic",
        "the test has left in the shared broker kafka_session: topic 'first-leak'",
        "left in the shared broker kafka_session: the fault Fault(CloseBefore()",
        "left in the shared broker kafka_module: group 'g-2' with members",
    ):
        assert text in output, output


def test_unused_plugin_imports_no_server(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [UNUSED])
    assert code == 0, output


CLUSTER = """
    import pytest
    from aiokafka import AIOKafkaConsumer
    from coterie.testing import AnswerError, Cluster

    @pytest.mark.kafka(brokers=3, topics={"t": 2})
    def test_marked_cluster(kafka):
        assert isinstance(kafka, Cluster)
        assert (kafka.brokers, kafka.topics) == ([1, 2, 3], {"t": 2})

    @pytest.mark.asyncio
    @pytest.mark.kafka(brokers=2, topics={"t": 1}, virtual_time=True)
    async def test_in_virtual_time(kafka):
        config = kafka.client_config("aiokafka", group_id="g")
        async with AIOKafkaConsumer("t", **config):
            await kafka.group("g").wait_assigned("t")
            await kafka.kill(kafka.coordinator_of("g"), detect_ms=9000)
            await kafka.clock.advance(60)
            assert kafka.group("g").state == "Stable"

    @pytest.mark.asyncio
    @pytest.mark.kafka(brokers=3, topics={"t": 1})
    async def test_fails(kafka):
        config = kafka.client_config("aiokafka", group_id="g", client_id="one")
        async with AIOKafkaConsumer("t", **config) as consumer:
            await kafka.group("g").wait_assigned("t")
            kafka.fault(AnswerError("REQUEST_TIMED_OUT"), api="OffsetDelete", times=1)
            here = kafka.coordinator_of("g")
            await kafka.stop(next(each for each in kafka.brokers if each != here))
            await kafka.group("g").wait_stable(members=2, timeout_s=0.1)

    @pytest.mark.kafka(brokers=2, security="SASL_SSL", users=["alice"], acls=[])
    def test_is_secured(kafka):
        assert kafka.users == ["alice"]
        assert kafka.client_config("kafka-python")["security_protocol"] == "SASL_SSL"
        kafka.add_acls("User:alice ALLOW READ TOPIC t")

    @pytest.mark.kafka(brokers=2, process=True, topics={"t": 2}, features={"group.version": 0})
    def test_has_a_process(kafka):
        assert "group.version" not in kafka.features
        kafka.kill(kafka.leader_of("t"))
        kafka.wait_leader("t")

    @pytest.mark.kafka(brokers=3)
    def test_wrong_call(kafka):
        kafka.create_topic("t")
"""


def test_mark_describes_a_cluster_which_reports_show(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [CLUSTER])
    assert code == 1, output
    assert "4 passed" in output, output
    assert 'Cluster has no `create_topic`: write `kafka.topic("orders", partitions=3)`' in output
    assert "group 'g' is Stable with 2 members: not so within 0.1 s" in output
    section = output.partition("groups of kafka ---")[2]
    assert re.search(r"brokers that run: \d, \d; down: \d\n", section)
    assert re.search(r"group 'g' at broker \d: Stable, generation \d, 1 member\n", section)
    assert re.search(r"s  broker \d  one  JoinGroup v\d +g +-> ok, generation 1", section), section
    assert "fault 1: AnswerError(error='REQUEST_TIMED_OUT') for OffsetDelete, 0 hits" in section
