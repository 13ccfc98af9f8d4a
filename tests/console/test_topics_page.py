"""The pages of topics, records and transactions in a browser: markup as text, keyboard, a phone."""

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import confluent_kafka
import pytest

from coterie.client.cluster import Cluster
from coterie.client.producing import produce_record
from coterie.client.registry.address import RegistryAddress
from coterie.client.registry.decoding import Registry
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.testing import Broker
from demo.producer import QUIET_LOG_LEVEL
from tests.console.raw_requests import LIMIT_S
from tests.pipeline.report.browser import Browser, Tab
from tests.registry import Schema, framed, registry

HOSTILE = "<img src=x onerror=document.title='run'>"
HOSTILE_SCHEMA = {
    "type": "record",
    "name": "Answer",
    "namespace": "deep.thought",
    "fields": [{"name": HOSTILE, "type": "int"}],
}
RECORDS = "document.querySelectorAll('details.record').length"
# Of the first record: recent, since retention removes what is old.
BEGIN_MS = time.time_ns() // 1_000_000 - 3_600_000

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleServer]:
    with Broker(topics={"orders": 2, "empty": 1, "framed": 1}) as kafka:
        servers = kafka.bootstrap_servers
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": HOSTILE,
                # It stays open while the tests run, on a busy machine, too.
                "transaction.timeout.ms": 900_000,
                "log_level": QUIET_LOG_LEVEL,
            }
        )
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        for number in range(60):
            value = json.dumps({"n": number, "large": 12345678901234567890})
            key, at_ms = b"%d" % number, BEGIN_MS + number
            producer.produce("orders", value.encode(), key, number % 2, timestamp=at_ms)
        producer.produce("orders", b"x" * 100_000, b"big", 0, timestamp=BEGIN_MS + 60)
        name = HOSTILE.encode()
        producer.produce(
            "orders", name, name, 1, timestamp=BEGIN_MS + 61, headers=[(HOSTILE, b"\xff")]
        )
        for schema_id in (1, 2):
            producer.produce("framed", framed(schema_id, b"\x54"), b"answer")
        producer.flush(LIMIT_S)
        with registry() as peer:
            peer.register("framed-value", Schema('["null", "int"]'), 2)
            peer.register("framed-value", Schema(json.dumps(HOSTILE_SCHEMA)), 1)
            decoder = Registry(RegistryAddress.of(peer.url))
            place = Place(lambda: Cluster(servers, LIMIT_S), servers, registry=decoder)
            with ConsoleServer(place) as running:
                yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def opened(browser: Browser, console: ConsoleServer, address: str, width: int = 1400) -> Tab:
    """Open an address of the page."""
    tab = browser.visit(console.url, width=width)
    tab.wait("document.querySelector('.bar')")
    tab.value(f"void (location.hash = {json.dumps(address)})")
    return tab


def is_sound(tab: Tab) -> None:
    """Check that no script failed, no name became markup, and nothing is wider than the page."""
    assert tab.errors == []
    assert tab.value("document.querySelectorAll('main img').length") == 0
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    assert tab.value("document.title") != "run"


def test_from_the_topics_to_a_record(browser: Browser, console: ConsoleServer) -> None:
    tab = opened(browser, console, "#topics")
    tab.wait("document.querySelector('tbody a')")
    names = tab.value("[...document.querySelectorAll('tbody tr a')].map(each => each.textContent)")
    assert names == ["empty", "framed", "orders"]
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("ord")
    tab.wait("document.querySelectorAll('tbody tr').length === 1")
    tab.page.click("tbody a")
    tab.wait(f"{RECORDS} === 50")
    # The newest is on top, and opens by keyboard.
    tab.page.focus("details.record summary")
    tab.page.keyboard.press("Enter")
    tab.wait("document.querySelectorAll('details.record pre').length === 2")
    assert tab.value("document.querySelector('.record .headers dt').textContent") == HOSTILE
    tab.page.click("text=Older records")
    tab.wait(f"{RECORDS} === 62")
    tab.page.click("details.record:last-of-type summary")
    # A number that a script would round is shown as it is.
    tab.wait("document.querySelector('main').innerText.includes('\"large\": 12345678901234567890')")
    is_sound(tab)


def test_a_record_by_its_schema_and_one_that_does_not_fit(
    browser: Browser, console: ConsoleServer
) -> None:
    tab = opened(browser, console, "#topic=framed")
    tab.wait(f"{RECORDS} === 2")
    for nth in (1, 0):
        tab.page.click(f"details.record >> nth={nth} >> summary")
    tab.wait("document.querySelectorAll('.record pre').length === 4")
    text = tab.value("document.querySelector('main').innerText")
    assert "Avro deep.thought.Answer (schema 1)" in text
    assert "The bytes do not fit schema 2" in text
    assert '": 42' in text
    assert HOSTILE in text
    tab.page.select_option("select >> nth=2", "hex")
    tab.wait("document.querySelector('main').innerText.includes('00 00 00 00 01 54')")
    is_sound(tab)


def test_a_large_value_is_shown_whole_when_asked_for(
    browser: Browser, console: ConsoleServer
) -> None:
    tab = opened(browser, console, "#topic=orders&partition=0&offset=30")
    tab.wait(f"{RECORDS} === 1")
    tab.page.click("details.record summary")
    tab.wait("document.querySelectorAll('.record pre').length === 2")
    length = "document.querySelectorAll('.record pre')[1].textContent.length"
    assert tab.value(length) < 10_000
    tab.page.click("text=Show all of it")
    tab.wait(f"{length} === 100000")
    tab.page.select_option("select >> nth=2", "hex")
    tab.wait(
        "document.querySelectorAll('.record pre')[1].textContent.startsWith('00000000  78 78')"
    )
    is_sound(tab)


def test_a_search_shows_what_it_found_and_how_far_it_is(
    browser: Browser, console: ConsoleServer
) -> None:
    tab = opened(browser, console, "#topic=orders")
    tab.wait(f"{RECORDS} === 50")
    tab.page.fill("form input[type=search]", "onerror")
    tab.page.keyboard.press("Enter")
    tab.wait("document.querySelector('.progress')?.textContent.includes('Searched all')")
    assert tab.value(RECORDS) == 1
    assert "1 record found in 62 of 62 offsets" in tab.value(
        "document.querySelector('.progress').textContent"
    )
    tab.page.fill("form input[type=search]", "(")
    tab.page.check("form input[type=checkbox] >> nth=0")
    tab.page.keyboard.press("Enter")
    tab.page.click("form button")
    tab.wait("document.querySelector('[role=alert]')?.textContent.includes('no pattern')")
    tab.errors.clear()
    is_sound(tab)


def test_a_field_is_found_and_new_records_are_followed(
    browser: Browser, console: ConsoleServer
) -> None:
    tab = opened(browser, console, "#topic=orders")
    tab.wait(f"{RECORDS} === 50")
    tab.page.get_by_label("Field of JSON in keys or values").fill("n")
    tab.page.get_by_label("Value of the field").fill("17")
    tab.page.get_by_role("button", name="Search", exact=True).click()
    tab.wait("document.querySelector('.progress')?.textContent.includes('Searched all')")
    assert tab.value(RECORDS) == 1
    tab.page.get_by_label("Field of JSON in keys or values").fill("")
    tab.page.get_by_role("button", name="Follow new records").click()
    said = "document.querySelector('[role=status].note')?.textContent"
    tab.wait(f"{said}.includes('New records appear here')")
    with Cluster(console._place.bootstrap, LIMIT_S) as cluster:
        for number in (1, 2):
            produce_record(cluster, ("empty", 0), b"k", b"%d" % number)
    tab.page.get_by_role("button", name="Stop").click()
    tab.wait(f"{said}.includes('Stopped: 0 records of 0 written')")
    tab.value("void (location.hash = '#topic=empty')")
    tab.wait(f"{RECORDS} === 2")
    tab.page.get_by_role("button", name="Follow new records").click()
    tab.wait(f"{said}.includes('0 records of 0 written')")
    with Cluster(console._place.bootstrap, LIMIT_S) as cluster:
        produce_record(cluster, ("empty", 0), b"k", HOSTILE.encode())
    tab.wait(f"{said}.includes('1 record of 1 written')")
    assert HOSTILE in tab.value("document.querySelector('details.record').textContent")
    tab.page.get_by_role("button", name="Stop").click()
    is_sound(tab)


@pytest.mark.parametrize("width", [390, 768, 1400])
def test_each_page_fits_its_window(browser: Browser, console: ConsoleServer, width: int) -> None:
    tab = opened(browser, console, "#topics", width)
    for address, words in (
        ("#transactions", "readers of committed records wait for 64 records"),
        ("#topic=orders", "2 partitions"),
        ("#topic=orders&tab=partitions", "last stable"),
        ("#topic=orders&tab=producers", HOSTILE),
        ("#topic=empty&tab=groups", "There are none."),
        ("#topic=orders&tab=settings", "defaults, too"),
    ):
        tab.value(f"void (location.hash = {json.dumps(address)})")
        tab.wait(f"document.querySelector('main').innerText.includes({json.dumps(words)})")
        is_sound(tab)


def test_a_topic_that_is_not_there(browser: Browser, console: ConsoleServer) -> None:
    tab = opened(browser, console, f"#topic={quote(HOSTILE)}")
    tab.wait("document.querySelector('main [role=alert]')?.textContent.includes('no topic')")
    # The browser says itself that an answer was 404.
    tab.errors.clear()
    is_sound(tab)
