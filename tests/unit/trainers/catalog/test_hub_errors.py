"""Failures of disk and connection during a download, told in sentences with a remedy."""

import errno

import pytest

from trainers.catalog.hub import HubError, hub_errors


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "full"), "the disk is full; what has come is kept"),
        (OSError(), "the connection broke off"),
    ],
)
def test_a_full_disk_and_a_broken_connection_are_told(error: OSError, says: str) -> None:
    with pytest.raises(HubError, match=says), hub_errors("model", "a/b", None, None):
        raise error


def test_what_else_a_disk_refuses_is_no_matter_of_the_hubs() -> None:
    with pytest.raises(PermissionError), hub_errors("model", "a/b", None, None):
        raise PermissionError(errno.EACCES, "no")
