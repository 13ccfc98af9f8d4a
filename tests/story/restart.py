"""The broker is killed and started again under live groups, one of which flaps and one is deployed.

The independent log has the time of the kill and that of the start. Kafka's clients differ in what
they do then, so there is a group of each library, and one of all three [pipeline/outage].
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.live.groups import producing
from tests.story.record import now_ms
from tests.story.scenario import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, SETTLE, Scenario, leave, start
from tests.story.workload import PER_SECOND, Workload

# Without the broker for longer than a session, librdkafka joins anew.
DOWN_SESSIONS = 2.5
# Commits of every group before and after, so that the silence is seen.
AROUND_S = 12.0
# The flapper and the deployment have begun, and go on.
INTO_CHANGES_S = 3.0

BEFORE = (
    Scenario("keeps", (start("k1", KAFKA_PYTHON), start("k2", KAFKA_PYTHON), SETTLE)),
    Scenario("renews", (start("r1", CONFLUENT), start("r2", CONFLUENT), SETTLE)),
    Scenario(
        "of_all",
        (start("kp", KAFKA_PYTHON), start("aio", AIOKAFKA), start("rd", CONFLUENT), SETTLE),
    ),
    Scenario(
        "restless",
        (
            start("steady", AIOKAFKA), SETTLE,
            *(start("flapper", CONFLUENT), SETTLE, leave("flapper"), SETTLE) * 2,
        ),
    ),
    Scenario(
        "renewed",
        (*(start(each, CONFLUENT) for each in "abc"), SETTLE),
    ),
)  # fmt: skip
DURING = (
    Scenario(
        "restless", (start("flapper", CONFLUENT), SETTLE, leave("flapper"), SETTLE) * 2,
    ),
    Scenario(
        "renewed",
        tuple(
            step
            # A process of aiokafka ends if it is started while there is no broker.
            for client in "abc"
            for step in (leave(client), start(client, CONFLUENT), SETTLE)
        ),
    ),
)  # fmt: skip


def run_restart(
    workload: Workload, kill: Callable[[], object], begin: Callable[[], object]
) -> None:
    """Run the groups, and kill the broker in the middle.

    Args:
        workload: of a broker that is running.
        kill, begin: kill the broker; start it again and return when it responds.
    """
    workload.run(BEFORE, len(BEFORE))
    with ExitStack() as stack:
        for scenario in BEFORE:
            stack.enter_context(
                producing(
                    workload.bootstrap,
                    workload.topics(scenario)[0],
                    scenario.partitions,
                    PER_SECOND,
                )
            )
        time.sleep(AROUND_S)
        with ThreadPoolExecutor(len(DURING)) as pool:
            changes = [pool.submit(workload.carry_on, scenario) for scenario in DURING]
            time.sleep(INTO_CHANGES_S)
            killed_ms = now_ms()
            kill()
            time.sleep(DOWN_SESSIONS * workload.session_ms / 1000)
            begin()
            workload.record.outages.append((killed_ms, now_ms()))
            for change in changes:
                change.result()
        time.sleep(AROUND_S)
    workload.record.remember_commits()
