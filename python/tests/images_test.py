"""All supported folder formats give the same images; other folders raise an error with the reason."""

import pickle

import numpy as np
import pytest
from coloured_images import CLASSES, coloured, write_npz
from neuron_fabric_lab.workloads import DataError, make_workload
from neuron_fabric_lab.workloads.cifar import Pixels, ResNet18, Size, mirrored
from neuron_fabric_lab.workloads.images import Images, read_images
from PIL import Image


def rows_of(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def test_the_original_files_are_read(tmp_path):
    images, labels = coloured(20, 1)
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-10-batches-py").mkdir()
    with open(tmp_path / "cifar-100-python" / "train", "wb") as file:
        pickle.dump({b"data": rows_of(images), b"fine_labels": labels.tolist()}, file)
    for number in range(1, 6):
        part = slice(4 * (number - 1), 4 * number)
        with open(tmp_path / "cifar-10-batches-py" / f"data_batch_{number}", "wb") as file:
            pickle.dump({b"data": rows_of(images[part]), b"labels": labels[part].tolist()}, file)
    for name, classes in (("cifar100", 100), ("cifar10", 10)):
        read = read_images(tmp_path, name, classes, "train")
        assert np.array_equal(read.pixels, images)
        assert np.array_equal(read.labels, labels)


def test_mosaics_are_read(tmp_path):
    images, _ = coloured(200, 2)
    for number in range(2):
        tiles = images[100 * number : 100 * (number + 1)].transpose(1, 0, 2, 3).reshape(32, 3200, 3)
        Image.fromarray(tiles).save(tmp_path / f"cifar10_train_{number}.jpg", quality=95)
    read = read_images(tmp_path, "cifar10", 10, "train")
    assert read.labels.tolist() == [i % 10 for i in range(200)]
    assert np.abs(read.pixels.astype(int).mean((1, 2)) - images.mean((1, 2))).max() < 3


def test_missing_and_damaged_files_are_reported(tmp_path):
    with pytest.raises(DataError, match="needs a folder"):
        make_workload("cifar100")
    with pytest.raises(DataError, match="is not a folder"):
        make_workload("cifar100", data=tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no train images of cifar100"):
        make_workload("cifar100", data=tmp_path)
    np.savez(tmp_path / "cifar10_train.npz", images=np.zeros((3, 8, 8, 3)), labels=np.zeros(3))
    with pytest.raises(DataError, match=r"images of shape \(3, 8, 8, 3\)"):
        make_workload("cifar10", data=tmp_path)
    np.savez(tmp_path / "cifar10_train.npz", images=np.zeros((3, 32, 32, 3)), labels=[1, 2, 10])
    with pytest.raises(DataError, match="labels from 1 to 10"):
        make_workload("cifar10", data=tmp_path)
    (tmp_path / "cifar10_train.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DataError, match="cifar10_train.npz"):
        make_workload("cifar10", data=tmp_path)
    (tmp_path / "cifar100_train_0.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="cifar100_train_0.jpg"):
        make_workload("cifar100", data=tmp_path)
    Image.new("RGB", (64, 32)).save(tmp_path / "cifar100_train_0.jpg")
    with pytest.raises(DataError, match="64 x 32 pixels, not rows of 100"):
        make_workload("cifar100", data=tmp_path)


@pytest.mark.parametrize(("images", "labels", "words"), [
    (0.5, [0, 1], "images of whole numbers from 0 to 255"), (256, [0, 1], "from 0 to 255"),
    (-1, [0, 1], "from 0 to 255"), (np.nan, [0, 1], "from 0 to 255"), (1.0, [0, 1.5], "labels that are whole")])
def test_invalid_pixels_and_labels_are_reported(tmp_path, images, labels, words):
    np.savez(tmp_path / "cifar10_train.npz", images=np.full((2, 32, 32, 3), images), labels=labels)
    with pytest.raises(DataError, match=f"cifar10_train.npz: .*{words}"):
        read_images(tmp_path, "cifar10", 10, "train")
    (tmp_path / "cifar-100-python").mkdir()
    with open(tmp_path / "cifar-100-python" / "train", "wb") as file:
        pickle.dump({b"data": np.full((2, 3072), images), b"fine_labels": labels}, file)
    with pytest.raises(DataError, match=f"train: .*{words}"):
        read_images(tmp_path, "cifar100", 100, "train")


def test_pixels_can_have_any_integer_type(tmp_path):
    images, labels = coloured(4, 1)
    np.savez(tmp_path / "cifar10_train.npz", images=images.astype(np.float32), labels=labels.astype(float))
    read = read_images(tmp_path, "cifar10", 10, "train")
    assert np.array_equal(read.pixels, images) and read.pixels.dtype == np.uint8
    assert np.array_equal(read.labels, labels) and read.labels.dtype == np.int64


def test_a_truncated_or_damaged_archive_is_reported(tmp_path):
    path = tmp_path / "cifar10_train.npz"
    images, labels = coloured(64, 1)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cifar10_train.npz: "):
        read_images(tmp_path, "cifar10", 10, "train")
    np.savez_compressed(path, images=images, labels=labels)
    whole = path.read_bytes()
    path.write_bytes(whole[:1000] + bytes(2000) + whole[3000:])
    with pytest.raises(DataError, match="cifar10_train.npz: "):
        read_images(tmp_path, "cifar10", 10, "train")


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps({b"labels": [1]}),
                                     pickle.dumps({b"data": np.zeros((2, 7)), b"fine_labels": [1, 2]})])
def test_a_damaged_pickle_is_reported(tmp_path, content):
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "train").write_bytes(content)
    with pytest.raises(DataError, match="cifar-100-python/train: "):
        read_images(tmp_path, "cifar100", 100, "train")


def test_a_pickle_that_runs_code_is_rejected(tmp_path):
    class Trap:
        def __reduce__(self):
            return print, ("it ran",)

    (tmp_path / "cifar-100-python").mkdir()
    with open(tmp_path / "cifar-100-python" / "train", "wb") as file:
        pickle.dump({b"data": Trap()}, file)
    with pytest.raises(DataError, match="asks for builtins.print"):
        read_images(tmp_path, "cifar100", 100, "train")


def test_crops_keep_the_colour_of_the_class(tmp_path):
    workload = make_workload("cifar10", "tiny", write_npz(tmp_path, "cifar10"))
    images, labels = next(workload.batches(0, 1, seed=3))
    means = (images.numpy().transpose(0, 2, 3, 1) * workload.deviation + workload.mean).mean((1, 2))
    expected = np.stack([labels % 2, labels // 2 % 2, labels // 4], axis=1) * 120 + 60
    assert np.abs(means - expected).max() < 6
    assert set(labels.tolist()) == set(range(CLASSES))


def test_a_crop_is_a_part_of_its_image_mirrored_at_the_border():
    rows, columns = mirrored(np.array([[-4, 0], [31, 35]]))
    assert rows.tolist() == [4, 0]
    assert columns.tolist() == [31, 27]
    images, labels = coloured(3, 1)
    pixels = Pixels(Images(images, labels), np.zeros(3, np.float32), np.ones(3, np.float32))
    back = np.arange(32)[None, ::-1]
    cut, label = pixels.cut(np.array([2]), np.arange(32)[None], back)
    assert np.array_equal(cut[0].permute(1, 2, 0).numpy(), images[2, :, ::-1])
    assert label.tolist() == [labels[2]]


def test_the_network_has_the_published_size():
    assert sum(p.numel() for p in ResNet18(100, Size(64)).parameters()) == 11_220_132


def test_a_large_classifier_has_a_third_of_the_parameters():
    model = ResNet18(100, Size(64, hidden=8192))
    share = sum(p.numel() for p in model.fc.parameters()) / sum(p.numel() for p in model.parameters())
    assert 0.3 < share < 0.35
