"""The image of the topics that coordinators and handlers read, and the notices of its changes."""

from collections.abc import Callable

from coterie.coordinator.topic_image import TopicChange, TopicImage, TopicsImage


class PublishedTopics:
    """Keeps the image of the topics up to date.

    Attributes:
        image: the topics that clients see.
        when_changed: called with the creation and the growth of a topic. A deletion is not complete
            when the topic leaves the image; `Broker.topic_deletion` gives the notice of it.
    """

    def __init__(self) -> None:
        """Start without topics."""
        self._by_name: dict[str, TopicImage] = {}
        self._by_id: dict[bytes, TopicImage] = {}
        self.image = TopicsImage(self._by_name, self._by_id)
        self.when_changed: list[Callable[[TopicChange], None]] = []

    def put(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Add a topic, or replace one that has grown."""
        before, now = self._by_name.get(name), TopicImage(name, topic_id, partitions)
        assert before is None or before.topic_id == topic_id, f"{name} was not taken away"
        assert before is None or before.partitions <= partitions, f"{name} has lost partitions"
        self._by_name[name] = self._by_id[topic_id] = now
        self.image.note_change(name, is_new=before is None)
        for call in self.when_changed:
            call(TopicChange(before, now))

    def remove(self, name: str) -> None:
        """Take a topic away."""
        assert name in self._by_name, f"{name} is taken away once"
        topic = self._by_name.pop(name)
        del self._by_id[topic.topic_id]
        self.image.note_change(name)
