//! `!`: a command line of the user.

use std::sync::Arc;

use cachalot_agent::{CancellationToken, Event, Listener as _};
use cachalot_model::Block;
use cachalot_tools::{CallObserver, LiveOutput, ToolCall, ToolCallResult};

use super::attachments::command_output;
use super::show::Show;
use crate::command_error::Result;
use crate::workbench::Workbench;

/// Runs a command line and shows its output. Returns the text for the next message; `None` if the command was canceled,
/// which kills it.
///
/// # Errors
/// The command cannot be run.
pub(super) async fn run(
    line: &str,
    agent: &str,
    bench: &Workbench,
    show: &Arc<Show>,
    cancel: &CancellationToken,
) -> Result<Option<String>> {
    let observer = Arc::new(CommandObserver {
        show: Arc::clone(show),
        agent: agent.to_owned(),
    });
    let ran = tokio::select! {
        biased;
        ran = bench.run_line(line, observer) => ran?,
        () = cancel.cancelled() => None,
    };
    show.end_calls();
    Ok(ran.map(|ran| command_output(line, &output(&ran))))
}

/// Returns the output of a command, with its exit status.
fn output(ran: &ToolCallResult) -> String {
    let texts: Vec<&str> = ran
        .output
        .content
        .iter()
        .filter_map(Block::as_text)
        .collect();
    texts.join("\n")
}

/// Shows the command while it runs, and its output.
struct CommandObserver {
    show: Arc<Show>,
    agent: String,
}

impl CallObserver for CommandObserver {
    fn call_started(&self, call: &ToolCall, output: &LiveOutput) {
        self.show.on_event(&Event::ToolStarted {
            agent: &self.agent,
            call,
            output,
        });
    }

    fn call_finished(&self, answer: &ToolCallResult) {
        self.show.end_command(answer, &output(answer));
    }
}
