"""Evaluates a model on benchmarks, problems that are always the same: `python -m trainers.benchmarks`.

known_benchmarks  the benchmarks known by name    request       turns the command line into evaluations
problems          reads their JSONL               run           samples, judges, resumes
upstream          makes it from published forms   model_reader  holds the tokenizer
add_benchmark     brings it into the cache        sampler       holds the model
job               determines the samples          vllm_sampler  holds the model in vLLM
measure_request   says what a sweep wants         samples       holds the file of completions
measure           does it, and keeps a record     result        computes scores and their standard errors
"""
