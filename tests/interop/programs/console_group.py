"""The console shows groups of a broker of ours, or of Kafka, while they rebalance.

What the page of a group says is compared with `coterie groups describe`. A broker of ours says for
whom a rebalance waits; of Kafka only the state is known, and the history from its group log.
"""

import json
import time
from typing import Any

import confluent_kafka
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from coterie.cli.main import main
from coterie.console.serving import ConsoleServer
from tests.console.raw_requests import ask
from tests.interop.model import Failed, Surroundings
from tests.live.console.held import held, held_consumer
from tests.live.console.pages import Page, console, page

_PARTITIONS = 4


def run(around: Surroundings) -> None:
    """Look at a classic group and a consumer group while they rebalance.

    Raises:
        Failed: the page says something else than the commands.
    """
    admin = AdminClient({"bootstrap.servers": around.bootstrap})
    topic = around.name("orders")
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result()
    with console(around.bootstrap) as served:
        has_journal = _classic(around, served, topic)
        _of_epochs(around, served, topic)
    around.note("with the journal" if has_journal else "without a journal")


def _classic(around: Surroundings, served: ConsoleServer, topic: str) -> bool:
    """Look at a classic group; return whether the broker keeps a journal."""
    group_id = around.name("classic")
    config = {
        "bootstrap_servers": around.bootstrap, "group_id": group_id, "client_id": "one",
        "auto_commit_interval_ms": 200,
    }  # fmt: skip
    path = f"/api/groups/{group_id}"
    with page(served, f"{path}/events") as seen, held(config, topic) as one:
        other = _consumer(around, group_id)
        other.subscribe([topic])

        def poll_both() -> bool:
            one.poll(50)
            other.poll(0.05)
            return True

        _poll(lambda: other.poll(0.05), seen, _waits_for_one)
        _poll(poll_both, seen, lambda data: _counts(data) == [2, 2] and data["lag"] == 0)
        shown = ask(served, "GET", path).json
        for view, key in (("--members", "members"), ("--offsets", "partitions")):
            wanted = _described(around, group_id, view)
            found = [{name: row[name] for name in wanted[0]} for row in shown[key]]
            for row in [*wanted, *found]:
                # A page reads more of it.
                for name in ("client_software", "client_software_version", "last_commit"):
                    row.pop(name, None)
            _same(view, found, wanted)
        _same("lanes", len(shown["history"]["groups"][0]["lanes"]), _PARTITIONS)
        other.close()
    with page(served, f"{path}/events") as seen:
        seen.wait("group", lambda data: data["state"] == "Empty")
        admin = AdminClient({"bootstrap.servers": around.bootstrap})
        admin.delete_consumer_groups([group_id])[group_id].result()
        seen.wait("group", lambda data: not data["exists"])
    return bool(shown["has_journal"])


def _of_epochs(around: Surroundings, served: ConsoleServer, topic: str) -> None:
    group_id = around.name("epochs")
    config = {
        "bootstrap.servers": around.bootstrap, "group.id": group_id, "client.id": "one",
        "group.protocol": "consumer",
    }  # fmt: skip
    with (
        page(served, f"/api/groups/{group_id}/events") as seen,
        held_consumer(config, topic, _PARTITIONS) as poll_one,
    ):
        other = confluent_kafka.Consumer({**config, "client.id": "two"})
        other.subscribe([topic])
        _poll(lambda: other.poll(0.05), seen, _waits_for_revocation)
        poll_one()
        _poll(
            lambda: other.poll(0.05),
            seen,
            lambda data: data["state"] == "Stable" and _counts(data) == [2, 2],
        )
        history = seen.wait("history", lambda data: data["groups"] and data["groups"][0]["bumps"])
        _same("lanes", len(history.data["groups"][0]["lanes"]), _PARTITIONS)
        other.close()


def _waits_for_one(data: Any) -> bool:
    """Whether the group waits for the member that does not poll, as far as that can be known."""
    if data["state"] != "PreparingRebalance" or len(data["members"]) < 2:
        return False
    waits = data["phase"]["waits_for"]
    if not data["has_journal"]:
        return waits is None
    return [(each["member"] or "").split(" ")[0] for each in waits or ()] == ["one"]


def _waits_for_revocation(data: Any) -> bool:
    waits = (data["phase"] or {}).get("waits_for") or []
    return any(each["for"] == "revocation" and each["member"].startswith("one") for each in waits)


def _consumer(around: Surroundings, group_id: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": around.bootstrap,
            "group.id": group_id,
            "client.id": "two",
            "auto.commit.interval.ms": 200,
            "auto.offset.reset": "earliest",
        }
    )


def _counts(data: Any) -> list[int]:
    return [each["partition_count"] for each in data["members"]]


def _poll(poll: Any, seen: Page, holds: Any) -> None:
    """Poll until the page has shown something; one that does not come fails."""
    looked, give_up_s = len(seen.events), time.monotonic() + 120
    while time.monotonic() < give_up_s:
        events = list(seen.events)
        if any(each.name == "group" and holds(each.data) for each in events[looked:]):
            return
        looked = len(events)
        poll()
    raise Failed(f"the page does not show it; its last event: {seen.events[-1]}")


def _described(around: Surroundings, group_id: str, view: str) -> Any:
    arguments = ["groups", "describe", group_id, view, "--json"]
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", around.bootstrap])
    if result.exit_code:
        raise Failed(f"{' '.join(arguments)}: {result.output}")
    return json.loads(result.stdout)


def _same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Failed(f"{what}: the page says {found}, and it should be {wanted}")
