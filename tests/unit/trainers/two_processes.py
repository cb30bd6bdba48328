"""The only process of a run, and two as two threads, which join tensors as Accelerate does."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import torch
from torch import Tensor

from tests.waiting import PATIENT_S

ONE_PROCESS: Final[Any] = SimpleNamespace(
    num_processes=1, device=torch.device("cpu"), reduce=lambda tensor, **_: tensor
)
"""What the only process of a run knows of it."""
_Result = TypeVar("_Result")
_THREAD: Final = local()


class Process:
    """What a process knows of the two, and how it joins its tensors with those of the other."""

    num_processes: Final = 2
    device: Final = torch.device("cpu")

    def __init__(self, rank: int, handed: list[Any], barrier: Barrier) -> None:
        self.process_index, self.is_main_process = rank, rank == 0
        self._handed, self._barrier = handed, barrier

    def every(self, value: Any) -> list[Any]:
        """Return what each process hands over, by rank; waits for the other."""
        self._handed[self.process_index] = value
        self._barrier.wait(PATIENT_S)
        handed = list(self._handed)
        self._barrier.wait(PATIENT_S)
        return handed

    def reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        """Return the sum over the processes, or their mean."""
        total = torch.stack(self.every(tensor)).sum(0)
        return {"sum": total, "mean": total / self.num_processes}[reduction]

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the processes' tensors, which have one shape, one after the other."""
        tensors = self.every(tensor)
        assert len({part.shape for part in tensors}) == 1, "a process would read what the other has not written"
        return torch.cat(tensors)

    def pad_across_processes(self, tensor: Tensor, pad_index: float = 0) -> Tensor:
        """Return a row that is filled up with `pad_index` to the length of the longer one."""
        longest = max(map(len, self.every(tensor)))
        return torch.cat([tensor, tensor.new_full((longest - len(tensor),), pad_index)])


def gather_object(objects: list[Any]) -> list[Any]:
    """Return the objects of both processes, by rank, in each of them: Accelerate's function of that name."""
    return [one for handed in _THREAD.process.every(objects) for one in handed]


def in_both(call: Callable[[Process], _Result]) -> list[_Result]:
    """Return what the call gives in each of two processes; raise what it raises in one of them."""
    handed, barrier = [None, None], Barrier(2)

    def called(rank: int) -> _Result:
        _THREAD.process = Process(rank, handed, barrier)
        try:
            return call(_THREAD.process)
        except BaseException:
            barrier.abort()  # the other would wait for this one
            raise

    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(called, rank) for rank in range(2)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: "Barrier" in type(error).__name__):
        raise error
    return [future.result() for future in futures]
