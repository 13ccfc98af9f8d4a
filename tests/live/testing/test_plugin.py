"""The pytest plugin, in pytest processes of its own."""

import subprocess
import sys
import textwrap
from pathlib import Path

TIMEOUT_S = 60

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


def run_pytest(directory: Path, tests: list[str], *options: str) -> tuple[int, str]:
    """Run pytest on files with tests; return its exit code and output."""
    for number, test in enumerate(tests):
        (directory / f"test_{number}.py").write_text(textwrap.dedent(test))
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function")
    plugins = ("cacheprovider", "cov", "hypothesispytest", "randomly", "rerunfailures", "timeout")
    without = [option for name in plugins for option in ("-p", f"no:{name}")]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *without, *options],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_each_test_has_its_broker_and_coroutines_await(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [SYNC, ASYNC])
    assert code == 0, output
    assert "7 passed" in output


def test_workers_have_brokers_of_their_own(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [SYNC, SYNC], "-n", "2", "--dist", "loadfile")
    assert code == 0, output
    assert "10 passed" in output


def test_failure_shows_groups_and_requests(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [FAILING, WRONG_MARK])
    assert code == 1
    for text in (
        "group 'billing' is Stable with 2 members: not so within 0.1 s",
        "- groups of kafka -",
        "generation 1: join of one",
        "- last requests to kafka -",
        "one LeaveGroup v",
        "@pytest.mark.kafka takes config, topics and data_dir",
        "'topic'",
    ):
        assert text in output, output


def test_unused_plugin_imports_no_server(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [UNUSED])
    assert code == 0, output
