//! `cachalot run`.

mod html;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use cachalot_cache::CacheMode;
use cachalot_core::{Problem, Secret, SourceSpan};
use cachalot_model::Meter;
use cachalot_sandbox::Mechanism;
use cachalot_workflow::Runtime;
use cachalot_workflow::actions;
use cachalot_workflow::format::{Agent, ScriptLimits};
use cachalot_workflow::graph::{self, RunFailure, Scripts};
use cachalot_workflow::report::{Event, Reporter};
use cachalot_workflow::script::{Python3Options, WorkerOptions, WorkerPool};
use cachalot_workflow::session::SessionMemory;
use serde_json::{Map, Value, json};

use super::validate::{LoadedWorkflow, load, segment};
use crate::arguments::{HookFlags, Run, SandboxMode};
use crate::backend::Backend;
use crate::command_error::{CommandError, Result, Sources};
use crate::html_file::HtmlFile;
use crate::interrupts::Interrupts;
use crate::python::{NEEDS_NETWORK, PythonPlan, PythonRunners};
use crate::random::RandomNumbers;
use crate::render::Level;
use crate::render::failure::error_json;
use crate::render::progress::{Progress, Step, Sum};
use crate::render::visible::on_one_line;
use crate::sandbox::{self, SandboxSettings, SandboxUse};
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn, run_id};
use crate::workbench::{Workbench, WorkbenchParts};
use crate::{input, models, render, team};

/// Everything that a run needs.
struct PreparedRun {
    agent: Agent,
    initial: Map<String, Value>,
    runtime: Arc<Runtime>,
    bench: Workbench,
    scripts: Scripts,
    /// The runner of Python that [`Scripts`] has.
    python: UsedPython,
    sources: Sources,
}

pub(crate) async fn run(arguments: &Run, process_environment: &ProcessEnvironment) -> Result<()> {
    // Fails before anything is paid for.
    render::stdout::open()?;
    let level = Level::from_flags(arguments.quiet, arguments.verbose);
    let progress = Arc::new(Progress::new(level, arguments.ndjson));
    let html = match open_html(arguments, process_environment) {
        Ok(html) => html,
        Err(error) => {
            print_failure(arguments, &error, Value::Null, Value::Null)?;
            return Err(error);
        }
    };
    let prepared = match prepare(arguments, process_environment, &progress).await {
        Ok(prepared) => prepared,
        Err(error) => {
            print_failure(arguments, &error, Value::Null, Value::Null)?;
            return Err(error);
        }
    };
    let ended = if arguments.plan {
        let plan = graph::plan(&prepared.agent, prepared.initial.clone(), &prepared.runtime).await;
        if arguments.json || arguments.ndjson {
            render::json(&render::plan::json(&plan))
        } else {
            render::out(&render::plan::render(&plan, arguments.verbose))
        }
    } else {
        run_to_the_end(arguments, &prepared, &progress, html).await
    };
    prepared.python.close().await;
    prepared.bench.close().await;
    ended
}

async fn prepare(
    arguments: &Run,
    process_environment: &ProcessEnvironment,
    progress: &Arc<Progress>,
) -> Result<PreparedRun> {
    let registry = actions::builtin();
    // First of all: without the sandbox that was asked for, nothing is read or paid for.
    if runs_commands_inside(arguments) {
        sandbox::require()?;
    }
    let directory = &process_environment.directory;
    let workspace = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
    let sandbox_settings =
        SandboxSettings::read(&arguments.sandbox, process_environment, &workspace)?;
    let runners = PythonRunners::new(&arguments.python, &sandbox_settings, process_environment);
    let LoadedWorkflow {
        mut agent,
        backend,
        sources,
    } = load(&arguments.file, &registry, &runners, process_environment)?;
    let plan = match runners.plan(&agent, false) {
        // Only now: a question to the user makes sense only for a file that is valid otherwise.
        Err(problem) if problem.code == NEEDS_NETWORK => {
            let file = directory.join(&arguments.file);
            let file = std::fs::canonicalize(&file).unwrap_or(file);
            if permits_network(&file, &sandbox_settings, process_environment) {
                runners.plan(&agent, true)
            } else {
                Err(problem)
            }
        }
        plan => plan,
    };
    let plan = plan.map_err(|problem| CommandError::Usage {
        problems: vec![problem],
        sources: sources.clone(),
    })?;
    let refusals = match agent.approve(&arguments.approve) {
        Err(unknown) => unknown,
        // A plan runs nothing, and shows what an approval would allow.
        Ok(()) if arguments.plan => Vec::new(),
        Ok(()) => agent.needs_approval().into_iter().collect(),
    };
    if !refusals.is_empty() {
        return Err(CommandError::Usage {
            problems: refusals,
            sources,
        });
    }
    if !arguments.quiet {
        let of_team = agent.team.iter().flat_map(|team| &team.warnings);
        let warnings: Vec<Problem> = agent.warnings.iter().chain(of_team).cloned().collect();
        team::warn_of(&warnings);
    }
    let initial = input::state(&arguments.input)?;
    let secrets = input::secrets(
        arguments.secrets.as_deref(),
        arguments.secrets_env.as_deref(),
        &process_environment.environment,
    )?;
    let sandbox = SandboxUse {
        settings: sandbox_settings.clone(),
        mechanism: Mechanism::default(),
        commands: runs_commands_inside(arguments),
        python: plan.needs_sandbox,
        python_network: plan.network,
    };
    let (runtime, bench) = wire(
        arguments,
        process_environment,
        (&agent, backend, sandbox),
        secrets,
        progress,
        &sources,
    )
    .await?;
    let (scripts, python) = scripts(&agent, &runners, plan, &bench)?;
    Ok(PreparedRun {
        agent,
        initial,
        runtime,
        bench,
        scripts,
        python,
        sources,
    })
}

async fn run_to_the_end(
    arguments: &Run,
    prepared: &PreparedRun,
    progress: &Progress,
    html: Option<HtmlFile<'_>>,
) -> Result<()> {
    let (agent, runtime) = (&prepared.agent, &prepared.runtime);
    let clock = &runtime.clock;
    let begun = clock.now();
    let mut interrupts = Interrupts::listen()?;
    let mut state = graph::initial_state(agent, prepared.initial.clone());
    let ended = tokio::select! {
        ended = graph::run_in(agent, &mut state, runtime, &prepared.scripts) => {
            ended.map_err(|failure| command_error(failure, &arguments.file, &prepared.sources))
        }
        // Dropping the run cancels all work in progress; stored results are kept.
        how = interrupted(&mut interrupts, runtime) => Err(CommandError::Interrupted(how)),
    };
    let sum = progress.finish();
    let (state, report) = (
        Value::Object(state.into_fields()),
        report(&sum, &runtime.run, &prepared.python),
    );
    let printed = match &ended {
        Ok(()) => print(arguments, state, report),
        Err(error) => print_failure(arguments, error, state, report),
    };
    progress.close(&sum);
    let reported = match html {
        Some(html) => {
            let run = html::Run {
                file: &arguments.file,
                begun,
                ended: clock.now(),
                sum: &sum,
                error: ended.as_ref().err().map(ToString::to_string),
            };
            html::page(&run).and_then(|page| html.write(&page))
        }
        None => Ok(()),
    };
    if let (Err(_), Err(error)) = (&ended, &reported) {
        render::warn(&error.to_string());
    }
    ended.and(printed).and(reported)
}

/// Opens the file of a report, before anything is paid for.
fn open_html<'a>(
    arguments: &'a Run,
    process_environment: &ProcessEnvironment,
) -> Result<Option<HtmlFile<'a>>> {
    let path = arguments.html.as_deref();
    if path == Some(Path::new("-")) {
        let problem = Problem::new("no-file", "stdout has the state of the run");
        return Err(CommandError::usage(
            problem.help("name a file: `--html report.html`"),
        ));
    }
    HtmlFile::open(path, arguments.place.db.as_deref(), process_environment)
}

/// Waits until the run is to end; returns the message for the user.
async fn interrupted(interrupts: &mut Interrupts, runtime: &Runtime) -> String {
    interrupts.next().await;
    let mut how = "completed steps are cached; run it again to continue".to_owned();
    let calls_in_progress = runtime.meter.calls_in_progress();
    if calls_in_progress > 0 {
        let calls = render::count(
            calls_in_progress,
            "model call that was cut off",
            "model calls that were cut off",
        );
        how.push_str(&format!("; the provider may charge for {calls}"));
    }
    how
}

fn report(sum: &Sum, run: &str, python: &UsedPython) -> Value {
    let mut report = json!({
        "run": run,
        "steps": sum.steps.iter().map(Step::json).collect::<Vec<_>>(),
        "paid": render::spend_json(&sum.paid),
        "failed": render::spend_json(&sum.failed),
        "saved": render::spend_json(&sum.saved),
    });
    if let Some(python) = python.json() {
        report["python"] = python;
    }
    report
}

fn print(arguments: &Run, state: Value, report: Value) -> Result<()> {
    if arguments.ndjson {
        let done = json!({"event": "done", "state": state, "report": report});
        render::out(&format!("{done}\n"))
    } else if arguments.json {
        render::json(&json!({"state": state, "report": report}))
    } else {
        render::json(&state)
    }
}

/// Prints the document or the last event of a run that failed. Without `--json` and `--ndjson`, prints nothing.
fn print_failure(arguments: &Run, error: &CommandError, state: Value, report: Value) -> Result<()> {
    let error = error_json(error);
    if arguments.ndjson {
        let failed = json!({"event": "error", "error": error, "state": state, "report": report});
        render::out(&format!("{failed}\n"))
    } else if arguments.json {
        render::json(&json!({"error": error, "state": state, "report": report}))
    } else {
        Ok(())
    }
}

/// Converts a failed run to an error, with its place in the file if it has one.
fn command_error(failure: RunFailure, file: &Path, sources: &Sources) -> CommandError {
    let message = failure.to_string();
    let problem = failure.place.as_ref().map(|place: &SourceSpan| {
        let mut problem = Problem::new(failure.kind, message.clone()).at(place);
        if let Some(help) = remedy(&failure, file) {
            problem = problem.help(help);
        }
        Box::new((problem, sources.clone()))
    });
    CommandError::Failed {
        code: failure.kind,
        message,
        problem,
    }
}

/// Returns the help for a missing input, a missing API key or an unreachable server.
fn remedy(failure: &RunFailure, file: &Path) -> Option<String> {
    if let Some(input) = missing_input(&failure.message) {
        let file = file.display();
        return Some(format!(
            "if `{input}` is an input, give it: `cachalot run {file} -i {input}=TEXT`"
        ));
    }
    match failure.kind {
        "unauthorized" if failure.message.contains("no key") => {
            let named = |name: &&&str| failure.message.contains(&format!("{name}: no key"));
            let provider = ["openai", "anthropic"].iter().find(named);
            Some(models::simulator_hint(provider.copied()))
        }
        "connection_error" => models::missing_server(&failure.message),
        _ => None,
    }
}

/// Returns the field of the state that a template looks up and that there is not, if it has a plain name.
fn missing_input(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("`state.")?;
    let (name, rest) = rest.split_once('`')?;
    let is_plain = |character: char| character.is_alphanumeric() || character == '_';
    let is_missing = rest.starts_with(" is undefined; no inputs given")
        || rest.starts_with(" is undefined; inputs given");
    (is_missing && name.chars().all(is_plain)).then_some(name)
}

async fn wire(
    arguments: &Run,
    process_environment: &ProcessEnvironment,
    (agent, backend, sandbox): (&Agent, Backend, SandboxUse),
    secrets: BTreeMap<String, Secret<String>>,
    progress: &Arc<Progress>,
    sources: &Sources,
) -> Result<(Arc<Runtime>, Workbench)> {
    let settings = &agent.settings;
    let configured = settings.memory.path.as_deref().map(Path::new);
    let digest_key = settings.memory.digest_key_file.as_deref();
    let home = process_environment
        .home(arguments.place.db.as_deref(), configured)?
        .with_digest_key_file(digest_key, &process_environment.directory);
    let run = run_id();
    let reporter: Arc<dyn Reporter> = progress.clone();
    let warn: Warn = Arc::new(move |message| {
        reporter.report(Event::Warning {
            message: message.to_owned(),
        });
    });
    let opening = EngineOptions {
        bounds: settings.cache.limits.bounds(),
        limits: settings.ledger.limits(),
        secrets: !secrets.is_empty(),
        shared: settings.memory.shared,
        is_store_required: arguments.store.require_store,
        ..EngineOptions::new(process_environment, &home, &run, Arc::clone(&warn))
    };
    let Engine {
        store,
        unanswered,
        cache,
        secret_set,
    } = match backend {
        Backend::Lasting => opening.for_run().await?,
        Backend::InProcess => opening.in_process()?,
    };
    let cannot_search = store.as_ref().filter(|store| store.recall().is_none());
    if let (Some(store), Some(place)) = (cannot_search, &settings.memory.text_search) {
        let name = store.about().name;
        let problem = Problem::new(
            "no-text-search",
            format!("the store `{name}` cannot search by text"),
        );
        return Err(CommandError::Usage {
            problems: vec![problem.at(place).help(
                "leave `query` out and search by `metadata_filter`, or use a SQLite file or Postgres",
            )],
            sources: sources.clone(),
        });
    }
    warn_about_short_secrets(&secrets, progress);
    // Before anything runs: texts that were stored or printed earlier are not masked afterwards.
    secrets
        .values()
        .for_each(|secret| secret_set.learn(secret.expose()));
    let parts = WorkbenchParts {
        process_environment: process_environment.clone(),
        store: store.clone(),
        keeps_sessions: unanswered.is_none(),
        cache: cache.clone(),
        secret_set: Arc::clone(&secret_set),
        mode: mode(arguments),
        hooks: HookFlags::default(),
        sandbox,
        warn: Arc::clone(&warn),
        // The run's own report shows the savings.
        tell: Arc::new(|_| {}),
        reporter: Arc::clone(progress) as _,
        logs_changes: false,
        asks_user: false,
    };
    let directory = &process_environment.directory;
    let bench = Workbench::new(parts, &home, directory, Some(&arguments.file))?;
    let rules = agent.team.as_ref().map(|team| team.permissions.clone());
    let mut tools = bench.tool_services(&rules.unwrap_or_default());
    if agent.actions.has_tools() {
        tools.notify(&cache);
    }
    let runtime = Runtime {
        models: models::models(
            process_environment,
            agent.models.clone(),
            &secret_set,
            Arc::clone(&warn),
        )?,
        meter: Meter::new(agent.budget.clone(), Arc::clone(&process_environment.clock)),
        team: agent.team.clone(),
        agent_host: Some(Arc::new(bench.clone())),
        session: SessionMemory::default(),
        agent: segment(agent, &arguments.file, process_environment),
        run,
        directory: directory.clone(),
        environment: process_environment.environment.clone(),
        settings: settings.value.clone(),
        clock: Arc::clone(&process_environment.clock),
        random: Arc::new(RandomNumbers::default()),
        storage: process_environment.storage(directory)?,
        store,
        cache,
        mode: mode(arguments),
        secret_set,
        secrets,
        actions: Arc::clone(&agent.actions),
        tools,
        sandbox: bench.command_sandbox(),
        reporter: progress.clone(),
    };
    Ok((Arc::new(runtime), bench))
}

/// Warns about short secrets, which also occur in unrelated texts.
fn warn_about_short_secrets(secrets: &BTreeMap<String, Secret<String>>, progress: &Progress) {
    /// The minimum number of characters of a secret that is not found by chance.
    const MIN_SECRET_CHARS: usize = 4;
    for (name, secret) in secrets {
        if (1..MIN_SECRET_CHARS).contains(&secret.expose().chars().count()) {
            progress.report(Event::Warning {
                message: format!(
                    "the secret {name} is very short: every text with the same characters is treated as the secret and not cached"
                ),
            });
        }
    }
}

/// Returns true if the user permits the network to the Python code of a file. Asks on a terminal, and saves a yes.
fn permits_network(
    file: &Path,
    settings: &SandboxSettings,
    process_environment: &ProcessEnvironment,
) -> bool {
    if settings.network_of.iter().any(|known| known == file) {
        return true;
    }
    let Some(saved) = sandbox::file(process_environment) else {
        return false;
    };
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return false;
    }
    let question = format!(
        "{} asks for the network in its Python code. Permit it, now and in later runs? [y]es, [n]o: ",
        on_one_line(&file.display().to_string())
    );
    let mut answer = String::new();
    let asked = write!(std::io::stderr(), "{question}")
        .and_then(|()| std::io::stdin().read_line(&mut answer));
    if asked.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        return false;
    }
    match sandbox::save_network_of(&saved, file) {
        Ok(()) => render::err(&format!("saved in {}", saved.display())),
        Err(error) => render::err(&format!("not saved in {}: {error}", saved.display())),
    }
    true
}

/// Returns true if commands run in a sandbox.
fn runs_commands_inside(arguments: &Run) -> bool {
    let mode = arguments.sandbox.sandbox;
    matches!(mode, Some(SandboxMode::On | SandboxMode::Auto))
}

fn mode(arguments: &Run) -> CacheMode {
    match (arguments.frozen, arguments.refresh, arguments.no_cache) {
        (true, _, _) => CacheMode::Frozen,
        (_, true, _) => CacheMode::Refresh,
        (_, _, true) => CacheMode::Off,
        _ => CacheMode::On,
    }
}

/// The user's own Python, as a run uses it.
struct UsedPython {
    pools: [Arc<WorkerPool>; 2],
    is_sandboxed: bool,
}

impl UsedPython {
    /// Ends the workers.
    async fn close(&self) {
        for pool in &self.pools {
            pool.close().await;
        }
    }

    /// Returns the version of the user's own Python, if it ran a block.
    fn json(&self) -> Option<Value> {
        let version = self.pools.iter().find_map(|pool| pool.version())?;
        Some(json!({"runner": "python3", "version": version, "sandbox": self.is_sandboxed}))
    }
}

fn scripts(
    agent: &Agent,
    runners: &PythonRunners<'_>,
    plan: PythonPlan,
    bench: &Workbench,
) -> Result<(Scripts, UsedPython)> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("this program's own file: {error}")))?;
    let workers = |limits: &ScriptLimits| {
        let mut workers = WorkerOptions::new(program.clone());
        workers.time_limit = limits.time_limit.unwrap_or(workers.time_limit);
        workers.memory_limit = limits.memory_limit.unwrap_or(workers.memory_limit);
        workers
    };
    let settings = &agent.settings;
    let sandbox = bench.python_sandbox();
    let pool = |mut options: Python3Options| {
        options.sandbox = sandbox.clone();
        Arc::new(WorkerPool::python3(options))
    };
    let python3 = pool(runners.options(&settings.python3));
    let embedded = workers(&settings.python.limits);
    let python = if plan.auto_is_python3 {
        // The limits are the same in both.
        let mut options = runners.options(&settings.python3).with_few_variables();
        options.time_limit = embedded.time_limit;
        options.memory_limit = embedded.memory_limit;
        pool(options)
    } else {
        Arc::new(WorkerPool::python(&embedded))
    };
    let used = UsedPython {
        pools: [Arc::clone(&python), Arc::clone(&python3)],
        is_sandboxed: plan.needs_sandbox,
    };
    let scripts = Scripts {
        python,
        lua: Arc::new(WorkerPool::lua(&workers(&settings.lua))),
        python3,
    };
    Ok((scripts, used))
}
