//! The story's agents, unchanged, against a local stand-in for LlamaCloud.

use serde_json::json;

use crate::stand_ins::LlamaCloud;
use crate::support::{Home, Ran};

const EXTRACTION: &str = include_str!("../../../../examples/story/document_extraction.yaml");
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

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.home.command(arguments);
        command
            .env("LLAMA_CLOUD_API_KEY", KEY)
            .env("LLAMA_CLOUD_BASE_URL", self.cloud.base_url());
        Ran::from(command.output().unwrap())
    }

    fn extract(&self, file: &str) -> Ran {
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
fn extraction_is_paid_once_until_the_management_agent_forgets_it() {
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
fn the_service_key_is_written_nowhere() {
    let story = Story::begin();
    story.extract("invoice.txt").ok();
    for (path, bytes) in story.home.files() {
        let found = bytes
            .windows(KEY.len())
            .any(|window| window == KEY.as_bytes());
        assert!(!found, "{} holds the key", path.display());
    }
}
