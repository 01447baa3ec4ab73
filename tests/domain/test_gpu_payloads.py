"""Every GPU name of the recorded payloads is identified, or not for a reason written here."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tracker.data import text
from tracker.domain.gpu import Catalogue, Gpu, Unidentified

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
PAYLOADS = SHARED / "providers" / "payloads"
CATALOGUE = Catalogue.from_toml(text("gpus.toml"), text("aliases.toml"))

pytestmark = pytest.mark.skipif(
    not PAYLOADS.is_dir(), reason="the recorded payloads (../shared) are not beside this checkout"
)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """All JSON objects of a file, at any depth."""

    def walk(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                yield from walk(item)

    yield from walk(json.loads(path.read_text(), parse_float=Decimal))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def key(answer: Gpu | Unidentified) -> str:
    assert isinstance(answer, Gpu), answer
    return answer.key


def size(key_: str) -> Decimal:
    return Decimal(key_.rpartition("-")[2].removesuffix("GB"))


@pytest.mark.parametrize("field", ["id", "displayName"])
def test_runpod(field: str) -> None:
    seen: dict[str, str] = {}
    for path in sorted((PAYLOADS / "runpod").glob("gputypes_*.json")):
        for row in rows(path):
            if "memoryInGb" not in row or field not in row:
                continue
            answer = CATALOGUE.identify(row[field], vram_gb=Decimal(row["memoryInGb"]))
            if row[field] == "unknown":
                assert isinstance(answer, Unidentified)
            else:
                seen[row[field]] = key(answer)
                # Labels of one part differ by some per cent: a B300 is 288 GB here.
                assert abs(size(seen[row[field]]) / row["memoryInGb"] - 1) < Decimal("0.08")
    assert len(seen) >= 38
    if field == "id":
        assert seen["NVIDIA A100 80GB PCIe"] == "A100-PCIE-80GB"
        assert seen["NVIDIA H100 80GB HBM3"] == "H100-SXM-80GB"
        assert seen["NVIDIA A100-SXM4-40GB"] == "A100-SXM-40GB"
        # Parts that differ are told apart; only the two names of one card are one.
        assert len(set(seen.values())) == len(seen)


def test_vastai() -> None:
    seen: dict[tuple[str, int], str] = {}
    for path in sorted((PAYLOADS / "vastai").glob("bundles_*.json")):
        for row in rows(path):
            if "gpu_name" in row and "gpu_ram" in row:
                answer = CATALOGUE.identify(
                    row["gpu_name"],
                    gpu_count=Decimal(row["num_gpus"]),
                    vram_mib=Decimal(row["gpu_ram"]),
                )
                seen[row["gpu_name"], row["gpu_ram"]] = key(answer)
    assert seen == {
        ("A100 SXM4", 40960): "A100-SXM-40GB",
        ("A100 SXM4", 81920): "A100-SXM-80GB",
        ("A100 SXM4", 9856): "A100-SLICE",
        ("A100 PCIE", 40960): "A100-PCIE-40GB",
        ("A100 PCIE", 81920): "A100-PCIE-80GB",
        ("H100 PCIE", 81559): "H100-PCIE-80GB",
        ("H100 SXM", 81559): "H100-SXM-80GB",
        ("H100 NVL", 95830): "H100-NVL-94GB",
        ("RTX 4090", 24564): "RTX4090-24GB",
        ("RTX 4090", 49140): "RTX4090-48GB",
        ("RTX 4090D", 24564): "RTX4090D-24GB",
    }


def test_vastai_names_are_all_known() -> None:
    names = json.loads((PAYLOADS / "vastai" / "gpu_names_unique_synthetic.json").read_text())
    for name in names["gpu_names"]:
        answer = CATALOGUE.identify(name)
        assert isinstance(answer, Gpu) or not answer.unmapped, answer


def test_databasemart() -> None:
    (path,) = (PAYLOADS / "databasemart").glob("*_transcribed_*.json")
    seen = {
        (plan["gpu"], plan["vram_gb_per_gpu"]): key(
            CATALOGUE.identify(plan["gpu"], vram_gb=Decimal(str(plan["vram_gb_per_gpu"])))
        )
        for plan in json.loads(path.read_text())["plans"]
        if plan["vram_gb_per_gpu"]
    }
    assert seen["NVIDIA H100", 80] == "H100-80GB"
    assert seen["NVIDIA A100", 40] == "A100-40GB"
    assert seen["NVIDIA A100", 80] == "A100-80GB"
    assert seen["RTX 4090", 24] == "RTX4090-24GB"


def test_aws_instance_descriptions() -> None:
    seen = {
        key(
            CATALOGUE.identify(
                row["Name"],
                gpu_count=row["LogicalGpuCount"] * Decimal(row["GpuPartitionSize"]),
                vram_mib=Decimal(row["MemoryInfo"]["SizeInMiB"]),
            )
        )
        for row in rows(PAYLOADS / "aws" / "describe_instance_types_gpu.json")
        if "GpuPartitionSize" in row
    }
    assert seen == {
        "A100-40GB",
        "A100-80GB",
        "B200-SXM-180GB",
        "H100-80GB",
        "H200-141GB",
        "L40S-48GB",
        "L4-SLICE",
    }


# provider directory, file, field of the name, field of the memory in GB, field of the form
OTHERS = [
    ("shadeform", "instance_types", "gpu_type", "vram_per_gpu_in_gb", "interconnect"),
    ("jarvislabs", "server_meta", "gpu_type", "vram", None),
    ("hyperstack", "flavors", "gpu", None, None),
    ("hyperbolic", "rental_options", "gpuType", None, "gpuFormFactor"),
    ("primeintellect", "availability_response", "gpuType", None, "socket"),
    ("lium", "executors", "machine_name", None, None),
    ("cudo", "machine-types_h100", "gpuModel", None, None),
    ("lambda", "instance-types", "gpu_description", None, None),
    ("voltagepark", "locations", "gpu_model", None, None),
    ("salad", "gpu-classes", "name", None, None),
    ("tensordock", "locations", "displayName", None, None),
    ("tensordock", "locations", "v0Name", None, None),
]


@pytest.mark.parametrize(("directory", "start", "name", "memory", "form"), OTHERS)
def test_other_marketplaces(
    directory: str, start: str, name: str, memory: str | None, form: str | None
) -> None:
    seen = set()
    for path in (PAYLOADS / directory).glob(f"{start}*.json"):
        for row in rows(path):
            if not row.get(name) or row[name] in ("N/A", "CPU", "Home"):
                continue
            answer = CATALOGUE.identify(
                row[name],
                vram_gb=Decimal(row[memory]) if memory and row.get(memory) else None,
                form_factor=row.get(form) if form else None,
            )
            if isinstance(answer, Unidentified):  # known name, but the row does not say enough
                assert not answer.unmapped, answer
                continue
            seen.add(answer.key)
    assert seen


def test_instances_of_hyperscalers() -> None:
    """Cards agree in family and memory with the map, and in form where the map has one."""
    for row in table(SHARED / "providers" / "instance_gpus.csv"):
        count = Decimal(row["gpu_count"] or 1)  # one count is not known
        answer = CATALOGUE.identify(
            row["gpu"],
            gpu_count=count,
            vram_gb=Decimal(row["vram_gb_per_gpu"]),
            form_factor=row["gpu_variant"],
        )
        assert isinstance(answer, Gpu), (row["instance_type"], answer)
        assert answer.family == row["gpu"]
        assert answer.is_slice == (count < 1)
        variant = row["gpu_variant"].upper()
        if answer.family in ("A100", "H100", "V100", "H200"):
            said = next((form for form in ("NVL", "SXM", "PCIE") if form in variant), None)
            assert answer.form_factor == said


def test_list_prices() -> None:
    """The keys of the price list are ours, and no product name says another GPU."""
    for row in table(SHARED / "providers" / "list_prices_2026.csv"):
        gpu = CATALOGUE.gpu(row["gpu"])
        assert gpu is not None
        assert CATALOGUE.identify(row["gpu"]) == gpu
        answer = CATALOGUE.identify(row["product"], vram_gb=Decimal(gpu.vram_gb or 0))
        if isinstance(answer, Gpu):
            # A product such as "A100 80GB dedicated" names the card but not always the form.
            assert answer in (gpu, CATALOGUE.gpu(f"{gpu.family}-{gpu.vram_gb}GB"))


def test_past_observations_name_no_unknown_part() -> None:
    path = SHARED / "history" / "observations.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        kinds = {
            (row["gpu"], row["gpu_variant"], row["vram_gb_per_gpu"]) for row in csv.DictReader(file)
        }
    refused = set()
    for name, variant, vram in sorted(kinds):
        answer = CATALOGUE.identify(
            name, vram_gb=Decimal(vram) if vram else None, form_factor=variant
        )
        if isinstance(answer, Unidentified):
            assert not answer.unmapped
            if vram:
                refused.add((name, variant, vram))
    # There is no NVL form of the A100, and no H100 NVL of 80 GB.
    assert refused == {("A100", "NVL", "40"), ("A100", "NVL", "80"), ("H100", "NVL-80GB", "80")}


def test_every_benchmark_key_is_one_of_ours() -> None:
    for row in table(SHARED / "runtime" / "gpus.csv"):
        ours = CATALOGUE.of_runtime_key(row["key"])
        assert ours is not None, row["key"]
        spec = CATALOGUE.spec(ours)
        assert spec is not None
        if row["key"] != "b300-sxm-288gb":  # another label of the part of 270 GB
            assert spec.bandwidth_gbps == Decimal(row["bandwidth_gbps"])
            assert size(ours) == Decimal(row["memory_gb"])
        assert (spec.bf16_tflops is None) == (not row["bf16_tensor_tflops"])
        if spec.bf16_tflops is not None:
            assert spec.bf16_tflops == Decimal(row["bf16_tensor_tflops"])
        assert spec.fp8 == (row["fp8_support"] == "yes")
        assert spec.mig == row["mig"].startswith("yes")
        assert spec.ecc == (row["ecc"] == "yes")
        assert spec.tdp_w == Decimal(row["tdp_w"])
