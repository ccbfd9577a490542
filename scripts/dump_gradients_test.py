"""dump_gradients.py writes the gradients of workers in the format of `nf quality`."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import dump_gradients  # noqa: E402
from gradients.npy import write_dump  # noqa: E402
from gradients.resnet import Cifar100, Resnet  # noqa: E402
from neuron_fabric import write_shapes  # noqa: E402

SHAPES = Path(__file__).parents[1] / "examples" / "shapes" / "resnet18_cifar100.json"

torch.set_num_threads(1)  # the models are too small for more


def run(out, *arguments, model="gpt"):
    return dump_gradients.main(["--model", model, "--size", "tiny", "--device", "cpu", "--batch",
                                "2", "--out", str(out), *arguments])


@pytest.mark.parametrize("model", ["gpt", "resnet"])
def test_files_have_one_row_per_rank_and_the_parameter_names(tmp_path, model):
    assert run(tmp_path, "--steps", "0,2", "--ranks", "3", model=model) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{model}_{step}.{kind}" for step in (0, 2) for kind in ("json", "npy"))
    for step in (0, 2):
        values = np.load(tmp_path / f"{model}_{step}.npy", mmap_mode="r")
        shapes = json.loads((tmp_path / f"{model}_{step}.json").read_text())
        assert shapes.keys() == {"name", "parameters"}
        assert shapes["name"] == model
        assert all(entry.keys() == {"name", "shape"} for entry in shapes["parameters"])
        elements = sum(int(np.prod(entry["shape"])) for entry in shapes["parameters"])
        assert values.shape == (3, elements)
        assert values.dtype == np.float32
        assert values.flags.c_contiguous
        assert np.isfinite(values).all()
        assert not any(np.array_equal(values[i], values[i - 1]) for i in range(3))


def test_rows_are_the_gradients_of_workers_and_their_mean_is_the_gradient_of_the_batch(tmp_path):
    arguments = ["--steps", "3", "--ranks", "4"]
    assert run(tmp_path, *arguments) == 0
    rows = np.load(tmp_path / "gpt_3.npy")

    training, _ = dump_gradients.make_training(dump_gradients.parse(
        ["--model", "gpt", "--size", "tiny", "--device", "cpu", "--batch", "2", "--out", "unused",
         *arguments]))
    for step in range(3):
        training.advance(step)
    inputs, targets = training.batch(3)

    def gradient(*batch):
        training.gradient(*batch)
        return np.concatenate([p.grad.numpy().ravel() for p in training.model.parameters()])

    np.testing.assert_array_equal(rows[1], gradient(inputs[2:4], targets[2:4]))
    whole = gradient(inputs, targets)
    np.testing.assert_allclose(rows.mean(axis=0), whole, rtol=0, atol=1e-5 * np.abs(whole).max())


def test_the_same_seed_gives_the_same_bytes_for_any_list_of_steps(tmp_path):
    for folder, steps, seed in (("a", "3", 7), ("b", "0,1,3", 7), ("c", "3", 8)):
        assert run(tmp_path / folder, "--steps", steps, "--seed", str(seed), "--ranks", "2") == 0
    a, b, c = ((tmp_path / folder / "gpt_3.npy").read_bytes() for folder in "abc")
    assert a == b
    assert a != c


def test_the_loss_falls(tmp_path, capsys):
    assert run(tmp_path, "--steps", "0,40", "--batch", "8") == 0
    losses = [float(line.split("validation loss ")[1].split(",")[0])
              for line in capsys.readouterr().out.splitlines() if "validation loss" in line]
    assert len(losses) == 2
    assert losses[1] < losses[0] - 0.3


def test_the_resnet_matches_the_example_shapes(tmp_path):
    model = Resnet("18", None, 1).make_model()
    assert sum(p.numel() for p in model.parameters()) == 11_220_132
    write_shapes(model, tmp_path / "shapes.json", name="resnet18_cifar100")
    assert (tmp_path / "shapes.json").read_text() == SHAPES.read_text()


def test_cifar_images_are_cut_from_mosaics_with_rows_of_100(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    # Image i has the grey value 2 * (i % 100), plus 20 in the second row.
    grey = np.kron(2 * np.arange(100) + np.array([[0], [20]]), np.ones((32, 32)))
    mosaic = image.fromarray(grey.astype(np.uint8)).convert("RGB")
    for name in [*(f"train_{i}" for i in range(5)), "test"]:
        mosaic.save(tmp_path / f"cifar100_{name}.jpg", quality=100)
    cifar = Cifar100(tmp_path)
    assert cifar.training.pixels.shape == (1000, 32, 32, 3)
    assert abs(cifar.training.pixels[107].astype(int) - 34).max() <= 2
    images, labels = cifar.batch(np.random.default_rng(1), 5)
    assert images.shape == (5, 3, 32, 32)
    assert images.dtype == torch.float32
    assert labels.shape == (5,)


@pytest.mark.parametrize("arguments, words", [
    (["--steps", "50,many"], "'50,many' is not a list of steps"),
    (["--steps", "-1"], "is not a list of steps"),
    (["--ranks", "0"], "less than 1"),
    (["--size", "18"], "gpt has the sizes tiny, small, 25m"),
    (["--data", "images"], "--data is not valid"),
])
def test_invalid_options_are_rejected(tmp_path, capsys, arguments, words):
    try:
        status = run(tmp_path, *arguments)
    except SystemExit as error:  # from argparse
        status = error.code
    assert status == 2
    assert words in capsys.readouterr().err


def test_a_missing_data_directory_is_named(tmp_path, capsys):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    assert run(tmp_path, "--data", str(tmp_path / "none"), model="resnet") == 2
    assert str(tmp_path / "none") in capsys.readouterr().err


def test_too_little_disk_space_fails_before_training(tmp_path, capsys, monkeypatch):
    usage = SimpleNamespace(free=9)
    monkeypatch.setattr(dump_gradients.shutil, "disk_usage", lambda _: usage)
    assert run(tmp_path) == 2
    assert "pass fewer --steps or another --out" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [[[np.ones(3)]], [[np.ones(3)], [np.ones(4)]]])
def test_a_failed_dump_leaves_no_file(tmp_path, rows):
    with pytest.raises(ValueError):
        write_dump(tmp_path / "x.npy", "x", [("p", (3,))], 2, rows)
    assert list(tmp_path.iterdir()) == []
