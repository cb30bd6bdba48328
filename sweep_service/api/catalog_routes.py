"""The routes of the catalog of names for specs. They only read; adding is for whoever has the machine."""

from sweep_service.api.paging import Pages
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import Service, v1_router
from sweep_service.errors import NotFound
from sweep_service.schemas import Page
from trainers.catalog.entries import KINDS, AnyEntry, BenchmarkEntry, DatasetEntry, ModelEntry, all_entries
from trainers.config import CatalogName

router = v1_router()


def _add_routes(entry_type: type[AnyEntry], facts: str) -> None:
    """Add the routes that list the entries of one kind, and that return one of them, which has these facts."""
    kind = KINDS[entry_type]
    one = kind.removesuffix("s")

    def list_entries(service: Service, paging: Pages) -> Page[AnyEntry]:
        return paging.page_of_all(all_entries(service.settings.cache, entry_type), lambda entry: entry.name)

    def get_entry(service: Service, name: CatalogName) -> AnyEntry:
        for entry in all_entries(service.settings.cache, entry_type):
            if entry.name == name:
                return entry
        raise NotFound(one, name)

    router.add_api_route(
        f"/{kind}",
        list_entries,
        name=f"list_{kind}",
        response_model=Page[entry_type],
        description=f"List the {kind} that specs may name, by name.",
    )
    router.add_api_route(
        f"/{kind}/{{name}}",
        get_entry,
        name=f"get_{one}",
        response_model=entry_type,
        responses=documented(404),
        description=f"Return a {one}'s record: {facts}.",
    )


_add_routes(ModelEntry, "where it came from, its architecture, sizes and context length")
_add_routes(DatasetEntry, "where it came from, its splits and columns")
_add_routes(BenchmarkEntry, "where it came from and how many problems it has")
