"""Runs transcripts against the coordinator core: real codecs, log in memory, virtual time.

    driver = CoreDriver()
    actual = driver.run(read(path))        # one list of lines per block
    wrong = differences(transcript, actual)

Every run has a coordinator of its own, so transcripts do not depend on each other.
"""

import difflib

from coterie.conformance.commands import COMMANDS
from coterie.conformance.core_broker import CoreBroker, Output
from coterie.conformance.group_setup import set_up_group
from coterie.conformance.transcript import Transcript
from coterie.conversation.names import Names
from coterie.conversation.requests import build_request
from coterie.conversation.syntax import (
    Arguments,
    TranscriptError,
    parse_arguments,
    parse_request_line,
)
from coterie.coordinator.groups.config import GroupConfig

KAFKAS_DEFAULTS = GroupConfig()


class CoreDriver:
    """One run of one transcript.

    Attributes:
        names: the names of the transcript; the same as on the wire.
        broker: the broker around the core.
    """

    def __init__(self, config: GroupConfig = KAFKAS_DEFAULTS) -> None:
        """Create a broker with these settings."""
        self.names = Names()
        self.broker = CoreBroker(self.names, config)

    def run(self, transcript: Transcript) -> list[list[str]]:
        """Carry out every block and return its output, one list of lines per block.

        Raises:
            TranscriptError: a command cannot be carried out as it is written.
        """
        actual: list[list[str]] = []
        for block in transcript.blocks:
            lines: list[str] = []
            for command in block.commands:
                try:
                    outputs = self.execute(command.text)
                except (TranscriptError, ValueError, KeyError, IndexError) as error:
                    where = f"{transcript.path}:{command.line}"
                    raise TranscriptError(f"{where}: {command.text}: {error}") from error
                lines += [line for output in outputs for line in output.lines]
            actual.append(lines)
        self.broker.check_log()
        return actual

    def _set_up_group(self, arguments: Arguments) -> list[Output]:
        """Carry out the steps of `given`; `delayed` and `responses` matter in real time only."""
        steps = set_up_group(self.names, arguments)
        step = next(steps)
        while True:
            if step.command:
                outputs = self.execute(step.command)
            else:
                self.broker.wait(step.duration_ms)
                outputs = self.broker.take_outputs()
            try:
                step = steps.send(outputs)
            except StopIteration as end:
                result: list[Output] = end.value
                return result

    def execute(self, text: str) -> list[Output]:
        """Carry out one command line."""
        request = parse_request_line(text)
        if request is not None:
            message = build_request(request, self.names)
            self.broker.request(request.client, message, request.version)
            return self.broker.take_outputs()
        verb, _, rest = text.partition(" ")
        # The name of a setting has dots, so `config` has positional arguments only.
        arguments = Arguments(rest.split(), {}) if verb == "config" else parse_arguments(rest)
        if verb == "given":
            outputs = self._set_up_group(arguments)
        elif verb in COMMANDS:
            COMMANDS[verb](self.broker, arguments)
            outputs = self.broker.take_outputs()
        else:
            raise TranscriptError(f"{verb!r} is neither a request nor a command")
        arguments.reject_unknown()
        return outputs


def differences(transcript: Transcript, actual: list[list[str]]) -> str:
    """Return a diff of expected and actual output by block; empty if they are equal."""
    parts: list[str] = []
    for block, lines in zip(transcript.blocks, actual, strict=True):
        if lines == block.expected:
            continue
        parts.append(f"{transcript.path}:{block.separator + 1}")
        parts += [f"  {command.text}" for command in block.commands]
        parts += difflib.ndiff(block.expected, lines)
    return "\n".join(parts)
