"""The lowest versions that pyproject.toml allows of what the product needs, as constraints for pip.

`make test-lowest` installs them. The tools of the tests are not among them: only those who change
Coterie install these.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# A name, perhaps extras of it, and its lowest version.
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")


def lowest(requirements: list[str]) -> Iterator[str]:
    """Yield a constraint for each requirement; each has a lowest version."""
    for each in requirements:
        found = _REQUIREMENT.match(each)
        assert found is not None, f"{each} has no lowest version"
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    print(*lowest(project["dependencies"]), sep="\n")
    print(*lowest(project["optional-dependencies"]["security"]), sep="\n")
