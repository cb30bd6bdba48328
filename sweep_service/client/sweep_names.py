"""Which sweep is meant: by its id, a part of it, or its name."""

from collections.abc import Callable, Iterator
from typing import Final

from sweep_service.client.asking import Asking, segment
from sweep_service.errors import NotFound, ServiceError
from sweep_service.schemas import SweepSummary

_ID_LENGTH: Final = 30
_NAME_LENGTH: Final = 63


class SweepNames(Asking):
    """A connection that finds sweeps by their names. Every method that takes a sweep's id takes its name, too."""

    def find_sweep(self, which: str | None) -> str:
        """Return the id of a sweep, given by its id, its name (the newest of that name), or the beginning or end of its
        id; without any, the id of the newest sweep.

        A sweep that only probes has the name of the sweep whose cost it measured, and no results; it is found by its
        id, and otherwise only if there is no real one.

        Raises: NotFound, if there is none; ServiceError, if several sweeps have that part in their ids.
        """
        if which and which.startswith("swp_") and len(which) == _ID_LENGTH:
            return which
        probe: str | None = None
        matches: list[str] = []
        for sweep in self._sweeps_with(which):
            if which in (None, sweep.name):
                if not sweep.only_probes:
                    return sweep.id
                probe = probe or sweep.id
            elif which and (sweep.id.startswith(which) or sweep.id.endswith(which)):
                matches.append(sweep.id)
        if probe is None and len(matches) > 1:
            raise ServiceError(
                f"{len(matches)} sweeps have {which!r} in their id, such as {matches[0]}; give more of it"
            )
        if probe is None and not matches:
            raise NotFound("sweep", which, "; list them: sweeps ls" if which is not None else "")
        return probe or matches[0]

    def find_sweep_to_change(self, which: str | None, on_newest: Callable[[str], None] | None = None) -> str:
        """Return the id of a sweep that is to be changed, as `find_sweep` does, if it is clear which one is meant.

        Args:
            on_newest: called with a sentence if several of that name have ended, and the newest is taken; without it,
                that is refused.
        Raises: NotFound; ServiceError, besides, if several of that name have not ended.
        """
        sweep_id = self.find_sweep(which)
        if which in (None, sweep_id):
            return sweep_id
        named = [sweep for sweep in self._sweeps_with(which) if sweep.name == which]
        meant = [sweep for sweep in named if not sweep.only_probes] or named
        going = [sweep.id for sweep in meant if not sweep.state.is_over]
        if len(going) > 1:
            raise ServiceError(
                f"{len(going)} sweeps with the name {which!r} have not ended, such as {going[0]} and {going[1]}; give "
                f"the id of the one that you mean: sweeps ls {which}"
            )
        if len(meant) > 1 and on_newest is None:
            raise ServiceError(f"{len(meant)} sweeps have the name {which!r}; give the id of the one that you mean")
        if len(meant) > 1 and on_newest:
            on_newest(f"{len(meant)} sweeps have the name {which!r}; this is the newest of them: {sweep_id}")
        return sweep_id

    def sweep_path(self, which: str, *parts: str) -> str:
        """Return the path of what belongs to a sweep.

        Raises: NotFound; ServiceError, if several sweeps may be meant.
        """
        return "/".join(["/v1/sweeps", segment("sweep", self.find_sweep(which)), *parts])

    def _sweeps_with(self, which: str | None) -> Iterator[SweepSummary]:
        """Iterate over the sweeps with this in their name or id, newest first; None: over all."""
        if which is not None and (not 0 < len(which) <= _NAME_LENGTH or "\0" in which):
            return iter(())
        return self.pages("/v1/sweeps", SweepSummary, {"text": which})
