"""Evaluates a model on benchmarks, problems that are always the same: `python -m trainers.benchmarks`.

known_benchmarks  the benchmarks known by name    run           samples, judges, resumes
problems          reads their problems            sampler       holds the tokenizer and the model
add_benchmark     brings them into the cache      vllm_sampler  holds the model in vLLM
job               determines the samples          samples       holds the file of completions
measure_request   says what a sweep wants         result        computes scores and their standard errors
measure           does it, and keeps a record
"""
