//! Readers and writers at the same time: whatever is answered was true at some moment between the
//! beginning and the end of the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cachalot_tools::cached::WriteNotifier;
use cachalot_tools::{CallOutcome, ToolCall, ToolCallResult, Toolbox as _};
use serde_json::{Value, json};

use super::random::Random;
use super::{from_environment, registry};
use crate::cached::cache_fixture::{CacheFixture, CacheFixtureBuilder, on, text};

/// Files, each with a writer of its own, which counts up in it.
const FILES: usize = 6;

/// The versions of a file.
#[derive(Default)]
struct Versions {
    /// The last version whose writing has begun.
    begun: AtomicU64,
    /// The last version whose writing has ended.
    ended: AtomicU64,
}

struct ConcurrentFiles {
    /// Two layers over the same files.
    layers: [CacheFixture; 2],
    home: tempfile::TempDir,
    versions: Vec<Versions>,
    over: AtomicBool,
}

fn name(file: usize) -> String {
    format!("dir{}/file{file}.txt", file % 2)
}

/// The same length for every version.
fn content(file: usize, version: u64) -> String {
    format!("file {file} version {version:09}\n")
}

/// The versions that a result shows: of which file, and which.
fn shown(text: &str) -> Vec<(usize, u64)> {
    text.split("file ")
        .skip(1)
        .filter_map(|rest| {
            let (file, rest) = rest.split_once(" version ")?;
            let version = rest.get(..9)?;
            Some((file.parse().ok()?, version.parse().ok()?))
        })
        .collect()
}

impl ConcurrentFiles {
    fn new() -> Arc<Self> {
        let write_notifier = WriteNotifier::new();
        let layers = [(); 2].map(|()| {
            let mut cache_fixture_builder = CacheFixtureBuilder::with(on());
            cache_fixture_builder.write_notifier = write_notifier.clone();
            cache_fixture_builder.over(&registry())
        });
        let home = tempfile::tempdir().unwrap();
        for directory in ["dir0", "dir1"] {
            std::fs::create_dir(home.path().join(directory)).unwrap();
        }
        for file in 0..FILES {
            std::fs::write(home.path().join(name(file)), content(file, 0)).unwrap();
        }
        Arc::new(Self {
            layers,
            home,
            versions: (0..FILES).map(|_| Versions::default()).collect(),
            over: AtomicBool::new(false),
        })
    }

    async fn call(
        &self,
        layer: usize,
        session: &str,
        tool: &str,
        arguments: &Value,
    ) -> ToolCallResult {
        let cache_fixture = &self.layers[layer];
        let batch = cache_fixture.batch_in(self.home.path(), session, &[]);
        let call = ToolCall {
            id: "id".into(),
            name: tool.into(),
            arguments: arguments.to_string(),
        };
        let prepared = cache_fixture.tools.prepare(call);
        cache_fixture
            .tools
            .run(vec![prepared], &batch)
            .await
            .remove(0)
    }

    /// Increments the version of a file until all readers are done: by a tool, or from outside.
    async fn write(self: Arc<Self>, file: usize) {
        let mut random = Random::new(file as u64);
        for version in 1.. {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let versions = &self.versions[file];
            versions.begun.store(version, Ordering::SeqCst);
            let text = content(file, version);
            match file % 3 {
                0 => {
                    let arguments = json!({"path": name(file), "content": text});
                    let answer = self
                        .call(file % 2, "writer", "write_file", &arguments)
                        .await;
                    assert!(!answer.output.is_error, "{answer:?}");
                }
                1 => {
                    let arguments = json!({
                        "path": name(file), "old_text": content(file, version - 1).trim_end(),
                        "new_text": text.trim_end(),
                    });
                    let answer = self.call(file % 2, "writer", "edit_file", &arguments).await;
                    assert!(!answer.output.is_error, "{answer:?}");
                }
                _ => {
                    let path = self.home.path().join(name(file));
                    let beside = path.with_extension("beside");
                    std::fs::write(&beside, text).unwrap();
                    std::fs::rename(&beside, &path).unwrap();
                }
            }
            versions.ended.store(version, Ordering::SeqCst);
            // Now in quick succession, now with time for hits in between.
            for _ in 0..random.below(300) {
                tokio::task::yield_now().await;
            }
            if random.permille(200) {
                tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            }
        }
    }

    /// Reads and checks; how many were answered without running a tool.
    async fn read(self: Arc<Self>, reader: u64, reads: usize) -> usize {
        let mut random = Random::new(1_000 + reader);
        let mut answered = 0;
        for _ in 0..reads {
            let file = random.below(FILES);
            let directory = format!("dir{}", file % 2);
            let (tool, arguments) = match random.below(8) {
                0 => ("grep", json!({"pattern": "version", "path": directory})),
                _ => ("read_file", json!({"path": name(file)})),
            };
            let before: Vec<u64> = self
                .versions
                .iter()
                .map(|versions| versions.ended.load(Ordering::SeqCst))
                .collect();
            let session = *random.pick(&["one", "other"]);
            let layer = random.below(2);
            let answer = self.call(layer, session, tool, &arguments).await;
            if answer.output.is_error {
                // A file that is replaced while it is opened is said to be restless.
                continue;
            }
            let versions = shown(&text(&answer));
            assert!(tool == "grep" || versions.len() == 1, "{answer:?}");
            for (file, version) in versions {
                let last = self.versions[file].begun.load(Ordering::SeqCst);
                assert!(
                    (before[file]..=last).contains(&version),
                    "{tool}: file {file} was shown in version {version} ({:?}), but it had {} before and {last} after",
                    answer.outcome,
                    before[file],
                );
            }
            answered += usize::from(!matches!(answer.outcome, CallOutcome::Ran(_)));
            if random.permille(100) {
                tokio::task::yield_now().await;
            }
        }
        answered
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_answer_was_current_at_some_time_of_its_call() {
    let steps =
        from_environment("CACHALOT_TEST_STEPS").map_or(super::STEPS, |steps| steps as usize);
    let concurrent_files = ConcurrentFiles::new();
    let writing: Vec<_> = (0..FILES)
        .map(|file| tokio::spawn(Arc::clone(&concurrent_files).write(file)))
        .collect();
    let reads = (steps / 50).max(200);
    let reading: Vec<_> = (0..6)
        .map(|reader| tokio::spawn(Arc::clone(&concurrent_files).read(reader, reads)))
        .collect();
    let mut answered = 0;
    for one in reading {
        answered += one.await.unwrap();
    }
    concurrent_files.over.store(true, Ordering::SeqCst);
    for one in writing {
        one.await.unwrap();
    }
    assert!(
        answered * 20 >= 6 * reads,
        "{answered} of {} without running",
        6 * reads
    );
}
