//! `cachalot simulate`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use cachalot_simulator::{Script, Simulator, SimulatorOptions};

use crate::agent_file::{AgentFile, Expected};
use crate::arguments::Simulate;
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::render;
use crate::wiring::ProcessEnvironment;

/// Runs the simulator until it is interrupted.
pub(crate) async fn simulate(
    arguments: &Simulate,
    process_environment: &ProcessEnvironment,
) -> Result<()> {
    let script = match &arguments.script {
        None => Script::built_in(),
        Some(path) => {
            let source = AgentFile::read(path, process_environment)?;
            let script = Script::parse(&source.name, &source.text);
            script.map_err(|problems| source.wrong_as(Expected::Script, problems))?
        }
    };
    let script = match arguments.latency {
        Some(latency) => script.with_latency(latency),
        None => script,
    };
    let mut interrupts = Interrupts::listen()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let running = Simulator::start(SimulatorOptions {
        address,
        script,
        clock: Arc::clone(&process_environment.clock),
    })
    .await
    .map_err(|error| {
        CommandError::failed(format!(
            "cannot listen on {address}: {error}; another port can be named with --port (0: any that is free)"
        ))
    })?;
    let url = running.url();
    render::out(&format!(
        "simulating OpenAI and Anthropic at {url}\n\
         \x20 OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=simulated\n\
         \x20 ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=simulated\n"
    ))?;
    render::err("Ctrl-C ends it");
    tokio::select! {
        () = running.stopped() => Err(CommandError::failed("the server ended by itself")),
        _ = interrupts.next() => {
            running.stop().await;
            Ok(())
        }
    }
}
