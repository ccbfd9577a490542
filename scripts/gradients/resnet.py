"""A ResNet-18 for 32x32 images of 100 classes, with torchvision's parameter names and a 3x3 stem."""

import numpy as np
import torch
from neuron_fabric_lab.workloads.images import read_images
from torch import nn
from torch.nn import functional

CLASSES = 100
CIFAR_MEAN = np.array([0.507, 0.487, 0.441], dtype=np.float32)
CIFAR_DEVIATION = np.array([0.267, 0.256, 0.276], dtype=np.float32)


def convolution(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


# Always uses the statistics of the current batch: for a dump, those of the worker, as in DDP.
def norm(width):
    return nn.BatchNorm2d(width, track_running_stats=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.bn1 = norm(outputs)
        self.conv2 = convolution(outputs, outputs, 3)
        self.bn2 = norm(outputs)
        self.downsample = nn.Identity()
        if inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), norm(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.downsample(x))


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = convolution(3, width, 3)
        self.bn1 = norm(width)
        self.layer1 = self.layer(width, width, 1)
        self.layer2 = self.layer(width, 2 * width, 2)
        self.layer3 = self.layer(2 * width, 4 * width, 2)
        self.layer4 = self.layer(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, CLASSES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def layer(inputs, outputs, stride):
        return nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1))

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class SyntheticImages:
    """One coarse random pattern per class, randomly shifted, plus noise."""

    description = "synthetic images"
    noise = 2

    def __init__(self, seed):
        coarse = np.random.default_rng(seed).standard_normal((CLASSES, 3, 8, 8), dtype=np.float32)
        self.patterns = coarse.repeat(4, axis=2).repeat(4, axis=3)

    def batch(self, rng, count):
        labels = rng.integers(CLASSES, size=count)
        shifted = (rng.integers(-4, 5, size=(2, count, 1)) + np.arange(32)) % 32
        images = self.patterns[labels[:, None, None, None], np.arange(3)[:, None, None],
                               shifted[0][:, None, :, None], shifted[1][:, None, None, :]]
        images += self.noise * rng.standard_normal(images.shape, dtype=np.float32)
        return torch.from_numpy(images), torch.from_numpy(labels)

    validation = batch  # every image is new, so no images need to be held back


class Cifar100:
    """CIFAR-100 from a directory, in any format of `nf train cifar100`."""

    def __init__(self, folder):
        self.training, self.held_back = (read_images(folder, "cifar100", CLASSES, split)
                                         for split in ("train", "test"))
        self.description = (f"{len(self.training.labels):,} images of CIFAR-100 for training, "
                            f"{len(self.held_back.labels):,} for validation")

    def batch(self, rng, count):
        return self.sample(self.training, rng, count)

    def validation(self, rng, count):
        return self.sample(self.held_back, rng, count)

    @staticmethod
    def sample(images, rng, count):
        chosen = rng.integers(len(images.labels), size=count)
        values = (images.pixels[chosen].astype(np.float32) / 255 - CIFAR_MEAN) / CIFAR_DEVIATION
        values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        return torch.from_numpy(values), torch.from_numpy(images.labels[chosen])


class Resnet:
    """The workload of Training for the ResNet."""

    name = "resnet"
    sizes = {"tiny": 8, "18": 64}  # width of the first layer
    default_size = "18"
    default_steps = [20, 300]
    default_batch = 32
    takes_data = True

    def __init__(self, size, data, seed):
        self.width = self.sizes[size]
        images = Cifar100(data) if data else SyntheticImages(seed)
        self.description = images.description
        self.batch = images.batch
        self.validation = images.validation

    def make_model(self):
        return Model(self.width)

    def make_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)

    def rate(self, step):
        return 1
