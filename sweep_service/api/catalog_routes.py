"""The routes of the catalog: what specs may name. Reading only; adding is for who has the machine."""

from sweep_service.api.paging import Pages, Paging
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import Service, v1_router
from sweep_service.errors import NotFound
from sweep_service.schemas import Page
from sweep_service.service import SweepService
from trainers.catalog.entries import KINDS, AnyEntry, BenchmarkEntry, DatasetEntry, ModelEntry, all_entries
from trainers.config import CatalogName

router = v1_router()


@router.get("/models")
def list_models(service: Service, paging: Pages) -> Page[ModelEntry]:
    """List the models that specs may name, by name."""
    return _page(service, paging, ModelEntry)


@router.get("/models/{name}", responses=documented(404))
def get_model(service: Service, name: CatalogName) -> ModelEntry:
    """Return a model's record: where it came from, its architecture, sizes and context length."""
    return _entry(service, ModelEntry, name)


@router.get("/datasets")
def list_datasets(service: Service, paging: Pages) -> Page[DatasetEntry]:
    """List the datasets that specs may name, by name."""
    return _page(service, paging, DatasetEntry)


@router.get("/datasets/{name}", responses=documented(404))
def get_dataset(service: Service, name: CatalogName) -> DatasetEntry:
    """Return a dataset's record: where it came from, its splits and columns."""
    return _entry(service, DatasetEntry, name)


@router.get("/benchmarks")
def list_benchmarks(service: Service, paging: Pages) -> Page[BenchmarkEntry]:
    """List the benchmarks that specs may name, by name."""
    return _page(service, paging, BenchmarkEntry)


@router.get("/benchmarks/{name}", responses=documented(404))
def get_benchmark(service: Service, name: CatalogName) -> BenchmarkEntry:
    """Return a benchmark's record: where it came from and how many problems it has."""
    return _entry(service, BenchmarkEntry, name)


def _page(service: SweepService, paging: Paging, entry_type: type[AnyEntry]) -> Page[AnyEntry]:
    return paging.page_of_all(all_entries(service.settings.cache, entry_type), lambda entry: entry.name, "")


def _entry(service: SweepService, entry_type: type[AnyEntry], name: str) -> AnyEntry:
    entries = all_entries(service.settings.cache, entry_type)
    entry = next((entry for entry in entries if entry.name == name), None)
    if entry is None:
        raise NotFound(KINDS[entry_type].removesuffix("s"), name)
    return entry
