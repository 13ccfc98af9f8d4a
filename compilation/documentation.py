"""Adds the built documentation to wheels and source distributions, if it was built (ADR 101).

`make docs` builds it, and so do `make wheel` and `make release` before they package. Without it the
package is complete but for `coterie docs`, which then says so: nobody who installs from a checkout
needs the generator. A source distribution keeps the place, so that a wheel made of it has it too.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = "build/documentation.tar.xz"
_IN_PACKAGE = "coterie/documentation.tar.xz"


class DocumentationHook(BuildHookInterface[Any]):
    """What hatchling calls before it packages."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the file, unless the sources are installed as they are."""
        built = Path(self.root) / _BUILT
        if version != "editable" and built.is_file():
            target = _BUILT if self.target_name == "sdist" else _IN_PACKAGE
            build_data["force_include"][str(built)] = target
