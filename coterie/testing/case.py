"""Brokers for each test of a `unittest.TestCase`, with their state in the reports of failures."""

import functools
import inspect
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from coterie.testing.errors import observers
from coterie.testing.making import described_brokers
from coterie.testing.shown import ShownBroker, explain_error

# unittest leaves the frames of a module with this name out of its tracebacks.
__unittest = True
_REPORTED = ("setUp", "tearDown")


class KafkaTestCase(unittest.TestCase):
    """A test case whose tests have a broker each, or several.

    The error of a test that fails has notes: the groups of the broker, and the last requests of
    clients with their answers and the faults that they met.

    Attributes:
        kafka: the broker of the running test, or the cluster.
        kafka_brokers: how many brokers there are; several are a `Cluster`. Subclasses replace this
            and the next ones.
        kafka_config, kafka_topics: settings and topics of the broker.
        kafka_options: further options of `Broker` or `Cluster`, such as {"security": "SSL"}.
        kafka_process: whether it has a process of its own.
    """

    kafka_brokers: ClassVar[int] = 1
    kafka_config: ClassVar[Mapping[str, str]] = {}
    kafka_topics: ClassVar[Mapping[str, int]] = {}
    kafka_options: ClassVar[Mapping[str, Any]] = {}
    kafka_process: ClassVar[bool] = False
    kafka: Any
    _shown: ShownBroker | None = None

    def setUp(self) -> None:
        """Start the broker; a subclass that has its own `setUp` calls this one first."""
        super().setUp()
        self.kafka = described_brokers(
            self.kafka_brokers,
            process=self.kafka_process,
            config=self.kafka_config,
            topics=self.kafka_topics,
            **self.kafka_options,
        )
        self.kafka.start()
        self.addCleanup(self.kafka.close)
        self._shown = ShownBroker(self.kafka)
        observers.append(self._shown.failed)
        self.addCleanup(observers.remove, self._shown.failed)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test; its methods add to their errors what the broker shows."""
        names = (*_REPORTED, self._testMethodName)
        own = {name: vars(self)[name] for name in names if name in vars(self)}
        for name in names:
            setattr(self, name, self._reporting(getattr(self, name)))
        try:
            return super().run(result)
        finally:
            for name in names:
                delattr(self, name)
            vars(self).update(own)

    @contextmanager
    def subTest(self, *arguments: Any, **params: Any) -> Iterator[None]:  # noqa: N802 - unittest's
        """Run a part of the test, whose errors are reported in the same way."""
        with super().subTest(*arguments, **params), self._reported():
            yield

    def _reporting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def reporting_coroutine(*arguments: Any, **named: Any) -> Any:
                with self._reported():
                    return await method(*arguments, **named)

            return reporting_coroutine

        @functools.wraps(method)
        def reporting(*arguments: Any, **named: Any) -> Any:
            with self._reported():
                return method(*arguments, **named)

        return reporting

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Add what the broker shows to an error of the test."""
        try:
            yield
        except unittest.SkipTest:
            raise
        except Exception as error:
            if self._shown is not None:
                explain_error(error, error.__traceback__, whole_traceback=False)
                for title, text in self._shown.sections("self.kafka", error):
                    error.add_note(f"----- {title} -----\n{text}")
            raise
