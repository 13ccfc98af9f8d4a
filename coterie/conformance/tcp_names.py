"""Names of a transcript against a running broker.

Groups get a suffix, so that runs do not meet; member ids are learnt from the answers: the first id
seen that begins with a client's or an instance's name is its `-1`, the next its `-2`. Topics are
real ones, made when they are first mentioned.
"""

import re
from collections.abc import Callable

from coterie.conformance.names import Names

_UUID = re.compile(r"(.+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class TcpNames(Names):
    """The names of one run of one transcript."""

    def __init__(self, suffix: str, topic_id_of: Callable[[str], bytes]) -> None:
        """Groups are called `name` + `suffix`; `topic_id_of` makes a topic sure to exist."""
        super().__init__()
        self._suffix = suffix
        self._topic_id_of = topic_id_of
        self._real: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._topics: dict[str, bytes] = {}

    def group(self, name: str) -> str:
        """The group id of this run; the empty one stays empty."""
        return name + self._suffix if name else name

    def group_text(self, group_id: str) -> str:
        """The name without the suffix of this run."""
        return group_id.removesuffix(self._suffix)

    def is_ours(self, group_id: str) -> bool:
        """Whether a group of the broker belongs to this run."""
        return group_id.endswith(self._suffix)

    def member(self, name: str) -> str:
        """The id the broker gave; a name it never gave is sent as it is."""
        return self._real.get(name, name)

    def member_text(self, member_id: str) -> str:
        """The name of an id, by first appearance."""
        match = _UUID.fullmatch(member_id)
        if match is None:
            return member_id
        if member_id not in self._shown:
            prefix = match[1]
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            name = f"{prefix}-{self._counts[prefix]}"
            self._shown[member_id], self._real[name] = name, member_id
        return self._shown[member_id]

    def message_text(self, message: str) -> str:
        """A message with the names of the transcript."""
        return message.replace(self._suffix, "")

    def topic_id(self, topic: str) -> bytes:
        """The id the broker gave the topic."""
        if topic not in self._topics:
            self._topics[topic] = self._topic_id_of(topic)
        return self._topics[topic]

    def topic_name(self, topic_id: bytes) -> str:
        """The topic of an id; hexadecimal if this run has not mentioned it."""
        for topic, known in self._topics.items():
            if known == topic_id:
                return topic
        return topic_id.hex()

    def forget_topic(self, topic: str) -> bytes:
        """A topic is deleted."""
        return self._topics.pop(topic, bytes(16))
