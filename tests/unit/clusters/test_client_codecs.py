"""What other producers compressed is read by kafka-python's codec."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kafka import codec
from kafka.record import MemoryRecords
from support.records import GZIP, LZ4, NONE, SNAPPY, ZSTD, Sample, encode

from heliostat.clusters.client_codecs import lend_codecs


@pytest.mark.parametrize("packed", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_batches_of_every_codec_are_read(packed: int) -> None:
    lend_codecs()
    lend_codecs()
    samples = [Sample(b"k%d" % n, b"value" * 50, 1_790_000_000_000 + n) for n in range(30)]
    batch = MemoryRecords(encode(samples, packed)).next_batch()
    assert [(row.key, row.value) for row in batch] == [(each.key, each.value) for each in samples]
    assert codec.has_snappy()
    assert codec.has_lz4()
    assert codec.has_zstd()


def test_what_the_client_has_itself_stays() -> None:
    """In a process of its own, before anything was lent."""
    script = (
        "from kafka import codec; from kafka.record import default_records as users;"
        "codec.has_lz4 = lambda: True; users.lz4_decode = 'own';"
        "from heliostat.clusters.client_codecs import lend_codecs; lend_codecs();"
        "assert users.lz4_decode == 'own'; assert callable(users.zstd_decode); print('kept')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "kept\n", done.stderr
