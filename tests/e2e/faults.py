"""Providers that fail in every way that providers do, and a stage of many of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.daemon.fleet import machines
from tests.daemon.world import COMMAND
from tests.e2e.stage import A100, DEAR, Inbox, Mailbox, Stage
from tests.support.replay import Answer, ReplayServer, Request, json_answer

FAULTS = ("timeout", "500", "429", "truncated", "html", "empty")
MACHINES = 100  # that nobody asks for, but that must be recorded
SLOW_S = 7.0  # longer than the daemon waits


class Seller:
    """Answers as the provider *name*; ``fault`` is how it fails now, None when it does not."""

    def __init__(self, server: ReplayServer, name: str, seed: int) -> None:
        self.fault: str | None = None
        self.h100 = DEAR
        self._rng = random.Random(seed)  # noqa: S311
        self.end = threading.Event()
        server.handle("GET", f"/{name}", self._answer)

    def _answer(self, _: Request) -> Answer:
        if self.fault == "timeout":
            self.end.wait(SLOW_S)
        if self.fault in ("500", "timeout"):
            return Answer(b"no", 500)
        if self.fault == "429":
            return json_answer({"error": "slow down"}, 429, retry_after="2")
        if self.fault == "html":
            return Answer(b"<html>We are busy</html>", 200, {"content-type": "text/html"})
        if self.fault == "empty":
            return json_answer([])
        whole = json_answer([*machines(self.h100, A100), *self._others()])
        if self.fault == "truncated":
            return Answer(whole.body[: len(whole.body) // 2], 200, whole.headers)
        return whole

    def _others(self) -> list[dict[str, object]]:
        return [
            {"id": f"r{number}", "gpu": "RTX 4090", "vram_gb": 24,
             "usd": f"{self._rng.uniform(0.40, 0.44):.4f}"}
            for number in range(MACHINES)
        ]  # fmt: skip


class Market(Stage):
    """A stage with a ``Seller`` for each provider but the one called *hanging*, whose server is
    at *hanging_url*. Its daemons are not hurried."""

    def __init__(
        self, folder: Path, server: ReplayServer, names: Sequence[str], hook: Inbox, mail: Mailbox,
        *, rule: str, hanging: str, hanging_url: str,
    ) -> None:  # fmt: skip
        self.sellers = {
            name: Seller(server, name, seed)
            for seed, name in enumerate(names)
            if name != hanging
        }  # fmt: skip
        self._hanging, self._hanging_url = hanging, hanging_url
        super().__init__(folder, server, names, hook, mail, rule=rule)
        self.command = [str(COMMAND)]

    def configure(self, more: str = "", **tables: str) -> None:
        """As in a stage; one provider has a server of its own."""
        super().configure(more, **tables)
        own = f'[providers.{self._hanging}]\nbase_url = "{self.server.url}"'
        text = self.config.read_text()
        assert own in text
        self.config.write_text(text.replace(own, own.replace(self.server.url, self._hanging_url)))

    def ask(self, h100: str) -> None:
        """As in a stage; the sellers go on failing as they do."""
        for seller in self.sellers.values():
            seller.h100 = h100
