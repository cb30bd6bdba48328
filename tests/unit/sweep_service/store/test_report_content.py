"""Contents of reports as the database keeps them: nothing is lost, and what is kept is a gzip file."""

import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep_service.store import KeptReport, Store, tables
from sweep_service.store.report_content import CommonPart, deflated, pack
from tests import stored_sweeps as sweeps
from tests.waiting import in_threads

SCRIPT = b"function draw() { return " + b"1 + " * 5000 + b"1 }"
NOISE = random.Random(0).randbytes(1000)


def kept(content: bytes, part: bytes) -> KeptReport:
    """Return a content as it comes back from the database."""
    packed = pack(content, part)
    common = None if packed.part_at is None else CommonPart(deflated(part))
    return KeptReport(packed, common, interim=False, created_at=0.0)


@given(st.binary(), st.binary(max_size=200), st.binary())
def test_a_content_comes_back_and_as_a_gzip_file(before: bytes, part: bytes, after: bytes) -> None:
    content = before + 20 * part + after + SCRIPT
    for common in (SCRIPT, part, b"", b"not in it"):
        report = kept(content, common)
        assert report.content == content
        assert report.gzip is not None
        assert gzip.decompress(report.gzip) == content


@pytest.mark.parametrize("content", [b"", b"short", NOISE])
def test_what_hardly_shrinks_is_kept_as_it_is(content: bytes) -> None:
    report = kept(content, SCRIPT)
    assert (report.packed.content, report.content, report.gzip) == (content, content, None)


def test_a_part_at_either_end_is_cut_out() -> None:
    for content in (SCRIPT, SCRIPT + b"<end>" * 9, b"<begin>" * 9 + SCRIPT):
        report = kept(content, SCRIPT)
        assert len(report.packed.content) < 60
        assert report.content == content
        assert gzip.decompress(report.gzip or b"") == content


def page(text: str) -> bytes:
    """A page with the script in its middle."""
    return b"<script>" + SCRIPT + b"</script>" + f"<p>{text}</p>".encode() * 20


@pytest.mark.both_databases
def test_what_reports_have_in_common_is_stored_once(store: Store) -> None:
    ids = [sweeps.submit(store).id for _ in range(4)]

    def put(index: int) -> None:
        store.put_report(ids[index], "one", {"html": page(ids[index]), "png": NOISE}, SCRIPT)

    in_threads(4, put)
    for sweep_id in ids:
        assert store.get_report(sweep_id, "html") == page(sweep_id)
        assert store.get_report(sweep_id, "png") == NOISE
    with store.engine.connect() as connection:
        assert len(connection.execute(tables.report_parts.select()).all()) == 1
        stored = connection.execute(tables.reports.select().where(tables.reports.c.format == "html")).all()
    assert all(len(row.content) < 300 for row in stored)


def test_reports_with_parts_of_different_versions_stand_beside_each_other(store: Store) -> None:
    pages: dict[str, bytes] = {}
    for number in range(5):
        script, sweep_id = SCRIPT + b" // version %d" % number, sweeps.submit(store).id
        pages[sweep_id] = page(sweep_id).replace(SCRIPT, script)
        store.put_report(sweep_id, "one", {"html": pages[sweep_id]}, script)
    for _ in range(2):
        assert {sweep_id: store.get_report(sweep_id, "html") for sweep_id in pages} == pages
    assert len(store._parts) == 3


def test_an_interim_report_is_packed_too_and_what_is_not_compressed_is_read_as_it_is(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    store.put_interim_report(sweep.id, "one", {"html": page("interim")}, SCRIPT)
    found = store.find_report(sweep.id, "html")
    assert found is not None
    assert (found.content, found.interim) == (page("interim"), True)
    with store.engine.begin() as connection:
        connection.execute(
            tables.reports.update().values(content=page("plain"), gzipped=False, part=None, part_at=None)
        )
    found = store.find_report(sweep.id, "html")
    assert found is not None
    assert (found.content, found.gzip) == (page("plain"), None)
