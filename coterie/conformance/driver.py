"""Runs transcripts against the coordinator core: the real codecs, a list for a log, virtual time.

    driver = CoreDriver()
    actual = driver.run(read(path))        # one list of lines a block
    wrong = differences(transcript, actual)

A transcript is independent of any other: each run has a coordinator of its own.
"""

import difflib

from coterie.conformance.core_broker import CoreBroker, Seen
from coterie.conformance.given import given
from coterie.conformance.names import Names
from coterie.conformance.requests import request_of
from coterie.conformance.stage import STAGE
from coterie.conformance.transcript import Transcript, TranscriptError, request_parts
from coterie.conformance.words import Words, words_of
from coterie.coordinator.config import GroupConfig


class CoreDriver:
    """One run of one transcript.

    Attributes:
        names: of the transcript; they are the names on the wire.
        broker: the core with what stands around it.
    """

    def __init__(self) -> None:
        """A fresh broker with Kafka's defaults."""
        self.names = Names()
        self.broker = CoreBroker(self.names, GroupConfig())
        self.broker.start()

    def run(self, transcript: Transcript) -> list[list[str]]:
        """Carry out every block; the lines it led to, one list a block.

        Raises:
            TranscriptError: a command cannot be carried out as it is written.
        """
        actual: list[list[str]] = []
        for block in transcript.blocks:
            lines: list[str] = []
            for command in block.commands:
                try:
                    seen = self.execute(command.text)
                except (TranscriptError, ValueError, KeyError, IndexError) as error:
                    where = f"{transcript.path}:{command.line}"
                    raise TranscriptError(f"{where}: {command.text}: {error}") from error
                lines += [line for each in seen for line in each.lines]
            actual.append(lines)
        self.broker.check_log()
        return actual

    def let_pass(self, duration_ms: int, answers: int) -> list[Seen]:  # noqa: ARG002
        """What happens in a time; the number of answers matters where time is not virtual."""
        return self.broker.tick(duration_ms)

    def execute(self, text: str, *, parks: bool = False) -> list[Seen]:  # noqa: ARG002
        """What follows from one command line; `parks` matters where answers take time."""
        request = request_parts(text)
        if request is not None:
            client, api, version, rest = request
            message = request_of(api, version, rest, self.names)
            return self.broker.request(client, message, version)
        verb, _, rest = text.partition(" ")
        if verb == "given":
            words = words_of(rest)
            seen = given(self, words)
        elif verb in STAGE:
            # A setting has dots in its name, so the line has bare words only.
            words = Words(rest.split(), {}) if verb == "config" else words_of(rest)
            seen = STAGE[verb](self.broker, words)
        else:
            raise TranscriptError(f"{verb!r} is neither a request nor a command")
        words.done()
        return seen


def differences(transcript: Transcript, actual: list[list[str]]) -> str:
    """A diff of what was expected and what came, by block; empty if all is as it should be."""
    parts: list[str] = []
    for block, lines in zip(transcript.blocks, actual, strict=True):
        if lines == block.expected:
            continue
        parts.append(f"{transcript.path}:{block.ruler + 1}")
        parts += [f"  {command.text}" for command in block.commands]
        parts += difflib.ndiff(block.expected, lines)
    return "\n".join(parts)
