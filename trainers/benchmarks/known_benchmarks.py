"""The benchmarks known by name: how many problems, which public file they are, how they are sampled. Imports no torch.

Samples and lengths are those of the CE-GPPO paper (arXiv:2509.20712, section 5: avg@32, MATH500 avg@4; AIME up to 32k
tokens, other mathematics 16k); temperature and top-p are in its recipes only. GSM8K is not in the paper.
"""

from types import MappingProxyType
from typing import Final

from pydantic import Field

from trainers.config import Frozen

REASONING_SUFFIX: Final = "\nPlease reason step by step, and put your final answer within \\boxed{}."
"""What the models the paper starts from were published to be asked with (deepseek-ai, DeepSeek-R1-Distill)."""


class UpstreamSource(Frozen):
    """A file of a public GitHub repository at one commit."""

    repository: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    path: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.commit}:{self.path}"


class Benchmark(Frozen):
    """Problems that are always the same, and the settings they are usually reported with."""

    title: str
    problems: int | None = Field(ge=1, description="How many there are; another number is refused. null: any.")
    samples: int = Field(ge=1, description="Completions of each problem, the k of avg@k.")
    max_tokens: int = Field(ge=1, description="Longest completion; a longer one is cut and judged as it is.")
    source: UpstreamSource | None = Field(
        description="Where the problems were published; none: in this package, or your own."
    )
    temperature: float = Field(default=0.6, gt=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    prompt_suffix: str = Field(default=REASONING_SUFFIX, description="Text after every problem.")


_CE_GPPO: Final = "10558fe017ac776773fd7f29753d8353a11c0813"

CATALOG: Final = MappingProxyType(
    {
        "aime24": Benchmark(
            title="AIME 2024, I and II",
            problems=30,
            samples=32,
            max_tokens=32768,
            source=UpstreamSource(
                repository="Kwai-Klear/CE-GPPO", commit=_CE_GPPO, path="benchmarks/aime960_math_verify.json"
            ),
        ),
        "aime25": Benchmark(
            title="AIME 2025, I and II",
            problems=30,
            samples=32,
            max_tokens=32768,
            source=UpstreamSource(
                repository="Kwai-Klear/CE-GPPO", commit=_CE_GPPO, path="benchmarks/aime960_math_verify25.json"
            ),
        ),
        "hmmt25": Benchmark(
            title="HMMT, February 2025",
            problems=30,
            samples=32,
            max_tokens=16384,
            source=UpstreamSource(
                repository="Kwai-Klear/KlearReasoner",
                commit="3422f6d36a8251cb1c86a7b943c7c815850864fd",
                path="benchmarks/HMMT-202502.jsonl",
            ),
        ),
        "math500": Benchmark(
            title="MATH, 500 test problems",
            problems=500,
            samples=4,
            max_tokens=16384,
            source=UpstreamSource(
                repository="openai/prm800k",
                commit="00811d6de065642a6967b9017d4cee59550c0ef4",
                path="prm800k/math_splits/test.jsonl",
            ),
        ),
        "amc23": Benchmark(
            title="AMC 12, 2023, A and B",
            problems=40,
            samples=32,
            max_tokens=16384,
            source=UpstreamSource(
                repository="QwenLM/Qwen2.5-Math",
                commit="a45202bd16f1ec06f433442dc1152d0074773465",
                path="evaluation/data/amc23/test.jsonl",
            ),
        ),
        "gsm8k": Benchmark(
            title="GSM8K, test",
            problems=1319,
            samples=4,
            max_tokens=16384,
            source=UpstreamSource(
                repository="openai/grade-school-math",
                commit="3101c7d5072418e28b9008a6636bde82a006892c",
                path="grade_school_math/data/test.jsonl",
            ),
        ),
        "arithmetic": Benchmark(
            title="Sums, products and remainders of small numbers",
            problems=40,
            samples=8,
            max_tokens=256,
            source=None,
            prompt_suffix="\nPut the answer within \\boxed{}.\n",
        ),
    }
)

_OWN: Final = Benchmark(title="", problems=None, samples=4, max_tokens=16384, source=None)


def usual(name: str) -> Benchmark:
    """What is known of a benchmark; one that is not in the catalog has the settings of mathematics other than AIME."""
    return CATALOG.get(name, _OWN)
