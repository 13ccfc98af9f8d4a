"""The notes of a release are the dated section of its version, and nothing is left unreleased."""

from pathlib import Path

import pytest

from release.notes import NotReady, release_notes

TEXT = """# Changelog

## Unreleased
{unreleased}
## 1.1.0 - 2026-12-01

### Added

- A thing.

## 1.0.0 - 2026-11-01

- The first.
"""


def written(directory: Path, unreleased: str = "") -> Path:
    path = directory / "CHANGELOG.md"
    path.write_text(TEXT.format(unreleased=unreleased), encoding="utf-8")
    return path


def test_notes_end_at_the_next_version(tmp_path: Path) -> None:
    assert release_notes(written(tmp_path), "1.1.0") == "### Added\n\n- A thing."
    assert release_notes(written(tmp_path), "1.0.0") == "- The first."


def test_version_without_a_dated_section_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=r"no section `## 1\.2\.0 - YYYY-MM-DD`"):
        release_notes(written(tmp_path), "1.2.0")
    with pytest.raises(NotReady, match="no section"):
        release_notes(written(tmp_path), "Unreleased")


def test_changes_of_no_version_are_not_forgotten(tmp_path: Path) -> None:
    changelog = written(tmp_path, "\n- Another thing.\n")
    with pytest.raises(NotReady, match=r"entries below Unreleased\. Move them below 1\.1\.0"):
        release_notes(changelog, "1.1.0")
