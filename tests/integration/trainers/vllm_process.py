"""One of two processes that train with rollouts by a stand-in for vLLM, with a copy each and with one together.

Arguments: the model's folder, and one for what was sampled and measured.
"""

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainers.standin_vllm import LLM, install
from tests.integration.trainers.test_vllm import Run, config_of


def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)  # TRL 1.16 uses names that transformers changed
    model, output, rank = Path(sys.argv[1]), Path(sys.argv[2]), os.environ["RANK"]
    drawn: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        generate = LLM.generate

        def recorded(self: LLM, *args: Any, **kwargs: Any) -> Any:
            outputs = generate(self, *args, **kwargs)
            ids = [request.outputs[0].token_ids for request in outputs]
            drawn.append(f"{len(ids)} {hashlib.sha256(json.dumps(ids).encode()).hexdigest()}")
            return outputs

        patch.setattr(LLM, "generate", recorded)
        for tensor_parallel in (1, 2):
            drawn.clear()
            config = config_of(
                rollout__engine__tensor_parallel=tensor_parallel,
                evaluation__samples_per_problem=3,  # of 3 problems: they cannot be halved
                steps=4,
            )
            name = f"{tensor_parallel}-{rank}"
            run = Run(config, model, output / name)
            (output / f"{name}.json").write_text(json.dumps({"drawn": drawn, "metrics": run.metrics()}))


if __name__ == "__main__":
    main()
