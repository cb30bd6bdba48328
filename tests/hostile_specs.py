"""Bodies that somebody could send as a spec: the examples with structured mistakes; one seed gives the same ones."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

from search_spaces.strategies import DRAWING

EXAMPLES = [
    yaml.safe_load(path.read_text()) for path in sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))
]

NUMBERS: list[Any] = [
    *(0, -1, 0.5, -0.0, 1e-300, 5e-324, 1e300, -1e300, 1.7e308, 2**31, 2**53 + 1, 2**63, 2**64, 10**20, -(10**20)),
    *(10**400, 3e-30, 999_999_999, 4096, 65_537, True, False),
]
TEXTS = [
    *("", " ", "\0", "\u202e\u0666", "\N{ZERO WIDTH SPACE}", "\N{GRINNING FACE}" * 30, "../../etc/passwd", "${HOME}"),
    *(
        "%s%n{0}",
        "<script>",
        "\ufeff",
        "1e5",
        "a" * 64,
        "\x7f\x1b[31m",
        "=1+1",
        "'; drop table sweeps; --",
        "e\u0301" * 99,
    ),
]
NAMES = [
    *("loss.beta1", "loss.beta2", "loss.epsilon", "loss.beta9", "optimizer.learning_rate", "steps", "device_batch"),
    *("rollout.temperature", "loss.name", "task.data.ref", "model.model", "rollout.engine.mode", "seed", "a.b.c.d.e"),
]
Mutation = Callable[[Random, dict[str, Any]], None]


def hostile_bodies(seed: int, number: int) -> Iterator[tuple[str, bytes]]:
    """Yield bodies, each with the names of what was done to it."""
    random = Random(seed)
    for _ in range(number):
        document = deepcopy(random.choice(EXAMPLES))
        chosen = random.choices(MUTATIONS, k=random.choice((1, 1, 2, 3)))
        for mutation in chosen:
            mutation(random, document)
        name, spoil = random.choice(SPOILERS) if random.random() < 0.1 else ("", _plain)
        body = spoil(random, json.dumps(document, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass"))
        yield " ".join([*(mutation.__name__ for mutation in chosen), name]).strip(), body


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a document with each of its keys."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _place(random: Random, document: dict[str, Any]) -> tuple[Any, Any]:
    return random.choice(list(_places(document)) or [(document, "name")])


def _mapping(random: Random, document: dict[str, Any]) -> dict[str, Any]:
    mappings = [container[key] for container, key in _places(document) if isinstance(container[key], dict)]
    return random.choice([document, *mappings])


def big_number(random: Random, document: dict[str, Any]) -> None:
    numbers = [(node, key) for node, key in _places(document) if isinstance(node[key], int | float)]
    node, key = random.choice(numbers or [_place(random, document)])
    node[key] = random.choice(NUMBERS)


def odd_text(random: Random, document: dict[str, Any]) -> None:
    node, key = _place(random, document)
    node[key] = random.choice(TEXTS)


def odd_name(random: Random, document: dict[str, Any]) -> None:
    _mapping(random, document)[random.choice(TEXTS)] = random.choice([1, "a", [], {}])


def wrong_type(random: Random, document: dict[str, Any]) -> None:
    node, key = _place(random, document)
    node[key] = random.choice([None, [], {}, [[]], [{}], {"a": {}}, "text", True, 3, 0.5, [1, "a", None]])


def misspelt(random: Random, document: dict[str, Any]) -> None:
    node = _mapping(random, document)
    if node:
        key = random.choice(list(node))
        place = random.randrange(len(key) + 1)
        node[key[:place] + random.choice("xyz.") + key[place + 1 :]] = node.pop(key)


def missing(random: Random, document: dict[str, Any]) -> None:
    node = _mapping(random, document)
    if node:
        del node[random.choice(list(node))]


def deep(random: Random, document: dict[str, Any]) -> None:
    value: Any = 1
    for _ in range(random.choice((5, 20, 31, 100, 200))):
        value = [value] if random.random() < 0.5 else {"a": value}
    node, key = _place(random, document)
    node[key] = value


def wide(random: Random, document: dict[str, Any]) -> None:
    number = random.choice((60, 900, 5000))
    _mapping(random, document).update({f"{random.choice(('k', 'step', 'beta', 'loss'))}{n}": n for n in range(number)})


def long_text(random: Random, document: dict[str, Any]) -> None:
    node, key = _place(random, document)
    node[key] = random.choice(("x", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "ab ")) * random.choice((300, 4000, 40_000))


def long_name(random: Random, document: dict[str, Any]) -> None:
    _mapping(random, document)["n" * random.choice((70, 300, 50_000))] = 1


def long_list(random: Random, document: dict[str, Any]) -> None:
    lists = [container[key] for container, key in _places(document) if isinstance(container[key], list)]
    entry = random.choice([[], {}, "a", None, True, 1, -1, 1e300, 10**30])
    random.choice(lists or [[]])[:] = [entry] * random.choice((20, 900, 5000))


def many_seeds(random: Random, document: dict[str, Any]) -> None:
    seeds = list(range(random.choice((5, 50, 1000, 1001))))
    top_k = 2 if len(seeds) < 1000 else 100
    document["seeds"] = {"tune": seeds, "confirm": {"seeds": [2000 + seed for seed in seeds], "top_k": top_k}}


def long_space(random: Random, document: dict[str, Any]) -> None:
    """Long lists of values, under names that are right, wrong, or misspelt."""
    names = random.sample(NAMES, random.choice((1, 2, 5))) + [
        f"loss.beta{n}x" for n in range(random.choice((0, 0, 16, 70)))
    ]
    length = random.choice((2, 31, 50, 400, 800, 1001))
    scale = random.choice((1, 0.001, -1, 8, 10**9))
    values = random.choice(
        ([n * scale for n in range(length)], [f"v{n}" for n in range(length)], [[n] for n in range(9)])
    )
    document["space"] = dict.fromkeys(names, values)
    _strategy(random, document)


def many_ranges(random: Random, document: dict[str, Any]) -> None:
    """Ranges, of which corner points double with every name."""
    low, high = random.choice(((0, 1), (0.1, 0.9), (8, 8000), (-1e300, 1e300), (1, 2**53), (1e-300, 1e300)))
    entry = {"type": random.choice(("float", "int")), "low": low, "high": high}
    entry |= random.choice(({}, {"log": True}, {"step": 0.1}, {"step": 1}, {"step": 1e-300}, {"step": 8}))
    extra = [f"rollout.x{n}" for n in range(random.choice((0, 0, 60, 64)))]
    document["space"] = dict.fromkeys([*random.sample(NAMES, random.choice((1, 4, 10))), *extra], entry)
    _strategy(random, document)


def _strategy(random: Random, document: dict[str, Any]) -> None:
    if random.random() < 0.7:
        count = random.choice((1, 100, 10_000, 10**9))
        document["search"] = {"strategy": random.choice(DRAWING), "num_configs": count}
    else:
        document.pop("search", None)


def long_filter(random: Random, document: dict[str, Any]) -> None:
    values = [random.choice([1, "a", [], 2**64, True]) for _ in range(random.choice((5, 400, 990)))]
    data = {"ref": "shop-sums", "filter": {"id": values, "problem": values[:9]}}
    document["training"] = {"task": {"name": "word_problems", "data": data, "apart_from": [f"b{n}" for n in range(90)]}}


def large_grid(random: Random, document: dict[str, Any]) -> None:
    """Return a spec with as many points, trials and characters as may be, or a few more."""
    points = random.choice((250, 500, 501))
    document["training"] = {
        "task": {"name": "word_problems", "data": {"system": "x" * random.choice((10, 15_000, 16_400))}}
    }
    document["space"] = {"loss.beta1": {"type": "float", "low": 0, "high": (points - 1) / 10_000, "step": 0.0001}}
    document["seeds"] = {"tune": list(range(random.choice((1, 2, 5, 6))))}
    document["resources"] = {"cpus": 1}
    for part in ("search", "budget", "probe"):
        document.pop(part, None)


MUTATIONS: list[Mutation] = [
    *(big_number, big_number, odd_text, odd_name, wrong_type, wrong_type, misspelt, missing, deep, wide, long_text),
    *(long_name, long_list, many_seeds, long_space, long_space, many_ranges, long_filter, large_grid),
]


def _plain(_: Random, body: bytes) -> bytes:
    return body


def _cut(random: Random, body: bytes) -> bytes:
    return body[: random.randrange(len(body))]


def _noise(random: Random, body: bytes) -> bytes:
    place = random.randrange(len(body))
    return body[:place] + random.randbytes(3) + body[place:]


def _raw_number(random: Random, body: bytes) -> bytes:
    number = random.choice((b"NaN", b"-Infinity", b"1e999", b"8e400", b"9" * 5000, b"01", b"0x1"))
    return body.replace(b": 0", b": " + number, 1)


def _endless(random: Random, body: bytes) -> bytes:
    return random.choice(
        (b"[" * 100_000, b" " * 5_000_000, b'{"a":' * 20_000, body * 40, b'["' + b"x" * 5_000_000 + b'"]')
    )


def _doubled(_: Random, body: bytes) -> bytes:
    return b'{"name": "a", ' + body[1:]


SPOILERS: list[tuple[str, Callable[[Random, bytes], bytes]]] = [
    ("cut", _cut),
    ("noise", _noise),
    ("raw number", _raw_number),
    ("endless", _endless),
    ("doubled", _doubled),
]
