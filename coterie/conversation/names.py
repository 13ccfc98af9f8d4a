"""The names in a transcript and the names on the wire.

The core sees the names of the transcript. A driver for a running broker gives groups a suffix, so
that runs do not disturb each other, and learns real member ids from the first response that has
them.
"""

from coterie.conversation.syntax import TranscriptError
from coterie.protocol.fields import uuid_text
from coterie.protocol.wire import ZERO_UUID


class Names:
    """Names for the core: groups and members unchanged, topic ids counted from 1.

    The driver for a running broker overrides these methods.

    Attributes:
        topic_ids: the ids of topics, by the names of the transcript.
        deleted_ids: those of topics that were deleted, by `deleted-` and the name; the last of each
            name.
    """

    def __init__(self) -> None:
        """Begin without topics."""
        self.topic_ids: dict[str, bytes] = {}
        self.deleted_ids: dict[str, bytes] = {}
        self._created = 0

    def group(self, name: str) -> str:
        """Return the group id to send."""
        return name

    def transactional_id(self, name: str) -> str:
        """Return the transactional id to send."""
        return name

    def group_text(self, group_id: str) -> str:
        """Return the name of a group in the transcript."""
        return group_id

    def member(self, name: str) -> str:
        """Return the member id to send."""
        return name

    def member_text(self, member_id: str) -> str:
        """Return the name of a member in the transcript."""
        return member_id

    def message_text(self, message: str) -> str:
        """Return an error message with the names of the transcript."""
        return message

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, which is created if it does not exist."""
        if topic not in self.topic_ids:
            self._created += 1
            self.topic_ids[topic] = self._created.to_bytes(16, "big")
        return self.topic_ids[topic]

    def topic_name(self, topic_id: bytes) -> str:
        """Return the topic with this id.

        Raises:
            TranscriptError: no topic has it.
        """
        topic = self.known_topic(topic_id)
        if topic is None:
            raise TranscriptError(f"no topic has the id {topic_id.hex()}")
        return topic

    def forget_topic(self, topic: str) -> bytes:
        """Forget a deleted topic and return its id; a later topic of that name gets another id."""
        topic_id = self.topic_ids.pop(topic, ZERO_UUID)
        self.deleted_ids[f"deleted-{topic}"] = topic_id
        return topic_id

    def partitioned(self, topic_id: bytes) -> str:
        """Return the topic of an assignment, which may have been deleted."""
        topic = self.known_topic(topic_id)
        deleted = (name for name, each in self.deleted_ids.items() if each == topic_id)
        return topic or next(deleted, None) or uuid_text(topic_id)

    def partitioned_id(self, topic: str) -> bytes:
        """Return the id of a topic that a member owns; it may have been deleted."""
        return self.deleted_ids.get(topic) or self.topic_id(topic)

    def own(self, name: str) -> str:
        """Return the name that a transcript writes as `@name`, such as that of a topic."""
        return name

    def own_text(self, name: str) -> str:
        """Return a name from the wire as a transcript writes it."""
        return name

    def known_topic(self, topic_id: bytes) -> str | None:
        """Return the topic with this id; None if this transcript knows no such topic."""
        return next((topic for topic, each in self.topic_ids.items() if each == topic_id), None)

    def topic(self, name: str) -> str:
        """Return the topic that a commit or a subscription names."""
        return name

    def topic_text(self, name: str) -> str:
        """Return the name of a topic in the transcript."""
        return name

    def regex(self, regex: str) -> str:
        """Return the regular expression to which a member subscribes."""
        return regex

    def host_text(self, host: str) -> str:
        """Return the address from which a client came."""
        return host
