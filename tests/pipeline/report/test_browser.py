"""The page in a real browser: it has its drawings and tables, and scripts in names do not run."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.report.page import render
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from tests.pipeline.report.stores import busy_group, minutes_of, tables_of, write_store

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Without these Chromium connects to hosts of Google, which tests must not do.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed (apt-get install chromium)")
    return found


def dom_of(browser: str, page: str, directory: Path) -> str:
    """Return the document after its scripts have run."""
    path = directory / "page.html"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={directory / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_document_has_drawings_and_tables(browser: str, tmp_path: Path) -> None:
    name = "<script>document.title='run'</script>"
    tables = tables_of(busy_group("orders", 12), busy_group(name, 4, seed=2))
    tables |= minutes_of("orders", "a", 2, 30)
    store = Store.reading(write_store(str(tmp_path / "out"), tables))
    dom = dom_of(browser, render(read_content(store), "Last week"), tmp_path)
    assert "<title>Last week</title>" in dom
    assert dom.count("<svg") == 6
    assert dom.count('<rect class="bar"') > 100
    assert dom.count("<table>") >= 8
    assert dom.count("<script>") == 1


@pytest.mark.slow
def test_script_in_a_page_would_change_the_title(browser: str, tmp_path: Path) -> None:
    page = "<!doctype html><title>x</title><script>document.title='run'</script>"
    assert "<title>run</title>" in dom_of(browser, page, tmp_path)
