"""What the site is made of: links, navigation, reference. `make docs` builds it as a whole."""

import os
import re
from itertools import pairwise
from pathlib import Path

import click
import pytest

from coterie.cli.main import COMMANDS, main
from documentation.draw import all_diagrams
from documentation.links import problems
from documentation.markup import DRAWINGS, Links, parsed, written
from documentation.navigation import navigation
from documentation.pages import DOCS, Page, pages
from documentation.reference.commands import commands
from tests.documents.blocks import ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+\.md(?:#[^)\s]+)?|#[^)\s]+)\)")
_TEXTS = ("text", "code_inline")


@pytest.fixture(scope="module")
def found() -> dict[str, Page]:
    return {page.place: page for page in pages()}


def test_every_page_has_a_place_in_the_navigation(found: dict[str, Page]) -> None:
    assert navigation(list(found.values()))
    with pytest.raises(SystemExit, match=r"no place in documentation/navigation\.py: other\.md"):
        navigation([*found.values(), Page("other.md", "Other", "# Other")])


def test_links_of_pages_lead_to_pages_and_headings(found: dict[str, Page]) -> None:
    """The check of the built site is exact; this one needs no generator."""
    anchors = {place: headings(page.text) for place, page in found.items()}
    count, broken = 0, []
    for place, page in found.items():
        for link in [] if place.startswith("files/") else _LINK.findall(page.text):
            count += 1
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(place), name)) if name else place
            if target not in found or (anchor and anchor not in anchors[target]):
                broken.append((place, link))
    assert broken == []
    assert count > 500


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as the forge and the generator make them."""
    tokens = parsed(text)
    inside = [after for token, after in pairwise(tokens) if token.type == "heading_open"]
    titles = [
        "".join(part.content for part in each.children or () if part.type in _TEXTS)
        for each in inside
    ]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_there_is_a_way_in_for_each_use(found: dict[str, Page]) -> None:
    starts = {place for place in found if place.startswith("start/")}
    assert len(starts) == 4
    assert {place for place in starts if f"({place})" in found["index.md"].text} == starts


def test_every_command_and_option_is_in_the_reference(found: dict[str, Page]) -> None:
    for name in COMMANDS:
        text = found[f"reference/commands/{name}.md"].text
        for path, command in commands(name):
            assert f"# coterie {path}\n" in text
            missing = [
                option
                for each in command.params
                if isinstance(each, click.Option) and not each.hidden
                for option in each.opts
                if option not in text
            ]
            assert missing == [], path
    assert isinstance(main, click.Group)


@pytest.mark.parametrize(
    ("place", "texts"),
    [
        ("reference/settings.md", ["### group.max.size\n", "### retention.ms\n"]),
        ("reference/findings.md", ["| `rewind` | warning |", "| `stale-epoch` | Members were"]),
        ("reference/differences.md", ["* [end](../spec/transactions.md#end): EndTxn is answered"]),
        (
            "reference/lab.md",
            ["| `rolling` | `every_s` `down_s` |", "| `rate` | `10` | records a second"],
        ),
        ("reference/packages.md", ["## coterie/storage\n", "| `filesystem.py` | "]),
        ("reference/transcripts.md", ["| `Heartbeat` | `group=orders`", "| `restart`: stop "]),
        ("reference/client-findings.md", ["| sarama | breaks | `assigning/missing-topics`: "]),
        ("reference/limits.md", ["* groups: 100,000;"]),
        ("reference/commands/topics.md", ["* `topic` `deleted` `error`\n"]),
        ("reference/apis.md", ["| 26 | EndTxn | 0 to 5 | transactional id WRITE | response |\n"]),
        ("reference/control.md", ["### POST /groups/{group_id}/wait/stable\n", "| `members` |"]),
        ("reference/python.md", ["### Group.wait_stable\n", "## CoordinatorLoads\n"]),
    ],
)
def test_the_reference_has_what_the_code_has(
    found: dict[str, Page], place: str, texts: list[str]
) -> None:
    for text in texts:
        assert text in found[place].text


def test_diagrams_have_drawings_and_drawings_diagrams() -> None:
    assert set(all_diagrams()) == {path.name for path in DRAWINGS.glob("*.svg")}, (
        "run `make drawings`"
    )


def test_texts_are_changed_only_where_they_have_links() -> None:
    page = DOCS / "testing.md"
    adr = DOCS / "adr" / "0010-http.md"
    links = Links({page: "testing.md", adr: "adr/0010-http.md", ROOT / "README.md": "overview.md"})
    text = (
        "See [log/process-death], ADR 10 and [here](../README.md#limits); `ADR 10`.\n"
        "* item\n\n    ADR 10\n"
        "\n`coterie docs --page reference/limits` has more.\n"
    )
    assert written(text, page, "testing.md", links) == (
        "See [log/process-death](spec/log.md#process-death), [ADR 10](adr/0010-http.md) and"
        " [here](overview.md#limits); `ADR 10`.\n"
        "\n* item\n\n    [ADR 10](adr/0010-http.md)\n"
        "\n[`coterie docs --page reference/limits`](reference/limits.md) has more.\n"
    )


def test_broken_links_and_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a>'
        '<a href="https://example.org/"></a><script src="https://example.org/a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1>')
    assert problems(tmp_path) == [
        "a.html: loads https://example.org/a.js from another host",
        "a.html: b.html#gone leads nowhere",
        "a.html: c.html leads nowhere",
    ]
