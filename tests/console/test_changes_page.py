"""The dialog of changes in a browser: steps by the keyboard, a deletion, names that are HTML."""

from collections.abc import Iterator

import pytest

from coterie.client.cluster import Cluster
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from tests.console.accessible import serious_findings
from tests.console.changing import Changing, changing_console
from tests.console.raw_requests import LIMIT_S
from tests.interop.group_members import ClassicMember
from tests.pipeline.report.browser import Browser, Tab

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

HTML = "<img src=x onerror=window.hacked=1>"
_OPEN = "document.querySelector('dialog.change[open]')"


@pytest.fixture(scope="module")
def changing() -> Iterator[Changing]:
    """A console that may change its broker."""
    with changing_console(orders=2) as running:
        for index in range(2):
            running.kafka.produce("orders", *map(str, range(10)), partition=index)
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def visited(browser: Browser, console: ConsoleServer, at: str, **window: int | bool) -> Tab:
    """Open a view; the token is taken out of the address by the page."""
    tab = browser.visit(f"{console.url}&{at}", **window)  # type: ignore[arg-type]
    tab.wait("document.querySelector('.view h1')")
    return tab


def test_offsets_are_reset_by_the_keyboard(changing: Changing, browser: Browser) -> None:
    changing.commit("keys", 4, 5)
    tab = visited(browser, changing.console, "group=keys")
    page = tab.page
    page.get_by_role("button", name="Reset offsets…").press("Enter")
    tab.wait(_OPEN)
    page.get_by_label("To", exact=True).select_option("shift")
    page.get_by_label("Value", exact=True).fill("-2")
    page.get_by_label("Value", exact=True).press("Enter")
    page.get_by_text("Reset 2 offsets of group keys.").wait_for()
    assert "coterie groups reset-offsets --group keys" in page.locator(".command").inner_text()
    assert serious_findings(tab) == []
    # Focus stays in the dialog, whatever Tab does.
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(
            f"document.activeElement === document.body || {_OPEN}.contains(document.activeElement)"
        )
    # Another one commits: what was shown is not done.
    changing.commit("keys", 6)
    page.get_by_role("button", name="Reset the offsets").click()
    page.get_by_text("Nothing was changed").wait_for()
    assert set(changing.committed("keys").values()) == {6, 5}
    page.get_by_role("button", name="Reset the offsets").click()
    page.get_by_text("The offsets are reset.").wait_for()
    assert changing.committed("keys") == {("orders", 0): 4, ("orders", 1): 3}
    page.keyboard.press("Escape")
    tab.wait(f"!{_OPEN}")
    assert page.evaluate("document.activeElement.textContent").startswith("Reset offsets")


def test_deletion_needs_the_name_and_html_is_text(changing: Changing, browser: Browser) -> None:
    changing.commit(HTML, 4)
    tab = visited(
        browser, changing.console, f"group={HTML.replace(' ', '%20')}", width=390, dark=True
    )
    page = tab.page
    page.get_by_role("button", name="Delete the group…").click()
    page.get_by_text("1 committed offset will be lost.").wait_for()
    delete = page.get_by_role("button", name="Delete", exact=True)
    assert delete.is_disabled()
    page.get_by_label("to confirm").fill(HTML[:-1])
    assert delete.is_disabled()
    assert serious_findings(tab) == []
    page.get_by_label("to confirm").fill(HTML)
    delete.click()
    page.get_by_text("They are deleted.").wait_for()
    assert HTML not in changing.kafka.groups
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_members_of_a_group_are_expelled(changing: Changing, browser: Browser) -> None:
    servers, member = changing.kafka.bootstrap_servers, ClassicMember("expelled", "orders")
    member.join(servers)
    member.sync(servers, range(2))
    known = changing.kafka.group("expelled").members[0].member_id
    tab = visited(browser, changing.console, "group=expelled")
    page = tab.page
    tab.wait("document.body.innerText.includes('Members now')")
    page.get_by_role("button", name="Expel members…").click()
    # The dialog knows the members that the page shows.
    assert page.get_by_label("Member ids").input_value() == known
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_text("Expel 1 member from group expelled.").wait_for()
    assert known in page.get_by_role("region", name="What would change").inner_text()
    assert page.locator(".refused").count() == 0
    page.get_by_role("button", name="Expel", exact=True).click()
    page.get_by_text("They are expelled.").wait_for()
    assert not changing.kafka.group("expelled").members


def test_errors_of_a_form_are_shown(changing: Changing, browser: Browser) -> None:
    tab = visited(browser, changing.console, "topics")
    page = tab.page
    page.get_by_role("button", name="Create a topic…").click()
    page.get_by_label("Name").fill("a/b")
    page.get_by_label("Settings").fill("retention.ms")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_text("is not NAME=VALUE").wait_for()
    page.get_by_label("Settings").fill("retention.ms=1")
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_text("Nothing would be changed.").wait_for()
    assert "INVALID_TOPIC_EXCEPTION" in page.locator(".refused").inner_text()
    assert page.get_by_role("button", name="Create", exact=True).count() == 0


def test_console_that_is_read_only_has_no_buttons(changing: Changing, browser: Browser) -> None:
    servers = changing.kafka.bootstrap_servers
    changing.commit("seen", 1)
    with ConsoleServer(Place(lambda: Cluster(servers, LIMIT_S), servers)) as console:
        for at in ("group=seen", "topics", "topic=orders", "transactions"):
            tab = visited(browser, console, at)
            tab.wait("document.querySelector('.facts')")
            assert tab.page.locator(".changes").count() == 0
