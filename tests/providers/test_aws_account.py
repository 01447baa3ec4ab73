"""AWS: what is asked of EC2 with credentials, and that these go nowhere else."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import ANY, Stubber

from providers.aws import account, parse, provider
from providers.aws.account import credentials_likely, spot_by_zone
from providers.aws.config import AwsConfig
from providers.aws.instances import instance_types
from providers.aws.zones import error_code
from tests.support.replay import Answer, ReplayServer, Request
from tracker.provider import Payload

METHOD = "describe_spot_price_history"
SINCE = datetime(2026, 11, 1, 3, 4, 5, tzinfo=UTC)
NO_MACHINE = Path("/nowhere")


def row(zone: str, price: str, name: str = "p4d.24xlarge") -> dict[str, Any]:
    return {
        "AvailabilityZone": zone, "AvailabilityZoneId": f"id-az{ord(zone[-1]) - 96}",
        "InstanceType": name, "ProductDescription": "Linux/UNIX", "SpotPrice": price,
        "Timestamp": SINCE,
    }  # fmt: skip


def page(*rows: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"SpotPriceHistory": list(rows), "NextToken": token}


def client(region: str) -> Any:
    keys = {"aws_access_key_id": "AKIAPLANTED", "aws_secret_access_key": "planted-secret"}
    return boto3.client("ec2", region_name=region, **keys)


class Ec2:
    """Stubbed clients that answer with the pages, or error codes, of their region."""

    def __init__(self, **answers: list[dict[str, Any]] | str) -> None:
        self.answers = {name.replace("_", "-"): found for name, found in answers.items()}
        self.stubs: list[Stubber] = []

    def __call__(self, region: str) -> Any:
        made = client(region)
        stub = Stubber(made)
        found = self.answers[region]
        if isinstance(found, str):
            message = "User: arn:aws:iam::123456789012:user/planted is not authorized"
            stub.add_client_error(METHOD, found, message, http_status_code=401)
        token = ""
        for answer in found if isinstance(found, list) else ():
            asked = {
                "StartTime": ANY, "ProductDescriptions": ["Linux/UNIX"], "MaxResults": 1000,
                "Filters": [{"Name": "instance-type", "Values": sorted(instance_types())}],
            }  # fmt: skip
            stub.add_response(METHOD, answer, asked | ({"NextToken": token} if token else {}))
            token = answer["NextToken"]
        stub.activate()
        self.stubs.append(stub)
        return made

    def all_asked(self) -> bool:
        for stub in self.stubs:
            stub.assert_no_pending_responses()
        return len(self.stubs) == len(self.answers)


def ask(clients: Callable[[str], Any], *regions: str, **more: float) -> list[Payload]:
    return asyncio.run(spot_by_zone(regions, clients, **more))


def test_each_region_is_asked_for_the_prices_in_force() -> None:
    ec2 = Ec2(
        us_east_2=[page(row("us-east-2a", "6.03"), row("us-east-2c", "21.8"))],
        eu_west_1=[page(row("eu-west-1b", "9.1", "g6.xlarge"))],
    )
    before = datetime.now(UTC) - timedelta(seconds=2)
    payloads = ask(ec2, "us-east-2", "eu-west-1")
    assert ec2.all_asked()
    parsed = parse(payloads)
    assert parsed.complete
    assert {(o.region, o.price.amount) for o in parsed.offers} == {
        ("us-east-2/id-az1", Decimal("6.03")), ("us-east-2/id-az3", Decimal("21.8")),
        ("eu-west-1/id-az2", Decimal("9.1")),
    }  # fmt: skip
    for kept in payloads:
        asked = json.loads(kept.request_body)
        assert before <= datetime.fromisoformat(asked["StartTime"]) <= datetime.now(UTC)
        assert kept.status == 200


def test_all_pages_are_followed() -> None:
    zones = "abcdef"
    pages = [
        page(row(f"us-east-1{zone}", f"{n + 1}.5"), token="" if zone == "f" else f"after {zone}")
        for n, zone in enumerate(zones)
    ]
    ec2 = Ec2(us_east_1=pages)
    parsed = parse(ask(ec2, "us-east-1"))
    assert ec2.all_asked()
    assert len(parsed.offers) == len(zones)
    assert parsed.complete


def test_pages_without_end_are_cut_and_said() -> None:
    pages = [page(row("us-east-1a", f"{n + 1}.5"), token=f"page {n}") for n in range(30)]
    for n, answer in enumerate(pages):
        answer["SpotPriceHistory"][0]["Timestamp"] = SINCE + timedelta(days=n)
    parsed = parse(ask(Ec2(us_east_1=pages), "us-east-1"))
    assert [o.price.amount for o in parsed.offers] == [Decimal(account.MAX_PAGES) + Decimal("0.5")]
    assert not parsed.complete
    assert "go on beyond what was read" in str(parsed.incomplete_reason)


def test_a_page_that_only_repeats_itself_is_the_last() -> None:
    pages = [page(row("us-east-1a", "6.5"), token=f"page {n}") for n in range(30)]
    parsed = parse(ask(Ec2(us_east_1=pages), "us-east-1"))
    assert len(parsed.offers) == 1
    assert parsed.complete


def test_an_empty_page_on_the_way_is_not_the_end() -> None:
    ec2 = Ec2(us_east_1=[page(token="go on"), page(row("us-east-1a", "6.5"))])
    assert len(parse(ask(ec2, "us-east-1")).offers) == 1
    assert ec2.all_asked()


@pytest.mark.parametrize("code", ["AuthFailure", "OptInRequired", "RequestLimitExceeded"])
def test_of_an_error_only_the_code_is_kept(code: str) -> None:
    ec2 = Ec2(us_east_1=code, us_east_2=[page(row("us-east-2a", "6.03"))])
    failed, answered = ask(ec2, "us-east-1", "us-east-2")
    assert (failed.status, error_code(failed)) == (401, code)
    assert len(parse([failed, answered]).offers) == 1
    for kept in (failed, answered):
        text = f"{kept}"
        assert "planted" not in text
        assert "123456789012" not in text
        assert "AKIA" not in text


@pytest.mark.parametrize(
    "echoed", ["AKIAPLANTED", "planted-secret", "IQoJb3JpZ2luPLANTED7890", "Credential=A/ec2"]
)
def test_a_credential_that_is_sent_back_as_the_code_is_not_repeated(echoed: str) -> None:
    ec2 = Ec2(us_east_1=echoed, us_east_2=[page(row("us-east-2a", "6.03"))])
    failed, _ = ask(ec2, "us-east-1", "us-east-2")
    assert (failed.status, error_code(failed)) == (401, "ClientError")


@pytest.mark.parametrize(
    ("error", "code"),
    [(EndpointConnectionError(endpoint_url="https://ec2.test/planted"), "EndpointConnectionError"),
     (NoCredentialsError(), "NoCredentialsError"), (RuntimeError("planted"), "RuntimeError")],
)  # fmt: skip
def test_whatever_is_raised_is_one_regions_trouble(error: Exception, code: str) -> None:
    good = Ec2(us_east_2=[page(row("us-east-2a", "6.03"))])

    def clients(region: str) -> Any:
        if region == "us-east-1":
            raise error
        return good(region)

    failed, answered = ask(clients, "us-east-1", "us-east-2")
    assert (failed.status, error_code(failed)) == (0, code)
    assert "planted" not in str(failed)
    assert answered.status == 200


def test_a_region_that_does_not_answer_holds_nobody_up() -> None:
    over = threading.Event()

    class Stuck:
        def describe_spot_price_history(self, **_: Any) -> Any:
            over.wait(30)
            return page()

    good = Ec2(us_east_2=[page(row("us-east-2a", "6.03"))])("us-east-2")
    try:
        failed, answered = ask(
            lambda region: Stuck() if region == "us-east-1" else good,
            "us-east-1", "us-east-2", total_seconds=1,
        )  # fmt: skip
        threads = [thread for thread in threading.enumerate() if thread.name == "aws-spot"]
        assert threads
        assert all(thread.daemon for thread in threads), "or the program would not end"
    finally:
        over.set()
    for thread in threads:
        thread.join(10)  # whose answer nobody waits for: that is no error either
    assert error_code(failed) == account.TIMED_OUT
    assert len(parse([answered]).offers) == 1


def test_without_boto3_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "installed", lambda: False)
    payloads = asyncio.run(spot_by_zone(["us-east-1", "us-east-2"]))
    assert [error_code(kept) for kept in payloads] == [account.NOT_INSTALLED] * 2


# boto3's own chain, for once against a server


_ANSWER = b"""<?xml version="1.0" encoding="UTF-8"?>
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<spotPriceHistorySet><item><instanceType>p5.4xlarge</instanceType>
<productDescription>Linux/UNIX</productDescription><spotPrice>2.810000</spotPrice>
<timestamp>2026-11-01T03:04:05.000Z</timestamp><availabilityZone>us-east-1a</availabilityZone>
<availabilityZoneId>use1-az4</availabilityZoneId></item></spotPriceHistorySet><nextToken/>
</DescribeSpotPriceHistoryResponse>"""


def _served(monkeypatch: pytest.MonkeyPatch, server: ReplayServer) -> list[Payload]:
    def answer(_: Request) -> Answer:
        return Answer(_ANSWER, 200, {"content-type": "text/xml"})

    server.handle("POST", "/", answer)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", server.url)
    return asyncio.run(spot_by_zone(["us-east-1"]))


def test_credentials_from_variables_sign_the_request_and_stay_out_of_log_and_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPLANTED")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "planted-token")
    caplog.set_level(logging.DEBUG)
    with ReplayServer() as server:
        (kept,) = _served(monkeypatch, server)
        (request,) = server.requests
    assert "Credential=AKIAPLANTED/" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "planted-token"
    assert b"Action=DescribeSpotPriceHistory" in request.body
    (offer,) = parse([kept]).offers
    assert (offer.region, offer.price.amount) == ("us-east-1/use1-az4", Decimal("2.81"))
    for text in (caplog.text, f"{kept}"):
        assert "planted" not in text
        assert "AKIA" not in text


def test_a_profile_is_read_and_one_that_is_not_there_is_named_by_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[prices]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = planted-secret\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "prices")
    with ReplayServer() as server:
        assert len(parse(_served(monkeypatch, server)).offers) == 1
        assert "Credential=AKIAPROFILE/" in server.requests[0].headers["authorization"]
        monkeypatch.setenv("AWS_PROFILE", "gone")
        (failed,) = _served(monkeypatch, server)
    assert error_code(failed) == "ProfileNotFound"


def test_where_nothing_is_found_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplayServer() as server:
        (failed,) = _served(monkeypatch, server)
        assert not server.requests
    assert error_code(failed) == account.NO_CREDENTIALS


# Whether there is anything to find, without looking


@pytest.mark.parametrize(
    "variable",
    ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
     "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"],
)  # fmt: skip
def test_a_variable_may_mean_credentials(variable: str) -> None:
    nothing = {"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    assert not credentials_likely(nothing, NO_MACHINE)
    assert not credentials_likely({**nothing, variable: ""}, NO_MACHINE)
    assert credentials_likely({**nothing, variable: "x"}, NO_MACHINE)


def test_a_file_may_mean_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not credentials_likely({}, NO_MACHINE)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\n")
    assert credentials_likely({}, NO_MACHINE)
    (tmp_path / "elsewhere").write_text("")
    named = {"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": f"{tmp_path}/elsewhere"}
    assert credentials_likely(named, NO_MACHINE)


@pytest.mark.parametrize(
    ("file", "says", "likely"),
    [("sys_vendor", "Amazon EC2\n", True), ("bios_version", "4.11.amazon\n", True),
     ("sys_vendor", "QEMU\n", False)],
)  # fmt: skip
def test_an_ec2_machine_may_have_a_role(tmp_path: Path, file: str, says: str, likely: bool) -> None:
    (tmp_path / file).write_text(says)
    nothing = {"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    assert credentials_likely(nothing, tmp_path) is likely
    assert not credentials_likely({**nothing, "AWS_EC2_METADATA_DISABLED": "TRUE"}, tmp_path)


def test_the_doctor_is_told_whether_there_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provider.key_set is not None
    assert not provider.key_set(AwsConfig())
    assert not provider.key_set(AwsConfig(spot_source="account"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPLANTED")
    assert provider.key_set(AwsConfig())
    assert not provider.key_set(AwsConfig(spot_source="page"))
    monkeypatch.setattr(account, "installed", lambda: False)
    assert not provider.key_set(AwsConfig())
    assert not provider.key_set(AwsConfig(spot_source="account"))
