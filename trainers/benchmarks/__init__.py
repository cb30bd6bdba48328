"""Evaluates a model on benchmarks, problems that are always the same: `python -m trainers.benchmarks`.

known_benchmarks  the benchmarks known by name    request   turns the command line into evaluations
problems          reads their JSONL               run       samples, judges, resumes
upstream          makes it from published forms   sampler   holds the model
add_benchmark     brings it into the cache        samples   holds the file of completions
job               determines the samples          result    computes scores and their standard errors
"""
