"""CUDO: the price of a machine is the sum of its parts, within the bounds that a type has."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from providers import cudo
from providers.cudo import RAM_GIB_PER_GPU, VCPUS_PER_GPU, provider
from tests.providers.answering import Http, fetched, payload
from tracker.provider import ListedOffer

ROW: dict[str, Any] = {
    "dataCenterId": "se-smedjebacken-1", "machineType": "epyc", "gpuModel": "H100 SXM",
    "gpuModelId": "nvidia-h100-sxm", "gpuPriceHr": {"value": "1.9"},
    "vcpuPriceHr": {"value": "0.002"}, "memoryGibPriceHr": {"value": "0.003"},
    "maxGpuFree": 8, "totalGpuFree": 16,
}  # fmt: skip


def _offers(**fields: Any) -> tuple[ListedOffer, ...]:
    return cudo.parse([payload({"machineTypes": [ROW | fields]})]).offers


def test_it_is_asked_without_a_key_and_with_one() -> None:
    http = Http(lambda url, _: {"machineTypes": [ROW]})
    assert cudo.parse(fetched(provider, http)).offers
    fetched(provider, http, api_key="key-of-a-test")
    assert http.asked == [
        ("https://rest.compute.cudo.org/v1/vms/machine-types", headers)
        for headers in ({}, {"Authorization": "Bearer key-of-a-test"})
    ]


@given(
    least=st.integers(1, 40), extra=st.integers(0, 40),
    low=st.integers(1, 100), span=st.integers(1, 100), host=st.integers(0, 20),
)  # fmt: skip
def test_a_machine_is_within_the_bounds_and_costs_what_its_parts_do(
    least: int, extra: int, low: int, span: int, host: int
) -> None:
    bounds = {"minVcpuPerGpu": least, "maxVcpuPerGpu": least + extra,
              "minVcpuPerMemoryGib": low / 100, "maxVcpuPerMemoryGib": (low + span) / 100,
              "maxGpuFree": host}  # fmt: skip
    offers = _offers(**bounds)
    for o in offers:
        assert o.vcpus is not None
        assert o.ram_gib is not None
        vcpus, ram = o.vcpus / o.gpu_count, o.ram_gib / o.gpu_count
        assert least <= vcpus <= least + extra
        assert low * ram <= vcpus * 100 <= (low + span) * ram
        assert vcpus == VCPUS_PER_GPU or vcpus in (least, least + extra)
        parts = Decimal("1.9") + vcpus * Decimal("0.002") + ram * Decimal("0.003")
        assert o.price.amount == parts * o.gpu_count
        assert o.extras.availability == ("yes" if host >= o.gpu_count else "no")
    if offers:
        assert [int(o.gpu_count) for o in offers] == [n for n in (1, 2, 4, 8) if n <= max(host, 1)]
    else:  # by brute force: no whole number of GiB goes with the vCPUs
        vcpus = min(max(VCPUS_PER_GPU, least), least + extra)
        assert not [g for g in range(1, 9000) if low * g <= vcpus * 100 <= (low + span) * g]


def test_without_bounds_it_is_the_usual_machine() -> None:
    (one, *_) = _offers()
    assert (one.vcpus, one.ram_gib) == (VCPUS_PER_GPU, RAM_GIB_PER_GPU)


def test_a_part_without_a_price_makes_no_offer() -> None:
    for name in ("gpuPriceHr", "vcpuPriceHr", "memoryGibPriceHr"):
        assert _offers(**{name: {}}) == ()
        assert _offers(**{name: None}) == ()
