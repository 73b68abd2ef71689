//! `add_environment_info`: adds the working directory and the platform.

use std::path::Path;

use async_trait::async_trait;

use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::paragraph::{add, single_line};

/// Adds the working directory and the platform once per session.
pub(super) struct AddEnvironmentInfo;

#[async_trait]
impl SimpleBuiltin for AddEnvironmentInfo {
    const NAME: &'static str = "add_environment_info";
    const ABOUT: &'static str = "Adds the working directory, whether it is in a git repository, the operating system and the processor to the context. Agents with `add_environment_info: true` have it.";
    const EVENTS: &'static [Event] = &[Event::SessionStart];
    const HAS_FLAG: bool = true;

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        if input.cwd.as_os_str().is_empty() {
            return Ok(Output::default());
        }
        Ok(add(environment(&input.cwd), input))
    }
}

fn environment(directory: &Path) -> String {
    format!(
        "<environment>\nWorking directory: {}\nIn a git repository: {}\nOperating system: {}\nProcessor: {}\n</environment>",
        single_line(&directory.to_string_lossy()),
        if is_in_repository(directory) {
            "yes"
        } else {
            "no"
        },
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// True if the directory or an ancestor contains `.git`: a directory or, in worktrees and submodules, a
/// file.
fn is_in_repository(directory: &Path) -> bool {
    directory
        .ancestors()
        .any(|above| above.join(".git").exists())
}
