"""The catalog of models, and its comparison with lists of models and tables of prices."""

import datetime
import re
from decimal import Decimal

from .declarations import REPOSITORY, Failure, flow

# Prices of the catalog, in dollars per million tokens.
PRICES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


def catalog():
    """The rows of the catalog of models, by `provider/name`, those for embeddings too."""
    rows, provider, is_rows = {}, None, False
    path = REPOSITORY / "crates/model/data/models.yaml"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        top = re.match(r"(\w+):", line)
        if top:
            is_rows = top.group(1) in ("models", "embeddings")
        elif is_rows and re.fullmatch(r"  \w+:", line):
            provider = line.strip()[:-1]
        elif is_rows and line.strip():
            row = re.fullmatch(r"    (\S+): (\{.*\})", line)
            if not row:
                raise Failure(f"models.yaml:{number}: not a row of the form `    NAME: {{...}}`")
            rows[f"{provider}/{row.group(1)}"] = flow(row.group(2))
    return rows


def compare_models(findings, provider, names, least):
    rows = catalog()
    findings.lacking(f"catalog.{provider}", names, {name for name in names if is_listed(name, provider, rows)}, least)


def is_listed(name, provider, rows):
    """True if the catalog has a model, or the one of which it is a dated snapshot."""
    date = r"20\d{6}|20\d\d-\d\d-\d\d|\d{4}|\d\d-20\d\d|\d\d-\d\d|\d{3}"
    short = re.sub(rf"[-@](({date})(-v\d.*)?|latest|default)$", "", name)
    return f"{provider}/{name}" in rows or f"{provider}/{short}" in rows


def catalog_prices(row):
    """The prices of a row of the catalog, without those of other dates."""
    prices = {name: Decimal(row[name]) for name in PRICES if name in row}
    if "cache_write" in row:
        prices["cache_write_5m"] = Decimal(row["cache_write"])
    if "above" in row:
        size = f"above.{int(row['above']['tokens']) // 1000}k"
        prices.update({f"{size}.{name}": price for name, price in catalog_prices(row["above"]).items()})
    return prices


def periods_of(row, today):
    """The prices of a row that apply today, and those that begin later with their dates."""
    current, later = catalog_prices(row), []
    for change in row.get("changes", []):
        if change["from"][:10] <= today.isoformat():
            current = catalog_prices(change)
        else:
            later.append((change["from"][:10], catalog_prices(change)))
    return current, later


def compare_prices(findings, section, listed, is_whole):
    """Compares prices by model. `is_whole`: a price that only one side has is a difference, and so is a model that the
    table lacks."""
    rows, today = catalog(), datetime.date.today()
    if len(listed) < 50:
        raise Failure(f"{section}: {len(listed)} models found, at least 50 expected")
    for name in sorted(listed):
        provider, model = name.split("/", 1)
        if name not in rows:
            if not is_listed(model, provider, rows):
                findings.add("new", section, name)
            continue
        own, other = periods_of(rows[name], today)[0], listed[name]
        for member in sorted(own.keys() | other.keys()):
            here, there = own.get(member), other.get(member)
            is_known = is_whole or (here is not None and there is not None)
            if here != there and is_known:
                findings.add("changed", section, f"{name}.{member}:{number(here)}>{number(there)}")
    if is_whole:
        for name in sorted(rows.keys() - listed.keys()):
            findings.add("gone", section, name)


def number(price):
    return "none" if price is None else f"{price.normalize():f}"
