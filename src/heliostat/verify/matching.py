"""Line up two sequences patience-diff style: which items kept their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

LCS_CELLS_MAX = 250_000  # 50 ms; only if contents repeat so often that there is no anchor


def match(one: Sequence[Hashable], two: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indexes of equal contents, rising on both sides: items in the same order.

    Matches common beginnings and ends first, then anchors (contents that occur once on each side,
    the longest rising run of them), then what is between them; computes a longest common
    subsequence only where there is no anchor.
    """
    pairs: list[tuple[int, int]] = []
    stack = [(0, len(one), 0, len(two))]
    while stack:
        low1, high1, low2, high2 = stack.pop()
        while low1 < high1 and low2 < high2 and one[low1] == two[low2]:
            pairs.append((low1, low2))
            low1, low2 = low1 + 1, low2 + 1
        while low1 < high1 and low2 < high2 and one[high1 - 1] == two[high2 - 1]:
            high1, high2 = high1 - 1, high2 - 1
            pairs.append((high1, high2))
        if low1 == high1 or low2 == high2:
            continue
        anchors = _anchors(one, two, (low1, high1), (low2, high2))
        if anchors:
            begin1, begin2 = low1, low2
            for end1, end2 in [*anchors, (high1, high2)]:
                stack.append((begin1, end1, begin2, end2))
                begin1, begin2 = end1, end2
            continue
        side = int(LCS_CELLS_MAX**0.5)
        cut1, cut2 = min(high1, low1 + side), min(high2, low2 + side)
        common = [(low1 + i, low2 + j) for i, j in _lcs(one[low1:cut1], two[low2:cut2])]
        pairs += common
        if (cut1, cut2) != (high1, high2):
            last1, last2 = common[-1] if common else (cut1 - 1, cut2 - 1)
            stack.append((last1 + 1, high1, last2 + 1, high2))
    pairs.sort()
    return pairs


def _anchors(
    one: Sequence[Hashable],
    two: Sequence[Hashable],
    range1: tuple[int, int],
    range2: tuple[int, int],
) -> list[tuple[int, int]]:
    """Return contents that occur once on each side, reduced to the longest run rising on both."""
    (low1, high1), (low2, high2) = range1, range2
    once1 = Counter(one[low1:high1])
    once2 = Counter(two[low2:high2])
    where = {two[j]: j for j in range(low2, high2) if once2[two[j]] == 1}
    candidates = [
        (i, where[one[i]]) for i in range(low1, high1) if once1[one[i]] == 1 and one[i] in where
    ]
    tails: list[int] = []  # patience piles: the lowest second index that ends a run of each length
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(candidates):
        pile = bisect_left(tails, j)
        previous.append(ends[pile - 1] if pile else -1)
        if pile == len(tails):
            tails.append(j)
            ends.append(index)
        else:
            tails[pile], ends[pile] = j, index
    run: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        run.append(candidates[at])
        at = previous[at]
    run.reverse()
    return run


def _lcs(one: Sequence[Hashable], two: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the longest common subsequence, by the textbook table; both sides are short."""
    numbers: dict[Hashable, int] = {}
    left = [numbers.setdefault(content, len(numbers)) for content in one]
    right = [numbers.setdefault(content, len(numbers)) for content in two]
    if not set(left) & set(right):
        return []
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        row, below = table[i], table[i + 1]
        for j in range(len(right) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if left[i] == right[j] else max(below[j], row[j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
