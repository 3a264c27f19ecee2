"""From a plan to trained members: one or many at once, exactly resumable."""

from vaescope.training.batches import BatchOrder
from vaescope.training.checkpoint import State
from vaescope.training.optimisers import OPTIMISERS, Adagrad, Adam, AMSGrad, Optimiser
from vaescope.training.plan import PRECISIONS, Member, Plan
from vaescope.training.trainer import HistoryRow, Trainer

__all__ = [
    "OPTIMISERS",
    "PRECISIONS",
    "AMSGrad",
    "Adagrad",
    "Adam",
    "BatchOrder",
    "HistoryRow",
    "Member",
    "Optimiser",
    "Plan",
    "State",
    "Trainer",
]
