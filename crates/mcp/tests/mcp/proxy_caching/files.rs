//! Answers that depend on files of this machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cachalot_core::ManualClock;
use cachalot_mcp::relay::Frame;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fake::{FakeServer, Proxy, engine, is_served, read_only, tools, value};
use crate::cache_fixture::START;

type Change = Box<dyn FnOnce() + Send>;

/// A server whose tool `read` returns the content of a file, and a proxy with a policy for it.
struct Files {
    home: TempDir,
    proxy: Proxy,
    /// What happens in the middle of the next call: before the server reads, and after it.
    during: Arc<Mutex<Option<(Change, Change)>>>,
}

fn read_everything(path: &Path) -> String {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        let texts = entries
            .iter()
            .map(|path| format!("{}: {}", path.display(), read_everything(path)));
        return texts.collect::<Vec<_>>().join("\n");
    }
    std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
}

impl Files {
    fn new(policy: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().canonicalize().unwrap();
        let during: Arc<Mutex<Option<(Change, Change)>>> = Arc::default();
        let (changes, base) = (Arc::clone(&during), directory.clone());
        let listed = tools(&[("read", read_only()), ("get_file_info", read_only())]);
        let server = FakeServer::new(listed, move |request, _, sender| {
            let params: Value = serde_json::from_str(request.params().unwrap()).unwrap();
            let path = base.join(params["arguments"]["path"].as_str().unwrap_or("config"));
            let during = changes.lock().unwrap().take();
            let (before, after) = during.unzip();
            before.into_iter().for_each(|change| change());
            let text = read_everything(&path);
            after.into_iter().for_each(|change| change());
            let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
            let response = Frame::response(request.id().unwrap(), &result);
            Box::pin(async move {
                sender.send(response);
            })
        });
        let clock = Arc::new(ManualClock::at(START));
        let cache = engine(&clock);
        let proxy = Proxy::over(&server, policy, &cache, &clock, &directory);
        Self {
            home,
            proxy,
            during,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file that is old enough for its times to be trusted.
    fn write(&self, name: &str, text: &str) {
        write_old(&self.path(name), text);
    }

    /// Calls the tool, and returns the text and true if it was served.
    async fn read(&self, path: &str) -> (String, bool) {
        let answer = self
            .proxy
            .call("read", &json!({"path": path}).to_string())
            .await;
        let value = value(&answer);
        let text = value["result"]["content"][0]["text"].as_str().unwrap();
        (text.to_owned(), is_served(&answer))
    }

    /// Reads until the answer is served.
    async fn settle(&self, path: &str) -> String {
        for _ in 0..200 {
            let (text, is_served) = self.read(path).await;
            if is_served {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it is never stored");
    }
}

/// Writes a file with the time of change of a day ago.
fn write_old(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let day_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.set_modified(day_ago).unwrap();
}

const POLICY: &str = "{relative_to: '.', tools: {read: {paths: {path: file}}}}";

#[tokio::test]
async fn a_file_edited_with_equal_size_and_time_is_never_served_stale() {
    let files = Files::new(POLICY);
    files.write("a", "one");
    let path = files.path("a").display().to_string();
    assert_eq!(files.settle(&path).await, "one");
    for text in ["two", "six", "ten"] {
        files.write("a", text);
        assert_eq!(files.read(&path).await, (text.to_owned(), false));
        assert_eq!(files.settle(&path).await, text);
    }
    std::fs::remove_file(files.path("a")).unwrap();
    assert!(!files.read(&path).await.1);
}

#[tokio::test]
async fn a_file_edited_during_a_call_is_not_stored() {
    let files = Files::new(POLICY);
    files.write("a", "one");
    let path = files.path("a");
    let edit = |text: &'static str| -> Change {
        let path = path.clone();
        Box::new(move || write_old(&path, text))
    };
    let name = path.display().to_string();
    // Before the server reads, after it has read, and back again.
    for (before, after, answer, content) in [
        (Some("two"), None, "two", "two"),
        (None, Some("six"), "two", "six"),
        (Some("ten"), Some("six"), "ten", "six"),
    ] {
        let change =
            |text: Option<&'static str>| text.map_or_else(|| Box::new(|| {}) as Change, edit);
        // Old enough that the change before the call is not the reason.
        tokio::time::sleep(Duration::from_millis(120)).await;
        *files.during.lock().unwrap() = Some((change(before), change(after)));
        // The file is not what a stored answer was built from.
        let arguments = json!({"path": name, "n": answer}).to_string();
        let first = files.proxy.call("read", &arguments).await;
        assert_eq!(value(&first)["result"]["content"][0]["text"], answer);
        let second = files.proxy.call("read", &arguments).await;
        assert_eq!(value(&second)["result"]["content"][0]["text"], content);
        assert!(!is_served(&second), "{before:?} {after:?}");
    }
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_is_a_miss() {
    let files = Files::new(POLICY);
    files.write("one", "same");
    files.write("two", "same");
    let link = files.path("link");
    std::os::unix::fs::symlink(files.path("one"), &link).unwrap();
    let name = link.display().to_string();
    files.settle(&name).await;
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(files.path("two"), &link).unwrap();
    assert!(!files.read(&name).await.1);
}

#[tokio::test]
async fn a_tree_is_watched_as_a_whole_and_a_relative_path_starts_where_the_policy_says() {
    let files = Files::new("{relative_to: '.', tools: {read: {paths: {path: tree}}}}");
    std::fs::create_dir_all(files.path("tree/deep")).unwrap();
    files.write("tree/deep/f", "one");
    assert!(files.settle("tree").await.contains("one"));
    files.write("tree/deep/f", "two");
    let (text, is_served) = files.read("tree").await;
    assert!(text.contains("two") && !is_served);
    files.settle("tree").await;
    files.write("tree/new", "");
    assert!(!files.read("tree").await.1);
}

#[tokio::test]
async fn calls_whose_files_are_not_known_are_not_stored() {
    let policy =
        "{tools: {read: {ttl: 1h, paths: {path: file}}, get_file_info: {paths: {path: file}}}}";
    let files = Files::new(policy);
    files.write("a", "one");
    tokio::time::sleep(Duration::from_millis(120)).await;
    for path in ["a", "~/a", "../a"] {
        for _ in 0..2 {
            assert!(!files.read(path).await.1, "{path}");
        }
    }
    let path = files.path("a").display().to_string();
    let arguments = json!({ "path": path }).to_string();
    for _ in 0..2 {
        // It tells times that change without the content.
        assert!(!is_served(
            &files.proxy.call("get_file_info", &arguments).await
        ));
        assert!(!is_served(&files.proxy.call("read", "{}").await));
    }
}

#[tokio::test]
async fn further_files_of_the_policy_are_watched() {
    let files = Files::new("{tools: {read: {also: {config: file}}}}");
    files.write("config", "one");
    let read = || async { files.proxy.call("read", "{}").await };
    tokio::time::sleep(Duration::from_millis(120)).await;
    read().await;
    assert!(is_served(&read().await));
    files.write("config", "two");
    let answer = read().await;
    assert!(!is_served(&answer));
    assert_eq!(value(&answer)["result"]["content"][0]["text"], "two");
}

/// Writes a version in place, or in place of the file; size and time of change are always the same.
fn write_version(path: &Path, version: u64) {
    use std::io::Write as _;
    let text = format!("{version:08}");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    if version.is_multiple_of(2) {
        let mut file = std::fs::File::options().write(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_modified(time).unwrap();
    } else {
        let next = path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        let file = std::fs::File::options().write(true).open(&next).unwrap();
        file.set_modified(time).unwrap();
        std::fs::rename(&next, path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_a_state_that_the_file_had_during_the_call() {
    let files = Files::new(POLICY);
    let path = files.path("a");
    std::fs::write(&path, "00000000").unwrap();
    // The versions whose writing has begun and ended.
    let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (begun, ended, path) = (Arc::clone(&begun), Arc::clone(&ended), path.clone());
        std::thread::spawn(move || {
            for version in 1..=240 {
                begun.store(version, Ordering::SeqCst);
                write_version(&path, version);
                ended.store(version, Ordering::SeqCst);
                // In some pauses, an answer is stored and served.
                let pause = if version % 40 == 0 { 150 } else { version % 4 };
                std::thread::sleep(Duration::from_millis(pause));
            }
        })
    };
    let name = path.display().to_string();
    let mut served = 0;
    while !writer.is_finished() {
        let before = ended.load(Ordering::SeqCst);
        let (text, is_served) = files.read(&name).await;
        let after = begun.load(Ordering::SeqCst);
        let version: u64 = text.parse().unwrap();
        assert!(
            (before..=after).contains(&version),
            "{before} {version} {after} {is_served}"
        );
        served += u32::from(is_served);
    }
    writer.join().unwrap();
    let last = ended.load(Ordering::SeqCst);
    assert_eq!(files.settle(&name).await, format!("{last:08}"));
    assert!(served > 0);
}
