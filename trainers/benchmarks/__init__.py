"""Evaluates a model on benchmarks: problems that are always the same, in `catalog`; `python -m trainers.benchmarks`.

catalog     what the benchmarks are          request     from the command line to evaluations
problems    reads their JSONL                 run         samples, judges, resumes
upstream    makes it from published forms     sampler     the model
arithmetic  writes the one we ship            samples     the file of completions
add         brings it into the cache          result      scores and their standard errors
job         what the samples follow from
"""
