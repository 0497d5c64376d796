"""Plans of windows: carried out on NumPy arrays they deliver every window, and move little."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.partition.window import _by_distance, _by_rounds, _plan, _Rounds


def shards(total: int, held: int, count: int) -> np.ndarray:
    """Global indices that each shard holds; -1 is padding."""
    index = np.arange(count * held)
    return np.where(index < total, index, -1).reshape(count, held)


def deliver(plan, held: int, first: np.ndarray, size: int, data: np.ndarray) -> list[dict]:
    """For each coordinate, what the plan puts at each place of its window."""
    count = len(first)
    out: list[dict] = [{} for _ in range(count)]
    if isinstance(plan, _Rounds):
        for k in range(count):
            for place in range(size):
                g = int(first[k]) + place
                if k * held <= g < (k + 1) * held:
                    out[k][place] = int(data[k, g - k * held])
        for r in plan.rounds:
            assert len(set(r.sources[r.sources >= 0])) == (r.sources >= 0).sum()
            for k, source in enumerate(r.sources):
                for i in range(r.size) if source >= 0 else ():
                    place = source * held + int(r.offsets[k]) + i - int(first[k])
                    if 0 <= place < size:
                        out[k][place] = int(data[source, int(r.offsets[k]) + i])
        return out
    for k in range(count):
        at = -int(plan.offsets[k])
        for piece in plan.pieces:
            at += piece.pad
            for i in range(piece.low, piece.high):
                source = int(piece.sources[k])
                if source >= 0 and 0 <= at < size:
                    out[k][at] = int(data[source, i])
                at += 1
    for piece in plan.pieces:
        senders = piece.sources[piece.sources >= 0]
        assert len(set(senders.tolist())) == len(senders)
    return out


@st.composite
def windows(draw):
    count, held = draw(st.integers(2, 8)), draw(st.integers(1, 5))
    total = draw(st.integers((count - 1) * held + 1, count * held))
    size = draw(st.integers(1, 2 * held + 2))
    kind = draw(st.sampled_from(["stride", "reversed", "free"]))
    if kind == "free":
        first = draw(st.lists(st.integers(-size, total), min_size=count, max_size=count))
    else:
        step, shift = draw(st.integers(0, held + 1)), draw(st.integers(-held, held))
        first = [k * step + shift for k in range(count)]
        first = first[::-1] if kind == "reversed" else first
    return count, held, total, size, np.array(first, np.int64)


@settings(max_examples=150)
@given(windows())
def test_every_plan_delivers_every_window(case):
    count, held, total, size, first = case
    data = shards(total, held, count)
    low = np.clip(first, 0, total)
    high = np.clip(first + size, low, total)
    needed = (first, held, low, high)
    plans = [_by_distance(*needed, 10**6), _by_rounds(*needed)]
    chosen = _plan(*needed)
    for plan in (*plans, chosen):
        if plan is None or plan.moved > (count - 1) * held:  # then the dimension is gathered
            continue
        got = deliver(plan, held, first, size, data)
        for k in range(count):
            for g in range(int(low[k]), int(high[k])):
                assert got[k][g - int(first[k])] == g
    assert chosen.moved <= min(p.moved for p in plans if p is not None)


def test_a_window_in_the_own_shard_moves_nothing():
    first = np.arange(4) * 3
    assert _plan(first, 3, first, first + 3).moved == 0


def test_a_halo_of_one_moves_two_rows():
    first = np.arange(4) * 3 - 1
    low, high = np.clip(first, 0, 12), np.clip(first + 5, 0, 12)
    assert _plan(first, 3, low, high).moved == 2


def test_pieces_for_several_devices_of_one_shard_go_in_rounds():
    first = np.arange(6)  # shard 0 holds what devices 1, 2 and 3 need
    plan = _plan(first, 4, first, first + 1)
    assert isinstance(plan, _Rounds) and plan.moved == 3
