"""MLflow: one run of an experiment for each run, at MLFLOW_TRACKING_URI or in MLflow's local store."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vaescope.runs.record import COMPLETE, FAILED
from vaescope.runs.recorded_row import RecordedRow
from vaescope.runs.trackers.tracker import TRACKERS, RunEnd, RunStart, Tracker, required

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "vaescope"
TAG = "vaescope.run"  # by which the run is found when it resumes
STATUSES = {COMPLETE: "FINISHED", FAILED: "FAILED"}  # of an interrupted run: KILLED


@TRACKERS.register("mlflow", summary="a run of an MLflow experiment, at MLFLOW_TRACKING_URI or in a local store")
@dataclass(frozen=True)
class MLflow(Tracker):
    """A run of an MLflow experiment.

    Attributes:
        experiment: Default: MLFLOW_EXPERIMENT_NAME if it is set, else 'vaescope'.
        tracking_uri: Where MLflow keeps its runs; default: MLflow's own choice, which MLFLOW_TRACKING_URI sets.
    """

    experiment: str | None = None
    tracking_uri: str | None = None

    def check(self) -> None:
        """Raise an error unless mlflow is installed."""
        required("mlflow")

    def start(self, run: RunStart) -> MLflowSession:
        """Make a run with the settings as parameters, or reopen the one that has the tag of this run."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        client = MlflowClient(self.tracking_uri)
        name = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        known = client.get_experiment_by_name(name)
        experiment = client.create_experiment(name) if known is None else known.experiment_id
        found = client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{run.id}'", max_results=1)
        if not found:
            made = client.create_run(experiment, run_name=run.id, tags={TAG: run.id})
            parameters = [Param(name, str(value)) for name, value in run.settings.items()]
            client.log_batch(made.info.run_id, params=parameters)
            return MLflowSession(client, made.info.run_id, {})
        own: str = found[0].info.run_id
        client.update_run(own, status="RUNNING")
        last = {key: max(one.step for one in client.get_metric_history(own, key)) for key in found[0].data.metrics}
        return MLflowSession(client, own, last)


@dataclass(frozen=True)
class MLflowSession:
    """A run in MLflow.

    Attributes:
        run: The id that MLflow gave the run.
        last: The last step of each metric that an earlier session logged; MLflow would keep a second value.
    """

    client: MlflowClient
    run: str
    last: dict[str, int]

    def log(self, row: RecordedRow) -> None:
        """Log each number of the row at its step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = {name: value for name, value in row.numbers.items() if row.step > self.last.get(name, -1)}
        self.client.log_batch(self.run, metrics=[Metric(name, value, now, row.step) for name, value in new.items()])

    def finish(self, end: RunEnd) -> None:
        """Tag the run with how it ended, and close it."""
        for name, value in end.facts().items():
            self.client.set_tag(self.run, f"vaescope.{name}", str(value))
        self.client.set_terminated(self.run, STATUSES.get(end.status, "KILLED"))
