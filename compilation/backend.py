"""The build backend: hatchling's, which also builds the compiled wheel if it is asked to.

`COTERIE_FORM=compiled pip wheel .` compiles; without the variable nothing but hatchling runs. This
is how cibuildwheel builds for each platform, and how anybody builds from a source distribution
[ADR 19].
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

# mypy's C source is worked on, so a newer one has to be looked at first.
_COMPILER = ["mypy>=2.4,<2.5", "setuptools>=84"]
Settings = dict[str, Any] | None


def _is_compiled() -> bool:
    form = os.environ.get("COTERIE_FORM", "pure")
    if form not in ("pure", "compiled"):
        raise SystemExit(f"COTERIE_FORM is {form!r}; it must be pure or compiled")
    return form == "compiled"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return what a build of the wheel needs: for the compiled form mypyc and setuptools, too."""
    needed: list[str] = hatchling.get_requires_for_build_wheel(config_settings)
    return [*needed, *_COMPILER] if _is_compiled() else needed


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel of the form that the environment names; return its file name."""
    name: str = hatchling.build_wheel(wheel_directory, config_settings, metadata_directory)
    if not _is_compiled():
        return name
    # Imported here, because the pure form needs no compiler.
    from compilation.extension import compile_tree
    from compilation.tree import write_tree
    from compilation.wheel import compiled_wheel

    pure = Path(wheel_directory) / name
    with tempfile.TemporaryDirectory() as directory:
        compile_tree(write_tree(Path(directory)), jobs=os.cpu_count() or 1)
        compiled = compiled_wheel(pure, Path(directory))
    pure.unlink()
    return compiled.name
