"""What serving a model costs: $ per million tokens, per request, per month; per batch job.

The unit is a copy of the model on one or more whole machines, with the tokens per second of each of
the two phases while it does nothing else. A request then takes a copy

    seconds   = input tokens / input speed + output tokens / output speed
    $ / s     = machines of a copy x price of the machine per hour / 3600
    $ / token = $ / s / (speed x utilisation)

and utilisation is the share of the time that is sold. Where only the output speed is known,
prompts included, the prompts are paid for with the output and the input has no price of its own.
Source: price x GPUs / (3600 x rate), as in Kipply's "Transformer inference arithmetic", for whole
machines. Unit prices are rounded up in the 28th digit, so that price x count covers the bill.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

from tracker.domain.exact import (
    EXACT,
    BadFigure,
    not_negative,
    positive,
    ratio_up,
    share,
    whole_up,
)
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour

_SECONDS = Decimal(3600)
_MILLION = Decimal(1_000_000)
_ONE = Decimal(1)


class Copy(NamedTuple):
    """A copy of the model: the whole machines it takes, and its tokens per second by phase.

    ``input_per_second`` None: the output speed was measured with the prompts in it.
    """

    output_per_second: Decimal | None
    input_per_second: Decimal | None = None
    machines: int = 1
    gpus_per_machine: int = 1


class Request(NamedTuple):
    """Tokens of one request. ``output_tokens`` 0: embedding and the like."""

    input_tokens: int
    output_tokens: int


class TokenPrices(NamedTuple):
    """USD. ``per_million_input`` is None when prompts are paid for with the output.

    ``per_million_output`` is None when there is none. ``seconds`` are those of a copy for one
    request.
    """

    per_million_input: Decimal | None
    per_million_output: Decimal | None
    per_request: Decimal
    seconds: Decimal
    notes: tuple[str, ...] = ()


def token_prices(
    price: PerMachineHour, copy: Copy, request: Request, utilisation: Decimal = _ONE
) -> TokenPrices:
    """Unit prices at *utilisation* in (0, 1]. Raises BadFigure on figures that cannot be."""
    seconds = seconds_per_request(copy, request)
    positive("the price of the machine", price.usd)
    share("utilisation", utilisation)
    with localcontext(EXACT):
        per_hour = price.usd * copy.machines
        sold = _SECONDS * utilisation

    def per_million(speed: Decimal | None) -> Decimal | None:
        if speed is None:
            return None
        return ratio_up(EXACT.multiply(per_hour, _MILLION), EXACT.multiply(sold, speed))

    notes = []
    if copy.input_per_second is None:
        notes.append("reading the prompts is paid for with the output")
    return TokenPrices(
        per_million_input=per_million(copy.input_per_second),
        per_million_output=per_million(copy.output_per_second) if request.output_tokens else None,
        per_request=ratio_up(EXACT.multiply(per_hour, seconds), sold),
        seconds=seconds,
        notes=tuple(notes),
    )


def seconds_per_request(copy: Copy, request: Request) -> Decimal:
    """Seconds of a copy, kept busy, for one request; upwards in the 28th digit.

    Raises BadFigure when a speed that it takes is missing or not above 0.
    """
    return _up(_exact_seconds(copy, request))


def _exact_seconds(copy: Copy, request: Request) -> Fraction:
    if copy.machines < 1 or copy.gpus_per_machine < 1:
        raise BadFigure("a copy of the model takes 1 machine or more, with 1 GPU or more")
    if request.input_tokens < 0 or request.output_tokens < 0:
        raise BadFigure("a request cannot have fewer than 0 tokens")
    if request.input_tokens + request.output_tokens == 0:
        raise BadFigure("a request needs at least 1 token")
    for name, speed in (("input", copy.input_per_second), ("output", copy.output_per_second)):
        if speed is not None:
            positive(f"{name} tokens per second", speed)
    total = Fraction(0)
    if copy.input_per_second is not None:
        total += request.input_tokens / Fraction(copy.input_per_second)
    elif not request.output_tokens:
        raise BadFigure("requests without output need the input tokens per second")
    if request.output_tokens:
        if copy.output_per_second is None:
            raise BadFigure("requests with output need the output tokens per second")
        total += request.output_tokens / Fraction(copy.output_per_second)
    return total


def _up(number: Fraction) -> Decimal:
    return ratio_up(Decimal(number.numerator), Decimal(number.denominator))


class Fleet(NamedTuple):
    """The machines that serve a rate of requests, rented all month (730 h).

    ``utilisation`` is the share of their time that is then used, at most the one asked for.
    ``usd_per_month`` is exact; ``usd_per_request`` is that bill divided among the requests.
    """

    copies: int
    machines: int
    gpus: int
    utilisation: Decimal
    usd_per_month: Decimal
    usd_per_request: Decimal


def fleet(
    price: PerMachineHour,
    copy: Copy,
    request: Request,
    requests_per_second: Decimal,
    utilisation: Decimal = _ONE,
) -> Fleet:
    """Whole copies for *requests_per_second* (> 0), none busier than *utilisation* in (0, 1].

    Raises BadFigure on figures that cannot be.
    """
    seconds = _exact_seconds(copy, request)
    positive("the price of the machine", price.usd)
    positive("requests per second", requests_per_second)
    share("utilisation", utilisation)
    # A fraction: a last digit rounded up would now and then cost a whole machine.
    busy = Fraction(requests_per_second) * seconds
    copies = math.ceil(busy / Fraction(utilisation))
    machines = copies * copy.machines
    with localcontext(EXACT):
        month = machines * price.usd * HOURS_PER_MONTH
        requests = requests_per_second * HOURS_PER_MONTH * _SECONDS
    return Fleet(
        copies=copies,
        machines=machines,
        gpus=machines * copy.gpus_per_machine,
        utilisation=_up(busy / copies),
        usd_per_month=month,
        usd_per_request=ratio_up(month, requests),
    )


def machines_for(copy: Copy, output_per_second: Decimal, utilisation: Decimal = _ONE) -> int:
    """Whole machines for a target of output tokens per second (> 0), at *utilisation*.

    Raises BadFigure when the copy's output speed is not known.
    """
    if copy.output_per_second is None:
        raise BadFigure("a target of output tokens needs the output tokens per second")
    positive("output tokens per second", copy.output_per_second)
    positive("the target in output tokens per second", output_per_second)
    share("utilisation", utilisation)
    one = EXACT.multiply(copy.output_per_second, utilisation)
    return whole_up(output_per_second, one) * copy.machines


def usd_per_completed(total_usd: Decimal, completed: int) -> Decimal:
    """A batch's whole bill divided among the jobs that it *completed* (>= 1); upwards, 28 digits.

    Jobs that failed are paid for by those that did not.
    """
    not_negative("the bill", total_usd)
    if completed < 1:
        raise BadFigure(f"no price per job with {completed} of them completed")
    return ratio_up(total_usd, Decimal(completed))
