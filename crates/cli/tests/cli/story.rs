//! The story's agents, unchanged, against local stand-ins for LlamaCloud and OpenAI.

use serde_json::json;

use crate::fakes::{LlamaCloud, Provider};
use crate::support::{CommandOutput, Home};

const EXTRACTION: &str = include_str!("../../../../examples/story/document_extraction.yaml");
const TRANSLATION: &str = include_str!("../../../../examples/story/cached_llm_agent.yaml");
const MANAGEMENT: &str = include_str!("../../../../examples/story/cache_management.yaml");
const KEY: &str = "llx-test-key-0123456789";

struct Story {
    home: Home,
    cloud: LlamaCloud,
}

impl Story {
    fn begin() -> Self {
        let home = Home::new();
        home.write("extraction.yaml", EXTRACTION);
        home.write("management.yaml", MANAGEMENT);
        home.write("invoice.txt", "Invoice 17: 3 whales, 42.50");
        let cloud = LlamaCloud::start(KEY).agent("invoices", json!({"number": 17, "total": 42.5}));
        Self { home, cloud }
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.home.command(arguments);
        command
            .env("LLAMA_CLOUD_API_KEY", KEY)
            .env("LLAMA_CLOUD_BASE_URL", self.cloud.base_url());
        CommandOutput::from(command.output().unwrap())
    }

    fn extract(&self, file: &str) -> CommandOutput {
        let file = format!("file_path={file}");
        self.run(&[
            "run",
            "extraction.yaml",
            "-i",
            &file,
            "-i",
            "agent_name=invoices",
        ])
    }
}

#[test]
fn extraction_is_paid_once_until_it_is_invalidated() {
    let story = Story::begin();
    let first = story.extract("invoice.txt").ok();
    assert_eq!(
        first.json()["data"],
        json!({"number": 17, "total": 42.5}),
        "{first}"
    );
    assert!(
        first
            .stderr
            .contains("Cache miss - fresh extraction performed"),
        "{first}"
    );
    let second = story.extract("invoice.txt").ok();
    assert_eq!(second.json()["data"], first.json()["data"]);
    assert!(
        second.stderr.contains("Cache hit! Created at: "),
        "{second}"
    );
    assert_eq!(story.cloud.started(), 1);

    // The same content under another name is the same document.
    std::fs::copy(story.home.join("invoice.txt"), story.home.join("copy.txt")).unwrap();
    story.extract("copy.txt").ok();
    assert_eq!(story.cloud.started(), 1);

    let managed = story.run(&["run", "management.yaml"]).ok();
    assert_eq!(managed.json()["deleted"], 1, "{managed}");
    let third = story.extract("invoice.txt").ok();
    assert!(third.stderr.contains("Cache miss"), "{third}");
    assert_eq!(story.cloud.started(), 2);
}

#[test]
fn a_changed_document_is_extracted_again() {
    let story = Story::begin();
    story.extract("invoice.txt").ok();
    story
        .home
        .write("invoice.txt", "Invoice 18: 3 whales, 42.50");
    story.extract("invoice.txt").ok();
    assert_eq!(story.cloud.started(), 2);
}

#[test]
fn service_key_is_written_to_no_file() {
    let story = Story::begin();
    story.extract("invoice.txt").ok();
    for (path, bytes) in story.home.files() {
        let found = bytes
            .windows(KEY.len())
            .any(|window| window == KEY.as_bytes());
        assert!(!found, "{} holds the key", path.display());
    }
}

/// The translation agent of the story, with nothing but the environment to say where the model is.
fn translate(home: &Home, provider: &Provider, arguments: &[&str]) -> CommandOutput {
    home.write("translation.yaml", TRANSLATION);
    let arguments = [
        &[
            "run",
            "translation.yaml",
            "-i",
            "target_language=French",
            "-i",
            "text=The whale dives.",
        ],
        arguments,
    ]
    .concat();
    let mut command = home.command(&arguments);
    command.envs(provider.environment());
    CommandOutput::from(command.output().unwrap())
}

#[test]
fn translation_is_paid_once_and_reports_savings() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let first = translate(&home, &provider, &["-v"]).ok();
    let result = &first.json()["translation_result"];
    assert_eq!(
        result["result"]["content"],
        "[simulated French] The whale dives."
    );
    assert_eq!(
        (&result["_cache_hit"], &result["_cache_stored"]),
        (&json!(false), &json!(true))
    );
    let cost = result["result"]["cost"].as_f64().unwrap();
    assert!(cost > 0.0);
    assert!(first.stderr.contains("miss"), "{first}");

    let second = translate(&home, &provider, &["-v"]).ok();
    let again = &second.json()["translation_result"];
    assert_eq!(again["_cache_hit"], true, "{second}");
    assert_eq!(again["result"], result["result"]);
    assert!(second.stderr.contains("hit"), "{second}");
    let (paid, saved) = second.stderr.split_once(" · saved ").unwrap();
    assert!(
        paid.contains("paid 0 calls") && !paid.contains('$'),
        "{second}"
    );
    assert!(saved.contains('$') && saved.contains("token"), "{second}");
    assert_eq!(provider.requests(), 1);

    // The report has the figures.
    let report = translate(&home, &provider, &["--json"]).ok().json()["report"].clone();
    assert_eq!(report["paid"]["calls"], 0, "{report}");
    assert_eq!(report["saved"]["dollars"].as_f64(), Some(cost), "{report}");

    // Another language is another call; without the cache, the same is paid again.
    let fresh = translate(&home, &provider, &["-i", "target_language=German"]).ok();
    assert_eq!(fresh.json()["translation_result"]["_cache_hit"], false);
    translate(&home, &provider, &["--refresh"]).ok();
    assert_eq!(provider.requests(), 3);

    // What is known needs no key and no provider.
    let alone = home.run(&[
        "run",
        "translation.yaml",
        "--frozen",
        "-i",
        "target_language=French",
        "-i",
        "text=The whale dives.",
    ]);
    assert_eq!(
        alone.code,
        Some(1),
        "the address of the provider is in the key: {alone}"
    );
}

#[test]
fn an_unreachable_model_fails_the_run_and_stores_nothing() {
    let home = Home::new();
    let provider = Provider::built_in();
    let url = provider.environment();
    drop(provider);
    home.write("translation.yaml", TRANSLATION);
    let mut command = home.command(&[
        "run",
        "translation.yaml",
        "-i",
        "target_language=French",
        "-i",
        "text=x",
    ]);
    let failed = CommandOutput::from(command.envs(&url).output().unwrap()).fails(1);
    assert!(failed.stderr.contains("connection_error"), "{failed}");
    let mut command = home.command(&[
        "run",
        "translation.yaml",
        "-i",
        "target_language=French",
        "-i",
        "text=x",
    ]);
    let keyless = CommandOutput::from(command.output().unwrap()).fails(1);
    assert!(
        keyless
            .stderr
            .contains("the environment variable OPENAI_API_KEY is not set"),
        "{keyless}"
    );
}

#[test]
fn provider_key_is_written_to_no_file() {
    let (home, provider) = (Home::new(), Provider::built_in());
    translate(&home, &provider, &[]).ok();
    let key = crate::fakes::provider::KEY;
    for (path, bytes) in home.files() {
        let found = bytes
            .windows(key.len())
            .any(|window| window == key.as_bytes());
        assert!(!found, "{} holds the key", path.display());
    }
}
