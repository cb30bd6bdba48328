"""Packages with losses, laid out as pip installs them, and the packages that the docs show."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENT_S
from trainers.losses import by_name, loss_entry

DOCS = Path(__file__).parents[1] / "docs"

TEMPERED = """
from typing import Literal

from pydantic import Field

from trainers.losses import LossEntry, LossOutput, TokenRatioParams, regions


class TemperedParams(TokenRatioParams):
    name: Literal["tempered"] = "tempered"
    alpha: float = Field(default=0.5, ge=0, le=1)


def tempered(batch, params):
    ratio_BT = batch.ratio_BT(params.log_ratio_clamp)
    loss_BT = -(ratio_BT**params.alpha) * batch.unit_BT(params.log_ratio_clamp) * batch.advantages_BT
    return LossOutput(loss_BT, regions(ratio_BT, batch.advantages_BT, params), ratio_BT)


ENTRY = LossEntry(TemperedParams, tempered)
"""


def install(
    site: Path, module: str, entries: str, code: str = TEMPERED, version: str = "1", group: str = "sweeps.losses"
) -> None:
    """Lay a package of one module into a folder of `sys.path`, with its entry points of this group."""
    (site / f"{module}.py").write_text(code)
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")


@contextmanager
def package_site(folder: Path) -> Iterator[Path]:
    """Have installed packages found in a folder, and forget at the end what was imported from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        modules = set(sys.modules)
        loss_entry.cache_clear()
        yield folder
        for name in set(sys.modules) - modules:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        loss_entry.cache_clear()
        by_name._loaded.cache_clear()


def documented_package(folder: Path, page: str = "losses") -> Path:
    """Write the package that a page of the docs shows, with all its files, below a folder; return where."""
    package, text = folder / "package", (DOCS / f"{page}.md").read_text()
    for name, content in re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(content)
    return package


def pip_install(package: Path, site: Path) -> None:
    """Install a package into a folder, as a user would into an environment."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(package)], check=True, timeout=PATIENT_S)
