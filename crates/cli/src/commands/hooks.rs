//! `cachalot hooks …`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_agent::AgentDirectory;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Node;
use cachalot_core::{Digest, DigestKey, Problem, SecretSet};
use cachalot_hooks::dialect::parse_input;
use cachalot_hooks::{AgentLookup, AgentView, Builtins, Event, HookEntry, Hooks, Input};
use cachalot_model::{Model, ModelConfiguration};
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::cached::WriteNotifier;

use crate::agent_file::AgentFile;
use crate::arguments::{HookFlags, HooksCommand, HooksTest};
use crate::command_error::{CommandError, Result, Sources};
use crate::hooks::ResponseStores;
use crate::input::from_stdin;
use crate::models::models;
use crate::render::verdict;
use crate::wiring::{ProcessEnvironment, Warn};
use crate::{hooks, render, team};

/// Usual names of files with hooks.
const USUAL_FILES: [&str; 8] = [
    "hooks.yaml",
    "hooks.yml",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    "hooks.json",
];

pub(crate) async fn run(
    command: &HooksCommand,
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<()> {
    match command {
        HooksCommand::Test(arguments) => test(arguments, process_environment, warn).await,
    }
}

/// Fires one event and prints the result of each handler.
///
/// # Errors
/// The event, the input, a file or a hook is invalid. Results of handlers are not errors.
async fn test(
    arguments: &HooksTest,
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<()> {
    let event = event(&arguments.event)?;
    let mut input = input(event, &arguments.input, process_environment)?;
    if input.cwd.as_os_str().is_empty() {
        input.cwd.clone_from(&process_environment.directory);
    }
    let hooks = assemble(arguments, process_environment, &mut input, warn)?;
    let verdict = hooks.fire(input).await;
    if arguments.json {
        return render::json(&verdict::as_json(event, &verdict));
    }
    render::out(&verdict::as_text(event, &verdict))
}

/// Returns the event with that name.
fn event(name: &str) -> Result<Event> {
    name.parse().map_err(|_| {
        let names: Vec<&str> = Event::all().map(Event::name).collect();
        CommandError::usage(
            Problem::new("unknown-event", format!("there is no event `{name}`"))
                .help(did_you_mean(name, &names)),
        )
    })
}

fn input(event: Event, file: &Path, process_environment: &ProcessEnvironment) -> Result<Input> {
    let (name, text) = if file == Path::new("-") {
        ("stdin".to_owned(), from_stdin("the input")?)
    } else {
        let source = AgentFile::read(file, process_environment)?;
        (source.name, source.text)
    };
    parse_input(event, &text).map_err(|problem| CommandError::Usage {
        problems: vec![Problem {
            message: format!("{name}: {}", problem.message),
            ..problem
        }],
        sources: Sources::from([(name, text)]),
    })
}

/// Creates the hooks under test.
fn assemble(
    arguments: &HooksTest,
    process_environment: &ProcessEnvironment,
    input: &mut Input,
    warn: &Warn,
) -> Result<Hooks> {
    let agent_directory = Arc::new(AgentDirectory::default());
    let lookup = Arc::clone(&agent_directory) as Arc<dyn AgentLookup>;
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::ephemeral()?));
    let opener = answers(process_environment, &secret_set, warn).opener();
    let builtins = Arc::new(hooks::builtins(
        process_environment,
        lookup,
        &secret_set,
        opener,
    )?);
    let mut entries: Vec<HookEntry> = Vec::new();
    let mut configured = ModelConfiguration::default();
    let mut view: Arc<dyn AgentView> = Arc::new(PlaceholderAgent);
    if let Some(file) = &arguments.file {
        let team = team::load(file, &mut process_environment.clone())?;
        let wanted = arguments.agent.as_deref();
        let named = wanted.unwrap_or(&input.agent_name);
        let agent = match (team.agent(named), wanted) {
            (Some(agent), _) => agent,
            (None, Some(name)) => return Err(unknown_agent(name, &team)),
            (None, None) => team.entry(),
        };
        entries.clone_from(&agent.hooks);
        configured.clone_from(&team.configured);
        input.agent_name.clone_from(&agent.name);
        agent_directory.register(
            &team,
            &models(
                process_environment,
                configured.clone(),
                &secret_set,
                Arc::clone(warn),
            )?,
        );
        view = agent_directory.agent(&agent.name).unwrap_or(view);
    }
    let settings_beside = if arguments.file.is_none() && arguments.hooks.is_empty() {
        settings_beside(&arguments.input, process_environment)
    } else {
        Vec::new()
    };
    let read = hooks::read_files(
        &settings_beside,
        arguments.dialect,
        process_environment,
        &builtins,
    )?;
    read.warnings
        .iter()
        .for_each(|warning| warn(&warning.to_string()));
    entries.extend(read.entries);
    let flags = HookFlags {
        hooks: arguments.hooks.clone(),
        dialect: arguments.dialect,
        ..HookFlags::default()
    };
    entries.extend(hooks::entries(
        process_environment,
        &flags,
        &builtins,
        warn,
    )?);
    let around = cachalot_hooks::HookDependencies {
        builtins: Arc::clone(&builtins) as Arc<Builtins>,
        models: models(
            process_environment,
            configured,
            &secret_set,
            Arc::clone(warn),
        )?,
        http: process_environment.http()?,
        environment: Arc::new(process_environment.environment.clone()),
        clock: Arc::clone(&process_environment.clock),
        directory: process_environment.directory.clone(),
        sandbox: None,
        tools: None,
    };
    Hooks::assemble(entries, &*view, &around).map_err(|problems| CommandError::Usage {
        problems,
        sources: Sources::new(),
    })
}

/// Returns the response store of the test: in-process and without a ledger.
fn answers(
    process_environment: &ProcessEnvironment,
    secret_set: &Arc<SecretSet>,
    warn: &Warn,
) -> ResponseStores {
    let clock = &process_environment.clock;
    let cache = Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::new(InProcessStore::new(Arc::clone(clock)))),
        ledger: Ledger::disabled(),
        clock: Arc::clone(clock),
        secret_set: Arc::clone(secret_set),
        bounds: CacheBounds::default(),
        warn: Arc::clone(warn),
    });
    ResponseStores {
        cache,
        process_environment: process_environment.clone(),
        secret_set: Arc::clone(secret_set),
        mode: CacheMode::On,
        warn: Arc::clone(warn),
        announced: Vec::new(),
        write_notifier: WriteNotifier::new(),
    }
}

fn unknown_agent(name: &str, team: &cachalot_agent::Team) -> CommandError {
    let names: Vec<&str> = team.agents.iter().map(|agent| &*agent.name).collect();
    let message = format!("there is no agent `{name}` in the file");
    CommandError::usage(Problem::new("unknown-agent", message).help(did_you_mean(name, &names)))
}

/// Returns the files with hooks in the directory of the input.
fn settings_beside(input: &Path, process_environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let folder = input.parent().unwrap_or(Path::new(""));
    let files = USUAL_FILES.iter().map(|name| folder.join(name));
    files
        .filter(|file| process_environment.directory.join(file).is_file())
        .collect()
}

/// Placeholder for an agent without a name, models or sections.
struct PlaceholderAgent;

impl AgentView for PlaceholderAgent {
    fn name(&self) -> &'static str {
        ""
    }

    fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    fn fingerprint(&self, _: &str) -> Option<Digest> {
        None
    }

    fn section(&self, _: &str) -> Option<&Node> {
        None
    }
}
