//! `subgraph`: another agent file whose graph the branches of a fan-out run.
//!
//! The other file is read and checked with the file that names it. Its own `settings`, `models` and
//! `providers` apply to its nodes, and those of the outer file where it has none. What holds for a whole run
//! (the budget, the store, the limits of inline code, the hosts of requests) cannot differ.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_core::tree::{Node, Section};

use super::agent::{Approval, Subgraph, Work};
use super::nodes::NodeReader;
use super::outer_file::OuterFile;
use super::{Agent, LoadContext, directory_of, load_with_context};
use crate::actions::cache::agent_segment;
use crate::codes;
use crate::template::{Prepared, TemplateUse};

/// The maximum depth of subgraphs within subgraphs.
const MAX_DEPTH: usize = 8;

/// The maximum number of subgraph files that one file loads, counted once per place that names one.
const MAX_FILES: usize = 100;

impl NodeReader<'_> {
    /// Reads `subgraph` and `input` of a fan-out.
    pub(super) fn subgraph(&mut self, section: &mut Section<'_>, file: &Node) -> Work {
        let input = self.input(section);
        self.refuse_with(section);
        let Some(written) = file.as_text() else {
            self.problems
                .push(file.wrong_type("`subgraph`", "the path of an agent file"));
            return Work::Nothing;
        };
        let node = section.node("name").and_then(Node::as_text);
        let node = node.unwrap_or_default();
        match load(written, file, self.file, self.context) {
            Ok((mut agent, scope)) => {
                self.problems.append(&mut agent.warnings);
                let approvals = std::mem::take(&mut agent.approvals);
                self.approvals_inside
                    .extend(approvals.into_iter().map(|approval| Approval {
                        node: format!("{node}/{}", approval.node),
                        ..approval
                    }));
                Work::Subgraph(Box::new(Subgraph {
                    file: written.to_owned(),
                    scope,
                    agent: Arc::new(agent),
                    input,
                }))
            }
            Err(mut problems) => {
                self.problems.append(&mut problems);
                Work::Nothing
            }
        }
    }

    fn input(&mut self, section: &mut Section<'_>) -> Vec<(String, Prepared)> {
        let entries = section.map("input", &mut self.problems).unwrap_or_default();
        for entry in entries {
            self.warn_of_item(section, &entry.value);
        }
        entries
            .iter()
            .map(|entry| {
                let prepared = self.prepared(&entry.value, TemplateUse::PLAIN);
                (entry.key.clone(), prepared)
            })
            .collect()
    }

    /// Warns of a template that names the item without `state`: it is null.
    fn warn_of_item(&mut self, section: &mut Section<'_>, value: &Node) {
        let Some(text) = value.as_text() else { return };
        let inside = text.trim().strip_prefix("{{");
        let Some(name) = inside
            .and_then(|text| text.strip_suffix("}}"))
            .map(str::trim)
        else {
            return;
        };
        for (key, default) in [("item_var", "item"), ("index_var", "index")] {
            let variable = section.node(key).and_then(Node::as_text).unwrap_or(default);
            if name == variable {
                self.problems.push(
                    Problem::warning(codes::UNKNOWN_NAME, format!("`{{{{ {name} }}}}` is null"))
                        .at(&value.place)
                        .help(format!("write `{{{{ state.{name} }}}}`")),
                );
            }
        }
    }
}

/// Loads the file that `written` names, relative to the outer file. Also returns the agent's name as it
/// appears in handles (escaped).
///
/// # Errors
/// The problems of the file, with their places in it; or the reason why it is not loaded, at `node`.
fn load(
    written: &str,
    node: &Node,
    file: &OuterFile<'_>,
    context: LoadContext<'_>,
) -> Result<(Agent, String), Vec<Problem>> {
    let refused = |code, message: String, help: &str| {
        Err(vec![Problem::new(code, message).at(&node.place).help(help)])
    };
    if written.contains("://") {
        let message = format!("{written}: a subgraph is a file on this machine");
        return refused(
            codes::UNSUPPORTED,
            message,
            "download it, and write its path",
        );
    }
    let path = without_dots(&directory_of(Path::new(file.name)).join(written));
    let name = path.to_string_lossy().into_owned();
    let chain = file.chain();
    if chain.iter().any(|known| is_same(Path::new(known), &path)) {
        let message = format!("a subgraph runs itself: {} → {name}", chain.join(" → "));
        return refused(codes::SUBGRAPH_CYCLE, message, "take it out of one of them");
    }
    if chain.len() > MAX_DEPTH {
        let message = format!(
            "subgraphs are nested more than {MAX_DEPTH} deep: {}",
            chain.join(" → ")
        );
        return refused(
            codes::OUT_OF_RANGE,
            message,
            "put the nodes of one file into another",
        );
    }
    let count = context.loaded.get() + 1;
    context.loaded.set(count);
    if count > MAX_FILES {
        let message = format!("more than {MAX_FILES} subgraphs");
        return refused(
            codes::OUT_OF_RANGE,
            message,
            "put the nodes of one file into another",
        );
    }
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            let help = "the path is relative to the agent file, and the file is UTF-8 text";
            let message = format!("{name}: {error}");
            return refused(codes::UNREADABLE_SUBGRAPH, message, help);
        }
    };
    // The outer file warns of all approvals together.
    let is_other = |problem: &Problem| problem.code != codes::NEEDS_APPROVAL;
    let context = LoadContext {
        outer: Some(file),
        ..context
    };
    let mut agent = load_with_context(&name, &text, context).map_err(|mut problems| {
        problems.retain(is_other);
        problems
    })?;
    agent.warnings.retain(is_other);
    let file = std::fs::canonicalize(&path).unwrap_or(path);
    let scope = agent_segment(agent.settings.name.as_deref(), agent.name.as_deref(), &file);
    Ok((agent, scope))
}

/// Removes `.` from the path.
fn without_dots(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != std::path::Component::CurDir)
        .collect()
}

/// True if both paths lead to one file, symbolic links followed.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
