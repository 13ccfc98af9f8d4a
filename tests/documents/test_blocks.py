"""Every block of code is right as far as that can be seen without running it.

Python compiles, data are parsed, shell has its syntax, diagrams have drawings, and each `coterie`
command line names a command and options that exist. What no other test runs is skipped here with
the reason.
"""

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping

import pytest
import yaml

from documentation.markup import DRAWINGS, drawing_name
from tests.documents.blocks import PAGES, ROOT, Block, all_blocks, code_in_sentences
from tests.documents.command_lines import Wrong, calls, check
from tests.documents.test_examples import EXAMPLES

BLOCKS = all_blocks()
FENCED = [block for block in BLOCKS if block.language]
# Blocks of pages that say nothing themselves: why they do not run.
NOT_RUN: Mapping[tuple[str, str], str] = {
    ("docs/testing.md", "python"): "an excerpt of a test; the API is tested in tests/live/testing",
    ("docs/containers.md", "python"): "needs an engine; container/testcontainers has its tests",
    ("docs/containers.md", "java"): "needs an engine; container/testcontainers has its tests",
    ("docs/control.md", "js"): "an excerpt of a test in Node, which examples/node has as a whole",
    ("docs/rebalancing.md", "toml"): "a form for scenarios of one's own; those of the lab are run",
}


def _compiles(block: Block) -> None:
    compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _has_the_syntax_of_a_shell(block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=block.text, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _is_drawn(block: Block) -> None:
    assert (DRAWINGS / drawing_name(block.text)).is_file(), "run `make drawings`"


def _is_text(_block: Block) -> None:
    """Nothing can be seen from the text alone."""


PARSERS: Mapping[str, Callable[[Block], object]] = {
    "python": _compiles,
    "sh": _has_the_syntax_of_a_shell,
    "mermaid": _is_drawn,
    "json": lambda block: json.loads(block.text),
    "toml": lambda block: tomllib.loads(block.text),
    "yaml": lambda block: yaml.safe_load(block.text),
    "text": _is_text,
    "js": _is_text,
    "java": _is_text,
}


def is_run(block: Block) -> bool:
    """Return whether a test runs the block, or nothing could be run."""
    if block.reason:
        return False
    in_tutorial = block.page.startswith("docs/start/")
    in_readme = block.page == "README.md" and block.language == "python"
    return in_tutorial or in_readme or block in EXAMPLES or block.language in ("mermaid", "text")


@pytest.mark.parametrize("block", FENCED, ids=[block.place for block in FENCED])
def test_a_block_is_right(block: Block) -> None:
    PARSERS[block.language](block)
    if not is_run(block):
        reason = block.reason or NOT_RUN.get((block.page, block.language))
        assert reason, f"{block.place}: no test runs it, and nothing says why"
        pytest.skip(f"{block.place} is parsed and not run: {reason}")


def test_a_reason_is_that_of_a_block() -> None:
    assert NOT_RUN.keys() <= {(block.page, block.language) for block in FENCED if not is_run(block)}


def test_commands_exist_and_have_the_options_that_they_are_shown_with() -> None:
    found, wrong = 0, []
    for block in BLOCKS:
        for call in calls(block.text):
            found += 1
            try:
                check(call)
            except (Wrong, ValueError) as error:
                wrong.append(f"{block.place}: coterie {call}: {error}")
    assert wrong == []
    assert found > 60


def test_commands_in_sentences_exist() -> None:
    found, wrong = 0, []
    for path in PAGES:
        for line, code in code_in_sentences(path):
            for call in calls(code):
                found += 1
                try:
                    check(call, is_whole=False)
                except Wrong as error:
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: coterie {call}: {error}")
    assert wrong == []
    assert found > 50


@pytest.mark.parametrize("call", ["grups list", "groups list --lagg", "serve --port"])
def test_a_wrong_command_is_found(call: str) -> None:
    with pytest.raises(Wrong):
        check(call)


def test_verbs_of_make_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        (block.place, verb)
        for block in BLOCKS
        for verb in re.findall(r"^\s*make ([a-z-]+)", block.text, re.MULTILINE)
    }
    assert shown
    assert {each for each in shown if each[1] not in verbs} == set()
