"""The workload llama: folders of words, the vocabulary, and the shared weights of embedding and head."""

import lzma

import numpy as np
import pytest
import torch
from neuron_fabric.model import parameters_of
from neuron_fabric.profile import resolve
from neuron_fabric_lab.workloads import DataError, make_workload
from neuron_fabric_lab.workloads.words import END, UNKNOWN, Vocabulary, read_words
from tiny_words import write_words


def test_folders_of_words_are_read(tmp_path):
    plain = read_words(write_words(tmp_path), "train")
    assert len(plain) == 400 * (12 + 1)
    assert plain[12] == END
    packed = tmp_path / "packed" / "wikitext-2"
    packed.mkdir(parents=True)
    text = (tmp_path / "wiki.train.tokens").read_bytes()
    (packed / "wikitext2_train.txt.xz").write_bytes(lzma.compress(text))
    assert read_words(tmp_path / "packed", "train") == plain


@pytest.mark.parametrize(("name", "content", "words"), [
    ("wiki.train.tokens", b"\xff\xfe", "utf-8"), ("wiki.train.tokens", b"", "has no words"),
    ("wiki.train.tokens.xz", b"not packed", "wiki.train.tokens.xz")])
def test_damaged_text_is_reported(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_words(tmp_path, "train")


def test_missing_text_is_reported(tmp_path):
    with pytest.raises(DataError, match="needs a folder with its text"):
        make_workload("llama")
    with pytest.raises(DataError, match="has no train text of WikiText-2"):
        make_workload("llama", data=tmp_path)


def test_text_that_is_shorter_than_a_sequence_is_reported(tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"wiki.{split}.tokens").write_text("a few words\n")
    with pytest.raises(DataError, match="fewer words than one sequence of 32"):
        make_workload("llama", "tiny", tmp_path)


def test_the_vocabulary_has_the_most_frequent_words():
    vocabulary = Vocabulary(["b", "a", "b", UNKNOWN, "c", "a", "b"], 3)
    assert len(vocabulary) == 3
    assert np.array_equal(vocabulary.encode(["b", "a", "c", UNKNOWN, "new"]), [1, 2, 0, 0, 0])


def test_embedding_and_head_are_one_parameter_at_low_bits(tmp_path):
    model = make_workload("llama", "tiny", write_words(tmp_path)).make_model(1)
    assert model.llama.lm_head.weight is model.llama.model.embed_tokens.weight
    profile = resolve(None, None, parameters_of(model)).to_dict()
    routes = profile["phases"][0]["routes"]
    assert routes == {"norm": "fp32", "embedding": "waterfill:5", "backbone": "waterfill:5"}


def test_the_target_of_a_word_is_the_word_after_it(tmp_path):
    inputs, targets = next(make_workload("llama", "tiny", write_words(tmp_path)).batches(0, 1, seed=1))
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
