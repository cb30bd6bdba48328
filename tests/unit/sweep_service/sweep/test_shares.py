"""Who begins next, when several sweeps want the slots of one cluster."""

from collections import Counter

import pytest

from sweep_service.sweep.shares import (
    MORE_DELAYED,
    Node,
    Part,
    Share,
    fit,
    has_to_yield,
    is_turn_of,
    placeable,
    waiting_text,
)

TWO_SLOTS: list[Node] = [{"CPU": 2.0}]
ONE = Part(1, 0)


def share(
    name: str,
    held: int = 0,
    done_s: float = 0.0,
    left_s: float | None = 100.0,
    asked_s: float = 0.0,
    waits_for: Part | None = ONE,
    part: Part = ONE,
    asks_since: float = 0.0,
    lacks_node: bool = False,
    claims: int = 0,
) -> Share:
    return Share(
        sweep_id=name,
        name=f"sweep {name}",
        held=(part,) * held,
        waits_for=waits_for,
        asks_since=asks_since,
        asked_s=asked_s,
        done_s=done_s,
        left_s=left_s,
        slots=2,
        lacks_node=lacks_node,
        claims=claims,
    )


def turn(shares: list[Share], nodes: list[Node]) -> str:
    """Return the sweeps that may begin now."""
    return "".join(one.sweep_id for one in shares if is_turn_of(one.sweep_id, shares, nodes))


@pytest.mark.parametrize(
    ("shares", "may_begin"),
    [
        ([share("a")], "a"),
        ([share("a", held=1)], "a"),
        ([share("a", held=2)], ""),
        ([share("b"), share("a"), share("c")], "ba"),  # in order of submission, as far as the slots go
        ([share("b", asks_since=1), share("a", asks_since=2), share("c")], "bc"),
        ([share("a", held=1), share("b")], "b"),
        ([share("a", held=2), share("b")], ""),
        ([share("a", held=1, done_s=9, asked_s=90), share("b")], "b"),  # it has begun, and the other one has not
        ([share("a", done_s=1, asked_s=5), share("b", done_s=1, asked_s=6), share("c", done_s=1, asked_s=4)], "ab"),
        # the shorter one is delayed more by the same wait, and at the same delay it is the one that holds less
        ([share("a", done_s=1, asked_s=5), share("b", held=1, done_s=1, left_s=9, asked_s=5)], "b"),
        ([share("a", held=1, left_s=None), share("b", done_s=1, left_s=None)], "b"),
    ],
)
def test_who_has_not_begun_goes_first_then_who_is_delayed_most(shares: list[Share], may_begin: str) -> None:
    assert turn(shares, TWO_SLOTS) == may_begin


def test_a_slowdown_compares_with_the_time_alone() -> None:
    assert share("a", done_s=60, left_s=40, asked_s=30).slowdown == 1.0  # 30 s on two slots, as if it were alone
    assert share("a", done_s=60, left_s=40, asked_s=80).slowdown == 2.0  # 100 s instead of 50 s
    assert share("a", done_s=0, left_s=0, asked_s=80).slowdown == 1.0
    assert share("a", held=1, left_s=None, asked_s=80).slowdown == 1.0


def test_a_large_trial_is_waited_for_but_not_one_that_fits_no_node() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 4.0}]
    large, single = Part(1, 4), Part(1, 1)
    running = share("a", held=1, waits_for=single, part=single)
    assert turn([running, share("b", waits_for=large), share("c", waits_for=single)], nodes) == ""
    assert turn([running, share("b", waits_for=Part(1, 8)), share("c", waits_for=single)], nodes) == "ac"


def test_slots_are_counted_node_by_node() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 3.0}, {"CPU": 64.0, "GPU": 4.0}]
    assert [Part(*part).slots(nodes) for part in [(2, 0), (2, 1), (2, 0.5), (2, 4), (0.01, 8)]] == [37, 6, 12, 1, 0]


class _Machine:
    """Two slots, and sweeps of trials of one second."""

    def __init__(self) -> None:
        self.now = 0
        self.trials, self.left, self.done = dict[str, int](), Counter[str](), Counter[str]()
        self.came_at, self.ended_at = dict[str, int](), dict[str, int]()
        self.began = list[str]()

    def submit(self, name: str, trials: int) -> None:
        self.trials[name] = self.left[name] = trials
        self.came_at[name] = self.now

    def run_a_second(self) -> None:
        running = list[str]()
        for _ in range(2):
            shares = [self._share(name, running.count(name)) for name in self.trials]
            for one in sorted(shares, key=lambda one: one.order):
                if one.waits_for and is_turn_of(one.sweep_id, shares, TWO_SLOTS):
                    running.append(one.sweep_id)
                    self.left[one.sweep_id] -= 1
                    break
        self.now += 1
        self.began += running
        for name in running:
            self.done[name] += 1
            if self.done[name] == self.trials[name]:
                self.ended_at[name] = self.now

    def _share(self, name: str, held: int) -> Share:
        asked_s, left_s = self.now - self.came_at[name], self.left[name] + held
        waits_for = ONE if self.left[name] else None
        return share(name, held, self.done[name], left_s, asked_s, waits_for, asks_since=self.came_at[name])


def test_twelve_sweeps_on_two_slots_begin_in_order_and_a_small_one_ends_early() -> None:
    names, machine = "abcdefghijkl", _Machine()
    for name in names:
        machine.submit(name, 8 if name == "l" else 20)
    while +machine.left:
        machine.run_a_second()
    assert "".join(machine.began[:12]) == names
    assert machine.ended_at["l"] <= 3 * 4  # its own length is 4 s
    large = [machine.ended_at[name] for name in names if name != "l"]
    assert max(large) - min(large) <= 11


def test_small_sweeps_without_end_do_not_starve_a_large_one() -> None:
    machine = _Machine()
    machine.submit("large", 100)  # 50 s alone
    while "large" not in machine.ended_at:
        assert machine.now < 300
        if machine.now % 2 == 0:
            machine.submit(f"small {machine.now}", 3)  # three quarters of the machine
        machine.run_a_second()
    waited = [ended - machine.came_at[name] for name, ended in machine.ended_at.items() if name != "large"]
    assert max(waited) <= 10


def test_the_last_in_order_yields_for_one_that_is_delayed_much_more() -> None:
    long = share("a", held=2, done_s=1000, left_s=1000, asked_s=500, waits_for=None)
    new = share("b")
    assert has_to_yield("a", [], [long, new], TWO_SLOTS) == new
    assert has_to_yield("b", [], [long, new], TWO_SLOTS) is None
    assert has_to_yield("a", [ONE], [long, new], TWO_SLOTS) is None  # one of its two is being paused
    assert has_to_yield("a", [], [long, share("b", waits_for=None)], TWO_SLOTS) is None
    assert has_to_yield("a", [], [share("a", held=1), new], TWO_SLOTS) is None  # there is room
    assert has_to_yield("a", [], [long, share("b", waits_for=Part(4, 0))], TWO_SLOTS) is None  # no node is that large
    first, second = (share(name, 1, done_s=1, left_s=left, asked_s=50) for name, left in (("a", 9), ("c", 99)))
    assert has_to_yield("c", [], [first, second, new], TWO_SLOTS) == new
    assert has_to_yield("a", [], [first, second, new], TWO_SLOTS) is None


def test_a_sweep_that_has_begun_must_be_delayed_half_as_much_again() -> None:
    long = share("a", held=2, done_s=1000, left_s=1000, asked_s=500, waits_for=None)
    for asked_s, yields in [(90, False), (100, True), (110, True)]:  # (2 * 150 + 300) / 400 is half as much again
        other = share("b", done_s=100, left_s=300, asked_s=asked_s + 50)
        assert (other.slowdown >= MORE_DELAYED * long.slowdown) is yields
        assert (has_to_yield("a", [], [long, other], TWO_SLOTS) is not None) is yields
    assert not share("a").makes_room_for(share("b"))  # neither has begun
    assert not share("a").makes_room_for(other)


def test_nobody_yields_for_a_turn_that_cannot_come_yet() -> None:
    eight: list[Node] = [{"CPU": 8.0}]
    busy = share("a", held=7, done_s=10, left_s=10, asked_s=50, waits_for=None)  # as delayed as the next one
    long = share("b", held=1, done_s=1000, left_s=1000, asked_s=1, waits_for=None)
    large = share("c", done_s=10, left_s=10, asked_s=30, waits_for=Part(8, 0))
    assert long.makes_room_for(large)
    assert not busy.makes_room_for(large)
    assert has_to_yield("b", [], [busy, long, large], eight) is None
    assert has_to_yield("b", [], [long, large], eight) == large


def test_large_parts_are_placed_before_small_ones() -> None:
    nodes: list[Node] = [{"CPU": 4.0}, {"CPU": 8.0}]
    assert fit([Part(3, 0), Part(8, 0)], nodes)
    assert fit([Part(8, 0), Part(3, 0)], nodes)
    assert not fit([Part(5, 0), Part(8, 0)], nodes)


def test_sweeps_that_lack_a_node_come_last_and_look_in_turn() -> None:
    waiting = [share("a", lacks_node=True, claims=3), share("b", lacks_node=True, claims=2)]
    began = share("c", held=1, done_s=9)
    assert [one.sweep_id for one in sorted([*waiting, began], key=lambda one: one.order)] == ["c", "b", "a"]


def test_only_what_fits_a_node_is_placeable() -> None:
    shares = [share("a"), share("b", waits_for=Part(4, 0)), share("c", waits_for=None), share("d", held=2)]
    assert [one.sweep_id for one in placeable(shares, TWO_SLOTS)] == ["a", "d"]


def test_who_waits_is_told_behind_whom() -> None:
    shares = [
        share("a", held=1),
        share("b", held=1, waits_for=None),
        share("c", asks_since=1),
        share("d", asks_since=2),
    ]
    assert waiting_text("d", shares, TWO_SLOTS) == "waits for a slot behind sweep c, sweep a, sweep b"
    assert waiting_text("c", shares, TWO_SLOTS) == "waits for a slot behind sweep a, sweep b"
    many = [*shares, *(share(name, held=1) for name in "efg")]
    assert waiting_text("d", many, TWO_SLOTS) == "waits for a slot behind sweep c, sweep a, sweep b and 3 more"
    assert waiting_text("a", [share("a", waits_for=Part(4, 0))], TWO_SLOTS) == (
        "waits for a node with 4 CPUs and 0 GPUs; the Ray cluster has none at present"
    )
