"""Run tests without facilities: `python -m tests.without uvloop fdatasync -- -q tests/unit`.

`macos` and `windows` stand for what these systems lack. The exit code is that of pytest.
"""

import subprocess
import sys
from pathlib import Path

from tests.without.facilities import FACILITIES, SYSTEMS, environment_without

_ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Run pytest with the arguments after `--`; return its exit code."""
    if "--" not in arguments:
        print(f"{__doc__}\nFacilities: {' '.join(FACILITIES)}", file=sys.stderr)
        return 2
    end = arguments.index("--")
    names = [each for name in arguments[:end] for each in SYSTEMS.get(name, (name,))]
    unknown = set(names) - set(FACILITIES)
    if unknown:
        print(f"no facility: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "pytest", *arguments[end + 1 :]]
    environment = environment_without(list(dict.fromkeys(names)))
    return subprocess.run(command, env=environment, cwd=_ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
