//! `cachalot models`: the catalog of models, with the user's own file over it.

use std::collections::BTreeMap;

use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::{Clock as _, Cost, Millis, Problem, SystemClock};
use cachalot_model::{Capabilities, Catalog, CatalogEntry, Price, PriceChange, Rates, date};
use serde_json::{Value, json};

use crate::arguments::ModelList;
use crate::command_error::{CommandError, Result};
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::render::{self, grouped};
use crate::wiring::ProcessEnvironment;

/// A model of the catalog.
struct Entry<'a> {
    provider: &'a str,
    name: &'a str,
    listed: &'a CatalogEntry,
}

/// Lists the models of the catalog, or those whose names contain a text, or shows all data of one model.
///
/// # Errors
/// There is no such provider or model, or the user's own catalog file cannot be read.
pub(crate) fn models(
    arguments: &ModelList,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    let catalog = crate::models::catalog(process_environment)?;
    let providers: Vec<&str> = match arguments.provider.as_deref() {
        Some(name) => vec![known_provider(&catalog, name)?],
        None => catalog.providers().collect(),
    };
    let (entries, is_named) = match arguments.name.as_deref() {
        Some(name) => named(&catalog, &providers, name)?,
        None => (all(&catalog, &providers), false),
    };
    let now = SystemClock.now();
    if arguments.json {
        let models: Vec<Value> = entries.iter().map(|entry| to_json(entry, now)).collect();
        return render::json(&models);
    }
    if is_named {
        let shown: Vec<String> = entries.iter().map(|entry| details(entry, now)).collect();
        return render::out(&shown.join("\n"));
    }
    render::out(&list(&entries, now))
}

fn known_provider<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a str> {
    let known: Vec<&str> = catalog.providers().collect();
    match known.iter().find(|known| **known == name) {
        Some(found) => Ok(found),
        None => {
            let message = format!(
                "there is no provider `{}` in the catalog",
                on_one_line(name)
            );
            let problem = Problem::new("bad-value", message);
            Err(CommandError::usage(
                problem.help(did_you_mean(name, &known)),
            ))
        }
    }
}

fn all<'a>(catalog: &'a Catalog, providers: &[&'a str]) -> Vec<Entry<'a>> {
    let of = |provider: &'a str| {
        let names = catalog.models(provider);
        names.filter_map(move |name| entry(catalog, provider, name))
    };
    providers.iter().copied().flat_map(of).collect()
}

fn entry<'a>(catalog: &'a Catalog, provider: &'a str, name: &str) -> Option<Entry<'a>> {
    let (name, listed) = catalog.find_entry(provider, name)?;
    Some(Entry {
        provider,
        name,
        listed,
    })
}

/// Returns the models with this name: `model`, or `provider/model`. A snapshot's name returns its model. Without such a
/// model, returns those whose names, with their providers, contain the text. The second result is true for models of this
/// name, and for the only one that contains it.
fn named<'a>(
    catalog: &'a Catalog,
    providers: &[&'a str],
    name: &str,
) -> Result<(Vec<Entry<'a>>, bool)> {
    let of = |name: &str| -> Vec<Entry<'a>> {
        let found = providers
            .iter()
            .filter_map(|provider| entry(catalog, provider, name));
        found.collect()
    };
    let mut found = of(name);
    if let Some((provider, rest)) = name.split_once('/')
        && found.is_empty()
    {
        found = of(rest);
        found.retain(|entry| entry.provider == provider);
    }
    if !found.is_empty() {
        return Ok((found, true));
    }
    let mut containing = all(catalog, providers);
    let part = name.to_lowercase();
    containing.retain(|entry| {
        let whole = format!("{}/{}", entry.provider, entry.name);
        whole.to_lowercase().contains(&part)
    });
    match containing.len() {
        0 => Err(no_model(catalog, providers, name)),
        number => Ok((containing, number == 1)),
    }
}

/// Returns the error for a name that is no part of the name of a model, with the nearest one.
fn no_model(catalog: &Catalog, providers: &[&str], name: &str) -> CommandError {
    // A known provider is right, and only the rest is compared.
    let qualified = name
        .split_once('/')
        .filter(|(provider, _)| providers.contains(provider));
    if let Some((provider, rest)) = qualified {
        let near = nearest(rest, catalog.models(provider)).map(|near| format!("{provider}/{near}"));
        return unknown(name, near.as_deref());
    }
    let known = all(catalog, providers);
    let with_provider: Vec<String> = known
        .iter()
        .map(|model| format!("{}/{}", model.provider, model.name))
        .collect();
    let near = if name.contains('/') {
        nearest(name, with_provider.iter().map(String::as_str))
    } else {
        nearest(name, known.iter().map(|model| model.name))
    };
    unknown(name, near)
}

fn unknown(name: &str, near: Option<&str>) -> CommandError {
    let problem = Problem::new(
        "unknown-model",
        format!("there is no model `{}` in the catalog", on_one_line(name)),
    );
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`cachalot models` lists the catalog".to_owned(),
    };
    CommandError::usage(problem.help(help))
}

/// Formats one table per provider: name, prices and context window.
fn list(entries: &[Entry<'_>], now: Millis) -> String {
    let mut text = String::new();
    for of_provider in entries.chunk_by(|one, other| one.provider == other.provider) {
        text += &format!("\n{}", provider_table(of_provider, now));
    }
    let providers = entries.chunk_by(|one, other| one.provider == other.provider);
    let sentence = format!(
        "{} of {}, with prices per million tokens",
        render::count(entries.len() as u64, "model", "models"),
        render::count(providers.count() as u64, "provider", "providers"),
    );
    let changing = entries.iter().filter_map(|entry| {
        let from = next_change(entry.listed.price.as_ref()?, now)?.from;
        Some((date::format(from), entry.name))
    });
    let mut changes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (day, name) in changing {
        changes.entry(day).or_default().push(name);
    }
    for (day, names) in changes {
        text += &format!("\nOther prices from {day}\n  {}\n", names.join("\n  "));
    }
    headline(&sentence) + &text + "\n`cachalot models NAME` shows all that is known of a model.\n"
}

fn provider_table(entries: &[Entry<'_>], now: Millis) -> String {
    let columns = [
        Column::whole(entries[0].provider.to_owned()),
        Column::number("input"),
        Column::number("output"),
        Column::number("context"),
    ];
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let rates = entry.listed.price.as_ref().map(|price| price.at(now).0);
            let price =
                |rate: Rate| rates.map_or_else(|| "?".to_owned(), |rates| dollars(rate(&rates)));
            let context = entry.listed.limits.context;
            vec![
                format!("  {}", entry.name),
                price(|rates| rates.input),
                price(|rates| rates.output),
                context.map_or("?".to_owned(), grouped),
            ]
        })
        .collect();
    table(&columns, &rows)
}

/// Formats the catalog's data of a model; `unknown` for missing data.
fn details(entry: &Entry<'_>, now: Millis) -> String {
    let CatalogEntry {
        price,
        limits,
        capabilities,
    } = entry.listed;
    let Capabilities {
        endpoints,
        thinking,
        efforts,
        default_effort,
        sampling,
        chat_tools_with_effort,
    } = capabilities;
    let unknown = || "unknown".to_owned();
    let tokens = |count: Option<u64>| {
        count.map_or_else(unknown, |count| format!("{} tokens", grouped(count)))
    };
    let yes_or_no = |value: Option<bool>| match value {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => unknown(),
    };
    let words = |words: &[String]| {
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    };
    let endpoints = endpoints.as_ref().map_or_else(unknown, |formats| {
        words(&formats.iter().map(word).collect::<Vec<_>>())
    });
    let mut rows = vec![
        ("endpoints", endpoints),
        ("thinking", thinking.as_ref().map_or_else(unknown, word)),
        (
            "efforts",
            efforts
                .as_ref()
                .map_or_else(unknown, |efforts| words(efforts)),
        ),
    ];
    if let Some(effort) = default_effort {
        rows.push(("default effort", effort.clone()));
    }
    rows.extend([
        ("temperature, top_p", yes_or_no(*sampling)),
        ("context", tokens(limits.context)),
        ("max output", tokens(limits.max_output)),
        ("minimum cacheable", tokens(limits.minimum_cacheable)),
        ("images", yes_or_no(limits.images)),
    ]);
    if *chat_tools_with_effort == Some(false) {
        let note = "refuses tools with an effort other than none".to_owned();
        rows.push(("chat endpoint", note));
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![format!("  {name}"), value])
        .collect();
    let prices = price.as_ref().map_or_else(
        || "  prices: unknown\n".to_owned(),
        |price| prices(price, now),
    );
    format!(
        "{}/{}\n{}\n{prices}",
        entry.provider,
        entry.name,
        table(&[Column::whole(""), Column::wrapped("")], &rows)
    )
}

/// Formats the price table: one column per length of the input, and those of the next change.
fn prices(price: &Price, now: Millis) -> String {
    let change = next_change(price, now);
    let later = change.map(|change| (change.rates, change.above));
    let mut columns = vec![Column::whole("  per million tokens")];
    let mut tiers: Vec<Rates> = Vec::new();
    let from = change.map(|change| format!("from {}", date::format(change.from)));
    let shown = [(None, Some(price.at(now))), (from, later)];
    for (from, rates) in shown {
        let Some((rates, above)) = rates else {
            continue;
        };
        let above = above.map(|(tokens, rates)| {
            let name = format!("above {} tokens in", grouped(tokens));
            let name = from
                .iter()
                .fold(name, |name, from| format!("{name}, {from}"));
            (name, rates)
        });
        let first = (from.clone().unwrap_or_else(|| "price".to_owned()), rates);
        for (name, rates) in std::iter::once(first).chain(above) {
            columns.push(Column::number(name));
            tiers.push(rates);
        }
    }
    let rows: Vec<Vec<String>> = rate_names(&tiers)
        .into_iter()
        .map(|(name, rate)| {
            let shown = tiers.iter().map(|rates| dollars(rate(rates)));
            std::iter::once(format!("  {name}")).chain(shown).collect()
        })
        .collect();
    table(&columns, &rows)
}

/// Returns the next announced change of a price.
fn next_change(price: &Price, now: Millis) -> Option<&PriceChange> {
    price.changes.iter().find(|change| change.from > now)
}

type Rate = fn(&Rates) -> u64;

/// Returns the rates of prices; cache writes are one rate if both durations always cost the same.
fn rate_names(prices: &[Rates]) -> Vec<(&'static str, Rate)> {
    let mut names: Vec<(&str, Rate)> = vec![
        ("input", |rates| rates.input),
        ("output", |rates| rates.output),
        ("cache read", |rates| rates.cache_read),
    ];
    let is_same = |rates: &Rates| rates.cache_write_5m == rates.cache_write_1h;
    if prices.iter().all(is_same) {
        names.push(("cache write", |rates| rates.cache_write_5m));
    } else {
        names.push(("cache write, 5 min", |rates| rates.cache_write_5m));
        names.push(("cache write, 1 h", |rates| rates.cache_write_1h));
    }
    names
}

fn to_json(entry: &Entry<'_>, now: Millis) -> Value {
    let CatalogEntry {
        price,
        limits,
        capabilities,
    } = entry.listed;
    json!({
        "provider": entry.provider,
        "model": entry.name,
        "endpoints": capabilities.endpoints,
        "thinking": capabilities.thinking,
        "efforts": capabilities.efforts,
        "default_effort": capabilities.default_effort,
        "sampling": capabilities.sampling,
        "chat_tools_with_effort": capabilities.chat_tools_with_effort,
        "context": limits.context,
        "max_output": limits.max_output,
        "minimum_cacheable": limits.minimum_cacheable,
        "images": limits.images,
        "price": price.as_ref().map(|price| {
            let (rates, above) = price.at(now);
            let mut json = price_json(rates, above);
            let changes = price.changes.iter().filter(|change| change.from > now);
            let changes = changes.map(|change| {
                let mut json = price_json(change.rates, change.above);
                json["from"] = date::format(change.from).into();
                json
            });
            json["changes"] = changes.collect();
            json
        }),
    })
}

fn price_json(rates: Rates, above: Option<(u64, Rates)>) -> Value {
    let mut json = rates_json(&rates);
    json["above"] = above.map_or(Value::Null, |(tokens, rates)| {
        let mut above = rates_json(&rates);
        above["tokens"] = tokens.into();
        above
    });
    json
}

/// Returns rates in dollars per million tokens.
fn rates_json(rates: &Rates) -> Value {
    let Rates {
        input,
        output,
        cache_read,
        cache_write_5m,
        cache_write_1h,
    } = *rates;
    let dollars = |rate: u64| rate as f64 / 1e6;
    json!({
        "input": dollars(input),
        "output": dollars(output),
        "cache_read": dollars(cache_read),
        "cache_write_5m": dollars(cache_write_5m),
        "cache_write_1h": dollars(cache_write_1h),
    })
}

/// Returns the name of a value as written in files.
fn word(value: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).ok();
    let name = name.as_ref().and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

/// Formats a rate in picodollars per token as dollars per million tokens: `$2.50`, `$0.075`.
fn dollars(rate: u64) -> String {
    Cost::from_picodollars(rate.saturating_mul(1_000_000)).exact_amount()
}

#[cfg(test)]
mod tests {
    use super::dollars;

    #[test]
    fn rates_have_all_their_digits() {
        let rates = [2_500_000, 75_000, 1, 0, 168_000_000].map(dollars);
        assert_eq!(rates, ["$2.50", "$0.075", "$0.000001", "$0.00", "$168.00"]);
    }
}
