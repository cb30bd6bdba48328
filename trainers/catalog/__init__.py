"""Models, datasets and benchmarks of this machine, by name."""

from trainers.catalog.entries import (
    BenchmarkEntry,
    DatasetEntry,
    ModelEntry,
    Origin,
    entry_folder,
    list_entries,
    read_entry,
)

__all__ = ["BenchmarkEntry", "DatasetEntry", "ModelEntry", "Origin", "entry_folder", "list_entries", "read_entry"]
