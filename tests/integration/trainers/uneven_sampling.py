"""One of two processes that share weights by FSDP and sample unequally.

Prints the gradient's norm after passes of which the first process makes more than the second.
"""

import torch
from torch import nn
from torch.distributed.distributed_c10d import _get_default_group
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from trainers.process.launch import end_process
from trainers.process.parallel import PATIENCE, process_state
from trainers.training.sharding import whole_weights


def main() -> None:
    """Sample, then train a step."""
    rank = process_state().process_index
    backend = _get_default_group()._get_backend(torch.device("cpu"))
    assert backend.options._timeout == PATIENCE, "who samples more is waited for"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    for layer in model:
        fully_shard(layer, reshard_after_forward=True)
    fully_shard(model)
    inputs = torch.ones(2, 4)
    for _ in range(2):
        with whole_weights(model), torch.no_grad():
            for _ in range(3 - 2 * rank):
                model(inputs)
        assert isinstance(model[0].weight, DTensor), "the weights are in parts again"
        model(inputs).sum().backward()
    model(inputs)  # a layer gives its weights away after each pass, as before
    assert isinstance(model[0].weight, DTensor)
    norm = torch.nn.utils.get_total_norm(
        [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    )
    assert isinstance(norm, DTensor)
    print(norm.full_tensor().item())
    end_process(0)


if __name__ == "__main__":
    main()
