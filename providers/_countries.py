"""Countries as providers write them in English, as ISO 3166-1 alpha-2 codes.

What is not in the table has no code: a country is never guessed.
"""

from __future__ import annotations

import re
from typing import Any

_NAMES = {
    "AE": "united arab emirates|uae",
    "AR": "argentina",
    "AT": "austria",
    "AU": "australia",
    "BE": "belgium",
    "BG": "bulgaria",
    "BR": "brazil",
    "CA": "canada",
    "CH": "switzerland",
    "CL": "chile",
    "CN": "china",
    "CZ": "czechia|czech republic",
    "DE": "germany",
    "DK": "denmark",
    "EE": "estonia",
    "ES": "spain",
    "FI": "finland",
    "FR": "france",
    "GB": "united kingdom|uk|great britain|england",
    "GR": "greece",
    "HK": "hong kong",
    "HU": "hungary",
    "ID": "indonesia",
    "IE": "ireland",
    "IL": "israel",
    "IN": "india",
    "IS": "iceland",
    "IT": "italy",
    "JP": "japan",
    "KR": "south korea|korea|republic of korea",
    "LT": "lithuania",
    "LU": "luxembourg",
    "LV": "latvia",
    "MX": "mexico",
    "MY": "malaysia",
    "NL": "netherlands|the netherlands",
    "NO": "norway",
    "NZ": "new zealand",
    "PL": "poland",
    "PT": "portugal",
    "RO": "romania",
    "RS": "serbia",
    "SA": "saudi arabia",
    "SE": "sweden",
    "SG": "singapore",
    "SI": "slovenia",
    "SK": "slovakia",
    "TH": "thailand",
    "TR": "turkey|türkiye",
    "TW": "taiwan",
    "UA": "ukraine",
    "US": "united states|usa|united states of america",
    "VN": "vietnam",
    "ZA": "south africa",
}
_CODES = {name: code for code, names in _NAMES.items() for name in names.split("|")}
_CODE = re.compile(r"[A-Z]{2}")


def country_of(text: Any) -> str | None:
    """The code of a country's English name (any case, words joined by ``-`` or ``_`` as well) or
    of a code in capitals; None for anything else."""
    if not isinstance(text, str):
        return None
    words = " ".join(re.split(r"[\s_-]+", text.strip()))
    if _CODE.fullmatch(words):
        return "GB" if words == "UK" else words
    return _CODES.get(words.lower())
