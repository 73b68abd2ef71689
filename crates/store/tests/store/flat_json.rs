//! The flat JSON file of the response cache.

mod processes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use cachalot_store::flat_json::{FlatJsonFile, MAX_ENTRY_BYTES};
use cachalot_store::{Error, ErrorKind};

use crate::run;

fn open(path: &Path) -> Result<FlatJsonFile, Error> {
    open_for(path, Duration::from_secs(20))
}

fn open_for(path: &Path, lock_timeout: Duration) -> Result<FlatJsonFile, Error> {
    FlatJsonFile::open(path, lock_timeout)
}

fn store(file: &FlatJsonFile, question: &str, answer: &str) -> Result<(), Error> {
    run(file.put(question, answer))
}

fn answer(file: &FlatJsonFile, question: &str) -> Option<String> {
    file.get(question).unwrap()
}

/// The questions in the file, in its order.
fn questions(path: &Path) -> Vec<String> {
    let text = fs::read(path).unwrap();
    let entries: BTreeMap<String, String> = serde_json::from_slice(&text).unwrap();
    entries.into_keys().collect()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("answers.json");
    (directory, path)
}

/// The file, put where it is as editors and other runtimes do.
fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("aside");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, path).unwrap();
}

#[test]
fn persists() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "what is \"it\"?", "a <whale>\n🐳").unwrap();
    store(&memory, "a question", "an answer").unwrap();
    let reopened = open(&path).unwrap();
    assert_eq!(
        answer(&reopened, "what is \"it\"?").unwrap(),
        "a <whale>\n🐳"
    );
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"a question\": \"an answer\",\n  \"what is \\\"it\\\"?\": \"a <whale>\\n🐳\"\n}"
    );
}

#[test]
fn docker_agent_file_is_read() {
    let (_directory, path) = place();
    fs::write(
        &path,
        "{\n  \"how big\": \"20 \\u003c m\",\n  \"why\": \"\"\n}\n",
    )
    .unwrap();
    let memory = open(&path).unwrap();
    assert_eq!(answer(&memory, "how big").unwrap(), "20 < m");
    assert_eq!(answer(&memory, "why").unwrap(), "");
    assert_eq!(answer(&memory, "How big"), None);
}

#[test]
fn overwrite() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "1").unwrap();
    store(&memory, "q", "2").unwrap();
    assert_eq!(answer(&memory, "q").unwrap(), "2");
    assert_eq!(answer(&open(&path).unwrap(), "q").unwrap(), "2");
}

#[test]
fn dedup_skips_redundant_write() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    let handle = fs::File::open(&path).unwrap();
    let before = handle.metadata().unwrap();
    store(&memory, "q", "a").unwrap();
    store(&open(&path).unwrap(), "q", "a").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        // The handle is still open: no new file could have that number.
        assert_eq!(before.ino(), after.ino());
    }
}

#[test]
fn missing_file_is_fine() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    assert_eq!(answer(&memory, "q"), None);
    run(memory.remove("q")).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn empty_file_is_fine() {
    let (_directory, path) = place();
    fs::write(&path, "").unwrap();
    let memory = open(&path).unwrap();
    assert_eq!(answer(&memory, "q"), None);
    store(&memory, "q", "a").unwrap();
    assert_eq!(answer(&open(&path).unwrap(), "q").unwrap(), "a");
}

#[test]
fn corrupt_file_is_an_error_that_names_place_and_remedy() {
    let (_directory, path) = place();
    for (text, said) in [
        ("{\n  \"q\": \"a\",\n", "line 3"),
        ("{\"q\": 5}", "the answer to `q` is no text"),
        ("{\"q\": null}", "`q` is no text"),
        ("{\"q\": \"a\", \"q\": \"b\"}", "`q` is there twice"),
        ("[]", "an object of questions and answers"),
        ("SQLite format 3\0", "line 1"),
        ("{\"q\": \"\u{fffd}", "EOF"),
    ] {
        fs::write(&path, text).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{text}");
        for part in [said, "answers.json", "move it away"] {
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
    fs::write(&path, b"{\"q\": \"\xff\"}").unwrap();
    assert_eq!(open(&path).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn file_that_becomes_corrupt_is_not_served_or_overwritten() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    replace(&path, "{\"q\": ");
    assert_eq!(memory.get("q").unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(
        store(&memory, "other", "b").unwrap_err().kind,
        ErrorKind::Corrupt
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"q\": ");
    replace(&path, "{\"q\": \"repaired\"}");
    assert_eq!(answer(&memory, "q").unwrap(), "repaired");
    assert_eq!(answer(&memory, "other").unwrap(), "b");
}

#[test]
fn invalid_path_is_an_error() {
    let (directory, path) = place();
    assert_eq!(
        open(directory.path()).unwrap_err().kind,
        ErrorKind::Unavailable
    );
    fs::write(&path, "{}").unwrap();
    let error = open(&path.join("answers.json")).unwrap_err();
    assert!(error.message.contains("answers.json"), "{}", error.message);
}

/// B12: what could not be written is neither forgotten with the next reload nor lost to the file.
#[test]
fn persistence_failure_keeps_in_memory() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    let lock = directory.path().join("answers.json.lock");
    fs::create_dir(&lock).unwrap();
    let error = store(&memory, "mine", "kept").unwrap_err();
    assert!(error.message.contains("answers.json"), "{}", error.message);
    assert_eq!(answer(&memory, "mine").unwrap(), "kept");
    assert_eq!(answer(&open(&path).unwrap(), "mine"), None);
    replace(&path, "{\"theirs\": \"read\"}");
    assert_eq!(answer(&memory, "theirs").unwrap(), "read");
    assert_eq!(answer(&memory, "mine").unwrap(), "kept");
    fs::remove_dir(&lock).unwrap();
    store(&memory, "next", "written").unwrap();
    assert_eq!(questions(&path), ["mine", "next", "theirs"]);
}

#[test]
fn unwritten_answer_is_replaced_by_a_newer_one_in_the_file() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "old").unwrap();
    let lock = directory.path().join("answers.json.lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    store(&memory, "q", "kept").unwrap_err();
    store(&memory, "gone", "kept").unwrap_err();
    assert_eq!(answer(&memory, "q").unwrap(), "kept");
    replace(&path, "{\"q\": \"newer\"}");
    assert_eq!(answer(&memory, "q").unwrap(), "newer");
    fs::remove_dir(&lock).unwrap();
    assert_eq!(answer(&memory, "gone").unwrap(), "kept");
    run(memory.remove("gone")).unwrap();
    assert_eq!(answer(&memory, "gone"), None);
    store(&memory, "next", "x").unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"next\": \"x\",\n  \"q\": \"newer\"\n}"
    );
}

#[cfg(unix)]
#[test]
fn files_are_private_and_no_temporary_files_remain() {
    use std::os::unix::fs::PermissionsExt as _;
    let (directory, _) = place();
    let path = directory.path().join("deep/er/answers.json");
    let memory = open(&path).unwrap();
    for number in 0..5 {
        store(&memory, &format!("q{number}"), "a").unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut names = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["answers.json", "answers.json.lock"]);
    for made in ["deep", "deep/er"] {
        assert_eq!(mode(&directory.path().join(made)), 0o700);
    }
}

#[cfg(unix)]
#[test]
fn link_to_the_file_is_kept() {
    let (directory, path) = place();
    let real = directory.path().join("real.json");
    fs::write(&real, "{\"a\": \"1\"}").unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    let memory = open(&path).unwrap();
    store(&memory, "b", "2").unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(questions(&real), ["a", "b"]);
}

#[test]
fn lock_file_never_deleted() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    let lock = directory.path().join("answers.json.lock");
    let held = fs::File::open(&lock).unwrap();
    run(memory.remove("q")).unwrap();
    store(&memory, "q", "b").unwrap();
    drop(memory);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(
            fs::metadata(&lock).unwrap().ino(),
            held.metadata().unwrap().ino()
        );
    }
    assert!(lock.exists() && held.metadata().unwrap().len() == 0);
}

/// B11: a held lock costs a bounded time, and blocks no other work and no lookup.
#[test]
fn held_lock_blocks_a_store_for_a_bounded_time_only() {
    let (directory, path) = place();
    let memory = open_for(&path, Duration::from_millis(200)).unwrap();
    store(&memory, "before", "a").unwrap();
    let lock = fs::File::open(directory.path().join("answers.json.lock")).unwrap();
    lock.lock().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let began = Instant::now();
    let (stored, ticks) = runtime.block_on(async {
        let storing = memory.put("q", "a");
        tokio::pin!(storing);
        let mut ticks = 0;
        loop {
            tokio::select! {
                stored = &mut storing => break (stored, ticks),
                () = tokio::time::sleep(Duration::from_millis(5)) => {
                    ticks += 1;
                    assert_eq!(answer(&memory, "before").unwrap(), "a");
                }
            }
        }
    });
    let error = stored.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.is_retryable());
    assert!(
        error.message.contains("answers.json.lock"),
        "{}",
        error.message
    );
    assert!(ticks > 5, "{ticks} ticks");
    assert!(began.elapsed() < Duration::from_secs(60));
    lock.unlock().unwrap();
    store(&memory, "q2", "a").unwrap();
    assert_eq!(questions(&path), ["before", "q", "q2"]);
}

#[test]
fn lookup_reloads_after_external_write() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    replace(&path, "{\"q\": \"b\", \"r\": \"c\"}");
    assert_eq!(answer(&memory, "q").unwrap(), "b");
    assert_eq!(answer(&memory, "r").unwrap(), "c");
    fs::remove_file(&path).unwrap();
    assert_eq!(answer(&memory, "q"), None);
}

/// B11: neither the time nor the size of the file tells that it is another one.
#[test]
fn writes_in_the_same_tick_are_seen() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    let at = SystemTime::now() - Duration::from_secs(3600);
    for number in 0..50 {
        let text = format!("{{\"q\": \"{number:03}\"}}");
        // In place, and in its place.
        match number % 2 {
            0 => fs::write(&path, &text).unwrap(),
            _ => replace(&path, &text),
        }
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(at)
            .unwrap();
        assert_eq!(answer(&memory, "q").unwrap(), format!("{number:03}"));
    }
}

/// B1, #3928: a store adopts what others have written.
#[test]
fn store_adopts_sibling_entries() {
    let (_directory, path) = place();
    let (first, second) = (open(&path).unwrap(), open(&path).unwrap());
    store(&first, "a", "1").unwrap();
    store(&second, "b", "2").unwrap();
    store(&first, "c", "3").unwrap();
    assert_eq!(questions(&path), ["a", "b", "c"]);
    for memory in [&first, &second] {
        for (question, stored) in [("a", "1"), ("b", "2"), ("c", "3")] {
            assert_eq!(answer(memory, question).unwrap(), stored);
        }
    }
}

/// B14: who has the old file open does not hinder the rename, and still reads a whole file.
#[test]
fn reader_does_not_block_a_store() {
    use std::io::Read as _;
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "old").unwrap();
    let mut reader = fs::File::open(&path).unwrap();
    store(&memory, "q", "new").unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\n  \"q\": \"old\"\n}");
}

#[test]
fn concurrent_store_never_yields_torn_file() {
    let (_directory, path) = place();
    let long = "x".repeat(50_000);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (path, long) = (&path, &long);
                scope.spawn(move || {
                    let memory = open(path).unwrap();
                    for number in 0..8 {
                        store(&memory, &format!("{writer} {number}"), long).unwrap();
                    }
                })
            })
            .collect();
        let mut seen = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            let Ok(bytes) = fs::read(&path) else { continue };
            let parsed: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let count = parsed.as_object().unwrap().len();
            assert!(count >= seen, "an entry was lost");
            seen = count;
        }
    });
    assert_eq!(questions(&path).len(), 24);
}

#[test]
fn remove_deletes_one_answer_in_every_handle() {
    let (_directory, path) = place();
    let (first, second) = (open(&path).unwrap(), open(&path).unwrap());
    for question in ["a%", "a", "ab", "", "日本"] {
        store(&first, question, "x").unwrap();
    }
    run(second.remove("a")).unwrap();
    run(second.remove("日")).unwrap();
    assert_eq!(questions(&path), ["", "a%", "ab", "日本"]);
    for memory in [&first, &second, &open(&path).unwrap()] {
        assert_eq!(answer(memory, "a"), None);
        assert_eq!(answer(memory, "ab").unwrap(), "x");
    }
}

/// A kept answer does not outlive a later one, even if that one is on disk already.
#[test]
fn later_answer_replaces_an_unwritten_one() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "old").unwrap();
    let lock = directory.path().join("answers.json.lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    store(&memory, "q", "kept").unwrap_err();
    fs::remove_dir(&lock).unwrap();
    store(&memory, "q", "old").unwrap();
    assert_eq!(answer(&memory, "q").unwrap(), "old");
}

#[test]
fn too_large_entry_is_refused() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    let error = store(&memory, "q", &"x".repeat(MAX_ENTRY_BYTES as usize)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.message.contains("answers.json"), "{}", error.message);
    assert!(!path.exists());
    store(&memory, "q", &"x".repeat(MAX_ENTRY_BYTES as usize - 1)).unwrap();
}
