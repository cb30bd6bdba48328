"""How large a model is, as far as time and memory depend on it."""

from typing import Final, NamedTuple

from trainers.catalog.entries import ModelEntry


class ModelShape(NamedTuple):
    """A decoder-only transformer."""

    name: str
    """In the catalog."""
    parameters: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    context_length: int | None
    """Tokens that a prompt and its response may have together; None: not known."""
    chat_template: bool

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one token, in bfloat16."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.hidden_size // self.num_heads


KNOWN: Final = {
    shape.name: shape
    for shape in (
        ModelShape("deepseek-r1-distill-qwen-1.5b", 1_777_088_000, 1536, 28, 12, 2, 131_072, chat_template=True),
        ModelShape("deepseek-r1-distill-qwen-7b", 7_615_616_512, 3584, 28, 28, 4, 131_072, chat_template=True),
    )
}
"""The recipes' own models, so that they can be planned for before they are in the catalog."""


def shape_of(entry: ModelEntry) -> ModelShape:
    """A catalog's model."""
    return ModelShape(
        entry.name,
        entry.parameters,
        entry.hidden_size,
        entry.num_layers,
        entry.num_heads,
        entry.num_kv_heads,
        entry.context_length,
        entry.chat_template,
    )
