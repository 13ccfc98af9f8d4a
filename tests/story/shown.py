"""What Coterie says about the story: tables, page and terminal."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow.dataset import dataset

from coterie.pipeline.report.content import Row, content_of
from coterie.pipeline.report.data import page_data
from coterie.pipeline.report.history import Story
from coterie.pipeline.segments import topic_names
from coterie.pipeline.show import read_story
from coterie.pipeline.store import Store

_LIMIT_S = 600.0


class Shown(NamedTuple):
    """What is said about the groups.

    Attributes:
        stories: the tables' rows, by group.
        page: the data of the page.
        members: the rows of `groups describe --members`.
        offsets: the rows of `groups describe --offsets`.
        states: the rows of `groups describe --state`.
        told: the lines of `pipeline show`, by group.
        findings: the rows of `anomalies`, if there are tables.
    """

    stories: Mapping[str, Story]
    page: dict[str, Any]
    members: list[Row]
    offsets: list[Row]
    states: list[Row]
    told: Mapping[str, str]
    findings: list[Row]

    def page_group(self, group: str) -> dict[str, Any]:
        """Return a group of the page."""
        found: dict[str, Any] = next(each for each in self.page["groups"] if each["id"] == group)
        return found


def coterie(*arguments: str) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *arguments],
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"coterie {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def seen_in_logs(bootstrap: str, data_dir: str, groups: Iterable[str]) -> Shown:
    """Read what is said directly from a data directory, without a run of the pipeline."""
    groups = list(groups)
    names = topic_names(data_dir)
    stories = {group: _story(data_dir, group, names) for group in groups}
    tables: dict[str, list[Row]] = {}
    for story in stories.values():
        for name, rows in story.group.tables.items():
            tables.setdefault(name, []).extend(rows)
    return _with_terminal(bootstrap, data_dir, stories, page_data(content_of(tables, [data_dir])))


def seen_in_tables(bootstrap: str, source: str, directory: Path, groups: Iterable[str]) -> Shown:
    """Run the pipeline as a user does, and read its tables and its page."""
    output, html = str(directory / "tables"), directory / "page.html"
    coterie("pipeline", "run", "--input", source, "--output", output)
    coterie("pipeline", "report", output, "--html", str(html))
    found = re.search(r'id="data">(.*?)</script>', html.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    stories = {group: _story(output, group) for group in groups}
    shown = _with_terminal(bootstrap, output, stories, json.loads(found[1]))
    rows = dataset(Store.reading(output).files("anomalies")).to_table().to_pylist()
    known = [row for row in rows if row["group_id"] is None or row["group_id"] in stories]
    return shown._replace(findings=known)


def _story(path: str, group: str, names: Mapping[str, str] | None = None) -> Story:
    story = read_story(path, group, names)
    assert story is not None, f"nothing is recorded of {group}"
    return story


def _with_terminal(
    bootstrap: str, path: str, stories: Mapping[str, Story], page: dict[str, Any]
) -> Shown:
    def described(view: str) -> list[Row]:
        rows: list[Row] = json.loads(
            coterie("groups", "describe", *stories, view, "--json", "--bootstrap-server", bootstrap)
        )
        return rows

    told = {group: coterie("pipeline", "show", path, group) for group in list(stories)[:3]}
    return Shown(
        stories,
        page,
        described("--members"),
        described("--offsets"),
        described("--state"),
        told,
        [],
    )
