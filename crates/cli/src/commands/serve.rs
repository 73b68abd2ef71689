//! `cachalot serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{CacheBounds, LedgerLimits};
use cachalot_core::{Problem, Spend};
use cachalot_gateway::{Gateway, GatewayOptions, Limits, RequestReport, Upstream};
use parking_lot::Mutex;

use crate::arguments::Serve;
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::models;
use crate::render::style::Style;
use crate::render::visible::on_one_line;
use crate::render::{self, local_time};
use crate::wiring::{EngineOptions, ProcessEnvironment, Warn, digest_key, run_id};

/// Runs the gateway until it is interrupted.
pub(crate) async fn serve(
    arguments: &Serve,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let upstreams = upstreams(&arguments.upstream)?;
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let tenant_key = digest_key(&home.digest_key, &warn)
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let run = run_id();
    let engine = EngineOptions {
        process_environment,
        home: &home,
        run: &run,
        bounds: CacheBounds::default(),
        limits: LedgerLimits::default(),
        secrets: true,
        staleness: Duration::ZERO,
        local: false,
        warn: Arc::clone(&warn),
    }
    .for_run()
    .await?;
    let total = Arc::new(Mutex::new(Total::default()));
    let (style, quiet, counted) = (Style::of_stderr(), arguments.quiet, Arc::clone(&total));
    let clock = Arc::clone(&process_environment.clock);
    let mut interrupts = Interrupts::listen()?;
    let running = Gateway::start(GatewayOptions {
        address: arguments.listen,
        allowed_hosts: arguments.allow_host.clone(),
        upstreams: upstreams.clone(),
        cache: engine.cache.clone(),
        tenant_key,
        process: run,
        secret_set: engine.secret_set,
        catalog: Arc::new(models::catalog(process_environment)?),
        clock: Arc::clone(&process_environment.clock),
        tls: cachalot_storage::tls_config(),
        limits: Limits::default(),
        observe: Arc::new(move |report| {
            counted.lock().add(report);
            if !quiet {
                let at = local_time::to_second(clock.now());
                render::err(&line(report, at.split(' ').next_back().unwrap_or_default(), style));
            }
        }),
    })
    .await
    .map_err(|error| {
        CommandError::failed(format!(
            "cannot listen on {}: {error}; another address can be named with --listen (port 0: any that is free)",
            arguments.listen
        ))
    })?;
    announce(running.url().as_str(), &upstreams, arguments.listen, &warn)?;
    interrupts.next().await;
    if !running.stop().await {
        warn("some answers were cut off, because they were not finished in time");
    }
    engine.cache.close().await;
    render::err(&total.lock().line());
    Ok(())
}

fn announce(url: &str, upstreams: &[Upstream], listen: SocketAddr, warn: &Warn) -> Result<()> {
    render::out(&format!(
        "listening on {url}\n\
         \x20 OPENAI_BASE_URL={url}/v1\n\
         \x20 ANTHROPIC_BASE_URL={url}\n"
    ))?;
    let upstreams = upstreams
        .iter()
        .map(|it| format!("{} ({})", it.name(), it.base()));
    let upstreams: Vec<String> = upstreams.collect();
    render::err(&format!(
        "passes on to {}; Ctrl-C ends it",
        upstreams.join(", ")
    ));
    if !listen.ip().is_loopback() {
        warn(
            "other machines can reach this address; their requests are sent with their own credentials, unencrypted up to here",
        );
    }
    Ok(())
}

/// Returns the built-in upstreams, those of the command line in place of the ones with the same name.
fn upstreams(given: &[String]) -> Result<Vec<Upstream>> {
    let refused = |error: cachalot_gateway::UpstreamError| {
        let problem = Problem::new("bad-value", format!("--upstream {error}"));
        CommandError::usage(problem)
    };
    let mut upstreams = Upstream::built_in();
    for text in given {
        let upstream = Upstream::parse(text).map_err(refused)?;
        upstreams.retain(|known| known.name() != upstream.name());
        upstreams.push(upstream);
    }
    Ok(upstreams)
}

/// Formats a report: `14:03:07 chat gpt-4o-mini    hit    0.4 ms  saved $0.03`.
fn line(report: &RequestReport, at: &str, style: Style) -> String {
    let what = match report.model.as_str() {
        "" => format!("{} {}", report.method, on_one_line(&report.path)),
        model => format!("{} {}", report.endpoint, on_one_line(model)),
    };
    let answered = format!("{:<9}", report.answered);
    let answered = match report.answered {
        "hit" | "coalesced" => style.success(&answered),
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
    let saved = match report.saved.is_free() {
        true => None,
        false => Some(format!("saved {}", render::spend(&report.saved))),
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
        if matches!(report.answered, "hit" | "coalesced") {
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
