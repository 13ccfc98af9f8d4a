"""The version and its section of CHANGELOG.md, by the conventions of keepachangelog.com."""

import re
from pathlib import Path

from coterie import __version__

_HEADING = re.compile(r"^## (\S+)(?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
UNRELEASED = "Unreleased"


class NotReady(Exception):  # noqa: N818 - it is no failure of the program
    """The sources cannot be released as they are; the text has the remedy."""


def release_notes(changelog: Path, version: str = __version__) -> str:
    """Return the section of a version, without its heading.

    Raises:
        NotReady: the version has no dated section, or changes are left that belong to no version.
    """
    text = changelog.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    ends = [each.start() for each in headings[1:]] + [len(text)]
    sections = {
        heading[1]: (heading[2], text[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    }
    date, notes = sections.get(version, (None, ""))
    if not date:
        raise NotReady(
            f"{changelog.name} has no section `## {version} - YYYY-MM-DD`."
            f" Move the entries of {UNRELEASED} below that heading."
        )
    if sections.get(UNRELEASED, (None, ""))[1]:
        raise NotReady(
            f"{changelog.name} has entries below {UNRELEASED}."
            f" Move them below {version}, or set the next version in coterie/__init__.py."
        )
    return notes
