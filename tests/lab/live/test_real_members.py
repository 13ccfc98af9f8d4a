"""Real processes: one short run with aiokafka, and what is left of processes afterwards."""

import sys
from pathlib import Path

import pytest

from coterie.lab.errors import WrongInput
from coterie.lab.live.run import LiveOptions, run_live
from coterie.lab.scenario import load_scenario
from coterie.lab.strips import strip_lines
from coterie.storage.properties import properties_text
from coterie.testing import Broker

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_third_member_joins_two_real_ones(tmp_path: Path) -> None:
    scenario = load_scenario("three-and-one")._replace(
        partitions=3, script=[{"at_s": 0, "jitter_s": 0, "do": "join"}]
    )
    settings = {"initial_delay_ms": 0, "heartbeat_ms": 500, "session_ms": 20_000}
    options = LiveOptions("aiokafka", form_s=6, calm_s=2, settings=settings)
    outcome = run_live(scenario, options, tmp_path / "run", print, lambda _: None).outcome
    assert outcome.evidence == "measured"
    assert outcome.settings["broker"] == "coterie"
    assert outcome.metrics["generations"]
    assert outcome.metrics["empty_members"] == 0
    assert outcome.metrics["double"] == 0
    assert outcome.metrics["lost"] == 0
    assert outcome.metrics["delivered"]
    last = {each.partition: each.owner for each in outcome.intervals if each.owner is not None}
    assert len(set(last.values())) == 3
    assert len(list(strip_lines(outcome))) == 5


def test_servers_of_a_run_do_what_the_script_says(tmp_path: Path) -> None:
    """The topic grows, the leader dies, a member is cut off, and the broker is killed."""
    steps = [
        {"at_s": 0, "do": "topic_grows", "to": 6}, {"at_s": 4, "do": "leader_dies"},
        {"at_s": 9, "do": "cut", "s": 1}, {"at_s": 11, "do": "broker_dies", "down_s": 1},
    ]  # fmt: skip
    scenario = load_scenario("three-and-one")._replace(
        members=3, partitions=4, script=[{"jitter_s": 0, **step} for step in steps]
    )
    settings = {
        "initial_delay_ms": 0, "heartbeat_ms": 500, "session_ms": 3_000, "metadata_age_ms": 1_000,
    }  # fmt: skip
    options = LiveOptions("aiokafka", form_s=5, calm_s=2, settings=settings)
    said: list[str] = []
    outcome = run_live(scenario, options, tmp_path / "run", said.append, lambda _: None).outcome
    assert {line.split(":")[0] for line in said} == {"cut", "broker_dies"}
    assert outcome.metrics["settle_s"] is not None
    assert {each.partition for each in outcome.intervals} == set(range(6))
    # New partitions and those of the dead leader wait, and then all are away with the broker.
    assert outcome.causes["undetected"] > 1
    assert outcome.causes["broker"] > 6
    owners = {each.owner for each in outcome.intervals if each.owner}
    last = {each.partition: each.owner for each in outcome.intervals if each.owner}
    assert (len(owners), len(set(last.values()))) == (3, 2)


@pytest.mark.parametrize("client", ["aiokafka", "kafka-python", "confluent"])
def test_members_log_in_to_a_broker_that_runs(tmp_path: Path, client: str) -> None:
    scenario = load_scenario("three-and-one")._replace(
        partitions=3, script=[{"at_s": 0, "jitter_s": 0, "do": "join"}]
    )
    settings = {"initial_delay_ms": 0, "heartbeat_ms": 500, "session_ms": 20_000}
    with Broker(security="SASL_SSL", users=["alice"]) as kafka:
        config = kafka.client_config("kafka-python")
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        password = config["sasl_plain_password"]
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": config["sasl_mechanism"],
            "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": config["ssl_cafile"],
        }
        file = tmp_path / "client.properties"
        file.write_text(properties_text(properties))
        options = LiveOptions(
            client, bootstrap=kafka.bootstrap_servers, form_s=6, calm_s=2, settings=settings,
            command_config=str(file),
        )  # fmt: skip
        outcome = run_live(scenario, options, tmp_path / "run", print, lambda _: None).outcome
    assert outcome.metrics["delivered"]
    assert outcome.metrics["lost"] == 0
    assert len({each.owner for each in outcome.intervals if each.owner is not None}) == 3


def test_clients_that_cannot_log_in_are_refused(tmp_path: Path) -> None:
    scenario = load_scenario("three-and-one")
    for client, bootstrap, text in (
        ("aiokafka", "", "name it with --bootstrap-server"),
        ("connect", "127.0.0.1:1", "can't log in"),
    ):
        options = LiveOptions(client, bootstrap=bootstrap, command_config="client.properties")
        with pytest.raises(WrongInput, match=text):
            run_live(scenario, options, tmp_path / client, print, lambda _: None)
