"""Test suites of client libraries: where they are built, and what their tests report."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coterie.lab.live.parts import cache_directory
from tests.interop.model import Failed, Skipped, Surroundings

_BUILD_LIMIT_S = 3600.0
_SHOWN_CHARACTERS = 300


class Outcome(NamedTuple):
    """What a test reported.

    Attributes:
        test: its name.
        result: "pass", "skip" or "fail".
        text: why it failed, as far as the suite says it.
    """

    test: str
    result: str
    text: str = ""


def built(name: str, build: Callable[[Path], None]) -> Path:
    """Return the directory of a suite in the cache; build it there if it is missing.

    Args:
        name: the name with the release.
        build: fetches and builds the suite in the empty directory that it is given.

    Raises:
        Skipped: a program or a registry that the build needs cannot be had.
    """
    folder = cache_directory() / name
    if folder.is_dir():
        return folder
    # A directory that was left by a build that was interrupted is not used.
    new = folder.with_name(f"{name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    build(new)
    new.rename(folder)
    return folder


def need(program: str, why: str) -> None:
    """Check that a program is installed.

    Raises:
        Skipped: it is not.
    """
    if shutil.which(program) is None:
        raise Skipped(f"'{program}' is not installed: {why}")


def call(command: Sequence[str], folder: Path) -> str:
    """Run a step of a build and return its output.

    Raises:
        Skipped: the step fails.
    """
    done = subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_LIMIT_S,
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-_SHOWN_CHARACTERS:]
        raise Skipped(f"'{' '.join(command)}' fails: {said}")
    return done.stdout


def run_test(
    command: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str], limit_s: float
) -> str:
    """Run tests of a suite and return what they printed, which is appended to a file, too."""
    with log.open("ab+") as output:
        start = output.tell()
        try:
            subprocess.run(
                command,
                cwd=folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=limit_s,
                env={**os.environ, **environment},
            )
        except subprocess.TimeoutExpired:
            output.write(f"\nnot within {limit_s:.0f} s\n".encode())
        output.seek(start)
        return output.read().decode(errors="replace")


def judge(
    around: Surroundings, what: str, outcomes: Iterable[Outcome], explained: Mapping[str, str]
) -> None:
    """Note how many tests passed, and check that every failed one is explained.

    Args:
        around: where the counts are noted.
        what: what was run.
        outcomes: what the tests reported.
        explained: reasons by the name of a test that fails with Kafka, too, always or at times.

    Raises:
        Failed: a test failed and nothing explains it, or no test ran.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    faults = []
    for outcome in outcomes:
        reason = explained.get(outcome.test, "")
        if outcome.result == "fail" and reason:
            reasons[reason] += 1
        else:
            counts[outcome.result] += 1
        if outcome.result == "fail" and not reason:
            faults.append(f"{outcome.test}: {outcome.text}")
    if not counts["pass"]:
        raise Failed(f"{what}: no test passed: {'; '.join(faults)}")
    if faults:
        raise Failed(
            f"{what}: {counts['pass']} tests passed, {len(faults)} failed:\n" + "\n".join(faults)
        )
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    left_out = "".join(f", {number} fail ({reason})" for reason, number in reasons.items())
    around.note(f"{what}: {counts['pass']} passed{skipped}{left_out}")
