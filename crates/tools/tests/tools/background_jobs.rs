//! Background jobs.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{DigestKey, Effects, SecretSet};
use cachalot_operation::CommandText;
use cachalot_tools::Registry;
use cachalot_tools::builtin::{
    BackgroundJobsSettings, CommandSettings, SessionStates, background_jobs, files,
};
use cachalot_tools::cached::WriteNotifier;
use serde_json::{Value, json};

use crate::cached::cache_fixture::{CacheFixture, CacheFixtureBuilder, on, text};
use crate::tool_fixture::{ToolFixture, object, runs, until};

/// A session with jobs, and its tools.
struct JobFixture {
    tools: ToolFixture,
    states: SessionStates,
}

fn fixture() -> JobFixture {
    with(BackgroundJobsSettings::default())
}

fn with(settings: BackgroundJobsSettings) -> JobFixture {
    let states = SessionStates::default();
    let state = states.of_session("main");
    let tools = background_jobs(settings, &state, &WriteNotifier::new()).unwrap();
    let mut tools = ToolFixture::with(tools);
    tools.context.environment = Arc::new(environment());
    JobFixture { tools, states }
}

fn environment() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("SERVICE_TOKEN".to_owned(), "abc123".to_owned()),
    ])
}

impl JobFixture {
    async fn start(&self, cmd: &str) -> String {
        self.tools
            .done("run_background_job", json!({ "cmd": cmd }))
            .await
    }

    async fn wait(&self, id: &str) -> String {
        self.tools
            .done("wait_background_job", json!({ "job_id": id }))
            .await
    }

    /// Waits for the process ID that a job writes into a file.
    async fn process(&self, file: &str) -> String {
        let path = self.tools.path(file);
        until("a process ID", || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
        })
        .await;
        self.tools.read(file)
    }
}

#[tokio::test]
async fn job_runs_beside_the_conversation_and_shows_its_output() {
    let fixture = fixture();
    assert_eq!(
        fixture.start("echo out; echo err >&2; exit 3").await,
        "The background job job_1 is running."
    );
    let shown = fixture.wait("job_1").await;
    assert!(
        shown.starts_with("Job job_1: failed (exit status 3) after "),
        "{shown}"
    );
    assert!(shown.contains("\nCommand: echo out;") && shown.contains("\nOutput:\nout\nerr\n"));
    fixture.tools.write("sub/x", "");
    let arguments = json!({ "cmd": "pwd", "cwd": "sub" });
    fixture.tools.done("run_background_job", arguments).await;
    let shown = fixture.wait("job_2").await;
    assert!(
        shown.contains("completed (exit status 0)") && shown.contains("/sub\n"),
        "{shown}"
    );
    let listed = fixture.tools.done("list_background_jobs", json!({})).await;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with("job_1: failed (exit status 3) after "),
        "{listed}"
    );
    assert!(lines[1].starts_with("job_2: completed") && lines[1].ends_with(": `pwd`"));
    for (tool, arguments, expected) in [
        (
            "view_background_job",
            json!({ "job_id": "job_9" }),
            "the jobs are: job_1, job_2",
        ),
        (
            "stop_background_job",
            json!({ "job_id": "job_1" }),
            "is not running",
        ),
        (
            "run_background_job",
            json!({ "cmd": " " }),
            "`cmd` is empty",
        ),
        (
            "run_background_job",
            json!({ "cmd": "ls", "cwd": ".." }),
            "outside",
        ),
    ] {
        let shown = fixture.tools.fails(tool, arguments).await;
        assert!(shown.contains(expected), "{tool}: {shown}");
    }
}

#[tokio::test]
async fn wait_ends_after_its_timeout_and_the_job_continues() {
    let fixture = fixture();
    fixture
        .start("echo $$ > id; while ! [ -e go ]; do sleep 0.01; done")
        .await;
    let process = fixture.process("id").await;
    let arguments = json!({ "job_id": "job_1", "timeout": 1 });
    let shown = fixture.tools.done("wait_background_job", arguments).await;
    assert!(
        shown.starts_with("The job is still running after 1 s"),
        "{shown}"
    );
    assert!(runs(&process));
    fixture.tools.write("go", "");
    assert!(fixture.wait("job_1").await.contains("completed"));
}

#[tokio::test]
async fn stop_kills_the_whole_process_group() {
    let fixture = fixture();
    fixture
        .start("(trap '' TERM; sh -c 'echo $$ > child; sleep 60'); sleep 60")
        .await;
    let child = fixture.process("child").await;
    let shown = fixture
        .tools
        .done("stop_background_job", json!({ "job_id": "job_1" }))
        .await;
    assert!(
        shown.starts_with("Job job_1: stopped (killed) after "),
        "{shown}"
    );
    until("the end of the child", || !runs(&child)).await;
}

#[tokio::test]
async fn jobs_end_with_their_session() {
    let fixture = fixture();
    fixture.start("echo $$ > id; sleep 60").await;
    let process = fixture.process("id").await;
    // Another session does not end them.
    drop(fixture.states.of_session("other"));
    assert!(runs(&process));
    drop(fixture.tools);
    until("the end of the job", || !runs(&process)).await;
}

#[tokio::test]
async fn close_ends_all_jobs_and_refuses_new_ones() {
    let fixture = fixture();
    fixture.start("echo $$ > id; sleep 60").await;
    let process = fixture.process("id").await;
    fixture.states.close().await;
    assert!(!runs(&process));
    let refused = json!({ "cmd": "touch made" });
    let shown = fixture.tools.fails("run_background_job", refused).await;
    assert!(shown.contains("the session is ending"), "{shown}");
    assert!(!fixture.tools.is_there("made"));
}

/// What a job started in the background ends with the job.
#[tokio::test]
async fn nothing_outlives_a_job() {
    let fixture = fixture();
    fixture
        .start("sh -c 'echo $$ > child; sleep 60' > log 2>&1 < /dev/null & while ! [ -s child ]; do sleep 0.01; done")
        .await;
    let shown = fixture.wait("job_1").await;
    assert!(shown.contains("completed (exit status 0)"), "{shown}");
    let child = fixture.process("child").await;
    until("the end of the child", || !runs(&child)).await;
}

#[tokio::test]
async fn output_is_bounded_and_the_loss_is_reported() {
    let settings = BackgroundJobsSettings {
        commands: CommandSettings {
            output_limit: 200,
            ..CommandSettings::default()
        },
        ..BackgroundJobsSettings::default()
    };
    let fixture = with(settings);
    fixture
        .start("echo begin; head -c 12000000 /dev/zero | tr '\\0' x; echo; echo end")
        .await;
    let shown = fixture.wait("job_1").await;
    assert!(
        shown.contains("\nbegin\n") && shown.ends_with("end\n"),
        "{shown}"
    );
    assert!(
        shown.contains("bytes left out") && shown.len() < 600,
        "{shown}"
    );
    let view = |offset: u64| {
        let arguments = json!({ "job_id": "job_1", "offset": offset });
        fixture.tools.done("view_background_job", arguments)
    };
    let part = view(6).await;
    assert!(
        part.contains("\nxxx") && part.contains("[bytes 6 to 206 of "),
        "{part}"
    );
    // 10 MiB are kept, and the notice between the first and the last part says what is missing.
    let kept: u64 = part
        .rsplit(' ')
        .next()
        .unwrap()
        .trim_end_matches(']')
        .parse()
        .unwrap();
    assert!((10 << 20..(10 << 20) + 500).contains(&kept), "{part}");
    let middle = view(kept / 2 - 100).await;
    assert!(middle.contains("bytes left out"), "{middle}");
}

#[tokio::test]
async fn environment_and_output_hold_no_secrets() {
    let mut fixture = fixture();
    let secret_set = SecretSet::with_key(DigestKey::new([3; 32]));
    secret_set.learn("swordfish");
    fixture.tools.context.secret_set = Arc::new(secret_set);
    fixture
        .start("echo sword''fish \"[$SERVICE_TOKEN]\" # swordfish")
        .await;
    let shown = fixture.wait("job_1").await;
    assert!(
        shown.contains("[]") && !shown.contains("swordfish"),
        "{shown}"
    );
    let listed = fixture.tools.done("list_background_jobs", json!({})).await;
    assert!(!listed.contains("swordfish"), "{listed}");
    let settings = BackgroundJobsSettings {
        commands: CommandSettings {
            pass: vec!["SERVICE_*".to_owned()],
            ..CommandSettings::default()
        },
        ..BackgroundJobsSettings::default()
    };
    let passing = with(settings);
    passing.start("echo [$SERVICE_TOKEN]").await;
    assert!(passing.wait("job_1").await.contains("[abc123]"));
}

#[tokio::test]
async fn an_end_is_announced_once_unless_the_model_has_seen_it() {
    let settings = BackgroundJobsSettings {
        recall: true,
        ..BackgroundJobsSettings::default()
    };
    let fixture = with(settings);
    let notices = || fixture.states.take_notices("main");
    fixture
        .start("while ! [ -e go ]; do sleep 0.01; done")
        .await;
    assert!(notices().is_empty(), "it is running");
    fixture.tools.write("go", "");
    let mut found = Vec::new();
    until("a notice", || {
        found = notices();
        !found.is_empty()
    })
    .await;
    assert!(
        found[0].starts_with("The background job job_1: completed (exit status 0) after "),
        "{found:?}"
    );
    assert!(notices().is_empty(), "it was announced");
    fixture.start("true").await;
    fixture.wait("job_2").await;
    assert!(notices().is_empty(), "the model has seen it");
    let recalled = json!({ "cmd": "echo hello", "recall": true });
    fixture.tools.done("run_background_job", recalled).await;
    until("a notice", || {
        found = notices();
        !found.is_empty()
    })
    .await;
    assert!(
        found[0].contains("job_3") && found[0].contains("Output:\nhello\n"),
        "{found:?}"
    );
}

#[tokio::test]
async fn job_is_declared_like_a_shell_command() {
    let fixture = fixture();
    let tool = |name: &str| Arc::clone(fixture.tools.registry.tool(name).unwrap());
    let run = tool("run_background_job");
    let arguments = object(json!({ "cmd": "rm -rf x", "cwd": "sub" }));
    assert_eq!(
        run.effects(&arguments, &fixture.tools.context),
        Effects::UNKNOWN
    );
    let access = run.resource_access(&arguments);
    assert_eq!(
        access.commands[0].text,
        CommandText::Line("rm -rf x".to_owned())
    );
    assert_eq!(
        access.commands[0].directory.as_deref(),
        Some("sub".as_ref())
    );
    for (name, read_only) in [
        ("run_background_job", false),
        ("list_background_jobs", true),
        ("view_background_job", true),
        ("stop_background_job", false),
        ("wait_background_job", true),
    ] {
        let tool = tool(name);
        assert_eq!(tool.metadata().read_only, read_only, "{name}");
        let parameters = tool.metadata().parameters.schema().into_owned();
        assert_eq!(parameters["properties"].get("recall"), None, "{name}");
    }
}

/// A layer over file tools and jobs, and a file in its workspace.
fn cached() -> (CacheFixture, SessionStates) {
    let states = SessionStates::default();
    let builder = CacheFixtureBuilder::with(on());
    let state = states.of_session("main");
    let settings = BackgroundJobsSettings {
        commands: CommandSettings {
            environment: environment()
                .into_iter()
                .map(|(name, value)| (name, cachalot_core::Secret::new(value)))
                .collect(),
            ..CommandSettings::default()
        },
        ..BackgroundJobsSettings::default()
    };
    let mut tools = files();
    tools.extend(background_jobs(settings, &state, &builder.write_notifier).unwrap());
    let fixture = builder.over(&Registry::new(tools).unwrap());
    fixture.write("a.txt", "one\n");
    (fixture, states)
}

async fn how(fixture: &CacheFixture, tool: &str, arguments: Value) -> String {
    fixture.call(tool, arguments).await.outcome.to_string()
}

#[tokio::test]
async fn no_result_is_served_from_the_start_to_the_end_of_a_job() {
    let (fixture, _states) = cached();
    let read = || how(&fixture, "read_file", json!({ "path": "a.txt" }));
    assert_eq!(read().await, "ran");
    assert_eq!(read().await, "hit");
    let cmd = "while ! [ -e go ]; do sleep 0.01; done; echo two > a.txt";
    fixture
        .call("run_background_job", json!({ "cmd": cmd }))
        .await;
    for _ in 0..3 {
        assert_eq!(read().await, "ran", "the job may write at any time");
    }
    fixture.write("go", "");
    fixture
        .call("wait_background_job", json!({ "job_id": "job_1" }))
        .await;
    let after = fixture.call("read_file", json!({ "path": "a.txt" })).await;
    assert_eq!(after.outcome.to_string(), "ran");
    assert!(text(&after).contains("two"));
    assert_eq!(read().await, "hit", "the job has ended");
}

#[tokio::test]
async fn stopped_and_failed_jobs_end_their_write() {
    let (fixture, states) = cached();
    let read = || how(&fixture, "read_file", json!({ "path": "a.txt" }));
    read().await;
    fixture
        .call("run_background_job", json!({ "cmd": "sleep 60" }))
        .await;
    assert_eq!(read().await, "ran");
    fixture
        .call("stop_background_job", json!({ "job_id": "job_1" }))
        .await;
    assert_eq!(
        (read().await, read().await),
        ("ran".to_owned(), "hit".to_owned())
    );
    // A job that cannot start.
    let refused = json!({ "cmd": "true", "cwd": "missing" });
    assert!(
        fixture
            .call("run_background_job", refused)
            .await
            .output
            .is_error
    );
    assert_eq!(
        (read().await, read().await),
        ("ran".to_owned(), "hit".to_owned())
    );
    fixture
        .call("run_background_job", json!({ "cmd": "sleep 60" }))
        .await;
    states.close().await;
    assert_eq!(
        (read().await, read().await),
        ("ran".to_owned(), "hit".to_owned())
    );
}

#[tokio::test]
async fn the_number_of_running_jobs_is_bounded() {
    let fixture = fixture();
    for _ in 0..16 {
        fixture.start("sleep 60").await;
    }
    let one_more = json!({ "cmd": "true" });
    let shown = fixture.tools.fails("run_background_job", one_more).await;
    assert!(shown.contains("16 background jobs are running"), "{shown}");
    let closed = tokio::time::timeout(Duration::from_secs(20), fixture.states.close());
    closed.await.unwrap();
}
