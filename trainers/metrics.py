"""Names, units and meanings of every metric a training run emits. Imports no torch.

A value that does not exist, such as the entropy of a region without tokens, is null, never 0.
"""

from typing import Final, NamedTuple


class Metric(NamedTuple):
    """A row of the tables below."""

    unit: str
    meaning: str


_TOKENS = "share of tokens"

STEP_METRICS: Final[dict[str, Metric]] = {
    # of the minibatch of this optimizer update; ratios are taken before the update
    "loss": Metric("1", "policy loss that was differentiated"),
    "learning_rate": Metric("1", "of this update"),
    "grad_norm": Metric("1", "before clipping to optimizer.max_grad_norm"),
    "entropy": Metric("nats", "mean policy entropy per token, at the sampling temperature"),
    "entropy/na_lp": Metric("nats", "entropy where A < 0 and ratio < 1 - epsilon_low (weighed by beta1)"),
    "entropy/pa_lp": Metric("nats", "entropy where A > 0 and ratio > 1 + epsilon_high (weighed by beta2)"),
    "entropy/pa_low": Metric("nats", "entropy where A > 0 and ratio < 1 - epsilon_low"),
    "entropy/na_high": Metric("nats", "entropy where A < 0 and ratio > 1 + epsilon_high"),
    "share/na_lp": Metric(_TOKENS, "A < 0 and ratio < 1 - epsilon_low"),
    "share/pa_lp": Metric(_TOKENS, "A > 0 and ratio > 1 + epsilon_high"),
    "share/pa_low": Metric(_TOKENS, "A > 0 and ratio < 1 - epsilon_low"),
    "share/na_high": Metric(_TOKENS, "A < 0 and ratio > 1 + epsilon_high"),
    "clip_fraction/low": Metric(_TOKENS, "ratio < 1 - epsilon_low, whatever the advantage"),
    "clip_fraction/high": Metric(_TOKENS, "ratio > 1 + epsilon_high, whatever the advantage"),
    "ppo_kl": Metric("nats", "mean of old minus new log-probability (k1 estimate of KL(old || new))"),
    "ratio/mean": Metric("1", "mean probability ratio new / old"),
    "ratio/max": Metric("1", "largest probability ratio new / old"),
    "tokens/step": Metric("tokens", "completion tokens in this update"),
    "tokens/total": Metric("tokens", "completion tokens in all updates so far, also of the run resumed from"),
    # of the rollout, the same on each of its updates
    "reward/mean": Metric("1", "mean reward of the rollout's completions"),
    "reward/std": Metric("1", "standard deviation of these rewards"),
    "group/zero_spread_share": Metric("share of groups", "groups whose rewards are all equal: no gradient"),
    "completion/length_mean": Metric("tokens", "mean completion length, end token included"),
    "completion/truncated_share": Metric("share of completions", "completions cut at rollout.max_completion_tokens"),
    # wall clock
    "time/generation_s": Metric("s", "sampling, rewards and old log-probabilities; 0 on updates that reuse a rollout"),
    "time/update_s": Metric("s", "forward, backward and optimizer"),
    "time/step_s": Metric("s", "both"),
}

EVALUATION_METRICS: Final[dict[str, Metric]] = {
    # over the judged samples: those on which the judge itself failed are missing, not wrong
    "eval/avg_at_k": Metric("1", "mean reward over evaluation.samples_per_problem samples, mean over problems"),
    "eval/avg_at_k_se": Metric("1", "standard error of avg_at_k from sampling, the problems being fixed"),
    "eval/avg_at_k_problem_se": Metric("1", "standard error of avg_at_k for other problems of the same kind"),
    "eval/correct_share": Metric("share of completions", "right completions, mean over problems"),
    "eval/pass_at_k": Metric(
        "1", "chance that one of evaluation.pass_k samples is right, unbiased, mean over problems"
    ),
    "eval/pass_at_k_se": Metric(
        "1", "standard error of pass_at_k from sampling; needs twice evaluation.pass_k samples of each problem"
    ),
    "eval/distinct_answers": Metric("answers", "different answers among a problem's samples, mean over problems"),
    # over all samples
    "eval/length_mean": Metric("tokens", "mean completion length, end token included"),
    "eval/truncated_share": Metric("share of completions", "completions cut at rollout.max_completion_tokens"),
    "eval/failed_share": Metric("share of completions", "completions on which the judge itself failed"),
    "eval/problems": Metric("problems", "validation problems, none of them trained on"),
}

SUMMARY_METRICS: Final[dict[str, Metric]] = {
    **EVALUATION_METRICS,
    "eval/avg_at_k_last3": Metric("1", "avg_at_k averaged over the last three evaluations"),
    "tokens/total": STEP_METRICS["tokens/total"],
    "time/train_s": Metric("s", "from the first event of this process to the last"),
}
