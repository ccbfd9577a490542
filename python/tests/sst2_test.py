"""The workload sst2: folders of sentences, BERT's tokenisation, and BERT's weight files."""

import json
import lzma
import struct

import pytest
import torch
from neuron_fabric_lab.workloads import DataError, make_workload
from neuron_fabric_lab.workloads.encoder import Encoder, Shape
from neuron_fabric_lab.workloads.safetensors import read_safetensors
from neuron_fabric_lab.workloads.sentences import read_sentences
from neuron_fabric_lab.workloads.wordpiece import WordPiece, words
from tiny_sentences import write_tsv

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "un", "##aff", "##able", "'", "s", "!"]


def test_folders_of_sentences_are_read(tmp_path):
    plain = read_sentences(write_tsv(tmp_path), "train")
    assert len(plain.texts) == 256
    assert plain.labels[:4] == [0, 1, 0, 1]
    packed = tmp_path / "packed" / "SST-2"
    packed.mkdir(parents=True)
    (packed / "sst2_train.tsv.xz").write_bytes(lzma.compress((tmp_path / "train.tsv").read_bytes()))
    assert read_sentences(tmp_path / "packed", "train") == plain


@pytest.mark.parametrize(("content", "words"), [
    (b"text\tlabel\nfine\t1\n", "first line"), (b"sentence\tlabel\nfine\t2\n", "line 2"),
    (b"sentence\tlabel\n", "no sentences"), (b"\xff\xfe\t1\n", "utf-8")])
def test_damaged_sentences_are_reported(tmp_path, content, words):
    (tmp_path / "train.tsv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_sentences(tmp_path, "train")


def test_missing_sentences_are_reported(tmp_path):
    with pytest.raises(DataError, match="needs a folder with its sentences"):
        make_workload("sst2")
    with pytest.raises(DataError, match="neither train.tsv, as in GLUE"):
        make_workload("sst2", data=tmp_path)
    (tmp_path / "train.tsv.xz").write_bytes(b"not packed")
    with pytest.raises(DataError, match="train.tsv.xz"):
        make_workload("sst2", data=tmp_path)


def test_words_are_split_into_the_longest_pieces():
    pieces = WordPiece(VOCABULARY)
    assert words("Unaffable Café's!") == ["unaffable", "cafe", "'", "s", "!"]
    assert pieces.encode("Unaffable Café's xyz!", 64) == [2, 5, 6, 7, 4, 8, 9, 1, 10, 3]
    assert pieces.encode("cafe " * 9, 4) == [2, 4, 4, 3]
    with pytest.raises(ValueError, match=r"no \[CLS\], \[SEP\]"):
        WordPiece(VOCABULARY[:2])


def test_padding_does_not_affect_the_result():
    model = Encoder(Shape(2, 32, 2), tokens=20, classes=2, pad=0)
    short = torch.tensor([[2, 7, 3]])
    padded = torch.tensor([[2, 7, 3, 0, 0]])
    torch.testing.assert_close(model(short), model(padded))


def bert_weights(shape, tokens):
    """All different, with the names of a BERT file."""
    torch.manual_seed(5)
    width = shape.width
    shapes = {"embeddings.word_embeddings.weight": (tokens, width),
              "embeddings.position_embeddings.weight": (512, width),
              "embeddings.token_type_embeddings.weight": (2, width),
              "embeddings.LayerNorm.weight": (width,), "embeddings.LayerNorm.bias": (width,)}
    for layer in range(shape.layers):
        for name, sizes in {"attention.self.query": (width, width), "attention.self.key": (width, width),
                            "attention.self.value": (width, width),
                            "attention.output.dense": (width, width),
                            "intermediate.dense": (4 * width, width),
                            "output.dense": (width, 4 * width)}.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = sizes
            shapes[f"encoder.layer.{layer}.{name}.bias"] = sizes[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            for kind in ("weight", "bias"):
                shapes[f"encoder.layer.{layer}.{name}.{kind}"] = (width,)
    return {name: torch.randn(*sizes) for name, sizes in shapes.items()}


def write_safetensors(path, tensors):
    header, parts, place = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        data = tensor.half().numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape),
                        "data_offsets": [place, place + len(data)]}
        parts.append(data)
        place += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def test_weights_of_bert_are_loaded(tmp_path):
    shape = Shape(layers=1, width=8, heads=2)
    tensors = bert_weights(shape, tokens=11)
    write_safetensors(tmp_path / "model.safetensors", tensors)
    weights = read_safetensors(tmp_path / "model.safetensors")
    model = Encoder(shape, tokens=11, classes=2, pad=0)
    model.load_bert(weights)
    rounded = {name: tensor.half().float() for name, tensor in tensors.items()}
    assert torch.equal(model.layers[0].down.weight, rounded["encoder.layer.0.output.dense.weight"])
    assert torch.equal(model.position.weight, rounded["embeddings.position_embeddings.weight"]
                       + rounded["embeddings.token_type_embeddings.weight"][0])
    with pytest.raises(DataError, match="have no embeddings.word_embeddings.weight of shape"):
        Encoder(shape, tokens=12, classes=2, pad=0).load_bert(weights)


def test_pretrained_weights_beside_the_data_are_used(tmp_path):
    folder = write_tsv(tmp_path) / "minilm"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    tensors = bert_weights(Shape(layers=6, width=384, heads=12), len(VOCABULARY))
    write_safetensors(folder / "model.safetensors", tensors)
    workload = make_workload("sst2", "minilm", tmp_path)
    assert f"from the weights in {folder}" in workload.description
    token = workload.make_model(1).token.weight
    assert torch.equal(token, tensors["embeddings.word_embeddings.weight"].half().float())
    (folder / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(DataError, match="has no weights"):
        make_workload("sst2", "minilm", tmp_path)
