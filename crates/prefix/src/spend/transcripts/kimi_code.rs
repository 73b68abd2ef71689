//! Sessions of Kimi Code: `sessions/*/session_*/agents/*/wire.jsonl`.
//!
//! The usage of an answer is in up to three lines; `usage.record` counts. It names the model by its alias in the
//! configuration; the request before it has the name of the model. A fork copies lines unchanged.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use cachalot_accounting::Terms;
use cachalot_model::Usage;
use serde::Deserialize;

use crate::spend::SpendReader;
use crate::spend::answer::{AnswerPlace, Client, PaidAnswer};
use crate::timestamp;

/// The beginnings of the kinds of lines.
const TOPICS: [&str; 14] = [
    "agent",
    "context",
    "forked",
    "llm",
    "metadata",
    "permission",
    "plugin",
    "profile",
    "prompt",
    "runtime",
    "subagent",
    "token_counting",
    "turn",
    "usage",
];

/// The name of the agent that is no sub-agent.
const MAIN: &str = "main";

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    environment_disclosure: Option<Environment>,
}

#[derive(Deserialize)]
struct Environment {
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    model: Option<String>,
    model_alias: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    agent_id: Option<String>,
    /// The alias.
    model: Option<String>,
    usage: Option<ReportedUsage>,
    time: Option<f64>,
}

#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
struct ReportedUsage {
    input_other: Option<u64>,
    input_cache_read: Option<u64>,
    input_cache_creation: Option<u64>,
    output: Option<u64>,
}

impl ReportedUsage {
    fn usage(&self) -> Usage {
        Usage {
            uncached_input: self.input_other.unwrap_or(0),
            cache_read: self.input_cache_read.unwrap_or(0),
            cache_write_other: self.input_cache_creation.unwrap_or(0),
            output: self.output.unwrap_or(0),
            ..Usage::default()
        }
    }
}

/// The state of an agent's file that is being read.
pub(in crate::spend) struct Wire {
    pub(super) session: String,
    project: Option<Arc<str>>,
    /// The models by their aliases, as requested last.
    models: HashMap<String, Arc<str>>,
}

impl Wire {
    pub(super) fn new(path: &Path) -> Self {
        let agents = path
            .ancestors()
            .find(|ancestor| ancestor.ends_with("agents"));
        let session = agents.unwrap_or(path).parent().and_then(Path::file_name);
        Self {
            session: session.unwrap_or_default().to_string_lossy().into_owned(),
            project: None,
            models: HashMap::new(),
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        match line.kind.as_deref().unwrap_or("a line without a type") {
            "profile.bind" => {
                let Ok(profile) = serde_json::from_slice::<Profile>(text) else {
                    return false;
                };
                if let Some(cwd) = profile
                    .environment_disclosure
                    .and_then(|disclosure| disclosure.cwd)
                {
                    self.project = Some(reader.name(&cwd));
                }
            }
            "llm.request" => {
                let Ok(request) = serde_json::from_slice::<Request>(text) else {
                    return false;
                };
                if let (Some(alias), Some(model)) = (request.model_alias, request.model) {
                    self.models.insert(alias, reader.name(&model));
                }
            }
            "usage.record" => {
                let Ok(record) = serde_json::from_slice::<Record>(text) else {
                    return false;
                };
                self.answer(&record, reader);
            }
            kind => {
                let topic = kind.split('.').next().unwrap_or(kind);
                if !TOPICS.contains(&topic) {
                    reader.unknown(Client::KimiCode, kind);
                }
            }
        }
        true
    }

    fn answer(&self, record: &Record, reader: &mut SpendReader) {
        let Some(usage) = &record.usage else { return };
        let alias = record.model.as_deref().unwrap_or_default();
        // An alias is no name of a model, even if it reads like one.
        let (model, terms) = match self.models.get(alias) {
            Some(model) => (Arc::clone(model), Terms::default()),
            None => {
                let terms = Terms {
                    unknown: Some(format!("the alias {alias}")),
                    ..Terms::default()
                };
                (reader.name(alias), terms)
            }
        };
        let project = match &self.project {
            Some(project) => Arc::clone(project),
            None => reader.name(""),
        };
        let session = reader.name(&self.session);
        let at = record.time.and_then(timestamp::from_number);
        let agent = record.agent_id.as_deref().filter(|agent| *agent != MAIN);
        let agent = agent.map(|agent| reader.name(agent));
        let time = record.time.map(f64::to_bits);
        let place = reader.place(&self.session, time.is_some());
        let key = ("kimi", time, &record.agent_id, alias, usage, place);
        reader.entry(key, || PaidAnswer {
            session,
            project,
            terms,
            place: AnswerPlace::InSession { agent },
            ..PaidAnswer::new(Client::KimiCode, model, at, usage.usage())
        });
    }
}
