//! The proposed policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use cachalot_core::Digest;
use cachalot_core::config::Named;

use super::observation::{Argument, ArgumentKind, CallRecord, Observation};
use crate::proxy_policy::{ServerPolicy, ToolAnnotations, ToolDecision, ToolPolicy};

/// The time to live that is proposed where no file decides.
const TTL: Duration = Duration::from_secs(300);

/// The record of one tool.
#[derive(Default)]
struct Seen<'a> {
    calls: u64,
    /// Calls with the arguments of an earlier one.
    repeats: u64,
    /// Repeats that the cache would have answered, and the time that they took.
    hits: u64,
    saved: Duration,
    results: HashMap<Digest, Option<Digest>>,
    /// True if equal calls had different results.
    differs: bool,
    paths: BTreeMap<&'a str, Argument>,
    /// Reasons why responses would not be stored.
    refusals: BTreeSet<&'a str>,
}

/// A tool of the report.
enum Proposal {
    /// An entry, and why.
    Entry(String, String),
    /// A comment with an entry that a person may enable, and why.
    Possible(String, String),
    /// A comment.
    None(String),
}

/// Returns the policy as YAML.
pub(super) fn policy(observation: &Observation, server: &str) -> String {
    let seen = seen(observation);
    let names: BTreeSet<&str> = observation
        .tools
        .keys()
        .map(String::as_str)
        .chain(seen.keys().copied())
        .collect();
    let total: Duration = seen.values().map(|seen| seen.saved).sum();
    let hits: u64 = seen.values().map(|seen| seen.hits).sum();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# Proposed by `cachalot mcp suggest` from {} calls of {} tools.\n\
         # With it, {hits} calls and {} would have been saved. Read each entry before you use it: a server's\n\
         # annotations are claims, and a session shows only what happened in it.",
        observation.calls.len(),
        names.len(),
        shown(total),
    );
    if observation.dropped > 0 {
        let _ = writeln!(
            text,
            "# {} later calls were not recorded.",
            observation.dropped
        );
    }
    let _ = writeln!(
        text,
        "servers:\n  {}:\n    # stateless: true  # if answers do not depend on the session",
        quoted(server)
    );
    let mut arguments = seen.values().flat_map(|seen| seen.paths.values());
    if arguments.any(|argument| argument.is_relative) {
        let _ = writeln!(
            text,
            "    # relative_to: \".\"  # if the server starts relative paths at its working directory; without it, calls with\n    # relative paths are not stored"
        );
    }
    let _ = writeln!(text, "    tools:");
    let (mut entries, mut comments) = (String::new(), String::new());
    let nothing = Seen::default();
    for name in names {
        let annotations = observation.tools.get(name);
        let seen = seen.get(name).unwrap_or(&nothing);
        let key = quoted(name);
        match proposal(name, annotations, seen) {
            Proposal::Entry(entry, why) => {
                let _ = writeln!(entries, "      # {why}\n      {key}: {entry}");
            }
            Proposal::Possible(entry, why) => {
                let _ = writeln!(comments, "      # {why}\n      # {key}: {entry}");
            }
            Proposal::None(why) => {
                let _ = writeln!(comments, "      # {key}: {why}");
            }
        }
    }
    if entries.is_empty() {
        // A mapping without keys would be nothing.
        text.truncate(text.len() - 1);
        text.push_str(" {}\n");
    }
    text + &entries + &comments
}

fn proposal(name: &str, annotations: Option<&ToolAnnotations>, seen: &Seen<'_>) -> Proposal {
    let Some(annotations) = annotations else {
        return Proposal::None("the server does not list it".to_owned());
    };
    let entry = entry(seen);
    let (permitted, reason) = decide(name, *annotations, false);
    if !permitted && !decide(name, *annotations, true).0 {
        return Proposal::None(reason);
    }
    if seen.differs {
        let why = format!("equal calls had different results in {} calls", seen.calls);
        return Proposal::None(why);
    }
    let mut kinds = seen.paths.values().map(|argument| argument.kind);
    if kinds.any(|kind| kind == ArgumentKind::Unnamed) {
        let why = "an argument names a file in a form that `paths` cannot, such as `~` or a list of objects";
        return Proposal::None(why.to_owned());
    }
    let mut why = numbers(seen);
    if !seen.refusals.is_empty() {
        let refusals: Vec<&str> = seen.refusals.iter().copied().collect();
        let _ = write!(why, "; not stored: {}", refusals.join("; "));
    }
    if !permitted {
        let entry = format!("{{assume_read_only: true, {entry}}}");
        return Proposal::Possible(entry, format!("{why}; {reason}"));
    }
    let entry = format!("{{{entry}}}");
    if seen.hits == 0 {
        Proposal::Possible(entry, why)
    } else {
        Proposal::Entry(entry, why)
    }
}

/// Returns true if the answers of a tool may be stored, and otherwise the reason.
fn decide(name: &str, annotations: ToolAnnotations, assume_read_only: bool) -> (bool, String) {
    let policy = ServerPolicy {
        tools: vec![Named {
            name: name.to_owned(),
            value: ToolPolicy {
                ttl: Some(TTL),
                assume_read_only,
                ..ToolPolicy::default()
            },
        }],
        ..ServerPolicy::default()
    };
    match ToolDecision::new(&policy, name, annotations) {
        ToolDecision::Cache(_) => (true, String::new()),
        ToolDecision::Read { reason, .. } | ToolDecision::Write { reason, .. } => (false, reason),
    }
}

/// Returns the keys of an entry.
fn entry(seen: &Seen<'_>) -> String {
    let paths = seen.paths.iter();
    let paths: Vec<String> = paths
        .filter_map(|(name, argument)| {
            let kind = match argument.kind {
                ArgumentKind::File => "file",
                // The answer may depend on everything below.
                ArgumentKind::Directory => "tree",
                ArgumentKind::Other | ArgumentKind::Unnamed => return None,
            };
            Some(format!("{}: {kind}", quoted(name)))
        })
        .collect();
    if paths.is_empty() {
        "ttl: 5m".to_owned()
    } else {
        format!("paths: {{{}}}", paths.join(", "))
    }
}

fn numbers(seen: &Seen<'_>) -> String {
    if seen.calls == 0 {
        return "it was not called".to_owned();
    }
    if seen.repeats == 0 {
        return format!("{} calls, none of which repeats an earlier one", seen.calls);
    }
    format!(
        "{} of {} calls repeat an earlier one; {} of them would be hits and save {}",
        seen.repeats,
        seen.calls,
        seen.hits,
        shown(seen.saved)
    )
}

/// Goes through the calls as the proxy would.
fn seen(observation: &Observation) -> BTreeMap<&str, Seen<'_>> {
    let mut tools: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    let may_write: BTreeMap<&str, bool> = observation
        .tools
        .iter()
        .map(|(name, annotations)| (name.as_str(), !decide(name, *annotations, false).0))
        .collect();
    let mut fresh: BTreeSet<(&str, Digest)> = BTreeSet::new();
    for call in &observation.calls {
        let CallRecord {
            tool,
            arguments,
            paths,
            took,
            result,
            refusal,
        } = call;
        let seen = tools.entry(tool).or_default();
        seen.calls += 1;
        for (name, argument) in paths {
            let known = seen.paths.entry(name).or_insert(*argument);
            *known = known.and(*argument);
        }
        seen.refusals.extend(refusal.as_deref());
        if let Some(before) = seen.results.get(arguments) {
            seen.repeats += 1;
            seen.differs |= before != result;
            if fresh.contains(&(tool, *arguments)) {
                seen.hits += 1;
                seen.saved += *took;
            }
        }
        seen.results.insert(*arguments, *result);
        if may_write.get(tool.as_str()).copied().unwrap_or(true) {
            fresh.clear();
        } else if refusal.is_none() {
            fresh.insert((tool, *arguments));
        }
    }
    tools
}

/// Returns a text as YAML.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        && text.as_bytes()[0].is_ascii_alphabetic()
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        text.to_owned()
    } else {
        // A JSON string is a YAML string, and has no line break.
        serde_json::Value::from(text).to_string()
    }
}

fn shown(time: Duration) -> String {
    match time.as_millis() {
        milliseconds @ 0..1_000 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
