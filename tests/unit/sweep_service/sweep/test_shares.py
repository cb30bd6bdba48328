"""Who begins next, when several sweeps want the slots of one cluster."""

from collections import Counter

import pytest

from sweep_service.sweep.shares import Node, Part, Share, is_turn_of, waiting_text

TWO_SLOTS: list[Node] = [{"CPU": 2.0}]
ONE = Part(1, 0)


def share(name: str, held: int = 0, used_s: float = 0.0, waits_for: Part | None = ONE, part: Part = ONE) -> Share:
    return Share(name, f"sweep {name}", (part,) * held, ((part, used_s),), waits_for)


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
        ([share("a", held=1), share("b")], "b"),
        ([share("a", held=2), share("b")], ""),
        ([share("a", held=1, waits_for=None), share("b", used_s=9), share("c", used_s=8)], "c"),
        ([share("a", used_s=9), share("b", used_s=9, waits_for=None), share("c", used_s=8)], "ac"),
    ],
)
def test_the_smallest_share_goes_first_then_who_used_least_then_who_came_first(
    shares: list[Share], may_begin: str
) -> None:
    assert turn(shares, TWO_SLOTS) == may_begin


def test_a_large_trial_is_waited_for_but_not_one_that_fits_no_node() -> None:
    nodes: list[Node] = [{"CPU": 8.0, "GPU": 4.0}]
    large, single = Part(1, 4), Part(1, 1)
    running = share("a", held=1, waits_for=single, part=single)
    assert turn([running, share("b", waits_for=large), share("c", waits_for=single)], nodes) == ""
    assert turn([running, share("b", waits_for=Part(1, 8)), share("c", waits_for=single)], nodes) == "ac"


def test_a_share_is_the_larger_one_of_cpus_and_gpus() -> None:
    nodes: list[Node] = [{"CPU": 10.0, "GPU": 2.0}, {"CPU": 10.0, "GPU": 2.0}]
    assert Part(10, 1).share_of(nodes) == 0.5
    assert Part(1, 1).share_of(nodes) == 0.25
    assert Part(1, 1).share_of([{"CPU": 10.0}]) == 1.0
    cpus, gpus = Share("a", "", (Part(6, 0),), (), Part(6, 0)), Share("b", "", (Part(1, 1),), (), Part(1, 1))
    assert gpus.order(nodes) < cpus.order(nodes) or gpus.order(nodes)[0] < cpus.order(nodes)[0] + 0.1
    assert cpus.order(nodes)[0] == pytest.approx(0.3)


def test_twelve_sweeps_on_two_slots_begin_in_order_and_a_small_one_ends_early() -> None:
    """Trials of one second: eleven sweeps of ten trials, and one of two that came last."""
    names = "abcdefghijkl"
    left = Counter(dict.fromkeys(names, 10) | {"l": 2})
    used = Counter[str]()
    began = list[str]()
    ended_at = dict[str, int]()
    for second in range(200):
        running = list[str]()
        for _ in range(2):
            shares = [share(name, running.count(name), used[name], ONE if left[name] else None) for name in names]
            if may := [name for name in names if left[name] and is_turn_of(name, shares, TWO_SLOTS)]:
                running.append(may[0])
                left[may[0]] -= 1
        began += running
        for name in running:
            used[name] += 1
            if not left[name]:
                ended_at.setdefault(name, second + 1)
    assert "".join(began[:12]) == names
    assert not +left
    assert ended_at["l"] == 12
    assert max(ended_at.values()) - min(ended_at[name] for name in names if name != "l") <= 6


def test_who_waits_is_told_behind_whom() -> None:
    shares = [share("a", held=1), share("b", held=1, waits_for=None), share("c", used_s=1), share("d", used_s=2)]
    assert waiting_text("d", shares, TWO_SLOTS) == "waits for a slot behind sweep c, sweep a, sweep b"
    assert waiting_text("c", shares, TWO_SLOTS) == "waits for a slot behind sweep a, sweep b"
    many = [*shares, *(share(name, held=1) for name in "efg")]
    assert waiting_text("d", many, TWO_SLOTS) == "waits for a slot behind sweep c, sweep a, sweep b and 3 more"
    assert waiting_text("a", [share("a", waits_for=Part(4, 0))], TWO_SLOTS) == (
        "waits for a node with 4 CPUs and 0 GPUs; the Ray cluster has none at present"
    )
