//! `prefix plan` and `prefix analyze` agree: where one finds a break, the other reads nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use cachalot_core::SecretSet;
use cachalot_model::wire::MarkerTime;
use cachalot_prefix::diagnosis::{self, Observations, diagnose};
use cachalot_prefix::log::{LogReader, LoggedRequest};
use cachalot_prompt::Mark;
use serde_json::json;

use super::*;

/// The published rules, but without a minimum length, and with exact matches for all prefixes of OpenAI.
const RULES: &str = "anthropic: {otherwise: {minimum: 0, keeps_thinking: true}, models: [{names: ['*claude-haiku-4-5*'], minimum: 0}]}
openai: {otherwise: {caching: exact, minimum: 0, lifetime: 30m}, lifetimes: [{name: 30m, idle: 1800}]}";

fn logs() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../../examples/data", "../prefix/tests/prefix/causes"];
    let files = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(own.join(folder)).unwrap());
    let mut logs: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    logs.sort();
    logs
}

fn requests(log: &Path) -> Vec<LoggedRequest> {
    let reader = LogReader::new(BufReader::new(File::open(log).unwrap()));
    reader.in_order().filter_map(Result::ok).collect()
}

/// Returns true if the second request reads what the first has written at its end; `None` if one of them
/// would be refused.
fn reads(previous: &LoggedRequest, next: &LoggedRequest) -> Option<bool> {
    let rules = Published::parse("rules.yaml", RULES).unwrap();
    let mut accountant = Accountant::new(rules);
    let mut marked = None;
    let mut account = |logged: &LoggedRequest, at| {
        let step = steps::from_log(logged, None, 0);
        let marker_rules = MarkerRules::find(&step.provider, &step.model, step.format);
        let asking = UnmarkedRequest::new(&step, &step.model, marker_rules);
        let nodes = asking.prompt.nodes();
        let end = nodes.iter().rfind(|node| node.mark_at.is_some())?.depth;
        let first = *marked.get_or_insert(end);
        let marks = [first, end].map(|node| Mark {
            node,
            time: MarkerTime::FiveMinutes,
        });
        let body = asking.body(&Plan::from_marks(marks));
        let format = api(step.format)?;
        let charged = accountant.account(format, &body, at, step.settings);
        charged.ok()
    };
    account(previous, 0)?;
    Some(account(next, 1_000)?.read > 0)
}

fn is_break(previous: &LoggedRequest, next: &LoggedRequest) -> bool {
    let rules = diagnosis::Rules::of_request(&next.request, &Catalog::built_in());
    let found = diagnose(
        &previous.request.sending(),
        &next.request.sending(),
        &Observations::default(),
        &rules,
        &SecretSet::empty(),
    );
    found.at.is_some()
}

#[test]
fn plan_and_analyze_agree_on_every_log() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for log in logs() {
        let requests = requests(&log);
        for pair in requests.windows(2) {
            let [previous, next] = pair else { continue };
            // The last user message is the first position that is written to the cache.
            let longer = next.request.prompt.len() > previous.request.prompt.len();
            let Some(reads) = reads(previous, next).filter(|_| longer) else {
                continue;
            };
            compared += 1;
            if reads == is_break(previous, next) {
                let name = log.file_name().unwrap().to_string_lossy().into_owned();
                wrong.push((name, next.line, reads));
            }
        }
    }
    assert!(compared > 30, "{compared}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Returns the cost of each plan for a log, in dollars.
fn costs(log: &Path) -> Vec<Vec<(&'static str, f64)>> {
    let catalog = Catalog::built_in();
    let mut plan_costs = PlanCosts::new(&catalog, None);
    let mut before = None;
    for logged in requests(log) {
        let step = steps::from_log(&logged, before, 60_000);
        before = Some(step.at);
        plan_costs.take(&step);
    }
    let columns = |estimate: &Estimate| {
        let columns = estimate.columns.iter();
        columns
            .map(|column| (column.scheme.name(), column.cost.dollars()))
            .collect()
    };
    plan_costs.estimates.iter().map(columns).collect()
}

/// Returns the input costs in dollars of a chat with these pauses in seconds between its turns, under `5m`,
/// `auto` and `without`.
fn of_pauses(pauses: &[i64]) -> [f64; 3] {
    let catalog = Catalog::built_in();
    let mut plan_costs = PlanCosts::new(&catalog, None);
    let (mut messages, mut at) = (Vec::new(), 0);
    for pause in [0].iter().chain(pauses) {
        at += pause * 1_000;
        messages.push(json!({"role": "user", "content": "u".repeat(400)}));
        let line = json!({"at": at, "request": {
            "model": "claude-sonnet-4-5", "max_tokens": 10, "system": "s".repeat(8_000),
            "messages": messages,
        }});
        messages.push(json!({"role": "assistant", "content": "a".repeat(400)}));
        let line = line.to_string();
        let logged = LogReader::new(line.as_bytes())
            .in_order()
            .next()
            .unwrap()
            .unwrap();
        let mut step = steps::from_log(&logged, None, 0);
        step.at = at;
        plan_costs.take(&step);
    }
    let columns = &plan_costs.estimates[0].columns;
    ["5m", "auto", "without"].map(|name| {
        let found = columns.iter().find(|column| column.scheme.name() == name);
        found.unwrap().cost.dollars()
    })
}

/// All chats with four pauses of a minute, ten minutes and ninety minutes. An hour is a bet on the next
/// pause, and a lost one costs no more than the difference of the prices of writing.
#[test]
fn auto_costs_at_most_the_price_difference_and_pays_for_long_pauses() {
    const LENGTHS: [i64; 3] = [60, 600, 5_400];
    let chats = (0..3_usize.pow(4)).map(|number| {
        let nth = |place| LENGTHS[number / 3_usize.pow(place) % 3];
        [nth(0), nth(1), nth(2), nth(3)]
    });
    for pauses in chats {
        let [five, auto, without] = of_pauses(&pauses);
        assert!(
            auto <= five * 2.0 / 1.25 + 1e-9,
            "{pauses:?}: {auto} {five}"
        );
        let is_all = |length: i64| pauses.iter().all(|pause| *pause == length);
        if !pauses.contains(&600) {
            assert!((auto - five).abs() < 1e-9, "{pauses:?}: {auto} {five}");
        }
        if is_all(600) {
            assert!(auto < five && auto < without, "{pauses:?}: {auto} {five}");
        }
    }
}

#[test]
fn auto_is_never_more_expensive_than_no_caching_on_the_examples() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data");
    let mut compared = 0;
    for log in logs().into_iter().filter(|log| log.starts_with(&examples)) {
        for columns in costs(&log) {
            let of = |name: &str| columns.iter().find(|(column, _)| *column == name);
            let (Some((_, auto)), Some((_, without))) = (of("auto"), of("without")) else {
                continue;
            };
            compared += 1;
            assert!(auto <= without, "{}: {columns:?}", log.display());
        }
    }
    assert!(compared > 1, "{compared}");
}
