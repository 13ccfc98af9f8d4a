"""The page of faults and clock in a browser: forms by their labels, a phone, read-only."""

from collections.abc import Iterator

import pytest

from coterie.testing import Broker, CloseAfter
from tests.console.accessible import serious_findings
from tests.pipeline.report.browser import Browser

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

HTML = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def test_fault_and_clock_are_changed_by_their_forms(kafka: Broker, browser: Browser) -> None:
    tab = browser.visit(kafka.console(allow_changes=True, browser=False).url)
    page = tab.page
    page.get_by_role("link", name="Faults and clock").click()
    page.get_by_text("No fault is installed. The clock of the brokers goes with").wait_for()
    # An error of a form is shown, and what was written stays.
    page.get_by_label("Error").fill("NOT_COORDINATR")
    page.get_by_label("API").fill("Heartbeat")
    page.get_by_label("Group").fill(HTML)
    page.get_by_label("How often").fill("2")
    page.get_by_role("button", name="Add the fault").click()
    page.get_by_text("is no error of Kafka's protocol").wait_for()
    tab.errors.clear()  # The browser writes the refused request into its console.
    assert kafka.faults == []
    page.get_by_label("Error").fill("NOT_COORDINATOR")
    page.get_by_label("How often").press("Enter")
    page.get_by_text("1 fault is installed.").wait_for()
    (fault,) = kafka.faults
    assert "NOT_COORDINATOR" in str(fault)
    assert f"Heartbeat for group '{HTML}'" in str(fault)
    assert page.get_by_text(f"Heartbeat for group {HTML}").count() == 1
    assert page.get_by_label("API").input_value() == "", "the form is ready for another one"
    page.get_by_label("A request", exact=True).select_option("Delay")
    page.get_by_label("Seconds", exact=True).fill("0.5")
    page.get_by_label("Client id").fill("one")
    page.get_by_role("button", name="Add the fault").click()
    page.get_by_text("is handled later: 500 ms").wait_for()
    page.get_by_label("By seconds").fill("3900")
    page.get_by_label("By seconds").press("Enter")
    page.get_by_text("The clock of the brokers is 1 h 05 min ahead.").wait_for()
    assert serious_findings(tab) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Remove: Heartbeat").click()
    page.get_by_text("1 fault is installed.").wait_for()
    assert (fault.is_removed, len(kafka.faults)) == (True, 1)
    assert page.evaluate("window.hacked") is None
    assert tab.errors == []


def test_page_that_is_read_only_only_lists(kafka: Broker, browser: Browser) -> None:
    kafka.fault(CloseAfter(), api="JoinGroup", for_seconds=60)
    tab = browser.visit(f"{kafka.console(browser=False).url}&control", width=390)
    tab.page.get_by_text("This console is read-only.").wait_for()
    assert tab.page.get_by_text("JoinGroup").count() == 1
    assert tab.page.locator("main button, main form").count() == 0
    assert tab.value("document.documentElement.scrollWidth <= innerWidth")
    assert serious_findings(tab) == []
    assert tab.errors == []
