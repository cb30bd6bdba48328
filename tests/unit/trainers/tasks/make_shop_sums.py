"""Makes shop-sums.jsonl, the word problems that come with the package.

python -m tests.unit.trainers.tasks.make_shop_sums > trainers/tasks/data/shop-sums.jsonl
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Final

PROBLEMS: Final = 400
_NAMES: Final = ("Ada", "Bela", "Chidi", "Dana", "Emre", "Farah", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena")
_WARES: Final = ("pens", "apples", "stamps", "candles", "mugs", "kites", "tiles", "lamps", "books", "shirts", "bulbs")


def lines() -> Iterator[str]:
    """Yield the file's lines without their ends; always the same."""
    random_numbers, seen = random.Random("shop-sums"), set[str]()
    while len(seen) < PROBLEMS:
        problem, answer = random_numbers.choice(_KINDS)(random_numbers)
        if problem not in seen:
            seen.add(problem)
            yield json.dumps({"id": f"shop-sums-{len(seen):03}", "problem": problem, "answer": str(answer)})


def _cost(random_numbers: random.Random) -> tuple[str, int]:
    name, ware = random_numbers.choice(_NAMES), random_numbers.choice(_WARES)
    count, price = random_numbers.randint(2, 12), random_numbers.randint(2, 9)
    return f"{name} buys {count} {ware} at {price} coins each. How many coins does {name} pay?", count * price


def _change(random_numbers: random.Random) -> tuple[str, int]:
    name, ware = random_numbers.choice(_NAMES), random_numbers.choice(_WARES)
    count, price, left = random_numbers.randint(2, 9), random_numbers.randint(2, 9), random_numbers.randint(1, 30)
    return (
        f"{name} has {count * price + left} coins and buys {count} {ware} for {price} coins each. "
        f"How many coins are left?",
        left,
    )


def _stock(random_numbers: random.Random) -> tuple[str, int]:
    name, ware = random_numbers.choice(_NAMES), random_numbers.choice(_WARES)
    sold, left, new = random_numbers.randint(3, 40), random_numbers.randint(0, 40), random_numbers.randint(5, 50)
    return (
        f"A shop has {sold + left} {ware}. It sells {sold} of them to {name}, then {new} more are delivered. "
        f"How many {ware} does the shop have now?",
        left + new,
    )


def _packed(random_numbers: random.Random) -> tuple[str, int]:
    name, ware = random_numbers.choice(_NAMES), random_numbers.choice(_WARES)
    boxes, size, loose = random_numbers.randint(2, 9), random_numbers.randint(3, 9), random_numbers.randint(1, 9)
    return (
        f"{name} packs {ware} into {boxes} boxes of {size} and has {loose} {ware} over. "
        f"How many {ware} were there at first?",
        boxes * size + loose,
    )


def _shared(random_numbers: random.Random) -> tuple[str, int]:
    name, other = random_numbers.sample(_NAMES, 2)
    friends, share, price = random_numbers.randint(2, 6), random_numbers.randint(2, 15), random_numbers.randint(1, 9)
    return (
        f"{name}, {other} and others, {friends + 1} people in all, share a bill of {(friends + 1) * share} coins "
        f"equally. {other} also buys a drink for {price} coins. How many coins does {other} spend?",
        share + price,
    )


def _compared(random_numbers: random.Random) -> tuple[str, int]:
    (name, other), ware = random_numbers.sample(_NAMES, 2), random_numbers.choice(_WARES)
    fewer, more = random_numbers.randint(2, 25), random_numbers.randint(2, 25)
    return (
        f"{name} sold {fewer} {ware} on Monday and {more} more than that on Tuesday. {other} sold twice as many as "
        f"{name} sold on both days together. How many {ware} did {other} sell?",
        2 * (fewer + fewer + more),
    )


_KINDS: Final = (_cost, _change, _stock, _packed, _shared, _compared)


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
