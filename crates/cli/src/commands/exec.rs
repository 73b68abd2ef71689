//! `cachalot exec`: runs a client of model APIs behind a gateway of its own.

mod bill;
#[cfg_attr(not(unix), path = "exec/child_portable.rs")]
mod child;
mod client_files;
mod mode;
mod not_started;
mod private_files;
mod recording;
mod setup;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;

use cachalot_core::{DigestKey, Problem, Secret};
use cachalot_gateway::{
    ClientTable, CommandRun, Gateway, GatewayOptions, Limits, Settings, StoreMetrics, Upstream,
};
use parking_lot::Mutex;

use self::bill::{Bill, Requests};
use self::child::Signals;
pub(crate) use self::child::end_by_signal;
use self::mode::Mode;
use self::setup::{Circumstances, Servers};
use crate::arguments::Exec;
use crate::command_error::{CommandError, Result};
use crate::commands::serve::{given_upstreams, with_upstreams};
use crate::home;
use crate::models;
use crate::render;
use crate::wiring::{EngineOptions, ProcessEnvironment, Warn, run_id};

/// Maximum number of warnings that are shown after the end of the command.
const MAX_WARNINGS: usize = 50;

/// Maximum number of unanswered requests of a replay that are compared with recorded ones.
const MAX_EXPLAINED: u32 = 10;

/// Runs a command with a gateway in this process. Returns the exit code of the command.
///
/// # Errors
/// The arguments are not usable, or the gateway cannot start.
pub(crate) async fn exec(
    arguments: &Exec,
    process_environment: &ProcessEnvironment,
) -> Result<ExitCode> {
    let warnings = Warnings::default();
    let ran = run(arguments, process_environment, &warnings).await;
    // The command has the terminal until it ends.
    for warning in warnings.0.lock().drain(..) {
        render::warn(&warning);
    }
    match ran? {
        End::NotStarted(code) => Ok(ExitCode::from(code)),
        End::Ended { bill, status } => {
            if !arguments.quiet {
                render::err(bill.trim_end());
            }
            child::end_by_signal(status);
            Ok(ExitCode::from(child::exit_code(status)))
        }
    }
}

/// End of the command.
enum End {
    /// It could not be started: the exit code.
    NotStarted(u8),
    Ended {
        bill: String,
        status: ExitStatus,
    },
}

/// Warnings that wait for the end of the command.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn collector(&self) -> Warn {
        let warnings = Arc::clone(&self.0);
        Arc::new(move |warning| {
            let mut warnings = warnings.lock();
            let is_known = warnings.iter().any(|known| known == warning);
            if !is_known && warnings.len() < MAX_WARNINGS {
                warnings.push(warning.to_owned());
            }
        })
    }
}

/// Runs the command. Its files are removed when this function returns.
async fn run(
    arguments: &Exec,
    process_environment: &ProcessEnvironment,
    warnings: &Warnings,
) -> Result<End> {
    let environment = &process_environment.environment;
    let mode = Mode::new(arguments);
    let client = setup::client(arguments.agent.as_deref(), &arguments.command)?;
    check_ignored(&arguments.ignore, client.map(|client| client.name))?;
    let servers = Servers::find(client, environment, &process_environment.directory)?;
    setup::check_options(client, &servers, &arguments.command)?;
    let given = given_upstreams(&arguments.upstream)?;
    setup::check_names(&given)?;
    let settings = with_upstreams(Settings::new(Upstream::built_in()), &servers.upstreams);
    let mut settings = with_upstreams(settings, &given);
    if let Some(above) = arguments.guard {
        settings.guard_prefixes(above);
    }
    if let Some(until) = arguments.keep_alive {
        settings.keep_prefixes_alive(until, arguments.keep_alive_max);
    }

    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let warn = warnings.collector();
    let needs_store = mode.recording().is_some() || arguments.store.require_store;
    let tenant_key = match home.digest_key.load(&|_: &str| {}) {
        Ok(key) => key,
        Err(fault) if home.digest_key.is_named() || needs_store => return Err(fault),
        // The engine reports the fault, and the command runs without a store.
        Err(_) => DigestKey::ephemeral()?,
    };
    let run = run_id();
    let opening = EngineOptions {
        secrets: true,
        is_store_required: arguments.store.require_store,
        ..EngineOptions::new(process_environment, &home, &run, Arc::clone(&warn))
    };
    if let Some(name) = mode.recording() {
        // A run without a store continues, and sets a damaged file aside.
        let opened = opening.open();
        opened.map_err(|error| CommandError::failed(format!("recording `{name}`: {error}")))?;
    }
    let engine = opening.for_run().await?;
    let tenant_key = engine.secret_set.key().cloned().unwrap_or(tenant_key);
    if let (Some(name), None) = (mode.recording(), &engine.store) {
        let message = format!("recording `{name}`: the store cannot be used");
        return Err(CommandError::failed(message));
    }
    if let Mode::Replay(name) = &mode {
        recording::check(&engine.cache, name).await?;
    }
    let ledger = engine.cache.ledger().clone();
    let (_, newest_row) = ledger.broken_prefixes(i64::MAX, 0)?;
    let requests = Arc::new(Mutex::new(Requests::default()));
    let observed = Arc::clone(&requests);
    let command = CommandRun {
        secret: random_secret()?,
        recording: mode.recording().map(str::to_owned),
        client: client.map(|client| client.name.to_owned()),
        ignored_texts: arguments.ignore.clone(),
        is_fresh: matches!(mode, Mode::Record { is_fresh: true, .. }),
    };
    let base_path = command.base_path();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let running = Gateway::start(GatewayOptions {
        address,
        admin_address: None,
        allowed_hosts: Vec::new(),
        settings,
        cache: engine.cache.clone(),
        store: engine.store,
        store_metrics: StoreMetrics::default(),
        // Nothing asks whether the gateway of one command is ready.
        check_digest_key: Arc::new(|_| Box::pin(std::future::ready(Ok(true)))),
        frozen: matches!(mode, Mode::Replay(_)),
        command: Some(command),
        tenant_key,
        process: run.clone(),
        secret_set: engine.secret_set,
        catalog: Arc::new(models::catalog(process_environment)?),
        clock: Arc::clone(&process_environment.clock),
        tls: cachalot_storage::tls_config(),
        proxies: cachalot_storage::proxies(environment),
        limits: Limits::default(),
        observe: Arc::new(move |report| observed.lock().add(report)),
        warn,
    })
    .await
    .map_err(|error| CommandError::failed(format!("cannot listen on {address}: {error}")))?;
    let payments = running.payments();

    // Before the files of the command exist: from then on, a signal does not end this process.
    let mut signals = Signals::listen()?;
    let root = format!("{}{base_path}", running.url());
    let circumstances = Circumstances {
        client,
        root: &root,
        is_replay: matches!(mode, Mode::Replay(_)),
        environment,
        directory: &process_environment.directory,
        data: &data_directory(environment),
    };
    let setup = circumstances
        .prepare(&arguments.command, &servers)
        .map_err(|error| CommandError::failed(format!("files for the command: {error}")))?;
    let (program, words) = setup
        .words
        .split_first()
        .ok_or_else(|| CommandError::failed("there is no command to run"))?;
    let is_unknown_replay = client.is_none() && matches!(mode, Mode::Replay(_));
    if is_unknown_replay && !arguments.quiet {
        render::err(&unknown_in_replay(&arguments.command[0].to_string_lossy()));
    }
    let mut command = Command::new(program);
    command.args(words).envs(&setup.variables);
    let ended = child::run(&mut command, &mut signals).await;
    signals.forget().await;
    let finished = async {
        let are_finished = running.stop().await;
        // After the gateway, whose last answers are still to be stored.
        engine.cache.close().await;
        ledger.flush().await;
        are_finished
    };
    let are_finished = tokio::select! {
        are_finished = finished => are_finished,
        () = signals.impatient() => false,
    };
    let status = match ended {
        Ok(status) => status,
        Err(error) => {
            let program = program.to_string_lossy();
            let (code, message) = not_started::explain(&program, &error, environment);
            crate::tell(&CommandError::failed(message));
            return Ok(End::NotStarted(code));
        }
    };
    let mut breaks = ledger.broken_prefixes(newest_row, 0)?.0;
    breaks.retain(|row| row.run == run);
    let unanswered = match mode {
        Mode::Replay(_) => ledger.explain_refused(MAX_EXPLAINED)?,
        Mode::Record { .. } | Mode::Meter => Vec::new(),
    };
    let unrecorded = match mode {
        Mode::Record { .. } => ledger.unstored_misses()?,
        Mode::Replay(_) | Mode::Meter => Vec::new(),
    };
    let requests = requests.lock();
    let bill = Bill {
        mode: &mode,
        requests: &requests,
        payments: &payments(),
        breaks: &breaks,
        unanswered: &unanswered,
        unrecorded: &unrecorded,
    };
    let mut text = bill.text();
    if !are_finished {
        text += "some answers were cut off, because they were not finished in time\n";
    }
    if client.is_none() && !is_unknown_replay && requests.are_none() {
        text += &unknown_client(&arguments.command[0].to_string_lossy());
    }
    Ok(End::Ended { bill: text, status })
}

/// Checks the names of texts that are not compared with the recording.
fn check_ignored(ignored: &[String], client: Option<&str>) -> Result<()> {
    let known = client
        .map(cachalot_gateway::varying_texts)
        .unwrap_or_default();
    let Some(unknown) = ignored.iter().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let message = match (client, known.as_slice()) {
        (None, _) => format!(
            "--ignore {unknown}: the command is no known client; --agent NAME says which one it runs"
        ),
        (Some(client), []) => {
            format!("--ignore {unknown}: no text of {client} is known to differ between two runs")
        }
        (Some(client), known) => format!(
            "--ignore {unknown}: the texts of {client} that differ between two runs are {}",
            known.join(", ")
        ),
    };
    Err(CommandError::usage(Problem::new("bad-value", message)))
}

/// Returns the note on a command that is no known client and has sent no request.
fn unknown_client(program: &str) -> String {
    let table = ClientTable::built_in();
    let variables: Vec<&str> = table
        .base_urls
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let names: Vec<&str> = table.names().collect();
    render::table::headline_on(
        render::table::Stream::Errors,
        &format!(
            "`{}` is no known client: it got the variables {}; --agent NAME says which client it runs ({})",
            render::visible::on_one_line(program),
            variables.join(", "),
            names.join(", ")
        ),
    )
}

/// Returns the note on a command that is no known client, before it runs in a replay: it may ask servers itself.
fn unknown_in_replay(program: &str) -> String {
    format!(
        "cachalot: `{}` is no known client: its requests are replayed if it reads OPENAI_BASE_URL or a similar variable; others reach the network (--agent NAME says which client it runs)",
        render::visible::on_one_line(program)
    )
}

/// Returns the directory for files of the command. Those of some clients must not be below one that others can write,
/// such as `/tmp`.
fn data_directory(environment: &BTreeMap<String, String>) -> PathBuf {
    let database = home::default_database(environment).ok();
    let data = database.and_then(|database| Some(database.parent()?.to_owned()));
    data.unwrap_or_else(std::env::temp_dir)
}

fn random_secret() -> Result<Secret<String>> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        CommandError::failed(format!("the system gives no random numbers: {error}"))
    })?;
    Ok(Secret::new(hex::encode(random)))
}
