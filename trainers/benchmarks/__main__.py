"""Command line: evaluate a checkpoint on benchmarks.

python -m trainers.benchmarks --model FOLDER --benchmark NAME[,NAME] --output DIR
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from trainers.benchmarks.add_benchmark import add_file
from trainers.benchmarks.job import BenchmarkSampling, job_of, usual_sampling
from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS
from trainers.benchmarks.problems import ProblemSet, read_problems
from trainers.benchmarks.result import summary
from trainers.benchmarks.run import BenchmarkEvaluation, prepare, run
from trainers.benchmarks.sampler import ModelReader, ModelSampler, has_chat_template
from trainers.catalog.entries import BenchmarkEntry, entry_folder
from trainers.catalog.new_entry import Reporter
from trainers.errors import ConfigError, Faults, StoppedError
from trainers.policy.model_folder import model_digest
from trainers.process.environment import ENVIRONMENT, EXIT_CODES, UMASK, default_cache
from trainers.process.lifeline import StopSignal
from trainers.rewards import REWARDS

_EPILOG: Final = """\
benchmarks: problems, samples of each, most tokens of a completion
{catalog}

  arithmetic and expressions come with this package. Others are added to the
  cache by `sweeps benchmarks add NAME`, or from a file by
  `python -m trainers.benchmarks convert NAME FILE`.

what is written, below DIR/NAME:
  job.json       what the samples follow from; the same command goes on,
                 another one is refused
  samples.jsonl  one JSON object a completion, with its judgement
  result.json    avg@k, pass@k, their standard errors, lengths, failures;
                 written when all samples are there

exit codes:
  0 finished   1 unexpected error   2 bad input
  4 stopped by a signal; what is sampled is kept

examples:
  python -m trainers.benchmarks --model runs/ppo/step-240 \\
    --benchmark arithmetic --output evaluations/ppo-240
  python -m trainers.benchmarks --model models/my-7b \\
    --benchmark aime24,aime25 --output evaluations/my-7b --batch 64
  python -m trainers.benchmarks convert gsm8k grade_school_math/data/test.jsonl
"""

_PROMPT_HELP: Final = "auto: through the tokenizer's chat template if it has one and the benchmark is not plain"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    os.umask(UMASK)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _convert(words[1:]) if words[:1] == ["convert"] else _evaluate(words)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CODES["BAD_CONFIG"]
    except StoppedError as error:
        sys.stderr.write(f"{error}; the same command goes on from here\n")
        return EXIT_CODES["STOPPED"]
    except Exception:  # noqa: BLE001 the process's boundary
        traceback.print_exc()
        return EXIT_CODES["FAILED"]


def _evaluate(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    stop = StopSignal()
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    batch, evaluations = _requested(options)
    load = partial(ModelSampler, options.model, evaluations[0].job.sampling.dtype, lambda: stop.requested)
    with ExitStack() as stack:
        prepared = prepare(evaluations, partial(ModelReader, options.model), stack)
        for evaluation, content in run(prepared, load, batch, lambda: stop.requested):
            sys.stdout.write(f"{summary(evaluation.job.benchmark, content['scores'])}\n")
            sys.stdout.flush()
    return EXIT_CODES["SUCCEEDED"]


def _requested(options: argparse.Namespace) -> tuple[int, list[BenchmarkEvaluation]]:
    """Return batch size and evaluations. Raises: ConfigError, with every reason why they cannot be made."""
    names = list(dict.fromkeys(str(options.benchmark).split(",")))
    faults, digest = Faults(), ""
    problems, samplings = dict[str, ProblemSet](), dict[str, BenchmarkSampling]()
    with faults.noted():
        digest = model_digest(options.model)
    with faults.noted():
        if not options.batch.isdecimal() or int(options.batch) < 1:
            raise ConfigError(f"--batch: expected a whole number from 1 (got {options.batch!r})")
    for name in names:
        with faults.noted():
            problems[name] = read_problems(name, options.cache)
    for name in names:
        with faults.noted():
            samplings[name] = _sampling(name, options)
    faults.raise_all()
    jobs = {name: job_of(name, problems[name], digest, samplings[name]) for name in names}
    evaluations = [BenchmarkEvaluation(jobs[name], problems[name].problems, options.output / name) for name in names]
    return int(options.batch), evaluations


def _sampling(name: str, options: argparse.Namespace) -> BenchmarkSampling:
    """Return the benchmark's usual sampling, changed as the command line says."""
    options_by_field = {
        field: value for field in BenchmarkSampling.model_fields if (value := getattr(options, field, None)) is not None
    }
    faults = list[str]()
    if options.prompt == "chat" and not has_chat_template(options.model):
        faults.append(f"--prompt chat: the tokenizer in {options.model} has no chat template; use plain")
    if options.reward is not None and options.reward not in REWARDS.names():
        faults.append(f"--reward: there is no {options.reward!r}; known are {', '.join(REWARDS.names())}")
    settings = usual_sampling(name, options.model, chat={"chat": True, "plain": False}.get(options.prompt))
    try:
        sampling = BenchmarkSampling.model_validate({**settings, **options_by_field})
    except ValidationError as error:
        faults += [
            f"--{str(fault['loc'][0]).replace('_', '-')}: {fault['msg']} (got {fault['input']!r})"
            for fault in error.errors()
        ]
        raise ConfigError(*faults) from error
    if faults:
        raise ConfigError(*faults)
    return sampling


def _convert(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m trainers.benchmarks convert",
        description="Add a benchmark to the cache from a file, as published or your own; docs/benchmarks.md.",
    )
    parser.add_argument("name", help="one that is known, or a new name for your own")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL, a JSON list, CSV or Parquet")
    _add_cache(parser)
    options = parser.parse_args(words)
    entry = add_file(options.name, options.file, options.cache, Reporter())
    sys.stdout.write(f"{entry_folder(options.cache, BenchmarkEntry, entry.name)}: {entry.problems} problems\n")
    return EXIT_CODES["SUCCEEDED"]


def _parser() -> argparse.ArgumentParser:
    catalog = "\n".join(
        f"  {name:11} {usual.problems:4} x {usual.samples:2} {usual.max_tokens:6}  {usual.title}"
        for name, usual in KNOWN_BENCHMARKS.items()
    )
    parser = argparse.ArgumentParser(
        "python -m trainers.benchmarks",
        description="Sample a model's answers to benchmark problems, judge them, and give intervals.",
        epilog=_EPILOG.format(catalog=catalog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    required = parser.add_argument_group("what to evaluate")
    required.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="Hugging Face model, checkpoint step-N, or adapters"
    )
    required.add_argument(
        "--benchmark", required=True, metavar="NAME[,NAME]", help="one or more: of those below, or your own"
    )
    required.add_argument("--output", type=Path, required=True, metavar="DIR", help="gets a folder for each benchmark")
    sampling = parser.add_argument_group("sampling; what is not given is the benchmark's own")
    sampling.add_argument("--samples", metavar="K", help="completions of each problem, the k of avg@k")
    sampling.add_argument("--temperature", metavar="T", help="usually 0.6")
    sampling.add_argument("--top-p", metavar="P", help="usually 0.95")
    sampling.add_argument("--max-tokens", metavar="N", help="longest completion; what is cut is judged as it is")
    sampling.add_argument("--seed", default="0", metavar="N", help="0")
    sampling.add_argument("--prompt", choices=["auto", "chat", "plain"], default="auto", help=_PROMPT_HELP)
    sampling.add_argument("--prompt-suffix", metavar="TEXT", help="text after every problem")
    sampling.add_argument("--dtype", choices=["float32", "bfloat16"], help="bfloat16 on a GPU, float32 on a CPU")
    judging = parser.add_argument_group("judging")
    judging.add_argument(
        "--reward", metavar="NAME", help=f"usually math, else the benchmark's own; known: {', '.join(REWARDS.names())}"
    )
    machine = parser.add_argument_group("machine")
    machine.add_argument("--batch", default="32", metavar="N", help="completions sampled at a time (32); less memory")
    _add_cache(machine)
    return parser


def _add_cache(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    cache = default_cache()
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help=f"holds benchmarks/NAME ({cache})")


if __name__ == "__main__":
    sys.exit(main())
