"""The interface's own page at /api/docs: made of the OpenAPI document, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined

# The page loads the style of the pages, and nothing else.
DOCS_CSP = "default-src 'none'; style-src 'self'; frame-ancestors 'none'"

_PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>gpucost: the programming interface</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="/static/style.css"></head>
<body>
<header><p class="name">gpucost</p><nav><ul><li><a href="/">Pages</a></li></ul></nav></header>
<main>
<h1>gpucost: the programming interface</h1>
<p>{{ about }}</p>
<p>The document for programs: <a href="openapi.json">openapi.json</a>.</p>
{% for o in operations %}
<h2 id="{{ o.id }}"><code>{{ o.method }} {{ o.path }}</code></h2>
<p>{{ o.title }}. {{ o.text }}</p>
{% if o.example %}<p><a href="{{ o.example }}">{{ o.example }}</a></p>{% endif %}
{% if o.parameters %}
<div class="scroll" role="region" aria-label="Parameters of {{ o.id }}" tabindex="0">
<table>
<thead><tr><th>parameter</th><th>kind</th><th>default</th><th>meaning</th></tr></thead>
<tbody>
{% for p in o.parameters %}
<tr><td><code>{{ p.name }}</code></td><td>{{ p.kind }}</td><td>{{ p.default }}</td>
<td>{{ p.help }}</td></tr>
{% endfor %}
</tbody></table>
</div>
{% endif %}
{% if o.body %}
<div class="scroll" role="region" aria-label="Body of {{ o.id }}" tabindex="0">
<table>
<thead><tr><th>in the body (JSON)</th><th>kind</th><th>needed</th><th>meaning</th></tr></thead>
<tbody>
{% for f in o.body %}
<tr><td><code>{{ f.name }}</code></td><td>{{ f.kind }}</td><td>{{ f.needed }}</td>
<td>{{ f.help }}</td></tr>
{% endfor %}
</tbody></table>
</div>
{% endif %}
<p>Answers: {{ o.statuses }}.</p>
{% endfor %}
</main>
</body></html>
"""


def page(document: Mapping[str, Any]) -> str:
    """The page as HTML."""
    # The document is ours, and is escaped all the same.
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return template.render(
        about=document["info"]["description"], operations=list(operations(document))
    )


def operations(document: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Every operation of the document, with its parameters in words."""
    base = document["servers"][0]["url"]
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            yield {
                "id": found["operationId"], "method": method.upper(), "path": f"{base}{path}",
                "title": found["summary"], "text": found.get("description", ""),
                "parameters": [_words(p) for p in found.get("parameters", ())],
                "body": _body(document, found),
                "statuses": ", ".join(sorted(found["responses"])),
                "example": f"{base}{path}?job=bert-large" if path == "/v1/cheapest" else None,
            }  # fmt: skip


def _body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> list[dict[str, str]]:
    """The members of the body that *operation* takes, in words; none where it takes none."""
    if "requestBody" not in operation:
        return []
    ref = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    model = document["components"]["schemas"][ref.rpartition("/")[2]]
    return [
        {
            "name": name, "kind": " or ".join(_kinds(field)),
            "needed": "yes" if name in model.get("required", ()) else "",
            "help": field.get("description", ""),
        }
        for name, field in model["properties"].items()
    ]  # fmt: skip


def _kinds(field: Mapping[str, Any]) -> list[str]:
    if "anyOf" in field:
        return [kind for one in field["anyOf"] for kind in _kinds(one)]
    return [] if field["type"] == "null" else [str(field["type"])]


def _words(parameter: Mapping[str, Any]) -> dict[str, str]:
    schema = parameter["schema"]
    items = schema.get("items", schema)
    kind = "a list of " * (schema["type"] == "array") + str(items["type"])
    if "enum" in items:
        kind = ("a list of: " if schema["type"] == "array" else "") + ", ".join(items["enum"])
    default = schema.get("default")
    text = "" if default is None else str(default).lower() if default is True or default is False \
        else str(default)  # fmt: skip
    return {
        "name": parameter["name"], "kind": kind, "default": text,
        "help": parameter.get("description", "in the address"),
    }  # fmt: skip
