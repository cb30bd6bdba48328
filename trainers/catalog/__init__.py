"""Models, datasets and benchmarks of this machine, by name."""

from trainers.catalog.add_from_disk import add_local_dataset, add_local_model
from trainers.catalog.entries import (
    BenchmarkEntry,
    DatasetEntry,
    ModelEntry,
    Origin,
    all_entries,
    entry_folder,
    list_entries,
    read_entry,
    shipped_entries,
    shipped_file,
)
from trainers.catalog.new_entry import origin_text

__all__ = [
    "BenchmarkEntry",
    "DatasetEntry",
    "ModelEntry",
    "Origin",
    "add_local_dataset",
    "add_local_model",
    "all_entries",
    "entry_folder",
    "list_entries",
    "origin_text",
    "read_entry",
    "shipped_entries",
    "shipped_file",
]
