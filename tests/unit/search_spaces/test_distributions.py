import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from search_spaces.distributions import Categorical, Distribution, Fixed, Float, Int, Scalar

ADAPTER: TypeAdapter[Distribution] = TypeAdapter(Distribution)


def test_a_stepped_float_has_the_decimals_it_was_written_with() -> None:
    distribution = Float(low=0.0, high=1.0, step=0.1)
    assert [distribution.at(i) for i in range(distribution.size or 0)] == [
        0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    ]  # fmt: skip
    assert distribution.snap(0.30000000000000004) == 0.3
    assert distribution.contains(0.3)
    assert not distribution.contains(0.30000000000000004)


@pytest.mark.parametrize(
    ("distribution", "size"),
    [
        (Float(low=0, high=1), None),
        (Float(low=1e-6, high=1e-2, log=True), None),
        (Float(low=0.15, high=0.3, step=0.05), 4),
        (Int(low=1, high=9, step=4), 3),
        (Int(low=1, high=2**40, log=True), 2**40),
        (Categorical(choices=("a", None, 0.5)), 3),
        (Fixed(value="x"), 1),
    ],
)
def test_size_and_edges(distribution: Distribution, size: int | None) -> None:
    assert distribution.size == size
    assert all(distribution.contains(edge) for edge in distribution.edges)
    if size is not None:
        assert distribution.contains(distribution.at(size - 1))


@pytest.mark.parametrize(
    ("distribution", "value"),
    [
        (Float(low=0, high=1), True),
        (Float(low=0, high=1), 1.0000001),
        (Float(low=0, high=1), float("nan")),
        (Float(low=0, high=1), "0.5"),
        (Int(low=0, high=8, step=2), 3),
        (Int(low=0, high=8), 0.5),
        (Int(low=0, high=8), False),
        (Categorical(choices=(1, 2)), True),
        (Categorical(choices=(True, "x")), 1),
        (Fixed(value=0), False),
        (Fixed(value=None), 0),
    ],
)
def test_what_is_not_contained(distribution: Distribution, value: object) -> None:
    assert not distribution.contains(value)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"type": "float", "low": 1, "high": 1}, "low 1.0 must be below high 1.0; for a single value write the value"),
        ({"type": "float", "low": 0, "high": 1, "log": True}, "low 0.0 must be above 0 on a log scale"),
        ({"type": "float", "low": 0.1, "high": 1, "log": True, "step": 0.1}, "step and log exclude each other"),
        ({"type": "float", "low": 0, "high": 1, "step": 0.3}, "the last value would be 0.9"),
        ({"type": "float", "low": 0, "high": 1, "step": 1e-300}, "step 1e-300 is too small"),
        (
            {"type": "float", "low": 1e16, "high": 1.00001e16, "step": 0.1},
            "step 0.1 is too small: numbers near 1e\\+16",
        ),
        ({"type": "float", "low": -1e308, "high": 1}, "-1e\\+308 is beyond 1e\\+100; no setting is as large"),
        ({"type": "float", "low": 0, "high": 1e101}, "1e\\+101 is beyond 1e\\+100"),
        ({"type": "int", "low": 0, "high": 10, "step": 3}, "the last value would be 9"),
        (
            {"type": "categorical", "choices": [10**400, 1]},
            "10000000000000000000… is larger than any number that is counted with",
        ),
        ({"type": "fixed", "value": -(10**309)}, "is larger than any number"),
        ({"type": "categorical", "choices": [1, True]}, "choices repeat True"),
        ({"type": "categorical", "choices": [0.3, 0.1 + 0.2]}, "choices repeat 0.3 .*, and 0.1 \\+ 0.2 equals 0.3"),
    ],
)
def test_impossible_distributions_are_refused_with_the_reason(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(raw)


@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers(-(10**300), 10**300)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
)
def test_choices_keep_their_types_through_json(choices: list[Scalar]) -> None:
    kept = [choice for i, choice in enumerate(choices) if choice not in choices[:i]] or [0]
    distribution = Categorical(choices=tuple(kept))
    again = Categorical.model_validate_json(distribution.model_dump_json())
    assert again == distribution
    assert [type(choice) for choice in again.choices] == [type(choice) for choice in kept]
