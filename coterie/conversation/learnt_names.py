"""The names of a transcript that runs against a broker over TCP.

Everything that a run creates begins with the prefix of the run, so it disturbs nothing else, and
everything can be found and removed afterwards. Member ids are learnt from responses, whatever form
a broker gives them: the first id of a client or an instance is its `-1`, the next its `-2`.

Invariant: an id that the broker has given out has one name, and a text that the transcript itself
has sent as an id is not renamed.
"""

import re
from collections.abc import Callable

from coterie.conversation.names import Names
from coterie.protocol.topic_names import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
# A group or an id is tried under so many names until this broker coordinates it.
_MAX_SPELLINGS = 1000
_KAFKAS_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC)


def _any_place(_group_id: str) -> bool:
    return True


class LearntNames(Names):
    """The names of one run of one transcript.

    Attributes:
        prefix: of every name on the broker, with the separator.
        shared_prefix: of the topics that transcripts of groups share: nothing is written to them.
        nameless: member ids that were shown before the response that gives them to a member.
    """

    def __init__(
        self,
        prefix: str,
        shared_prefix: str | None = None,
        is_here: Callable[[str], bool] = _any_place,
        has_transactions: Callable[[str], bool] = _any_place,
    ) -> None:
        """Begin a run.

        Args:
            prefix: precedes every name on the broker.
            shared_prefix: precedes the topics of commits and subscriptions, if they are shared.
            is_here: whether the broker coordinates a group.
            has_transactions: whether the broker coordinates a transactional id.
        """
        super().__init__()
        self.prefix = prefix
        self.shared_prefix = prefix if shared_prefix is None else shared_prefix
        self._is_here = is_here
        self._has_transactions = has_transactions
        self._own: dict[str, str] = {}
        self.nameless: set[str] = set()
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        # The client ids and instance ids in use, and what was sent as a member id and is none.
        self._owners: set[str] = set()
        self._made_up: set[str] = set()

    def group(self, name: str) -> str:
        """Return the group id to send; the empty id stays empty."""
        return self._spelt(name, self._is_here)

    def transactional_id(self, name: str) -> str:
        """Return the transactional id to send; the empty id stays empty."""
        return self._spelt(name, self._has_transactions)

    def _spelt(self, name: str, fits: Callable[[str], bool]) -> str:
        if name and name not in self._own:
            self.spell(name, fits)
        return self.own(name) if name else name

    def spell(self, name: str, fits: Callable[[str], bool]) -> None:
        """Choose the name on the broker of a group or an id: the first that fits."""
        spelling = f"{self.prefix}{name}"
        spellings = [spelling, *(f"{self.prefix}{each}-{name}" for each in range(_MAX_SPELLINGS))]
        self._own[name] = next(filter(fits, spellings), spelling)

    def group_text(self, group_id: str) -> str:
        """Return the name of a group in the transcript."""
        for name, spelling in self._own.items():
            if spelling == group_id:
                return name
        return group_id.removeprefix(self.prefix)

    def is_ours(self, group_id: str) -> bool:
        """Return whether a group of the broker belongs to this run."""
        return group_id.startswith(self.prefix)

    def member(self, name: str) -> str:
        """Return the real member id of a name; an unknown name is its own member id."""
        if name not in self._ids:
            self._made_up.add(name)
        return self._ids.get(name, name)

    def uses(self, owner: str) -> None:
        """Note a client id or an instance id: member ids that begin with it belong to it."""
        self._owners.add(owner)

    def give(self, member_id: str, owner: str) -> None:
        """Name a member id that the broker has given to a client or an instance."""
        if member_id and member_id not in self._names and member_id not in self._made_up:
            self._counts[owner] = self._counts.get(owner, 0) + 1
            name = f"{owner}-{self._counts[owner]}"
            self._names[member_id], self._ids[name] = name, member_id
        self.nameless.discard(member_id)

    def member_text(self, member_id: str) -> str:
        """Return the name of a member id; names count ids in order of appearance.

        An id that does not begin with its owner has no name until `give` names it.
        """
        if not member_id or member_id in self._names or member_id in self._made_up:
            return self._names.get(member_id, member_id)
        owners = [each for each in self._owners if member_id.startswith(f"{each}-")]
        if not owners:
            self.nameless.add(member_id)
            return member_id
        self.give(member_id, max(owners, key=len))
        return self._names[member_id]

    def form_text(self, name: str) -> str:
        """Return a member id with `UUID` in place of a UUID at its end."""
        return f"{name} is {_UUID.sub('UUID', self.member(name))}"

    def message_text(self, message: str) -> str:
        """Return an error message with the names of the transcript."""
        for name, spelling in self._own.items():
            message = message.replace(spelling, name)
        return message.replace(self.prefix, "").replace(self.shared_prefix, "")

    @property
    def member_ids(self) -> list[str]:
        """The real member ids that this run has learnt."""
        return list(self._names)

    def topic_id(self, topic: str) -> bytes:
        """Return the real id of a topic; zero if the run has not created it."""
        return self.topic_ids.get(topic, bytes(16))

    def topic_name(self, topic_id: bytes) -> str:
        """Return the topic with this id; the hexadecimal id if this run does not know it."""
        return self.known_topic(topic_id) or topic_id.hex()

    def own(self, name: str) -> str:
        """Return the name on the broker of `@name`; a group has one that this broker serves."""
        return self._own.get(name, f"{self.prefix}{name}")

    def own_text(self, name: str) -> str:
        """Return `@name` for a name of this run, and every other text without the prefix."""
        if name.startswith(self.prefix):
            return f"@{self.group_text(name)}"
        return name.replace(self.prefix, "@")

    def topic(self, name: str) -> str:
        """Return the topic of a commit or a subscription; Kafka's own keep their names."""
        return name if name in _KAFKAS_TOPICS else f"{self.shared_prefix}{name}"

    def topic_text(self, name: str) -> str:
        """Return the name of a topic in the transcript."""
        return name.removeprefix(self.shared_prefix)

    def regex(self, regex: str) -> str:
        """Return a regular expression that matches the topics of this run only."""
        return f"{self.shared_prefix}{regex}" if regex else regex

    def host_text(self, host: str) -> str:
        """Return the address that transcripts show, wherever this machine is."""
        return "/127.0.0.1" if host.startswith("/") else host
