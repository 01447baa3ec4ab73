"""A recording can be shown to anyone, and parses as the live answer did."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_network

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
        (r'{"api_key": "a\"bTAIL", "x": 1}', '{"api_key": "REDACTED", "x": 1}'),
        (r'{"api_key": "a\\", "x": "y"}', '{"api_key": "REDACTED", "x": "y"}'),
        ('{"api-key": "cut off', '{"api-key": "REDACTED"'),
        ('{"api_key": "cut off\\', '{"api_key": "REDACTED"'),
        ('{"token" : ["T0", "K]"], "x": 2}', '{"token" : ["REDACTED", "REDACTED"], "x": 2}'),
        (
            '{"tokens": [{"v": "T", "n": [7]}], "x": 2}',
            '{"tokens": [{"v": "REDACTED", "n": [0]}], "x": 2}',
        ),
        ('{"API Key": "abc", "n": 5}', '{"API Key": "REDACTED", "n": 5}'),
        ('{"apiKey":123, "n": 5}', '{"apiKey":0, "n": 5}'),
        ('{"secret": {"a": -1.5e3, "b": true}, "c": 1}', '{"secret": {"a": 0, "b": true}, "c": 1}'),
        ('{"token": null, "x": "y"}', '{"token": null, "x": "y"}'),
        ('{"has_token": true, "x": "y"}', '{"has_token": true, "x": "y"}'),
        ('{"token": , "x": "y"}', '{"token": , "x": "y"}'),
        ('{"token": }, {"x": "y"}', '{"token": }, {"x": "y"}'),
        (
            "http://5.6.7.8<br>9.9.9.9;8.8.8.8) 7.7.7.7",
            "http://192.0.2.1<br>192.0.2.1;192.0.2.1) 192.0.2.1",
        ),
        ("to 9.9.9.9.", "to 192.0.2.1."),
        (r'"a\n8.8.8.8\u003c"', r'"a\n192.0.2.1\u003c"'),
        (
            '{"ip": "fe80::1", "b": "[2A00:1:2::3]:80"}',
            '{"ip": "2001:db8::1", "b": "[2001:db8::1]:80"}',
        ),
        ("fe80::1%eth0 1:2:3:4:5:6:7:8 ::ffff:9.9.9.9", "2001:db8::1%eth0 2001:db8::1 2001:db8::1"),
        (r'"a\nfe80::1\u003cfe80::2"', r'"a\n2001:db8::1\u003c2001:db8::1"'),
        (
            "2026-11-30T12:30:45 12:30:45 AWS::EC2 std::a1 00:1a:2b:3c:4d:5e ::",
            "2026-11-30T12:30:45 12:30:45 AWS::EC2 std::a1 00:1a:2b:3c:4d:5e ::",
        ),
        (
            "v1.2.3.4 1.2.3.4.5 535.104.05.1 1.2.3 300.1.1.1 0.00012.5",
            "v1.2.3.4 1.2.3.4.5 535.104.05.1 1.2.3 300.1.1.1 0.00012.5",
        ),
    ],
)
def test_addresses_and_credentials_go_and_the_rest_stays(text: str, expected: str) -> None:
    assert strip(text, []) == expected


def test_what_is_no_utf8_and_what_headers_say_is_stripped_too() -> None:
    body = b'{"public_ipaddr":"8.8.4.4","api_key":"abcdef","x":"8.8.8.8 s3cr3t"}\xff9.9.9.9'
    headers = {"etag": "s3cr3t", "date": "10.1.2.3", "X-Api-Key": "abcdef"}
    payload = Payload("https://9.9.9.9/", body, NOW, headers=headers, request_body=body)
    [shown] = recording_of("acme", [payload], ["s3cr3t"])["payloads"]
    assert payload_from_dict(shown).body == (
        b'{"public_ipaddr":"REDACTED","api_key":"REDACTED","x":"192.0.2.1 REDACTED"}\xff192.0.2.1'
    )
    assert shown["headers"] == {"etag": "REDACTED", "date": "192.0.2.1", "X-Api-Key": "REDACTED"}
    assert "8.8." not in shown["request_body"]
    assert shown["url"] == "https://192.0.2.1/"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(10**6, 10**9)
    | st.text(alphabet='QX"\\[]{},: \n', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", 'c"']), inner, max_size=3)
    ),
    max_leaves=8,
)


def leaves(value: object) -> list[object]:
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return [leaf for item in items for leaf in leaves(item)]
    return [value]


@given(JSON, JSON, st.sampled_from(["api_key", "X-Auth-Token", "secrets", "ssh_key_password"]))
def test_a_credential_field_keeps_its_shape_and_nothing_else(
    secret: object, other: object, name: str
) -> None:
    for indent in (None, 1):
        text = json.dumps({"before": other, name: secret, "after": other}, indent=indent)
        stripped = json.loads(strip(text, []))
        assert stripped["before"] == stripped["after"] == other
        assert set(map(str, leaves(stripped[name]))) <= {"REDACTED", "0", "None", "True", "False"}
        assert len(leaves(stripped[name])) == len(leaves(secret))


@given(
    st.ip_addresses(),
    st.sampled_from(['"', " ", "<", ";", ")", ",", "/", "", "\n", "\\n", "]"]),
    st.sampled_from(['"', " ", "(", ">", "[", "=", "", "\\n", "//", "@", "\ud800"]),
)
def test_no_address_survives(address: IPv4Address | IPv6Address, after: str, before: str) -> None:
    kept = address in ip_network("192.0.2.0/24") or not any(c.isdigit() for c in str(address))
    shown = str(address) if kept else "192.0.2.1" if address.version == 4 else "2001:db8::1"
    assert strip(f"{before}{address}{after}", []) == f"{before}{shown}{after}"


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


@pytest.mark.parametrize(
    ("name", "kept"),
    [("nextPageToken", True), ("page_token", True), ("NextToken", True), ("token", False),
     ("nextPageTokenSecret", False), ("access_token", False), ("api-key", False)],
)  # fmt: skip
def test_where_a_list_goes_on_is_no_credential(name: str, kept: bool) -> None:
    assert ("v4lue" in strip(f'{{"{name}": "v4lue"}}', [])) is kept


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
