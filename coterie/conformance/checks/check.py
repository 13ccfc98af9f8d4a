"""One check: a behaviour with a name, a sentence, its source and the transcript that shows it."""

import re
from typing import NamedTuple

from coterie.conformance.over_tcp.target import TopicSpec
from coterie.conformance.over_tcp.versions import is_exact
from coterie.conformance.releases import Release
from coterie.conformance.transcript import Transcript
from coterie.conversation.syntax import RequestLine, parse_duration_ms, parse_request_line

_REPEATED = re.compile(r"^(eventually|retry) ")


class Check(NamedTuple):
    """One behaviour of a broker.

    Attributes:
        name: stable; the area, the behaviour, and the variant if there are several.
        area: the chapter it belongs to.
        sentence: what a broker does, for a reader who does not know the protocol's details.
        source: where the behaviour comes from: a KIP, a release of Kafka, a rule of docs/spec.
        api: the API that it is about.
        versions: the versions of this API that it uses.
        situation: the name without the version.
        transcript: the conversation and what is expected of it.
        topics: what it needs, without the prefix of the run.
        brokers: how many a cluster must have at least.
        users: the users that it needs, likewise: they can log in, and have no rights.
        mechanisms: how clients can log in to a broker of the check, which has an authorizer.
        since, until: the first and the last release of Kafka that behaves so; None without limit.
    """

    name: str
    area: str
    sentence: str
    source: str
    api: str
    versions: tuple[int, ...]
    situation: str
    transcript: Transcript
    topics: tuple[TopicSpec, ...] = ()
    brokers: int = 1
    since: Release | None = None
    until: Release | None = None
    users: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether its versions are what it is about, so that an older one does not do."""
        return is_exact(self.transcript)

    @property
    def requests(self) -> list[RequestLine]:
        """The requests of the transcript, in order."""
        return requests_of(self.transcript)

    @property
    def waits_ms(self) -> int:
        """How long its ticks take together."""
        return sum(
            parse_duration_ms(command.text.removeprefix("tick "))
            for block in self.transcript.blocks
            for command in block.commands
            if command.text.startswith("tick ")
        )


def requests_of(transcript: Transcript) -> list[RequestLine]:
    """Return the requests of a transcript, in order."""
    found = []
    for block in transcript.blocks:
        for command in block.commands:
            request = parse_request_line(_REPEATED.sub("", command.text))
            if request is not None:
                found.append(request)
    return found
