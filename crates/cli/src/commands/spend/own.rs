//! Payments of this program: answers in sessions, steps of workflows, and requests through the gateway.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_cache::{CallKind, Ledger, LedgerRow};
use cachalot_core::{Cost, Millis, Spend};
use cachalot_model::Usage;
use cachalot_prefix::spend::{Client, PaidAnswer};
use cachalot_prompt::{SessionFilter, SessionOverview};
use serde_json::Value;

use crate::arguments::StoreArguments;
use crate::command_error::Result;
use crate::commands::sessions;
use crate::wiring::{ProcessEnvironment, Warn};

/// Rows of the ledger that are read at once.
const PAGE: u32 = 1_000;

/// Maximum number of answers of a session that are counted one by one without their rows in the ledger.
const MAX_ANSWERS: u64 = 100_000;

/// The project of requests through the gateway.
pub(super) const GATEWAY: &str = "gateway";

/// The answers of a session in the ledger: the indexes of its payments.
type Payments = HashMap<String, Vec<usize>>;

/// The payments of this program.
#[derive(Default)]
pub(super) struct Own {
    pub(super) answers: Vec<PaidAnswer>,
    /// The titles of sessions, behind their names.
    pub(super) titles: Vec<(String, String)>,
}

/// Returns the answers that were paid for. Those of a session are in the ledger, with their times; what the ledger no
/// longer has is known as the rest of the session's sum.
pub(super) async fn payments(process_environment: &ProcessEnvironment, warn: &Warn) -> Result<Own> {
    let home = process_environment.home(None, None)?;
    let Own {
        mut answers,
        mut titles,
    } = Own::default();
    let mut payments = Payments::new();
    if home.ledger.exists() {
        let ledger = Ledger::at(&home.ledger, "", Arc::clone(warn));
        add_rows(&ledger, &mut answers, &mut payments)?;
    }
    // A store on a server is not asked: the command needs no network.
    if home.url.is_none() && home.database.exists() {
        let place = StoreArguments { db: None };
        let sessions = sessions::open(&place, process_environment, Arc::clone(warn))?;
        for summary in sessions.list(&SessionFilter::default()).await? {
            if let Ok(overview) = summary.state {
                if let Some(title) = &overview.head.title {
                    titles.push((overview.head.id.clone(), title.clone()));
                }
                add_session(&overview, summary.saved, &mut answers, &payments);
            }
        }
    }
    Ok(Own { answers, titles })
}

/// Returns the answers of a ledger that were paid for.
pub(super) fn answers_of(ledger: &Ledger) -> Result<Vec<PaidAnswer>> {
    let mut answers = Vec::new();
    add_rows(ledger, &mut answers, &mut Payments::new())?;
    Ok(answers)
}

fn add_rows(ledger: &Ledger, answers: &mut Vec<PaidAnswer>, payments: &mut Payments) -> Result<()> {
    let mut after = 0;
    loop {
        let rows = ledger.calls_after(after, PAGE)?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.id;
        for row in rows {
            add_row(row, answers, payments);
        }
    }
}

fn add_row(row: LedgerRow, answers: &mut Vec<PaidAnswer>, payments: &mut Payments) {
    let paid = row.paid;
    if paid.is_free() {
        return;
    }
    let kind = row.kind.as_str();
    let mut answer = answer(&paid, row.at);
    if kind == CallKind::Prefix.as_str() {
        // The model follows the name of its provider.
        let (_, model) = row.name.split_once('/').unwrap_or(("", &row.name));
        answer.model = model.into();
        if let Some(input) = &row.input {
            answer.usage = detailed(answer.usage, input);
        }
        if let Some(session) = row.handle {
            answer.session = session.as_str().into();
            payments.entry(session).or_default().push(answers.len());
        }
    } else if kind == CallKind::Request.as_str() {
        answer = answer.without_place();
        answer.project = GATEWAY.into();
        answer.session = row.run.as_str().into();
        let in_input = row.input.as_ref().and_then(requested_model);
        let in_handle = || model_in_handle(row.handle.as_deref()?);
        answer.model = in_input.or_else(in_handle).unwrap_or_default().into();
    } else if kind == CallKind::Action.as_str() && row.session.is_none() {
        answer = answer.without_place();
        answer.session = row.run.as_str().into();
        answer.model = row.name.as_str().into();
    } else {
        return;
    }
    answers.push(answer);
}

fn answer(paid: &Spend, at: Millis) -> PaidAnswer {
    let usage = Usage::from_counts(paid.input_tokens, paid.output_tokens);
    PaidAnswer::with_cost(Client::Cachalot, usage, paid.cost, at)
}

/// Splits the input of a payment by what the provider read from and wrote to its cache.
fn detailed(usage: Usage, input: &Value) -> Usage {
    let count = |name: &str| input.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (read, written) = (count("read_from_its_cache"), count("written_to_its_cache"));
    match usage
        .uncached_input
        .checked_sub(read.saturating_add(written))
    {
        Some(uncached) => Usage {
            uncached_input: uncached,
            cache_read: read,
            cache_write_other: written,
            ..usage
        },
        None => usage,
    }
}

/// Returns the model of a request through the gateway, which is in its body or in its path.
fn requested_model(input: &Value) -> Option<&str> {
    let in_body = input.pointer("/body/model").and_then(Value::as_str);
    in_body.or_else(|| {
        let path = input.get("path")?.as_str()?;
        let (_, name) = path.rsplit_once("/models/")?;
        name.split([':', '/']).next()
    })
}

/// Returns the model in the handle of a request through the gateway, `UPSTREAM/ENDPOINT/MODEL/KEY`: a copy of a ledger
/// has no inputs.
fn model_in_handle(handle: &str) -> Option<&str> {
    let (_, rest) = handle.split_once('/')?;
    let (_, rest) = rest.split_once('/')?;
    Some(rest.rsplit_once('/')?.0)
}

/// Adds the answers of a session that the ledger does not have, and gives the project to those that it has.
fn add_session(
    overview: &SessionOverview,
    saved: Millis,
    answers: &mut Vec<PaidAnswer>,
    payments: &Payments,
) {
    let (head, totals) = (&overview.head, &overview.totals);
    let project: Arc<str> = head.workspace.as_deref().unwrap_or_default().into();
    let mut usage = totals.usage;
    let mut cost = totals.spent.cost;
    let mut missing = totals.answers;
    for index in payments.get(&head.id).into_iter().flatten() {
        let Some(answer) = answers.get_mut(*index) else {
            continue;
        };
        answer.project = Arc::clone(&project);
        // An earlier session may have had the same name.
        if answer.at.is_some_and(|at| at < head.created) {
            continue;
        }
        missing = missing.saturating_sub(1);
        subtract(&mut usage, &answer.usage);
        let paid = answer.cost.unwrap_or_default();
        cost = Cost {
            picodollars: cost.picodollars.saturating_sub(paid.picodollars),
            unpriced: cost.unpriced.saturating_sub(paid.unpriced),
        };
    }
    // One answer has the rest of the sum, the others only count.
    for _ in 0..missing.min(MAX_ANSWERS) {
        let mut answer = PaidAnswer::with_cost(
            Client::Cachalot,
            std::mem::take(&mut usage),
            std::mem::take(&mut cost),
            saved,
        )
        .without_place();
        answer.project = Arc::clone(&project);
        answer.session = head.id.as_str().into();
        answer.model = head.model.as_str().into();
        answers.push(answer);
    }
}

/// Subtracts the tokens of an answer. The ledger does not say for how long the provider caches what it wrote.
fn subtract(from: &mut Usage, part: &Usage) {
    let mut written = part.cache_write();
    for (from, part) in [
        (&mut from.uncached_input, part.uncached_input),
        (&mut from.cache_read, part.cache_read),
        (&mut from.output, part.output),
    ] {
        *from = from.saturating_sub(part);
    }
    for from in [
        &mut from.cache_write_other,
        &mut from.cache_write_5m,
        &mut from.cache_write_1h,
        &mut from.cache_write_12h,
    ] {
        let taken = written.min(*from);
        *from -= taken;
        written -= taken;
    }
}
