"""Image augmentation with explicit randomness."""

from tinyaug.colour import brightness_jitter, contrast_jitter, grayscale
from tinyaug.cutout import cutout
from tinyaug.geometry import crop, random_crop, random_flip
from tinyaug.pipeline import Pipeline

__version__ = "1.2.0"

__all__ = [
    "Pipeline",
    "brightness_jitter",
    "contrast_jitter",
    "crop",
    "cutout",
    "grayscale",
    "random_crop",
    "random_flip",
]
