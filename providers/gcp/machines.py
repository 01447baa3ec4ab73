"""GPU machine types of Compute Engine: what each holds, and from which price items it is made up.

Hardware: Google's machine type lists as Cyclenerd's google-cloud-pricing-cost-calculator
(tools/machinetypes.csv @dac31281, Apache-2.0) restates them. Which items make up a price and how
much local SSD a type brings: worked out against Google's price page, to the last digit for
a2-highgpu-1g, a2-ultragpu-1g and a3-highgpu-8g.

a3-edgegpu, a4x and the fractions of a g4 are left out of the sum of price items: what they are made
up of is not known for sure.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

GB_PER_GIB = Decimal("1.073741824")

_NVSWITCH = "NVLink/NVSwitch"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU: in words of our catalogue, of the price items and of the open data.

    ``items`` are the spellings of its price item, each as the set of its words without "nvidia",
    "tesla" and "gpu". ``counts`` are the names under which the open data counts it.
    """

    name: str
    form_factor: str | None
    vram_gb: Decimal
    items: tuple[frozenset[str], ...]
    counts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine type.

    ``host`` is the word before "Instance Core" and "Instance Ram" in the price items of its vCPUs
    and memory; None: included in the price of the GPU. ``ssd_gib`` is the local SSD that it cannot
    be had without, billed beside; None: included, or not known. ``on_demand`` is False for types
    that are to be had as spot, flex-start or reservation only.
    """

    name: str
    host: str | None
    gpu: Gpu
    gpu_count: Decimal
    vcpus: int
    ram_gib: int
    ssd_gib: int | None = 0
    on_demand: bool = True
    interconnect: str | None = None
    network: str | None = None

    @property
    def disk_gb(self) -> Decimal | None:
        """The local SSD in GB."""
        return None if self.ssd_gib is None else self.ssd_gib * GB_PER_GIB


def _gpu(name: str, form: str | None, vram_gb: int, items: str, counts: str) -> Gpu:
    spelled = tuple(frozenset(item.split()) for item in items.split("|"))
    return Gpu(name, form, Decimal(vram_gb), spelled, tuple(counts.split()))


A100_40 = _gpu("A100", "SXM", 40, "a100", "a100")
A100_80 = _gpu("A100", "SXM", 80, "a100 80gb", "a100-80gb")
H100 = _gpu("H100", "SXM", 80, "h100 80gb", "h100-80gb")
# "Mega" or "Plus", by region.
H100_MEGA = _gpu(
    "H100", "SXM", 80, "h100 80gb mega|h100 80gb plus", "h100-80gb-mega h100-80gb-plus"
)
H200 = _gpu("H200", "SXM", 141, "h200 141gb", "h200-141gb")
B200 = _gpu("B200", "SXM", 180, "a4 b200 (1 slice)", "b200")
L4 = _gpu("L4", None, 24, "l4", "l4")
RTX_PRO_6000 = _gpu("RTX PRO 6000 Server", None, 96, "rtx 6000 96gb", "rtx6000 rtx-6000-96gb")

GPUS = (A100_40, A100_80, H100, H100_MEGA, H200, B200, L4, RTX_PRO_6000)

# The words for hosts in price items: "A2 Instance Core".
HOSTS = ("A2", "A3", "A3Plus", "A3Ultra", "G2", "G4")


def _machines() -> tuple[Machine, ...]:
    found: list[Machine] = []

    def add(
        pattern: str, host: str | None, gpu: Gpu, sizes: str, ssd_gib: int | None = 0,
        on_demand: str = "all", link: str | None = None, network: str | None = None,
    ) -> None:  # fmt: skip
        """Sizes are "count/vCPUs/GiB"; *ssd_gib* is for one GPU; *on_demand* lists counts."""
        for size in sizes.split():
            label, _, rest = size.partition("=")
            count, vcpus, ram = (rest or label).split("/")
            gpus = Decimal(count)
            found.append(Machine(
                name=pattern.format(label if rest else count), host=host, gpu=gpu, gpu_count=gpus,
                vcpus=int(vcpus), ram_gib=int(ram),
                ssd_gib=None if ssd_gib is None else int(ssd_gib * gpus),
                on_demand=on_demand == "all" or count in on_demand.split(),
                interconnect=link if gpus > 1 else None, network=network,
            ))  # fmt: skip

    add("a2-highgpu-{}g", "A2", A100_40, "1/12/85 2/24/170 4/48/340 8/96/680", link=_NVSWITCH)
    add("a2-megagpu-{}g", "A2", A100_40, "16/96/1360", link=_NVSWITCH)
    add(
        "a2-ultragpu-{}g",
        "A2",
        A100_80,
        "1/12/170 2/24/340 4/48/680 8/96/1360",
        375,
        link=_NVSWITCH,
    )
    add(
        "a3-highgpu-{}g",
        "A3",
        H100,
        "1/26/234 2/52/468 4/104/936 8/208/1872",
        750,
        "8",
        link=_NVSWITCH,
    )
    add(
        "a3-megagpu-{}g", "A3Plus", H100_MEGA, "8/208/1872", 750, link=_NVSWITCH, network="1.8 Tbps"
    )
    add(
        "a3-ultragpu-{}g",
        "A3Ultra",
        H200,
        "8/224/2952",
        1500,
        "none",
        link=_NVSWITCH,
        network="RDMA 3.2 Tbps",
    )
    add(
        "a4-highgpu-{}g",
        None,
        B200,
        "8/224/3968",
        None,
        "none",
        link=_NVSWITCH,
        network="RDMA 3.2 Tbps",
    )
    add(
        "g2-standard-{}",
        "G2",
        L4,
        "4=1/4/16 8=1/8/32 12=1/12/48 16=1/16/64 24=2/24/96 32=1/32/128 48=4/48/192 96=8/96/384",
        link="PCIe",
    )
    add(
        "g4-standard-{}",
        "G4",
        RTX_PRO_6000,
        "48=1/48/180 96=2/96/360 192=4/192/720 384=8/384/1440",
        link="PCIe",
    )
    return tuple(found)


MACHINES = _machines()
BY_NAME = {machine.name: machine for machine in MACHINES}
