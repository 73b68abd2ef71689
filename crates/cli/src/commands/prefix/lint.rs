//! `cachalot prefix lint`.

use std::io::Read as _;
use std::path::Path;

use cachalot_core::secret::{find_credentials, mask_credentials};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::{self, LikelyCause, LintFinding, Rules, SuspectText, lint_text};
use cachalot_prefix::request;
use cachalot_prompt::Level;
use serde_json::{Value, json};

use crate::agent_file::{AgentFile, in_order, unreadable};
use crate::arguments::PrefixLint;
use crate::command_error::{CommandError, Result, Sources};
use crate::models::catalog;
use crate::render;
use crate::render::failure::problem_json;
use crate::wiring::ProcessEnvironment;

/// Checks an agent file or one request.
///
/// # Errors
/// The file cannot be read, or it contains text that will break prefixes.
pub(super) fn lint(arguments: &PrefixLint, process_environment: &ProcessEnvironment) -> Result<()> {
    let source = source(&arguments.file, process_environment)?;
    let catalog = catalog(process_environment)?;
    let is_request = source.text.trim_start().starts_with('{');
    let LintResult { problems, notes } = if is_request {
        request(&source, &catalog)?
    } else {
        agents(&source)?
    };
    if arguments.json {
        let listed: Vec<Value> = problems.iter().map(problem_json).collect();
        let valid = listed.is_empty();
        render::json(&json!({"valid": valid, "problems": listed, "notes": notes}))?;
    } else {
        let problems = match problems.len() as u64 {
            0 => "no problems".to_owned(),
            count => render::count(count, "problem", "problems"),
        };
        render::err(&format!("{}: {problems}", source.name));
        for note in &notes {
            render::err(&format!("{}: {note}", source.name));
        }
    }
    match (problems.is_empty(), arguments.json) {
        (true, _) => Ok(()),
        // The problems were printed as JSON.
        (false, true) => Err(CommandError::Usage {
            problems: Vec::new(),
            sources: Sources::new(),
        }),
        (false, false) => Err(without_credentials(source).report(in_order(problems))),
    }
}

/// Returns the file with credentials masked and all positions unchanged.
fn without_credentials(source: AgentFile) -> AgentFile {
    let text = hidden(&source.text);
    AgentFile { text, ..source }
}

/// Replaces each byte of text that looks like a credential with an asterisk; line breaks stay.
fn hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for range in find_credentials(text) {
        shown.push_str(&text[from..range.start]);
        shown.extend(text[range.clone()].bytes().map(|byte| match byte {
            b'\n' | b'\r' => char::from(byte),
            _ => '*',
        }));
        from = range.end;
    }
    shown.push_str(&text[from..]);
    shown
}

fn source(file: &Path, process_environment: &ProcessEnvironment) -> Result<AgentFile> {
    if file != Path::new("-") {
        return AgentFile::read(file, process_environment);
    }
    let mut text = String::new();
    match std::io::stdin().lock().read_to_string(&mut text) {
        Ok(_) => Ok(AgentFile {
            name: "stdin".to_owned(),
            path: process_environment.directory.join("stdin"),
            text,
        }),
        Err(error) => Err(CommandError::usage(unreadable("stdin", &error))),
    }
}

/// Result of a check.
#[derive(Default)]
struct LintResult {
    problems: Vec<Problem>,
    /// Information that is not a problem.
    notes: Vec<String>,
}

/// Checks the body of a request.
fn request(source: &AgentFile, catalog: &Catalog) -> Result<LintResult> {
    let request = request::read(source.text.as_bytes()).map_err(|error| {
        CommandError::usage(Problem::new(
            "not-a-request",
            format!("{}: {error}", source.name),
        ))
    })?;
    let rules = Rules::of_request(&request, catalog);
    let mut checked = LintResult::default();
    let nodes = request.prompt.nodes();
    for finding in diagnosis::lint(&request, &rules) {
        if finding.cause == LikelyCause::BelowMinimum {
            checked
                .notes
                .push(of_length(request.compared.prompt.bytes() / 4, &rules));
            continue;
        }
        if !finding.is_fault {
            checked.notes.push(format_finding(&finding));
            continue;
        }
        let mut of_level = nodes
            .iter()
            .filter(|node| name_of(node.level) == finding.level);
        let piece = of_level.nth(finding.index);
        let found = piece.and_then(|node| {
            let piece = std::str::from_utf8(&node.bytes).ok()?;
            let start = source.text.find(piece)? + finding.offset.unwrap_or(0);
            let length = finding.word.as_ref().map_or(1, String::len);
            let range = start..start + length;
            Some(SourceSpan::new(source.name.as_str(), &source.text, range))
        });
        checked.problems.push(problem(&finding, found.as_ref()));
    }
    Ok(checked)
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Tool => "tools",
        Level::System => "system",
        Level::Message => "messages",
    }
}

fn of_length(tokens: u64, rules: &Rules) -> String {
    let minimum = rules.minimum.unwrap_or_default();
    format!("about {tokens} tokens, and the provider caches no prefix of less than {minimum}")
}

/// Describes a finding and its location; the value of a credential is left out.
fn format_finding(finding: &LintFinding) -> String {
    let LintFinding {
        cause,
        level,
        index,
        word,
        ..
    } = finding;
    let location = match *level {
        "parameters" => String::new(),
        level => format!(", {level}[{index}]"),
    };
    format!("{}{location}", named(*cause, word.as_deref()))
}

fn named(cause: LikelyCause, word: Option<&str>) -> String {
    match word {
        Some(word) => format!("{} (`{}`)", cause.what(), mask_credentials(word)),
        None => cause.what().to_owned(),
    }
}

fn problem(finding: &LintFinding, place: Option<&SourceSpan>) -> Problem {
    let problem = Problem::new(finding.cause.code(), format_finding(finding));
    let problem = problem.help(finding.cause.remedy());
    match place {
        Some(place) => problem.at(place),
        None => problem,
    }
}

/// Keys whose texts are in the prefix of every request.
const INSTRUCTION_KEYS: [&str; 5] = [
    "instruction",
    "instructions",
    "system",
    "system_prompt",
    "description",
];

/// Template variables whose value changes between requests.
const CHANGING_VARIABLES: [(&str, LikelyCause); 8] = [
    ("now", LikelyCause::Timestamp),
    ("utcnow", LikelyCause::Timestamp),
    ("time", LikelyCause::Timestamp),
    ("timestamp", LikelyCause::Timestamp),
    ("today", LikelyCause::Date),
    ("date", LikelyCause::Date),
    ("uuid", LikelyCause::Identifier),
    ("random", LikelyCause::Identifier),
];

/// Checks the instructions of the agents in a file.
fn agents(source: &AgentFile) -> Result<LintResult> {
    let parsed = tree::parse(&source.name, &source.text);
    let root = parsed.map_err(|problems| CommandError::Usage {
        problems,
        sources: Sources::from([(source.name.clone(), hidden(&source.text))]),
    })?;
    let mut checked = LintResult::default();
    walk(&root, &mut |key, node| {
        let Some(text) = node.as_text().filter(|_| INSTRUCTION_KEYS.contains(&key)) else {
            return;
        };
        for SuspectText {
            cause,
            word,
            is_fault,
            ..
        } in changing(text)
        {
            let message = format!("`{key}`: {}", named(cause, word));
            if !is_fault {
                checked.notes.push(message);
                continue;
            }
            let within = source.text.get(node.place.start..).unwrap_or_default();
            let found = word.and_then(|word| {
                let start = node.place.start + within.find(word)?;
                let range = start..start + word.len();
                Some(SourceSpan::new(source.name.as_str(), &source.text, range))
            });
            let found = found.unwrap_or_else(|| node.place.clone());
            let problem = Problem::new(cause.code(), message);
            checked
                .problems
                .push(problem.at(&found).help(cause.remedy()));
        }
    });
    Ok(checked)
}

/// Returns the parts of an instruction that will change: volatile words inserted by a program, and templates
/// that insert such words.
fn changing(text: &str) -> Vec<SuspectText<'_>> {
    let mut found = lint_text(text);
    for template in text.split("{{").skip(1) {
        let template = template.split("}}").next().unwrap_or_default();
        let mut words = template.split(|character: char| !character.is_alphanumeric());
        let asked = words.find_map(|word| {
            let mut known = CHANGING_VARIABLES.iter();
            known
                .find(|(name, _)| *name == word)
                .map(|(_, cause)| *cause)
        });
        found.extend(asked.map(|cause| SuspectText {
            cause,
            offset: 0,
            word: Some(template.trim()),
            is_fault: true,
        }));
    }
    found
}

fn walk<'a>(node: &'a Node, each: &mut impl FnMut(&'a str, &'a Node)) {
    for entry in node.as_map().unwrap_or_default() {
        each(&entry.key, &entry.value);
        walk(&entry.value, each);
    }
    for element in node.as_list().unwrap_or_default() {
        walk(element, each);
    }
}
