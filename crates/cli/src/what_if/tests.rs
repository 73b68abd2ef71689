//! `prefix plan` and `prefix analyze` agree: where one finds a break, the other reads nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use cachalot_core::Seals;
use cachalot_model::wire::MarkerTime;
use cachalot_prefix::diagnosis::{self, Observed, diagnose};
use cachalot_prefix::log::{LogReader, Logged};
use cachalot_prompt::Mark;

use super::*;

/// The published rules, except that nothing is too short and all of OpenAI's prefixes match exactly.
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

fn requests(log: &Path) -> Vec<Logged> {
    let reader = LogReader::new(BufReader::new(File::open(log).unwrap()));
    reader.in_order().filter_map(Result::ok).collect()
}

/// Whether the second request reads what the first has written at its end; `None` if one of them would
/// be refused.
fn reads(previous: &Logged, next: &Logged) -> Option<bool> {
    let rules = Published::parse("rules.yaml", RULES).unwrap();
    let mut accountant = Accountant::new(rules);
    let mut marked = None;
    let mut account = |logged: &Logged, at| {
        let step = steps::of_log(logged, None, 0);
        let marking = Marking::find(&step.provider, &step.model, step.format);
        let asking = Asking::new(&step, &step.model, marking);
        let nodes = asking.prompt.nodes();
        let end = nodes.iter().rfind(|node| node.mark_at.is_some())?.depth;
        let first = *marked.get_or_insert(end);
        let marks = [first, end].map(|node| Mark {
            node,
            time: MarkerTime::FiveMinutes,
        });
        let body = asking.body(&Plan::of(marks));
        let format = api(step.format);
        let charged = accountant.account_apart(format, &body, at, step.settings);
        charged.ok()
    };
    account(previous, 0)?;
    Some(account(next, 1_000)?.read > 0)
}

fn is_break(previous: &Logged, next: &Logged) -> bool {
    let rules = diagnosis::Rules::of_request(&next.request, &Catalog::built_in());
    let found = diagnose(
        &previous.request.sending(),
        &next.request.sending(),
        &Observed::default(),
        &rules,
        &Seals::none(),
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
            // The last message of the user is the first place that is written.
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
