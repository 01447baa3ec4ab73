"""The composition root: settings, database, catalogue, jobs and collector, wired in one place."""

from tracker.app.jobs import job_names
from tracker.app.polled import enabled
from tracker.app.root import App, NothingRecorded

__all__ = ["App", "NothingRecorded", "enabled", "job_names"]
