//! Parses scripts in YAML.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::duration::Range;
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{self, Node, Section};
use regex::Regex;
use serde_json::json;

use super::template::{BUILT_IN_PLACEHOLDERS, fill, fill_value};
use super::{Pace, ReplyPlan, Rule, Script};
use crate::accounting::Pattern;
use crate::reply::{
    Fault, FaultKind, ScriptedCall, ScriptedCompaction, ScriptedReply, ScriptedStop, ScriptedUsage,
};

pub(super) fn script(file_name: &str, text: &str) -> Result<Script, Vec<Problem>> {
    let node = tree::parse(file_name, text)?;
    let mut problems = Vec::new();
    let script = Section::from_node(&node, "a simulator script", &mut problems)
        .map(|file| read_script(file, &mut problems));
    match script {
        Some(script) if problems.is_empty() => Ok(script),
        _ => Err(problems),
    }
}

fn read_script(mut file: Section<'_>, problems: &mut Vec<Problem>) -> Script {
    let mut rules = Vec::new();
    for node in file.list("rules", problems).unwrap_or_default() {
        rules.extend(rule(node, problems));
    }
    let otherwise = file
        .present("otherwise")
        .and_then(|node| step(node, None, problems))
        .map(Box::new);
    let mut script = Script::with_plan(ReplyPlan::Rules { rules, otherwise });
    if let Some(key) = file.text("key", problems) {
        script = script.with_required_key(key);
    }
    if let Some(names) = file.texts("models", problems) {
        script = script.with_models(names);
    }
    if let Some(names) = file.texts("reasoning_models", problems) {
        script = script.with_reasoning_models(names);
    }
    if let Some(mut pace) = file.section("pace", "`pace`", problems) {
        script.pace = Pace {
            first_byte: duration(&mut pace, "first_byte", problems).unwrap_or_default(),
            per_event: duration(&mut pace, "per_event", problems).unwrap_or_default(),
        };
        pace.finish(problems);
    }
    script.context = file.integer("context", 1..=u64::MAX, problems);
    script.requests_per_minute = file.integer("requests_per_minute", 1..=u64::MAX, problems);
    let words = ["refuse", "accept"];
    let unknown = word(&mut file, "unknown_parameters", &words, problems);
    script.accepts_unknown_parameters = unknown == Some("accept");
    file.finish(problems);
    script
}

fn rule(node: &Node, problems: &mut Vec<Problem>) -> Option<Rule> {
    let mut section = Section::from_node(node, "a rule", problems)?;
    let user = section
        .present("user")
        .and_then(|node| pattern(node, problems));
    let mut rule = Rule {
        model: section.text("model", problems).map(Pattern::new),
        tools: section
            .texts("tools", problems)
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        ..Rule::default()
    };
    section.required("steps", problems);
    for node in section.list("steps", problems).unwrap_or_default() {
        rule.steps.extend(step(node, user.as_ref(), problems));
    }
    rule.user = user;
    section.finish(problems);
    Some(rule)
}

fn pattern(node: &Node, problems: &mut Vec<Problem>) -> Option<Regex> {
    let Some(text) = node.as_text() else {
        problems.push(node.wrong_type("`user`", "text"));
        return None;
    };
    match Regex::new(text) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            // The last line of the message is the error; the lines before show its place.
            let lines = error.to_string();
            let last = lines.lines().last().unwrap_or_default();
            let message = format!("`user` is no regular expression: {last}");
            problems.push(
                Problem::new("invalid-regex", message).at(&node.place).help(
                    "see https://docs.rs/regex/latest/regex/#syntax; put it in single quotes",
                ),
            );
            None
        }
    }
}

fn step(node: &Node, user: Option<&Regex>, problems: &mut Vec<Problem>) -> Option<ScriptedReply> {
    let mut section = Section::from_node(node, "a step", problems)?;
    let text = template(&mut section, "text", user, problems);
    let reasoning = template(&mut section, "reasoning", user, problems);
    let mut tool_calls = Vec::new();
    for node in section.list("tool_calls", problems).unwrap_or_default() {
        tool_calls.extend(call(node, user, problems));
    }
    let reply = ScriptedReply {
        text,
        reasoning,
        tool_calls,
        usage: section
            .section("usage", "`usage`", problems)
            .map(|section| usage(section, problems)),
        stop: match word(&mut section, "stop", &["length", "refusal"], problems) {
            Some("length") => Some(ScriptedStop::Length),
            Some(_) => Some(ScriptedStop::Refusal),
            None => None,
        },
        fault: section
            .present("fault")
            .and_then(|node| fault(node, problems)),
    };
    section.finish(problems);
    Some(reply)
}

fn template(
    section: &mut Section<'_>,
    key: &'static str,
    user: Option<&Regex>,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let text = section.text(key, problems)?;
    if let Some(node) = section.node(key) {
        fill(text, &mut |name| {
            check_placeholder(name, node, user, problems)
        });
    }
    Some(text.to_owned())
}

fn call(node: &Node, user: Option<&Regex>, problems: &mut Vec<Problem>) -> Option<ScriptedCall> {
    let mut section = Section::from_node(node, "a tool call", problems)?;
    let name = section.required_text("name", problems).map(str::to_owned);
    let arguments = match section.present("arguments") {
        Some(node) => {
            let arguments = node.to_value();
            fill_value(&arguments, &mut |name| {
                check_placeholder(name, node, user, problems)
            });
            arguments
        }
        None => json!({}),
    };
    section.finish(problems);
    Some(ScriptedCall {
        name: name?,
        arguments,
    })
}

/// Reports a placeholder that has no value in a step; returns an empty text.
fn check_placeholder(
    name: &str,
    node: &Node,
    user: Option<&Regex>,
    problems: &mut Vec<Problem>,
) -> String {
    let groups = user.into_iter().flat_map(|user| {
        let numbers = (0..user.captures_len()).map(|at| at.to_string());
        numbers.chain(user.capture_names().flatten().map(str::to_owned))
    });
    let known: Vec<String> = BUILT_IN_PLACEHOLDERS
        .into_iter()
        .map(str::to_owned)
        .chain(groups)
        .collect();
    if !known.iter().any(|known| known == name) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        problems.push(
            Problem::new(
                "unknown-placeholder",
                format!("`{{{{{name}}}}}` is not a known placeholder"),
            )
            .at(&node.place)
            .help(did_you_mean(name, &known)),
        );
    }
    String::new()
}

fn usage(mut section: Section<'_>, problems: &mut Vec<Problem>) -> ScriptedUsage {
    let compaction = section.section("compaction", "`compaction`", problems);
    let compaction = compaction.map(|section| compaction_usage(section, problems));
    let service_tier = word(&mut section, "service_tier", &TIERS, problems);
    let inference_geo = word(&mut section, "inference_geo", &["global", "us"], problems);
    let speed = word(&mut section, "speed", &["fast", "standard"], problems);
    let mut count = |key| section.integer(key, 0..=u64::MAX, problems);
    let usage = ScriptedUsage {
        input: count("input"),
        cache_read: count("cache_read"),
        cache_write: count("cache_write"),
        cache_write_1h: count("cache_write_1h"),
        cache_write_12h: count("cache_write_12h"),
        output: count("output"),
        reasoning: count("reasoning"),
        web_searches: count("web_searches"),
        service_tier,
        inference_geo,
        speed,
        compaction,
    };
    section.finish(problems);
    usage
}

/// Tiers of all providers.
const TIERS: [&str; 9] = [
    "batch",
    "default",
    "deferred",
    "flex",
    "priority",
    "reserved",
    "scale",
    "standard",
    "ultrafast",
];

fn compaction_usage(mut section: Section<'_>, problems: &mut Vec<Problem>) -> ScriptedCompaction {
    let mut count = |key| section.integer(key, 0..=u64::MAX, problems).unwrap_or(0);
    let compaction = ScriptedCompaction {
        input: count("input"),
        cache_read: count("cache_read"),
        cache_write: count("cache_write"),
        output: count("output"),
    };
    section.finish(problems);
    compaction
}

fn fault(node: &Node, problems: &mut Vec<Problem>) -> Option<Fault> {
    if node.as_text() == Some("malformed") {
        return Some(Fault::malformed());
    }
    if let Some(status) = node.as_u64() {
        return Some(Fault::status(status_of(status, node, problems)?));
    }
    if node.as_map().is_none() {
        let expected = "a status such as 500, `malformed`, or a mapping";
        problems.push(node.wrong_type("`fault`", expected));
        return None;
    }
    let mut section = Section::from_node(node, "a fault", problems)?;
    let retry_after = duration(&mut section, "retry_after", problems);
    let mut kinds = Vec::new();
    if let Some(status) = section.integer("status", 400..=599, problems) {
        kinds.push(FaultKind::Status {
            status: u16::try_from(status).unwrap_or(500),
            retry_after,
        });
    }
    if let Some(mut slow) = section.section("slow", "`slow`", problems) {
        kinds.push(FaultKind::Slow {
            first_byte: duration(&mut slow, "first_byte", problems).unwrap_or_default(),
            per_event: duration(&mut slow, "per_event", problems).unwrap_or_default(),
        });
        slow.finish(problems);
    }
    if let Some(after_events) = after_events(&mut section, "cut", problems) {
        kinds.push(FaultKind::Cut { after_events });
    }
    if let Some(after_events) = after_events(&mut section, "error_event", problems) {
        kinds.push(FaultKind::ErrorEvent { after_events });
    }
    if section.boolean("malformed", problems) == Some(true) {
        kinds.push(FaultKind::Malformed);
    }
    let times = section.integer("times", 1..=u64::from(u32::MAX), problems);
    if kinds.len() != 1 && problems.is_empty() {
        let message =
            "a fault is exactly one of `status`, `slow`, `cut`, `error_event`, `malformed`";
        problems.push(
            Problem::new("which-fault", message)
                .at(&node.head())
                .help("write one of them, for instance `status: 429`"),
        );
    }
    section.finish(problems);
    Some(Fault {
        kind: kinds.pop()?,
        times: times.and_then(|times| u32::try_from(times).ok()),
    })
}

fn status_of(status: u64, node: &Node, problems: &mut Vec<Problem>) -> Option<u16> {
    let found = u16::try_from(status).ok();
    let found = found.filter(|status| (400..=599).contains(status));
    if found.is_none() {
        let message = format!("`fault` must be a status from 400 to 599, but it is {status}");
        problems.push(Problem::new("out-of-range", message).at(&node.place));
    }
    found
}

fn after_events(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let mut inner = section.section(key, "a fault within a stream", problems)?;
    let after = inner.integer("after_events", 0..=1_000_000, problems);
    inner.finish(problems);
    Some(
        after
            .and_then(|after| usize::try_from(after).ok())
            .unwrap_or(0),
    )
}

fn word<'a>(
    section: &mut Section<'a>,
    key: &'static str,
    words: &[&'static str],
    problems: &mut Vec<Problem>,
) -> Option<&'static str> {
    let text = section.text(key, problems)?;
    let known = words.iter().find(|word| **word == text).copied();
    if known.is_none() {
        let message = format!("`{key}` cannot be `{text}`");
        let problem = Problem::new("unknown-word", message).help(did_you_mean(text, words));
        problems.push(match section.node(key) {
            Some(node) => problem.at(&node.place),
            None => problem,
        });
    }
    known
}

/// Claims a duration.
fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<Duration> {
    let node = section.present(key)?;
    problems.extend(Range::ANY.problem(&format!("`{key}`"), node));
    Range::ANY.read(node).ok()
}
