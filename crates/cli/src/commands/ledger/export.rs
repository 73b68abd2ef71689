//! `cachalot ledger export`: calls as CSV.

use std::io::Write;

use cachalot_cache::{Ledger, LedgerRow};
use cachalot_core::Spend;
use cachalot_core::clock::iso8601;

use crate::command_error::{CommandError, Result};

/// Calls that are read at once.
const PAGE: u32 = 1_000;

/// The columns: those of the call, and those of [`Spend`] for what was paid and what was saved; with their types in SQL.
pub(super) const COLUMNS: [(&str, &str); 23] = [
    ("id", "BIGINT"),
    ("time", "TIMESTAMP"),
    ("run", "VARCHAR"),
    ("session", "VARCHAR"),
    ("kind", "VARCHAR"),
    ("name", "VARCHAR"),
    ("scope", "VARCHAR"),
    ("key", "VARCHAR"),
    ("handle", "VARCHAR"),
    ("answered", "VARCHAR"),
    ("failed", "BOOLEAN"),
    ("reason", "VARCHAR"),
    ("not_stored", "VARCHAR"),
    ("failure", "VARCHAR"),
    ("paid_ms", "DOUBLE"),
    ("paid_input_tokens", "BIGINT"),
    ("paid_output_tokens", "BIGINT"),
    ("paid_dollars", "DECIMAL(24, 12)"),
    ("saved_ms", "DOUBLE"),
    ("saved_input_tokens", "BIGINT"),
    ("saved_output_tokens", "BIGINT"),
    ("saved_dollars", "DECIMAL(24, 12)"),
    ("unpriced", "VARCHAR"),
];

/// Writes all calls, the oldest first; returns their number.
pub(super) fn write(ledger: &Ledger, to: impl Write) -> Result<u64> {
    let mut csv = csv::Writer::from_writer(to);
    let names = COLUMNS.iter().map(|(name, _)| *name);
    csv.write_record(names).map_err(not_written)?;
    let (mut last, mut count) = (0, 0);
    loop {
        let calls = ledger.calls_after(last, PAGE)?;
        let Some(end) = calls.last() else { break };
        last = end.id;
        for call in &calls {
            csv.write_record(fields(call)).map_err(not_written)?;
            count += 1;
        }
    }
    csv.flush()?;
    Ok(count)
}

fn fields(call: &LedgerRow) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut fields = vec![
        call.id.to_string(),
        iso8601(call.at),
        call.run.clone(),
        text(&call.session),
        call.kind.clone(),
        call.name.clone(),
        call.scope.clone(),
        call.key.clone(),
        text(&call.handle),
        call.answered.as_str().to_owned(),
        call.failed.to_string(),
        text(&call.reason),
        text(&call.not_stored),
        text(&call.failure),
    ];
    fields.extend(spend(&call.paid));
    fields.extend(spend(&call.saved));
    fields.push(text(&call.unpriced));
    fields
}

/// Returns the columns of a spend. Dollars are exact, and empty if the price of a call is unknown.
fn spend(spend: &Spend) -> [String; 4] {
    let picodollars = spend.cost.picodollars;
    let dollars = match (picodollars, spend.cost.unpriced) {
        (0, 1..) => String::new(),
        _ => format!(
            "{}.{:012}",
            picodollars / 1_000_000_000_000,
            picodollars % 1_000_000_000_000
        ),
    };
    [
        format!("{:.3}", spend.time.as_secs_f64() * 1_000.0),
        spend.input_tokens.to_string(),
        spend.output_tokens.to_string(),
        dollars,
    ]
}

fn not_written(error: csv::Error) -> CommandError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => CommandError::failed(format!("{other:?}")),
    }
}
