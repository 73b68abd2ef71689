//! Hooks: the builtins, the files and flags that define hooks, and the stores of responses.

mod response_stores;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Problem, SecretSet};
use cachalot_hooks::builtin::cache_response::{CacheResponse, FlatFileError, StoreOpener};
use cachalot_hooks::builtin::{BuiltinDependencies, Builtins};
use cachalot_hooks::source::{self, ParsedHooks};
use cachalot_hooks::{AgentLookup, Dialect, Event, HookEntry};

use crate::agent_file::unreadable;
use crate::arguments::HookFlags;
use crate::command_error::{CommandError, Result, Sources};
use crate::wiring::{ProcessEnvironment, Warn};

pub(crate) use response_stores::ResponseStores;

/// Creates the builtins, for agents that `lookup` finds, with response stores that `opener` opens.
///
/// # Errors
/// The HTTP client cannot be created.
pub(crate) fn builtins(
    process_environment: &ProcessEnvironment,
    lookup: Arc<dyn AgentLookup>,
    secret_set: &Arc<SecretSet>,
    opener: StoreOpener,
) -> Result<Builtins> {
    let mut builtins = Builtins::standard(&BuiltinDependencies {
        lookup: Arc::clone(&lookup),
        clock: Arc::clone(&process_environment.clock),
        http: process_environment.http()?,
        secret_set: Arc::clone(secret_set),
        environment: Arc::new(process_environment.environment.clone()),
    });
    let clock = Arc::clone(&process_environment.clock);
    let cache_response = CacheResponse::new(lookup, opener, clock, Arc::clone(secret_set));
    builtins
        .register(Arc::new(cache_response))
        .map_err(CommandError::failed)?;
    Ok(builtins)
}

/// Creates builtins for reading files: they see no agent and store nothing.
///
/// # Errors
/// The HTTP client cannot be created.
pub(crate) fn for_reading(process_environment: &ProcessEnvironment) -> Result<Builtins> {
    let opener: StoreOpener = Arc::new(|_| {
        Err(FlatFileError(
            "nothing is kept while a file is read".to_owned(),
        ))
    });
    builtins(
        process_environment,
        Arc::new(()),
        &Arc::new(SecretSet::empty()),
        opener,
    )
}

/// Returns the hooks that belong to no agent: those of the user's configuration, then those of the files and
/// commands that the command line names.
///
/// # Errors
/// All problems of the files and hooks. A guard that fails to load must not be skipped silently.
pub(crate) fn entries(
    process_environment: &ProcessEnvironment,
    flags: &HookFlags,
    builtins: &Builtins,
    warn: &Warn,
) -> Result<Vec<HookEntry>> {
    let mut entries = Vec::new();
    let mut take = |read: ParsedHooks| {
        let warnings = read.warnings.iter();
        warnings.for_each(|warning| warn(&warning.to_string()));
        entries.extend(read.entries);
    };
    if let Some(configuration) = process_environment.configuration() {
        let own = configuration.join("hooks.yaml");
        let of_folder =
            source::list_hook_files(&configuration.join("hooks.d")).map_err(CommandError::usage)?;
        // A dangling link counts as a file that cannot be read.
        let own = own.symlink_metadata().is_ok().then_some(own);
        let files: Vec<PathBuf> = own.into_iter().chain(of_folder).collect();
        take(read_files(&files, None, process_environment, builtins)?);
    }
    let named = read_files(&flags.hooks, flags.dialect, process_environment, builtins)?;
    take(named);
    entries.extend(hooks_from_flags(flags));
    Ok(entries)
}

/// Reads hook files, in the dialect that the command line names or in the dialect of each file.
///
/// # Errors
/// All problems of the files.
pub(crate) fn read_files(
    files: &[PathBuf],
    dialect: Option<Dialect>,
    process_environment: &ProcessEnvironment,
    builtins: &Builtins,
) -> Result<ParsedHooks> {
    let mut all = ParsedHooks::default();
    let mut problems: Vec<Problem> = Vec::new();
    let mut sources: Sources = BTreeMap::new();
    for file in files {
        let path = process_environment.directory.join(file);
        if let Err(error) = std::fs::metadata(&path) {
            problems.push(unreadable(&file.display().to_string(), &error));
            continue;
        }
        let read = source::read_file(&path, dialect, builtins, &mut problems);
        if let Ok(text) = std::fs::read_to_string(&path) {
            sources.insert(path.display().to_string(), text);
        }
        all.entries.extend(read.entries);
        all.warnings.extend(read.warnings);
    }
    if problems.is_empty() {
        Ok(all)
    } else {
        Err(CommandError::Usage { problems, sources })
    }
}

fn hooks_from_flags(flags: &HookFlags) -> impl Iterator<Item = HookEntry> {
    let HookFlags {
        hooks: _,
        dialect: _,
        hook_pre_tool_use,
        hook_post_tool_use,
        hook_session_start,
        hook_session_end,
        hook_on_user_input,
        hook_stop,
    } = flags;
    let flags: [(&str, Event, &Vec<String>); 6] = [
        ("--hook-pre-tool-use", Event::PreToolUse, hook_pre_tool_use),
        (
            "--hook-post-tool-use",
            Event::PostToolUse,
            hook_post_tool_use,
        ),
        (
            "--hook-session-start",
            Event::SessionStart,
            hook_session_start,
        ),
        ("--hook-session-end", Event::SessionEnd, hook_session_end),
        (
            "--hook-on-user-input",
            Event::OnUserInput,
            hook_on_user_input,
        ),
        ("--hook-stop", Event::Stop, hook_stop),
    ];
    let entries: Vec<HookEntry> = flags
        .into_iter()
        .flat_map(|(flag, event, lines)| {
            let entries = lines.iter();
            entries.filter_map(move |line| source::from_flag(flag, event, line))
        })
        .collect();
    entries.into_iter()
}
