"""Chapters: sections become checks, multiplied over versions and rows of values."""

from pathlib import Path

import pytest

from coterie.conformance.checks.chapters import chapter_paths, read_chapter
from coterie.conformance.over_tcp.places import parse_place
from coterie.conformance.over_tcp.target import TopicSpec
from coterie.conversation.syntax import TranscriptError, parse_arguments

CHAPTER = """\
# Produce: what is checked.
about: Produce

== appends
Records are appended.
source: [data-plane/one-batch], KIP-98
versions: Produce 3-4, Fetch 7
topics: sales, old*2(cleanup.policy=compact retention.ms=5)

c1> Produce vN topic_data=[]
----
c1< Produce vN responses=[]

== refused
A batch that <what> is refused.
source: Kafka 0.8
each: name what error
| big "is too big" MESSAGE_TOO_LARGE
| late 'is "late"' INVALID_TIMESTAMP
since: 2.8

c1> Metadata v1 topics=[]
c1> Produce v8 topic_data=[]
----
c1< Metadata v1
c1< Produce v8 responses=[{error_code: <error>}]
"""


def chapter(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "produce.checks"
    path.write_text(text, encoding="utf-8")
    return path


def test_section_is_a_check_for_each_version_and_row(tmp_path: Path) -> None:
    checks = read_chapter(chapter(tmp_path, CHAPTER))
    assert [each.name for each in checks] == [
        "produce/appends/v3",
        "produce/appends/v4",
        "produce/appends/v7",
        "produce/refused/big",
        "produce/refused/late",
    ]
    first, *_, late = checks
    assert first.sentence == "Records are appended (Produce version 3)."
    assert first.source == "docs/spec data-plane/one-batch, KIP-98"
    assert (first.situation, first.api, first.versions) == ("produce/appends", "Produce", (3,))
    assert first.topics == (
        TopicSpec("sales"),
        TopicSpec("old", 2, (("cleanup.policy", "compact"), ("retention.ms", "5"))),
    )
    assert late.sentence == 'A batch that is "late" is refused.'
    assert late.transcript.blocks[0].expected[1].endswith("INVALID_TIMESTAMP}]")
    assert (late.api, late.versions, late.since, late.until) == ("Produce", (8,), (2, 8), None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: Kafka 0.8\n", "", "refused needs a sentence and a source"),
        ("Produce 3-4, Fetch 7", "from 3 on", "versions: API 3-12"),
        ('| big "is too big" MESSAGE_TOO_LARGE', "| big", "is not"),
    ],
)
def test_malformed_section_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CHAPTER
    with pytest.raises(TranscriptError, match=message):
        read_chapter(chapter(tmp_path, CHAPTER.replace(old, new)))


def test_every_row_and_variable_of_the_chapters_is_filled() -> None:
    for path in chapter_paths():
        for check in read_chapter(path):
            text = " ".join(line for block in check.transcript.blocks for line in block.expected)
            assert "<" not in check.sentence, check.name
            assert not any(f"<{name}>" in text for name in ("what", "error", "name")), check.name


def test_section_begins_with_the_blocks_that_it_names(tmp_path: Path) -> None:
    text = CHAPTER.replace("since: 2.8", "begin: coordinator").replace("MESSAGE_TOO_LARGE", "ok")
    *_, check, _ = read_chapter(chapter(tmp_path, text))
    assert [each.api for each in check.requests] == ["FindCoordinator", "Metadata", "Produce"]


def test_every_beginning_is_used() -> None:
    chapters = [path.read_text(encoding="utf-8") for path in chapter_paths()]
    used = {word for text in chapters for line in text.splitlines() for word in line.split()}
    for path in (chapter_paths()[0].parent / "begin").glob("*"):
        assert path.suffix == ".blocks"
        assert path.stem in used


def test_no_check_names_a_fetch_session_that_another_check_may_have() -> None:
    """Kafka draws ids at random; a broker that counts is never near these numbers."""
    requests = [each for path in chapter_paths() for check in read_chapter(path)
                for each in check.requests if each.api == "Fetch"]  # fmt: skip
    ids = {parse_arguments(each.arguments).named.get("session_id", "0") for each in requests}
    numbers = {int(each) for each in ids if not each.startswith("$")}
    assert 2_000_000_000 in numbers
    assert not {each for each in numbers if 0 < each < 2_000_000_000}


CLUSTER = """\
# Clusters.
brokers: 3
since: 4.0

== refused
A follower refuses records.
source: KIP-98
topics: sales*2(replicas=2 retention.ms=5)

place other at follower of sales-0
other> Produce v8 topic_data=[]
----
other< Produce v8 responses=[]

== old
It did not.
source: KIP-98
since: 2.8

c1> Metadata v1 topics=[]
----
c1< Metadata v1
"""


def test_lines_below_the_title_hold_for_each_section(tmp_path: Path) -> None:
    refused, old = read_chapter(chapter(tmp_path, CLUSTER))
    assert (refused.brokers, old.brokers) == (3, 3)
    assert (refused.since, old.since) == ((4, 0), (2, 8))
    assert refused.topics == (TopicSpec("sales", 2, (("retention.ms", "5"),), replicas=2),)


@pytest.mark.parametrize("text", ["other at follower", "c1 follower of sales-0", "at x of y"])
def test_place_names_a_client_a_role_and_a_subject(text: str) -> None:
    assert parse_place("c1 at non-replica of sales-0") == ("c1", "non-replica", "sales-0")
    with pytest.raises(TranscriptError, match="CLIENT at ROLE of SUBJECT"):
        parse_place(text)
