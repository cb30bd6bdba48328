"""Learning curves, what more samples would still find, and reward against length."""

import pytest

from sweep_service.report import Report, build
from sweep_service.report.figures import looks
from sweep_service.report.figures.learning import learning_figures
from tests.unit.sweep_service.report.figure_checks import by_id, check, hostile
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def report() -> Report:
    return build(sweep_inputs())


def _without(report: Report, *keys: str) -> Report:
    return report.model_copy(update={"curves": [found for found in report.curves if found.key not in keys]})


def test_all_figures(report: Report) -> None:
    figures = learning_figures(report, looks(report))
    assert list(by_id(figures)) == ["eval/avg_at_k", "reward/mean", "eval/pass_at_k", "pass_minus_avg", "reward_length"]
    check(figures)
    assert figures == learning_figures(report.model_copy(), looks(report))


def test_user_text_is_escaped(report: Report) -> None:
    changed = hostile(report)
    check(learning_figures(changed, looks(changed)))


def test_what_more_samples_would_find_is_the_difference_of_the_means(report: Report) -> None:
    curves = {found.key: {curve.config_id: curve for curve in found.configs} for found in report.curves}
    figure = by_id(learning_figures(report, looks(report)))["pass_minus_avg"]
    assert {trace["meta"]["config"] for trace in figure["data"]} == {row.id for row in report.configs}
    for trace in figure["data"]:
        best, average = (curves[key][trace["meta"]["config"]] for key in ("eval/pass_at_k", "eval/avg_at_k"))
        assert trace["x"] == best.steps
        for left, pass_at_k, avg_at_k in zip(trace["y"], best.mean, average.mean, strict=True):
            assert pass_at_k is not None
            assert avg_at_k is not None
            assert left == pytest.approx(pass_at_k - avg_at_k, abs=1e-5)


def test_only_common_steps_are_subtracted(report: Report) -> None:
    curves = [
        found.model_copy(
            update={
                "configs": [
                    curve.model_copy(
                        update={"steps": curve.steps[1:], "mean": [None, *curve.mean[2:]], "low": [], "high": []}
                    )
                    for curve in found.configs
                ]
            }
        )
        if found.key == "eval/pass_at_k"
        else found
        for found in report.curves
    ]
    changed = report.model_copy(update={"curves": curves})
    figure = by_id(learning_figures(changed, looks(changed)))["pass_minus_avg"]
    average = next(found for found in report.curves if found.key == "eval/avg_at_k")
    assert all(trace["x"] == average.configs[0].steps[2:] for trace in figure["data"])


def test_a_path_ends_in_an_arrow_and_has_few_points(report: Report) -> None:
    figure = by_id(learning_figures(report, looks(report)))["reward_length"]
    for trace in figure["data"]:
        assert 2 <= len(trace["x"]) <= 12
        assert trace["marker"]["symbol"][-1] == "arrow"
        assert trace["customdata"] == sorted(trace["customdata"])
        assert trace["customdata"][-1] == 240


def test_lengths_that_hardly_move_do_not_fill_the_axis(report: Report) -> None:
    figure = by_id(learning_figures(report, looks(report)))["reward_length"]
    low, high = figure["layout"]["xaxis"]["range"]
    lengths = [x for trace in figure["data"] for x in trace["x"]]
    assert low < min(lengths) <= max(lengths) < high
    assert (max(lengths) - min(lengths)) / (high - low) < 0.2


def test_absent_metrics_leave_figures_out(report: Report) -> None:
    for key, gone in (
        ("eval/pass_at_k", {"eval/pass_at_k", "pass_minus_avg"}),
        ("completion/length_mean", {"reward_length"}),
        ("reward/mean", {"reward/mean", "reward_length"}),
    ):
        left = by_id(learning_figures(_without(report, key), looks(report)))
        assert set(by_id(learning_figures(report, looks(report)))) - set(left) == gone
    assert learning_figures(report.model_copy(update={"curves": []}), looks(report)) == []
