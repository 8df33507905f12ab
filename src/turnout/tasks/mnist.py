"""MNIST: 70,000 handwritten digits of 28 × 28 grey pixels (LeCun and Cortes)."""

from turnout.tasks.data.data_task import DataTask
from turnout.tasks.data.idx import IdxSet
from turnout.tasks.data.image_task import Colours, ImageOptions, Images, image_task
from turnout.tasks.data.shared_arguments import with_arguments_of

COLOURS = Colours((0.1307,), (0.3081,))
IMAGES = IdxSet(
    "mnist",
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"),
    checksums=(
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    ),
)


@with_arguments_of(ImageOptions)
def mnist(options: ImageOptions) -> DataTask:
    """Classify digits: 60,000 images to train and validate on, 10,000 to test.

    CA-Fed's papers have 100 clients by a Dirichlet law, or 24 iid clients in two groups with `swapped_pairs = 2`;
    FedACS has 20 clients of one class each. The arguments are explained in the docs on tasks.
    """
    return image_task(*load(), options, COLOURS)


def load() -> tuple[Images, Images]:
    """Training and test images, from TURNOUT_DATA/mnist or downloaded."""
    return IMAGES.load()
