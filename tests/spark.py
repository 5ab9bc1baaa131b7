"""One session of Spark for all tests of a process, on two cores of this machine, begun as users' sessions are."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from lookalike.sources.clusters import SparkTable

_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles little and collects with one thread: tests are too short for more to pay."""
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


@cache
def java() -> bool:
    """Whether there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if command is None:
        return False
    modules = subprocess.run([command, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.incubator.vector@" in modules


def session() -> Any:
    """The session; the test is skipped where there is no Java."""
    if not java():
        pytest.skip("no Java 17 or 21 for Spark")
    return _session()


@cache
def _session() -> Any:
    before = os.environ.get("JDK_JAVA_OPTIONS")
    tables = tempfile.TemporaryDirectory(prefix="lookalike-spark-")
    atexit.register(tables.cleanup)
    os.environ["JDK_JAVA_OPTIONS"] = f"{before or ''} {_LIGHT} -Dspark.sql.warehouse.dir={tables.name}".strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begun = SparkTable("local[2]", "nothing").session
    finally:
        del os.environ["JDK_JAVA_OPTIONS"]
        if before is not None:
            os.environ["JDK_JAVA_OPTIONS"] = before
    for name, value in _SMALL.items():
        begun.conf.set(name, value)
    return begun


def frame_of(table: pa.Table) -> Any:
    """The rows as a DataFrame in two partitions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session().createDataFrame(table)


def in_spark(table: pa.Table) -> SparkTable:
    return SparkTable(frame_of(table))
