"""An invented provider and a year that lies behind it, for benchmarks of the store.

Deterministic: the same arguments give the same offers. Every call makes new objects, as every poll
of a real provider does.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal

import psycopg

from tracker.domain.gpu import Gpu
from tracker.domain.offer import (
    Availability,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    Offer,
    PriceUnit,
)
from tracker.store import partitions

GPUS = tuple(
    Gpu(f"{family}-{form}-{vram}GB", family, form, vram)
    for family, form, vram in (
        ("H100", "SXM", 80), ("A100", "SXM", 80), ("A100", "PCIE", 40), ("L40S", "PCIE", 48),
        ("RTX4090", "PCIE", 24), ("T4", "PCIE", 16), ("V100", "SXM", 32), ("L4", "PCIE", 24),
    )
)  # fmt: skip


def offers_of(
    source: str, count: int, *, hosts: bool, turn: int = 0, changed: float = 0.0
) -> list[Offer]:
    """*count* offers of a provider: a cloud's price list, or machines of independent *hosts*.

    The share *changed* of the prices differs from the previous *turn*'s: half of it moves away
    from the list price, the other half returns to it. With a share of 1 all move every turn.
    """
    dice = random.Random(20261130)  # noqa: S311 - the same world every time
    every = round(2 / changed) if changed else 0
    offers = []
    for number in range(count):
        cents = dice.randrange(20, 4000)
        if changed >= 1 or (every and number % every == turn % every):
            cents += 1 + turn
        offers.append(_offer(dice, source, number, Decimal(cents) / 100, hosts=hosts))
    return offers


def _offer(dice: random.Random, source: str, number: int, usd: Decimal, *, hosts: bool) -> Offer:
    region = f"{dice.choice(('us', 'eu', 'ap'))}-{dice.choice(('east', 'west'))}-{number % 4}"
    listed = ListedOffer(
        source_id=f"{'m' if hosts else 'type'}-{number}",
        gpu_name=(gpu := GPUS[number % len(GPUS)]).key,
        gpu_count=Decimal(dice.choice((1, 2, 4, 8))),
        price=NativePrice(usd, "USD", PriceUnit.MACHINE_HOUR),
        market=dice.choice((Market.ON_DEMAND, Market.SPOT)),
        tier="verified" if hosts else "standard",
        region=region,
        vcpus=Decimal(dice.choice((8, 16, 32))),
        ram_gib=Decimal(dice.choice((64, 128, 256))),
        extras=Extras()
        if not hosts
        else Extras(
            availability=Availability.YES,
            disk_gb=Decimal(dice.randint(100, 4000)),
            network_down_mbps=Decimal(dice.randint(1000, 90_000)) / 10,
            network_up_mbps=Decimal(dice.randint(1000, 90_000)) / 10,
            reliability=Decimal(dice.randint(90_000, 99_999)) / 100_000,
            max_duration_hours=Decimal(dice.randint(10, 900)),
        ),
    )
    price = listed.price.machine_hour(listed.gpu_count, Decimal(1))
    return Offer(source, source, gpu, price, listed)


def a_year_before(
    connection: psycopg.Connection[object], until: datetime, *, identities: int, spans: int
) -> None:
    """Fill the store with the history of offers that are gone: equally many spans for each."""
    months = {partitions.month_of(until - timedelta(days=day)) for day in range(-31, 366)}
    with connection.cursor() as cursor:
        partitions.ensure(cursor, months)
        cursor.execute("INSERT INTO provider (slug, kind) VALUES ('past', 'stream') RETURNING id")
        [(source,)] = cursor.fetchall()
        cursor.execute(
            "INSERT INTO offer (key, source_id, seller_id, native_id, gpu_key, gpu_family,"
            " is_slice, gpu_count, market, tier, price_kind, currency, price_unit,"
            " commitment_unknown, gpu_raw, first_seen_at)"
            " SELECT decode(md5(i::text), 'hex'), %(source)s, %(source)s, 'past-' || i,"
            " 'GPU-' || i %% 40, 'GPU', false, 1, 'on_demand', 'verified', 'fixed', 'USD',"
            " 'machine_hour', false, 'GPU', %(until)s FROM generate_series(1, %(n)s) i",
            {"source": source, "n": identities, "until": until},
        )
        cursor.execute(
            "INSERT INTO price_span (offer_id, source_id, seller_id, gpu_key, market, tier,"
            " gpu_count, fallback, price_native, price_micro_usd, valid_from, valid_to)"
            " SELECT o.id, o.source_id, o.source_id, o.gpu_key, o.market, o.tier, 1, false,"
            " 1 + n %% 9, (1 + n %% 9) * 1000000, x.t - interval '1 hour', x.t"
            " FROM generate_series(1, %(spans)s / %(n)s) n, offer o,"
            " LATERAL (SELECT %(until)s - (n * interval '365 days' / (%(spans)s / %(n)s + 1))"
            "          + o.id %% 3600 * interval '1 second' AS t) x"
            " WHERE o.source_id = %(source)s",
            {"source": source, "n": identities, "spans": spans, "until": until},
        )
    connection.commit()
