//! `cachalot mcp install`: writes the configuration of a client, so that it starts a server through the proxy.

mod clients;
mod header_mask;
mod jsonc;
mod toml;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{ErrorKind, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cachalot_core::Problem;
use cachalot_core::atomic_file::{Access, AtomicFile};
use cachalot_core::clock::iso8601;
use cachalot_core::links::without_links;
use cachalot_core::secret::mask_credentials;
use cachalot_mcp::Reporter;
use cachalot_mcp::relay::variables_in;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::caching::read_policy;
use super::proxy;
use crate::arguments::{McpClient, McpInstall};
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::render::visible::{on_one_line, visible};
use crate::wiring::ProcessEnvironment;
use clients::Syntax;
use header_mask::masked;
use jsonc::Fault;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 1;

/// Writes the entry of a server.
///
/// # Errors
/// An argument is invalid, the client's file cannot be parsed or written, or has another server with this name.
pub(super) fn install(arguments: &McpInstall, environment: &ProcessEnvironment) -> Result<()> {
    let client = arguments.client;
    let name = checked_name(&arguments.name)?;
    // What the proxy would refuse is refused here, and not when the client starts it.
    if let Some(policy) = &arguments.policy {
        read_policy(policy, environment)?;
    }
    if arguments.server.url.is_some() {
        let silent: Arc<dyn Reporter> = Arc::new(());
        proxy::connector(&arguments.server, environment, &silent, None, false)?;
    }
    let entry = client.entry(
        &own_program(environment)?,
        &proxy_arguments(arguments, environment)?,
        &variables(arguments),
    );
    let file = if arguments.project {
        client.file_of_project(&environment.directory)
    } else {
        client
            .file_of_user(&environment.environment)
            .ok_or_else(|| {
                let message = format!("no place for the settings of {}", client.label());
                let problem = Problem::new("no-home", message);
                CommandError::usage(problem.help("set HOME, or give --project"))
            })?
    };
    let file = without_links(&file);
    let before = read(&file)?;
    let text = before.as_deref().unwrap_or_default();
    let edited = match change(client, text, name, &entry) {
        Ok(edited) => edited,
        Err(Refusal::Fault(fault)) => return Err(unreadable(&file, text, &fault)),
        Err(Refusal::Taken) => {
            return Err(CommandError::failed(format!(
                "{} has another server `{name}`: choose another name, or remove it there",
                file.display()
            )));
        }
    };
    let label = client.label();
    if before.as_deref() == Some(edited.as_str()) {
        return render::out(&format!(
            "{label} starts `{name}` in this way already ({})\n",
            file.display()
        ));
    }
    let shown = [text, &edited].map(|text| masked(client.syntax(), text));
    render::out(&difference(&file, &shown))?;
    if arguments.dry_run {
        return render::out("nothing was written (--dry-run)\n");
    }
    let backup = write(&file, before.as_deref(), &edited, arguments, environment)?;
    let backup = backup.map_or_else(String::new, |backup| {
        format!("; the old file is {}", backup.display())
    });
    render::out(&format!(
        "wrote {}{backup}; {label} uses it from its next start\n",
        file.display()
    ))
}

/// The reason why a file is not changed.
enum Refusal {
    Fault(Fault),
    /// The name belongs to another server.
    Taken,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Returns the text with the entry.
fn change(
    client: McpClient,
    text: &str,
    name: &str,
    entry: &Value,
) -> std::result::Result<String, Refusal> {
    match client.syntax() {
        Syntax::Json(container) => {
            let text = if text.trim().is_empty() { "{}\n" } else { text };
            let known = &jsonc::parse(text)?[container][name];
            let entry = merged(known, entry)?;
            if *known == entry {
                return Ok(text.to_owned());
            }
            Ok(jsonc::with_member(text, container, name, &entry)?)
        }
        Syntax::Toml => {
            let known = toml::server(text, name)?;
            if merged(&known, entry)? == known {
                return Ok(text.to_owned());
            }
            Ok(toml::with_server(text, name, entry)?)
        }
    }
}

/// Returns an entry of ours with the members that the user has added to it.
fn merged(known: &Value, entry: &Value) -> std::result::Result<Value, Refusal> {
    if known.is_null() {
        return Ok(entry.clone());
    }
    let command = known["command"].as_str().map(Path::new);
    let is_own_program = command.and_then(Path::file_stem) == Some(OsStr::new("cachalot"))
        || known["command"] == entry["command"];
    let (Value::Object(known), true) = (known, is_own_program && known["args"][0] == "mcp") else {
        return Err(Refusal::Taken);
    };
    let mut merged = known.clone();
    for (member, value) in entry.as_object().into_iter().flatten() {
        // Added by the user, if it is not empty.
        if member != "env" || !merged.contains_key(member) {
            merged.insert(member.clone(), value.clone());
        }
    }
    Ok(Value::Object(merged))
}

/// Checks a name by the rule of the strictest client.
fn checked_name(name: &str) -> Result<&str> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(is_known) {
        return Ok(name);
    }
    let message = format!("`{}` cannot be the name of a server", on_one_line(name));
    let problem = Problem::new("bad-value", message);
    Err(CommandError::usage(problem.help(
        "use at most 64 letters, digits, hyphens and underscores",
    )))
}

/// Returns the path of this program: the one in `PATH` if that is a link to it, which stays when the program is
/// updated.
fn own_program(environment: &ProcessEnvironment) -> Result<String> {
    let own = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("the path of this program: {error}")))?;
    let real = std::fs::canonicalize(&own).ok();
    let path = environment.environment.get("PATH");
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let file = format!("cachalot{}", std::env::consts::EXE_SUFFIX);
    let mut named = folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&file));
    let named = named.find(|named| std::fs::canonicalize(named).ok() == real && real.is_some());
    text_of(named.unwrap_or(own).as_os_str()).map(Cow::into_owned)
}

/// Returns the arguments with which the client starts this program.
fn proxy_arguments(
    arguments: &McpInstall,
    environment: &ProcessEnvironment,
) -> Result<Vec<String>> {
    let mut words = vec!["mcp".to_owned()];
    if let Some(policy) = &arguments.policy {
        let policy = absolute(&environment.directory, policy);
        if let Err(error) = std::fs::File::open(&policy) {
            let message = format!("--policy {}: {error}", policy.display());
            return Err(CommandError::usage(Problem::new("bad-value", message)));
        }
        words.push("--policy".to_owned());
        words.push(text_of(policy.as_os_str())?.into_owned());
    }
    if let Some(url) = &arguments.server.url {
        words.extend(["--url".to_owned(), url.clone()]);
        for header in &arguments.server.header {
            // With its variables, which the proxy replaces.
            words.extend(["--header".to_owned(), header.expose().clone()]);
        }
        return Ok(words);
    }
    let Some((program, rest)) = arguments.server.command.split_first() else {
        return Err(CommandError::usage(
            Problem::new("missing-argument", "there is no server")
                .help("give its command after `--`, or its --url"),
        ));
    };
    words.push("--".to_owned());
    // The client starts it in another folder.
    let program = Path::new(program);
    let program = if program.components().count() > 1 {
        Cow::Owned(absolute(&environment.directory, program))
    } else {
        Cow::Borrowed(program)
    };
    words.push(text_of(program.as_os_str())?.into_owned());
    for word in rest {
        words.push(text_of(word)?.into_owned());
    }
    Ok(words)
}

/// Returns the variables that the proxy reads.
fn variables(arguments: &McpInstall) -> Vec<String> {
    let headers = arguments.server.header.iter();
    let mut names: Vec<String> = headers
        .flat_map(|header| variables_in(header.expose()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns an absolute path without `.` components.
fn absolute(directory: &Path, path: &Path) -> PathBuf {
    let joined = directory.join(path);
    let kept = joined.components();
    kept.filter(|part| *part != Component::CurDir).collect()
}

fn text_of(text: &OsStr) -> Result<Cow<'_, str>> {
    text.to_str().map(Cow::Borrowed).ok_or_else(|| {
        let message = format!("`{}` is not UTF-8", on_one_line(&text.to_string_lossy()));
        CommandError::usage(Problem::new("not-utf8", message))
    })
}

/// Reads a file; `None` if it does not exist.
fn read(file: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommandError::failed(format!("{}: {error}", file.display()))),
    }
}

/// The error of a file that cannot be changed. The line itself may contain a secret.
fn unreadable(file: &Path, text: &str, fault: &Fault) -> CommandError {
    let before = text.get(..fault.at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    CommandError::failed(format!(
        "{}:{line}:{column}: {}; nothing was changed",
        file.display(),
        fault.what
    ))
}

/// Replaces the file; returns the backup of the old one.
fn write(
    file: &Path,
    before: Option<&str>,
    edited: &str,
    arguments: &McpInstall,
    environment: &ProcessEnvironment,
) -> Result<Option<PathBuf>> {
    let failed = |error: std::io::Error| {
        CommandError::failed(format!("{} cannot be written: {error}", file.display()))
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let backup = before.map(|_| {
        let time = iso8601(environment.clock.now()).replace(':', "-");
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{time}.bak"));
        file.with_file_name(name)
    });
    if let Some(backup) = &backup {
        // With the permissions of the file: it may contain secrets.
        std::fs::copy(file, backup).map_err(failed)?;
    }
    let access = if before.is_none() && !arguments.project {
        Access::Private
    } else {
        Access::Kept
    };
    let mut writer = AtomicFile::new(file, access).map_err(failed)?;
    writer.write_all(edited.as_bytes()).map_err(failed)?;
    // Clients write the same file.
    if read(file)?.as_deref() != before {
        return Err(CommandError::failed(format!(
            "{} has changed meanwhile, and stays as it is: try again",
            file.display()
        )));
    }
    writer.persist().map_err(failed)?;
    Ok(backup)
}

/// Returns the difference of two texts, without credentials.
fn difference(file: &Path, [before, after]: &[String; 2]) -> String {
    let mut shown = format!("{}\n", file.display());
    if before == after {
        shown += "  values that are not shown\n";
    }
    let diff = TextDiff::from_lines(before, after);
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if number > 0 {
            shown += "  ⋮\n";
        }
        for change in group.iter().flat_map(|part| diff.iter_changes(part)) {
            let text = mask_credentials(change.value());
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let text = visible(text.trim_end_matches(['\r', '\n']));
            shown += &format!("  {sign} {text}\n");
        }
    }
    shown
}
