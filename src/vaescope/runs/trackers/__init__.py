"""Trackers: TensorBoard, MLflow and Weights & Biases show runs while they train; each package loads when it is used."""

from vaescope.runs.trackers.mlflow import MLflow
from vaescope.runs.trackers.tensorboard import TensorBoard
from vaescope.runs.trackers.tracker import TRACKERS, RunEnd, RunStart, Tracker, TrackerSession
from vaescope.runs.trackers.wandb import WandB

__all__ = ["TRACKERS", "MLflow", "RunEnd", "RunStart", "TensorBoard", "Tracker", "TrackerSession", "WandB"]
