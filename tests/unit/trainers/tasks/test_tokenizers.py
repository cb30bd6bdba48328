import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from trainers.config import CountdownTask, ExpressionsTask
from trainers.tasks import make_task
from trainers.tasks.tokenizers import END, PAD, byte_tokenizer, character_tokenizer

CHARACTERS = character_tokenizer("0123456789+-=")
BYTES = byte_tokenizer(["The shop sells 12 pens.", "The shop sold 34 pens."] * 5, 300)


@given(st.text())
def test_bytes_spell_every_text_and_give_it_back(text: str) -> None:
    assert BYTES.decode(BYTES(text)["input_ids"]) == text


@given(st.text("0123456789+-="))
def test_characters_spell_their_texts_one_token_each(text: str) -> None:
    ids = CHARACTERS(text)["input_ids"]
    assert len(ids) == len(text)
    assert CHARACTERS.decode(ids) == text


@pytest.mark.parametrize("config", [ExpressionsTask(), CountdownTask(problems=300)])
def test_the_tokenizer_of_a_task_spells_its_prompts_and_answers_one_token_a_character(config: Any) -> None:
    task, random_numbers = make_task(config, Path("absent")), random.Random(0)
    tokenizer = task.tokenizer()
    for text in ("".join(task.worked_example(random_numbers)) for _ in range(200)):
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == text


def test_frequent_pieces_become_tokens_but_numbers_do_not() -> None:
    tokens = BYTES.tokenize("The shop sells 12 pens.")
    assert "The" in tokens
    assert {"1", "2"} <= set(tokens)
    assert len(BYTES) <= 300


def test_a_special_token_is_never_read_from_text() -> None:
    text = f"say {END} and {PAD}"
    ids = BYTES(text)["input_ids"]
    assert not {BYTES.eos_token_id, BYTES.pad_token_id} & set(ids)
    assert BYTES.decode(ids) == text


@pytest.mark.parametrize("made", [CHARACTERS, BYTES], ids=["characters", "bytes"])
def test_a_saved_tokenizer_is_the_same(made: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    made.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("31+14=", "The shop", f"{END}{PAD} é"):
        assert loaded(text)["input_ids"] == made(text)["input_ids"]
    assert (loaded.eos_token_id, loaded.pad_token_id, len(loaded)) == (made.eos_token_id, made.pad_token_id, len(made))


@pytest.mark.parametrize("made", [CHARACTERS, BYTES], ids=["characters", "bytes"])
def test_prompts_are_padded_on_the_left_with_nothing_added(made: PreTrainedTokenizerFast) -> None:
    short, long = made(["1", "12345"], padding=True)["input_ids"]
    assert short == [made.pad_token_id] * 4 + made("1")["input_ids"]
    assert made.pad_token_id not in long
    assert made.eos_token_id != made.pad_token_id
