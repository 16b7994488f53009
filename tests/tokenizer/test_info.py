"""What a count reads of a tokenizer: rows, absent ids, special, stop and byte ids."""

from pathlib import Path

import numpy as np
import pytest
from tiny import Lines, report, save_tokenizer, tiny_tokenizer, total
from tokenizers import Tokenizer, models, pre_tokenizers

from vocabfreq import load_tokenizer
from vocabfreq.errors import TokenizerError


def words(*names: str) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="u"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_M7_rows_beyond_the_tokenizer_are_absent(tmp_path: Path, lines: Lines) -> None:
    folder = save_tokenizer(words(*"uabcde"), tmp_path / "t", config={"vocab_size": 8})
    info = load_tokenizer(str(folder))
    assert (info.rows, info.size, info.absent) == (8, 6, ((6, 8),))
    table = report(folder, str(lines({"text": "a b b z"}))).table
    assert total(table).tolist() == [1, 1, 2, 0, 0, 0, 0, 0]
    assert table.ranked_ids.tolist() == [2, 0, 1, 3, 4, 5, 6, 7]


def test_M8_rows_from_a_nested_text_config(tmp_path: Path) -> None:
    config = {"text_config": {"vocab_size": 8, "eos_token_id": 3}}
    info = load_tokenizer(str(save_tokenizer(words(*"uabcde"), tmp_path / "t", config=config)))
    assert info.rows == 8
    assert info.stop_ids == (3,)


def test_model_config_given_apart_from_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = save_tokenizer(words(*"uabcde"), tmp_path / "t")
    model = save_tokenizer(words("u"), tmp_path / "m", config={"vocab_size": 64})
    assert load_tokenizer(str(tokenizer)).rows == 6
    assert load_tokenizer(str(tokenizer / "tokenizer.json"), str(model)).rows == 64
    assert load_tokenizer(str(tokenizer), str(model / "config.json")).rows == 64


def test_holes_count_as_absent(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"u": 0, "a": 2, "b": 5}, unk_token="u"))
    info = load_tokenizer(str(save_tokenizer(tokenizer, tmp_path / "t")))
    assert (info.rows, info.size, info.absent) == (6, 3, ((1, 2), (3, 5)))


def test_ids_that_the_model_has_no_row_for_are_tallied(tmp_path: Path, lines: Lines) -> None:
    folder = save_tokenizer(words(*"uabcde"), tmp_path / "t", config={"vocab_size": 4})
    table = report(folder, str(lines({"text": "a b e d e"}))).table
    assert total(table).tolist() == [0, 1, 1, 0]
    assert table.sources[0].skipped == {"id beyond the model's rows": 3}
    assert table.sources[0].tokens == 2


def test_M5_every_stop_id_is_found(tmp_path: Path) -> None:
    folder = save_tokenizer(
        tiny_tokenizer(),
        tmp_path / "t",
        config={"vocab_size": 300, "eos_token_id": 7},
        generation_config={"eos_token_id": [8, 9, 7]},
        tokenizer_config={"eos_token": {"content": "<|im_end|>"}},
    )
    info = load_tokenizer(str(folder))
    assert info.stop_ids == (7, 8, 9, 264)
    assert info.special_ids == (263, 264)
    assert info.byte_ids == tuple(range(256))


def test_tokens_that_the_chat_template_writes(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<think>", "<unused>"])
    tokenizer_config = {
        "bos_token": "<|endoftext|>",
        "chat_template": "{{ '<think>' + message + '<|im_end|>' }}",
    }
    folder = save_tokenizer(tokenizer, tmp_path / "t", tokenizer_config=tokenizer_config)
    assert load_tokenizer(str(folder)).template_ids == (263, 264, 265)


def test_byte_fallback_tokens_are_byte_ids(tmp_path: Path) -> None:
    vocab = {"<unk>": 0} | {f"<0x{n:02X}>": n + 1 for n in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>"))
    info = load_tokenizer(str(save_tokenizer(tokenizer, tmp_path / "t")))
    assert info.byte_ids == tuple(range(1, 257))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not a tokenizer.json"),
        ("{}", "missing required field `model`"),
        ('{"model": {"vocab": {}}}', "no tokens"),
        ('{"model": {"vocab": {"a": -1}}}', "negative ids"),
    ],
)
def test_a_broken_tokenizer_json(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerError, match=message):
        load_tokenizer(str(path))


@pytest.mark.parametrize("size", [0, -1, "8", True, 1.5])
def test_a_senseless_vocab_size(tmp_path: Path, size: object) -> None:
    folder = save_tokenizer(words("u", "a"), tmp_path / "t", config={"vocab_size": size})
    with pytest.raises(TokenizerError, match="vocab_size"):
        load_tokenizer(str(folder))


def test_a_folder_without_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="has no tokenizer.json"):
        load_tokenizer(str(tmp_path))
    with pytest.raises(TokenizerError, match="no folder"):
        load_tokenizer(str(tmp_path / "nowhere"))


def test_unigram_vocabularies_are_lists(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.0)], 0, False))
    info = load_tokenizer(str(save_tokenizer(tokenizer, tmp_path / "t")))
    assert (info.rows, info.size) == (3, 3)
    assert np.array_equal(info.byte_ids, ())
