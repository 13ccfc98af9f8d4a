"""Values of libraries as JSON."""

import math
from collections.abc import Mapping
from typing import Any

from coterie.client.record_fields import as_text


def plain(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        text = as_text(value)
        return value.hex() if text is None else text
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no number for it.
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
