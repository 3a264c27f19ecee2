"""From a plan to trained members: one or many at once, exactly resumable."""

from vaescope.training.engines import State
from vaescope.training.optimisers import OPTIMISERS, Adagrad, Adam, AMSGrad
from vaescope.training.plan import PRECISIONS, Member, Plan
from vaescope.training.trainer import Row, Trainer

__all__ = [
    "OPTIMISERS",
    "PRECISIONS",
    "AMSGrad",
    "Adagrad",
    "Adam",
    "Member",
    "Plan",
    "Row",
    "State",
    "Trainer",
]
