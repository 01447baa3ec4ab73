"""``gpucost alerts``: rules, what they say, and what becomes of their notices."""

from __future__ import annotations

import click

from tracker.cli.alerts.backtesting import backtest
from tracker.cli.alerts.checking import check
from tracker.cli.alerts.evaluating import eval_
from tracker.cli.alerts.past import history, outbox
from tracker.cli.alerts.quiet import ack, silence
from tracker.cli.alerts.showing import show
from tracker.cli.alerts.standing import list_
from tracker.cli.alerts.trying import test

__all__ = ["alerts"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def alerts() -> None:
    """Alert rules: how they stand, what they would say now, and their notices."""


for command in (list_, show, check, eval_, test, silence, ack, history, outbox, backtest):
    alerts.add_command(command)
