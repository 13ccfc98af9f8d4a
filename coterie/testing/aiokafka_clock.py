"""The one clock of aiokafka that the module `time` does not give.

Its compiled record builder stamps records with the C library's `gettimeofday`. In virtual time such
records would be from another year: the broker refuses them, and no run would be like another.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

_MODULE = "aiokafka.producer.message_accumulator"


def stamp_records(now_ms: Callable[[], int]) -> Callable[[], None]:
    """Stamp the records of aiokafka's producers with another clock, if aiokafka is installed.

    Returns:
        A function that puts the old clock back.
    """
    if importlib.util.find_spec("aiokafka") is None:
        return lambda: None
    builder: Any = importlib.import_module(_MODULE).BatchBuilder
    append = builder.append

    def stamped(self: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(self, timestamp=now_ms() if timestamp is None else timestamp, **record)

    builder.append = stamped

    def put_back() -> None:
        builder.append = append

    return put_back
