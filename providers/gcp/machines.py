"""GPU machine types of Compute Engine: what each holds, and from which price items it is made up.

Hardware: Google's machine type lists as Cyclenerd's google-cloud-pricing-cost-calculator
(tools/machinetypes.csv @dac31281, Apache-2.0) restates them. Which items make up a price and how
much local SSD a type brings: worked out against Google's price page, to the last digit for
a2-highgpu-1g, a2-ultragpu-1g and a3-highgpu-8g.

T4, V100 and P100 are no machine types: one attaches them to an N1 machine of one's choice. Listed
are n1-standard-8 for each GPU (8 vCPUs and 30 GiB, docs/adr/0015), within the most that Google
allows beside so many GPUs (https://cloud.google.com/compute/docs/gpus#n1-gpus).

What an a3-edgegpu is made up of is not known for sure, so that it has a price only where one is
given for the whole machine. Nor is it of an a4x-maxgpu and of the fractions of a g4.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

GB_PER_GIB = Decimal("1.073741824")

_NVSWITCH = "NVLink/NVSwitch"
_RDMA = "RDMA 3.2 Tbps"

ON_DEMAND, SPOT, COMMITTED = "on_demand", "spot", "committed"
ALL = frozenset({ON_DEMAND, SPOT, COMMITTED})
# Small A3 machines are for Spot or Flex-start only; those of later series are reserved, and a
# commitment may be attached to the reservation; A4X has no spot:
# https://cloud.google.com/compute/docs/accelerator-optimized-machines
_SPOT_ONLY = frozenset({SPOT})
_NOT_ON_DEMAND = frozenset({SPOT, COMMITTED})
_COMMITTED_ONLY = frozenset({COMMITTED})


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
    be had without, billed beside; None: included, or not known. ``ways`` are those in
    which it is to be had: ON_DEMAND, SPOT, COMMITTED (flex-start and calendar mode are never
    listed). ``summed`` is False where the price items are not known.
    """

    name: str
    host: str | None
    gpu: Gpu
    gpu_count: Decimal
    vcpus: int
    ram_gib: int
    ssd_gib: int | None = 0
    ways: frozenset[str] = ALL
    summed: bool = True
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
GB200 = _gpu("GB200", None, 186, "a4x gb200 (1 slice)", "gb200")  # named after A4's; not seen
T4 = _gpu("T4", "PCIE", 16, "t4", "t4")
V100 = _gpu("V100", "SXM", 16, "v100", "v100")
P100 = _gpu("P100", "PCIE", 16, "p100", "p100")

GPUS = (A100_40, A100_80, H100, H100_MEGA, H200, B200, GB200, L4, RTX_PRO_6000, T4, V100, P100)

# The words for hosts in price items: "A2 Instance Core".
HOSTS = ("A2", "A3", "A3Plus", "A3Ultra", "G2", "G4")
N1 = "N1"  # "N1 Predefined Instance Core", in commitments plain "Cpu" and "Ram"

# GPU, its accelerator type, how many one may attach to an N1 machine, and how they are joined.
_ATTACHED = (
    (T4, "nvidia-tesla-t4", (1, 2, 4), "PCIe"),
    (V100, "nvidia-tesla-v100", (1, 2, 4, 8), "NVLink"),
    (P100, "nvidia-tesla-p100", (1, 2, 4), "PCIe"),
)


def _machines() -> tuple[Machine, ...]:
    found: list[Machine] = []

    def add(
        pattern: str, host: str | None, gpu: Gpu, sizes: str, ssd_gib: int | None = 0,
        ways: frozenset[str] = ALL, link: str | None = None, network: str | None = None,
        *, summed: bool = True,
    ) -> None:  # fmt: skip
        """Sizes are "count/vCPUs/GiB", with "label=" before where the name has another number;
        *ssd_gib* is for one GPU."""
        for size in sizes.split():
            label, _, rest = size.partition("=")
            count, vcpus, ram = (rest or label).split("/")
            gpus = Decimal(count)
            found.append(Machine(
                name=pattern.format(label if rest else count), host=host, gpu=gpu, gpu_count=gpus,
                vcpus=int(vcpus), ram_gib=int(ram),
                ssd_gib=None if ssd_gib is None else int(ssd_gib * gpus), ways=ways, summed=summed,
                interconnect=link if gpus > 1 else None, network=network,
            ))  # fmt: skip

    add("a2-highgpu-{}g", "A2", A100_40, "1/12/85 2/24/170 4/48/340 8/96/680", link=_NVSWITCH)
    add("a2-megagpu-{}g", "A2", A100_40, "16/96/1360", link=_NVSWITCH)
    add("a2-ultragpu-{}g", "A2", A100_80, "1/12/170 2/24/340 4/48/680 8/96/1360", 375,
        link=_NVSWITCH)  # fmt: skip
    add("a3-highgpu-{}g", "A3", H100, "1/26/234 2/52/468 4/104/936", 750, _SPOT_ONLY, _NVSWITCH)
    add("a3-highgpu-{}g", "A3", H100, "8/208/1872", 750, link=_NVSWITCH)
    add("a3-edgegpu-{}g", "A3", H100, "8/208/1872", 750, link=_NVSWITCH, summed=False)
    add("a3-megagpu-{}g", "A3Plus", H100_MEGA, "8/208/1872", 750, link=_NVSWITCH,
        network="1.8 Tbps")  # fmt: skip
    add("a3-ultragpu-{}g", "A3Ultra", H200, "8/224/2952", 1500, _NOT_ON_DEMAND, _NVSWITCH, _RDMA)
    add("a4-highgpu-{}g", None, B200, "8/224/3968", None, _NOT_ON_DEMAND, _NVSWITCH, _RDMA)
    add("a4x-highgpu-{}g", None, GB200, "4/140/884", None, _COMMITTED_ONLY, "NVLink domain")
    add("g2-standard-{}", "G2", L4, "4=1/4/16 8=1/8/32 12=1/12/48 16=1/16/64 24=2/24/96 "
        "32=1/32/128 48=4/48/192 96=8/96/384", link="PCIe")  # fmt: skip
    add("g4-standard-{}", "G4", RTX_PRO_6000, "48=1/48/180 96=2/96/360 192=4/192/720 "
        "384=8/384/1440", link="PCIe")  # fmt: skip
    for gpu, accelerator, counts, link in _ATTACHED:
        for count in counts:
            vcpus = 8 * count
            add(f"n1-standard-{vcpus} + {{}} x {accelerator}", N1, gpu,
                f"{count}/{vcpus}/{30 * count}", link=link)  # fmt: skip
    return tuple(found)


MACHINES = _machines()
BY_NAME = {machine.name: machine for machine in MACHINES}
