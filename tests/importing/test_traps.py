"""The mistakes that public price data is known to hold: one test for each, by a generated row.

The numbers are those of the list that the data came with (docs/history-data.md names them too).
"""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.importing.worlds import AT, OBSERVATIONS, dry, judged, reasons, steps, table
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect.importing import generic, rules, skypilot, skypilot_gcp, words
from tracker.collect.importing.observation import NO_GPU, Report, Snapshot
from tracker.collect.importing.skypilot_memory import gpu_memory_mib
from tracker.domain.normalize import normalise
from tracker.domain.offer import Market, Offer

HISTORY = SHARED / "history"
needs_history = pytest.mark.skipif(not HISTORY.is_dir(), reason=NO_SHARED)

PLAIN = """
[source]
name = "plain"
price_per = "machine"
currency = "USD"
holds = "8d"
[columns]
observed_at = "at"
seller = "provider"
id = "type"
gpu = "gpu"
gpu_count = "n"
vram_gb = "vram"
price = "usd"
market = "kind"
region = "region"
"""
ROW = {
    "at": "2026-06-01T00:00:00Z", "provider": "aws", "type": "p5.48xlarge", "gpu": "H100",
    "n": "8", "vram": "80", "usd": "55.04", "kind": "on_demand", "region": "us-east-1",
}  # fmt: skip

GCP_HEADER = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,"
    "Price,SpotPrice"
)
HOST = "a2-highgpu-1g,12.0,85.0,,,,{r},{r}-a,0.73948,0.36975"
GPU = ",,,A100,1,{{'Gpus': [{{'MemoryInfo': {{'SizeInMiB': 40960}}}}]}},{r},{r}-a,{usd},{spot}"


def sky(cloud: str, header: str, *rows: str) -> Snapshot:
    return skypilot.parse("\n".join([header, *rows]).encode(), cloud, AT)


def gcp(*rows: str) -> Snapshot:
    return sky("gcp", GCP_HEADER, *rows)


def gpu_keys(snapshot: Snapshot) -> list[str]:
    found = [normalise("import-test", o.offer, catalogue(), {}) for o in snapshot.observations]
    return [o.gpu.key if isinstance(o, Offer) else o.reason for o in found]


def test_1_a_machine_of_gcp_costs_its_host_and_its_gpus() -> None:
    found = gcp(HOST.format(r="us-central1"), GPU.format(r="us-central1", usd=2.93391, spot=1.4341))
    assert [(o.offer.source_id, o.offer.market, o.amount) for o in found.observations] == [
        ("a2-highgpu-1g@us-central1-a", Market.ON_DEMAND, Decimal("3.67339")),
        ("a2-highgpu-1g@us-central1-a", Market.SPOT, Decimal("1.80385")),
    ]
    assert gpu_keys(found) == ["A100-40GB"] * 2


def test_1_neither_a_host_nor_a_gpu_nor_a_tpu_is_a_machine() -> None:
    tpu = ",,,tpu-v5p-8,1,tpu-v5p-8,us-central1,us-central1-a,16.8,3.3428"
    cpu = "t2d-standard-8,8.0,32.0,,,,us-central1,us-central1-a,0.33797,0.06419"
    found = gcp(HOST.format(r="us-west1"), GPU.format(r="us-east1", usd=2.93, spot=1.43), tpu, cpu)
    assert found.observations == []
    assert sorted(r.reason for r in found.refused) == sorted(
        [skypilot_gcp.HOST_ALONE, skypilot_gcp.GPU_ALONE, skypilot_gcp.TPU, NO_GPU]
    )


def test_2_a_region_whose_gpus_cost_half_does_not_win() -> None:
    regions = {"us-central1": "2.93391", "me-west1": "3.2273", "europe-west4": "1.61365"}
    rows = [HOST.format(r=r) for r in regions]
    rows += [GPU.format(r=r, usd=usd, spot="1.1") for r, usd in regions.items()]
    found = gcp(*rows)
    assert {o.offer.region for o in found.observations} == {"us-central1", "me-west1"}
    assert [r.reason for r in found.refused] == [skypilot_gcp.UNEXPLAINED]


def test_3_columns_are_read_by_name() -> None:
    cells = {"InstanceType": "m", "AcceleratorName": "H100", "AcceleratorCount": "1", "vCPUs": "26",
             "MemoryGiB": "200", "Price": "3.29", "Region": "us-east-1", "SpotPrice": "",
             "GpuInfo": "", "UpstreamCloudId": "m", "Arch": "x86_64"}  # fmt: skip
    for names in (list(cells), sorted(cells), sorted(cells, reverse=True)):
        found = sky("lambda", ",".join(names), ",".join(cells[n] for n in names))
        [o] = found.observations
        assert (o.amount, o.offer.vcpus, o.offer.ram_gib) == (Decimal("3.29"), 26, 200)


@pytest.mark.parametrize(
    ("text", "gpus"), [("8", 8), ("8.0", 8), ("3", 3), ("16.0", 16), ("0.25", Decimal("0.25"))]
)
def test_4_a_count_may_be_written_as_a_fraction(text: str, gpus: Decimal) -> None:
    assert words.count(text) == gpus


def _info(size: object, *, as_json: bool = False, inside: bool = False, total: object = 0) -> str:
    element = {"Name": "A100", "Count": 8, "MemoryInfo": {"SizeInMiB": size}}
    data: dict[str, object] = {"Gpus": [element], "TotalGpuMemoryInMiB": total}
    if inside:
        data = {"Gpus": [element | {"TotalGpuMemoryInMiB": total}]}
    return json.dumps(data) if as_json else str(data)


@pytest.mark.parametrize(
    ("cloud", "info"),
    [
        ("vastai", _info(655360, total=655360)),  # of all GPUs
        ("verda", _info(81920, as_json=True, total=655360)),  # of one, in JSON
        ("fluidstack", _info(81920, total=655360)),
        ("lambda", _info(81920, total=81920)),  # the total is of one, too
        ("runpod", _info(80, total=640)),  # GiB in a field of MiB
        ("shadeform", _info(80, inside=True, total=640)),
    ],
)
def test_5_six_clouds_mean_five_things_by_the_memory_field(cloud: str, info: str) -> None:
    assert gpu_memory_mib(info, cloud, "A100", Decimal(8)) == 81920


@pytest.mark.parametrize("info", ["", "tpu-v5p-8", "{'Gpus': []}", "{'Gpus': [1]}", "{", "{'a': 1}",
                                  "{'Gpus': [{'MemoryInfo': {'SizeInMiB': 'many'}}]}"])  # fmt: skip
def test_5_a_memory_field_without_a_size_says_nothing(info: str) -> None:
    assert gpu_memory_mib(info, "runpod", "A100", Decimal(1)) is None


@pytest.mark.parametrize(
    ("cloud", "listed", "spot", "kept"),
    [
        ("vast", "1.87", "0.00", ["on_demand"]),
        ("lambda", "3.29", "", ["on_demand"]),
        ("runpod", "1.39", "1.39", ["on_demand"]),
        ("verda", "", "4.893", ["spot"]),
        ("verda", "2.29", "0.8015", ["on_demand", "spot"]),
        ("verda", "", "", []),
    ],
)
def test_6_four_ways_to_have_no_spot_price(
    cloud: str, listed: str, spot: str, kept: list[str]
) -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice,GpuInfo"
    found = sky(cloud, header, f"1x_H100,H100,1,{listed},FIN-01,{spot},")
    assert [str(o.offer.market) for o in found.observations] == kept
    assert all(o.amount > 0 for o in found.observations)
    assert kept or [r.reason for r in found.refused] == [words.NO_PRICE]


def test_7_the_size_is_in_the_name_or_only_in_the_memory() -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice,GpuInfo"
    found = sky(
        "vast", header,
        f'2x-A100_SXM4-32-65536,A100,2,1.49,"Slovenia, SI, EU",0.00,"{_info(81920)}"',
        f'1x-A100_PCIE-32-65536,A100,1,0.87,"Ohio, US, NA",0.00,"{_info(81920)}"',
        f'1x-RTX_4090-32-65536,RTX4090,1,0.40,"Hong Kong, HK, AS",0.00,"{_info(49140)}"',
        f'1x-RTX_4090-32-65536,RTX4090,1,0.40,"Germany, DE, EU",0.00,"{_info(24564)}"',
    )  # fmt: skip
    assert gpu_keys(found) == [
        "A100-SXM-40GB", "A100-PCIE-80GB", "RTX4090-48GB", "RTX4090-24GB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "region", "country"),
    [
        ("Texas, US, NA", "Texas, US", "US"), (", US, NA", None, "US"), ("default", None, None),
        ("", None, None), ("generic_1_canada", "generic_1_canada", None),
        ("Île-de-France, FR, EU", "Île-de-France, FR", "FR"), ("us-east-1", "us-east-1", None),
    ],
)  # fmt: skip
def test_8_regions_of_many_kinds(text: str, region: str | None, country: str | None) -> None:
    assert skypilot.place(text) == (region, country)


def test_8_a_machine_in_two_zones_is_two_offers() -> None:
    rows = [HOST.format(r="us-central1"), GPU.format(r="us-central1", usd=2.93391, spot=1.4341)]
    found = gcp(*rows, *(row.replace("us-central1-a", "us-central1-f") for row in rows))
    assert len({o.offer.source_id for o in found.observations}) == 2


def test_9_noise_is_taken_off_and_two_prices_for_one_machine_are_held() -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice,GpuInfo"
    found = sky("hyperbolic", header, f'1x_H100,H100,1,1.2900000001,default,,"{_info(81920)}"',
                f'1x_H100,H100,1,1.39,default,,"{_info(81920)}"')  # fmt: skip
    assert [o.amount for o in found.observations] == [Decimal("1.29"), Decimal("1.39")]
    report = judged(found, listings=True)
    assert reasons(report) == {"held by the quality gate duplicate": 2}
    apart = sky("hyperbolic", f"{header},UpstreamCloudId",
                f'1x_H100,H100,1,1.29,default,,"{_info(81920)}",a',
                f'1x_H100,H100,1,1.39,default,,"{_info(81920)}",b')  # fmt: skip
    assert judged(apart, listings=True).kept == 2


def test_10_a_machine_without_a_gpu_is_no_offer() -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice,GpuInfo"
    found = sky("lambda", header, "cpu_4x_general,,,0.2,us-east-1,,")
    assert [r.reason for r in found.refused] == [NO_GPU]


@pytest.mark.parametrize(
    ("usd", "seller"), [("6.88", "aws"), ("120.96", "upcloud"), ("0.89", "acme")]
)
def test_11_a_price_per_gpu_in_the_column_of_machines_or_multiplied_twice(
    usd: str, seller: str
) -> None:
    n, gpu, vram = ("5", "A100", "40") if seller == "acme" else ("8", "H100", "80")
    row = ROW | {"provider": seller, "n": n, "gpu": gpu, "vram": vram, "usd": usd, "type": "x"}
    expected = rules.PER_GPU if seller == "aws" else rules.OUT_OF_BAND
    assert reasons(judged(table(PLAIN, row))) == {expected: 1}


def test_11_the_meaning_of_a_column_changes_at_a_moment() -> None:
    mapping = PLAIN + '[[unit]]\nfrom = 2026-02-18T09:00:00Z\nprice_per = "gpu"\n'
    before = ROW | {"at": "2026-02-18T08:59:59Z", "usd": "55.04"}
    after = ROW | {"at": "2026-02-18T09:00:00Z", "usd": "6.88"}
    report = Snapshot()
    for o in table(mapping, before, after).observations:
        report.observations.append(o)
        usd_each = o.offer.price.machine_hour(o.offer.gpu_count, Decimal(1)).usd
        assert usd_each * o.amount == Decimal("55.04")
    assert judged(report).kept == 2


def test_12_an_a100_of_unknown_size_is_neither_40_nor_80() -> None:
    report = judged(table(PLAIN, ROW | {"gpu": "A100 SXM4", "vram": "", "provider": "vast.ai"}))
    assert report.kept == 0
    [reason] = report.refused
    assert "without VRAM" in reason


def test_12_another_part_s_price_is_below_what_all_others_ask(tmp_path: Path) -> None:
    one = ROW | {"n": "1", "gpu": "A100"}
    asked = {"a": "1.79", "b": "2.0", "c": "2.2", "d": "2.9"}
    sellers = [one | {"provider": a, "usd": usd, "type": f"{a}-a100"} for a, usd in asked.items()]
    wrong = one | {"provider": "lambda", "usd": "0.55", "type": "x"}
    report = _dry(tmp_path, [*sellers, wrong])
    assert report.refused == {rules.FAR_BELOW: 1}
    assert set(report.sellers) == {"a", "b", "c", "d"}
    days = [wrong | {"at": f"2026-06-0{day}T00:00:00Z"} for day in (1, 2, 3)]
    assert not _dry(tmp_path, [*sellers, *days]).refused, "three days of it: a real price"


def test_13_a_placeholder_of_half_a_dollar_is_not_believed() -> None:
    row = ROW | {"provider": "runpod", "gpu": "H200 NVL", "vram": "141", "n": "1", "usd": "0.50"}
    assert reasons(judged(table(PLAIN, row))) == {rules.PLACEHOLDER: 1}


@pytest.mark.parametrize(
    "text",
    ["Nvidia Tesla A100 GPU running in Americas", "Commitment v1: Nvidia H100 80GB GPU running in "
     "Mumbai for 1 Year (12mo)", "Reserved Nvidia H100 80GB GPU in Americas in Calendar Mode",
     "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Mumbai", "B98415"],
)  # fmt: skip
def test_14_a_component_is_no_machine(text: str) -> None:
    row = ROW | {"provider": "gcp", "type": text, "n": "1", "usd": "10"}
    assert reasons(judged(table(PLAIN, row))) == {rules.COMPONENT: 1}


@pytest.mark.parametrize(
    ("machine", "n", "kind", "usd", "reason"),
    [
        ("a3-megagpu-8g", "8", "on_demand", "10.117595", rules.HOST_ONLY),
        ("a3-megagpu-8g", "8", "spot", "5.662146", rules.HOST_ONLY),
        ("a3-megagpu-8g (3y commit)", "8", "reserved", "4.465193", rules.HOST_ONLY),
        ("a3-highgpu-1g", "1", "on_demand", "11.06", rules.NOT_SOLD_SO),
        ("a3-highgpu-4g (1y commit)", "4", "reserved", "30", rules.NOT_SOLD_SO),
        ("a3-highgpu-1g", "1", "spot", "2.552879", None),
        ("a3-highgpu-8g", "8", "on_demand", "88.49", None),
    ],
)
def test_14_gcp_s_hosts_and_what_it_does_not_sell(
    machine: str, n: str, kind: str, usd: str, reason: str | None
) -> None:
    row = ROW | {"provider": "gcp", "type": machine, "n": n, "usd": usd, "kind": kind}
    assert reasons(judged(table(PLAIN, row))) == ({reason: 1} if reason else {})


@pytest.mark.parametrize(
    ("usd", "reason"),
    [("0.00", words.ZERO_PRICE), ("Enquire", words.NOT_A_PRICE), ("", words.NO_PRICE)],
)
def test_15_sold_out_is_not_free(usd: str, reason: str) -> None:
    assert [r.reason for r in table(PLAIN, ROW | {"usd": usd}).refused] == [reason]


@pytest.mark.parametrize(
    "more", [{"seed": "true"}, {"source": "historical_estimate"}, {"method": "Simulated"}]
)
def test_16_invented_prices_are_not_history(more: dict[str, str]) -> None:
    found = table(PLAIN, ROW | more)
    assert [r.reason for r in found.refused] == [generic.INVENTED]
    assert table(PLAIN, ROW | dict.fromkeys(more, "observed")).observations


def test_17_without_a_count_a_price_is_of_nobody_knows_what() -> None:
    assert [r.reason for r in table(PLAIN, ROW | {"n": ""}).refused] == [words.NO_COUNT]


def test_18_a_copy_of_an_old_answer_is_refused_where_the_table_says_so() -> None:
    mapping = PLAIN + '[refuse]\nfetched = ["static_yaml", "carried"]\n'
    found = table(mapping, ROW | {"fetched": "static_yaml"}, ROW | {"fetched": "live"})
    assert [r.reason for r in found.refused] == [generic.INVENTED]
    assert len(found.observations) == 1


def test_19_an_observation_holds_as_long_as_stated_and_no_longer() -> None:
    mapping = PLAIN + '[[hold]]\nseller = "vastai"\nfor = "1d"\n'
    found = table(mapping, ROW, ROW | {"provider": "vast.ai", "type": "x"})
    assert [length for *_, length in steps(found.observations)] == [
        timedelta(days=8), timedelta(days=1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "vram", "usd"),
    [("H100", "80", "0.32"), ("A100", "40", "0.09"), ("RTX 4090", "24", "8.00")],
)
def test_20_a_bogus_ask_is_not_believed(gpu: str, vram: str, usd: str) -> None:
    row = ROW | {"provider": "vastai", "gpu": gpu, "vram": vram, "n": "1", "usd": usd}
    assert reasons(judged(table(PLAIN, row))) == {rules.OUT_OF_BAND: 1}


def test_21_a_twentieth_of_a_card_is_a_slice() -> None:
    row = ROW | {"provider": "vultr", "gpu": "A100", "vram": "4", "n": "1", "usd": "0.13"}
    assert judged(table(PLAIN, row)).gpus == {"A100-SLICE": 1}


def test_22_one_seller_under_two_names_is_one() -> None:
    rows = [ROW | {"provider": name, "type": "1H100.80S.32V", "n": "1", "usd": "2.29", "at": at}
            for name, at in (("datacrunch", "2026-06-01"), ("Verda", "2026-06-02"))]  # fmt: skip
    report = judged(table(PLAIN, *rows))
    assert report.sellers == {"verda": 2}


def test_23_another_currency_needs_its_rate() -> None:
    euro = PLAIN.replace('"USD"', '"EUR"')
    assert [r.reason for r in table(euro, ROW).refused] == [generic.NO_RATE]
    rated = table(euro + '[rates]\nEUR = {usd = "1.10", on = 2026-06-01}\n', ROW)
    [o] = rated.observations
    assert (o.offer.price.currency, o.amount) == ("EUR", Decimal("55.04"))
    assert o.usd_per_unit == Decimal("1.1")
    by_row = euro.replace("[columns]", '[columns]\nusd_per_unit = "rate"\n')
    [o] = table(by_row, ROW | {"rate": "1.08"}).observations
    assert (o.usd_per_unit, o.fx_date) == (Decimal("1.08"), datetime(2026, 6, 1, tzinfo=UTC).date())


def test_24_times_are_read_in_every_spelling() -> None:
    spelled = ("2026-06-01T08:00:00+08:00", "2026-05-31T20:00:00.000-04:00", "2026-06-01",
               "1780272000")  # fmt: skip
    found = table(PLAIN, *(ROW | {"at": text} for text in spelled))
    assert {o.at for o in found.observations} == {AT}


def test_25_the_same_series_of_two_trackers_stays_two() -> None:
    mapping = (
        PLAIN.replace("[columns]", '[columns]\norigin = "from"\n') + "[strip]\norigin = '@.*'\n"
    )
    rows = [ROW | {"from": origin} for origin in ("one@1", "one@2", "two@1")]
    found = {o.offer.source_id for o in table(mapping, *rows).observations}
    assert found == {"p5.48xlarge [one]", "p5.48xlarge [two]"}


def _dry(folder: Path, rows: list[dict[str, str]]) -> Report:
    (folder / "mapping.toml").write_text(PLAIN)
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerows(rows)
    return dry("csv", folder / "table.csv", mapping=folder / "mapping.toml").report


@needs_history
def test_every_row_known_to_be_wrong_is_refused_by_a_rule(tmp_path: Path) -> None:
    """Alone where the row itself shows it, among the others of its time where only they do."""
    with (HISTORY / "wrong_rows.csv").open() as file:
        wrong = list(csv.reader(file))
    with gzip.open(HISTORY / "observations.csv.gz", "rt") as file:
        right = list(csv.reader(file))
    header, rows = wrong[0][:-1], [row[:-1] for row in wrong[1:]]
    assert header == right[0]
    # The weeks of the wrong rows are enough to compare with.
    around = [row for row in right[1:] if row[0][:7] in {r[0][:7] for r in rows}]
    with (tmp_path / "all.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *around, *rows])
    with (tmp_path / "right.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *around])
    both = dry("csv", tmp_path / "all.csv", mapping=OBSERVATIONS).report
    alone = dry("csv", tmp_path / "right.csv", mapping=OBSERVATIONS).report
    assert both.kept == alone.kept
    added = both.refused - alone.refused
    assert added == {
        rules.COMPONENT: 25, rules.FAR_BELOW: 2, rules.HOST_ONLY: 1, rules.OUT_OF_BAND: 1,
    }  # fmt: skip
    assert len(rows) == 29
    assert alone.kept > 0.8 * len(around)
