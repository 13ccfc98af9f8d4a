"""What differs from Apache Kafka: the sentences that docs/spec marks, and transcripts of them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from coterie.conformance.transcript import all_paths, read
from tests.spec_references import SPECIFICATION

_HEAD = """# Differences from Kafka

What Coterie does otherwise than Apache Kafka 4.3.1: what the [specification](../spec)
marks as **ours**. The rules of the journal, the pipeline, its report, recordings, the console and
terminals are ours altogether. `python -m tests.spec_references RULE` lists the code and the tests
of a rule. [The protocol](../protocol.md) has what is not there.

"""
_TRANSCRIPTS = """## Transcripts

They pin a choice that Kafka makes otherwise, or leaves open.

"""
_RULE = re.compile(r"^### (\S+)\n", re.MULTILINE)
_LOCAL_LINK = re.compile(r"\]\((?=[a-z-]+\.md)")
_OWN_LINK = re.compile(r"\]\(#")
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z`])")


def differences_page() -> str:
    """Return the page: a heading for each subject, a line for each difference."""
    parts = [_HEAD]
    for path in sorted(SPECIFICATION.glob("*.md")):
        found = [
            f"* [{rule}](../spec/{path.name}#{rule}): {_linked(text, path)}\n"
            for rule, text in marked(path.read_text(encoding="utf-8"))
        ]
        if found:
            parts += [f"## {path.stem}\n\n", *found, "\n"]
    return "".join([*parts, _TRANSCRIPTS, *_transcripts()])


def marked(text: str) -> Iterator[tuple[str, str]]:
    """Yield rules, and what follows their mark **Ours**, or their sentence with **ours**."""
    _, *rest = _RULE.split(text)
    for rule, body in zip(rest[::2], rest[1::2], strict=True):
        paragraphs = [" ".join(each.split()) for each in body.partition("\n## ")[0].split("\n\n")]
        for paragraph, following in pairwise([*paragraphs, ""]):
            before, mark, ours = paragraph.partition("**Ours**")
            if mark and not ours.strip(":"):
                # The list below it.
                ours = following.removeprefix("* ").replace(" * ", " ")
            if "**ours**" in before:
                yield rule, next(each for each in _SENTENCE.split(before) if "**ours**" in each)
            if mark:
                yield rule, ours.lstrip(":, ")


def _linked(text: str, path: Path) -> str:
    """Return text of a chapter with links that lead from the page."""
    text = _LOCAL_LINK.sub("](../spec/", text)
    return _OWN_LINK.sub(f"](../spec/{path.name}#", text)


def _transcripts() -> Iterator[str]:
    for path in all_paths():
        if "ours" in read(path).needs:
            comment = " ".join(read(path).comment.split())
            yield f"* `{path.parent.name}/{path.stem}`: {comment}\n"
