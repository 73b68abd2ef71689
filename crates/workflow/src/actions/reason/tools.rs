//! The tools of `reason.react`: actions that the author of the file names.

use std::sync::Arc;
use std::time::Instant;

use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};
use serde_json::Value;

use super::super::arguments::CheckedArguments;
use crate::action::announced;
use crate::report::{Event, NODE, current_node};
use crate::template::is_literal;
use crate::{Action, Arguments, Failure, ParameterKind, Registry, Runtime, codes, origin};

/// Actions of the reference implementation that need services of others and are not here. A file that
/// names them as tools is accepted with a warning, because a model may reach its goal without them.
const UNAVAILABLE_ACTIONS: [&str; 4] = ["web.scrape", "web.crawl", "web.ai_scrape", "rag.query"];

/// The tools that a model may use.
pub(super) struct Tools(Vec<(String, Arc<dyn Action>)>);

/// Returns the problems of the list of tools as written. A list from a template is refused: it could
/// come from a model, which would then choose its own tools.
pub(super) fn problems(with: Option<&Node>, registry: &Registry) -> Vec<Problem> {
    let Some(node) = with.and_then(|with| with.get("tools")) else {
        return Vec::new();
    };
    let NodeKind::List(items) = &node.kind else {
        let is_template = node.as_text().is_some_and(|text| !is_literal(text));
        return is_template
            .then(|| template_problem(&node.place))
            .into_iter()
            .collect();
    };
    items
        .iter()
        .filter_map(|item| problem(item, registry))
        .collect()
}

fn template_problem(place: &SourceSpan) -> Problem {
    let message = "`tools` is not a list of actions that are written out";
    Problem::new(codes::BAD_VALUE, message)
        .at(place)
        .help("write each action as text, without templates: `[web.search, http.get]`")
}

fn problem(item: &Node, registry: &Registry) -> Option<Problem> {
    let Some(name) = item.as_text().filter(|text| is_literal(text)) else {
        return Some(template_problem(&item.place));
    };
    let Some(action) = registry.get(name) else {
        let problem = if UNAVAILABLE_ACTIONS.contains(&name) {
            Problem::warning(
                codes::NO_EFFECT,
                format!("there is no action `{name}`: the model does not get this tool"),
            )
            .help("leave it out, or use another action")
        } else {
            registry.unknown(name)
        };
        return Some(problem.at(&item.place));
    };
    (!action.is_tool()).then(|| {
        let message = format!("`{name}` cannot be a tool: it runs other actions");
        let help = "name the actions themselves: the model must not choose others";
        Problem::new(codes::BAD_VALUE, message)
            .at(&item.place)
            .help(help)
    })
}

impl Tools {
    /// Reads the list of tools.
    ///
    /// # Errors
    /// `validation_error` for an action that does not exist or cannot be a tool.
    pub(super) fn read(given: &CheckedArguments<'_>, registry: &Registry) -> Result<Self, Failure> {
        let mut tools = Vec::new();
        for name in given.list("tools")?.into_iter().flatten() {
            let name = name.as_str().ok_or_else(|| {
                given.wrong("tools", "holds something that is no name of an action")
            })?;
            match registry.get(name) {
                Some(action) if action.is_tool() => {
                    tools.push((name.to_owned(), Arc::clone(action)));
                }
                Some(_) => {
                    let what = format_args!("names `{name}`, which runs other actions");
                    return Err(given.wrong("tools", what));
                }
                None if UNAVAILABLE_ACTIONS.contains(&name) => {}
                None => {
                    let what = format_args!("names `{name}`, and there is no such action");
                    return Err(given.wrong("tools", what));
                }
            }
        }
        Ok(Self(tools))
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the description of the tools for the model, one line per tool and parameter.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (name, action) in &self.0 {
            let about = action.metadata();
            text.push_str(&format!("- {name}: {}\n", about.description));
            for parameter in about.parameters.table() {
                let required = if parameter.required { ", required" } else { "" };
                text.push_str(&format!(
                    "    {} ({}{required}): {}\n",
                    parameter.name,
                    kind_name(parameter.kind),
                    parameter.doc
                ));
            }
        }
        text
    }

    /// Runs a tool with arguments that the model chose. Returns its result as JSON, or the text of its
    /// failure with secrets masked. The failure goes to the model, which may try something else.
    pub(super) async fn run(
        &self,
        name: &str,
        input: &Value,
        step: u64,
        runtime: &Runtime,
    ) -> String {
        let Some((_, action)) = self.0.iter().find(|(known, _)| known == name) else {
            return if self.0.is_empty() {
                format!("there is no tool `{name}`: there are no tools")
            } else {
                format!(
                    "there is no tool `{name}`: there are {}",
                    self.names().join(", ")
                )
            };
        };
        let node = format!("{}/{name}[{step}]", current_node());
        let report = |event| runtime.reporter.report(event);
        report(Event::Started { node: node.clone() });
        let began = Instant::now();
        let arguments = match input {
            Value::Object(fields) => Ok(fields.clone()),
            Value::Null => Ok(Arguments::new()),
            _ => Err(Failure::new(
                "validation_error",
                "`action_input` is no mapping of arguments",
            )),
        };
        let ended = match arguments.and_then(|arguments| action.metadata().check(arguments)) {
            Ok(arguments) => {
                let call = announced(&**action, arguments, runtime, |arguments| {
                    origin::chosen_by_model(action.run(arguments, runtime))
                });
                NODE.scope(node.clone(), call).await
            }
            Err(failure) => Err(failure),
        };
        let time = began.elapsed();
        match ended {
            Ok(result) => {
                report(Event::Finished { node, time });
                result.to_string()
            }
            Err(failure) => {
                let message = runtime.masked(&failure.message);
                let observation = format!("`{name}` failed: {message}");
                report(Event::Failed {
                    node,
                    time,
                    message,
                });
                observation
            }
        }
    }
}

fn kind_name(kind: ParameterKind) -> &'static str {
    match kind.basic() {
        ParameterKind::Boolean => "true or false",
        ParameterKind::Any => "any JSON",
        kind => kind.noun(),
    }
}
