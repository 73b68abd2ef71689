//! The built-in agent: the agent of `cachalot chat` without a file.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use cachalot_agent::Team;
use cachalot_cache::Witness;
use cachalot_core::Problem;
use cachalot_tools::Workspace;
use cachalot_tools::builtin::skills::{SkillSelection, list_skills};

use crate::agent_file::AgentFile;
use crate::command_error::{CommandError, Result};
use crate::regular_file::open_regular;
use crate::render;
use crate::team;
use crate::wiring::ProcessEnvironment;

/// The agent file that `cachalot init` writes, which also defines the built-in agent.
const TEMPLATE: &str = include_str!("../templates/agent.yaml");

/// The name of the built-in agent in sessions.
pub(crate) const NAME: &str = "cachalot";

/// Names of files with instructions for agents; the first that exists is used.
const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Maximum size of such a file.
const MAX_INSTRUCTION_BYTES: u64 = 64 << 10;

/// Returns the text of the agent file for a model.
pub(crate) fn file_text(model: &str) -> String {
    TEMPLATE.replace("MODEL", model)
}

/// Returns the team of the built-in agent.
///
/// # Errors
/// There is no such model.
pub(crate) fn team(model: &str, process_environment: &ProcessEnvironment) -> Result<Team> {
    let text = file_text(model).replace("  root:", &format!("  {NAME}:"));
    let source = AgentFile {
        name: "the built-in agent".to_owned(),
        path: process_environment.directory.join("agent.yaml"),
        text,
    };
    team::read(&source, &source.parse()?, process_environment)
}

/// Returns the text about a workspace for the system text: the instructions of the project, and the skills.
/// `data` is the user's data directory, which contains skills. Empty if there are none of both.
pub(crate) fn context(workspace: &Path, data: Option<&Path>) -> Result<String> {
    let unusable = |error| bad_workspace(workspace, &error);
    let opened = Workspace::open(workspace).map_err(unusable)?;
    // In `a/../b`, the directory `a` is none above `b`.
    let real = workspace.canonicalize().map_err(unusable)?;
    let skills = list_skills(
        &opened,
        data,
        &Witness::default(),
        &SkillSelection::default(),
    );
    let skills = skills.map(|list| format!("Skills, to be read with skill_view:\n{list}"));
    let parts: Vec<String> = instructions(&real).into_iter().chain(skills).collect();
    Ok(parts.join("\n\n"))
}

/// Returns the error for a workspace that cannot be read.
pub(crate) fn bad_workspace(workspace: &Path, error: &std::io::Error) -> CommandError {
    let message = format!("the workspace {}: {error}", workspace.display());
    CommandError::usage(
        Problem::new("bad-workspace", message)
            .help("--workspace names the directory that the tools work in"),
    )
}

/// Returns the instruction file of the workspace. In a git repository, the nearest file between the workspace
/// and the root of the repository is used; directories above it may belong to others.
fn instructions(workspace: &Path) -> Option<String> {
    let depth = workspace
        .ancestors()
        .position(|directory| directory.join(".git").exists())
        .unwrap_or_default();
    let mut directories = workspace.ancestors().take(depth + 1);
    let root = workspace.ancestors().nth(depth).unwrap_or(workspace);
    directories.find_map(|directory| {
        INSTRUCTION_FILES.into_iter().find_map(|name| {
            let path = directory.join(name);
            match read(&path, root) {
                Ok(text) => {
                    let text = text?;
                    Some(format!(
                        "<file name=\"{name}\">\n{}\n</file>",
                        text.trim_end()
                    ))
                }
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => {
                    render::err(&format!("warning: {} is left out: {error}", path.display()));
                    None
                }
            }
        })
    })
}

/// Returns the text of a file, cut off at the maximum size; `None` if it is blank. A link that leads out of
/// `root` is an error: the author of a repository must not choose files of the user.
fn read(path: &Path, root: &Path) -> std::io::Result<Option<String>> {
    let (path, root) = (path.canonicalize()?, root.canonicalize()?);
    if !path.starts_with(&root) {
        return Err(std::io::Error::other(
            "it is a link that leads out of the project",
        ));
    }
    // While a program runs in a sandbox, an empty directory stands where there is no file.
    if std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none()) {
        return Err(ErrorKind::NotFound.into());
    }
    let mut bytes = Vec::new();
    open_regular(&path)?
        .take(MAX_INSTRUCTION_BYTES + 1)
        .read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 > MAX_INSTRUCTION_BYTES;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.truncate(text.floor_char_boundary(MAX_INSTRUCTION_BYTES as usize));
        text.push_str("\n[the rest of the file is left out]");
    }
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}
