"""Names, units and meanings of every metric a training run emits; `docs/metrics.md` is made of it. Imports no torch.

A value that does not exist, such as the entropy of a region without tokens, is null, never 0.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from trainers.evaluation.problem_parts import PART_METRICS, PARTS, part_metric
from trainers.losses import REGIONS


class Metric(NamedTuple):
    """A row of the tables below."""

    unit: str
    meaning: str


_TOKENS: Final = "share of tokens"
_GROUPS: Final = "share of groups"
_COMPLETIONS: Final = "share of completions"
_WEIGHT: Final = "share of weight"

_PARTS: Final = {**REGIONS, "inside": "none of the four regions"}


def _entropy(tokens: str) -> Metric:
    return Metric("nats", f"at rollout.temperature; {tokens}")


RATIO_EDGES: Final[tuple[float, ...]] = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
"""Edges between the bins of the ratio's histogram; a ratio on an edge belongs to the higher bin."""

RATIO_BINS: Final[dict[str, str]] = {
    f"below_{RATIO_EDGES[0]:g}": f"below {RATIO_EDGES[0]:g}",
    **{f"{low:g}_to_{high:g}": f"of {low:g} or more and below {high:g}" for low, high in pairwise(RATIO_EDGES)},
    f"above_{RATIO_EDGES[-1]:g}": f"of {RATIO_EDGES[-1]:g} or more",
}
"""Bounds of each bin, by its name in metrics."""

STEP_SECTIONS: Final[dict[str, dict[str, Metric]]] = {
    "Loss and optimizer": {
        "loss": Metric(
            "1",
            "what was differentiated: loss/policy + penalty - coefficient x entropy + coefficient x KL + weight x NLL "
            "+ value_coeff x value loss",
        ),
        "loss/policy": Metric("1", "policy loss, aggregated"),
        "loss/penalty": Metric("1", "the loss's penalty that is no mean over tokens (erc), coefficient included"),
        "loss/entropy": _entropy(
            "over the tokens and with the aggregation of the loss, without coefficient; null while that is 0"
        ),
        "loss/positive_nll": Metric(
            "nats", "negative log-likelihood of right completions, aggregated like the loss, without its weight"
        ),
        "loss/kl": Metric(
            "nats",
            "divergence from the initial model as terms.kl.estimator estimates it, aggregated like the loss, without "
            "coefficient; null where that is 0",
        ),
        "loss/value": Metric(
            "1", "loss of the critic's values, aggregated like the loss, without value_coeff; null without a critic"
        ),
        "entropy_bonus/coefficient": Metric("1", "of the entropy bonus in this update"),
        "schedule/beta1": Metric("1", "the loss's beta1 in this update; null for losses without"),
        "schedule/beta2": Metric("1", "the loss's beta2 in this update; null for losses without"),
        "schedule/positive_weight": Metric("1", "on the policy loss of tokens with A > 0 in this update; 1: unchanged"),
        "learning_rate": Metric("1", "of this update"),
        "grad_norm": Metric("1", "before clipping to optimizer.max_grad_norm"),
        "tokens/step": Metric("tokens", "completion tokens in this update"),
        "tokens/total": Metric("tokens", "completion tokens in all updates so far, also of the run resumed from"),
    },
    "Entropy": {
        "entropy": _entropy("mean over all completion tokens"),
        "entropy/p10": _entropy("10 % quantile over all completion tokens, linear between order statistics"),
        "entropy/p50": _entropy("50 % quantile over all completion tokens"),
        "entropy/p90": _entropy("90 % quantile over all completion tokens"),
        "entropy/p99": _entropy("99 % quantile over all completion tokens"),
        "entropy/top20_mean": _entropy("mean over the 20 % of completion tokens with the highest entropy"),
        **{f"entropy/{name}": _entropy(f"mean over tokens with {where}") for name, where in REGIONS.items()},
        "entropy/correct": _entropy("mean over the tokens of right completions"),
        "entropy/incorrect": _entropy("mean over the tokens of wrong completions"),
        "entropy/old": _entropy("mean over all completion tokens, of the policy that sampled them"),
    },
    "Change of entropy": {
        "entropy_change/predicted": Metric(
            "nats",
            "-learning_rate x covariance over all tokens of log pi and pi_old x A x weight (arXiv:2509.20712 eq. 7)",
        ),
        **{
            f"entropy_change/predicted_{name}": Metric("nats", f"its part from tokens with {where}")
            for name, where in _PARTS.items()
        },
        "entropy_change/measured": Metric(
            "nats", "change of probe/entropy since it was measured last; null on steps without a measurement"
        ),
    },
    "Regions": {
        **{f"share/{name}": Metric(_TOKENS, where) for name, where in REGIONS.items()},
        "share/selected": Metric(
            _TOKENS, "singled out by the loss: dropped by erc and clip_cov, penalised by kl_cov; null for other losses"
        ),
        **{
            f"weight_share/{name}": Metric(_WEIGHT, f"of the summed |A x weight|, the part with {where}")
            for name, where in _PARTS.items()
        },
        "weight_share/potential": Metric(
            _WEIGHT, "what na_lp and pa_lp together would have with betas of 1; decides BETAS_NEARLY_INERT"
        ),
        "weight/potential": Metric("1", "mean |A x weight| over tokens with betas of 1"),
        **{
            f"old_probability/{name}": Metric(
                "1", f"mean probability under the policy that sampled, of tokens with {where}"
            )
            for name, where in _PARTS.items()
        },
    },
    "Ratio and divergence": {
        "clip_fraction/low": Metric(_TOKENS, "ratio < 1 - epsilon_low, whatever the advantage"),
        "clip_fraction/high": Metric(_TOKENS, "ratio > 1 + epsilon_high, whatever the advantage"),
        "clip_fraction/dropped": Metric(_TOKENS, "A is not 0, yet the policy loss passes no gradient"),
        "ratio/mean": Metric("1", "mean probability ratio new / old; for gspo the sequence's ratio, at each token"),
        "ratio/max": Metric("1", "largest such ratio"),
        "ratio/min": Metric("1", "smallest such ratio"),
        **{f"ratio_share/{name}": Metric(_TOKENS, f"such ratio {bounds}") for name, bounds in RATIO_BINS.items()},
        "ppo_kl": Metric(
            "nats", "mean of old minus new log-probability (k1 estimate of KL(old || new)); may be negative"
        ),
        "kl/k3": Metric(
            "nats", "mean of r - 1 - log r, r the token's ratio (k3 estimate of KL(old || new)); never negative"
        ),
        "kl/reference": Metric(
            "nats",
            "mean of present minus initial log-probability over completion tokens (k1 estimate of KL(present || "
            "initial), of tokens that the rollout's policy sampled); null where terms.kl.coefficient is 0",
        ),
        "kl/reference_k3": Metric(
            "nats", "mean of r - 1 - log r, r = initial / present probability (k3 estimate of the same); never negative"
        ),
    },
    "Rollout": {
        "reward/mean": Metric("1", "mean reward, as judged: without the penalty on long completions"),
        "reward/std": Metric("1", "standard deviation of these rewards"),
        "reward/correct_share": Metric(_COMPLETIONS, "right ones, of those that were judged"),
        "group/zero_spread_share": Metric(
            _GROUPS,
            "groups whose rewards, as judged, are all equal: no gradient, unless rollout.overlong makes them differ",
        ),
        "group/all_right_share": Metric(_GROUPS, "groups whose judged completions are all right"),
        "group/all_wrong_share": Metric(_GROUPS, "groups whose judged completions are all wrong"),
        "group/distinct_answers": Metric("answers", "different answers found in a group, mean over groups"),
        "sampling/groups_generated": Metric("1", "groups sampled per group trained on; above 1 with dynamic sampling"),
        "completion/length_mean": Metric("tokens", "mean completion length, end token included"),
        "completion/length_ended": Metric("tokens", "mean length of completions that were not cut"),
        "completion/length_correct": Metric("tokens", "mean length of right completions"),
        "completion/length_incorrect": Metric("tokens", "mean length of wrong completions"),
        "completion/truncated_share": Metric(_COMPLETIONS, "completions cut at rollout.max_completion_tokens"),
        "grader/timeout_share": Metric(_COMPLETIONS, "completions on which the judge gave up at its deadline"),
        "grader/failed_share": Metric(_COMPLETIONS, "completions on which the judge itself failed: no reward"),
    },
    "Critic": {
        "critic/value_mean": Metric(
            "1",
            "mean over tokens of the rollout of the values it was scored with; null, as all of these, without a critic",
        ),
        "critic/return_mean": Metric("1", "mean over the same tokens of the values' targets"),
        "critic/explained_variance": Metric(
            "1", "1 - variance of (target - value) / variance of the target; 1: perfect, 0 or less: no use"
        ),
    },
    "Engine": {
        "engine/logprob_gap_mean": Metric(
            "nats",
            "mean absolute difference of the trainer's and vLLM's log-probability of a sampled token; null, as all of "
            "these, where Transformers samples",
        ),
        "engine/logprob_gap_max": Metric("nats", "largest such difference in the rollout"),
        "engine/weight_mean": Metric(
            "1", "mean weight of a token by the correction (trainer's over vLLM's probability, capped); null without"
        ),
        "engine/weight_cut_share": Metric(_TOKENS, "weight cut at rollout.engine.correction_cap; null without"),
    },
    "Frozen completions": {
        "probe/entropy": _entropy("mean over all tokens of the frozen completions"),
        "probe/kl_from_initial": Metric(
            "nats", "mean of initial minus present log-probability (k1 estimate of KL(initial || present))"
        ),
        "probe/kl_from_initial_k3": Metric(
            "nats", "mean of r - 1 - log r, r = present / initial probability (k3 estimate of the same)"
        ),
    },
    "Clock and memory": {
        "time/generation_s": Metric(
            "s", "sampling, rewards and old log-probabilities; 0 on updates that reuse a rollout"
        ),
        "time/update_s": Metric("s", "forward, backward and optimizer"),
        "time/step_s": Metric("s", "both, and measuring the frozen completions after a rollout's last update"),
        "tokens/per_second": Metric("tokens/s", "tokens/step divided by time/step_s"),
        "memory/peak_mib": Metric(
            "MiB", "largest memory so far: PyTorch's on CUDA, the process's resident memory else"
        ),
    },
}
"""The metrics of an optimizer update, each under the heading it has in the documentation."""

STEP_METRICS: Final[dict[str, Metric]] = {
    name: metric for section in STEP_SECTIONS.values() for name, metric in section.items()
}

_PURPOSES: Final = {
    "tune_part": "on which a sweep chooses configs",
    "confirm_part": "on which its confirm stage measures",
}

EVALUATION_METRICS: Final[dict[str, Metric]] = {
    # over the judged samples: those on which the judge itself failed are missing, not wrong
    "eval/avg_at_k": Metric(
        "1", "share of right ones among evaluation.samples_per_problem samples, mean over problems"
    ),
    "eval/avg_at_k_se": Metric("1", "standard error of avg_at_k from sampling, the problems being fixed"),
    "eval/avg_at_k_problem_se": Metric("1", "standard error of avg_at_k for other problems of the same kind"),
    "eval/reward_mean": Metric("reward", "mean reward of the same samples, mean over problems"),
    "eval/reward_mean_se": Metric("reward", "standard error of reward_mean from sampling, the problems being fixed"),
    "eval/pass_at_k": Metric(
        "1", "chance that one of evaluation.pass_k samples is right, unbiased, mean over problems"
    ),
    "eval/pass_at_k_se": Metric(
        "1", "standard error of pass_at_k from sampling; needs twice evaluation.pass_k samples of each problem"
    ),
    "eval/distinct_answers": Metric("answers", "different answers among a problem's samples, mean over problems"),
    # over half of the problems: null where there are too few
    **{
        part_metric(name, part): Metric(
            "reward" if "reward" in name else "1", f"{name.removeprefix('eval/')} over the problems {_PURPOSES[part]}"
        )
        for part in PARTS
        for name in PART_METRICS
    },
    # over all samples
    "eval/length_mean": Metric("tokens", "mean completion length, end token included"),
    "eval/truncated_share": Metric(
        "share of completions",
        "completions cut at evaluation.max_completion_tokens, or, where it is null, at rollout.max_completion_tokens",
    ),
    "eval/failed_share": Metric("share of completions", "completions on which the judge itself failed"),
    "eval/problems": Metric("problems", "validation problems, none of them trained on"),
}

SUMMARY_METRICS: Final[dict[str, Metric]] = {
    **EVALUATION_METRICS,
    "eval/avg_at_k_last3": Metric("1", "avg_at_k averaged over the last three evaluations"),
    "tokens/total": STEP_METRICS["tokens/total"],
    "time/train_s": Metric("s", "from the first event of this process to the last"),
}

PARTS_OF_REWARD: Final[dict[str, Metric]] = {
    "reward/of_": Metric("reward", "what one of several rewards said, before its weight; mean over the rollout"),
    "eval/reward_of_": Metric(
        "reward", "what one of several rewards said, before its weight; mean over a problem's samples, then problems"
    ),
}
"""Metrics that a run with several rewards has once for each, by the beginnings of their names; the rewards' follow."""


def find_metric(name: str) -> Metric | None:
    """Return the unit and the meaning of a metric of updates or evaluations; None if there is no such metric."""
    of_part = next((one for begin, one in PARTS_OF_REWARD.items() if name.startswith(begin)), None)
    return STEP_METRICS.get(name) or EVALUATION_METRICS.get(name) or of_part
