//! The files that agents read as instructions, apart from those that are recognized by their names.

use std::path::{Path, PathBuf};

use cachalot_agent::Team;
use cachalot_core::tree::Node;
use cachalot_hooks::{Action, HookEntry};

use crate::wiring::ProcessEnvironment;

/// The builtin that adds files to the prompt, and the key of agents with their names.
const ADD_PROMPT_FILES: &str = "add_prompt_files";

/// Returns the files of `instruction_file` and `add_prompt_files` of all agents. `shared_hooks` are the hooks that no
/// agent names; `workspace` is the root of the workspace.
pub(super) fn of_team(
    team: &Team,
    shared_hooks: &[HookEntry],
    process_environment: &ProcessEnvironment,
    workspace: &Path,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut names: Vec<&str> = builtin_arguments(shared_hooks).collect();
    for agent in &team.agents {
        let named = agent.instruction_files.iter();
        files.extend(named.map(|file| process_environment.directory.join(file)));
        let section = agent.section(ADD_PROMPT_FILES).and_then(Node::as_list);
        names.extend(section.unwrap_or_default().iter().filter_map(Node::as_text));
        names.extend(builtin_arguments(&agent.hooks));
    }
    // Options name no file.
    names.retain(|name| !name.is_empty() && !name.starts_with("--"));
    // The builtin takes the first of them that is set.
    let environment = &process_environment.environment;
    let mut homes = ["HOME", "USERPROFILE"].iter();
    let home = homes.find_map(|name| environment.get(*name).filter(|home| !home.is_empty()));
    for name in names {
        let in_home = name.strip_prefix("~/");
        files.extend(home.map(|home| Path::new(home).join(in_home.unwrap_or(name))));
        if in_home.is_none() {
            // The nearest one on the way from the workspace upwards is read, too.
            files.extend(workspace.ancestors().map(|folder| folder.join(name)));
        }
    }
    files
}

/// Returns the arguments of the builtin in these hooks.
fn builtin_arguments(hooks: &[HookEntry]) -> impl Iterator<Item = &str> {
    let actions = hooks.iter().map(|entry| &entry.definition.action);
    let arguments = actions.flat_map(|action| match action {
        Action::Builtin { name, arguments } if name == ADD_PROMPT_FILES => arguments.as_slice(),
        _ => &[],
    });
    arguments.map(String::as_str)
}
