"""The names of a transcript that runs against a broker over TCP.

Groups get a suffix, so that runs do not disturb each other. Member ids are learnt from responses:
the first id that begins with the name of a client or an instance is its `-1`, the next its `-2`.
Topics are created when they are first mentioned.
"""

import re
from collections.abc import Callable

from coterie.conformance.names import Names

_UUID = re.compile(r"(.+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class TcpNames(Names):
    """The names of one run of one transcript."""

    def __init__(self, suffix: str, topic_id_of: Callable[[str], bytes]) -> None:
        """Begin a run.

        Args:
            suffix: follows the name of every group.
            topic_id_of: creates a topic if need be and returns its id.
        """
        super().__init__()
        self._suffix = suffix
        self._topic_id_of = topic_id_of
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._topics: dict[str, bytes] = {}

    def group(self, name: str) -> str:
        """Return the group id with the suffix of this run; the empty id stays empty."""
        return name + self._suffix if name else name

    def group_text(self, group_id: str) -> str:
        """Return the name without the suffix of this run."""
        return group_id.removesuffix(self._suffix)

    def is_ours(self, group_id: str) -> bool:
        """Return whether a group of the broker belongs to this run."""
        return group_id.endswith(self._suffix)

    def member(self, name: str) -> str:
        """Return the real member id of a name; an unknown name is its own member id."""
        return self._ids.get(name, name)

    def member_text(self, member_id: str) -> str:
        """Return the name of a member id; names count ids in order of appearance."""
        match = _UUID.fullmatch(member_id)
        if match is None:
            return member_id
        if member_id not in self._names:
            prefix = match[1]
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            name = f"{prefix}-{self._counts[prefix]}"
            self._names[member_id], self._ids[name] = name, member_id
        return self._names[member_id]

    def message_text(self, message: str) -> str:
        """Return an error message with the names of the transcript."""
        return message.replace(self._suffix, "")

    def topic_id(self, topic: str) -> bytes:
        """Return the real id of a topic."""
        if topic not in self._topics:
            self._topics[topic] = self._topic_id_of(topic)
        return self._topics[topic]

    def topic_name(self, topic_id: bytes) -> str:
        """Return the topic with this id; the hexadecimal id if this run does not know it."""
        for topic, known in self._topics.items():
            if known == topic_id:
                return topic
        return topic_id.hex()

    def forget_topic(self, topic: str) -> bytes:
        """Forget a deleted topic and return its id."""
        return self._topics.pop(topic, bytes(16))
