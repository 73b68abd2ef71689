//! Terminal of a chat: opened, and taken over again when the process continues.

use std::sync::OnceLock;

use cachalot_model::Catalog;

use super::setup::ChatSetup;
#[cfg(unix)]
use crate::disposition::Disposition;
use crate::models;
use crate::render::style::Style;
#[cfg(unix)]
use crate::terminal::Console;
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
    follow_signals(&terminal);
    Some(terminal)
}

/// Restores the terminal before a signal stops or ends the process, and takes it over again when the process
/// continues.
#[cfg(unix)]
fn follow_signals(terminal: &Terminal) {
    use tokio::signal::unix::{SignalKind, signal};
    let follow = |number, act: fn(&Console)| {
        let console = terminal.console().clone();
        if Disposition::of(number).is_ignored() {
            return;
        }
        let Ok(mut signals) = signal(SignalKind::from_raw(number)) else {
            return;
        };
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                act(&console);
            }
        });
    };
    follow(libc::SIGTSTP, Console::suspend);
    follow(libc::SIGCONT, Console::resume);
    follow(libc::SIGQUIT, Console::quit);
}

#[cfg(not(unix))]
fn follow_signals(_: &Terminal) {}
