"""The benchmarks known by name: how many problems, which public file they are, how they are sampled. Imports no torch.

Samples and lengths are those of the CE-GPPO paper (arXiv:2509.20712, section 5: avg@32, MATH500 avg@4; AIME up to 32k
tokens, other mathematics 16k); temperature and top-p are in its recipes only. GSM8K is not in the paper.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

REASONING_SUFFIX: Final = "\nPlease reason step by step, and put your final answer within \\boxed{}."
"""Instruction after each problem by the publishers of the paper's initial models (deepseek-ai, DeepSeek-R1-Distill)."""


class UpstreamSource(NamedTuple):
    """A file of a public GitHub repository at one commit."""

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.commit}:{self.path}"


class Benchmark(NamedTuple):
    """Problems that are always the same, and the settings with which they are usually reported."""

    title: str
    problems: int | None
    """Number of problems; another number is refused. None allows any."""
    samples: int
    """Number of completions of each problem, the k of avg@k."""
    max_tokens: int
    """Largest number of tokens in a completion; a longer one is cut and judged as it is."""
    source: UpstreamSource | None
    """Place where the problems were published; None if they are in this package, or your own."""
    temperature: float = 0.6
    top_p: float = 0.95
    prompt_suffix: str = REASONING_SUFFIX
    """Text after every problem."""
    chat: bool = True
    """True if prompts go through the chat template of a tokenizer that has one."""
    reward: str = "math"
    """Name in trainers.rewards of what judges completions."""


_CE_GPPO: Final = ("Kwai-Klear/CE-GPPO", "10558fe017ac776773fd7f29753d8353a11c0813")
_KLEAR: Final = ("Kwai-Klear/KlearReasoner", "3422f6d36a8251cb1c86a7b943c7c815850864fd")
_PRM800K: Final = ("openai/prm800k", "00811d6de065642a6967b9017d4cee59550c0ef4")
_QWEN_MATH: Final = ("QwenLM/Qwen2.5-Math", "a45202bd16f1ec06f433442dc1152d0074773465")
_GSM8K: Final = ("openai/grade-school-math", "3101c7d5072418e28b9008a6636bde82a006892c")

KNOWN_BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    "aime24": Benchmark(
        "AIME 2024, I and II", 30, 32, 32768, UpstreamSource(*_CE_GPPO, "benchmarks/aime960_math_verify.json")
    ),
    "aime25": Benchmark(
        "AIME 2025, I and II", 30, 32, 32768, UpstreamSource(*_CE_GPPO, "benchmarks/aime960_math_verify25.json")
    ),
    "hmmt25": Benchmark("HMMT, February 2025", 30, 32, 16384, UpstreamSource(*_KLEAR, "benchmarks/HMMT-202502.jsonl")),
    "math500": Benchmark(
        "MATH, 500 test problems", 500, 4, 16384, UpstreamSource(*_PRM800K, "prm800k/math_splits/test.jsonl")
    ),
    "amc23": Benchmark(
        "AMC 12, 2023, A and B", 40, 32, 16384, UpstreamSource(*_QWEN_MATH, "evaluation/data/amc23/test.jsonl")
    ),
    "gsm8k": Benchmark("GSM8K, test", 1319, 4, 16384, UpstreamSource(*_GSM8K, "grade_school_math/data/test.jsonl")),
    "arithmetic": Benchmark(
        "Sums, products and remainders of small numbers",
        40,
        8,
        256,
        None,
        prompt_suffix="\nPut the answer within \\boxed{}.\n",
    ),
    "expressions": Benchmark(
        "Sums and differences of a given value",
        24,
        8,
        16,
        None,
        temperature=1.0,
        top_p=1.0,
        prompt_suffix="",
        chat=False,
        reward="expression",
    ),
}

_OWN: Final = Benchmark(title="", problems=None, samples=4, max_tokens=16384, source=None)


def usual(name: str) -> Benchmark:
    """Return the settings of a benchmark; an unknown one has those of mathematics other than AIME."""
    return KNOWN_BENCHMARKS.get(name, _OWN)
