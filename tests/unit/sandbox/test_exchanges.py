"""Round trips are counted as what stands one after the other, however bytes arrive."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from heliostat_sandbox.exchanges import (
    Exchange,
    ExchangeLog,
    FrameHeads,
    read_exchanges,
    round_trips,
)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("piece", [1, 3, 7, 64, 1000])
def test_frames_are_found_in_pieces_of_any_size(piece: int) -> None:
    bodies = [b"a" * 10, b"b" * 500, b"c" * 64, b"d" * 4]
    heads: list[bytes] = []
    finds = FrameHeads(heads.append)
    data = b"".join(map(framed, bodies))
    for at in range(0, len(data), piece):
        finds.take(memoryview(data)[at : at + piece])
    assert heads == [body[:64] for body in bodies]


def test_an_exchange_is_noted_with_its_client(tmp_path: Path) -> None:
    out = io.StringIO()
    there, back = ExchangeLog(out).watch()
    name = b"a client"
    head = b"\0\x03\0\x0c" + (7).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    there(memoryview(framed(head + b"rest")))
    back(memoryview(framed((8).to_bytes(4, "big"))))
    back(memoryview(framed((7).to_bytes(4, "big") + b"answer")))
    file = tmp_path / "exchanges"
    file.write_text(out.getvalue())
    (exchange,) = read_exchanges(file)
    assert (exchange.api_key, exchange.client) == (3, "a client")
    assert exchange.asked_s <= exchange.answered_s


def test_requests_together_cost_one_round_trip_and_pauses_none() -> None:
    def asked(at_s: float, key: int = 3, client: str = "us") -> Exchange:
        return Exchange(key, client, at_s, at_s + 0.5)

    together = [asked(10.0), asked(10.0), asked(10.5)]
    assert round_trips(together, 9.0, 20.0, 1.0) == pytest.approx(1.5)
    assert round_trips([*together, asked(15.0)], 9.0, 20.0, 1.0) == pytest.approx(2.5)
    waits = asked(12.0, key=1, client="lane")
    assert round_trips([*together, waits], 9.0, 20.0, 1.0, ["la"]) == pytest.approx(1.5)
    assert round_trips(together, 10.2, 20.0, 1.0) == pytest.approx(1.0)
