"""Write, compile and package the compiled form: `python -m compilation --help`."""

import argparse
import subprocess
import sys
import time

from compilation.tree import ROOT, write_tree

_TREE = ROOT / "build" / "compiled"


def main() -> None:
    """Run the step that the command line names, and those before it."""
    parser = argparse.ArgumentParser(prog="python -m compilation", description=__doc__)
    parser.add_argument(
        "step",
        choices=["write", "compile", "wheel", "test"],
        help="write the source of the compiled form to build/compiled; compile it too; build the"
        " pure and the compiled wheel in dist; or run the tests with the compiled form and compare"
        " it with the pure one",
    )
    parser.add_argument("--slice", action="store_true", help="run a part of the tests")
    parser.add_argument("--jobs", type=int, default=2, help="how many C compilers run at once")
    parser.add_argument("--optimise", default="2", help="level of the C compiler [default: 2]")
    options = parser.parse_args()
    began_s = time.monotonic()
    package = write_tree(_TREE)
    # The written-out codecs are meant to be read.
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", str(package / "protocol/messages")],
        check=True,
    )
    if options.step != "write":
        # Imported here, because writing the source needs no compiler.
        from compilation.extension import compile_tree

        modules = compile_tree(package, jobs=options.jobs, opt_level=options.optimise)
        size_mib = sum(path.stat().st_size for path in modules) / 2**20
        _say(f"{len(modules)} extension modules, {size_mib:.1f} MiB", began_s)
    if options.step == "wheel":
        from compilation.wheel import compiled_wheel, pure_wheel

        pure = pure_wheel(ROOT / "dist")
        for wheel in (pure, compiled_wheel(pure, _TREE)):
            _say(f"{wheel.relative_to(ROOT)}, {wheel.stat().st_size / 2**20:.1f} MiB", began_s)
    if options.step == "test":
        from compilation.check import SLICE, TESTS, compare_forms, copy_tests, run_tests

        copy_tests(_TREE)
        differences = compare_forms(_TREE)
        print("\n".join(differences) or "both forms have the same bytes and traces")
        failed = run_tests(_TREE, SLICE if options.slice else TESTS, options.jobs)
        _say("tested", began_s)
        raise SystemExit(1 if differences or failed else 0)


def _say(text: str, began_s: float) -> None:
    print(f"{text} after {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
