"""The tree of exceptions in `sweep_service.errors`."""

import ast
from pathlib import Path

import sweep_service
from sweep_service import errors


def test_the_tree_names_every_public_exception_of_the_service() -> None:
    classes = [
        node
        for path in Path(sweep_service.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    bases = {node.name: {ast.unparse(base) for base in node.bases} for node in classes}
    exceptions = {"Exception"}
    while more := {name for name, parents in bases.items() if parents & exceptions} - exceptions:
        exceptions |= more
    drawn = {line.partition("── ")[2].split()[0] for line in (errors.__doc__ or "").splitlines() if "── " in line}
    assert drawn == {name for name in exceptions if not name.startswith("_")} - {"Exception"}
