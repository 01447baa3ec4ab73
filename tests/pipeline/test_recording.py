"""A recording can be shown to anyone, and parses as the live answer did."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fixtures import Case, cases
from tracker import registry
from tracker.provider import ParseError, Payload, payload_from_dict, payload_to_dict
from tracker.report.recording import FORMAT, recording_of, strip

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CASES = [case for case in cases() if case.provider != "pricebook"]


@given(
    st.text(min_size=6, max_size=40).filter(lambda s: s.strip() == s and "REDACTED" not in s),
    st.text(max_size=50),
    st.text(max_size=50),
)
def test_a_secret_never_survives(secret: str, before: str, after: str) -> None:
    text = before + secret + after
    payload = Payload(url=f"https://api.example/?x={secret}", body=text.encode("utf-8", "replace"),
                      fetched_at=NOW, request_body=text.encode("utf-8", "replace"))  # fmt: skip
    shown = json.loads(json.dumps(recording_of("acme", [payload], [secret])))["payloads"][0]
    if secret.encode("utf-8", "replace").decode() == secret:
        for field in ("url", "body", "request_body"):
            assert secret not in shown[field].replace("REDACTED", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"public_ipaddr": "203.0.113.7", "x": 1}', '{"public_ipaddr": "REDACTED", "x": 1}'),
        ('{"host": "203.0.113.7"}', '{"host": "192.0.2.1"}'),
        ('{"api_key":"abc"}', '{"api_key":"REDACTED"}'),
        ('{"access_token" : "abc"}', '{"access_token" : "REDACTED"}'),
        ('{"driver_version": "590.48.01"}', '{"driver_version": "590.48.01"}'),
        ('{"price": "21.9576420000"}', '{"price": "21.9576420000"}'),
        ('{"hostname": "gpu7.lan"}', '{"hostname": "REDACTED"}'),
    ],
)
def test_addresses_and_credentials_go_and_the_rest_stays(text: str, expected: str) -> None:
    assert strip(text, []) == expected


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_recording_parses_as_the_live_answer(case: Case) -> None:
    provider, payloads = registry.load(case.provider), case.payloads()
    recording = json.loads(json.dumps(recording_of(case.provider, payloads, ["s3cr3t-key"])))
    assert recording["format"] == FORMAT
    again = [payload_from_dict(data) for data in recording["payloads"]]
    try:
        live = provider.parse(payloads)
    except ParseError as error:
        with pytest.raises(ParseError) as caught:
            provider.parse(again)
        assert caught.value.field == error.field
    else:
        recorded = provider.parse(again)
        assert recorded.offers == live.offers
        assert recorded.complete == live.complete


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_payload_survives_the_round_trip(body: bytes, request: bytes) -> None:
    payload = Payload("https://api.example/x", body, NOW, "POST",
                      request.decode("utf-8", "replace").encode(), 200, {"etag": "x"})  # fmt: skip
    assert payload_from_dict(json.loads(json.dumps(payload_to_dict(payload)))) == payload


@pytest.mark.parametrize(
    "data",
    [{}, {"body": "x"}, {"body": "x", "fetched_at": "yesterday"}, {"body": 1},
     {"body": "x", "fetched_at": "2026-11-30T12:00:00"}, {"body_base64": "%%%"}],
)  # fmt: skip
def test_what_is_no_recorded_payload_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"recorded payload|isoformat|time zone|base64|decod"):
        payload_from_dict(data)
