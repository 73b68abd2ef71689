//! The mechanisms that a machine has.

use std::path::Path;
use std::process::Stdio;

use crate::{Mechanism, Policy};

/// Returns the best mechanism of this machine, if it has one. Tries it with an empty policy and a command that does
/// nothing, which takes a few milliseconds.
#[must_use]
pub fn available(helper: &Path) -> Option<Mechanism> {
    let mechanisms: &[Mechanism] = match std::env::consts::OS {
        "linux" => &[Mechanism::Namespaces, Mechanism::Landlock],
        "macos" => &[Mechanism::Seatbelt],
        _ => &[],
    };
    let mut mechanisms = mechanisms.iter().copied();
    mechanisms.find(|mechanism| works(*mechanism, helper))
}

fn works(mechanism: Mechanism, helper: &Path) -> bool {
    let policy = Policy {
        mechanism,
        ..Policy::default()
    };
    let mut command = policy.command(helper, "/bin/sh");
    command
        .args(["-c", ":"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
