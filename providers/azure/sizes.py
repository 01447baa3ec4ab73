"""GPU facts of Azure VM sizes: the price API names a size but never its GPUs.

Sources: the series tables of the Azure documentation as SkyPilot and gpuhunt restate them, and
(second-hand, with a note on the row) SkyPilot's hard-coded counts for sizes whose page is not
public. Counts of Azure's own SKU API are not used: it reported 12 GPUs for an 8-GPU machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

_NVSWITCH = "NVLink/NVSwitch"
_BRIDGE = "NVLink bridge"
_TREATED_AS_H100 = "size page not public: GPU facts taken from its series"
_SECOND_HAND = "GPU facts of this size are second-hand"


@dataclass(frozen=True, slots=True)
class Size:
    """What one VM of a size holds.

    ``gpu_count`` below 1 is the share of one card that a vGPU size gets; ``vram_gb`` is the
    nominal memory of a whole card in GB. ``doubt`` is a remark for the user about the facts;
    ``count_certain=False`` means that even the GPU count is not sure, so no price may be shown.
    """

    gpu: str
    form_factor: str | None
    gpu_count: Decimal
    vram_gb: Decimal
    interconnect: str | None
    vcpus: Decimal
    ram_gib: Decimal
    doubt: str | None = None
    count_certain: bool = True

    @property
    def slice(self) -> bool:
        """Whether the VM gets less than one card."""
        return self.gpu_count < 1


def _size(
    gpu: str, form_factor: str | None, count: str, vram: int, link: str | None,
    vcpus: int, ram: int, doubt: str | None = None, count_certain: bool = True,
) -> Size:  # fmt: skip
    return Size(gpu, form_factor, Decimal(count), Decimal(vram), link, Decimal(vcpus),
                Decimal(ram), doubt, count_certain)  # fmt: skip


_IB_200 = f"{_NVSWITCH}; InfiniBand 8x200 Gbps"
_IB_400 = f"{_NVSWITCH}; InfiniBand 8x400 Gbps"

SIZES: dict[str, Size] = {
    # name: GPU, form, GPUs, GB a GPU, link between GPUs; between machines, vCPUs, RAM GiB
    "Standard_ND96asr_v4": _size("A100", "SXM", "8", 40, _IB_200, 96, 900),
    "Standard_ND96asr_A100_v4": _size(
        "A100", "SXM", "8", 40, _IB_200, 96, 900, "other name of Standard_ND96asr_v4"),
    "Standard_ND96amsr_A100_v4": _size("A100", "SXM", "8", 80, _IB_200, 96, 1900),
    "Standard_ND96ams_A100_v4": _size("A100", "SXM", "8", 80, _NVSWITCH, 96, 1900),
    "Standard_NC24ads_A100_v4": _size("A100", "PCIE", "1", 80, None, 24, 220),
    "Standard_NC48ads_A100_v4": _size("A100", "PCIE", "2", 80, _BRIDGE, 48, 440),
    "Standard_NC96ads_A100_v4": _size("A100", "PCIE", "4", 80, f"{_BRIDGE} pairs", 96, 880),
    "Standard_ND96isr_H100_v5": _size("H100", "SXM", "8", 80, _IB_400, 96, 1900),
    "Standard_ND96is_H100_v5": _size(
        "H100", "SXM", "8", 80, _NVSWITCH, 96, 1900, _TREATED_AS_H100),
    "Standard_ND96is_noIB_H100_v5": _size(
        "H100", "SXM", "8", 80, _NVSWITCH, 96, 1900, _TREATED_AS_H100),
    "Standard_ND96is_flex_H100_v5": _size(
        "H100", "SXM", "8", 80, _NVSWITCH, 96, 1900, _TREATED_AS_H100),
    "Standard_ND96isf_H100_v5": _size(
        "H100", "SXM", "8", 80, _NVSWITCH, 96, 1900, _TREATED_AS_H100),
    "Standard_ND96isrf_H100_v5": _size(
        "H100", "SXM", "8", 80, f"{_NVSWITCH}; InfiniBand", 96, 1900, _TREATED_AS_H100),
    "Standard_NC40ads_H100_v5": _size("H100 NVL", "NVL", "1", 94, None, 40, 320),
    "Standard_NC80adis_H100_v5": _size("H100 NVL", "NVL", "2", 94, _BRIDGE, 80, 640),
    "Standard_NCC40ads_H100_v5": _size(
        "H100 NVL", "NVL", "1", 94, None, 40, 320, "confidential VM"),
    "Standard_ND96isr_H200_v5": _size("H200", "SXM", "8", 141, _IB_400, 96, 1850),
    "Standard_ND96isr_MI300X_v5": _size(
        "MI300X", "OAM", "8", 192, "Infinity Fabric; InfiniBand", 96, 1850),
    "Standard_ND96is_MI300X_v5": _size(
        "MI300X", "OAM", "8", 192, "Infinity Fabric", 96, 1850, _SECOND_HAND),
    "Standard_ND128isr_NDR_GB200_v6": _size(
        "GB200", None, "4", 186, "NVLink domain; InfiniBand", 128, 900, _SECOND_HAND),
    "Standard_ND128isr_GB300_v6": _size(
        "GB300", None, "4", 278, "NVLink domain; InfiniBand", 128, 900, _SECOND_HAND),
    "Standard_ND40rs_v2": _size("V100", "SXM", "8", 32, "NVLink; InfiniBand 100 Gbps", 40, 672),
    "Standard_NC6s_v3": _size("V100", "PCIE", "1", 16, None, 6, 112),
    "Standard_NC12s_v3": _size("V100", "PCIE", "2", 16, "PCIe", 12, 224),
    "Standard_NC24s_v3": _size("V100", "PCIE", "4", 16, "PCIe", 24, 448),
    "Standard_NC24rs_v3": _size("V100", "PCIE", "4", 16, "PCIe; RDMA", 24, 448),
    "Standard_NC4as_T4_v3": _size("T4", "PCIE", "1", 16, None, 4, 28),
    "Standard_NC8as_T4_v3": _size("T4", "PCIE", "1", 16, None, 8, 56),
    "Standard_NC16as_T4_v3": _size("T4", "PCIE", "1", 16, None, 16, 110),
    "Standard_NC64as_T4_v3": _size("T4", "PCIE", "4", 16, "PCIe", 64, 440),
    "Standard_NV6ads_A10_v5": _size("A10", "PCIE", "0.1667", 24, None, 6, 55),
    "Standard_NV12ads_A10_v5": _size("A10", "PCIE", "0.3333", 24, None, 12, 110),
    "Standard_NV18ads_A10_v5": _size("A10", "PCIE", "0.5", 24, None, 18, 220),
    "Standard_NV36ads_A10_v5": _size("A10", "PCIE", "1", 24, None, 36, 440),
    "Standard_NV72ads_A10_v5": _size("A10", "PCIE", "2", 24, "PCIe", 72, 880),
    "Standard_NV36adms_A10_v5": _size("A10", "PCIE", "1", 24, None, 36, 880),
    # One source halves the GPU of the 8-vCPU size, which would double its price per GPU.
    "Standard_NC8ads_A10_v4": _size(
        "A10", "PCIE", "1", 24, None, 8, 100, _SECOND_HAND, count_certain=False),
    "Standard_NC16ads_A10_v4": _size("A10", "PCIE", "1", 24, None, 16, 200, _SECOND_HAND),
    "Standard_NC32ads_A10_v4": _size("A10", "PCIE", "2", 24, "PCIe", 32, 400, _SECOND_HAND),
}  # fmt: skip

_BY_NAME = {name.casefold(): (name, size) for name, size in SIZES.items()}


def find(sku: str) -> tuple[str, Size] | None:
    """The size's name as the table spells it and its facts; None when the table lacks it."""
    return _BY_NAME.get(sku.casefold())
