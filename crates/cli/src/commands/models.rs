//! `cachalot models`: the catalog of models, with the user's own file over it.

use cachalot_core::Problem;
use cachalot_core::suggest::nearest;
use cachalot_model::{Capabilities, Catalog, CatalogEntry, Price, Rates};
use serde_json::{Value, json};

use crate::arguments::ModelList;
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::render::table::columns;
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// A model of the catalog.
struct Entry<'a> {
    provider: &'a str,
    name: &'a str,
    listed: &'a CatalogEntry,
}

/// Lists the models of the catalog, or shows all data of one model.
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
    let entries = match arguments.name.as_deref() {
        Some(name) => named(&catalog, &providers, name)?,
        None => all(&catalog, &providers),
    };
    if arguments.json {
        return render::json(&entries.iter().map(to_json).collect::<Vec<_>>());
    }
    if arguments.name.is_some() {
        let shown: Vec<String> = entries.iter().map(details).collect();
        return render::out(&shown.join("\n"));
    }
    render::out(&list(&entries))
}

fn known_provider<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a str> {
    let known: Vec<&str> = catalog.providers().collect();
    match known.iter().find(|known| **known == name) {
        Some(found) => Ok(found),
        None => Err(unknown(("bad-value", "provider"), name, known)),
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

/// Returns the models with this name: `model`, or `provider/model`. A snapshot's name returns its model.
fn named<'a>(catalog: &'a Catalog, providers: &[&'a str], name: &str) -> Result<Vec<Entry<'a>>> {
    let of = |name: &str| -> Vec<Entry<'a>> {
        let found = providers.iter().filter_map(|it| entry(catalog, it, name));
        found.collect()
    };
    let mut found = of(name);
    if let Some((provider, rest)) = name.split_once('/')
        && found.is_empty()
    {
        found = of(rest);
        found.retain(|entry| entry.provider == provider);
    }
    if found.is_empty() {
        let known = all(catalog, providers);
        let with_provider = known
            .iter()
            .map(|it| format!("{}/{}", it.provider, it.name))
            .collect::<Vec<_>>();
        let candidates: Vec<&str> = match name.contains('/') {
            true => with_provider.iter().map(String::as_str).collect(),
            false => known.iter().map(|it| it.name).collect(),
        };
        return Err(unknown(("unknown-model", "model"), name, candidates));
    }
    Ok(found)
}

fn unknown((code, what): (&'static str, &str), name: &str, known: Vec<&str>) -> CommandError {
    let problem = Problem::new(
        code,
        format!("there is no {what} `{}` in the catalog", on_one_line(name)),
    );
    let help = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`cachalot models` lists the catalog".to_owned(),
    };
    CommandError::usage(problem.help(help))
}

/// Formats one table per provider: name, prices and context window.
fn list(entries: &[Entry<'_>]) -> String {
    let mut text = String::new();
    for of_provider in entries.chunk_by(|one, other| one.provider == other.provider) {
        let head = [of_provider[0].provider, "input", "output", "context"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for entry in of_provider {
            let rates = entry.listed.price.as_ref().map(|price| &price.rates);
            let price = |rate: fn(&Rates) -> u64| {
                rates.map_or_else(|| "?".to_owned(), |rates| dollars(rate(rates)))
            };
            rows.push(vec![
                format!("  {}", entry.name),
                price(|rates| rates.input),
                price(|rates| rates.output),
                entry
                    .listed
                    .limits
                    .context
                    .map_or("?".to_owned(), thousands),
            ]);
        }
        text += &columns(&rows);
        text.push('\n');
    }
    text + "Prices: US dollars per million tokens. `cachalot models NAME` shows a model.\n"
}

/// Formats the catalog's data of a model; `unknown` for missing data.
fn details(entry: &Entry<'_>) -> String {
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
        count.map_or_else(unknown, |count| format!("{} tokens", thousands(count)))
    };
    let yes_or_no = |value: Option<bool>| match value {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => unknown(),
    };
    let words = |words: &[String]| match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
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
        |price| columns(&prices(price)),
    );
    format!(
        "{}/{}\n{}\n{prices}",
        entry.provider,
        entry.name,
        columns(&rows)
    )
}

/// Returns the rows of the price table: one column per tier.
fn prices(price: &Price) -> Vec<Vec<String>> {
    let rates = price.rates;
    let above = price.above.as_ref();
    let mut head = vec!["  $ per million tokens".to_owned(), "price".to_owned()];
    if let Some((tokens, _)) = above {
        head.push(format!("above {} tokens in", thousands(*tokens)));
    }
    let mut rows = vec![head];
    for (name, rate) in rate_names(&rates) {
        let mut row = vec![format!("  {name}"), dollars(rate(&rates))];
        row.extend(above.iter().map(|(_, rates)| dollars(rate(rates))));
        rows.push(row);
    }
    rows
}

type Rate = fn(&Rates) -> u64;

/// Returns the rates of a price; cache writes are one rate if both durations cost the same.
fn rate_names(rates: &Rates) -> Vec<(&'static str, Rate)> {
    let mut names: Vec<(&str, Rate)> = vec![
        ("input", |rates| rates.input),
        ("output", |rates| rates.output),
        ("cache read", |rates| rates.cache_read),
    ];
    if rates.cache_write_5m == rates.cache_write_1h {
        names.push(("cache write", |rates| rates.cache_write_5m));
    } else {
        names.push(("cache write, 5 min", |rates| rates.cache_write_5m));
        names.push(("cache write, 1 h", |rates| rates.cache_write_1h));
    }
    names
}

fn to_json(entry: &Entry<'_>) -> Value {
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
            let mut json = rates_json(&price.rates);
            json["above"] = price.above.as_ref().map_or(Value::Null, |(tokens, rates)| {
                let mut above = rates_json(rates);
                above["tokens"] = (*tokens).into();
                above
            });
            json
        }),
    })
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

/// Formats a rate in picodollars per token as dollars per million tokens: `2.50`, `0.075`.
fn dollars(rate: u64) -> String {
    let (whole, fraction) = (rate / 1_000_000, rate % 1_000_000);
    let digits = format!("{fraction:06}");
    let cents = digits.trim_end_matches('0');
    format!("{whole}.{cents:0<2}")
}

/// Formats a number with thousands separators: `1,050,000`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{dollars, thousands};

    #[test]
    fn numbers_are_formatted_for_reading() {
        let rates = [2_500_000, 75_000, 1, 0, 168_000_000].map(dollars);
        assert_eq!(rates, ["2.50", "0.075", "0.000001", "0.00", "168.00"]);
        let counts = [0, 512, 1_024, 1_050_000].map(thousands);
        assert_eq!(counts, ["0", "512", "1,024", "1,050,000"]);
    }
}
