"""The checks of references and imports find what they are there to find."""

import ast
from pathlib import Path

import pytest

from tests.import_circles import circles, import_graph
from tests.spec_references import places, references, rules, unresolvable
from tests.tidy import ambient


def test_a_rule_is_a_heading_of_the_third_level(tmp_path: Path) -> None:
    (tmp_path / "joining.md").write_text("# Joining\n\n### size-gate\n\nText\n\n### Not a rule\n")
    assert rules(tmp_path) == {"joining/size-gate": 1}


def test_a_rule_that_is_defined_twice_is_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "joining.md").write_text("### size-gate\n\n### size-gate\n")
    assert rules(tmp_path) == {"joining/size-gate": 2}


def test_references_are_found_with_their_lines() -> None:
    text = "Refuse it [joining/size-gate].\n[a link](joining/other)\n[joining/more](target)"
    assert list(references(text)) == [(1, "joining/size-gate")]


def test_places_are_those_of_the_wanted_rules(tmp_path: Path) -> None:
    path = tmp_path / "test_joining.py"
    path.write_text("# [joining/size-gate]\n\n# [joining/rejoin] and [joining/size-gate]\n")
    assert places(["joining/size-gate"], [path]) == [
        f"{path}:1 [joining/size-gate]",
        f"{path}:3 [joining/size-gate]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "as spec section 4.2 says",
        "(spec 14.1)",
        "(spec S6)",
        "# Spec 4.1, S13",
        "(quirk 15)",
        "pipeline.md section 2",
        "see Design.md",
        "reliability.md says",
    ],
)
def test_references_to_missing_documents_are_found(text: str) -> None:
    assert len(list(unresolvable(text))) == 1


@pytest.mark.parametrize("text", ["the spec is in docs/spec", "Scenarios S13, T5.", "pipeline.md"])
def test_other_texts_are_left_alone(text: str) -> None:
    assert not list(unresolvable(text))


def test_a_circle_through_type_checking_and_a_function_is_found(tmp_path: Path) -> None:
    package = tmp_path / "coterie" / "storage"
    package.mkdir(parents=True)
    (package / "log.py").write_text("from coterie.storage.segment import Segment\n")
    (package / "segment.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from coterie.storage import index\n"
    )
    (package / "index.py").write_text("def find():\n    import coterie.storage.log\n")
    (package / "scan.py").write_text("import coterie.storage.log\n")
    graph = import_graph(tmp_path, ["coterie"])
    assert circles(graph) == [
        ["coterie.storage.index", "coterie.storage.log", "coterie.storage.segment"]
    ]


def test_a_tree_has_no_circle() -> None:
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_only_the_environment_has_clocks_chance_and_threads() -> None:
    code = """
import time
import threading as threads
from time import monotonic
from os import urandom
from asyncio import AbstractEventLoop
import os
os.urandom(8)
asyncio.get_running_loop()
self._loop.time()
environment.monotonic_s()
log.time
"""
    found = [
        each.split(": ")[1] for each in ambient(ast.walk(ast.parse(code)), "coterie/server/x.py")
    ]
    assert sorted(found) == [
        "asyncio.get_running_loop", "loop.time", "os.urandom", "os.urandom", "threading", "time",
        "time.monotonic",
    ]  # fmt: skip
