"""A cluster of two executors with processes of their own, one of which is killed during a job: no count changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.spark import java

FILES, ROWS = 8, 1000


def executors() -> list[int]:
    """The processes of executors that this process's Java has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if (
            b"CoarseGrainedExecutorBackend" in words
            and f"-Dlookalike.cluster={os.environ['CLUSTER']}".encode() in words
        ):
            found.append(int(entry.name))
    return found


def slowed(batches: Any) -> Iterator[Any]:
    """Rows that take a while, so that an executor can be lost in the middle of a job."""
    time.sleep(1.0)
    yield from batches


def begun() -> Any:
    from pyspark.sql import SparkSession

    import lookalike

    settings = {
        "spark.app.name": os.environ["CLUSTER"],
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.extraJavaOptions": f"-Dlookalike.cluster={os.environ['CLUSTER']}",
        "spark.executorEnv.PYTHONPATH": str(Path(lookalike.__file__).parents[1]),
        "spark.sql.files.maxPartitionBytes": "1k",
    }
    return SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()


def counted(folder: str) -> dict[str, Any]:
    """What `main` prints: counts before and after an executor was killed in the middle of a job, and rows made."""
    from lookalike.release import load
    from lookalike.schema.schema import Schema
    from lookalike.sources.base import View
    from lookalike.sources.clusters import SparkTable
    from lookalike.sources.databases import write_into

    session = begun()
    frame = session.read.parquet(f"{folder}/table")
    scanner: Any = SparkTable(frame.mapInArrow(slowed, frame.schema)).scanner()
    view, found = View.of(Schema.from_sizes({"a": 5, "b": 7}).columns), []
    job = threading.Thread(target=lambda: found.append(scanner.scan(view, [("a", "b")])[0]))
    before = executors()
    job.start()
    time.sleep(2.5)  # some tasks are done, others are not
    running = job.is_alive()
    os.kill(before[0], signal.SIGKILL)
    job.join()
    again = scanner.scan(view, [("a", "b")])[0]  # blocks that were lost are made again
    lost = before[0] not in executors()
    write_into(load(f"{folder}/m.lookalike").parts(250, 100, seed=4), session, f"{folder}/made")
    session.stop()
    return {"running": running, "executors": len(before), "lost": lost, "counts": [found[0].tolist(), again.tolist()]}


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_an_executor_that_is_killed_changes_no_count(tmp_path: Path) -> None:
    if not java():
        pytest.skip("no Java 17 or 21 for Spark")
    import lookalike as la

    rng = np.random.default_rng(6)
    (tmp_path / "table").mkdir()
    tables = [pa.table({"a": rng.integers(0, 5, ROWS), "b": rng.integers(0, 7, ROWS)}) for _ in range(FILES)]
    for i, table in enumerate(tables):
        parquet.write_table(table, tmp_path / "table" / f"part-{i}.parquet")
    fitted = la.synthesize(tables[0], schema={"a": 5, "b": 7}, method="mst", rows=10).fitted
    fitted.save(tmp_path / "m.lookalike")
    command = [sys.executable, "-m", "tests.unit.sources.test_spark_cluster", str(tmp_path)]
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    environment = os.environ | {"SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable, "CLUSTER": tmp_path.name}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["running"]
    assert said["executors"] == 2
    assert said["lost"]
    whole = pa.concat_tables(tables)
    codes = [whole.column(name).to_numpy() for name in "ab"]
    wanted = np.histogram2d(*codes, bins=(range(6), range(8)))[0].astype(int).tolist()
    assert said["counts"] == [wanted, wanted]
    made = pa.concat_tables(map(parquet.read_table, sorted((tmp_path / "made").glob("*.parquet"))))
    assert made.cast(fitted.sample_arrow(5).schema).equals(pa.concat_tables(fitted.batches(250, 100, seed=4)))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(counted(sys.argv[1])) + "\n")
