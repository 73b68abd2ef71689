//! The flat JSON file of the response cache.

mod conforming;
mod processes;
mod refusals;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cachalot_core::{ManualClock, SystemClock};
use cachalot_store::flat_json::{FlatJsonOptions, FlatJsonStore, SPACE};
use cachalot_store::{
    Error, ErrorKind, PageRequest, PutResult, Record, RecordFilter, Store, StoreReply,
};

use crate::{record, run};

fn open(path: &Path) -> Result<FlatJsonStore, Error> {
    open_for(path, Duration::from_secs(20))
}

fn open_for(path: &Path, lock_timeout: Duration) -> Result<FlatJsonStore, Error> {
    let clock = Arc::new(SystemClock);
    FlatJsonStore::open(
        path,
        FlatJsonOptions {
            clock,
            lock_timeout,
        },
    )
}

fn store(memory: &FlatJsonStore, question: &str, answer: &str) -> Result<PutResult, Error> {
    run(memory
        .put(SPACE, record(question, answer.to_owned()), None, &[])
        .settle())
}

fn found(memory: &FlatJsonStore, question: &str) -> Result<Option<Record>, Error> {
    let StoreReply::Now(found) = memory.get(SPACE, question, &[]) else {
        panic!("a lookup waits for nobody");
    };
    found.map(|found| found.record)
}

fn answer(memory: &FlatJsonStore, question: &str) -> Option<String> {
    let record = found(memory, question).unwrap()?;
    Some(String::from_utf8(record.value.to_vec()).unwrap())
}

fn keys(memory: &FlatJsonStore, filter: &RecordFilter<'_>) -> Vec<String> {
    let batch = run(memory.find(SPACE, filter, PageRequest::keys(1000)).settle()).unwrap();
    batch.records.into_iter().map(|record| record.key).collect()
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
fn a_file_of_docker_agent_is_read() {
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
    let usage = run(memory.usage(SPACE).settle()).unwrap();
    assert_eq!((usage.records, usage.bytes), (2, 7 + 6 + 3));
}

#[test]
fn overwrite() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    assert_eq!(
        store(&memory, "q", "1").unwrap(),
        PutResult::Stored { revision: 1 }
    );
    assert_eq!(
        store(&memory, "q", "2").unwrap(),
        PutResult::Stored { revision: 2 }
    );
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
    assert_eq!(keys(&memory, &RecordFilter::default()), [""; 0]);
    let erased = run(memory
        .erase(SPACE, &RecordFilter::default(), PageRequest::first(9))
        .settle())
    .unwrap();
    assert_eq!(erased.records, []);
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
fn a_file_that_becomes_corrupt_is_neither_believed_nor_overwritten() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    replace(&path, "{\"q\": ");
    assert_eq!(found(&memory, "q").unwrap_err().kind, ErrorKind::Corrupt);
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
fn what_is_no_file_is_an_error() {
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
    assert_eq!(
        keys(&open(&path).unwrap(), &RecordFilter::default()),
        ["mine", "next", "theirs"]
    );
}

#[test]
fn what_could_not_be_written_gives_way_to_a_newer_answer() {
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
    let filter = RecordFilter {
        prefix: "g",
        ..RecordFilter::default()
    };
    let erased = run(memory.erase(SPACE, &filter, PageRequest::first(9)).settle()).unwrap();
    assert_eq!(erased.records[0].value, "kept");
    assert_eq!(answer(&memory, "gone"), None);
    store(&memory, "next", "x").unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\n  \"next\": \"x\",\n  \"q\": \"newer\"\n}"
    );
}

#[cfg(unix)]
#[test]
fn everything_is_for_its_owner_only_and_no_temp_files_are_left() {
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
fn a_link_stays_a_link() {
    let (directory, path) = place();
    let real = directory.path().join("real.json");
    fs::write(&real, "{\"a\": \"1\"}").unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    let memory = open(&path).unwrap();
    store(&memory, "b", "2").unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(
        keys(&open(&real).unwrap(), &RecordFilter::default()),
        ["a", "b"]
    );
}

#[test]
fn lock_file_never_deleted() {
    let (directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    let lock = directory.path().join("answers.json.lock");
    let held = fs::File::open(&lock).unwrap();
    run(memory
        .erase(SPACE, &RecordFilter::default(), PageRequest::keys(9))
        .settle())
    .unwrap();
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

/// B11: a lock that somebody holds costs a bounded time, holds up no other work, and no lookup.
#[test]
fn a_lock_that_is_held_is_waited_for_beside_other_work_and_not_for_ever() {
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
        let storing = memory.put(SPACE, record("q", "a"), None, &[]).settle();
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
    assert!(began.elapsed() < Duration::from_secs(5));
    lock.unlock().unwrap();
    store(&memory, "q2", "a").unwrap();
    assert_eq!(
        keys(&open(&path).unwrap(), &RecordFilter::default()),
        ["before", "q", "q2"]
    );
}

#[test]
fn lookup_reloads_after_external_write() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    replace(&path, "{\"q\": \"b\", \"r\": \"c\"}");
    assert_eq!(answer(&memory, "q").unwrap(), "b");
    assert_eq!(found(&memory, "q").unwrap().unwrap().revision, 2);
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
    for memory in [&first, &second] {
        assert_eq!(keys(memory, &RecordFilter::default()), ["a", "b", "c"]);
    }
}

/// B14: who has the old file open does not hinder the rename, and still reads a whole file.
#[test]
fn a_reader_does_not_hinder_a_store() {
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
    assert_eq!(
        keys(&open(&path).unwrap(), &RecordFilter::default()).len(),
        24
    );
}

#[test]
fn entries_are_erased_by_prefix_in_every_handle() {
    let (_directory, path) = place();
    let (first, second) = (open(&path).unwrap(), open(&path).unwrap());
    for question in ["a%", "a_", "ab", "b", "", "日本"] {
        store(&first, question, "x").unwrap();
    }
    let filter = RecordFilter {
        prefix: "a",
        ..RecordFilter::default()
    };
    let page = PageRequest {
        after: Some("a%"),
        ..PageRequest::keys(9)
    };
    let erased = run(second.erase(SPACE, &filter, page).settle()).unwrap();
    let erased: Vec<&str> = erased.records.iter().map(|r| r.key.as_str()).collect();
    assert_eq!(erased, ["a_", "ab"]);
    for memory in [&first, &second, &open(&path).unwrap()] {
        assert_eq!(
            keys(memory, &RecordFilter::default()),
            ["", "a%", "b", "日本"]
        );
    }
}

#[test]
fn stores_tell_the_time_by_the_clock_and_the_file_by_its_own() {
    let (_directory, path) = place();
    let clock = Arc::new(ManualClock::at(7_000));
    let memory = FlatJsonStore::open(&path, FlatJsonOptions::new(clock.clone())).unwrap();
    store(&memory, "q", "a").unwrap();
    assert_eq!(found(&memory, "q").unwrap().unwrap().updated, 7_000);
    clock.advance(Duration::from_secs(1));
    store(&memory, "r", "b").unwrap();
    assert_eq!(found(&memory, "q").unwrap().unwrap().updated, 7_000);
    assert_eq!(found(&memory, "r").unwrap().unwrap().updated, 8_000);
    let other = FlatJsonStore::open(&path, FlatJsonOptions::new(clock)).unwrap();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let updated = found(&other, "q").unwrap().unwrap().updated;
    assert_eq!(u128::try_from(updated).unwrap(), written.as_millis());
}
