"""The tables of prices of the packages litellm and genai-prices."""

import ast
import datetime
import json
import re
from decimal import Decimal

from .catalog import catalog, compare_prices, is_listed, number, periods_of
from .declarations import Failure

LITELLM_TABLE = "litellm/model_prices_and_context_window_backup.json"
GENAI_TABLE = "genai_prices/data.py"


def litellm(folder, findings):
    table = json.loads((folder / LITELLM_TABLE).read_text(encoding="utf-8"))
    listed = {}
    for key, facts in table.items():
        # Aliases have only `alias_of`.
        provider = LITELLM_PROVIDERS.get(facts.get("litellm_provider"))
        if provider is None or facts.get("mode") not in ("chat", "responses", "embedding"):
            continue
        name = re.sub(rf"^({re.escape(facts['litellm_provider'])}|vertex_ai)/", "", key)
        if provider in ("bedrock", "vertex") and "claude-" not in name:
            continue
        if name.startswith(("ft:", "container")) or not facts.get("input_cost_per_token"):
            continue
        if "text" not in facts.get("supported_output_modalities", ["text"]):
            continue
        listed[f"{provider}/{name}"] = litellm_prices(facts)
    compare_prices(findings, "price.litellm", listed, is_whole=True)


LITELLM_PROVIDERS = {
    "openai": "openai", "anthropic": "anthropic", "gemini": "google", "deepseek": "deepseek", "mistral": "mistral",
    "xai": "xai", "groq": "groq", "bedrock_converse": "bedrock", "vertex_ai-anthropic_models": "vertex",
}
LITELLM_PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write_5m": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}


def litellm_prices(facts):
    prices = {}
    for name, key in LITELLM_PRICES.items():
        if facts.get(key) is not None:
            prices[name] = million(facts[key])
        for other in facts:
            above = re.fullmatch(rf"{key}_above_(\d+)k_tokens", other)
            if above and facts[other] is not None:
                prices[f"above.{above.group(1)}k.{name}"] = million(facts[other])
    # 0 stands for "not charged for writing".
    return {name: price for name, price in prices.items() if price or name == "output"}


def million(cost):
    """Dollars per million tokens; the table has rounded binary fractions."""
    return (Decimal(repr(cost)) * 1_000_000).quantize(Decimal("0.000001"))


GENAI_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "google": "google", "deepseek": "deepseek",
                   "mistral": "mistral", "x-ai": "xai", "groq": "groq"}
GENAI_PRICES = {"input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok",
                "cache_write_5m": "cache_write_mtok", "cache_write_1h": "cache_write_1h_mtok"}


def genai_prices(folder, findings):
    path = folder / GENAI_TABLE
    # Parsed, not run.
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = [node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "providers"]
    if len(lists) != 1:
        raise Failure("data.py has no list `providers`")
    rows, listed, scheduled = catalog(), {}, set()
    today = datetime.date.today()
    for provider in (arguments(node) for node in lists[0].elts):
        own = GENAI_PROVIDERS.get(provider["id"].value)
        if own is None:
            continue
        models = [arguments(model) for model in provider["models"].elts]
        for full in rows:
            if not full.startswith(own + "/"):
                continue
            name = full.split("/", 1)[1]
            model = next((model for model in models if matches(model["match"], name)), None)
            if model is None:
                continue
            current, later = genai_periods(model["prices"], today)
            listed[full] = current
            for start, prices in later:
                for member, price in prices.items():
                    if price != current.get(member):
                        scheduled.add(f"{full}.{member}:{start}:{number(price)}")
        for model in models:
            name = model["id"].value
            current, _ = genai_periods(model["prices"], today)
            is_new = own in ("openai", "anthropic", "google") and not is_listed(name, own, rows)
            is_priced = current.get("input") and current.get("output")
            if is_new and is_priced and is_text_model(name) and not (own == "google" and "claude" in name):
                listed.setdefault(f"{own}/{name}", current)
    compare_prices(findings, "price.genai", listed, is_whole=False)
    known = set()
    for name, row in rows.items():
        for start, prices in periods_of(row, today)[1]:
            known |= {f"{name}.{member}:{start}:{number(price)}" for member, price in prices.items()}
    for name in sorted(scheduled - known):
        findings.add("new", "price.scheduled", name)


def is_text_model(name):
    """False for models of images, speech and the like, of which the catalog has none."""
    return not re.search(r"image|tts|audio|realtime|transcribe|whisper|live|veo|imagen|lyria|robotics|computer-use|"
                         r"embed|moderation|ocr|voxtral|guard|orpheus|omni|omny|search|ft:|dall|tunix|banana", name)


def arguments(call):
    return {keyword.arg: keyword.value for keyword in call.keywords}


def matches(clause, name):
    """Evaluates a match clause of genai-prices for the name of a model."""
    kind, given = clause.func.id, arguments(clause)
    text = lambda key: given[key].value
    if kind == "ClauseEquals":
        return name == text("equals")
    if kind == "ClauseStartsWith":
        return name.startswith(text("starts_with"))
    if kind == "ClauseEndsWith":
        return name.endswith(text("ends_with"))
    if kind == "ClauseContains":
        return text("contains") in name
    if kind == "ClauseRegex":
        return re.search(text("regex"), name) is not None
    if kind in ("ClauseOr", "ClauseAnd"):
        parts = next(iter(given.values())).elts
        return (any if kind == "ClauseOr" else all)(matches(part, name) for part in parts)
    if kind == "ClauseNot":
        return not matches(next(iter(given.values())), name)
    raise Failure(f"an unknown match clause: {kind}")


def genai_periods(value, today):
    """The prices of today, and those that begin later with their dates."""
    if not isinstance(value, ast.List):
        return genai_row(value), []
    current, later = {}, []
    for row in map(arguments, value.elts):
        constraint = row.get("constraint")
        if constraint is None or isinstance(constraint, ast.Constant):
            current = genai_row(row["prices"])
        elif constraint.func.id == "StartDateConstraint":
            date = arguments(constraint)["start_date"]
            start = datetime.date(*(part.value for part in date.args))
            if start <= today:
                current = genai_row(row["prices"])
            else:
                later.append((start.isoformat(), genai_row(row["prices"])))
        else:
            # Of prices by the hour of the day, the catalog has the dearest.
            other = genai_row(row["prices"])
            current = {name: max(current.get(name, price), price) for name, price in other.items()}
    return current, later


def genai_row(call):
    prices, given = {}, arguments(call)
    for name, key in GENAI_PRICES.items():
        value = given.get(key)
        if value is None:
            continue
        if value.func.id == "TieredPrices":
            tiers = arguments(value)
            for tier in map(arguments, tiers["tiers"].elts):
                prices[f"above.{tier['start'].value // 1000}k.{name}"] = Decimal(tier["price"].args[0].value)
            value = tiers["base"]
        prices[name] = Decimal(value.args[0].value)
    return prices
