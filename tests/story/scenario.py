"""The groups of the story, and what happens to their members.

A step is one of: start, leave (SIGTERM), kill (SIGKILL), pause (SIGSTOP until the session has
expired, then SIGCONT), subscribe (to the group's second topic), and settle (wait until the live
members own all partitions).
"""

from typing import NamedTuple

KAFKA_PYTHON, AIOKAFKA, CONFLUENT = "kafka-python", "aiokafka", "confluent"


class Step(NamedTuple):
    """Something that happens to a member, or, for settle, to the whole group.

    Attributes:
        kind: what happens.
        client: the member's client id, by which the story knows it.
        library: its client library.
        instance: its instance id, if it is static.
    """

    kind: str
    client: str = ""
    library: str = ""
    instance: str | None = None


class Scenario(NamedTuple):
    """A group.

    Attributes:
        group: its id.
        steps: what happens, in order.
        assignor: the assignor of its members.
        partitions: of each of its topics.
        topics: the number of its topics.
        protocol: the protocol of groups that its members speak.
    """

    group: str
    steps: tuple[Step, ...]
    assignor: str = "range"
    partitions: int = 6
    topics: int = 1
    protocol: str = "classic"


SETTLE = Step("settle")


def start(client: str, library: str, instance: str | None = None) -> Step:
    """Start a member."""
    return Step("start", client, library, instance)


def leave(client: str) -> Step:
    """Stop a member in order."""
    return Step("leave", client)


def kill(client: str) -> Step:
    """Kill a member."""
    return Step("kill", client)


def _again(client: str, library: str, times: int) -> tuple[Step, ...]:
    """Start and stop a client several times; the coordinator gives it a new member id each time."""
    return (start(client, library), SETTLE, leave(client), SETTLE) * times


SCENARIOS = (
    Scenario(
        "flapping",
        (start("steady", AIOKAFKA), SETTLE, *_again("flapper", CONFLUENT, 3)),
    ),
    Scenario(
        "expired",
        (
            start("stays", KAFKA_PYTHON), start("dies", CONFLUENT), SETTLE, kill("dies"), SETTLE,
        ),
    ),
    Scenario(
        "cooperative",
        (
            start("one", CONFLUENT), SETTLE, start("two", CONFLUENT), SETTLE,
            start("three", CONFLUENT), SETTLE, leave("two"), SETTLE,
        ),
        assignor="cooperative-sticky",
    ),
    # KIP-848: nobody stops, and each gives up what it shall not have in its own heartbeats.
    Scenario(
        "incremental",
        (
            start("one", CONFLUENT), SETTLE, start("two", CONFLUENT), SETTLE,
            start("three", CONFLUENT), SETTLE, leave("two"), SETTLE,
        ),
        protocol="consumer",
    ),
    Scenario(
        "static",
        (
            start("first", CONFLUENT, "room-1"), start("second", CONFLUENT, "room-2"), SETTLE,
            leave("second"), start("second", CONFLUENT, "room-2"), SETTLE,
        ),
    ),
    Scenario(
        "deployed",
        (
            start("a", AIOKAFKA), start("b", AIOKAFKA), start("c", AIOKAFKA), SETTLE,
            leave("a"), start("a", AIOKAFKA), SETTLE, leave("b"), start("b", AIOKAFKA), SETTLE,
            leave("c"), start("c", AIOKAFKA), SETTLE,
        ),
    ),
    Scenario(
        "mixed",
        (
            start("kp", KAFKA_PYTHON), start("aio", AIOKAFKA), start("rd", CONFLUENT), SETTLE,
            kill("aio"), SETTLE,
        ),
    ),
    Scenario("paused", (
        start("awake", KAFKA_PYTHON), start("sleeper", CONFLUENT), SETTLE,
        Step("pause", "sleeper"), SETTLE,
    )),
    Scenario("emptied", (start("only", AIOKAFKA), SETTLE, leave("only"), SETTLE)),
    Scenario("quiet", (start("alone", CONFLUENT), SETTLE)),
    Scenario("resubscribed", (start("curious", KAFKA_PYTHON), SETTLE, Step("subscribe", "curious"),
                              SETTLE), topics=2),
    Scenario("round", (start("x", CONFLUENT), start("y", CONFLUENT), SETTLE, leave("x"), SETTLE),
             assignor="roundrobin"),
    Scenario("handover", (start("old", CONFLUENT), SETTLE, start("new", CONFLUENT), SETTLE,
                          leave("old"), SETTLE)),
    # Several things at once, without a pause between them.
    Scenario(
        "overlapping",
        (
            start("keeps", AIOKAFKA), start("victim", CONFLUENT), start("other", CONFLUENT), SETTLE,
            kill("victim"), *_again("restless", CONFLUENT, 3), leave("other"), SETTLE,
        ),
    ),
    Scenario(
        "deployed_beside_a_kill",
        (
            start("a", CONFLUENT), start("b", CONFLUENT), start("c", AIOKAFKA), SETTLE,
            kill("c"), leave("a"), start("a", CONFLUENT), leave("b"), start("b", CONFLUENT), SETTLE,
        ),
    ),
    Scenario(
        "static_beside_a_kill",
        (
            start("first", CONFLUENT, "desk-1"), start("second", CONFLUENT, "desk-2"),
            start("mortal", CONFLUENT), SETTLE,
            kill("mortal"), leave("second"), start("second", CONFLUENT, "desk-2"), SETTLE,
        ),
    ),
    Scenario(
        "shared_beside_a_kill",
        (
            start("cs-1", KAFKA_PYTHON), start("cs-2", CONFLUENT), SETTLE,
            kill("cs-2"), start("cs-3", KAFKA_PYTHON), SETTLE,
        ),
        assignor="cooperative-sticky",
    ),
    Scenario("crashed", (start("p", AIOKAFKA), start("q", KAFKA_PYTHON), SETTLE, kill("p"),
                         kill("q"), SETTLE)),
)  # fmt: skip
