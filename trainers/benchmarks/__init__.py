"""Evaluates a model on benchmarks, problems that are always the same: `python -m trainers.benchmarks`.

known_benchmarks  the benchmarks known by name    request       turns the command line into evaluations
problems          reads their problems            run           samples, judges, resumes
add_benchmark     brings them into the cache      sampler       holds the tokenizer and the model
job               determines the samples          vllm_sampler  holds the model in vLLM
measure_request   says what a sweep wants         samples       holds the file of completions
measure           does it, and keeps a record     result        computes scores and their standard errors
"""
