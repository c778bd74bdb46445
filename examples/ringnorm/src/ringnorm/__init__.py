"""Normalisation layers, losses and metrics that agree across TensorFlow replicas."""

from ringnorm.layers import GroupNorm, RMSNorm, SyncBatchNorm
from ringnorm.losses import cosine_margin, focal, smoothed_cross_entropy
from ringnorm.metrics import RunningMean, TopKAccuracy
from ringnorm.reduce import global_mean, global_moments
from ringnorm.training import Momentum, train_step

__version__ = "0.4.1"

__all__ = [
    "GroupNorm",
    "Momentum",
    "RMSNorm",
    "RunningMean",
    "SyncBatchNorm",
    "TopKAccuracy",
    "cosine_margin",
    "focal",
    "global_mean",
    "global_moments",
    "smoothed_cross_entropy",
    "train_step",
]
