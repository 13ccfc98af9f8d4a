"""The page of `coterie check --html` in a real browser: it paints, filters and opens a check."""

from pathlib import Path

import pytest

from coterie.conformance.checks.page import page
from tests.pipeline.report.browser import Browser

HOSTILE = "</script><script>document.title='run'</script>"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def row(name: str, status: str, versions: list[int]) -> dict[str, object]:
    area, situation, *_ = name.split("/")
    return {
        "name": name,
        "area": area,
        "situation": f"{area}/{situation}",
        "api": "Produce",
        "versions": versions,
        "status": status,
        "sentence": f"It does {HOSTILE}.",
        "reason": "" if status == "pass" else "error_code: expected ok, received X",
        "source": "KIP-98",
        "conversation": ["c1> Produce v8", "c1< Produce v8"],
        "differences": []
        if status == "pass"
        else [{"fields": [{"path": "error_code", "expected": "ok", "received": HOSTILE}]}],
    }


def result(broker: str, statuses: list[str]) -> dict[str, object]:
    rows = [row(f"produce/appends/v{version}", each, [version])
            for version, each in enumerate(statuses)]  # fmt: skip
    counts = {
        each: statuses.count(each) for each in ("pass", "deviates", "fails", "skipped", "error")
    }
    return {
        "broker": broker,
        "kafka_version": "4.3",
        "seconds": 1.5,
        "counts": counts,
        "checks": [*rows, row("frames/length", "pass", [])],
    }


def test_two_brokers_are_drawn_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    both = [result("one:9092", ["pass", "fails", "skipped"]), result(HOSTILE, ["pass"] * 3)]
    path.write_text(page(both), encoding="utf-8")
    with Browser() as browser:
        tab = browser.open(path)
        assert tab.value("document.querySelectorAll('.cell').length") == 4
        assert tab.value("document.querySelectorAll('.cell i.fails').length") == 1
        assert "Conformance of one:9092" in tab.value("document.title")
        tab.value("[...document.querySelectorAll('.tools button')][0].click()")
        assert tab.value("document.querySelectorAll('.cell').length") == 2
        tab.value("document.querySelector('.cell').click()")
        text = tab.value("document.querySelector('dialog[open]').innerText")
        assert "produce/appends/v1" in text
        assert HOSTILE in text
        assert not tab.errors
