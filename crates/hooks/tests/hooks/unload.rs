//! `unload`: an agent that goes takes its local models with it.

use axum::http::StatusCode;
use cachalot_hooks::input::Switch;
use cachalot_hooks::{Event, Input, Output};
use serde_json::{Value, json};

use crate::http_post::Server;
use crate::seam::{Agent, Fixture};

fn switch(from: &str, to: &str) -> Input {
    Input {
        event: Event::OnAgentSwitch,
        switch: Some(Switch {
            from_agent: from.to_owned(),
            to_agent: to.to_owned(),
            kind: "transfer_task",
        }),
        ..Input::default()
    }
}

/// The requests of a server: the path and the body.
fn asked(server: &Server) -> Vec<(String, Value)> {
    let posted = server.posted().into_iter();
    let mut asked: Vec<(String, Value)> = posted
        .map(|posted| {
            assert_eq!(posted.content_type, "application/json");
            (posted.path, serde_json::from_str(&posted.body).unwrap())
        })
        .collect();
    asked.sort_by_key(|(path, body)| format!("{path} {body}"));
    asked
}

#[tokio::test]
async fn models_of_the_previous_agent_are_unloaded_at_their_server() {
    let (ollama, docker) = (Server::start().await, Server::start().await);
    let qwen = format!("ollama/qwen3@{}/v1", ollama.url);
    let llama = format!("ollama/llama3.2:1b@{}/v1", ollama.url);
    let fixture = Fixture::of(vec![
        Agent::of("root", &[&qwen, "openai/gpt-4o", &llama, &qwen], ""),
        Agent::of("helper", &["openai/gpt-4o"], ""),
    ]);
    let output = fixture.run("unload", &[], &switch("root", "helper")).await;
    assert_eq!(output.unwrap(), Output::default());
    let generate = "/api/generate".to_owned();
    assert_eq!(
        asked(&ollama),
        [
            (
                generate.clone(),
                json!({"model": "llama3.2:1b", "keep_alive": 0})
            ),
            (generate, json!({"model": "qwen3", "keep_alive": 0})),
        ]
    );
    // Coming back from an agent without a local model unloads nothing.
    let output = fixture.run("unload", &[], &switch("helper", "root")).await;
    assert_eq!(output.unwrap(), Output::default());
    assert!(asked(&ollama).is_empty() && asked(&docker).is_empty());
}

#[tokio::test]
async fn docker_model_runner_receives_its_own_unload_request() {
    let server = Server::start().await;
    let mut agent = Agent::of("root", &[], "");
    agent.models = vec![docker_model(&server.url)];
    let fixture = Fixture::of(vec![agent, Agent::of("helper", &[], "")]);
    let output = fixture.run("unload", &[], &switch("root", "helper")).await;
    assert_eq!(output.unwrap(), Output::default());
    let expected = (
        "/engines/unload".to_owned(),
        json!({"models": ["ai/qwen3"]}),
    );
    assert_eq!(asked(&server), [expected]);
}

/// A model of a provider that a file calls `dmr`.
fn docker_model(url: &str) -> cachalot_model::Model {
    use cachalot_core::{ManualClock, tree};
    use cachalot_model::{Catalog, ModelConfiguration, ModelDependencies, Models};
    use cachalot_storage::HttpOptions;
    let yaml = format!("dmr: {{base_url: \"{url}/engines/llama.cpp/v1\"}}");
    let providers = tree::parse("agent.yaml", &yaml).unwrap();
    let mut problems = Vec::new();
    let configured = ModelConfiguration::read(None, Some(&providers), &mut problems);
    assert_eq!(problems, []);
    let hook_dependencies = ModelDependencies {
        environment: Default::default(),
        clock: std::sync::Arc::new(ManualClock::default()),
        http: HttpOptions::default(),
        catalog: Catalog::empty(),
    };
    Models::new(hook_dependencies, configured)
        .find("dmr/ai/qwen3")
        .unwrap()
}

#[tokio::test]
async fn model_still_in_use_is_not_unloaded() {
    let server = Server::start().await;
    let shared = format!("ollama/qwen3@{}/v1", server.url);
    let tagged = format!("ollama/qwen3:latest@{}/v1/", server.url);
    let own = format!("ollama/gemma3@{}/v1", server.url);
    let fixture = Fixture::of(vec![
        Agent::of("root", &[&shared, &own], ""),
        Agent::of("helper", &[&tagged], ""),
    ]);
    let output = fixture.run("unload", &[], &switch("root", "helper")).await;
    assert_eq!(output.unwrap(), Output::default());
    let gemma = json!({"model": "gemma3", "keep_alive": 0});
    assert_eq!(asked(&server), [("/api/generate".to_owned(), gemma)]);
    let output = fixture.run("unload", &[], &switch("helper", "root")).await;
    assert_eq!(output.unwrap(), Output::default());
    assert!(asked(&server).is_empty());
}

#[tokio::test]
async fn unload_failures_are_one_message_and_no_fault() {
    let server = Server::start().await;
    server.answer(StatusCode::NOT_FOUND);
    let models = [
        format!("ollama/qwen3@{}/v1", server.url),
        "ollama/gone@http://127.0.0.1:1/v1".to_owned(),
    ];
    let models: Vec<&str> = models.iter().map(String::as_str).collect();
    let fixture = Fixture::of(vec![Agent::of("root", &models, "")]);
    let output = fixture
        .run("unload", &[], &switch("root", "helper"))
        .await
        .unwrap();
    let message = output.system_message.clone().unwrap();
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].contains("`qwen3` was not unloaded") && lines[0].contains("404"));
    assert!(lines[1].contains("`gone` was not unloaded") && lines[1].contains("127.0.0.1:1"));
    assert_eq!(lines.len(), 2);
    let rest = Output {
        system_message: None,
        ..output
    };
    assert_eq!(rest, Output::default());
}

#[tokio::test]
async fn unload_of_an_unknown_agent_does_nothing() {
    let fixture = Fixture::new();
    for input in [
        switch("ghost", "helper"),
        Input {
            event: Event::OnAgentSwitch,
            ..Input::default()
        },
    ] {
        let output = fixture.run("unload", &[], &input).await.unwrap();
        assert_eq!(output, Output::default());
    }
    assert!(
        fixture
            .refusal("unload", &["all"])
            .contains("takes no arguments")
    );
}
