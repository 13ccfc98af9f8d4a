"""One Spark session for all tests. The tests that use it run in one worker of pytest-xdist."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    """Skip the test if there is no PySpark or no Java for it."""
    pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")
    from coterie.pipeline.session import JavaMissing, find_java

    try:
        find_java()
    except JavaMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session on two threads. It is started once, because a start takes seconds."""
    from coterie.pipeline.session import start_session

    scratch = str(tmp_path_factory.mktemp("spark"))
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    session = start_session(
        "tests", master="local[2]", settings=settings, scratch=scratch, little=True
    )
    yield session
    session.stop()
