"""From a plan to trained members: one or many at once, exactly resumable."""

from vaescope.training.checkpoint import write_atomically
from vaescope.training.optimisers import OPTIMISERS, Adagrad, Adam, AMSGrad, Optimiser
from vaescope.training.order import BatchOrder
from vaescope.training.plan import PRECISIONS, Member, Plan
from vaescope.training.state import HistoryRow, State
from vaescope.training.trainer import Trainer

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
    "write_atomically",
]
