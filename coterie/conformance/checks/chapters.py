"""Chapters: files with many small checks of one area.

    # Produce: what a broker checks before it appends.

    == unknown_topic
    Records for a topic that does not exist are refused.
    source: Kafka 0.8, [data-plane/batch-checks]
    versions: Produce 3-12
    topics: sales, compact*2(cleanup.policy=compact)

    c1> Produce vN topic_data=[{name: @nope}]
    ----
    c1< Produce vN responses=[...]

A section is a check: its name, one sentence, further lines of its head, and the blocks of a
transcript. `versions:` makes one check of it for each version, with `vN` in the blocks. `each:`
makes one for each row of values: `each: codec text | gzip a | lz4 b` stands for two checks, in
which `<codec>` and `<text>` have the values of a row; a quoted value may have spaces, and a row may
be a line of its own. `since:` and
`until:` name the first and last release of Kafka that behaves so, `needs:` is that of transcripts.
A check is about the API of its `versions:`, else about that of a line `about:` in the section or
below the title of the chapter, else about that of its first request. `begin: producer ongoing` puts
the blocks of `begin/producer.blocks` and `begin/ongoing.blocks` before those of the section.
`users: alice, bob` are users that can log in and have no rights. `mechanisms: SCRAM-SHA-256`, below
the title, is for chapters about brokers with logins and an authorizer.

`since:` below the title of a chapter holds for each section that has none. `brokers: 3` there says
that its checks need a cluster of so many brokers. In them `place other at non-coordinator of
orders` lets the client `other` talk to such a broker (`over_tcp/places.py`), `elsewhere payments`
names a group that another broker coordinates, and `topics: sales(replicas=2)` gives a topic two
replicas: on the broker under check, which leads, and on another one.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.checks.check import Check, requests_of
from coterie.conformance.over_tcp.target import TopicSpec
from coterie.conformance.over_tcp.versions import CHAPTER_SUFFIX
from coterie.conformance.releases import parse_release
from coterie.conformance.transcript import parse
from coterie.conversation.syntax import TranscriptError

_DIRECTORY = Path(__file__).parents[1] / "chapters"
_REPLICAS = "replicas"
_BEGINNINGS = _DIRECTORY / "begin"
_HEAD = re.compile(r"(source|versions|topics|users|each|since|until|needs|about|begin): *(.*)")
_OF_CHAPTER = re.compile(r"^(about|brokers|mechanisms|since): *(.*)$", flags=re.MULTILINE)
_RULE = re.compile(r"\[([a-z-]+/[a-z0-9-]+)\]")
_TOPIC = re.compile(r"(?P<name>[\w.-]+)(?:\*(?P<count>\d+))?(?:\((?P<configs>[^)]*)\))?")
_VERSIONS = re.compile(r"(?P<api>\w+) (?P<first>\d+)(?:-(?P<last>\d+))?")


class _Section(NamedTuple):
    """A section of a file, before it is multiplied."""

    path: Path
    name: str
    sentence: str
    head: dict[str, str]
    body: str


def chapter_paths() -> list[Path]:
    """Return the files of all chapters, sorted."""
    return sorted(_DIRECTORY.glob(f"*{CHAPTER_SUFFIX}"))


def read_chapter(path: Path) -> list[Check]:
    """Read the checks of one file.

    Raises:
        TranscriptError: it is not a chapter.
    """
    checks = []
    for section in _sections(path):
        for values in _rows(section):
            checks += _variants(section, values)
    return checks


def _sections(path: Path) -> Iterator[_Section]:
    title, *parts = re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    of_chapter = dict(_OF_CHAPTER.findall(title))
    for part in parts:
        name, _, rest = part.partition("\n")
        text, _, body = rest.partition("\n\n")
        head = {f"chapter {name}": value for name, value in of_chapter.items()}
        if "since" in of_chapter:
            head["since"] = of_chapter["since"]
        sentence = []
        for line in text.splitlines():
            match = _HEAD.fullmatch(line)
            if line.startswith("| "):
                head["each"] += f" {line.strip()}"
            elif match is None:
                sentence.append(line.strip())
            else:
                head[match[1]] = match[2].strip()
        if not sentence or "source" not in head:
            raise TranscriptError(f"{path}: {name} needs a sentence and a source")
        yield _Section(path, name.strip(), " ".join(sentence), head, body)


def _rows(section: _Section) -> list[dict[str, str]]:
    """Return the values of each row of `each:`; one empty row without it."""
    if "each" not in section.head:
        return [{}]
    names, *rows = (shlex.split(row) for row in section.head["each"].split(" | "))
    for row in rows:
        if len(row) != len(names):
            raise TranscriptError(f"{section.path}: {section.name}: {row} is not {names}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _variants(section: _Section, values: dict[str, str]) -> list[Check]:
    """Return the check of one row, once for each version."""
    area = section.path.stem
    situation = f"{area}/{section.name}"
    if values:
        variant = next(iter(values.values()))
        situation += f"/{re.sub(r'[^A-Za-z0-9_.-]+', '-', variant).strip('-')}"
    body, sentence = _filled(section.body, values), _filled(section.sentence, values)
    if "versions" not in section.head:
        return [
            _check(section, situation, situation, sentence, body, _filled_head(section, values))
        ]
    checks = []
    head = _filled_head(section, values)
    for part in head["versions"].split(","):
        match = _VERSIONS.fullmatch(part.strip())
        if match is None:
            raise TranscriptError(f"{section.path}: {section.name}: versions: API 3-12")
        first, last = int(match["first"]), int(match["last"] or match["first"])
        for version in range(first, last + 1):
            text = re.sub(r"\bvN\b", f"v{version}", body)
            checks.append(
                _check(
                    section, f"{situation}/v{version}", situation,
                    f"{sentence.removesuffix('.')} ({match['api']} version {version}).", text, head,
                )
            )  # fmt: skip
    return checks


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return text


def _filled_head(section: _Section, values: dict[str, str]) -> dict[str, str]:
    return {name: _filled(text, values) for name, text in section.head.items()}


def _check(
    section: _Section, name: str, situation: str, sentence: str, body: str, head: dict[str, str]
) -> Check:
    needs = f"needs: {head['needs']}\n" if "needs" in head else ""
    begin = "".join(f"{_beginning(each)}\n\n" for each in head.get("begin", "").split())
    transcript = parse(f"# {sentence}\n{needs}\n{begin}{body}", section.path)
    requests = requests_of(transcript)
    about = head.get("versions", "").split(" ")[0] or head.get("about", "")
    apis = [each.api for each in requests]
    if not about and apis:
        of_chapter = head.get("chapter about", "")
        about = of_chapter if of_chapter in apis else apis[0]
    return Check(
        name=name,
        area=section.path.stem,
        sentence=sentence,
        source=_RULE.sub(r"docs/spec \1", head["source"]),
        api=about or "frames",
        versions=tuple(sorted({each.version for each in requests if each.api == about})),
        situation=situation,
        transcript=transcript,
        topics=tuple(_topics(head.get("topics", ""))),
        brokers=int(head.get("chapter brokers", "1")),
        since=parse_release(head["since"]) if "since" in head else None,
        until=parse_release(head["until"]) if "until" in head else None,
        users=tuple(_words(head.get("users", ""))),
        mechanisms=tuple(_words(head.get("chapter mechanisms", ""))),
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@cache
def _beginning(name: str) -> str:
    """Return the blocks that several sections begin with, without the comment of their file."""
    text = (_BEGINNINGS / f"{name}.blocks").read_text(encoding="utf-8")
    return text.partition("\n\n")[2].strip()


def _topics(text: str) -> Iterator[TopicSpec]:
    for match in _TOPIC.finditer(text):
        pairs = [each.partition("=") for each in (match["configs"] or "").split()]
        configs = {name: value for name, _, value in pairs}
        replicas = int(configs.pop(_REPLICAS, "1"))
        yield TopicSpec(match["name"], int(match["count"] or 1), tuple(configs.items()), replicas)
