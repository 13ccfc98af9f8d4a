"""All checks: the transcripts of groups that a client can run, and the chapters."""

import re
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache

from coterie.conformance.checks.chapters import chapter_paths, read_chapter
from coterie.conformance.checks.check import Check, requests_of
from coterie.conformance.commands import CLIENT_COMMANDS, INSPECTION_COMMANDS
from coterie.conformance.transcript import Transcript, all_paths, read
from coterie.conversation.syntax import TranscriptError, parse_request_line

_RULE = re.compile(r"\[([a-z-]+/[a-z0-9-]+)\]")
_SCENARIO = re.compile(r"\b[KST]\d+\b")
# The API that the transcripts of an area are about.
_SUBJECTS = {
    **dict.fromkeys(
        ("join", "join_phase", "initial_delay", "rejoin", "size_limit", "static", "traces"),
        "JoinGroup",
    ),
    "stories": "JoinGroup",
    "sync": "SyncGroup",
    "heartbeat": "Heartbeat",
    "leave": "LeaveGroup",
    "offsets": "OffsetCommit",
    "consumer_groups": "ConsumerGroupHeartbeat",
    "streams_groups": "StreamsGroupHeartbeat",
}


@cache
def all_checks() -> tuple[Check, ...]:
    """Return every check, in the order of their names within their areas.

    Raises:
        TranscriptError: a file is malformed, or two checks have one name.
    """
    checks = []
    for path in all_paths():
        transcript = read(path)
        if is_for_clients(transcript):
            checks.append(_of_transcript(transcript))
    for path in chapter_paths():
        checks += read_chapter(path)
    repeated = [name for name, count in Counter(each.name for each in checks).items() if count > 1]
    if repeated:
        raise TranscriptError(f"several checks are called {', '.join(repeated)}")
    return tuple(checks)


def is_for_clients(transcript: Transcript) -> bool:
    """Return whether a client can run a transcript."""
    if "core" in transcript.needs:
        return False
    verbs = {
        command.text.partition(" ")[0]
        for block in transcript.blocks
        for command in block.commands
        if parse_request_line(command.text) is None
    }
    return verbs <= CLIENT_COMMANDS | INSPECTION_COMMANDS


def _of_transcript(transcript: Transcript) -> Check:
    name = "/".join(transcript.path.with_suffix("").parts[-2:])
    comment = transcript.comment.replace("\n", " ")
    prose = comment.partition("[")[0].strip()
    sentence = re.split(r"(?<=[.?!]) (?=[A-Z])", prose)[0]
    rules = [f"docs/spec {rule}" for rule in dict.fromkeys(_RULE.findall(comment))]
    scenarios = dict.fromkeys(_SCENARIO.findall(comment))
    source = ", ".join([*rules, *(f"scenario {each}" for each in scenarios)])
    requests = requests_of(transcript)
    api = _subject(name.partition("/")[0], [each.api for each in requests])
    return Check(
        name=name,
        area=name.partition("/")[0],
        sentence=sentence or prose or comment,
        source=source or "docs/transcripts.md",
        api=api,
        versions=tuple(sorted({each.version for each in requests if each.api == api})),
        situation=name,
        transcript=transcript,
        since=transcript.since,
        until=transcript.until,
    )


def _subject(area: str, apis: list[str]) -> str:
    """Return the API that a transcript is about: that of its area, or the one that it uses most."""
    if area in _SUBJECTS and (_SUBJECTS[area] in apis or not apis):
        return _SUBJECTS[area]
    return Counter(apis).most_common(1)[0][0] if apis else "JoinGroup"


def selected(checks: tuple[Check, ...], patterns: tuple[str, ...]) -> tuple[Check, ...]:
    """Return the checks whose name, area or API fits one of the patterns; all without patterns."""
    if not patterns:
        return checks
    return tuple(
        check
        for check in checks
        if any(
            pattern in (check.area, check.api)
            or fnmatchcase(check.name, pattern)
            or fnmatchcase(check.name, f"{pattern}/*")
            for pattern in patterns
        )
    )
