//! `cachalot prefix plan`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::Ledger;
use cachalot_core::Problem;
use cachalot_core::suggest::did_you_mean;
use cachalot_model::Catalog;
use cachalot_prefix::log::{LogReader, Reason};
use cachalot_prompt::Session;
use serde_json::{Value, json};

use crate::arguments::PrefixPlan;
use crate::chat::sum::dollars;
use crate::command_error::{CommandError, Result};
use crate::commands::sessions;
use crate::models::catalog;
use crate::plan_costs::{
    Column, Estimate, PlanCosts, Recommendation, RecordedTimes, from_log, from_session,
};
use crate::render;
use crate::render::table;
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// The maximum number of requests of a session whose times are read.
const MAX_REQUESTS: u32 = 100_000;

/// The maximum number of invalid lines that are named in warnings.
const MAX_NAMED_LINES: u64 = 5;

/// Reports what the same requests would have cost under other plans.
///
/// # Errors
/// There is no such session or file, or it contains no request that could be charged.
pub(super) async fn plan(
    arguments: &PrefixPlan,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let catalog = catalog(process_environment)?;
    let targets = targets(arguments, &catalog)?;
    let mut plan_costs: Vec<PlanCosts<'_>> = targets
        .into_iter()
        .map(|target| PlanCosts::new(&catalog, target))
        .collect();
    let path = process_environment.directory.join(&arguments.what);
    let is_log = arguments.what == "-" || (path.exists() && !path.is_dir());
    let has_times = if is_log {
        read_log(arguments, &path, &mut plan_costs, &warn)?
    } else if arguments.what.contains(['/', '.']) {
        return Err(no_log(&arguments.what, path.is_dir()));
    } else {
        let sessions = sessions::open(
            &arguments.report.place,
            process_environment,
            Arc::clone(&warn),
        )?;
        let session = sessions.open(&arguments.what).await?;
        let session = session.ok_or_else(|| not_a_log_or_session(&arguments.what))?;
        let recorded = recorded_times(&session, arguments, process_environment, &warn)?;
        let (steps, has_times) = from_session(&session, &recorded, pause(arguments));
        for step in &steps {
            plan_costs.iter_mut().for_each(|costs| costs.take(step));
        }
        has_times
    };
    let untranslated: u64 = plan_costs.iter().map(|costs| costs.untranslated).sum();
    if untranslated > 0 {
        let requests = render::count(untranslated, "request is", "requests are");
        warn(&format!(
            "{requests} left out: the model that is wanted is not asked in the format that they are in"
        ));
    }
    let estimates: Vec<&Estimate> = plan_costs
        .iter()
        .flat_map(|costs| &costs.estimates)
        .collect();
    if estimates.is_empty() {
        return Err(CommandError::failed(format!(
            "`{}` holds no request that was answered",
            arguments.what
        )));
    }
    let assumed = (!has_times).then_some(arguments.every);
    if arguments.report.json {
        return render::json(&as_json(&estimates, assumed));
    }
    render::out(&as_text(&estimates, assumed))
}

/// Reads the times of a session's requests from the ledger. Without them, the pauses are those of `--every`.
fn recorded_times(
    session: &Session,
    arguments: &PrefixPlan,
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<RecordedTimes> {
    let home = process_environment.home(arguments.report.place.db.as_deref(), None)?;
    let ledger = Ledger::at(&home.ledger, "", Arc::clone(warn));
    let head = &session.head;
    match ledger.calls_by_key(&head.id, MAX_REQUESTS) {
        Ok(rows) => Ok(RecordedTimes::new(rows, head.created)),
        Err(error) => {
            warn(&format!("the times of the requests are not known: {error}"));
            Ok(RecordedTimes::default())
        }
    }
}

fn pause(arguments: &PrefixPlan) -> i64 {
    i64::try_from(arguments.every.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

/// Returns the models that replace the original one; a single `None` (the original model) if none is named.
fn targets(arguments: &PrefixPlan, catalog: &Catalog) -> Result<Vec<Option<(String, String)>>> {
    if arguments.models.is_empty() {
        return Ok(vec![None]);
    }
    let named = arguments.models.iter().map(|named| {
        let (provider, model) = named.split_once('/').ok_or_else(|| {
            let problem = Problem::new("unknown-model", format!("`{named}` names no provider"));
            CommandError::usage(
                problem.help("write `provider/model`: `anthropic/claude-sonnet-4-5`"),
            )
        })?;
        if catalog.find(provider, model).is_none() {
            let known: Vec<&str> = catalog.models(provider).collect();
            let problem = Problem::new("unknown-model", format!("no price of `{named}` is known"));
            return Err(CommandError::usage(
                problem.help(did_you_mean(model, &known)),
            ));
        }
        Ok(Some((provider.to_owned(), model.to_owned())))
    });
    named.collect()
}

/// Charges the requests of a log in order. Returns true if each has a time.
fn read_log(
    arguments: &PrefixPlan,
    path: &Path,
    plan_costs: &mut [PlanCosts<'_>],
    warn: &Warn,
) -> Result<bool> {
    let from: Box<dyn BufRead> = if arguments.what == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path)
            .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
        Box::new(BufReader::new(file))
    };
    let (mut has_times, mut before) = (true, None);
    let mut left_out = 0;
    for logged in LogReader::new(from).in_order() {
        let logged = match logged {
            // A failed request wrote no cache entry and was not charged.
            Ok(logged) if logged.failed => continue,
            Ok(logged) => logged,
            Err(error) if matches!(error.reason, Reason::Unreadable(_)) => {
                return Err(CommandError::failed(format!("{}: {error}", arguments.what)));
            }
            Err(error) => {
                left_out += 1;
                if left_out <= MAX_NAMED_LINES {
                    warn(&format!("{}: {error}; it is left out", arguments.what));
                }
                continue;
            }
        };
        if logged.request.model.is_empty() && arguments.models.is_empty() {
            let line = logged.line;
            warn(&format!(
                "{}: line {line}: the request names no model, and is left out (--model names one)",
                arguments.what
            ));
            continue;
        }
        has_times &= logged.at.is_some();
        let step = from_log(&logged, before, pause(arguments));
        before = Some(step.at);
        plan_costs.iter_mut().for_each(|costs| costs.take(&step));
    }
    if left_out > MAX_NAMED_LINES {
        let lines = render::count(left_out - MAX_NAMED_LINES, "more line is", "more lines are");
        warn(&format!("{}: {lines} left out", arguments.what));
    }
    Ok(has_times)
}

/// Returns the error for a path that is not a log. Sessions have no such names.
fn no_log(what: &str, is_directory: bool) -> CommandError {
    CommandError::failed(if is_directory {
        format!("`{what}` is a directory, and no log")
    } else {
        format!("there is no file `{what}`")
    })
}

fn not_a_log_or_session(what: &str) -> CommandError {
    CommandError::failed(format!(
        "`{what}` is neither a file nor a session; `cachalot sessions ls` lists the sessions"
    ))
}

fn as_text(estimates: &[&Estimate], assumed: Option<u64>) -> String {
    let mut parts: Vec<String> = estimates
        .iter()
        .map(|estimate| format_estimate(estimate))
        .collect();
    parts.push(
        "Cost of the input by the providers' published rules; tokens are estimates (bytes / 4).\n"
            .to_owned(),
    );
    if let Some(seconds) = assumed {
        parts.push(format!(
            "Not every request has a time: {seconds} s lie between them (--every).\n"
        ));
    }
    parts.join("\n")
}

/// Formats an estimate: a sentence with the cheapest plan and its setting, and a table of costs and usage.
fn format_estimate(estimate: &Estimate) -> String {
    let recommendation = Recommendation::new(estimate);
    let columns = [
        table::Column::whole("plan"),
        table::Column::number("cost"),
        table::Column::number("change"),
        table::Column::number("read").optional(),
        table::Column::number("written").optional(),
        table::Column::number("uncached").optional(),
        table::Column::whole(""),
    ];
    let rows: Vec<Vec<String>> = estimate
        .columns
        .iter()
        .map(|column| row(column, recommendation.as_ref()))
        .collect();
    let sentence = format!(
        "{}/{}, {}{}",
        on_one_line(&estimate.provider),
        on_one_line(&estimate.model),
        render::count(estimate.requests, "request", "requests"),
        recommendation.as_ref().map_or_else(String::new, describe),
    );
    let mut text = table::headline(&sentence) + "\n" + &table::table(&columns, &rows);
    for column in &estimate.columns {
        text += &refused(column).unwrap_or_default();
    }
    let unpriced = estimate
        .columns
        .iter()
        .find_map(|column| column.unpriced.as_ref());
    if let Some(unknown) = unpriced {
        text += &format!("without a price: {}\n", on_one_line(&unknown.to_string()));
    }
    text
}

fn describe(recommendation: &Recommendation<'_>) -> String {
    let Recommendation {
        cheapest,
        reference,
    } = recommendation;
    let mut text = format!(
        ": `{}` is cheapest, {}",
        cheapest.scheme.name(),
        cost(cheapest)
    );
    let difference = recommendation.difference(cheapest);
    if let Some(difference) = difference.filter(|difference| *difference < 0.0) {
        let percent = -difference * 100.0;
        text += &format!(", {percent:.0} % less than `{}`", reference.scheme.name());
    }
    format!("{text}: {}", recommendation.advice())
}

/// Formats a change: `+34 %`, `0 %`.
fn percent(change: f64) -> String {
    match (change * 100.0).round() {
        0.0 => "0 %".to_owned(),
        percent => format!("{percent:+} %"),
    }
}

fn row(column: &Column, recommendation: Option<&Recommendation<'_>>) -> Vec<String> {
    let usage = &column.usage;
    let compared = recommendation.filter(|recommendation| {
        column.charged > 0 && column.scheme != recommendation.reference.scheme
    });
    let change = compared.and_then(|recommendation| recommendation.difference(column));
    let is_cheapest = recommendation
        .is_some_and(|recommendation| recommendation.cheapest.scheme == column.scheme);
    vec![
        column.scheme.name().to_owned(),
        cost(column),
        change.map_or_else(String::new, percent),
        render::grouped(usage.cache_read),
        render::grouped(usage.cache_write()),
        render::grouped(usage.uncached_input),
        if is_cheapest { "cheapest" } else { "" }.to_owned(),
    ]
}

fn refused(column: &Column) -> Option<String> {
    let why = column.refusal.as_deref()?;
    let requests = render::count(column.refused, "request is", "requests are");
    Some(format!(
        "{}: {requests} left out, which the provider would refuse: {why}\n",
        column.scheme.name()
    ))
}

/// Formats the cost of a plan. Without charged requests it is `refused`, not zero.
fn cost(column: &Column) -> String {
    match dollars(column.cost) {
        _ if column.charged == 0 => "refused".to_owned(),
        Some(_) => column.cost.to_string(),
        None => "no known price".to_owned(),
    }
}

fn as_json(estimates: &[&Estimate], assumed: Option<u64>) -> Value {
    let of_column = |column: &Column| {
        json!({
            "plan": column.scheme.name(),
            "dollars": dollars(column.cost).filter(|_| column.charged > 0),
            "read": column.usage.cache_read,
            "written": column.usage.cache_write(),
            "uncached": column.usage.uncached_input,
            "refused": column.refused,
        })
    };
    let models: Vec<Value> = estimates
        .iter()
        .map(|estimate| {
            let plans: Vec<Value> = estimate.columns.iter().map(of_column).collect();
            let recommendation = Recommendation::new(estimate);
            json!({
                "provider": estimate.provider,
                "model": estimate.model,
                "requests": estimate.requests,
                "plans": plans,
                "cheapest": recommendation.as_ref().map(|recommendation| recommendation.cheapest.scheme.name()),
                "recommendation": recommendation.as_ref().map(Recommendation::advice),
            })
        })
        .collect();
    json!({"models": models, "assumed_seconds_between": assumed})
}
