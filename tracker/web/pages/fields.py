"""The fields of the forms in which questions are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tracker.app.asked import Parameter
from tracker.web.pages.addresses import Address

_LABELS = {
    "hours": "Hours per GPU", "gpu": "GPUs", "provider": "Providers", "region": "Regions",
    "country": "Countries", "market": "Markets", "tier": "Tiers",
    "min_vram": "GB per GPU, at least",
    "gpus": "GPUs together", "disk": "Disk, GB", "egress": "Egress, GB", "setup": "Set-up, hours",
    "deadline": "Done within, hours", "goal": "Rank by", "top": "Rows",
    "include_stale": "Stale prices too", "available": "In stock only", "ecc": "ECC memory only",
    "dedicated": "Machines of one's own only", "as_of": "As it was at (UTC)",
    "min_ram": "GiB of RAM, at least", "min_vcpus": "vCPUs, at least",
    "min_disk": "Machine's disk, GB, at least", "min_network": "Mbit/s down, at least",
    "interconnect": "Interconnect", "kind": "Kind", "max_age": "Confirmed within",
    "download": "Download first, GB", "assume_network": "Mbit/s to assume",
    "compare": "Break-even of",
    "since": "Since", "until": "Until", "bucket": "Bucket", "tz": "Time zone", "stat": "Figure",
    "per": "A line per", "below": "Time below, USD", "estimates": "Hours of",
    "estimate_version": "Hours of", "left": "This GPU", "right": "Against",
}  # fmt: skip
_FIRST = ("gpu", "market", "goal", "hours", "left", "right", "since", "bucket", "stat", "per")


class Field(NamedTuple):
    """A field: its kind is select, checkbox, or text. ``choices`` are value and text."""

    name: str
    label: str
    help: str
    kind: str
    value: str
    choices: Sequence[tuple[str, str]] = ()
    first: bool = False


def job_fields(address: Address, known: Mapping[str, Parameter]) -> list[Field]:
    """A field for each of the parameters *known* but the job, the most used ones first."""
    found = [_field(name, parameter, address) for name, parameter in known.items() if name != "job"]
    return sorted(found, key=lambda field: not field.first)


def _field(name: str, parameter: Parameter, address: Address) -> Field:
    value = address.value(name)
    kind = "checkbox" if parameter.kind == "boolean" else "select" if parameter.choices else "text"
    if kind == "checkbox":
        given = any(known == name for known, _ in address.question)
        value = "true" if given and value.lower() not in ("0", "false", "no") else ""
    choices = tuple(_choices(parameter, value)) if kind == "select" else ()
    return Field(
        name, _LABELS.get(name, name.replace("_", " ").capitalize()), parameter.help, kind, value,
        choices, name in _FIRST,
    )  # fmt: skip


def _choices(parameter: Parameter, value: str) -> Iterator[tuple[str, str]]:
    """The words of a parameter; what is given beside them (a list, a mistake) stays a choice."""
    default = parameter.default if isinstance(parameter.default, str) else None
    if default is None:
        yield "", "usual"
    known = [str(one) for one in parameter.choices]
    if default in known:  # the default first: it need not be in the address
        yield "", f"{_shown(default)} (usual)"
    yield from ((one, _shown(one)) for one in known if one != default)
    if value and (value not in known):
        yield value, value
    elif value and value == default:
        yield value, _shown(value)


def _shown(word: str) -> str:
    return word.replace("_", "-")
