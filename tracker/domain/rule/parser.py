"""Reads the ``when`` line of a rule. ``condition.parse`` is the way in."""

from __future__ import annotations

import difflib
import re
from decimal import Decimal
from typing import NoReturn

from tracker.domain.rule import condition as c

MAX_LENGTH = 500  # characters
MAX_DAYS = 365
MAX_USD = Decimal(1_000_000_000)
USD_DECIMALS = 6  # what the store keeps

_EXAMPLE = {
    "cost": c.EXAMPLES[0],
    "price": c.EXAMPLES[3],
    "cheapest": c.EXAMPLES[4],
    "provider": c.EXAMPLES[6],
    "new": c.EXAMPLES[7],
}

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+", re.ASCII)
_NAME = re.compile(r"[^(),<>\x00-\x08\x0e-\x1f\x7f]*")
_PROVIDER = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.IGNORECASE | re.ASCII)


def read(text: str) -> c.Condition:
    """The condition that *text* says. ConditionError."""
    return _Reader(text).condition()


class _Reader:
    """One line and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.example = c.EXAMPLES[0]

    def condition(self) -> c.Condition:
        if len(self.text) > MAX_LENGTH:
            self._fail(f"the line is longer than {MAX_LENGTH} characters", MAX_LENGTH)
        self._skip()
        start = self.at
        word = self._word()
        self.example = _EXAMPLE.get(word, self.example)
        match word:
            case "cost":
                found = self._cost()
            case "price":
                selection = self._selection()
                self._symbol("<")
                found = c.PriceBelow(selection, self._usd())
            case "cheapest":
                found = self._cheapest()
            case "provider":
                found = c.ProviderStale(self._provider())
                self._expect("stale")
            case "new" | "newoffer":
                if word == "new":
                    self._expect("offer")
                selection = self._selection()
                self._symbol("<")
                found = c.NewOfferBelow(selection, self._usd())
            case _:
                self._unknown_start(word, start)
        self._skip()
        if self.at < len(self.text):
            self._fail(f"{self._shown()} is too much")
        return found

    def _cost(self) -> c.Condition:
        left = self._selection()
        if self._peek() != "<":
            position = self._skip()
            if self._word() != "drops":
                self._fail("'<' or 'drops' is missing here", position)
            self.example = c.EXAMPLES[2]
            return self._drop(left)
        self._symbol("<")
        position = self._skip()
        if self._word() != "cost":
            self.at = position
            return c.CostBelow(left, self._usd(or_else="cost(GPU)"))
        right = self._selection()
        if left.casefold() == right.casefold():
            self._fail(f"both sides are {left}", position)
        return c.CostAgainstCost(left, right)

    def _drop(self, selection: str) -> c.CostDrops:
        position = self._skip()
        percent = self._number("the percentage")
        if not 0 < percent < 100:
            self._fail("a drop lies above 0% and below 100%", position)
        self._symbol("%")
        self._expect("in")
        position = self._skip()
        days = self._number("the number of days")
        if days != int(days) or not 1 <= days <= MAX_DAYS:
            self._fail(f"the days are a whole number from 1 to {MAX_DAYS}", position)
        position = self._skip()
        if self._word() not in ("d", "day", "days"):
            self._fail("'d' (days) is missing here", position)
        return c.CostDrops(selection, percent, int(days))

    def _cheapest(self) -> c.CheapestChanges:
        names: list[str] = []
        if self._peek() == "(":
            position = self.at
            self._symbol("(")
            names.append(self._name())
            while self._peek() == ",":
                self._symbol(",")
                names.append(self._name())
            self._symbol(")")
            if names == [c.ANY]:
                names = []
            elif c.ANY in names:
                self._fail("'any' stands alone", position)
            elif len(names) == 1:
                self._fail("one GPU cannot change: name two or more, or none for all", position)
            elif len({name.casefold() for name in names}) < len(names):
                self._fail("a GPU is listed twice", position)
        self._expect("changes")
        return c.CheapestChanges(tuple(names))

    def _selection(self) -> str:
        self._symbol("(")
        name = self._name()
        self._symbol(")")
        return name

    def _name(self) -> str:
        position = self._skip()
        found = _NAME.match(self.text, position)
        name = " ".join(found.group().split()) if found else ""
        if not name:
            self._fail("the name of a GPU (or 'any') is missing here", position)
        if not name.isprintable():
            self._fail("the name of a GPU holds a character that cannot be shown", position)
        self.at = position + len(found.group()) if found else position
        return c.ANY if name.casefold() == c.ANY else name

    def _provider(self) -> str:
        self._symbol("(")
        position = self._skip()
        found = _PROVIDER.match(self.text, position)
        if found is None:
            self._fail("the name of a provider (or 'any') is missing here", position)
        self.at = found.end()
        self._symbol(")")
        return found.group().lower()

    def _usd(self, or_else: str = "") -> Decimal:
        position = self._skip()
        if self._peek() == "$":
            self._symbol("$")
        usd = self._number("an amount in USD" + (f" or {or_else}" if or_else else ""))
        if not 0 < usd <= MAX_USD:
            self._fail(f"the amount must lie above 0 and not above {MAX_USD:,}", position)
        if usd != round(usd, USD_DECIMALS):
            self._fail(f"the amount has more than {USD_DECIMALS} decimals", position)
        if self._peek() == ",":
            self._fail("amounts are written without commas: 1000.50")
        return usd

    def _number(self, what: str) -> Decimal:
        position = self._skip()
        found = _NUMBER.match(self.text, position)
        if found is None:
            self._fail(f"{what} is missing here", position)
        self.at = found.end()
        return Decimal(found.group())

    def _expect(self, word: str) -> None:
        position = self._skip()
        # Letters may follow at once ("in7d" is fine, "changesx" is found by what comes after).
        if self.text[position : position + len(word)].lower() != word:
            self._fail(f"'{word}' is missing here", position)
        self.at = position + len(word)

    def _symbol(self, symbol: str) -> None:
        if self._peek() != symbol:
            self._fail(f"'{symbol}' is missing here")
        self.at += 1

    def _word(self) -> str:
        found = _WORD.match(self.text, self._skip())
        if found is None:
            return ""
        self.at = found.end()
        return found.group().lower()

    def _peek(self) -> str:
        self._skip()
        return self.text[self.at : self.at + 1]

    def _skip(self) -> int:
        found = _SPACE.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return self.at

    def _shown(self) -> str:
        rest = self.text[self.at :].strip()
        return repr(rest if len(rest) <= 30 else rest[:30] + "…")

    def _unknown_start(self, word: str, position: int) -> NoReturn:
        if not self.text.strip():
            self._fail("the line is empty", position)
        near = difflib.get_close_matches(word, _EXAMPLE, n=1)
        if near:
            self.example = _EXAMPLE[near[0]]
        meant = f" (did you mean '{near[0]}'?)" if near else ""
        self._fail(
            "a condition begins with cost, price, cheapest, provider or new offer" + meant, position
        )

    def _fail(self, problem: str, position: int | None = None) -> NoReturn:
        raise c.ConditionError(problem, self.at if position is None else position, self.example)
