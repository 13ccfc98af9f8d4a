"""The names of a transcript and what stands for them on the wire.

Against our core they are the same. A driver for a running broker gives groups a suffix of its own,
so that a run meets no trace of another, and learns member ids from the answers in which they first
appear.
"""

from coterie.conformance.transcript import TranscriptError
from coterie.protocol.wire import ZERO_UUID


class Names:
    """Groups and members by their own names; topics with ids made from the order of mention.

    A driver for a broker overrides the pairs of methods it maps.
    """

    def __init__(self) -> None:
        """No topic has been mentioned yet."""
        self._topic_ids: dict[str, bytes] = {}
        self._made = 0

    def group(self, name: str) -> str:
        """The group id to send."""
        return name

    def group_text(self, group_id: str) -> str:
        """The group's name in a transcript."""
        return group_id

    def member(self, name: str) -> str:
        """The member id to send."""
        return name

    def member_text(self, member_id: str) -> str:
        """The member's name in a transcript."""
        return member_id

    def message_text(self, message: str) -> str:
        """A message for people, with the names of the transcript in it."""
        return message

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic; one that is mentioned exists."""
        if topic not in self._topic_ids:
            self._made += 1
            self._topic_ids[topic] = self._made.to_bytes(16, "big")
        return self._topic_ids[topic]

    def topic_name(self, topic_id: bytes) -> str:
        """The topic of an id.

        Raises:
            TranscriptError: no topic has it.
        """
        for topic, known in self._topic_ids.items():
            if known == topic_id:
                return topic
        raise TranscriptError(f"no topic has the id {topic_id.hex()}")

    def forget_topic(self, topic: str) -> bytes:
        """A topic is deleted: its id; mentioned again it is another topic of that name."""
        return self._topic_ids.pop(topic, ZERO_UUID)
