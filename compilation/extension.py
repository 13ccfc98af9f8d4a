"""Extension modules from the source of the compiled form, made by mypyc and the C compiler."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from compilation.selection import compiled_modules

_CONFIG = """\
[mypy]
python_version = 3.11
ignore_missing_imports = True
follow_imports = silent
"""


def compile_tree(package: Path, *, jobs: int, opt_level: str = "2") -> list[Path]:
    """Compile the modules of a tree; return the extension modules, which are beside them.

    Args:
        package: the directory `coterie` that `write_tree` made.
        jobs: how many C compilers run at once.
        opt_level: the optimisation of the C compiler.
    """
    target = package.parent
    (target / "mypy.ini").write_text(_CONFIG)
    before = Path.cwd()
    os.chdir(target)
    try:
        files = [f"coterie/{module.as_posix()}" for module in compiled_modules(package)]
        extensions = mypycify(
            ["--config-file", "mypy.ini", *files],
            opt_level=opt_level,
            debug_level="0",
            multi_file=True,
            group_name="coterie",
        )
        distribution = Distribution({"name": "coterie", "ext_modules": extensions})
        command = _ParallelBuild(distribution)
        command.jobs = jobs
        command.inplace = True
        command.build_temp = "build/objects"
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted(target.glob("*.so")) + sorted(package.rglob("*.so"))


class _ParallelBuild(build_ext):  # type: ignore[misc] # setuptools has no types
    """Compiles the files of one extension at once; setuptools can only do so with extensions."""

    jobs = 1

    def build_extensions(self) -> None:
        compile_files = self.compiler.compile

        def compile_at_once(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(self.jobs) as threads:
                objects = threads.map(lambda source: compile_files([source], **options), sources)
                return [path for each in objects for path in each]

        self.compiler.compile = compile_at_once
        super().build_extensions()
