//! `cachalot` without arguments: what to do next on this machine.

use std::path::Path;

use cachalot_gateway::ClientTable;

use super::spend::sources::Sources;
use crate::command_error::Result;
use crate::default_model::default_model;
use crate::render;
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// The number of suggestions.
const SUGGESTIONS: usize = 3;

/// Programs that are suggested before other clients.
const PREFERRED: [&str; 2] = ["claude", "codex"];

/// A command, and the reasons to run it, a line each.
struct Suggestion {
    command: String,
    reasons: Vec<String>,
}

impl Suggestion {
    fn new(command: impl Into<String>, reasons: &[&str]) -> Self {
        Self {
            command: command.into(),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        }
    }
}

/// Prints the first commands to run, chosen by the transcripts, programs and keys of this machine.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn overview(process_environment: &ProcessEnvironment) -> Result<()> {
    let mut suggestions: Vec<Suggestion> = spend(process_environment)
        .into_iter()
        .chain(exec(process_environment))
        .chain([chat(process_environment)])
        .chain(anywhere())
        .collect();
    suggestions.truncate(SUGGESTIONS);
    let mut text = "An agent runtime, a workflow engine and a gateway for model APIs, with one cache.\nWhat to do next on this machine:\n".to_owned();
    for Suggestion { command, reasons } in suggestions {
        text += &format!("\n  {command}\n");
        for reason in reasons {
            text += &format!("      {}\n", on_one_line(&reason));
        }
    }
    text += "\n`cachalot --help` lists all commands.\n";
    render::out(&text)
}

/// Suggests the report about coding agents that keep transcripts here.
fn spend(process_environment: &ProcessEnvironment) -> Option<Suggestion> {
    let home = process_environment.environment.get("HOME");
    let shown = |place: &Path| {
        let below = home.and_then(|home| place.strip_prefix(home).ok());
        match below {
            Some(below) => format!("~/{}", below.display()),
            None => place.display().to_string(),
        }
    };
    let places = Sources::new(&[], process_environment).ok()?;
    let places: Vec<String> = places.with_files().map(shown).collect();
    if places.is_empty() {
        return None;
    }
    let reason = format!(
        "what your coding agents have cost, from the transcripts in {}",
        places.join(", ")
    );
    Some(Suggestion::new("cachalot spend", &[&reason]))
}

/// Suggests to run a client behind the gateway that is on the search path.
fn exec(process_environment: &ProcessEnvironment) -> Option<Suggestion> {
    let others = ClientTable::built_in().programs();
    let others = others.filter(|program| !PREFERRED.contains(program));
    let programs = PREFERRED.into_iter().chain(others);
    let mut found = programs.filter(|program| is_on_path(program, process_environment));
    let first = found.next()?;
    let others: Vec<&str> = found.collect();
    let mut suggestion = Suggestion::new(
        format!("cachalot exec -- {first}"),
        &[
            "the program as usual, with a bill by model at its end",
            "--record NAME records its answers, --replay NAME repeats them without a key and a network",
        ],
    );
    if !others.is_empty() {
        let others = format!("also found here: {}", others.join(", "));
        suggestion.reasons.push(others);
    }
    Some(suggestion)
}

/// Suggests a chat, or the simulator if no model can be called.
fn chat(process_environment: &ProcessEnvironment) -> Suggestion {
    match default_model(process_environment) {
        Ok(model) => Suggestion::new(
            "cachalot chat",
            &[&format!(
                "a chat about the files of this directory, with {model}"
            )],
        ),
        Err(_) => Suggestion::new(
            "cachalot simulate",
            &[
                "stands in for the model providers, because no key is set: ANTHROPIC_API_KEY, OPENAI_API_KEY, …",
                "in another terminal: OPENAI_BASE_URL=http://127.0.0.1:4010/v1 cachalot chat",
            ],
        ),
    }
}

/// Suggestions that need nothing of the machine.
fn anywhere() -> [Suggestion; 2] {
    [
        Suggestion::new(
            "cachalot init workflow && cachalot run workflow.yaml",
            &[
                "a workflow whose model call is paid for once: the second run is answered from the cache",
            ],
        ),
        Suggestion::new(
            "cachalot serve",
            &[
                "a gateway for your own programs, which change only their base URL: it shows what they cost,",
                "and answers repeated requests with `temperature: 0` or a `seed` from the cache",
            ],
        ),
    ]
}

/// Returns true if a program of this name is on the search path.
fn is_on_path(program: &str, process_environment: &ProcessEnvironment) -> bool {
    let endings: &[&str] = if cfg!(windows) {
        &[".exe", ".cmd"]
    } else {
        &[""]
    };
    let path = process_environment.environment.get("PATH");
    path.is_some_and(|path| {
        std::env::split_paths(path).any(|folder| {
            let mut endings = endings.iter();
            endings.any(|ending| folder.join(format!("{program}{ending}")).is_file())
        })
    })
}
