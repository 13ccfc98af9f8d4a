"""Records by a schema registry in a console and in `coterie dump log`, over a real broker."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import confluent_kafka
import fastavro
import pytest
from click.testing import CliRunner

from coterie.cli.main import main
from coterie.client.cluster import Cluster
from coterie.client.registry.address import RegistryAddress
from coterie.client.registry.decoding import Registry
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.testing import Broker
from demo.producer import QUIET_LOG_LEVEL
from tests.console.raw_requests import LIMIT_S, ask
from tests.registry import Schema, TestRegistry, framed, registry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
LONG = 10_000

pytestmark = pytest.mark.xdist_group("console-topics")


class Scene(NamedTuple):
    """A console with a registry, and the data directory of its broker."""

    console: ConsoleServer
    peer: TestRegistry
    data_dir: Path


def avro(schema: Any, value: Any) -> bytes:
    """Return a value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data_dir = tmp_path_factory.mktemp("registry")
    with registry() as peer, Broker(topics={"orders": 1}, data_dir=data_dir) as kafka:
        text = peer.register("orders-key", Schema('"string"'))
        order = peer.register("orders-value", Schema(json.dumps(ORDER)))
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "log_level": QUIET_LOG_LEVEL}
        )
        key = framed(text, avro("string", "k1"))
        for value in (
            framed(order, avro(ORDER, {"id": 7, "name": "tea"})),
            framed(order, avro(ORDER, {"id": 8, "name": "x" * LONG})),
            framed(99, b"?"),
            framed(order, b"\x02"),
            b"no schema",
            None,
        ):
            producer.produce("orders", value, key)
        assert producer.flush(LIMIT_S) == 0
        servers, decoder = kafka.bootstrap_servers, Registry(RegistryAddress.of(peer.url))
        place = Place(lambda: Cluster(servers, LIMIT_S), servers, registry=decoder)
        with ConsoleServer(place) as running:
            yield Scene(running, peer, data_dir)


def test_a_page_has_keys_and_values_and_what_could_not_be_decoded(scene: Scene) -> None:
    page = ask(scene.console, "GET", "/api/topics/orders/records?order=oldest").json
    tea, large, unknown, misfit, plain, null = page["records"]
    assert (tea["key"], tea["key_format"]) == ("k1", "text")
    assert (json.loads(tea["value"]), tea["value_format"]) == ({"id": 7, "name": "tea"}, "json")
    assert bytes.fromhex(tea["value_raw"])[:5] == framed(2, b"")
    assert tea["value_schema"] == {"id": 2, "type": "AVRO", "name": "Order", "error": None}
    assert tea["value_cut"] is False
    assert (large["value_format"], large["value_cut"]) == ("text", True)
    assert large["value_size"] > LONG
    for row, text in ((unknown, "HTTP 404"), (misfit, "do not fit schema 2")):
        assert text in row["value_schema"]["error"]
        assert (row["value_format"], row["value_raw"], row["key"]) == ("hex", None, "k1")
    assert (plain["value"], plain["value_schema"], null["value_schema"]) == (
        "no schema",
        None,
        None,
    )


def test_a_large_value_is_had_whole(scene: Scene) -> None:
    row = ask(scene.console, "GET", "/api/topics/orders/records/0/1").json
    assert json.loads(row["value"]) == {"id": 8, "name": "x" * LONG}
    assert row["value_cut"] is False


def test_a_search_reads_fields_by_their_schemas(scene: Scene) -> None:
    query = "/api/topics/orders/search?path=id&equals=7"
    answered = ask(scene.console, "GET", query, headers={"Connection": "close"})
    text = answered.body.decode()
    assert '"found":1' in text
    assert '"name":"Order"' in text


@pytest.mark.parametrize(
    ("sought", "found"),
    [
        # The bytes of Avro have neither names of fields nor digits.
        ('text="id": 7', 1),
        ('text="name"', 2),
        ("text=^k1$&pattern=true&in=key", 6),
        ("text=^TEA$&pattern=true&ignore_case=true&in=value", 0),
        ("text=NO SCHEMA&ignore_case=true", 1),
        # What is shown of a part that is not decoded is its bytes.
        ("text=?&in=value", 1),
    ],
)
def test_a_search_looks_for_what_is_shown(scene: Scene, sought: str, found: int) -> None:
    query = f"/api/topics/orders/search?{quote(sought, safe='=&')}"
    text = ask(scene.console, "GET", query, headers={"Connection": "close"}).body.decode()
    assert f'"found":{found},' in text.rpartition("event: end")[2], text


def test_dump_log_decodes_with_a_registry(scene: Scene) -> None:
    options = ("--schema-registry", scene.peer.url)
    directory = str(scene.data_dir / "orders-0")
    result = CliRunner().invoke(main, ["dump", "log", directory, "--json", *options])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert (rows[0]["key"], rows[0]["value"]) == ("k1", {"id": 7, "name": "tea"})
    assert rows[0]["value_schema"]["name"] == "Order"
    assert "HTTP 404" in rows[2]["error"]
    assert rows[4]["value_schema"] is None
    shown = CliRunner().invoke(main, ["dump", "log", directory, *options])
    assert '{"id": 7, "name": "tea"}' in shown.stdout
    wrong = CliRunner().invoke(
        main, ["dump", "log", directory, "--schema-registry", "http://me:secret@:1"]
    )
    assert wrong.exit_code == 2
    assert "secret" not in wrong.output
