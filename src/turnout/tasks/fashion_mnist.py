"""Fashion-MNIST: 70,000 pieces of clothing of 28 × 28 grey pixels, a drop-in for MNIST (Xiao et al. 2017)."""

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.idx import IdxSet
from turnout.tasks.data.image_task import Colours, ImageOptions, Images, image_task
from turnout.tasks.data.shared_arguments import with_arguments_of

COLOURS = Colours((0.2860,), (0.3530,))
IMAGES = IdxSet(
    "fashion_mnist",
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    checksums=(
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
)


@with_arguments_of(ImageOptions)
def fashion_mnist(options: ImageOptions) -> DataTask:
    """Classify clothing: 60,000 images to train and validate on, 10,000 to test; the arguments are those of `mnist`."""
    return image_task(*load(), options, COLOURS)


def load() -> tuple[Images, Images]:
    """Training and test images, from TURNOUT_DATA/fashion_mnist or downloaded."""
    return IMAGES.load()
