"""The verdict on each broker error, where a wrong row would cost records or a night."""

from __future__ import annotations

import pytest

from heliostat.errors import Append, BrokerError, Verdict, kafka_error


@pytest.mark.parametrize("code", [1, 10, 18, 32, 47, 76, 87, 90])
def test_lasting_errors_stop(code: int) -> None:
    assert BrokerError("no", kafka_code=code).verdict is Verdict.HALT


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 13, 19, 20, 29, 31, 45, 56, 74, 100, 4711])
def test_passing_errors_are_retried(code: int) -> None:
    assert BrokerError("no", kafka_code=code).verdict is Verdict.RETRY


@pytest.mark.parametrize("code", [-1, 7, 13, 20, 46, 56, 4711])
def test_errors_that_leave_open_whether_a_batch_landed_are_marked(code: int) -> None:
    """I4: after these the end is read before anything is sent again."""
    assert kafka_error(code).append is Append.AMBIGUOUS


@pytest.mark.parametrize("code", [3, 5, 6, 8, 9, 56, 72, 74, 75, 100, 103])
def test_errors_after_a_leader_change_request_metadata(code: int) -> None:
    assert kafka_error(code).stale_metadata


@pytest.mark.parametrize("code", [47, 49, 90])
def test_a_newer_writer_of_the_same_id_has_fenced_us(code: int) -> None:
    assert BrokerError("no", kafka_code=code).is_fenced


@pytest.mark.parametrize("code", [7, 45, 53])
def test_other_refusals_do_not_mean_a_newer_writer(code: int) -> None:
    assert not BrokerError("no", kafka_code=code).is_fenced
