"""Writes the verbs of `sweep_service/verbs.py` into `docs/api.md` and the client: python docs/verbs_table.py."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sweep_service.verbs import VERBS, Verb

PAGE: Final = Path(__file__).with_name("api.md")
CLIENT: Final = Path(__file__).parents[1] / "sweep_service" / "client" / "verb_methods.py"
BEGIN: Final = "These lines are made by docs/verbs_table.py."
END: Final = "Until here."


def page_with_verbs(page: str) -> str:
    """Return the page with the rows of all verbs made anew."""
    return _between(
        page, "<!-- {} -->\n", ["\n| route | it does | 409 if |\n|---|---|---|\n", *map(_row, VERBS.values()), "\n"]
    )


def client_with_verbs(module: str) -> str:
    """Return the client's module with the stubs of all verbs made anew."""
    return _between(module, "    # {}\n", map(_stub, VERBS.values()))


def _between(text: str, comment: str, lines: Iterable[str]) -> str:
    """Return the text with other lines between the two comments."""
    before, begin, rest = text.partition(comment.format(BEGIN))
    _, end, after = rest.partition(comment.format(END))
    assert begin, f"there is no line {comment.format(BEGIN)}"
    assert end, f"there is no line {comment.format(END)}"
    return "".join([before, begin, *lines, end, after])


def _row(verb: Verb) -> str:
    path = verb.path.replace("sweeps/{sweep_id}", "…").replace("trials/{trial_id}", "/v1/trials/{id}")
    body = f" with `{verb.body}`" if verb.request else ""
    answer = " Answers 202, and as `GET …/reports` does." if verb.answer == "ReportsView" else ""
    text = verb.text.replace("\n\n", " ")
    return f"| `POST {path}`{body} | {text}{answer} [More]({verb.more}) | {verb.conflict} |\n"


def _stub(verb: Verb) -> str:
    about = "trial_id" if "{trial_id}" in verb.path else "sweep_id"
    body = f", {verb.argument}: {verb.request.partition(':')[2]} | Mapping[str, Any]" if verb.request else ""
    return f"    @of_table\n    def {verb.name}(self, {about}: str{body}) -> {verb.answer}: ...\n\n"


if __name__ == "__main__":
    for file, made in ((PAGE, page_with_verbs), (CLIENT, client_with_verbs)):
        file.write_text(made(file.read_text(encoding="utf-8")), encoding="utf-8")
