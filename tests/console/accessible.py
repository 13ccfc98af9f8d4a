"""What axe finds on a page: what a screen reader cannot read, or a person cannot see."""

from importlib.resources import files

import pytest

from tests.pipeline.report.browser import Tab

_SERIOUS = ("serious", "critical")


def serious_findings(tab: Tab) -> list[str]:
    """Return the serious findings, a line each; without axe the test is skipped."""
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev: axe is in it")
    script = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    tab.page.evaluate(script)
    found = tab.page.evaluate("axe.run().then(each => each.violations)")
    return [
        f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in _SERIOUS
    ]
