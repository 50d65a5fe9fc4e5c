"""Codecs against those of aiokafka, and against data that is not compressed at all."""

from __future__ import annotations

import contextlib
import gzip

import pytest
from aiokafka import codec as ref
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from heliostat.errors import BatchError
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.codecs import TooMuch, compress, decompress

THEIRS = {
    Codec.GZIP: (ref.gzip_encode, ref.gzip_decode),
    Codec.SNAPPY: (ref.snappy_encode, ref.snappy_decode),
    Codec.LZ4: (ref.lz4_encode, ref.lz4_decode),
    Codec.ZSTD: (ref.zstd_encode, ref.zstd_decode),
}
BODIES = [b"a", b"abc" * 50_000, bytes(range(256)) * 40, bytes(3_000_000)]


@pytest.mark.parametrize("codec", THEIRS)
@pytest.mark.parametrize("body", BODIES, ids=len)
def test_each_codec_reads_what_the_other_wrote(codec, body):
    encode, decode = THEIRS[codec]
    assert decompress(codec, encode(body)) == body
    assert decode(compress(codec, body)) == body
    assert decompress(codec, memoryview(compress(codec, memoryview(body)))) == body


def test_snappy_without_framing_and_gzip_in_members_are_read():
    body = BODIES[1]
    assert decompress(Codec.SNAPPY, ref.snappy_encode(body, xerial_compatible=False)) == body
    assert decompress(Codec.GZIP, gzip.compress(body) + gzip.compress(b"more")) == body + b"more"


@pytest.mark.parametrize("codec", THEIRS)
def test_the_size_limit_is_exact(codec):
    packed = compress(codec, bytes(200_000))
    assert len(decompress(codec, packed, 200_000)) == 200_000
    with pytest.raises(TooMuch):
        decompress(codec, packed, 199_999)


@pytest.mark.parametrize("codec", THEIRS)
@given(data=st.data())
@examples(100)
def test_damage_gives_an_error_or_other_bytes(codec, data):
    packed = bytearray(compress(codec, b"some record bytes " * 9))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(0, len(packed))) or len(packed) :]
    with contextlib.suppress(BatchError):
        assert len(decompress(codec, packed, 100_000)) <= 100_000
