"""Words of other trainers and tuners for the settings and choices here: the one table of them.

Words are compared without case, spaces and punctuation, so that `clip_ratio_high`, `clipRatioHigh` and
`clip-ratio-high` are one word.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

_SETTINGS: Final[Mapping[str, str]] = {
    # of a training
    "optimizer.learning_rate": "lr, learning_rate, actor_lr, policy_lr, step_size, eta",
    "optimizer.max_grad_norm": "grad_clip, gradient_clipping, clip_grad, clip_grad_norm, grad_norm_clip",
    "optimizer.warmup_steps": "warmup, lr_warmup, lr_warmup_steps, num_warmup_steps, warmup_ratio",
    "optimizer.weight_decay": "wd, l2",
    "loss.name": "algorithm, algo, rl_algorithm, adv_estimator, loss_fn, loss_type, loss_mode, policy_loss",
    "loss.epsilon": "eps, clip, clip_range, clip_ratio, clip_eps, eps_clip, clip_epsilon, clip_param",
    "loss.epsilon_low": "cliprange_low, clip_ratio_low, eps_low, eps_clip_low, clip_low",
    "loss.epsilon_high": "cliprange_high, clip_ratio_high, eps_high, eps_clip_high, clip_high, clip_higher",
    "loss.dual_clip": "clip_ratio_c, dual_clip_c, dual_clip_ratio",
    "loss.target": "adv_ratio_target",
    "loss.erc": "entropy_ratio_clip, entropy_ratio_clipping",
    "aggregation.mode": "loss_agg_mode, loss_aggregation, reduction",
    "advantage.normalize_std": "scale_rewards, norm_adv_by_std, norm_adv_by_std_in_grpo, normalize_advantage",
    "advantage.entropy": "entropy_advantage, use_entropy_advantage, entropy_advantage_shaping, adv_shaping",
    "advantage.entropy.alpha": "entropy_advantage_alpha, entropy_adv_alpha",
    "advantage.entropy.kappa": "entropy_advantage_kappa, entropy_adv_kappa",
    "advantage.entropy_reward": "gtpo, grpo_s, entropy_weighted_reward, dynamic_entropy_weighting",
    "advantage.positive_weight": "positive_advantage_reweighting, pos_adv_reweight, positive_advantage_weight",
    "terms.entropy_bonus.coefficient": "entropy_coef, entropy_coeff, ent_coef, entropy_weight",
    "terms.kl.coefficient": "kl, kl_coef, kl_coeff, kl_weight, kl_beta, kl_penalty, kl_loss_coef, init_kl_coef, "
    "use_kl_loss",
    "terms.kl.estimator": "kl_estimator, kl_loss_type, kl_type",
    "terms.positive_nll": "nll_coef, sft_coef, positive_sft",
    "critic.gae_lambda": "lam, lambda, gae_lam, lambd",
    "critic.gamma": "discount, discount_factor",
    "critic.value_coeff": "vf_coef, vf_coeff, value_coef, value_loss_coef, vf_loss_coeff",
    "critic.value_clip": "cliprange_value, value_clip_range, vf_clip, clip_range_vf, vf_clip_param",
    "critic.learning_rate": "critic_lr, value_lr",
    "critic.normalize": "whiten_advantages, norm_adv, normalize_advantages",
    "rollout.prompts_per_rollout": "bs, batch_size, train_batch_size, rollout_batch_size, num_prompts",
    "rollout.completions_per_prompt": "group_size, num_generations, n_samples_per_prompt, samples_per_prompt, "
    "rollout_n, num_return_sequences, completions_per_group, num_rollouts_per_prompt, n, g",
    "rollout.prompts_per_minibatch": "mini_batch_size, minibatch, ppo_mini_batch_size, num_minibatches, ppo_epochs, "
    "num_iterations, mu",
    "rollout.max_completion_tokens": "max_tokens, max_new_tokens, max_completion_length, max_response_length, "
    "response_length, generate_max_len, max_gen_len, max_output_tokens",
    "rollout.temperature": "temp, temperature, sampling_temperature, rollout_temperature",
    "rollout.engine.name=vllm": "vllm, use_vllm",
    "rollout.engine.memory_share": "gpu_memory_utilization, vllm_gpu_memory_utilization, mem_fraction_static",
    "rollout.engine.mode": "vllm_mode",
    "rollout.engine.tensor_parallel": "tp, tensor_parallel_size, tensor_model_parallel_size, vllm_tensor_parallel_size",
    "rollout.engine.max_length": "max_model_len, vllm_max_model_len, max_model_length",
    "rollout.engine.correction": "tis, truncated_importance_sampling, importance_sampling_correction",
    "rollout.engine.correction_cap": "tis_cap, tis_imp_ratio_cap",
    "rollout.overlong": "overlong_buffer, overlong_penalty, soft_overlong_punishment",
    "rollout.dynamic_sampling": "filter_groups, dynamic_filtering",
    "device_batch": "micro_batch_size, per_device_train_batch_size, per_device_batch_size, device_batch_size, "
    "ppo_micro_batch_size, ppo_micro_batch_size_per_gpu, gradient_accumulation_steps, grad_accum",
    "steps": "max_steps, num_steps, total_steps, train_steps, training_steps, total_training_steps, num_updates, "
    "num_train_steps, epochs, num_epochs, total_epochs, num_train_epochs, max_iterations",
    "task.data.ref": "dataset, dataset_name, train_dataset, train_data, data_path, train_file, train_files",
    "task.reward": "reward_fn, reward_function, reward_funcs, reward_model, verifier, grader",
    "task.max_prompt_tokens": "max_prompt_length, prompt_length, max_input_length",
    "model.model": "model_name, model_name_or_path, model_path, model_id, base_model, pretrained_model, pretrain",
    "model.weights_dtype": "torch_dtype, param_dtype, model_dtype",
    "model.lora.rank": "lora_r, lora_rank",
    "model.lora.alpha": "lora_alpha",
    "compute.autocast": "dtype, precision, mixed_precision, amp, fp16",
    "compute.autocast=bfloat16": "bf16, use_bf16",
    "compute.sharding": "fsdp, zero, zero_stage, deepspeed",
    "compute.gradient_checkpointing": "activation_checkpointing, enable_gradient_checkpointing",
    "evaluation.every_steps": "eval_steps, eval_every, eval_freq, eval_interval, test_freq",
    "evaluation.samples_per_problem": "eval_samples, num_eval_samples, eval_n, val_n",
    "checkpoint_every_rollouts": "save_steps, save_freq, save_every, checkpoint_every, checkpoint_freq",
    "kept_checkpoints": "save_total_limit, max_ckpt_to_keep, keep_checkpoints",
    # of a document around it
    "name": "title, run_name, experiment_name, sweep_name",
    "labels": "tags, metadata",
    "space": "parameters, params, search_space, param_space, hyperparameters, grid",
    "search.strategy": "method, sampler, search_alg, search_algorithm",
    "search.num_configs": "n_trials, num_trials, max_trials, trials, n_configs, budget_trials, num_samples",
    "seeds.tune": "seed, random_seed, num_seeds, n_seeds, tune_seeds",
    "seeds.confirm.seeds": "confirm_seeds, final_seeds",
    "seeds.confirm.top_k": "topk, top_n, num_confirm",
    "resources.gpus": "n_gpu, n_gpus, num_gpus, gpu, gpus_per_trial, n_gpus_per_node",
    "resources.cpus": "n_cpu, n_cpus, num_cpus, cpu, cpus_per_trial",
    "resources.processes": "nproc_per_node, num_processes, world_size, data_parallel_size, dp",
    "resources.max_parallel": "max_concurrent, max_concurrent_trials, concurrency, parallelism, n_jobs, num_workers",
    "budget.max_gpu_hours": "gpu_hours, max_gpu_time, gpu_budget",
    "budget.max_trial_hours": "max_hours, time_limit, timeout, max_time, max_trial_time, time_budget_s",
    "retries.max_crashes": "max_retries, max_failures, max_restarts, num_retries",
    "objective.metric": "metric, metric_name, target",
}
"""Words for each setting, by its dotted name; with `=` words that say a setting and its value."""

_CHOICES: Final[Mapping[str, str]] = {
    "grpo": "ppo, ppo_clip, vanilla, reinforce, dr_grpo",
    "dapo": "clip_higher, decoupled_clip",
    "grid": "grid_search, exhaustive",
    "random": "random_search",
    "tpe": "bayes, bayesian, bayesopt, bayesian_optimization, bo, optuna, hyperopt",
    "transformers": "hf, huggingface, hf_generate",
    "bfloat16": "bf16, half",
    "float32": "fp32, full",
    "fsdp": "fsdp2, full_shard",
    "eval/avg_at_k": "avg, avg@k, avg_at_k, mean@k, accuracy, acc",
    "eval/reward_mean": "reward, mean_reward, reward_mean",
    "eval/pass_at_k": "pass, pass@k, pass_at_k",
}
"""Words for each choice that a setting may have."""

_NOTES: Final[Mapping[str, str]] = {
    "terms.kl.coefficient": "pulls towards the initial model; loss.kl_coefficient of kl_cov is something else",
    "rollout.prompts_per_minibatch": "a rollout is used once, in prompts_per_rollout / prompts_per_minibatch updates",
    "steps": "counted in optimizer updates",
}
"""Differences between a setting and the word that leads to it."""

_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "dapo": (
        "erc, entropy_ratio_clip, entropy_ratio_clipping",
        "entropy-ratio clipping is a part of another loss, as in {name: dapo, erc: {mode: mask}}",
    ),
    "pretrained": ("*", "a model of the catalog is {name: pretrained, model: NAME}"),
    "word_problems": ("*", "a dataset of the catalog is {name: word_problems, data: NAME}"),
}
"""Words that are not choices (`*`: all others), by the choice with which one writes what they mean, and how."""


def setting_meant(word: str, names: Collection[str]) -> str | None:
    """Return the dotted name of the setting that a word of the field means, perhaps with `=` and a value.

    Args:
        word: last part of what was written.
        names: dotted names of the settings that there are; those of a training may lie below `training`.
    """
    meant = _TARGETS.get(_plain(word), "")
    return next((name for name in (meant, f"training.{meant}") if name.partition("=")[0] in names), None)


def note_on(name: str) -> str:
    """Return the remark to add where a setting is suggested; empty for none."""
    return _NOTES.get(name.removeprefix("training."), "")


@lru_cache(maxsize=1000)  # a mistake in the settings that all points of a space share is read at each of them
def choice_meant(word: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that is written almost like the word, or that other programs call so; else None."""
    plain = {_plain(choice): choice for choice in choices}
    if same := plain.get(_plain(word)):
        return same
    if synonym := next((choice for choice in choices if _plain(word) in _split(_CHOICES.get(choice, ""))), None):
        return synonym
    close = difflib.get_close_matches(_plain(word)[:_LONGEST], plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def written_otherwise(word: str, choices: Sequence[str]) -> str:
    """Return the way to write the meaning of a word that is no choice itself; empty if the word is not in the table."""
    for choice, (words, text) in _ELSEWHERE.items():
        if choice in choices and (words == "*" or _plain(word) in _split(words)):
            return text
    return ""


def written(name: str, value: str) -> str:
    """Write a setting as nested YAML in one line: `rollout: {engine: {name: vllm}}`."""
    *groups, last = name.split(".")
    text = f"{last}: {value}"
    for group in reversed(groups):
        text = f"{group}: {{{text}}}"
    return text


_LONGEST: Final = 60
"""Characters of a word for which a similar one is looked for; no choice is half as long."""


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9@]", "", word.lower())


def _split(words: str) -> Iterable[str]:
    return map(_plain, words.split(", "))


_TARGETS: Final = {word: name for name, words in _SETTINGS.items() for word in _split(words)}
