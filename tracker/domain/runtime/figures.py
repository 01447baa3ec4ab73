"""A GPU as the formulas see it: plain numbers, and what it can compute in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from tracker.domain.gpu_data import GpuSpec

# GB/s of one direction of 16 lanes, by generation (a third of it is lost to protocol and sharing).
_PCIE_GBPS = {3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}

# Bytes of one stored weight. nf4: 4 bits and a 32-bit scale per 64; -dq: the scales quantised too.
# q4_k_m and the like: llama.cpp's mixtures, from the sizes of their files.
BYTES_PER_WEIGHT = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5625,
    "int4": 0.5625,
    "nf4": 0.5625,
    "nf4-dq": 0.516,
    "q8_0": 1.0625,
    "q6_k": 0.82,
    "q5_k_m": 0.71,
    "q4_k_m": 0.605,
    "q4_0": 0.58,
}

# Precisions that are only stored: the multiplication is done in 16 bits.
_STORED_ONLY = frozenset(
    {"int4", "nf4", "nf4-dq", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"}
)  # fmt: skip


# What large multiplications reach of the dense peak, at least, on the GPUs that the efficiencies
# were fitted to (A100 0.87, H100 0.80, B200 0.78). Others reach half (MI300X 0.51): their peak is
# taken down in proportion, or they would look far too fast.
_USUAL_REACH = 0.75


@dataclass(frozen=True, slots=True)
class Figures:
    """Dense TFLOPS, GB/s and GiB of one GPU; None where no source gives them.

    Where matrices were measured to reach much less of the peak than usual, less is given.
    """

    key: str
    architecture: str
    vram_gib: float
    bandwidth_gbps: float
    fp64: float | None
    fp32: float | None
    tf32: float | None
    fp16: float | None
    bf16: float | None
    fp8: float | None
    fp4: float | None
    int8: float | None
    nvlink_gbps: float | None
    pcie_gen: int | None

    @property
    def sixteen_bit(self) -> float | None:
        """Dense TFLOPS in 16 bits: bf16, fp16 where there is none."""
        return self.bf16 or self.fp16

    def tflops(self, precision: str) -> float | None:
        """Dense TFLOPS in *precision*; None: the GPU does not have it.

        ``best`` and precisions that weights are only stored in: 16 bits. ``tf32`` is done in fp32
        by GPUs without it.
        """
        if precision in _STORED_ONLY or precision == "best":
            return self.sixteen_bit
        if precision == "tf32":
            return self.tf32 or self.fp32
        if precision == "fp16-amp":
            return self.fp16
        if precision not in ("fp64", "fp32", "fp16", "bf16", "fp8", "fp4", "int8"):
            return None
        value: float | None = getattr(self, precision)
        return value

    @property
    def gpu_link_gbps(self) -> float:
        """One direction between GPUs of a machine: half of NVLink's sum, else PCIe."""
        if self.nvlink_gbps:
            return self.nvlink_gbps / 2
        return _PCIE_GBPS.get(self.pcie_gen or 4, 24.0)


def share_of(gpu: Figures, compute: float, memory: float) -> Figures:
    """A part of *gpu*: that share of its compute, and of its memory and bandwidth.

    A 1g.10gb slice of an A100 has 1/7 and 1/8. It has no link to other GPUs but PCIe. Raises
    ValueError for shares outside (0, 1].
    """
    if not (0 < compute <= 1 and 0 < memory <= 1):
        raise ValueError(f"shares of a GPU lie in (0, 1], not {compute:g} and {memory:g}")

    def part(value: float | None) -> float | None:
        return None if value is None else value * compute

    return replace(
        gpu,
        vram_gib=gpu.vram_gib * memory,
        bandwidth_gbps=gpu.bandwidth_gbps * memory,
        fp64=part(gpu.fp64),
        fp32=part(gpu.fp32),
        tf32=part(gpu.tf32),
        fp16=part(gpu.fp16),
        bf16=part(gpu.bf16),
        fp8=part(gpu.fp8),
        fp4=part(gpu.fp4),
        int8=part(gpu.int8),
        nvlink_gbps=None,
    )


def figures(spec: GpuSpec) -> Figures | None:
    """The figures of a part; None when no bandwidth or no compute is known of it."""
    if spec.bandwidth_gbps is None or spec.gpu.vram_gb is None:
        return None
    if spec.fp16_tflops is None and spec.bf16_tflops is None and spec.fp32_tflops is None:
        return None
    # "80 GB" is 80 GiB of chips, of which tools report a little less; without a report the
    # smaller reading of the name is taken.
    gib = min(spec.vram_mib) / 1024 if spec.vram_mib else spec.gpu.vram_gb * 1e9 / (1 << 30)
    reach = _reach(spec)
    return Figures(
        key=spec.gpu.key,
        architecture=spec.architecture,
        vram_gib=gib,
        bandwidth_gbps=float(spec.bandwidth_gbps),
        fp64=_number(spec.fp64_tflops),
        fp32=_number(spec.fp32_tflops),
        tf32=_number(spec.tf32_tflops, reach),
        fp16=_number(spec.fp16_tflops, reach),
        bf16=_number(spec.bf16_tflops, reach),
        fp8=_number(spec.fp8_tflops, reach),
        fp4=_number(spec.fp4_tflops, reach),
        int8=_number(spec.int8_tops, reach),
        nvlink_gbps=_number(spec.nvlink_gbps),
        pcie_gen=spec.pcie_gen,
    )


def _number(value: Decimal | None, factor: float = 1.0) -> float | None:
    return None if value is None else float(value) * factor


def _reach(spec: GpuSpec) -> float:
    """By how much the peak of the matrix units is taken down; 1 where nobody measured it."""
    if spec.measured_bf16_tflops is None or not spec.bf16_tflops:
        return 1.0
    return min(1.0, float(spec.measured_bf16_tflops / spec.bf16_tflops) / _USUAL_REACH)
