"""Kafka Streams counts words exactly once, although it and the broker are killed.

The application has `processing.guarantee=exactly_once_v2`. Every word's counts must rise with each
record that a read_committed reader gets, and must end at what was written; a doubled record of the
input or of the changelog would show as a wrong count, an aborted one as a count that falls.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from coterie.lab.live.parts import STREAMS_4, compile_java, jars_of, java_command
from coterie.processes import Child
from coterie.storage.properties import properties_text
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import CommittedReader, create_topics, produce

CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}

_SOURCE = Path(__file__).parent / "java" / "WordCount.java"
PARTITIONS = 3
_WORDS = [f"word-{number}" for number in range(40)]
_LINE_WORDS = 5
_LIMIT_S = 120.0


class Counting:
    """The input so far, and the counts that a reader has seen."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.expected: Counter[str] = Counter()
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.lines, self.counts = around.name("lines"), around.name("counts")
        create_topics(around.bootstrap, {self.lines: PARTITIONS, self.counts: PARTITIONS})
        self._reader = CommittedReader(around.bootstrap, {self.counts: PARTITIONS})
        self._random = random.Random(1)

    def feed(self, lines: int) -> None:
        """Write lines of words."""
        chosen = [self._random.choices(_WORDS, k=_LINE_WORDS) for _ in range(lines)]
        records = ((str(self._random.random()), " ".join(words)) for words in chosen)
        produce(self.around.bootstrap, self.lines, records)
        for words in chosen:
            self.expected.update(words)

    def wait(self, missing: int) -> None:
        """Read until at most this many words are not yet counted."""
        wanted = self.expected.total() - missing
        for message in self._reader.records(_LIMIT_S):
            if message is not None:
                word, count = message.key(), message.value()
                assert isinstance(word, bytes)
                assert isinstance(count, bytes)
                self.seen[word.decode()].append(int.from_bytes(count))
            if sum(counts[-1] for counts in self.seen.values()) >= wanted:
                return
        raise Failed(f"not within {_LIMIT_S:.0f} s: {wanted} words counted")

    def check(self) -> None:
        """Compare the counts with the input."""
        self._reader.close()
        wrong = [word for word, count in self.expected.items() if self.seen[word][-1] != count]
        back = [
            word
            for word, counts in self.seen.items()
            if any(later <= earlier for earlier, later in pairwise(counts))
        ]
        if wrong or back:
            raise Failed(f"wrong at the end: {wrong}; a count that did not rise: {back}")


def run(around: Surroundings) -> None:
    """Count words; kill the application twice, then the broker."""
    count_words(around, around.bootstrap, {})


class WordCount:
    """An application of several instances, each with a state of its own."""

    def __init__(
        self, around: Surroundings, counting: Counting, bootstrap: str, client: Mapping[str, str]
    ) -> None:
        """Compile it, for the topics of `counting` and with these properties of clients."""
        self.around = around
        self._jars = jars_of(STREAMS_4, around.note)
        self._classes = compile_java(self._jars, [_SOURCE], around.directory / "classes")
        properties = around.directory / "client.properties"
        properties.write_text(properties_text(client), encoding="utf-8")
        self.name = around.name("word-count")
        self._before = [bootstrap, self.name, counting.lines, counting.counts]
        self._properties = str(properties)

    def start(self, instance: str = "state") -> Child:
        """Start an instance; one of the same name that ran before has left its state."""
        state = str(self.around.directory / instance)
        command = java_command(
            self._jars,
            "WordCount",
            [*self._before, state, self._properties],
            heap_mb=256,
            options=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
            classes=[self._classes],
        )
        return self.around.children.start(f"word-count-{instance}", command)


def count_words(around: Surroundings, bootstrap: str, properties: Mapping[str, str]) -> None:
    """Do so with an application that is connected to an address, with client properties."""
    counting = Counting(around)
    application = WordCount(around, counting, bootstrap, properties)
    counting.feed(500)
    child = application.start()
    counting.wait(missing=1000)
    for _ in range(2):
        child.kill()
        counting.feed(300)
        child = application.start()
        counting.wait(missing=500)
    counting.feed(300)
    if around.owns_broker:
        around.kill_broker()
    counting.feed(300)
    counting.wait(missing=0)
    counting.check()
    around.note(f"{counting.expected.total()} words, counted once")
