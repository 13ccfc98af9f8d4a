"""The names of a transcript that runs against a broker over TCP.

Everything that a run creates begins with the prefix of the run, so it disturbs nothing else, and
everything can be found and removed afterwards. Member ids are learnt from responses: the first id
that begins with the name of a client or an instance is its `-1`, the next its `-2`.
"""

import re
from collections.abc import Callable

from coterie.conformance.names import Names

_UUID = re.compile(r"(.+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A group is tried under so many names until this broker coordinates it.
_MAX_SPELLINGS = 1000


def _any_place(_group_id: str) -> bool:
    return True


class TcpNames(Names):
    """The names of one run of one transcript.

    Attributes:
        prefix: of every name on the broker, with the separator.
        shared_prefix: of the topics that transcripts of groups share: nothing is written to them.
        topic_ids: the ids of the topics that the run has created, by the names of the transcript.
    """

    def __init__(
        self,
        prefix: str,
        shared_prefix: str | None = None,
        is_here: Callable[[str], bool] = _any_place,
    ) -> None:
        """Begin a run.

        Args:
            prefix: precedes every name on the broker.
            shared_prefix: precedes the topics of commits and subscriptions, if they are shared.
            is_here: whether the broker coordinates a group.
        """
        super().__init__()
        self.prefix = prefix
        self.shared_prefix = prefix if shared_prefix is None else shared_prefix
        self.topic_ids: dict[str, bytes] = {}
        self._is_here = is_here
        self._groups: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def group(self, name: str) -> str:
        """Return the group id to send; the empty id stays empty."""
        if not name:
            return name
        if name not in self._groups:
            spelling = f"{self.prefix}{name}"
            spellings = [spelling, *(f"{spelling}.{each}" for each in range(_MAX_SPELLINGS))]
            self._groups[name] = next(filter(self._is_here, spellings), spelling)
        return self._groups[name]

    def group_text(self, group_id: str) -> str:
        """Return the name of a group in the transcript."""
        for name, spelling in self._groups.items():
            if spelling == group_id:
                return name
        return group_id.removeprefix(self.prefix)

    def is_ours(self, group_id: str) -> bool:
        """Return whether a group of the broker belongs to this run."""
        return group_id.startswith(self.prefix)

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
        for name, spelling in self._groups.items():
            message = message.replace(spelling, name)
        return message.replace(self.prefix, "")

    @property
    def member_ids(self) -> list[str]:
        """The real member ids that this run has learnt."""
        return list(self._names)

    def without_ids(self, text: str) -> str:
        """Return a text with the names of member ids in place of the real ones."""
        for member_id, name in self._names.items():
            text = text.replace(member_id, name)
        return text

    def topic_id(self, topic: str) -> bytes:
        """Return the real id of a topic; zero if the run has not created it."""
        return self.topic_ids.get(topic, bytes(16))

    def topic_name(self, topic_id: bytes) -> str:
        """Return the topic with this id; the hexadecimal id if this run does not know it."""
        return self.known_topic(topic_id) or topic_id.hex()

    def known_topic(self, topic_id: bytes) -> str | None:
        """Return the topic with this id; None if this run does not know it."""
        return next((topic for topic, each in self.topic_ids.items() if each == topic_id), None)

    def forget_topic(self, topic: str) -> bytes:
        """Forget a deleted topic and return its id."""
        return self.topic_ids.pop(topic, bytes(16))

    def own(self, name: str) -> str:
        """Return the name on the broker of `@name`; a group has one that this broker serves."""
        return self._groups.get(name, f"{self.prefix}{name}")

    def own_text(self, name: str) -> str:
        """Return `@name` for a name of this run, and every other text without the prefix."""
        if name.startswith(self.prefix):
            return f"@{self.group_text(name)}"
        return name.replace(self.prefix, "@")

    def topic(self, name: str) -> str:
        """Return the topic that a commit or a subscription names."""
        return f"{self.shared_prefix}{name}"

    def topic_text(self, name: str) -> str:
        """Return the name of a topic in the transcript."""
        return name.removeprefix(self.shared_prefix)

    def host_text(self, host: str) -> str:
        """Return the address that transcripts show, wherever this machine is."""
        return "/127.0.0.1" if host.startswith("/") else host
