"""Text that makes a pattern or a search go over it again and again: each of these took minutes to
years, in which nothing else of the process ran. There is no clock here: what is wrong does not end.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from providers import (
    crusoe,
    cudo,
    databasemart,
    digitalocean,
    gcp,
    hyperbolic,
    hyperstack,
    lambdacloud,
    salad,
    shadeform,
    verda,
)
from providers._flight import objects
from providers._rows import without_cut_end
from providers.aws.spot import interruption_percent
from tracker.http import guard
from tracker.provider import FetchError, ParseError, Payload

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ROW = '{"cloud":"x","a":'


def payload(body: Any) -> Payload:
    text = body if isinstance(body, str) else json.dumps(body)
    return Payload("", text.encode(), NOW)


@pytest.mark.parametrize("expect", ["json", "text"])
def test_comments_before_what_is_no_page_are_read_once(expect: guard.Expect) -> None:
    comments = b"<!---->" * 200
    with pytest.raises(FetchError, match=r"where (JSON|text) was due"):
        guard.check_start(comments + b" <html>", "text/plain", expect)
    if expect == "text":
        guard.check_start(comments + b"a,b", "text/plain", expect)
    else:
        with pytest.raises(FetchError, match="XML document where JSON was due"):
            guard.check_start(comments + b"<rows>", "text/plain", expect)


@pytest.mark.parametrize("between", ["", "[" + "1," * 800])
def test_objects_within_objects_that_never_end_are_read_once(between: str) -> None:
    assert list(objects((ROW + between) * (900 if between else 500_000), '{"cloud":"')) == []
    whole = f"{ROW}1}}"
    assert (
        list(objects(f"{whole},{ROW * 3}?,{whole}", '{"cloud":"')) == [{"cloud": "x", "a": 1}] * 2
    )


def test_objects_within_an_object_are_a_part_of_it() -> None:
    assert list(objects(f'{ROW}{ROW}1}}}}, {ROW}2}}', '{"cloud":"')) == [
        {"cloud": "x", "a": {"cloud": "x", "a": 1}}, {"cloud": "x", "a": 2},
    ]  # fmt: skip


def test_a_label_of_digits() -> None:
    label = "1" * 2_000_000
    answer = {"ranges": [{"index": 0, "label": label, "max": 100}], "spot_advisor": {}}
    assert interruption_percent(payload(answer)) == {}


def test_a_description_of_a_gpu_without_end() -> None:
    sku = {"description": "Nvidia L4 GPU" + " in a" * 200_000 + ":", "serviceRegions": ["x"],
           "category": {"resourceGroup": "GPU", "usageType": "OnDemand"}}  # fmt: skip
    parsed = gcp.provider.parse([payload({"skus": [sku]})])
    assert [r.reason for r in parsed.rejected] == ["description is too long to be one"]


def test_a_line_of_open_data_without_end() -> None:
    with pytest.raises(ParseError, match="line 3"):
        gcp.provider.parse([payload("---\nabout:\n  timestamp: 1" + " " * 2_000_000 + "x\n")])


def test_a_place_of_digits() -> None:
    row = {"cloud": "x", "shade_instance_type": "y", "hourly_price": 100, "configuration": {
        "gpu_type": "H100", "num_gpus": 1},
        "availability": [{"region": "r", "display_name": "1" * 2_000_000 + "x"}]}  # fmt: skip
    (offer,) = shadeform.provider.parse([payload({"instance_types": [row]})]).offers
    assert (offer.region, offer.country) == ("r", None)


def test_a_cell_of_commas() -> None:
    page = (
        '<html><h2 id="on-demand-gpu-droplet-pricing"></h2><table><tr><td>{}</td>'
        "<td>$3.39 per hour</td></tr><tr><td>NVIDIA H100</td><td>$3.39 per hour</td></tr></table>"
        "</html>"
    )
    parsed = digitalocean.provider.parse([payload(page.format("a," * 1_000_000 + "("))])
    assert [o.source_id for o in parsed.offers] == ["NVIDIA H100 on_demand"]
    assert len(parsed.rejected) == 1


@pytest.mark.parametrize(
    "module", [crusoe, databasemart, digitalocean, hyperstack, lambdacloud, verda]
)
def test_elements_within_elements_without_end(module: Any) -> None:
    with pytest.raises(ParseError, match="nested too deeply"):
        module.provider.parse([payload("<html><body>" + "<div>" * 1_000_000 + "</html>")])


def test_many_elements_beside_one_another_are_a_page() -> None:
    for one in ("<div></div>", "<br>", "<p>a</p><img>", "</p>"):
        page = f"<html>{one * 30_000}</html>"
        assert without_cut_end(page) == page.removesuffix("</html>")


def test_millions_of_rows_of_nothing() -> None:
    for module, field in ((hyperbolic, ""), (salad, "items"), (cudo, "machineTypes")):
        rows = "[" + "{}," * 300_000 + "{}]"
        answer = f'{{"{field}": {rows}}}' if field else rows
        with pytest.raises(ParseError, match="300,001 rows: no list of machines"):
            module.provider.parse([payload(answer)])
