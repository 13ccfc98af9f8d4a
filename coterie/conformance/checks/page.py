"""One self-contained page of the results: a grid of API x version x situation.

The page holds the results as JSON, and its script draws them, as the page of the pipeline does
(docs/adr/0109-front-end.md). Two results are drawn side by side.
"""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any


def page(results: Sequence[dict[str, Any]]) -> str:
    """Return the page of one broker, or of two brokers side by side.

    Args:
        results: the objects that `coterie check --json` prints; a `title` takes the place of the
            address.
    """
    brokers = " and ".join(str(each.get("title", each["broker"])) for each in results)
    template = files("coterie.conformance.checks").joinpath("assets", "page.html")
    # In a script element only these characters could end it.
    data = json.dumps(list(results), separators=(",", ":")).replace("<", "\\u003c")
    text = template.read_text(encoding="utf-8")
    return text.replace("TITLE", escape(f"Conformance of {brokers}")).replace("DATA", data)
