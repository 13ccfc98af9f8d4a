"""Write, compile and package the compiled form: `python -m compilation --help`."""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from compilation.freshness import TREE, digest_of_sources, forget, is_fresh, remember
from compilation.tree import ROOT, write_tree

# Apart from what is compiled: formatted files have other lines, so they would be compiled again.
_TO_READ = ROOT / "build" / "written"


def main() -> None:
    """Run the step that the command line names, and those before it."""
    parser = argparse.ArgumentParser(prog="python -m compilation", description=__doc__)
    parser.add_argument(
        "step",
        choices=["write", "compile", "wheel", "test"],
        help="write the source of the compiled form to build/written, to be read; make the form in"
        " build/compiled, unless it is up to date; and build the pure and the compiled wheel in"
        " dist, or run the tests with the compiled form and compare it with the pure one",
    )
    parser.add_argument("--slice", action="store_true", help="run a part of the tests")
    parser.add_argument("--jobs", type=int, default=2, help="how many C compilers run at once")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="compile without optimisation: half the time of the C compiler, for a form that is"
        " tested and not used",
    )
    options = parser.parse_args()
    began_s = time.monotonic()
    if options.step == "write":
        _write_to_read()
        return
    is_fast = options.fast and options.step != "wheel"
    if is_fresh(allow_unoptimised=is_fast):
        _say("build/compiled is up to date", began_s)
    else:
        library = _compile(options.jobs, is_unoptimised=is_fast)
        _say(f"{library.name}, {library.stat().st_size / 2**20:.1f} MiB", began_s)
    if options.step == "wheel":
        from compilation.wheel import compiled_wheel, pure_wheel

        pure = pure_wheel(ROOT / "dist")
        for wheel in (pure, compiled_wheel(pure, TREE)):
            _say(f"{wheel.relative_to(ROOT)}, {wheel.stat().st_size / 2**20:.1f} MiB", began_s)
    if options.step == "test":
        from compilation.check import SLICE, TESTS, compare_forms, copy_tests, run_tests

        copy_tests(TREE)
        differences = compare_forms(TREE)
        print("\n".join(differences) or "both forms have the same bytes and traces")
        failed = run_tests(TREE, SLICE if options.slice else TESTS, options.jobs)
        _say("tested", began_s)
        raise SystemExit(1 if differences or failed else 0)


def _write_to_read() -> None:
    package = write_tree(_TO_READ)
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", str(package / "protocol/messages")],
        check=True,
    )


def _compile(jobs: int, *, is_unoptimised: bool) -> Path:
    # Imported here, because writing the source needs no compiler.
    from compilation.extension import compile_tree

    digest = digest_of_sources()
    forget()
    library = compile_tree(write_tree(TREE), jobs=jobs, is_unoptimised=is_unoptimised)
    remember(digest, is_unoptimised=is_unoptimised)
    return library


def _say(text: str, began_s: float) -> None:
    print(f"{text} after {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
