"""Build the documentation: `python -m documentation`."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from documentation import ARCHIVE, ROOT, SITE
from documentation.archive import pack
from documentation.configuration import configuration
from documentation.links import problems
from documentation.pages import Page, pages, write

# It colours its output in a pipe, too.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main() -> None:
    """Build the site, check its links and pack it; print what was made."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        found = pages()
        write(found, Path(directory) / "pages")
        built = _generate(Path(directory), found)
        found_problems = problems(built)
        if found_problems:
            raise SystemExit("\n".join([*found_problems, f"{len(found_problems)} broken links"]))
        shutil.rmtree(SITE, ignore_errors=True)
        SITE.parent.mkdir(exist_ok=True)
        shutil.move(built, SITE)
    pack(SITE, ARCHIVE)
    size_bytes = sum(each.stat().st_size for each in SITE.rglob("*") if each.is_file())
    print(
        f"{SITE.relative_to(ROOT)}: {len(found)} pages, {size_bytes / 2**20:.1f} MiB;"
        f" {ARCHIVE.relative_to(ROOT)}: {ARCHIVE.stat().st_size / 2**20:.2f} MiB;"
        f" {time.monotonic() - began_s:.0f} s"
    )


def _generate(directory: Path, found: list[Page]) -> Path:
    """Let zensical make HTML; return its directory. A warning of its is an error."""
    file = directory / "mkdocs.yml"
    # JSON is YAML, too.
    file.write_text(json.dumps(configuration(found)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", file],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(_COLOUR.sub("", done.stdout.partition("Traceback")[0]))
    return directory / "site"


if __name__ == "__main__":
    main()
