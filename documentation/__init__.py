"""Builds the documentation as a site: `make docs`, or `python -m documentation` (ADR 101).

The pages are README.md, docs and some generated ones. They are copied into one directory
(`pages.py`), zensical makes HTML of them, and the result is checked (`links.py`) and packed into
one file (`archive.py`), which the wheel has and `coterie docs` shows. Nothing that a reader's
browser needs comes from another machine.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
# What `make docs` leaves: the site, and the same as one file.
SITE = BUILD / "docs"
ARCHIVE = BUILD / "documentation.tar.xz"
