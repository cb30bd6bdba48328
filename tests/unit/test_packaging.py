"""What is declared, what is pinned, what is installed and what is imported agree."""

import ast
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("search_spaces", "sweep_service", "trainers")
NEVER_IMPORTED = {"mlflow", "psycopg"}  # a server of its own; SQLAlchemy loads it by the URL
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line) for line in lines), (
        f"{name}: only exact pins, nothing else"
    )
    return dict(line.split("==") for line in lines)


def declared(*extras: str) -> list[Requirement]:
    names = PROJECT["dependencies"] + [name for extra in extras for name in PROJECT["optional-dependencies"][extra]]
    return [Requirement(name) for name in names]


def imported() -> set[str]:
    """Return the top-level modules that our packages import, anywhere in a file."""
    names = set[str]()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - set(PACKAGES)


def test_every_import_is_a_declared_dependency() -> None:
    distributions = packages_distributions()
    known = {canonicalize_name(requirement.name) for requirement in declared("gpu")}
    missing = {
        name for name in imported() if not known & {canonicalize_name(d) for d in distributions.get(name, [name])}
    }
    assert not missing, "declare these in pyproject.toml, with the reason"


def test_every_declared_dependency_is_imported() -> None:
    distributions = packages_distributions()
    used = {canonicalize_name(name) for module in imported() for name in distributions.get(module, [])}
    unused = {canonicalize_name(requirement.name) for requirement in declared()} - used - NEVER_IMPORTED
    assert not unused, "remove these from pyproject.toml, or say there who loads them"


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ["dev"]), ("requirements-gpu.lock", ["dev", "gpu"])]
)
def test_locks_satisfy_what_is_declared(lock: str, extras: list[str]) -> None:
    pinned = pins(lock)
    assert pinned["torch"] == "2.13.0"
    for requirement in declared(*extras):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)


def test_lock_leaves_cuda_to_torch() -> None:
    assert not [name for name in pins("requirements.lock") if re.match(r"nvidia-|cuda|cupy|triton|vllm|xformers", name)]


def test_locks_name_no_host_and_no_path() -> None:
    assert not re.search(r"://|--|@|/(?!/)\w+/", (ROOT / "requirements.lock").read_text().split("\n", 2)[2])


def test_gpu_lock_has_the_vllm_that_trl_and_torch_accept() -> None:
    pinned = pins("requirements-gpu.lock")
    accepted = [Requirement(text) for text in requires("trl") or [] if text.startswith("vllm")]
    assert accepted
    assert all(requirement.specifier.contains(pinned["vllm"]) for requirement in accepted)
    same = ["ray", "torch", "transformers", "trl", "mlflow", "optuna", "pydantic", "sqlalchemy"]
    assert {name: pinned[name] for name in same} == {name: pins("requirements.lock")[name] for name in same}


def test_installed_versions_are_the_pinned_ones() -> None:
    differing = {name: pin for name, pin in pins("requirements.lock").items() if version(name).split("+")[0] != pin}
    assert not differing, "run make install"


def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    names = [*PACKAGES, "pyproject.toml", "LICENSE", "README.md"]
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in names), str(tmp_path)], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "."]
    subprocess.run(command, cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    sources = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    missing = {str(path) for path in sources if "__pycache__" not in path.parts} - packed
    assert not missing, "name their kind under tool.setuptools.package-data in pyproject.toml"


PREFLIGHT = runpy.run_path(str(ROOT / ".ci" / "preflight"))
FINE: dict[str, Any] = {
    "folder": str(ROOT),
    "version": (3, 11),
    "modules": {"venv", "ensurepip"},
    "machine": ("Linux", "x86_64"),
    "free_gib": 50.0,
    "writable": True,
    "linked": None,
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"version": (3, 9)}, ["Python 3.9 .* is too old, 3.11 or newer"]),
        ({"version": (3, 13), "modules": {"venv"}}, ["no venv module: .* `apt install python3.13-venv`"]),
        ({"free_gib": 0.25}, ["has 0.2 GiB free and 4 are needed"]),
        ({"machine": ("Darwin", "arm64")}, ["this is Darwin on arm64"]),
        ({"writable": False}, ["cannot write to .*: clone the repository to a folder of your own"]),
        ({"linked": "../main/.venv"}, [r"link to ../main/.venv, .*: remove the link with `rm .venv`"]),
    ],
    ids=["fine", "old python", "no venv", "full disk", "other machine", "read-only", "linked"],
)
def test_preflight_says_what_is_in_the_way(change: dict[str, Any], said: list[str]) -> None:
    found = PREFLIGHT["problems"](**FINE | change)
    assert len(found) == len(said)
    assert all(re.search(pattern, sentence) for pattern, sentence in zip(said, found, strict=True))
