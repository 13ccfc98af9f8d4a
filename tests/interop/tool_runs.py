"""Runs of Kafka's tools against a Kafka and a broker of ours, line by line."""

import difflib
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from coterie.processes import Child
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.programs._tool_calls import CLASSES, Tool

# What a program with calls of tools waits for: two JVMs beside each other start slowly on a busy
# machine.
LIMIT_S = 300.0


class Place(NamedTuple):
    """A broker for tools: its address, and the directory of the files that calls name."""

    address: str
    directory: Path


def compare(
    around: Surroundings, kafka: KafkaNode, places: Sequence[Place], call: Tool
) -> list[str]:
    """Run a tool against a Kafka and a broker of ours; return what differs."""
    click.echo(f"  {call.call}", err=True)
    running = [kafka.begin(*_command(call, place), stdin=call.stdin) for place in places]
    if call.until:
        for child in running:
            # If it never comes, the comparison of the lines says so.
            with suppress(Failed):
                around.until(partial(_prints, child, call.until), LIMIT_S, call.until)
            child.signal(signal.SIGTERM)
    printed = [kafka.printed(child) for child in running]
    if not re.search(call.shows, printed[0]):
        return [call.call, f"  Kafka does not say {call.shows}:", *_indented(printed[0])]
    expected, found = (
        _lines(text, call, place) for text, place in zip(printed, places, strict=True)
    )
    if found == expected:
        return []
    found_differences = [call.call, *differences(expected, found)]
    click.echo("\n".join(found_differences), err=True)
    return found_differences


def differences(expected: Sequence[str], found: Sequence[str]) -> Iterator[str]:
    """Yield the lines that only one of two lists has, with their places in the order."""
    names = {"- ": "Kafka", "+ ": "ours "}
    for line in difflib.ndiff(expected, found):
        if line[:2] in names:
            yield f"  {names[line[:2]]} {line[2:]}"


def _prints(child: Child, pattern: str) -> bool:
    ended = not child.running
    return ended or re.search(pattern, child.log.read_text(errors="replace")) is not None


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()[:20]]


def _command(call: Tool, place: Place) -> tuple[str, list[str]]:
    """Return the class and the arguments."""
    tool, *arguments = call.call.replace("{directory}", str(place.directory)).split()
    if "{broker}" in arguments:
        arguments = [each.replace("{broker}", place.address) for each in arguments]
    else:
        arguments = ["--bootstrap-server", place.address, *arguments]
    return CLASSES[tool], arguments


def _lines(text: str, call: Tool, place: Place) -> list[str]:
    lines = []
    for line in text.splitlines():
        changed = line
        for pattern, replacement in call.changes:
            changed = re.sub(pattern, replacement, changed)
        lines.append(_normal(changed, place))
    kept = [line for line in lines if line and not (call.differs and re.search(call.differs, line))]
    return sorted(set(kept)) if call.sorted else kept


_VARYING = (
    # Most of these names are as long as the ids below.
    (r"console-consumer-\d+", "<id>"),
    (r"\b[A-Za-z0-9_-]{22}\b", "<id>"),
    (r"\[?\d{4}-\d\d-\d\d[ T][\d:,.+-]+\]?", "<time>"),
    (r'"(logDir|size|clusterId)":("[^"]*"|\d+)', r'"\1":<>'),
    (r'"log_dirs":\["[^"]*"\]', '"log_dirs":<>'),
    (r"(LeaderEpoch|HighWatermark|MaxFollowerLag\w*|Epoch):\s+-?\d+", r"\1: <n>"),
    (r"\b\d{13}\b", "<ms>"),
    # The listener of controllers is ours, and the end of the log of metadata.
    (r'"endpoints": \[[^\]]*\]', '"endpoints": <>'),
    (r"(<id>\s+)\d+", r"\1<n>"),
    (r"\s+", " "),
)


def _normal(line: str, place: Place) -> str:
    """Return a line without what differs between any two brokers."""
    text = line.replace(place.address, "<broker>").replace(str(place.directory), "<directory>")
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return text.strip()
