"""The settings of topics that one request creates, stored with one write [topics/settings-file].

The file is replaced as a whole, so a write for each of a thousand topics would take time that grows
with the square of their number. Settings belong to a topic's id, so those of a topic that is not
created have no effect.
"""

from collections.abc import Callable, Mapping
from typing import Generic

from coterie.server.metadata.settings_file import Alterations, SettingsFile
from coterie.server.metadata.topic import T
from coterie.server.metadata.topic_changes import Change
from coterie.server.workers import once


class PreparedTopics(Generic[T]):
    """Topics whose settings are stored, and that are created next."""

    def __init__(
        self, settings: SettingsFile, new_topic: Callable[[str, Mapping[str, str]], T]
    ) -> None:
        """Start without any.

        Args:
            settings: the file.
            new_topic: returns a topic of a name and with settings, under a new id.
        """
        self._settings = settings
        self._new_topic = new_topic
        self._topics: dict[str, T] = {}

    def prepare(self, wanted: Mapping[str, Mapping[str, str]]) -> Change[None]:
        """Store the settings of topics that are created next.

        If that fails, the creation of each tries it again and reports the error.

        Args:
            wanted: their own settings by name.
        """
        topics = [self._new_topic(name, overrides) for name, overrides in wanted.items()]
        try:
            yield once(lambda: self.store(topics))
        except OSError:
            return
        self._topics = {each.name: each for each in topics}

    def store(self, topics: list[T]) -> None:
        """Store the settings of topics that do not exist yet. Raises OSError."""
        alterations = Alterations()
        alterations.topics.update({each: each.config.overrides for each in topics})
        self._settings.alter(alterations)

    def take(self, name: str, overrides: Mapping[str, str]) -> T | None:
        """Return the prepared topic of a name, which is created now; None if there is none."""
        topic = self._topics.pop(name, None)
        assert topic is None or not topic.partition_count, "a prepared topic is created once"
        return topic if topic is not None and topic.config.overrides == overrides else None

    def forget(self) -> None:
        """Forget the topics that were prepared and not created."""
        for topic in self._topics.values():
            assert not topic.partition_count, "settings of topics that exist are not forgotten"
            self._settings.forget_topic(topic.topic_id)
        self._topics = {}
