"""An offer as what somebody else's tool launches it with: a task file or a command, as text.

Nothing is launched here. Where a tool cannot say something of the offer, the text says so; where
it cannot say enough to get that offer, there is no text but a reason. docs/launching.md has the
sources of what is known of each tool.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.gpu import Gpu
from tracker.domain.place import region_of
from tracker.report.ages import known_at
from tracker.report.shapes import texts, words
from tracker.report.shapes.rows import ref

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.cheapest import Row

IMAGE = "IMAGE"  # what the reader puts in its place


class Launch(NamedTuple):
    """What to print; ``unsaid`` is what the tool cannot be told of the offer, a line each."""

    text: str
    unsaid: tuple[str, ...]


class CannotLaunch(Exception):
    """This tool cannot get this offer; the message says why, and reads behind the offer."""


class Asked(NamedTuple):
    """An offer, the job it is for, and its GPU as the catalogue has it."""

    row: Row
    job: Job
    gpu: Gpu

    @property
    def gpus(self) -> int:
        """GPUs of a machine."""
        return int(self.row.offer.gpu_count)

    @property
    def spot(self) -> bool:
        return self.row.offer.market == "spot"

    @property
    def disk_gb(self) -> int | None:
        """Whole GB on each machine, where the job needs a disk."""
        disk = self.job.disk_gb
        return int(disk.to_integral_value(ROUND_CEILING)) if disk else None


# -- what the tools know ---------------------------------------------------------------------------

# provider → (its name there, whether offers here have the ids of machines that it has there,
# whether the regions are the provider's own). Without an id the GPU and its number are asked for.
_SKY: Mapping[str, tuple[str, bool, bool]] = {
    "aws": ("aws", True, True), "azure": ("azure", True, True), "gcp": ("gcp", False, True),
    "lambda": ("lambda", False, False), "nebius": ("nebius", False, False),
    "oci": ("oci", False, False), "runpod": ("runpod", False, False),
    "vastai": ("vast", False, False),
}  # fmt: skip
_DSTACK: Mapping[str, tuple[str, bool, bool]] = {
    "aws": ("aws", True, True), "azure": ("azure", True, True), "gcp": ("gcp", False, True),
    "lambda": ("lambda", False, False), "nebius": ("nebius", False, False),
    "oci": ("oci", False, False), "runpod": ("runpod", False, False),
    "vastai": ("vastai", False, False),
}  # fmt: skip
# Where a tool runs no more than one machine for a task, and where it asks for no spot machine.
_ONE_MACHINE = {"SkyPilot": ("runpod", "vastai"), "dstack": ("lambda", "vastai")}
_NO_SPOT = {"SkyPilot": ("lambda",), "dstack": ("lambda",)}
# Families that both tools call by the same name.
_FAMILIES = frozenset(
    ("A10", "A10G", "A100", "B200", "B300", "H100", "H200", "L4", "L40S", "RTX4090", "T4", "V100")
)
# SkyPilot has the memory in the name where a family has two sizes, but for the first of them.
_SKY_WITH_MEMORY = {("A100", 40): "A100", ("A100", 80): "A100-80GB", ("V100", 16): "V100",
                    ("V100", 32): "V100-32GB"}  # fmt: skip
_MARKETS = ("on_demand", "spot")


def launch(row: Row, job: Job, gpu: Gpu | None, tool: str) -> Launch:
    """What gets the offer of *row* with *tool*, one of TOOLS. Raises CannotLaunch."""
    offer = row.offer
    if gpu is None or offer.is_slice or offer.gpu_count % 1:
        raise CannotLaunch("is a part of a GPU, which cannot be asked for by name")
    if offer.market not in _MARKETS:
        market = str(offer.market).replace("_", " ")
        raise CannotLaunch(f"is {market}, and {tool} takes on demand and spot only")
    if offer.source != offer.provider:
        raise CannotLaunch(
            f"is told by {offer.source} alone, not by {offer.provider} itself: look there first"
        )
    return TOOLS[tool](Asked(row, job, gpu))


# -- task files ------------------------------------------------------------------------------------


def _skypilot(asked: Asked) -> Launch:
    cloud, by_id, by_region = _backend(asked, _SKY, "SkyPilot")
    offer = asked.row.offer
    region = _region(offer.region) if by_region else None
    lines = [
        *_comments(asked, "sky launch FILE"),
        f'name: "{_name(asked.job)}"',
        "resources:",
        f"  infra: {cloud}/{region}" if region else f"  infra: {cloud}",
    ]
    unsaid = [*_unsaid(asked, region), *_where(asked)]
    if by_id and _word(offer.native_id):
        lines.append(f'  instance_type: "{offer.native_id}"')
    else:
        lines.append(f"  accelerators: {_sky_gpu(asked)}:{asked.gpus}")
        unsaid += _form(asked)
    lines.append(f"  use_spot: {str(asked.spot).lower()}")
    if asked.disk_gb:
        lines.append(f"  disk_size: {asked.disk_gb}")
    lines.append(f"num_nodes: {asked.row.bill.machines}")
    unsaid.append("a highest price: SkyPilot takes what the provider asks at that moment")
    return _file(lines, unsaid, "# setup: and run: are yours to add.")


def _dstack(asked: Asked) -> Launch:
    backend, by_id, by_region = _backend(asked, _DSTACK, "dstack")
    offer = asked.row.offer
    region = _region(offer.region) if by_region else None
    if offer.gpu_family not in _FAMILIES:
        raise CannotLaunch(f"has a {asked.gpu.key}, whose name in dstack is not known here")
    lines = [
        *_comments(asked, "dstack apply -f FILE (its name must end with .dstack.yml)"),
        "type: task",
        f'name: "{_name(asked.job)}"',
        f"nodes: {asked.row.bill.machines}",
        "commands:",
        "  - nvidia-smi  # put your own here",
        f"backends: [{backend}]",
    ]
    if region:
        lines.append(f'regions: ["{region}"]')
    if by_id and _word(offer.native_id):
        lines.append(f'instance_types: ["{offer.native_id}"]')
    lines += [
        f"spot_policy: {'spot' if asked.spot else 'on-demand'}",
        f"max_price: {_price(asked)}  # USD an hour for one machine",
        "resources:",
        "  gpu:",
        f"    name: {offer.gpu_family}",
    ]
    if asked.gpu.vram_gb:
        lines.append(f"    memory: {asked.gpu.vram_gb}GB")
    lines.append(f"    count: {asked.gpus}")
    lines.append(f"  disk: {asked.disk_gb}GB.." if asked.disk_gb else "  disk: 1GB..")
    return _file(lines, [*_unsaid(asked, region), *_where(asked), *_form(asked)], "")


def _backend(
    asked: Asked, known: Mapping[str, tuple[str, bool, bool]], tool: str
) -> tuple[str, bool, bool]:
    provider, machines = asked.row.offer.provider, asked.row.bill.machines
    found = known.get(provider)
    if found is None:
        raise CannotLaunch(f"is of a provider that {tool} is not known to launch on")
    if machines > 1 and provider in _ONE_MACHINE[tool]:
        raise CannotLaunch(f"takes {machines} machines; {tool} launches one of {provider}'s only")
    if asked.spot and provider in _NO_SPOT[tool]:
        raise CannotLaunch(f"is spot, which {tool} does not ask {provider} for")
    return found


def _sky_gpu(asked: Asked) -> str:
    family, memory = asked.row.offer.gpu_family, asked.gpu.vram_gb
    name = _SKY_WITH_MEMORY.get((family, memory or 0), family)
    twofold = family in {one for one, _ in _SKY_WITH_MEMORY}
    if family not in _FAMILIES or (twofold and (family, memory) not in _SKY_WITH_MEMORY):
        raise CannotLaunch(f"has a {asked.gpu.key}, whose name in SkyPilot is not known here")
    return name


def _file(lines: list[str], unsaid: list[str], last: str) -> Launch:
    begun = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    said = [_comment(f"Not said: {line}.") for line in unsaid]
    whole = [*lines[:begun], *said, *lines[begun:], *([last] if last else [])]
    return Launch("\n".join(whole) + "\n", tuple(unsaid))


# -- commands --------------------------------------------------------------------------------------


def _runpodctl(asked: Asked) -> Launch:
    offer = asked.row.offer
    _only(asked, "runpod", "runpodctl")
    if asked.spot:
        raise CannotLaunch("is spot, for which runpodctl has no option")
    if texts.visible(offer.native_id) != offer.native_id:
        raise CannotLaunch("has an id with characters that cannot be shown")
    if offer.tier not in ("secure", "community"):
        raise CannotLaunch(f"is of the tier {offer.tier}, for which runpodctl has no option")
    words_ = [
        "runpodctl", "pod", "create", "--name", _name(asked.job), "--gpu-id", offer.native_id,
        "--gpu-count", str(asked.gpus), "--cloud-type", offer.tier.upper(),
        *(["--container-disk-in-gb", str(asked.disk_gb)] if asked.disk_gb else []),
        "--image", IMAGE,
    ]  # fmt: skip
    unsaid = [*_unsaid(asked, offer.region), *_times(asked)]
    unsaid.append("a highest price: RunPod bills what it asks at that moment")
    return _command([shlex.join(words_)], asked, unsaid)


def _vastai(asked: Asked) -> Launch:
    offer = asked.row.offer
    _only(asked, "vastai", "vastai")
    found = re.fullmatch(r"(\d+)/(\d+)", offer.native_id, re.ASCII)
    if not found:
        raise CannotLaunch("has no number of a machine")
    disk = ["--storage", str(asked.disk_gb)] if asked.disk_gb else []
    search = [
        "vastai", "search", "offers", f"machine_id={found[1]} num_gpus={found[2]}", "-n",
        "-t", "bid" if asked.spot else "on-demand", *disk,
    ]  # fmt: skip
    create = [
        "vastai", "create", "instance", "ID", "--image", IMAGE,
        *(["--disk", str(asked.disk_gb)] if asked.disk_gb else []),
        *(["--bid_price", _price(asked)] if asked.spot else []),
    ]  # fmt: skip
    unsaid = [
        "the ID: hosts list their machines anew; take it from the first command", *_times(asked)
    ]  # fmt: skip
    if asked.spot:
        unsaid.append("how long it lasts: the bid is the lowest that is taken now")
    else:
        unsaid.append("a highest price: compare what the first command shows")
    return _command([shlex.join(search), shlex.join(create)], asked, unsaid)


def _only(asked: Asked, provider: str, tool: str) -> None:
    if asked.row.offer.provider != provider:
        raise CannotLaunch(f"is of a provider that {tool} is not for")


def _times(asked: Asked) -> Iterator[str]:
    machines = asked.row.bill.machines
    if machines > 1:
        yield f"the number of machines: {machines} are needed, so run it {machines} times"


def _command(lines: list[str], asked: Asked, unsaid: list[str]) -> Launch:
    said = [_comment(f"Not said: {line}.") for line in unsaid]
    image = f"# Put your container's image in the place of {IMAGE}."
    return Launch("\n".join([*_comments(asked, ""), *said, image, *lines]) + "\n", tuple(unsaid))


# -- what they share -------------------------------------------------------------------------------


def _comments(asked: Asked, command: str) -> Iterator[str]:
    offer, bill = asked.row.offer, asked.row.bill
    many = f"{bill.machines} machines with " if bill.machines > 1 else ""
    yield _comment(
        f"{asked.job.name}: {many}{asked.gpus} x {offer.gpu_key}, {offer.provider}, "
        f"{str(offer.market).replace('_', ' ')}, {offer.tier}; offer {ref(offer.key)}"
    )
    stale = ", stale" if asked.row.stale else ""
    seen_at = known_at(offer)
    seen = "nobody knows when" if seen_at is None else texts.iso(seen_at)
    yield _comment(
        f"{words.total(bill)} for the job, {texts.usd(bill.price.usd, 4)} an hour for a machine; "
        f"seen {seen}{stale}; hours: {bill.basis}"
    )
    yield "# gpucost launches nothing: check it, then run it yourself."
    if command:
        yield f"# {command}"


def _comment(text: str) -> str:
    return f"# {texts.visible(text)}"


def _unsaid(asked: Asked, region: str | None) -> Iterator[str]:
    offer = asked.row.offer
    if offer.region and region is None:
        yield f"the region: the price is that of {texts.visible(offer.region)}"
    elif offer.region and region != offer.region:
        yield f"the zone: the price is that of {texts.visible(offer.region)}"


def _region(place: str | None) -> str | None:
    """The region of *place* where it can stand in YAML as it is; a zone of it is left out."""
    region = region_of(place)
    return region if _word(region) else None


def _where(asked: Asked) -> Iterator[str]:
    """What a tool for many clouds cannot be told of a marketplace."""
    offer = asked.row.offer
    if offer.provider in ("runpod", "vastai"):
        yield f"the tier: the price is that of {offer.tier}"
    if offer.provider == "vastai":
        yield f"the machine: the price is that of {offer.native_id.partition('/')[0]}"


def _form(asked: Asked) -> Iterator[str]:
    if asked.gpu.form_factor:
        yield f"the form factor: the price is that of {asked.gpu.key}"


def _price(asked: Asked) -> str:
    """USD an hour for one machine, to a millionth, rounded up: not below the price."""
    usd = asked.row.bill.price.usd.quantize(Decimal("0.000001"), ROUND_CEILING)
    return texts.number(usd)


def _name(job: Job) -> str:
    """A name that all the tools take: lower-case letters, digits and hyphens."""
    name = re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")[:40].strip("-")
    return name if len(name) > 1 and name[0].isalpha() else f"job-{name}".strip("-")


def _word(text: str | None) -> bool:
    """Whether *text* can stand in YAML as it is."""
    return text is not None and re.fullmatch(r"[A-Za-z][\w.-]*", text, re.ASCII) is not None


TOOLS: Mapping[str, Callable[[Asked], Launch]] = {
    "skypilot": _skypilot, "dstack": _dstack, "runpodctl": _runpodctl, "vastai": _vastai,
}  # fmt: skip
