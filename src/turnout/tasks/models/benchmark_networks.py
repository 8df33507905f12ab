"""The networks that image benchmarks of the field use, with group norm in place of batch norm."""

from turnout.tasks.models.blocks import Depthwise, GlobalAverage, GroupNorm, Residual
from turnout.tasks.models.layers import Conv, Dense, Layer, Pool, Relu


def _normed(convolution: Layer) -> tuple[Layer, ...]:
    return convolution, GroupNorm(), Relu()


def _conv(channels: int, size: int = 3, stride: int = 1) -> Conv:
    return Conv(channels, size, size // 2, stride, bias=False)


def _block(before: int, channels: int, stride: int) -> tuple[Layer, ...]:
    """Two convolutions with a shortcut, which is a convolution of one pixel where the shape changes."""
    inner = (*_normed(_conv(channels, stride=stride)), _conv(channels), GroupNorm())
    same = stride == 1 and before == channels
    return Residual(inner, () if same else (_conv(channels, 1, stride), GroupNorm())), Relu()


def _residual(num_classes: int, widths: tuple[int, ...], blocks: int) -> tuple[Layer, ...]:
    layers, before = _normed(_conv(widths[0])), widths[0]
    for stage, width in enumerate(widths):
        for number in range(blocks):
            layers = (*layers, *_block(before, width, 2 if stage and not number else 1))
            before = width
    return (*layers, GlobalAverage(), Dense(num_classes, last=True))


def resnet8(num_classes: int) -> tuple[Layer, ...]:
    """He et al. 2016's network of 6 n + 2 layers for CIFAR-10 with n = 1: three blocks of 16, 32 and 64 channels."""
    return _residual(num_classes, (16, 32, 64), 1)


def resnet18(num_classes: int) -> tuple[Layer, ...]:
    """ResNet-18 as it is used on small images: a first convolution of 3 × 3 and no pooling, then eight blocks."""
    return _residual(num_classes, (64, 128, 256, 512), 2)


def mobilenet(num_classes: int) -> tuple[Layer, ...]:
    """A short MobileNet (Howard et al. 2017): depthwise convolutions, each followed by one of one pixel."""
    layers = _normed(_conv(32))
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
        layers = (*layers, *_normed(Depthwise(stride=stride, bias=False)), *_normed(_conv(width, 1)))
    return (*layers, GlobalAverage(), Dense(num_classes, last=True))


def convnet4(num_classes: int) -> tuple[Layer, ...]:
    """Four convolutions of 64 channels, each with a norm, ReLU and pooling, and a linear map (Vinyals et al. 2016)."""
    layers = (*_normed(_conv(64)), Pool()) * 4
    return (*layers, Dense(num_classes, last=True))


NETWORKS = (convnet4, resnet8, resnet18, mobilenet)
