//! `interrupt`, `interrupt_before` and `interrupt_after`: nodes at which the reference implementation waits
//! for a person. A run never waits: its approvals are given before it begins.

use std::collections::{HashMap, HashSet};

use cachalot_core::tree::{MapEntry, Node, NodeKind, Section};
use cachalot_core::{Problem, SourceSpan};

use super::agent::{Agent, Approval};
use super::{MAX_SUGGESTIONS, undefined_node};
use crate::codes;
use crate::codes::no_effect_warning;

/// The name that approves all nodes of a file in which no node has this name.
const ALL: &str = "all";

/// Reads the keys of a node. Returns the approval that it needs before it runs.
pub(super) fn read_node(
    section: &mut Section<'_>,
    name: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Option<Approval> {
    let place = required_approval(section, "a node", problems)?;
    name.map(|name| Approval {
        node: name.to_owned(),
        place,
    })
}

/// Reads the keys of a step. An approval is refused: only nodes have names that an approval can refer to.
pub(super) fn read_step(section: &mut Section<'_>, problems: &mut Vec<Problem>) {
    if let Some(place) = required_approval(section, "a step", problems) {
        problems.push(
            Problem::new(codes::UNSUPPORTED, "a step does not wait for approval")
                .at(&place)
                .help("write `interrupt: before` in the node that the step belongs to"),
        );
    }
}

/// Reads the keys of `config` or of the file. Returns the approvals of the nodes in `interrupt_before`,
/// which may not exist.
pub(super) fn read_list(
    section: &mut Section<'_>,
    what: &str,
    problems: &mut Vec<Problem>,
) -> Vec<Approval> {
    without_effect(section, what, problems);
    if let Some(entry) = entry(section, "interrupt").filter(|entry| !is_after(entry)) {
        let message = format!("`interrupt` in {what} names no node");
        let problem = Problem::new(codes::UNSUPPORTED, message).at(&entry.key_place);
        problems.push(problem.help("write `interrupt_before: [NODE]`"));
    }
    let Some(entry) = entry(section, "interrupt_before") else {
        return Vec::new();
    };
    let Some(items) = entry.value.as_list() else {
        problems.push(entry.value.wrong_type("`interrupt_before`", "a list"));
        return Vec::new();
    };
    let mut approvals = Vec::new();
    for item in items {
        match item.as_text() {
            Some(name) => approvals.push(Approval {
                node: name.to_owned(),
                place: item.place.clone(),
            }),
            None => problems
                .push(item.wrong_type("an item of `interrupt_before`", "the name of a node")),
        }
    }
    approvals
}

/// Returns the approvals in the order of the nodes, one per node. Reports names of nodes that do not exist.
pub(super) fn resolve(
    approvals: Vec<Approval>,
    names: &[String],
    problems: &mut Vec<Problem>,
) -> Vec<Approval> {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let distinct: HashSet<&str> = known.iter().copied().collect();
    let mut by_node = HashMap::new();
    for approval in &approvals {
        by_node.entry(approval.node.as_str()).or_insert(approval);
        if !distinct.contains(approval.node.as_str()) {
            let (code, by) = (codes::APPROVAL_UNDEFINED, "`interrupt_before`");
            let suggested: &[&str] = if problems.len() < MAX_SUGGESTIONS {
                &known
            } else {
                &[]
            };
            let problem = undefined_node(code, by, &approval.node, suggested, None);
            problems.push(problem.at(&approval.place));
        }
    }
    known
        .iter()
        .filter_map(|name| by_node.get(name).copied())
        .cloned()
        .collect()
}

/// Creates the warning of `validate`; `None` if no approval is needed.
pub(super) fn warning(approvals: &[Approval]) -> Option<Problem> {
    problem(approvals, Problem::warning)
}

impl Agent {
    /// Returns the paths of the nodes that need approval before a run begins and do not have it, in the
    /// order of the file.
    pub fn unapproved(&self) -> impl Iterator<Item = &str> {
        self.approvals.iter().map(|approval| approval.node.as_str())
    }

    /// Returns the problem of a run that lacks approvals; `None` if it has all. [`crate::graph::run`] fails
    /// with it before the first node.
    #[must_use]
    pub fn needs_approval(&self) -> Option<Problem> {
        problem(&self.approvals, Problem::new)
    }

    /// Approves nodes by name; `all` approves every node, unless a node has this name. A node that needs no
    /// approval is accepted, so that one command fits several versions of a file. Removes the warnings that
    /// no longer hold.
    ///
    /// # Errors
    /// A problem for each name that is not a node.
    pub fn approve(&mut self, names: &[String]) -> Result<(), Vec<Problem>> {
        let is_known = |name: &str| {
            self.node_names().any(|known| known == name)
                || self.unapproved().any(|known| known == name)
        };
        let means_all = |name: &str| name == ALL && !is_known(ALL);
        let problems: Vec<Problem> = names
            .iter()
            .filter(|name| !is_known(name) && !means_all(name))
            .map(|name| {
                // Paths in other files come last: most names are nodes of this one.
                let nodes: Vec<&str> = self.node_names().collect();
                let paths = self.unapproved().filter(|path| !nodes.contains(path));
                let known: Vec<&str> = nodes.iter().copied().chain(paths).chain([ALL]).collect();
                undefined_node(codes::APPROVAL_UNDEFINED, "`--approve`", name, &known, None)
            })
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        if names.iter().any(|name| means_all(name)) {
            self.approvals.clear();
        }
        self.approvals
            .retain(|approval| !names.contains(&approval.node));
        self.warnings
            .retain(|warning| warning.code != codes::NEEDS_APPROVAL);
        self.warnings.extend(warning(&self.approvals));
        Ok(())
    }
}

fn problem(
    approvals: &[Approval],
    create: impl FnOnce(&'static str, String) -> Problem,
) -> Option<Problem> {
    let first = approvals.first()?;
    let names: Vec<String> = approvals
        .iter()
        .map(|approval| format!("`{}`", approval.node))
        .collect();
    let message = match names.as_slice() {
        [name] => format!("{name} needs approval before it runs"),
        [names @ .., last] => format!(
            "{} and {last} need approval before they run",
            names.join(", ")
        ),
        [] => return None,
    };
    let flags: Vec<String> = approvals
        .iter()
        .map(|approval| flag(&approval.node))
        .collect();
    let help = format!("to approve, add `{}` to `cachalot run`", flags.join(" "));
    Some(
        create(codes::NEEDS_APPROVAL, message)
            .at(&first.place)
            .help(help),
    )
}

/// Returns the flag that approves a node, quoted for a shell.
fn flag(node: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@".contains(c);
    let word = if !node.is_empty() && node.chars().all(is_plain) {
        node.to_owned()
    } else {
        format!("'{}'", node.replace('\'', r"'\''"))
    };
    if node.starts_with('-') {
        format!("--approve={word}")
    } else {
        format!("--approve {word}")
    }
}

/// Reads the keys of a node or a step. Returns the place that requires an approval before it runs.
fn required_approval(
    section: &mut Section<'_>,
    what: &str,
    problems: &mut Vec<Problem>,
) -> Option<SourceSpan> {
    without_effect(section, what, problems);
    let mut required_approval = None;
    if let Some(entry) = entry(section, "interrupt").filter(|entry| !is_after(entry)) {
        match entry.value.as_text() {
            Some("before") => required_approval = Some(entry.key_place.clone()),
            Some(other) => problems.push(
                Problem::new(
                    codes::BAD_VALUE,
                    format!("there is no `interrupt: {other}`"),
                )
                .at(&entry.value.place)
                .help("write `before` or `after`"),
            ),
            None => problems.push(entry.value.wrong_type("`interrupt`", "`before` or `after`")),
        }
    }
    if let Some(entry) = entry(section, "interrupt_before") {
        match entry.value.as_boolean() {
            Some(_) => required_approval = required_approval.or(Some(entry.key_place.clone())),
            None => problems.push(entry.value.wrong_type(
                &format!("`interrupt_before` of {what}"),
                "`true` or `false`",
            )),
        }
    }
    required_approval
}

/// Warns of an answer that is expected after a node: a run goes on without it.
fn without_effect(section: &mut Section<'_>, what: &str, problems: &mut Vec<Problem>) {
    let after = [
        entry(section, "interrupt").filter(|entry| is_after(entry)),
        entry(section, "interrupt_after"),
    ];
    problems.extend(after.into_iter().flatten().map(|entry| {
        let help = "give the answer before the run: `cachalot run FILE --input NAME=ANSWER`";
        no_effect_warning(entry, what, help)
    }));
}

fn is_after(entry: &MapEntry) -> bool {
    entry.value.as_text() == Some("after")
}

/// Claims `key`, also if the node is otherwise ignored; returns its entry unless the value is null, `false`
/// or an empty list.
fn entry<'a>(section: &mut Section<'a>, key: &'static str) -> Option<&'a MapEntry> {
    section.entry(key).filter(|entry| is_set(&entry.value))
}

fn is_set(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Null | NodeKind::Boolean(false) => false,
        NodeKind::List(names) => !names.is_empty(),
        _ => true,
    }
}
