"""Database Mart (GPU Mart): plans read from its public price pages; there is no API.

The order of trust on a page: JSON-LD, embedded state, tables, card text (``structured.py``,
``lines.py``, ``plans.py``). A page that holds no price is an empty JavaScript shell: alone it
fails the poll, beside others it makes the poll incomplete.

Terms. A monthly price is often that of a longer contract: $2,099 a month for the H100 was the
price of 24 months, and nothing in its card said so. So ``/mo`` only says how often one pays. The
commitment is known when the card itself states a term (or marks one of its term buttons as
chosen); otherwise ``commitment_unknown`` is set, on every monthly plan alike, and the offer is
kept but not ranked. Memory is per card, as the pages give it for multi-GPU servers too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from providers.databasemart.lines import page, text_lines
from providers.databasemart.plans import Plan, plans, split_cards
from providers.databasemart.structured import structured_cards
from tracker.provider import (
    Facts,
    FetchError,
    HttpClient,
    Parsed,
    ParseError,
    Payload,
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
)

_MAX_PAGE_BYTES = 8 * 2**20
# Several stored copies of these pages were compressed bodies that nobody had decoded.
_HEADERS = {"Accept-Encoding": "gzip", "Accept": "text/html"}


class DatabaseMartConfig(ProviderConfig):
    """``[providers.databasemart]``: the two sites of the seller and the pages to read on each."""

    base_url_gpu_mart: str = "https://www.gpu-mart.com"
    base_url_databasemart: str = "https://www.databasemart.com"
    paths_gpu_mart: tuple[str, ...] = ("/pricing", "/pricing-hourly")
    paths_databasemart: tuple[str, ...] = ("/gpu-server", "/gpu-server/vps")

    def urls(self) -> list[str]:
        """The pages to read, in order."""
        return [
            base.rstrip("/") + path
            for base, paths in (
                (self.base_url_gpu_mart, self.paths_gpu_mart),
                (self.base_url_databasemart, self.paths_databasemart),
            )
            for path in paths
        ]


async def fetch(http: HttpClient, config: DatabaseMartConfig) -> list[Payload]:
    """The configured pages. A page that fails is kept as an empty answer with its status (0 for
    none), so that ``parse`` knows of the gap; FetchError when no page could be read."""
    pages: list[Payload] = []
    failed: list[tuple[str, FetchError]] = []
    for url in config.urls():
        try:
            pages.append(
                await http.get(url, headers=_HEADERS, expect="html", max_bytes=_MAX_PAGE_BYTES)
            )
        except FetchError as error:
            # Without its frames, which hold this list.
            failed.append((url, error.with_traceback(None)))
    if not pages and failed:
        raise failed[0][1]
    gaps = [
        Payload(url=url, body=b"", fetched_at=pages[0].fetched_at, status=error.status or 0)
        for url, error in failed
    ]
    return [*pages, *gaps]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Price pages to offers. Raises ParseError when no page holds a plan with a price."""
    gaps: list[str] = []
    pages: list[list[Plan]] = []
    rejected: list[Rejected] = []
    priced = False
    for payload in payloads:
        if not 200 <= payload.status < 300:
            gaps.append("a page could not be fetched")
            continue
        text = payload.text()
        found, refused, has_price = _read(text, payload.url or None)
        pages.append(found)
        rejected += refused
        priced |= has_price
        if not has_price:
            gaps.append("a page holds no price")
        elif _cut_off(text):
            gaps.append("a page is cut off")
    if not priced:
        raise ParseError(
            "price", "no page holds a plan with a price: an empty JavaScript page, or a new layout"
        )
    kept, conflicts = _merge(pages)
    return Parsed(
        offers=tuple(plan.offer for plan in kept),
        rejected=(*rejected, *conflicts),
        complete=not gaps,
        incomplete_reason="; ".join(dict.fromkeys(gaps)) or None,
    )


def _read(text: str, url: str | None) -> tuple[list[Plan], list[Rejected], bool]:
    """The plans of a page, the rejects, and whether the page holds any plan with a price.

    A plan that one source prices is not taken again from a less trusted one, which often knows
    less: the text of a table row lacks the unit that stands in the table's head.
    """
    tree = page(text)
    kept: dict[tuple[str, PriceUnit], Plan] = {}
    found: list[Plan] = []
    rejected: list[Rejected] = []
    priced = False
    for cards in (*structured_cards(tree), list(split_cards(text_lines(tree.root)))):
        here: list[Plan] = []
        for card in cards:
            priced |= bool(card.amounts)
            known = {title for title, _ in kept}
            for plan in plans(card, url):
                if isinstance(plan, Rejected):
                    if card.amounts or card.title.casefold() not in known:
                        rejected.append(plan)
                elif plan.name not in kept:
                    here.append(plan)
                elif all(plan.price != p.price for p in found if p.name == plan.name):
                    sample = f"{plan.title}: {plan.price}, not {kept[plan.name].price}"
                    rejected.append(Rejected("page text contradicts its data", sample[:200]))
        found += here
        kept |= {plan.name: plan for plan in here}
    return found, rejected, priced


def _cut_off(text: str) -> bool:
    """Whether a whole document lacks its end. A fragment (saved by hand) has none to lack."""
    start, end = text[:1000].casefold(), text[-1000:].casefold()
    return ("<html" in start or "<!doctype" in start) and "</html" not in end


def _merge(pages: Sequence[Sequence[Plan]]) -> tuple[list[Plan], list[Rejected]]:
    """One offer per plan: pages repeat the same plan.

    Same title and price: once, preferring a page that states the term. Same title and hardware
    but another price: none of them, because nothing tells which one holds.
    """
    by_name: dict[object, list[Plan]] = defaultdict(list)
    for plan in (plan for plans_of_page in pages for plan in plans_of_page):
        by_name[plan.name].append(plan)
    kept: list[Plan] = []
    rejected: list[Rejected] = []
    for same_name in by_name.values():
        unlike: list[Plan] = []
        for plan in sorted(same_name, key=lambda p: p.offer.terms.commitment_unknown):
            if not any(plan.price == other.price and plan.may_be(other) for other in unlike):
                unlike.append(plan)
        for plan in unlike:
            rivals = [other for other in unlike if other is not plan and plan.may_be(other)]
            if rivals:
                sample = f"{plan.title}: {plan.price} and {rivals[0].price}"
                rejected.append(Rejected("two prices for one plan", sample[:200]))
            else:
                kept.append(plan)
    return kept, rejected


provider = Provider(
    name="databasemart",
    every=timedelta(hours=8),
    config=DatabaseMartConfig,
    facts=Facts(
        title="Database Mart (GPU Mart)",
        website="https://www.gpu-mart.com/pricing",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("dedicated", "vps"),
        default_tiers=("dedicated", "vps"),
        key="none",
        key_variable=None,
        terms="no API: public web pages; the sites' terms and robots.txt have not been read",
        verified="never checked live: the pages' markup is not known, the text rules follow a "
        "third party's transcription of 2026-08-11; failing that, use a price book",
        min_every=timedelta(hours=4),  # a few times a day is enough for monthly plans
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=5.0,
)
