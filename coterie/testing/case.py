"""A broker for each test of a `unittest.TestCase`."""

import unittest
from collections.abc import Mapping
from typing import ClassVar

from coterie.testing.broker import Broker


class KafkaTestCase(unittest.TestCase):
    """A test case whose tests have a broker each.

    Attributes:
        kafka: the broker of the running test.
        kafka_config, kafka_topics: settings and topics of the broker; subclasses replace them.
    """

    kafka_config: ClassVar[Mapping[str, str]] = {}
    kafka_topics: ClassVar[Mapping[str, int]] = {}
    kafka: Broker

    def setUp(self) -> None:
        """Start the broker; a subclass that has its own `setUp` calls this one first."""
        super().setUp()
        self.kafka = Broker(config=self.kafka_config, topics=self.kafka_topics)
        self.kafka.start()
        self.addCleanup(self.kafka.close)
