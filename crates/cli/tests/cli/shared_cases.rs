//! Transcripts and answers with known costs (`tests/data`): each has the right tokens and dollars.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::serve::Gateway;
use crate::support::{Home, Server};

/// What `cachalot spend` has to find in a folder.
struct Right {
    folder: &'static str,
    answers: u64,
    /// Input, reads, writes for five minutes or an unknown time, writes for an hour, output.
    tokens: [u64; 5],
    dollars: f64,
    unpriced: u64,
}

const fn right(folder: &'static str, answers: u64, tokens: [u64; 5], dollars: f64) -> Right {
    Right {
        folder,
        answers,
        tokens,
        dollars,
        unpriced: 0,
    }
}

/// The right values. Those of transcripts follow from `truth.json`, without the requests that leave no trace: the router
/// of Gemini CLI (1 and 4) and the titles of opencode (1, 4 and 8). opencode, Copilot CLI, Cline and Kimi Code do not
/// keep how long a write lives: it counts as one of five minutes.
#[rustfmt::skip]
const SPEND: &[Right] = &[
    right("accounting/S04_inference_geo/global", 1, [100_000, 200_000, 50_000, 0, 10_000], 1.162_5),
    right("accounting/S04_inference_geo/none", 1, [100_000, 200_000, 50_000, 0, 10_000], 1.162_5),
    right("accounting/S04_inference_geo/us", 1, [100_000, 200_000, 50_000, 0, 10_000], 1.278_75),
    right("accounting/S05_fork_parent_absent/both", 4, [13_000, 33_000, 0, 0, 500], 0.025_375),
    right("accounting/S05_fork_parent_absent/child_only", 1, [1_000, 12_000, 0, 0, 200], 0.004_75),
    right("accounting/S05_fork_parent_absent/two_children", 2, [2_000, 24_000, 0, 0, 400], 0.009_5),
    right("accounting/S06_fork_midsection", 7, [16_000, 72_000, 0, 0, 815], 0.037_15),
    right("accounting/S07_codex_fast/default", 1, [100_000, 0, 0, 0, 10_000], 0.8),
    right("accounting/S07_codex_fast/fast", 1, [100_000, 0, 0, 0, 10_000], 2.0),
    right("accounting/S07_codex_fast/record_default", 1, [100_000, 0, 0, 0, 10_000], 0.32),
    right("accounting/S07_codex_fast/record_priority", 1, [100_000, 0, 0, 0, 10_000], 0.64),
    right("accounting/S08_both_records/count_first", 2, [21_000, 20_000, 0, 0, 700], 0.136),
    right("accounting/S08_both_records/record_first", 2, [21_000, 20_000, 0, 0, 700], 0.136),
    right("accounting/S08_both_records/upgraded", 3, [22_000, 41_000, 0, 0, 1_200], 0.166_5),
    right("accounting/S09_reemitted/no_limits", 2, [3_000, 0, 0, 0, 300], 0.006_75),
    right("accounting/S09_reemitted/other_limit", 2, [3_000, 0, 0, 0, 300], 0.006_75),
    right("accounting/S09_reemitted/same_limit", 2, [3_000, 0, 0, 0, 300], 0.006_75),
    right("accounting/S12_web_search", 1, [1_000, 0, 0, 0, 500], 0.060_5),
    right("accounting/S15_codex_new_lines", 1, [1_000, 0, 0, 0, 100], 0.002_25),
    right("accounting/S16_fork_copies_counts_only/plain", 4, [13_000, 33_000, 0, 0, 500], 0.025_375),
    right("accounting/S16_fork_copies_counts_only/with_ordinals", 4, [13_000, 33_000, 0, 0, 500], 0.025_375),
    right("accounting/S17_model_names/alias_new", 1, [100_000, 0, 0, 0, 10_000], 0.6),
    right("accounting/S17_model_names/bedrock_global", 1, [100_000, 0, 0, 0, 10_000], 0.45),
    right("accounting/S17_model_names/bedrock_us", 1, [100_000, 0, 0, 0, 10_000], 0.495),
    right("accounting/S17_model_names/m1", 1, [100_000, 0, 0, 0, 10_000], 0.45),
    right("accounting/S17_model_names/openrouter", 1, [100_000, 0, 0, 0, 10_000], 0.45),
    right("accounting/S17_model_names/plain", 1, [100_000, 0, 0, 0, 10_000], 0.45),
    Right { unpriced: 1, ..right("accounting/S17_model_names/unknown", 1, [100_000, 0, 0, 0, 10_000], 0.0) },
    right("accounting/S17_model_names/vertex", 1, [100_000, 0, 0, 0, 10_000], 0.45),
    right("accounting/S19_usage_at_the_end", 1, [20, 3_000, 500, 0, 100], 0.004_335),
    right("transcripts/claude-code/compact_then_fork", 3, [4_066, 80_066, 8_066, 4_000, 466], 0.113_927_2),
    right("transcripts/claude-code/prompt_hook", 1, [2_039, 40_039, 4_039, 2_000, 239], 0.057_138_8),
    right("transcripts/claude-code/resume_and_fork", 6, [6_069, 120_069, 12_069, 6_000, 669], 0.170_014_8),
    right("transcripts/claude-code/tool_and_subagent", 4, [4_026, 80_026, 8_026, 4_000, 426], 0.112_759_2),
    right("transcripts/cline/openai_and_anthropic", 4, [4_010, 80_010, 6_007, 0, 410], 0.059_738_525),
    right("transcripts/codex/tool_resume_fork_subagent_compact", 10, [10_055, 200_055, 0, 0, 1_055], 0.048_125_625),
    right("transcripts/copilot-cli/tool_and_resume", 3, [3_006, 60_006, 9_006, 0, 306], 0.075_175_2),
    right("transcripts/gemini-cli/tool_and_resume", 3, [3_010, 60_010, 0, 0, 440], 0.008_408_25),
    // The catalog has no price of kimi-k2.5.
    Right { unpriced: 1, ..right("transcripts/kimi-code/two_apis_resume_fork", 4, [4_010, 80_010, 9_009, 0, 410], 0.075_262_8) },
    right("transcripts/opencode/tool_subagent_fork", 7, [6_333, 140_042, 6_714, 0, 742], 0.084_393_1),
    right("transcripts/pi/three_apis_and_fork", 7, [5_617, 140_028, 7_421, 3_000, 728], 0.123_551_025),
    right("transcripts/qwen-code/tool_continue_subagent", 6, [6_021, 120_021, 0, 0, 621], 0.028_738_875),
];

/// The sums of costs that are in no line, by folder.
const SIDE_REQUESTS: [(&str, f64); 2] = [
    ("transcripts/claude-code/compact_then_fork", 0.028_496_4),
    ("transcripts/claude-code/prompt_hook", 0.028_584),
];

/// A request through the gateway, and what its answer costs.
struct Request {
    /// The file with the answer of the provider.
    answer: &'static str,
    path: &'static str,
    body: &'static str,
    dollars: f64,
}

#[rustfmt::skip]
const REQUESTS: [Request; 5] = [
    Request {
        answer: "accounting/G12_inference_geo/reply.json",
        path: "/v1/messages",
        body: r#"{"model":"claude-opus-4-8","max_tokens":20000,"inference_geo":"us","messages":[{"role":"user","content":"hi"}]}"#,
        dollars: 0.825,
    },
    Request {
        answer: "accounting/G13_tiers/gpt-5.5.reply.json",
        path: "/v1/chat/completions",
        body: r#"{"model":"gpt-5.5","service_tier":"priority","messages":[{"role":"user","content":"hi"}]}"#,
        dollars: 2.0,
    },
    Request {
        answer: "accounting/G13_tiers/gpt-5.5.reply.json",
        path: "/v1/chat/completions",
        body: r#"{"model":"gpt-5.5","messages":[{"role":"user","content":"no tier is asked for"}]}"#,
        dollars: 2.0,
    },
    Request {
        answer: "accounting/G13_tiers/claude-opus-4-8.reply.json",
        path: "/v1/messages",
        body: r#"{"model":"claude-opus-4-8","speed":"fast","max_tokens":20000,"messages":[{"role":"user","content":"hi"}]}"#,
        dollars: 1.5,
    },
    Request {
        answer: "accounting/G13_tiers/claude-sonnet-4-5.reply.json",
        path: "/v1/messages",
        body: r#"{"model":"claude-sonnet-4-5","max_tokens":2000,"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"hi"}]}"#,
        dollars: 0.060_5,
    },
];

/// An agent file that asks for a tier, the answer of the provider, and what it costs.
const WORKFLOW: (&str, &str, f64) = (
    "accounting/W09_tier/flow.yaml",
    "accounting/W09_tier/gpt-5.5.reply.json",
    2.0,
);

/// A log of requests whose only break has a cause.
const LOG: &str = "accounting/P02_string_or_blocks/log.jsonl";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Copies a folder. A file `NAME.sql` becomes the database `NAME`.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            let database = rusqlite::Connection::open(target.with_extension("")).unwrap();
            database.pragma_update(None, "foreign_keys", false).unwrap();
            let rows = std::fs::read_to_string(&path).unwrap();
            database.execute_batch(&rows).unwrap();
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn is_equal(found: &Value, dollars: f64) -> bool {
    // An amount that is not known is null.
    (found.as_f64().unwrap_or_default() - dollars).abs() < 1e-9
}

/// Compares what `cachalot spend` finds with the right values.
fn check_spend(home: &Home, right: &Right) -> Result<(), String> {
    let folder = home.join(right.folder);
    copy(&data().join(right.folder), &folder);
    let arguments = ["spend", right.folder, "--json"];
    let output = home.command(&arguments).env("TZ", "UTC").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let total = &found["total"];
    let tokens = &total["tokens"];
    let names = [
        "input",
        "cache_read",
        "cache_write_5m",
        "cache_write_1h",
        "output",
    ];
    let counted = names.map(|name| tokens[name].as_u64().unwrap_or(u64::MAX));
    let is_right = counted == right.tokens
        && total["answers"] == right.answers
        && total["unpriced"] == right.unpriced
        && is_equal(&total["usd"], right.dollars)
        && found["unknown_lines"] == serde_json::json!({});
    let side = SIDE_REQUESTS
        .iter()
        .find(|(folder, _)| *folder == right.folder);
    let is_side_right =
        side.is_none_or(|(_, dollars)| is_equal(&total["side_requests_usd"], *dollars));
    if is_right && is_side_right {
        Ok(())
    } else {
        Err(format!(
            "{} answers, {counted:?}, ${}, {} unpriced, side requests {}, unknown lines {}; right are {} answers, {:?}, ${}, {} unpriced",
            total["answers"],
            total["usd"],
            total["unpriced"],
            total["side_requests_usd"],
            found["unknown_lines"],
            right.answers,
            right.tokens,
            right.dollars,
            right.unpriced,
        ))
    }
}

/// Compares what the ledger has of a request through the gateway with the right amount.
fn check_request(request: &Request) -> Result<(), String> {
    let home = Home::new();
    let answer = std::fs::read_to_string(data().join(request.answer)).unwrap();
    let provider = Server::start(&answer.replace("{{N}}", "1"));
    let upstreams = [
        format!("openai={}/v1", provider.url()),
        format!("anthropic={}", provider.url()),
    ];
    let arguments = ["--upstream", &upstreams[0], "--upstream", &upstreams[1]];
    let gateway = Gateway::with(&home, &arguments, &[]);
    let answered = gateway.post_to(request.path, "k", request.body);
    gateway.stop();
    let exported = home.run(&["ledger", "export", "-"]).ok().stdout;
    let mut rows = csv::Reader::from_reader(exported.as_bytes());
    let mut names = rows.headers().unwrap().iter();
    let place = names.position(|name| name == "paid_dollars").unwrap();
    let paid: Vec<_> = rows
        .records()
        .map(|row| row.unwrap()[place].to_owned())
        .collect();
    let dollars: Vec<f64> = paid.iter().filter_map(|paid| paid.parse().ok()).collect();
    match dollars[..] {
        [paid] if (paid - request.dollars).abs() < 1e-9 => Ok(()),
        _ => Err(format!(
            "{paid:?} dollars, right are {}; the answer was {answered}",
            request.dollars
        )),
    }
}

fn check_workflow() -> Result<(), String> {
    let (file, answer, dollars) = WORKFLOW;
    let home = Home::new();
    let answer = std::fs::read_to_string(data().join(answer)).unwrap();
    let provider = Server::start(&answer.replace("{{N}}", "1"));
    let file = data().join(file);
    let output = home
        .command(&["run", file.to_str().unwrap()])
        .env("OPENAI_BASE_URL", format!("{}/v1", provider.url()))
        .env("OPENAI_API_KEY", "k")
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let cost = &found["a"]["cost"];
    if is_equal(cost, dollars) {
        Ok(())
    } else {
        Err(format!("{cost} dollars, right are {dollars}"))
    }
}

fn check_log() -> Result<(), String> {
    let home = Home::new();
    let log = data().join(LOG);
    let found = home.run(&["prefix", "analyze", "--json", log.to_str().unwrap()]);
    let found = found.ok().json();
    let log = &found["logs"][0];
    let breaks = log["breaks"].as_array().map(Vec::as_slice);
    let has_cause = breaks.is_some_and(|breaks| {
        !breaks.is_empty() && breaks.iter().all(|found| !found["cause"].is_null())
    });
    if has_cause && log["lost_tokens"] == 3_300 {
        Ok(())
    } else {
        Err(format!("{} lost, {}", log["lost_tokens"], log["breaks"]))
    }
}

/// The folders of the data that must be in the table: cases, or the variants of those that have variants.
fn folders() -> BTreeSet<String> {
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(data().join(folder)).unwrap();
        entries
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_dir())
            .map(|entry| format!("{folder}/{}", entry.file_name().to_str().unwrap()))
            .collect()
    };
    let mut found = BTreeSet::new();
    for case in names("accounting") {
        let variants = names(&case);
        let is_whole = |name: &String| {
            let name = name.rsplit('/').next().unwrap_or_default();
            ["projects", "sessions"].contains(&name)
        };
        if variants.is_empty() || variants.iter().any(is_whole) {
            found.insert(case)
        } else {
            found.extend(variants);
            true
        };
    }
    for agent in names("transcripts") {
        found.extend(names(&agent));
    }
    found
}

/// The folder of a file.
fn parent(file: &str) -> String {
    let (folder, _) = file.rsplit_once('/').unwrap();
    folder.to_owned()
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the number of right results is what the test is run for"
)]
fn shared_cases() {
    let mut listed: BTreeSet<String> = SPEND.iter().map(|case| case.folder.to_owned()).collect();
    listed.extend(REQUESTS.iter().map(|request| parent(request.answer)));
    listed.extend([parent(WORKFLOW.0), parent(LOG)]);
    assert_eq!(folders(), listed, "the table does not list these folders");
    let home = Home::new();
    let mut results: Vec<(&str, Result<(), String>)> = SPEND
        .iter()
        .map(|right| (right.folder, check_spend(&home, right)))
        .collect();
    results.extend(
        REQUESTS
            .iter()
            .map(|request| (request.answer, check_request(request))),
    );
    results.push((WORKFLOW.0, check_workflow()));
    results.push((LOG, check_log()));
    let mut wrong = Vec::new();
    for (case, result) in &results {
        if let Err(found) = result {
            wrong.push(format!("{case}: {found}"));
        }
    }
    println!("{} of {} right", results.len() - wrong.len(), results.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
