//! Terminal of a chat: opened, and taken over again when the process continues.

use std::sync::OnceLock;

use cachalot_model::Catalog;

use super::setup::ChatSetup;
use crate::models;
use crate::render::style::Style;
use crate::terminal::Terminal;

/// Returns a function that finds the maximum number of tokens of a model's conversations.
pub(super) fn windows(setup: &ChatSetup<'_>) -> impl Fn(&str, &str) -> Option<u64> + use<> {
    let process_environment = setup.process_environment.clone();
    // Read when the first call ends, not before the first prompt.
    let catalog = OnceLock::new();
    move |provider, model| {
        let catalog: &Catalog =
            catalog.get_or_init(|| models::catalog(&process_environment).unwrap_or_default());
        catalog.find(provider, model)?.limits.context
    }
}

/// Takes over the terminal. Returns `None` if it cannot be repainted: input is then read line by line.
pub(super) fn open_terminal(setup: &ChatSetup<'_>) -> Option<Terminal> {
    let is_dumb = setup
        .process_environment
        .environment
        .get("TERM")
        .is_some_and(|term| term == "dumb");
    if is_dumb {
        return None;
    }
    let terminal = Terminal::open(Style::of_stderr(), setup.home.history.clone()).ok()?;
    repaint_when_continued(&terminal);
    Some(terminal)
}

/// Takes the terminal over again when the process was stopped and continues.
#[cfg(unix)]
fn repaint_when_continued(terminal: &Terminal) {
    use tokio::signal::unix::{SignalKind, signal};
    let console = terminal.console().clone();
    let Ok(mut continued) = signal(SignalKind::from_raw(libc::SIGCONT)) else {
        return;
    };
    tokio::spawn(async move {
        while continued.recv().await.is_some() {
            console.resume();
        }
    });
}

#[cfg(not(unix))]
fn repaint_when_continued(_: &Terminal) {}
