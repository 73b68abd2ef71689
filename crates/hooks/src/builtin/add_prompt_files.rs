//! `add_prompt_files`: adds instruction files such as `AGENTS.md`.

use std::path::PathBuf;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use serde_json::{Value, json};

use super::{ArgumentsError, Builtin, BuiltinDependencies, Injection};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};
use crate::paragraph::is_new;

mod arguments;
mod find;

use arguments::PromptFileArguments;
use find::FoundFile;

const NAME: &str = "add_prompt_files";

/// Adds files of the user to the conversation: each when it is first found, and again after every
/// change.
pub(super) struct AddPromptFiles {
    home: Option<PathBuf>,
}

impl AddPromptFiles {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        let home = ["HOME", "USERPROFILE"].iter().find_map(|name| {
            dependencies
                .environment
                .get(*name)
                .filter(|home| !home.is_empty())
        });
        Self {
            home: home.map(PathBuf::from),
        }
    }
}

#[async_trait]
impl Builtin for AddPromptFiles {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Gives the model files such as `AGENTS.md`: of each name the nearest on the way from the working directory upwards (`--depth=N`: at most N directories up) and the one in the home directory; a name with a `/` or `~/` at its beginning is that file. At most 64 KiB of each; again only when they have changed. Agents with `add_prompt_files: [NAME, …]` have it."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::TurnStart]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        PromptFileArguments::read(arguments).map(|_| ())
    }

    fn sections(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn section_schema(&self, _: &str) -> Value {
        json!({ "description": self.about(), "type": "array", "items": { "type": "string" } })
    }

    fn check_section(&self, _: &str, section: &Node, problems: &mut Vec<Problem>) {
        if section.is_null() {
            return;
        }
        let Some(items) = section.as_list() else {
            let problem = section.wrong_type(&format!("`{NAME}`"), "a list of file names");
            problems.push(problem.help(format!("write `{NAME}: [AGENTS.md]`")));
            return;
        };
        for item in items {
            let Some(text) = item.as_text() else {
                problems.push(item.wrong_type(&format!("an item of `{NAME}`"), "text"));
                continue;
            };
            if let Err(wrong) = arguments::check(text) {
                let (what, help) = wrong
                    .0
                    .split_once("; ")
                    .unwrap_or((&wrong.0, "take it out"));
                let problem = Problem::new("bad-value", what);
                problems.push(problem.at(&item.place).help(help));
            }
        }
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let items = agent
            .section(NAME)
            .and_then(Node::as_list)
            .unwrap_or_default();
        let arguments: Vec<String> = items
            .iter()
            .filter_map(|item| item.as_text().map(str::to_owned))
            .collect();
        // Options alone name no file: no hook is injected.
        if PromptFileArguments::read(&arguments).is_err() {
            return Vec::new();
        }
        vec![Injection {
            arguments,
            ..Injection::for_event(Event::TurnStart)
        }]
    }

    fn fails_open(&self) -> bool {
        true
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let wanted = PromptFileArguments::read(arguments)?;
        let (directory, home) = (input.cwd.clone(), self.home.clone());
        let found = tokio::task::spawn_blocking(move || {
            find::find_files(&wanted, &directory, home.as_deref())
        });
        let found = found
            .await
            .map_err(|_| Fault::new(format!("`{NAME}` broke down; please report it")))?;
        Ok(render_output(found, input))
    }
}

/// The files that are not yet in the conversation, and notices for the user about the files that were
/// skipped.
fn render_output(found: Vec<FoundFile>, input: &Input) -> Output {
    let mut paragraphs = Vec::new();
    let mut notices = Vec::new();
    for found in found {
        match found {
            FoundFile::Text { name, text } => {
                let text = text.trim_end();
                paragraphs.push(format!("<file name=\"{name}\">\n{text}\n</file>"));
            }
            FoundFile::Skipped(notice) => notices.push(notice),
        }
    }
    paragraphs.retain(|paragraph| is_new(paragraph, &input.messages));
    Output {
        additional_context: (!paragraphs.is_empty()).then(|| paragraphs.join("\n")),
        system_message: (!notices.is_empty()).then(|| notices.join("\n")),
        ..Output::default()
    }
}
