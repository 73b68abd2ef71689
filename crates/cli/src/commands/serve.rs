//! `cachalot serve`.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cachalot_core::{Clock, DigestKey, Millis, Problem, Spend};
use cachalot_gateway::{
    Config, DigestKeyCheck, Gateway, GatewayOptions, Limits, NewKey, RequestReport, RunningGateway,
    Settings, StoreMetrics, Upstream,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agent_file::{AgentFile, Expected, in_order};
use crate::arguments::Serve;
use crate::command_error::{CommandError, Result};
use crate::digest_key::{self, Comparison, DigestKeyFile};
use crate::fleet_ledger::{self, Copying};
use crate::interrupts::Interrupts;
use crate::models;
use crate::render::style::Style;
use crate::render::visible::on_one_line;
use crate::render::{self, local_time};
use crate::wiring::{EngineOptions, ProcessEnvironment, Warn, run_id};

/// The address to listen on, if neither the command line nor a file names one.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4114);

/// Runs the gateway until it is interrupted.
pub(crate) async fn serve(
    arguments: &Serve,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    if arguments.new_key {
        return new_key();
    }
    let given = given_upstreams(&arguments.upstream)?;
    let file = arguments.config.as_ref().map(|file| ConfigFile {
        file,
        given: &given,
        is_frozen: arguments.frozen,
        process_environment,
    });
    let (config, settings) = match &file {
        Some(file) => file.read()?,
        None => (
            Config::default(),
            with_upstreams(Settings::new(Upstream::built_in()), &given),
        ),
    };
    let fleet = match &config.ledger {
        Some(url) => Some(fleet_ledger::open(
            url.expose(),
            "ledger",
            process_environment,
        )?),
        None => None,
    };
    let address = arguments.listen.or(config.listen).unwrap_or(LISTEN);
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    // The gateway does not start without it. The engine loads it again, and warns about its permissions.
    let tenant_key = home.digest_key.load(&|_: &str| {})?;
    let run = run_id();
    let store_metrics = StoreMetrics::default();
    let opening = EngineOptions {
        secrets: true,
        metrics: Some(store_metrics.clone()),
        bounds: config.bounds(),
        shared: config.shared_store(),
        is_store_required: arguments.store.require_store,
        ..EngineOptions::new(process_environment, &home, &run, Arc::clone(&warn))
    };
    let engine = opening.for_run().await?;
    // Reports that other machines have another key.
    let tenant_key = engine.secret_set.key().cloned().unwrap_or(tenant_key);
    let check_digest_key = digest_key_check(home.digest_key.clone(), tenant_key.clone());
    let total = Arc::new(Mutex::new(Total::default()));
    let observe = observer(arguments, &total, Arc::clone(&process_environment.clock));
    // Before the start: from then on, a signal ends the gateway in order.
    let mut interrupts = Interrupts::listen()?;
    let upstreams: Vec<Upstream> = settings.upstreams().cloned().collect();
    let allowed_hosts = config.allowed_hosts.iter().chain(&arguments.allow_host);
    let running = Gateway::start(GatewayOptions {
        address,
        admin_address: config.admin.as_ref().map(|admin| admin.listen),
        allowed_hosts: allowed_hosts.cloned().collect(),
        settings,
        cache: engine.cache.clone(),
        store: engine.store,
        store_metrics,
        check_digest_key,
        frozen: arguments.frozen,
        command: None,
        tenant_key,
        process: run,
        secret_set: engine.secret_set,
        catalog: Arc::new(models::catalog(process_environment)?),
        clock: Arc::clone(&process_environment.clock),
        tls: cachalot_storage::tls_config(),
        proxies: cachalot_storage::proxies(&process_environment.environment),
        limits: Limits::default(),
        observe,
        warn: Arc::clone(&warn),
    })
    .await
    .map_err(|error| {
        CommandError::failed(format!(
            "cannot listen on {address}: {error}; another address can be named with --listen (port 0: any that is free)",
        ))
    })?;
    let copying = fleet.map(|fleet| {
        let (ledger, host) = (
            engine.cache.ledger().clone(),
            fleet_ledger::host(process_environment),
        );
        Copying::start(ledger, fleet, host, Arc::clone(&warn))
    });
    announce(&running, &upstreams, config.tls.is_some(), &warn)?;
    match &file {
        None => {
            interrupts.next().await;
        }
        Some(file) => {
            #[cfg(unix)]
            let mut interrupts = interrupts.without_hangup();
            tokio::select! {
                _ = interrupts.next() => {}
                () = file.follow(&running, &warn) => {}
            }
        }
    }
    if !running.stop().await {
        warn("some answers were cut off, because they were not finished in time");
    }
    // After the gateway, whose last answers are still to be stored.
    engine.cache.close().await;
    if let Some(copying) = copying {
        copying.finish().await;
    }
    render::err(&total.lock().line());
    Ok(())
}

/// Returns the function that compares the key of the file with that of the store.
fn digest_key_check(file: DigestKeyFile, key: DigestKey) -> DigestKeyCheck {
    let parts = Arc::new((file, key));
    Arc::new(move |store| {
        let parts = Arc::clone(&parts);
        Box::pin(async move {
            let (file, key) = &*parts;
            let compared = digest_key::compare(store.as_ref(), file, key).await?;
            Ok(compared == Comparison::Same)
        })
    })
}

fn new_key() -> Result<()> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| {
        CommandError::failed(format!("the system gives no random numbers: {error}"))
    })?;
    let new = NewKey::from_random(&random);
    render::out(&format!(
        "key for the client:              {}\ndigest for the configuration file: {}\n",
        new.key, new.digest
    ))
}

/// Returns the function that shows the reports.
fn observer(
    arguments: &Serve,
    total: &Arc<Mutex<Total>>,
    clock: Arc<dyn Clock>,
) -> Arc<dyn Fn(&RequestReport) + Send + Sync> {
    let (total, style) = (Arc::clone(total), Style::of_stderr());
    let (quiet, as_json) = (arguments.quiet, arguments.log_json);
    Arc::new(move |report| {
        total.lock().add(report);
        if as_json {
            render::err(&document(report, clock.now()).to_string());
        } else if !quiet {
            let at = local_time::to_second(clock.now());
            render::err(&line(
                report,
                at.split(' ').next_back().unwrap_or_default(),
                style,
            ));
        }
    })
}

/// Returns a report as a document: no contents, no credentials.
fn document(report: &RequestReport, now: Millis) -> Value {
    json!({
        "time": cachalot_core::clock::iso8601(now),
        "method": report.method,
        "path": report.path,
        "upstream": report.upstream,
        "endpoint": report.endpoint,
        "model": report.model,
        "key": report.key,
        "status": report.status,
        "outcome": report.answered,
        "error": report.error,
        "reason": report.reason,
        "milliseconds": report.elapsed.as_secs_f64() * 1_000.0,
        "saved_dollars": report.saved.cost.dollars(),
    })
}

/// The configuration file of a running gateway.
struct ConfigFile<'a> {
    file: &'a Path,
    /// Upstreams of the command line, which take the place of those with the same names.
    given: &'a [Upstream],
    is_frozen: bool,
    process_environment: &'a ProcessEnvironment,
}

/// Time between two looks at the files of a configuration.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl ConfigFile<'_> {
    fn read(&self) -> Result<(Config, Settings)> {
        let source = AgentFile::read(self.file, self.process_environment)?;
        let environment = &self.process_environment.environment;
        let directory = source.path.parent().unwrap_or(Path::new(".")).to_owned();
        let wrong = |problems| source.wrong_as(Expected::Gateway, in_order(problems));
        let config = Config::parse(&source.name, &source.text).map_err(wrong)?;
        let resolved = if self.is_frozen {
            Settings::without_credentials(&config, environment, &directory)
        } else {
            Settings::resolve(&config, environment, &directory)
        };
        let settings = with_upstreams(resolved.map_err(wrong)?, self.given);
        Ok((config, settings))
    }

    /// Reads the file again when it or a file that it names changes, and on SIGHUP. With a problem, the old
    /// configuration stays. Returns if the terminal that the gateway runs in was closed.
    async fn follow(&self, running: &RunningGateway, warn: &Warn) {
        let is_terminal = std::io::stderr().is_terminal();
        let mut seen = self.state();
        let mut hangup = Hangup::listen();
        loop {
            let is_asked = tokio::select! {
                () = hangup.next() => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            // The terminal was closed: this SIGHUP is no wish to read the file again.
            if is_asked && is_terminal && !std::io::stderr().is_terminal() {
                return;
            }
            let now = self.state();
            if !is_asked && now == seen {
                continue;
            }
            // Also with a problem, which is reported once for each change.
            seen = now;
            match self.read() {
                Ok((_, settings)) => {
                    running.reload(settings);
                    render::err(&format!("{} was read again", self.file.display()));
                }
                Err(error) => {
                    crate::tell(&error);
                    warn("the configuration stays as it was");
                }
            }
        }
    }

    /// Returns the contents of the file, and the times of the files that it names.
    fn state(&self) -> (Option<String>, Vec<Option<SystemTime>>) {
        let source = AgentFile::read(self.file, self.process_environment).ok();
        let Some(source) = source else {
            return (None, Vec::new());
        };
        let directory = source.path.parent().unwrap_or(Path::new("."));
        let config = Config::parse(&source.name, &source.text).unwrap_or_default();
        let times = config.files().into_iter().map(|file| {
            let metadata = std::fs::metadata(directory.join(file)).ok()?;
            metadata.modified().ok()
        });
        let times = times.collect();
        (Some(source.text), times)
    }
}

/// Receives SIGHUP.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    fn listen() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending().await
    }
}

fn announce(
    running: &RunningGateway,
    upstreams: &[Upstream],
    is_encrypted: bool,
    warn: &Warn,
) -> Result<()> {
    let url = running.url();
    render::out(&format!(
        "listening on {url}\n\
         \x20 OPENAI_BASE_URL={url}/v1\n\
         \x20 ANTHROPIC_BASE_URL={url}\n"
    ))?;
    if let Some(address) = running.admin_address() {
        render::err(&format!(
            "for the operator: {}",
            url.replace(&running.address().to_string(), &address.to_string())
        ));
    }
    let upstreams = upstreams
        .iter()
        .map(|upstream| format!("{} ({})", upstream.name(), upstream.base()));
    let upstreams: Vec<String> = upstreams.collect();
    render::err(&format!(
        "passes on to {}; Ctrl-C ends it",
        upstreams.join(", ")
    ));
    if !running.address().ip().is_loopback() && !is_encrypted {
        warn(
            "other machines can reach this address; their requests and credentials are unencrypted up to here (`tls` of the configuration file encrypts them)",
        );
    }
    Ok(())
}

/// Returns the upstreams of the command line.
pub(crate) fn given_upstreams(given: &[String]) -> Result<Vec<Upstream>> {
    let refused = |error: cachalot_gateway::UpstreamError| {
        let problem = Problem::new("bad-value", format!("--upstream {error}"));
        CommandError::usage(problem)
    };
    given
        .iter()
        .map(|text| Upstream::parse(text).map_err(refused))
        .collect()
}

/// Puts the upstreams of the command line in place of those with the same names, or adds them.
pub(crate) fn with_upstreams(mut settings: Settings, given: &[Upstream]) -> Settings {
    for upstream in given {
        settings.set_upstream(upstream.clone());
    }
    settings
}

/// Formats a report: `14:03:07 chat gpt-4o-mini    hit    0.4 ms  saved $0.03`.
fn line(report: &RequestReport, at: &str, style: Style) -> String {
    let what = match report.model.as_str() {
        "" => format!("{} {}", report.method, on_one_line(&report.path)),
        model => format!("{} {}", report.endpoint, on_one_line(model)),
    };
    let answered = format!("{:<9}", report.answered);
    let answered = match report.answered {
        "hit" | "stale" | "coalesced" => style.success(&answered),
        "refused" => style.error(&answered),
        _ => style.notable(&answered),
    };
    let mut line = format!(
        "{at} {what:<40} {answered} {:>9}",
        render::time(report.elapsed)
    );
    if !(200..300).contains(&report.status) {
        line += &format!("  {}", style.error(&report.status.to_string()));
    }
    let saved = if report.saved.is_free() {
        None
    } else {
        Some(format!("saved {}", render::spend(&report.saved)))
    };
    if let Some(detail) = saved.or_else(|| report.reason.clone()) {
        line += &format!("  {}", style.dim(&on_one_line(&detail)));
    }
    line
}

/// Counts of the requests since the start.
#[derive(Default)]
struct Total {
    requests: u64,
    answered: u64,
    saved: Spend,
}

impl Total {
    fn add(&mut self, report: &RequestReport) {
        self.requests += 1;
        if matches!(report.answered, "hit" | "stale" | "coalesced") {
            self.answered += 1;
            self.saved += report.saved;
        }
    }

    fn line(&self) -> String {
        let requests = render::count(self.requests, "request", "requests");
        match self.answered {
            0 => requests,
            answered => format!(
                "{requests}, {} answered from the cache, saved {}",
                render::grouped(answered),
                render::spend(&self.saved)
            ),
        }
    }
}
