//! The limits of the sandbox that the user chose: by flags, and in `sandbox.yaml` in the user's configuration directory.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::atomic_file::{self, Access};
use cachalot_core::config::{
    Custom, Located, ParameterKind as Kind, SettingValue, Settings, Word as _,
};
use cachalot_core::tree::{self, MapEntry, Node};
use cachalot_storage::AllowedHosts;
use serde_json::json;

use crate::arguments::{SandboxFlags, SandboxMode};
use crate::command_error::{CommandError, Result, Sources};
use crate::wiring::ProcessEnvironment;

/// The name of the file.
const FILE: &str = "sandbox.yaml";
/// The key with the choices for single workspaces.
const WORKSPACES: &str = "workspaces";
/// The key with the files whose Python code gets the network.
const NETWORK_OF: &str = "network_of";
/// Beginning of a new file.
const FILE_HEADER: &str =
    "# The sandbox of commands and Python code, for all chats and runs: see docs/security.md.\n";

/// The sandbox of commands and Python code.
#[derive(Debug, Settings)]
#[settings(name = "the settings of the sandbox")]
struct SandboxFile {
    /// Use of the sandbox for commands of `chat`, like `--sandbox`.
    commands: Option<SandboxMode>,
    /// The same for single workspaces, by their paths.
    #[setting(kind = BY_WORKSPACE, with = by_workspace)]
    workspaces: Option<Vec<(Located<String>, SandboxMode)>>,
    /// Files and directories that programs in the sandbox can write, too, such as `~/.cargo`. Those that do not exist
    /// are ignored.
    write: Vec<Located<String>>,
    /// `true` for the network of the machine, or the hosts that programs in the sandbox reach through a proxy.
    #[setting(default)]
    network: NetworkAccess,
    /// Workflow files whose Python code gets the network that it asks for (`settings.python.network`).
    network_of: Vec<Located<String>>,
    /// True if programs in the sandbox may make Unix sockets.
    unix_sockets: bool,
    /// True if MCP servers that are programs run in the sandbox, too.
    mcp_servers: bool,
    /// True if the commands of hooks run in the sandbox, too.
    hooks: bool,
}

const BY_WORKSPACE: Kind = Kind::Custom(&Custom {
    schema: Some(
        || json!({"type": "object", "additionalProperties": SandboxMode::KIND.schema(false)}),
    ),
    check: |entry, problems| {
        Kind::Object.check(entry, problems);
        for entry in entry.value.as_map().unwrap_or_default() {
            SandboxMode::KIND.check(entry, problems);
        }
    },
});

fn by_workspace(node: &Node) -> Option<Vec<(Located<String>, SandboxMode)>> {
    let choice = |entry: &MapEntry| {
        let workspace = Located {
            value: entry.key.clone(),
            place: entry.key_place.clone(),
        };
        Some((workspace, SandboxMode::from_word(entry.value.as_text()?)?))
    };
    Some(node.as_map()?.iter().filter_map(choice).collect())
}

impl SettingValue for NetworkAccess {
    const KIND: Kind = Kind::Custom(&Custom {
        schema: Some(
            || json!({"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}}]}),
        ),
        check: |entry, problems| {
            if entry.value.as_boolean().is_none() {
                check_hosts(entry, problems);
            }
        },
    });

    fn from_node(node: &Node, _: Kind, _: &mut Vec<Problem>) -> Option<Self> {
        if let Some(all) = node.as_boolean() {
            return Some(if all { Self::All } else { Self::None });
        }
        let hosts = node.as_list()?.iter().filter_map(Node::as_text);
        let hosts: Vec<String> = hosts.map(str::to_owned).collect();
        Some(if hosts.is_empty() {
            Self::None
        } else {
            Self::Hosts(hosts)
        })
    }
}

fn check_hosts(entry: &MapEntry, problems: &mut Vec<Problem>) {
    Kind::Texts.check(entry, problems);
    for item in entry.value.as_list().unwrap_or_default() {
        if let Some(host) = item.as_text()
            && let Err(error) = AllowedHosts::parse(&[host.to_owned()])
        {
            problems.push(Problem::new("bad-value", error.message).at(&item.place));
        }
    }
}

/// The network of programs in the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum NetworkAccess {
    /// None.
    #[default]
    None,
    /// These hosts.
    Hosts(Vec<String>),
    /// All of it.
    All,
}

/// The limits of the sandbox, and its use.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxSettings {
    /// The use of the sandbox that the user chose on the command line.
    pub(crate) flag: Option<SandboxMode>,
    /// The use for commands of chats that the user's file chooses.
    pub(crate) saved: Option<SandboxMode>,
    /// Files and directories that can be written, without links.
    pub(crate) write: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
    /// Workflow files whose Python code gets the network that it asks for, without links.
    pub(crate) network_of: Vec<PathBuf>,
    pub(crate) unix_sockets: bool,
    /// True if MCP servers that are programs run in the sandbox.
    pub(crate) mcp_servers: bool,
    /// True if the commands of hooks run in the sandbox.
    pub(crate) hooks: bool,
    /// True if the command line widens the sandbox.
    pub(crate) is_widened_by_flag: bool,
    /// True if the command line permits the network, or a part of it.
    pub(crate) is_network_by_flag: bool,
}

impl SandboxSettings {
    /// Reads the flags and the user's file, for programs that work in a workspace. A flag for the network takes precedence
    /// over the file; paths to write add up.
    ///
    /// # Errors
    /// A path of the flags does not exist, a host is invalid, or the file is.
    pub(crate) fn read(
        flags: &SandboxFlags,
        process_environment: &ProcessEnvironment,
        workspace: &Path,
    ) -> Result<Self> {
        let mut settings = match file(process_environment) {
            Some(file) => read(&file, process_environment, workspace)?,
            None => Self::default(),
        };
        for path in &flags.sandbox_write {
            let path = process_environment.directory.join(path);
            settings.write.push(path.canonicalize().map_err(|error| {
                let problem = format!("--sandbox-write {}: {error}", path.display());
                CommandError::usage(Problem::new("bad-path", problem))
            })?);
        }
        match flags.sandbox_network.as_deref() {
            None => {}
            Some([]) => settings.network = NetworkAccess::All,
            Some(hosts) => {
                AllowedHosts::parse(hosts).map_err(|error| {
                    let message = format!("--sandbox-network: {}", error.message);
                    CommandError::usage(Problem::new("bad-value", message))
                })?;
                settings.network = NetworkAccess::Hosts(hosts.to_vec());
            }
        }
        settings.flag = flags.sandbox;
        settings.is_network_by_flag = flags.sandbox_network.is_some();
        settings.is_widened_by_flag =
            settings.is_network_by_flag || !flags.sandbox_write.is_empty();
        Ok(settings)
    }

    /// Returns the use of the sandbox for the commands of a chat; `None` if the user has not chosen.
    pub(crate) fn for_chat(&self) -> Option<SandboxMode> {
        self.flag.or(self.saved)
    }
}

/// Returns the path of the user's file; `None` if the user has no configuration directory.
pub(crate) fn file(process_environment: &ProcessEnvironment) -> Option<PathBuf> {
    Some(process_environment.configuration()?.join(FILE))
}

fn read(
    file: &Path,
    process_environment: &ProcessEnvironment,
    workspace: &Path,
) -> Result<SandboxSettings> {
    let name = file.display().to_string();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SandboxSettings::default()),
        Err(error) => return Err(CommandError::failed(format!("{name}: {error}"))),
    };
    let home = process_environment.environment.get("HOME");
    let absolute = |path: &str| match (path.strip_prefix("~/"), home) {
        (Some(path), Some(home)) => Path::new(home).join(path),
        _ => PathBuf::from(path),
    };
    let of_text = |text: &str| {
        let mut problems = Vec::new();
        let Some(node) = parse(&name, text)? else {
            return Ok(SandboxSettings::default());
        };
        let file = SandboxFile::read(&node, &mut problems);
        let settings = file.map(|file| resolve(file, &absolute, workspace, &mut problems));
        match settings {
            Some(settings) if problems.is_empty() => Ok(settings),
            _ => Err(problems),
        }
    };
    of_text(&text).map_err(|problems| CommandError::Usage {
        problems,
        sources: Sources::from([(name.clone(), text.clone())]),
    })
}

/// Parses the file; `None` if it has nothing but comments.
fn parse(name: &str, text: &str) -> std::result::Result<Option<Node>, Vec<Problem>> {
    let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_empty) {
        return Ok(None);
    }
    tree::parse(name, text).map(Some)
}

/// Resolves the paths of the file, and chooses what holds in a workspace.
fn resolve(
    file: SandboxFile,
    absolute: &dyn Fn(&str) -> PathBuf,
    workspace: &Path,
    problems: &mut Vec<Problem>,
) -> SandboxSettings {
    let mut resolved = |path: Located<String>| {
        let absolute = absolute(&path.value);
        if !absolute.is_absolute() {
            let message = format!("`{}` is no absolute path", absolute.display());
            let problem = Problem::new("bad-path", message).at(&path.place);
            problems.push(problem.help("write it from `/` or `~/` on"));
        }
        absolute.canonicalize().ok()
    };
    let mut saved = file.commands;
    for (path, mode) in file.workspaces.into_iter().flatten() {
        if resolved(path).as_deref() == Some(workspace) {
            saved = Some(mode);
        }
    }
    SandboxSettings {
        saved,
        write: file.write.into_iter().filter_map(&mut resolved).collect(),
        network: file.network,
        network_of: file.network_of.into_iter().filter_map(resolved).collect(),
        unix_sockets: file.unix_sockets,
        mcp_servers: file.mcp_servers,
        hooks: file.hooks,
        ..SandboxSettings::default()
    }
}

/// Saves the use of the sandbox for a workspace, and replaces the file atomically. Comments stay.
///
/// # Errors
/// Errors of the file system; a file that cannot be parsed, or is written in another style.
pub(crate) fn save(file: &Path, workspace: &Path, mode: SandboxMode) -> std::io::Result<()> {
    let mode = mode.word();
    let workspace = workspace.to_string_lossy();
    let line = format!("{}: {mode}", serde_json::Value::from(&*workspace));
    add_line(file, WORKSPACES, &line, |node| {
        node.get(&workspace).and_then(Node::as_text) == Some(mode)
    })
}

/// Saves that the Python code of a workflow file gets the network, like [`save`].
///
/// # Errors
/// The same.
pub(crate) fn save_network_of(file: &Path, workflow: &Path) -> std::io::Result<()> {
    let workflow = workflow.to_string_lossy();
    let line = format!("- {}", serde_json::Value::from(&*workflow));
    add_line(file, NETWORK_OF, &line, |node| {
        let mut items = node.as_list().unwrap_or_default().iter();
        items.any(|item| item.as_text() == Some(&*workflow))
    })
}

/// Adds a line below a key.
fn add_line(
    file: &Path,
    key: &str,
    line: &str,
    is_added: impl FnOnce(&Node) -> bool,
) -> std::io::Result<()> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => FILE_HEADER.to_owned(),
        Err(error) => return Err(error),
    };
    let heading = format!("{key}:\n");
    let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push('\n');
    }
    let added = format!("  {line}\n");
    match lines.iter().position(|line| *line == heading) {
        Some(at) => lines.insert(at + 1, added),
        None => lines.extend([heading, added]),
    }
    let text = lines.concat();
    // Lines are added without a look at their structure. The result is parsed before anything is replaced.
    let parsed = parse(&file.display().to_string(), &text).ok().flatten();
    if !parsed
        .as_ref()
        .and_then(|node| node.get(key))
        .is_some_and(is_added)
    {
        let message = format!("write `{line}` below `{key}:` yourself");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    atomic_file::replace(file, text.as_bytes(), Access::Private)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_use_can_be_written_without_quotes() {
        for (word, mode) in SandboxMode::WORDS {
            let node = tree::parse(FILE, &format!("commands: {word}\n")).unwrap();
            let mut problems = Vec::new();
            let file = SandboxFile::read(&node, &mut problems).unwrap();
            assert_eq!(file.commands, Some(*mode));
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    #[test]
    fn choices_are_added_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cachalot").join(FILE);
        let (one, two) = (Path::new("/w/one: \"x\""), Path::new("/w/two"));
        save(&file, one, SandboxMode::Auto).unwrap();
        save(&file, two, SandboxMode::Ask).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# The sandbox"), "{text}");
        let node = tree::parse(FILE, &text).unwrap();
        let chosen = |path: &Path| {
            let workspaces = node.get(WORKSPACES).unwrap();
            workspaces
                .get(&path.to_string_lossy())
                .and_then(Node::as_text)
        };
        assert_eq!((chosen(one), chosen(two)), (Some("auto"), Some("ask")));
        for workflow in ["/w/a.yaml", "/w/b: c.yaml"] {
            save_network_of(&file, Path::new(workflow)).unwrap();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let node = tree::parse(FILE, &text).unwrap();
        let files = node.get(NETWORK_OF).and_then(Node::as_list).unwrap();
        let files: Vec<_> = files.iter().filter_map(Node::as_text).collect();
        assert_eq!(files, ["/w/b: c.yaml", "/w/a.yaml"]);
        for (before, kept) in [
            (
                "# mine\nwrite: [~/.cargo] # too",
                "write: [~/.cargo] # too\n",
            ),
            ("workspaces: # mine\n  /a: off\n", ""),
            ("workspaces: {/a: off}\n", ""),
            ("write: [\n", ""),
            ("workspaces:\n  /w/two: off\n", ""),
        ] {
            std::fs::write(&file, before).unwrap();
            let saved = save(&file, two, SandboxMode::Auto);
            let after = std::fs::read_to_string(&file).unwrap();
            match kept {
                // It cannot be added without a change of what is there.
                "" => {
                    assert!(saved.is_err(), "{before}");
                    assert_eq!(after, before);
                }
                kept => {
                    saved.unwrap();
                    assert!(after.contains(kept), "{after}");
                    assert!(
                        after.ends_with("workspaces:\n  \"/w/two\": auto\n"),
                        "{after}"
                    );
                }
            }
        }
    }
}
