"""A console that may change its broker, and its changes as a page makes them."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner

from coterie.cli.main import main
from coterie.client.cluster import Cluster
from coterie.client.offsets import commit_offsets, committed_offsets
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.testing import Broker
from tests.console.raw_requests import LIMIT_S, Answered, ask

Row = dict[str, Any]


class AnyChanging:
    """A console that may change brokers, of ours or not."""

    def __init__(self, servers: str, console: ConsoleServer, cluster: Cluster) -> None:
        self.servers, self.console, self.cluster = servers, console, cluster

    def asked(self, path: str, body: Row) -> Answered:
        return ask(self.console, "POST", f"/api/changes/{path}", body)

    def preview(self, verb: str, **fields: Any) -> Row:
        answered = self.asked(f"{verb}/preview", fields)
        assert answered.status == 200, answered.body
        found: Row = answered.json
        assert found["verb"] == verb
        return found

    def carry_out(self, shown: Row, confirm: str | None = None) -> Row:
        body = {"token": shown["token"], **({"confirm": confirm} if confirm else {})}
        answered = self.asked(shown["verb"], body)
        assert answered.status == 200, answered.body
        found: Row = answered.json
        return found

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return {key: at.offset for key, at in committed_offsets(self.cluster, group).items()}

    def commit(self, group: str, *offsets: int, topic: str = "orders") -> None:
        errors = commit_offsets(
            self.cluster, group, {(topic, index): each for index, each in enumerate(offsets)}
        )
        assert set(errors.values()) == {0}

    def command(self, shown: Row) -> None:
        """Run the command line of a preview."""
        words = shlex.split(shown["command"])
        assert words[0] == "coterie"
        at = ["--bootstrap-server", self.servers]
        found = CliRunner().invoke(main, [*words[1:3], *at, "--json", *words[3:]])
        assert found.exit_code == 0, found.output


class Changing(AnyChanging):
    """A console that may change a broker of this process."""

    def __init__(self, kafka: Broker, console: ConsoleServer, cluster: Cluster) -> None:
        super().__init__(kafka.bootstrap_servers, console, cluster)
        self.kafka = kafka


@contextmanager
def console_of(servers: str) -> Iterator[tuple[ConsoleServer, Cluster]]:
    """Start a console that may change brokers, and a client of them."""
    place = Place(lambda: Cluster(servers, LIMIT_S), servers, allows_changes=True)
    with ConsoleServer(place) as console, Cluster(servers, LIMIT_S) as cluster:
        yield console, cluster


@contextmanager
def changing_console(**topics: int) -> Iterator[Changing]:
    """Start a broker and a console that may change it."""
    with Broker(topics=topics) as kafka, console_of(kafka.bootstrap_servers) as (console, cluster):
        yield Changing(kafka, console, cluster)


def refused(answered: Answered, status: int, text: str) -> None:
    """Check an error."""
    assert answered.status == status, answered.body
    assert text in answered.json["error"]
