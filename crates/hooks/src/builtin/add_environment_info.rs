//! `add_environment_info`: where the agent is.

use std::path::Path;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;

use super::paragraph::{add, in_one_line};
use super::{Builtin, Injection, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

const NAME: &str = "add_environment_info";

/// Tells the model once where it works, and on what.
pub(super) struct AddEnvironmentInfo;

#[async_trait]
impl Builtin for AddEnvironmentInfo {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Tells the model the working directory, whether that is in a git repository, the operating system and the processor. Agents with `add_environment_info: true` have it."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::SessionStart]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        flag::no_arguments(NAME, arguments)
    }

    fn sections(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let is_on = flag::said(agent, NAME) == Some(true);
        is_on
            .then(|| Injection::of(Event::SessionStart))
            .into_iter()
            .collect()
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        if input.cwd.as_os_str().is_empty() {
            return Ok(Output::default());
        }
        Ok(add(environment(&input.cwd), input))
    }
}

fn environment(directory: &Path) -> String {
    format!(
        "<environment>\nWorking directory: {}\nIn a git repository: {}\nOperating system: {}\nProcessor: {}\n</environment>",
        in_one_line(&directory.to_string_lossy()),
        if is_in_repository(directory) {
            "yes"
        } else {
            "no"
        },
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// Whether there is a `.git` on the way up: a directory or, in worktrees and submodules, a file.
fn is_in_repository(directory: &Path) -> bool {
    directory
        .ancestors()
        .any(|above| above.join(".git").exists())
}
