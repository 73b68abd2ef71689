//! Reads `config`, the options with which the reference implementation compiles a workflow. Only
//! `interrupt_before` changes a run here.

use cachalot_core::Problem;
use cachalot_core::config::{Custom, Parameter, ParameterKind as Kind, Table, key, no_effect};
use cachalot_core::tree::Section;
use serde_json::json;

use super::agent::Approval;
use super::interrupts;
use crate::codes;

/// The keys of `config`.
#[rustfmt::skip]
pub(super) static CONFIG: Table = Table::new(
    "`config`",
    "How other runtimes compile the file; only `interrupt_before` changes a run here.",
    &[&[
        key("raise_exceptions", Kind::Boolean, "Without effect: a node that fails ends the run."),
        INTERRUPT_BEFORE,
        key("interrupt", Kind::Custom(&HIDDEN), ""),
        key("interrupt_after", Kind::Custom(&Custom::shape(|| json!({ "type": ["array", "null"], "maxItems": 0 }))), "Without effect."),
        key("checkpoint", Kind::Custom(&HIDDEN), ""),
        key("checkpoint_dir", Kind::Text, "Without effect: no checkpoints are written."),
        key("max_execution_time", Kind::Number, "Without effect."),
        no_effect("checkpoint_dir", "no checkpoints are written"),
        no_effect("max_execution_time", "`budget: {max_time: 2m}` at the top of the file limits a run"),
    ]],
);

/// `interrupt_before` of a file and of `config`.
#[rustfmt::skip]
pub(super) const INTERRUPT_BEFORE: Parameter = key("interrupt_before", Kind::Custom(&Custom::shape(|| json!({ "type": ["array", "null"], "items": { "type": "string" } }))), "Nodes that run only if `cachalot run --approve NODE` approves them.");

pub(super) static HIDDEN: Custom = Custom::hidden();

/// Reads `config`. Keys without effect are accepted, with a warning if the author may expect an effect. A
/// key that would change the run is refused. Returns the approvals that `interrupt_before` requires.
pub(super) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Vec<Approval> {
    let Some(mut config) = section.section("config", "`config`", problems) else {
        return Vec::new();
    };
    // A failed node ends the run with exit code 1 for either value, in the reference implementation too.
    config.boolean("raise_exceptions", problems);
    let approvals = interrupts::read_list(&mut config, "`config`", problems);
    let checkpoint = config.text("checkpoint", problems);
    if checkpoint.is_some_and(|path| !path.is_empty())
        && let Some(node) = config.node("checkpoint")
    {
        let message = "`checkpoint`: a run does not continue from a checkpoint";
        let problem = Problem::new(codes::UNSUPPORTED, message).at(&node.place);
        problems
            .push(problem.help("take it out to run from the start; give a state with `--input`"));
    }
    CONFIG.finish(config, problems);
    approvals
}
