"""`python -m trainers`, where accelerate shards models on CPUs too: it leaves this to GPUs, torch does not.

Processes take their rank from the environment, as `trainers.process.launch` sets it.
"""

import sys
from typing import Any

from accelerate import DistributedType, PartialState

from trainers.command_line import main

_initialize = PartialState.__init__


def _as_if_on_gpus(self: PartialState, *args: Any, **kwargs: Any) -> None:
    _initialize(self, *args, **kwargs)
    if self.distributed_type is DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU


if __name__ == "__main__":
    PartialState.__init__ = _as_if_on_gpus
    sys.exit(main())
