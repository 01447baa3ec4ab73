"""What if one GPU were so many times as fast: the other one's bill is none of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.cli.harness import A100, H100, polled
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tests.web.pages.test_pages import link, page, text
from tests.web.pages.world import Pages, shop
from tracker.app.answers import Answers, Question
from tracker.domain.gpu import Gpu
from tracker.report.compare import Compared

PCIE = Gpu("A100-PCIE-80GB", "A100", "PCIE", 80)
JOBS = ("bert-large", "llama-3.1-8b-lora", "resnet-50")


@pytest.fixture(scope="module")
def parts(
    database_server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pages]:  # fmt: skip
    """A shop whose cheapest A100 is no SXM: the part that hours of the family are not for."""
    offers = [
        make_offer("h", "2.99", gpu=H100), make_offer("h8", "23.00", gpu=H100, gpu_count=8),
        make_offer("p", "1.19", gpu=PCIE), make_offer("a", "1.89", gpu=A100),
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("parts")
    with shop(database_server, folder, polled("acme", offers)) as served:
        yield served


def compared(parts: Pages, job: str) -> Compared:
    report = Answers(parts.app).compare(
        Question.of("compare", job=job, left="H100", right="A100")
    )  # fmt: skip
    assert report.compared is not None
    assert report.compared.right.offer.gpu_key == PCIE.key
    return report.compared


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("times", ["0.5", "1", "2", "3.2171", "20"])
def test_the_other_gpu_keeps_its_bill(parts: Pages, job: str, times: str) -> None:
    now = compared(parts, job)
    found = page(f"{parts.url}/break-even?job={job}&speed_up={times}")
    told = text(found, ".answer")
    right = f"${now.right.bill.at_least_usd:,.2f}"
    assert right in told, f"{told}: the {PCIE.key} costs {right}, whatever the H100 does"
    figures = text(found, "dl.figures")
    had = re.search(r"[Ss]peed-up had ?([0-9.]+)", figures)
    assert had is not None, figures
    assert Decimal(had[1]) == round(Decimal(times), 2)


@pytest.mark.parametrize("job", JOBS)
def test_as_fast_as_it_is_is_as_it_is(parts: Pages, job: str) -> None:
    now = compared(parts, job)
    as_it_is = text(page(f"{parts.url}/break-even?job={job}"), "dl.figures")
    same = page(f"{parts.url}/break-even?job={job}&speed_up={now.speed.had:.15f}")
    assert text(same, "dl.figures") == as_it_is


def test_programs_are_told_of_what_there_is(parts: Pages) -> None:
    found = page(f"{parts.url}/break-even?job=bert-large&speed_up=2")
    assert "speed_up" not in link(found, "JSON as it is")
    assert "as fast as the A100" in text(found, "label[for=f-speed-up]")
