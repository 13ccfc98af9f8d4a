"""A broker for each test of a `unittest.TestCase`, with its state in the reports of failures."""

import functools
import inspect
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from coterie.testing.broker import Broker
from coterie.testing.errors import observers
from coterie.testing.shown import ShownBroker, explain_error

# unittest leaves the frames of a module with this name out of its tracebacks.
__unittest = True
_REPORTED = ("setUp", "tearDown")


class KafkaTestCase(unittest.TestCase):
    """A test case whose tests have a broker each.

    The error of a test that fails has notes: the groups of the broker, and the last requests of
    clients with their answers and the faults that they met.

    Attributes:
        kafka: the broker of the running test.
        kafka_config, kafka_topics: settings and topics of the broker; subclasses replace them.
    """

    kafka_config: ClassVar[Mapping[str, str]] = {}
    kafka_topics: ClassVar[Mapping[str, int]] = {}
    kafka: Broker
    _shown: ShownBroker | None = None

    def setUp(self) -> None:
        """Start the broker; a subclass that has its own `setUp` calls this one first."""
        super().setUp()
        self.kafka = Broker(config=self.kafka_config, topics=self.kafka_topics)
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
