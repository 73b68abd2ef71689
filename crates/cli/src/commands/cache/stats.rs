//! `cachalot cache stats`.

use cachalot_cache::{CallKind, Ledger, LedgerTotals};
use cachalot_store::SpaceUsage;
use serde_json::{Value, json};

use crate::command_error::Result;
use crate::home::Home;
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::render::{self, grouped};

/// Kind and name of calls, with their totals.
type NamedTotals = (String, String, LedgerTotals);

/// Prints the size of the cache, if there is one, and the cost and savings of all calls.
///
/// # Errors
/// The ledger cannot be read.
pub(super) fn stats(
    usage: Option<SpaceUsage>,
    ledger: &Ledger,
    place_of_ledger: &str,
    home: &Home,
    as_json: bool,
) -> Result<()> {
    let totals = ledger.totals()?;
    let dropped = ledger.dropped()?;
    // A call whose answer is stored includes the cost of its model, so one sum would count that twice.
    let (models, calls): (Vec<NamedTotals>, Vec<NamedTotals>) = totals
        .into_iter()
        .partition(|(kind, ..)| kind == CallKind::Prefix.as_str());
    let (sum, of_models) = (all(&calls), all(&models));
    if as_json {
        return render::json(&json!({
            "memory": home.location(), "ledger": place_of_ledger,
            "entries": usage.map(|usage| usage.records), "bytes": usage.map(|usage| usage.bytes),
            "dropped_calls": dropped,
            "totals": sum, "names": as_json_rows(&calls),
            "models": { "totals": of_models, "names": as_json_rows(&models) },
        }));
    }
    let size = usage.map(|usage| {
        let entries = render::count(usage.records, "entry", "entries");
        let location = on_one_line(&home.location());
        format!("{location}: {entries}, {}; ", render::bytes(usage.bytes))
    });
    let mut text = headline(&format!("{}{}", size.unwrap_or_default(), savings(&sum)));
    if !calls.is_empty() {
        text += &format!("\n{}", totals_table("action", &calls, &sum));
    }
    if !models.is_empty() {
        let title = "Answers of models in conversations; saved by the providers' own caches:";
        text += &format!("\n{}", headline(title));
        text += &totals_table("model", &models, &of_models);
    }
    if dropped > 0 {
        let calls = render::count(dropped, "call is", "calls are");
        text += &format!(
            "\n{calls} in these sums only: the ledger could not be written for too long\n"
        );
    }
    render::out(&text)
}

/// Describes the hits: `1,204 of 3,200 calls answered from the cache, 2 h 3 min, $1.20 saved`.
fn savings(sum: &LedgerTotals) -> String {
    let hits = sum.hits + sum.coalesced;
    let all = hits + sum.paid_runs() + sum.failed;
    match (all, hits) {
        (0, _) => "no calls yet".to_owned(),
        (_, 0) => format!(
            "none of {} answered from the cache",
            render::count(all, "call", "calls")
        ),
        _ => format!(
            "{} of {} answered from the cache, saved {}",
            grouped(hits),
            render::count(all, "call", "calls"),
            render::spend(&sum.saved)
        ),
    }
}

fn all(named: &[NamedTotals]) -> LedgerTotals {
    let mut sum = LedgerTotals::default();
    named.iter().for_each(|(_, _, totals)| sum += *totals);
    sum
}

fn as_json_rows(named: &[NamedTotals]) -> Vec<Value> {
    let rows = named.iter();
    rows.map(|(kind, name, totals)| json!({"kind": kind, "name": name, "totals": totals}))
        .collect()
}

/// Formats a table of calls by name, with their sum.
fn totals_table(what: &'static str, named: &[NamedTotals], sum: &LedgerTotals) -> String {
    let columns = [
        Column::text(what),
        Column::number("hits"),
        Column::number("coalesced").optional(),
        Column::number("paid"),
        Column::number("failed").optional(),
        Column::number("cost"),
        Column::number("time"),
        Column::number("tokens in").optional(),
        Column::number("out").optional(),
        Column::number("saved"),
        Column::number("time saved"),
    ];
    let names = named
        .iter()
        .map(|(_, name, totals)| (name.as_str(), totals));
    let rows: Vec<Vec<String>> = names
        .chain([("all", sum)])
        .map(|(name, totals)| row(name, totals))
        .collect();
    table(&columns, &rows)
}

fn row(name: &str, totals: &LedgerTotals) -> Vec<String> {
    let LedgerTotals { paid, saved, .. } = totals;
    vec![
        on_one_line(name),
        grouped(totals.hits),
        grouped(totals.coalesced),
        grouped(totals.paid_runs()),
        grouped(totals.failed),
        paid.cost.to_string(),
        render::time(paid.time),
        grouped(paid.input_tokens),
        grouped(paid.output_tokens),
        saved.cost.to_string(),
        render::time(saved.time),
    ]
}
