"""Client releases of 2020 and 2023, alone and in one group with current releases."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.broker_process import Broker
from tests.live.groups import produce_rows
from tests.live.members import Members, wait_all_read, wait_assigned
from tests.live.old_clients import (
    AIOKAFKA_0_8,
    KAFKA_PYTHON_2,
    OLD_CLIENTS,
    NotInstallableError,
    OldClient,
    installed,
)

ROOT = Path(__file__).resolve().parents[2]

# All in one worker of pytest-xdist, so that two workers do not install at the same time.
pytestmark = pytest.mark.xdist_group("old_clients")

COUNT = 100
BASE_MS = 1_600_000_000_000


def path_of(client: OldClient) -> Path:
    """Return the directory of an old release; skip the test if it can't be installed."""
    try:
        return installed(client)
    except NotInstallableError as reason:
        pytest.skip(f"{client.name} cannot be used here: {reason}")


@pytest.mark.parametrize("client", OLD_CLIENTS, ids=lambda client: client.name)
def test_old_client_produces_consumes_and_administers(
    broker: Broker, created_topics: list[tuple[str, str]], name: str, client: OldClient
) -> None:
    """It creates a topic, writes and reads records, commits, lists offsets, describes groups."""
    path = path_of(client)
    created_topics.append((broker.bootstrap, name))
    line = [sys.executable, "-m", "tests.live.old_program", "--library", client.library]
    line += ["--bootstrap", broker.bootstrap, "--topic", name]
    line += ["--count", str(COUNT), "--timestamp-ms", str(BASE_MS)]
    done = subprocess.run(
        line,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert client.name.endswith(seen["release"])
    assert seen["values"] == seen["headers"] == list(range(COUNT))
    assert seen["timestamps"] == [BASE_MS]
    assert (seen["begin"], seen["end"], seen["by_time"]) == (0, COUNT, 0)
    assert name in seen["groups"]
    assert seen["state"] == ["Stable"]
    assert seen["committed"] == COUNT
    assert seen.get("deleted", [[name, 0]]) == [[name, 0]]


def test_old_and_new_members_share_a_topic(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """Five releases in one group: each member owns one partition, each record is read once.

    JoinGroup versions 2 to 9 are used in one generation.
    """
    topic = make_topic(partitions=5)
    options = {"group": topic, "topic": topic}
    five = [
        members.start("kafka-python", path_of(KAFKA_PYTHON_2), **options),
        members.start("aiokafka", path_of(AIOKAFKA_0_8), **options),
        *[
            members.start(library, **options)
            for library in ("kafka-python", "aiokafka", "confluent")
        ],
    ]
    owned = wait_assigned(five, topic, 5)
    assert [len(each) for each in owned] == [1] * 5
    stored = produce_rows(broker.bootstrap, topic, 5, 200)
    counts = wait_all_read(five, stored)
    assert set(counts.values()) == {1}
    # The oldest one leaves, and the others take over its partition.
    assert five[0].leave() == 0
    wait_assigned(five[1:], topic, 5)
    stored |= produce_rows(broker.bootstrap, topic, 5, 50)
    wait_all_read(five, stored)


@pytest.mark.parametrize("client", OLD_CLIENTS, ids=lambda client: client.name)
def test_new_client_takes_over_from_a_killed_old_one(
    broker: Broker, make_topic: Callable[..., str], members: Members, client: OldClient
) -> None:
    """After the session of a killed old member a new client takes over its partitions."""
    topic = make_topic(partitions=2)
    victim = members.start(
        client.library,
        path_of(client),
        group=topic,
        topic=topic,
        session_timeout_ms=broker.short_session_ms,
    )
    survivor = members.start("confluent", group=topic, topic=topic)
    wait_assigned([victim, survivor], topic, 2)
    stored = produce_rows(broker.bootstrap, topic, 2, 40)
    wait_all_read([victim, survivor], stored)
    victim.kill()
    wait_assigned([survivor], topic, 2)
    stored |= produce_rows(broker.bootstrap, topic, 2, 40)
    wait_all_read([victim, survivor], stored)
