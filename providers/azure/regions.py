"""Countries of Azure's public regions (ISO 3166-1 alpha-2), from Microsoft's list of geographies.

A region that is not in the table has no country: it is never guessed from the name.
"""

from __future__ import annotations

_REGIONS = {
    "AE": "uaenorth uaecentral",
    "AT": "austriaeast",
    "AU": "australiaeast australiasoutheast australiacentral australiacentral2",
    "BE": "belgiumcentral",
    "BR": "brazilsouth brazilsoutheast",
    "CA": "canadacentral canadaeast",
    "CH": "switzerlandnorth switzerlandwest",
    "CL": "chilecentral",
    "DE": "germanywestcentral germanynorth",
    "DK": "denmarkeast",
    "ES": "spaincentral",
    "FR": "francecentral francesouth",
    "GB": "uksouth ukwest",
    "HK": "eastasia",
    "ID": "indonesiacentral",
    "IE": "northeurope",
    "IL": "israelcentral",
    "IN": "centralindia southindia westindia jioindiawest jioindiacentral",
    "IT": "italynorth",
    "JP": "japaneast japanwest",
    "KR": "koreacentral koreasouth",
    "MX": "mexicocentral",
    "MY": "malaysiawest",
    "NL": "westeurope",
    "NO": "norwayeast norwaywest",
    "NZ": "newzealandnorth",
    "PL": "polandcentral",
    "QA": "qatarcentral",
    "SE": "swedencentral swedensouth",
    "SG": "southeastasia",
    "TW": "taiwannorth taiwannorthwest",
    "US": "eastus eastus2 eastus3 southcentralus westus westus2 westus3 centralus northcentralus "
    "westcentralus",
    "ZA": "southafricanorth southafricawest",
}

COUNTRY: dict[str, str] = {
    region: country for country, regions in _REGIONS.items() for region in regions.split()
}
