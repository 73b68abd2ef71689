//! Reads `config`, the options with which the reference implementation compiles a workflow. Only
//! `interrupt_before` changes a run here.

use cachalot_core::Problem;
use cachalot_core::tree::Section;

use super::codes;
use super::interrupts::{self, Approval};
use super::settings::without_effect;

/// Keys without effect that an author may expect to have one; they cause a warning.
const NO_EFFECT: &[(&str, &str)] = &[
    ("checkpoint_dir", "no checkpoints are written"),
    (
        "max_execution_time",
        "`budget: {max_time: 2m}` at the top of the file limits a run",
    ),
];

/// Reads `config`. Keys without effect are accepted, with a warning if the author may expect an effect. A
/// key that would change the run is refused. Returns the approvals that `interrupt_before` requires.
pub(super) fn read(section: &mut Section<'_>, problems: &mut Vec<Problem>) -> Vec<Approval> {
    let Some(mut config) = section.section("config", "`config`", problems) else {
        return Vec::new();
    };
    // A failed node ends the run with exit code 1 for either value, in the reference implementation too.
    config.boolean("raise_exceptions", problems);
    let approvals = interrupts::of_list(&mut config, "`config`", problems);
    let checkpoint = config.text("checkpoint", problems);
    if checkpoint.is_some_and(|path| !path.is_empty())
        && let Some(node) = config.node("checkpoint")
    {
        problems.push(
            Problem::new(
                codes::UNSUPPORTED,
                "`checkpoint`: a run does not go on from a checkpoint",
            )
            .at(&node.place)
            .help("take it out to run from the start; give a state with `--input`"),
        );
    }
    without_effect(&mut config, NO_EFFECT, "`config`", problems);
    config.finish(problems);
    approvals
}
