//! Witnesses of an answer, and invalidation when they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use cachalot_cache::{
    BeginResult, CacheStatus, EntryFilter, Observation, ObservationError, Policy, Reason, Witness,
};

use cachalot_store::Store;

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    CallReport, EngineBuilder, Question, TestEngine, clock, in_process, product, reported, sqlite,
    test_engine,
};
use cachalot_store::intercepted::StoreOperation;

/// A directory to change, and an engine that reads from it.
struct TestDirectory {
    here: TestEngine,
    home: tempfile::TempDir,
}

impl TestDirectory {
    fn new() -> Self {
        Self {
            here: test_engine(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Asks for something that looks at the place as `look` says.
    async fn ask(&self, look: impl FnOnce(&Witness) -> String + Send + 'static) -> CallReport {
        let work = |ticket: cachalot_cache::Ticket| async move {
            let answer = look(ticket.witness());
            ticket.finish(product(&answer)).await;
        };
        reported(
            self.here
                .through(&Question::number(1), &Policy::default(), work)
                .await,
        )
        .await
    }

    /// Asks for the content of a file, or that there is none.
    async fn read(&self, name: &str) -> CallReport {
        let path = self.path(name);
        self.ask(move |witness| content(witness, &path)).await
    }

    /// Asks for the sorted names in a directory.
    async fn list(&self, name: &str) -> CallReport {
        let path = self.path(name);
        self.ask(move |witness| {
            witness.observe(Observation::Listing(&path));
            names(&path)
        })
        .await
    }
}

fn content(witness: &Witness, path: &Path) -> String {
    match witness.read(path) {
        Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn names(path: &Path) -> String {
    let Ok(entries) = fs::read_dir(path) else {
        return "none".into();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.join(" ")
}

fn set_modified(path: &Path, time: SystemTime) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn hit(reported: &CallReport, text: &str) {
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Hit, text)
    );
}

#[track_caller]
fn changed(reported: &CallReport, text: &str) {
    assert!(
        matches!(&reported.status, CacheStatus::Miss(Reason::Changed(_))),
        "{:?}",
        reported.status
    );
    assert_eq!(reported.text(), text);
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
}

#[tokio::test]
async fn changed_file_invalidates_the_entry() {
    let place = TestDirectory::new();
    place.write("a", "one");
    place.read("a").await;
    hit(&place.read("a").await, "one");
    place.write("a", "another length");
    let reported = place.read("a").await;
    changed(&reported, "another length");
    let path = place.path("a");
    assert_eq!(
        reported.status.reason().unwrap().to_string(),
        format!("changed since: {} changed", path.display())
    );
    hit(&place.read("a").await, "another length");
}

/// Their status stays as it is while their content changes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn proc_files_are_never_taken_as_unchanged() {
    let place = TestDirectory::new();
    let link = place.path("link");
    std::os::unix::fs::symlink("/proc/uptime", &link).unwrap();
    for path in [Path::new("/proc/uptime"), &link] {
        for by_handle in [true, false] {
            let ask = async || {
                let path = path.to_owned();
                let look = move |witness: &Witness| {
                    if by_handle {
                        content(witness, &path)
                    } else {
                        witness.observe(Observation::Content(&path));
                        fs::read_to_string(&path).unwrap()
                    }
                };
                place.ask(look).await
            };
            for _ in 0..2 {
                let reported = ask().await;
                assert!(
                    matches!(reported.status, CacheStatus::Miss(_)),
                    "{:?}",
                    reported.status
                );
                let why = reported.settled.stored.unwrap_err().to_string();
                assert!(why.contains("its status reports 0"), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn change_with_equal_size_and_mtime_is_detected() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let then = SystemTime::now() - Duration::from_secs(1_000);
    set_modified(&place.path("a"), then);
    place.read("a").await;
    hit(&place.read("a").await, "one");
    for text in ["two", "six", "ten"] {
        place.write("a", text);
        set_modified(&place.path("a"), then);
        assert_eq!(
            fs::metadata(place.path("a")).unwrap().modified().unwrap(),
            then
        );
        changed(&place.read("a").await, text);
        hit(&place.read("a").await, text);
    }
}

#[tokio::test]
async fn change_within_one_clock_tick_is_detected() {
    let place = TestDirectory::new();
    for round in 0..200 {
        let (one, two) = (format!("a{round:04}"), format!("b{round:04}"));
        place.write("a", &one);
        assert_eq!(place.read("a").await.text(), one);
        hit(&place.read("a").await, &one);
        place.write("a", &two);
        assert_eq!(place.read("a").await.text(), two);
    }
}

#[tokio::test]
async fn touched_file_with_equal_content_is_a_hit() {
    let place = TestDirectory::new();
    place.write("a", "same");
    place.read("a").await;
    place.write("a", "same");
    hit(&place.read("a").await, "same");
    set_modified(
        &place.path("a"),
        SystemTime::now() - Duration::from_secs(5_000),
    );
    hit(&place.read("a").await, "same");
    set_modified(
        &place.path("a"),
        SystemTime::now() + Duration::from_secs(5_000),
    );
    hit(&place.read("a").await, "same");
    hit(&place.read("a").await, "same");
}

#[tokio::test]
async fn status_older_than_the_tick_is_trusted_and_later_changes_detected() {
    let place = TestDirectory::new();
    place.write("a", "one");
    place.read("a").await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    hit(&place.read("a").await, "one");
    hit(&place.read("a").await, "one");
    place.write("a", "two");
    changed(&place.read("a").await, "two");
}

/// Runs a test with a single thread for what may block.
fn with_one_reader(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap()
        .block_on(test);
}

/// The output of a future that is ready without reading a file: the thread that would read is busy.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let (done, until_done) = std::sync::mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || until_done.recv());
    let mut future = std::pin::pin!(future);
    let polled = std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await;
    drop(done);
    let _ = busy.await;
    polled
}

#[test]
fn few_files_are_checked_inline_and_many_on_another_thread() {
    with_one_reader(async {
        let home = tempfile::tempdir().unwrap();
        for (files, inline) in [(0, true), (10, true), (5_000, false)] {
            let witness = Witness::default();
            for number in 0..files {
                let path = home.path().join(number.to_string());
                witness.observe(Observation::Existence(&path));
            }
            let snapshot = witness.snapshot();
            assert_eq!(at_once(snapshot.holds()).await.is_some(), inline, "{files}");
            assert_eq!(snapshot.holds().await, Ok(()));
        }
    });
}

#[test]
fn touched_file_is_read_once_and_its_new_status_stored() {
    with_one_reader(async {
        let place = TestDirectory::new();
        place.write("a", "same");
        fs::create_dir(place.path("d")).unwrap();
        let (file, directory) = (place.path("a"), place.path("d"));
        let look = move |witness: &Witness| {
            witness.observe(Observation::Listing(&directory));
            content(witness, &file)
        };
        place.ask(look.clone()).await;
        for round in 0..2 {
            place.write("a", "same");
            place.write("d/b", "");
            fs::remove_file(place.path("d/b")).unwrap();
            tokio::time::sleep(Duration::from_millis(2_100)).await;
            // The first hit reads them.
            hit(&place.ask(look.clone()).await, "same");
            for _ in 0..2 {
                let reported = at_once(place.ask(look.clone())).await;
                hit(&reported.expect("nothing is read"), "same");
            }
            let other = if round == 0 { "same" } else { "some" };
            place.write("a", other);
        }
        changed(&place.ask(look).await, "some");
    });
}

/// Asks with an engine of its own, as another process does, and whether nothing was read for the answer.
async fn ask_anew(memory: &Arc<dyn Store>, path: &Path, text: &str) -> bool {
    let here = EngineBuilder::over(Arc::clone(memory), &clock()).make();
    let question = Question::number(1);
    let call = question.call();
    let policy = Policy::default();
    let mut begun = Box::pin(here.cache.begin(&call, &policy));
    let at_once = at_once(&mut begun).await;
    let ready = at_once.is_some();
    let begun = match at_once {
        Some(begun) => begun,
        None => begun.await,
    };
    match begun.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            assert_eq!(outcome.body.whole().await.unwrap(), text)
        }
        BeginResult::Run(ticket) => {
            let answer = content(ticket.witness(), path);
            assert_eq!(answer, text);
            ticket.finish(product(&answer)).await.stored.unwrap();
        }
    }
    here.cache.close().await;
    ready
}

#[test]
fn status_of_an_unchanged_file_is_updated_in_the_store() {
    with_one_reader(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(&path, "same").unwrap();
        for (inner, amends) in [
            (in_process(&clock()), true),
            (sqlite(&home.path().join("cachalot.db"), &clock()), true),
            (in_process(&clock()), false),
        ] {
            let faulty_store = Arc::new(FaultyStore::over(inner));
            let memory: Arc<dyn Store> = faulty_store.clone();
            ask_anew(&memory, &path, "same").await;
            fs::write(&path, "same").unwrap();
            // Too new to be trusted: it is read, and nothing is known for later.
            assert!(!ask_anew(&memory, &path, "same").await);
            assert_eq!(faulty_store.count(StoreOperation::Amend), 0);
            tokio::time::sleep(Duration::from_millis(2_100)).await;
            if !amends {
                faulty_store.now(|op| match op {
                    StoreOperation::Amend => StoreBehavior::Hang,
                    _ => StoreBehavior::Pass,
                });
            }
            assert!(!ask_anew(&memory, &path, "same").await, "it is read");
            assert_eq!(faulty_store.count(StoreOperation::Amend), 1);
            for _ in 0..2 {
                assert_eq!(ask_anew(&memory, &path, "same").await, amends);
            }
            fs::write(&path, "some").unwrap();
            ask_anew(&memory, &path, "some").await;
            fs::write(&path, "same").unwrap();
        }
    });
}

#[test]
fn refreshed_status_is_not_written_over_a_changed_entry() {
    with_one_reader(async {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        let clock = clock();
        for replaces in [false, true] {
            fs::write(&path, "same").unwrap();
            let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)));
            let memory: Arc<dyn Store> = faulty_store.clone();
            ask_anew(&memory, &path, "same").await;
            tokio::time::sleep(Duration::from_millis(2_100)).await;
            faulty_store.now(|op| match op {
                StoreOperation::Amend => StoreBehavior::Slow(Duration::from_millis(100)),
                _ => StoreBehavior::Pass,
            });
            let here = EngineBuilder::over(Arc::clone(&memory), &clock).make();
            let (question, policy) = (Question::number(1), Policy::default());
            let reported = here.ask(&question, &policy, "no").await;
            hit(&reported, "same");
            clock.advance(Duration::from_millis(1));
            here.cache
                .erase(&EntryFilter::default(), false)
                .await
                .unwrap();
            if replaces {
                here.ask(&question, &policy, "another").await;
            }
            here.cache.close().await;
            assert_eq!(faulty_store.count(StoreOperation::Amend), 1);
            let there = here.cache.peek(&question.key()).await.unwrap();
            assert_eq!(there.is_some(), replaces);
            if let Some(there) = there {
                assert_eq!(there.body.whole().await.unwrap(), "another");
            }
        }
    });
}

#[test]
fn adopted_witness_takes_over_the_refreshed_status() {
    with_one_reader(async {
        let place = TestDirectory::new();
        place.write("a", "same");
        let path = place.path("a");
        let first = Witness::default();
        first.observe(Observation::Content(&path));
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let (here, policy) = (&place.here, Policy::default());
        let ticket = here.lead(&Question::number(1), &policy).await;
        ticket.witness().adopt(&first.witnesses());
        // The first store reads the file, for it was too new when it was looked at.
        ticket.finish(product("built")).await.stored.unwrap();
        let question = Question::number(1);
        let call = question.call();
        let begun = here.cache.begin(&call, &policy);
        let Some(Ok(BeginResult::Served(outcome))) = at_once(begun).await else {
            panic!("it is served, and nothing is read");
        };
        let ticket = here.lead(&Question::number(2), &policy).await;
        ticket.witness().adopt(&outcome.witnesses());
        let settled = at_once(ticket.finish(product("built")));
        let settled = settled.await.expect("nothing is read");
        assert!(settled.stored.is_ok(), "{settled:?}");
    });
}

#[tokio::test]
async fn created_or_removed_file_invalidates_the_entry() {
    let place = TestDirectory::new();
    assert_eq!(place.read("a").await.text(), "NotFound");
    hit(&place.read("a").await, "NotFound");
    place.write("a", "here");
    changed(&place.read("a").await, "here");
    fs::remove_file(place.path("a")).unwrap();
    changed(&place.read("a").await, "NotFound");
    fs::create_dir(place.path("a")).unwrap();
    assert_ne!(place.read("a").await.text(), "NotFound");
}

#[tokio::test]
async fn path_below_a_file_is_observed_as_absent() {
    let place = TestDirectory::new();
    place.write("a", "file");
    assert_eq!(place.read("a/b").await.text(), "NotADirectory");
    hit(&place.read("a/b").await, "NotADirectory");
    fs::remove_file(place.path("a")).unwrap();
    changed(&place.read("a/b").await, "NotFound");
    fs::create_dir(place.path("a")).unwrap();
    hit(&place.read("a/b").await, "NotFound");
    place.write("a/b", "there");
    changed(&place.read("a/b").await, "there");
}

#[tokio::test]
async fn listing_covers_names_and_kinds_only() {
    let place = TestDirectory::new();
    fs::create_dir(place.path("d")).unwrap();
    place.write("d/a", "1");
    assert_eq!(place.list("d").await.text(), "a");
    place.write("d/a", "quite different");
    hit(&place.list("d").await, "a");
    place.write("d/b", "");
    changed(&place.list("d").await, "a b");
    fs::rename(place.path("d/a"), place.path("d/c")).unwrap();
    changed(&place.list("d").await, "b c");
    fs::remove_file(place.path("d/c")).unwrap();
    changed(&place.list("d").await, "b");
    fs::remove_file(place.path("d/b")).unwrap();
    fs::create_dir(place.path("d/b")).unwrap();
    changed(&place.list("d").await, "b");
    fs::remove_dir_all(place.path("d")).unwrap();
    changed(&place.list("d").await, "none");
    hit(&place.list("d").await, "none");
}

#[tokio::test]
async fn restored_listing_is_a_hit() {
    let place = TestDirectory::new();
    fs::create_dir(place.path("d")).unwrap();
    place.write("d/a", "");
    place.list("d").await;
    place.write("d/b", "");
    fs::remove_file(place.path("d/b")).unwrap();
    hit(&place.list("d").await, "a");
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    hit(&place.list("d").await, "a");
    hit(&place.list("d").await, "a");
    place.write("d/b", "");
    changed(&place.list("d").await, "a b");
}

#[tokio::test]
async fn content_of_a_directory_is_its_listing() {
    let place = TestDirectory::new();
    fs::create_dir(place.path("d")).unwrap();
    let path = place.path("d");
    let look = move |witness: &Witness| {
        witness.observe(Observation::Content(&path));
        names(&path)
    };
    place.ask(look.clone()).await;
    hit(&place.ask(look.clone()).await, "");
    place.write("d/a", "");
    changed(&place.ask(look).await, "a");
}

#[tokio::test]
async fn existence_ignores_content() {
    let place = TestDirectory::new();
    let path = place.path("a");
    let look = move |witness: &Witness| {
        witness.observe(Observation::Existence(&path));
        format!("{} {}", path.is_file(), path.is_dir())
    };
    assert_eq!(place.ask(look.clone()).await.text(), "false false");
    place.write("a", "1");
    changed(&place.ask(look.clone()).await, "true false");
    place.write("a", "22");
    hit(&place.ask(look.clone()).await, "true false");
    fs::remove_file(place.path("a")).unwrap();
    fs::create_dir(place.path("a")).unwrap();
    changed(&place.ask(look).await, "false true");
}

#[tokio::test]
async fn replaced_file_invalidates_the_entry() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let then = fs::metadata(place.path("a")).unwrap().modified().unwrap();
    place.read("a").await;
    place.write("b", "two");
    set_modified(&place.path("b"), then);
    fs::rename(place.path("b"), place.path("a")).unwrap();
    changed(&place.read("a").await, "two");
    place.write("b", "two");
    fs::rename(place.path("b"), place.path("a")).unwrap();
    hit(&place.read("a").await, "two");
}

#[cfg(unix)]
#[tokio::test]
async fn retargeted_link_is_followed_again() {
    let place = TestDirectory::new();
    place.write("a", "one");
    place.write("b", "two");
    place.write("c", "two");
    for target in ["a", "b", "c"] {
        let _ = fs::remove_file(place.path("link"));
        std::os::unix::fs::symlink(target, place.path("link")).unwrap();
        let reported = place.read("link").await;
        match target {
            "a" => assert_eq!(reported.text(), "one"),
            "b" => changed(&reported, "two"),
            _ => hit(&reported, "two"),
        }
    }
    fs::remove_file(place.path("c")).unwrap();
    changed(&place.read("link").await, "NotFound");
}

#[tokio::test]
async fn replaced_parent_directory_invalidates_the_entry() {
    let place = TestDirectory::new();
    for name in ["d", "e"] {
        fs::create_dir(place.path(name)).unwrap();
        place.write(&format!("{name}/a"), name);
    }
    assert_eq!(place.read("d/a").await.text(), "d");
    fs::rename(place.path("d"), place.path("old")).unwrap();
    fs::rename(place.path("e"), place.path("d")).unwrap();
    changed(&place.read("d/a").await, "e");
}

#[tokio::test]
async fn file_changed_during_the_run_prevents_storing() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let path = place.path("a");
    let reported = place
        .ask(move |witness| {
            let text = content(witness, &path);
            fs::write(&path, "two").unwrap();
            text
        })
        .await;
    assert_eq!(reported.text(), "one");
    assert!(
        matches!(reported.settled.stored, Err(Reason::Changed(_))),
        "{reported:?}"
    );
    assert_eq!(
        place.read("a").await.status,
        CacheStatus::Miss(Reason::Absent)
    );
}

/// Another process may read a file between two changes that cancel each other out.
#[tokio::test]
async fn file_changed_and_changed_back_prevents_storing_if_another_process_reads_it() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let path = place.path("a");
    // While the file is new, a change might leave its status as it is.
    let settled = || {
        let path = path.clone();
        place.ask(move |witness| {
            witness.read_by_other_process();
            witness.observe(Observation::Content(&path));
            "one".to_owned()
        })
    };
    let reported = settled().await;
    assert!(
        matches!(reported.settled.stored, Err(Reason::Declined(_))),
        "{reported:?}"
    );
    std::thread::sleep(Duration::from_millis(100));
    let written = path.clone();
    let reported = place
        .ask(move |witness| {
            witness.read_by_other_process();
            witness.observe(Observation::Content(&written));
            fs::write(&written, "two").unwrap();
            let text = fs::read_to_string(&written).unwrap();
            fs::write(&written, "one").unwrap();
            text
        })
        .await;
    assert!(
        matches!(reported.settled.stored, Err(Reason::Changed(_))),
        "{reported:?}"
    );
    let absent = place.path("b");
    let reported = place
        .ask(move |witness| {
            witness.read_by_other_process();
            witness.observe(Observation::Content(&absent));
            String::new()
        })
        .await;
    assert!(reported.settled.stored.is_err(), "{reported:?}");
    std::thread::sleep(Duration::from_millis(100));
    hit_after(settled().await, place.read("a").await);
}

/// The first answer is stored, and serves the second call.
fn hit_after(first: CallReport, second: CallReport) {
    assert!(first.settled.stored.is_ok(), "{first:?}");
    hit(&second, "one");
}

#[tokio::test]
async fn file_read_in_two_states_prevents_storing() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let path = place.path("a");
    let reported = place
        .ask(move |witness| {
            let first = content(witness, &path);
            fs::write(&path, "two").unwrap();
            first + &content(witness, &path)
        })
        .await;
    assert_eq!(reported.text(), "onetwo");
    assert!(reported.settled.stored.is_err());
}

#[tokio::test]
async fn mark_incomplete_prevents_storing_with_the_first_reason() {
    let place = TestDirectory::new();
    let reported = place
        .ask(|witness| {
            witness.mark_incomplete("it asked the clock");
            witness.mark_incomplete("and the weather");
            "x".into()
        })
        .await;
    assert_eq!(
        reported.settled.stored,
        Err(Reason::Declined("it asked the clock".into()))
    );
}

#[tokio::test]
async fn more_observations_than_can_be_checked_prevent_storing() {
    let place = TestDirectory::new();
    let root = place.home.path().to_owned();
    let reported = place
        .ask(move |witness| {
            for number in 0..10_001 {
                witness.observe(Observation::Existence(&root.join(number.to_string())));
            }
            "x".into()
        })
        .await;
    assert!(
        matches!(reported.settled.stored, Err(Reason::Declined(_))),
        "{reported:?}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn observation_of_a_pipe_is_declined_without_blocking() {
    let place = TestDirectory::new();
    let pipe = place.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let reported = place
        .ask(move |witness| {
            witness.observe(Observation::Content(&pipe));
            "x".into()
        })
        .await;
    assert!(
        matches!(reported.settled.stored, Err(Reason::Declined(_))),
        "{reported:?}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn file_replaced_by_a_pipe_is_checked_without_blocking() {
    let place = TestDirectory::new();
    place.write("a", "");
    assert_eq!(place.read("a").await.text(), "");
    fs::remove_file(place.path("a")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(place.path("a"))
            .status()
            .unwrap()
            .success()
    );
    let reported = tokio::time::timeout(Duration::from_secs(60), place.ask(|_| "a pipe".into()))
        .await
        .unwrap();
    changed(&reported, "a pipe");
}

#[tokio::test]
async fn frozen_compares_contents_only() {
    let place = TestDirectory::new();
    place.write("a", "one");
    place.read("a").await;
    place.write("b", "one");
    fs::rename(place.path("b"), place.path("a")).unwrap();
    set_modified(
        &place.path("a"),
        SystemTime::now() - Duration::from_secs(5_000),
    );
    hit(
        &place.here.frozen(&Question::number(1)).await.unwrap(),
        "one",
    );
    place.write("a", "two");
    let miss = place.here.frozen(&Question::number(1)).await.unwrap_err();
    assert!(
        matches!(&miss.reason, Reason::Changed(what) if what.contains("a changed")),
        "{miss}"
    );
    place.write("a", "one");
    hit(
        &place.here.frozen(&Question::number(1)).await.unwrap(),
        "one",
    );
    fs::remove_file(place.path("a")).unwrap();
    assert!(place.here.frozen(&Question::number(1)).await.is_err());
}

#[tokio::test]
async fn a_call_after_a_file_change_does_not_join_an_earlier_flight() {
    let place = TestDirectory::new();
    place.write("a", "old");
    let question = Question::number(1);
    let before = place.here.lead(&question, &Policy::default()).await;
    let read = content(before.witness(), &place.path("a"));
    before.emit(read.into());
    place.write("a", "new");
    let reported = place.read("a").await;
    assert_eq!(reported.text(), "new");
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    assert!(before.finish(product("old")).await.stored.is_err());
    hit(&place.read("a").await, "new");
}

#[tokio::test]
async fn concurrent_calls_after_a_file_change_run_once() {
    let place = TestDirectory::new();
    place.write("a", "old");
    let question = Question::number(1);
    let before = place.here.lead(&question, &Policy::default()).await;
    content(before.witness(), &place.path("a"));
    place.write("a", "new");
    let asking: Vec<_> = (0..16)
        .map(|_| {
            let (here, question, path) = (place.here.clone(), question.clone(), place.path("a"));
            tokio::spawn(async move {
                let work = |ticket: cachalot_cache::Ticket| async move {
                    let text = content(ticket.witness(), &path);
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    ticket.finish(product(&text)).await;
                };
                reported(here.through(&question, &Policy::default(), work).await).await
            })
        })
        .collect();
    for one in asking {
        assert_eq!(one.await.unwrap().text(), "new");
    }
    assert_eq!(place.here.runs(), 1);
    drop(before);
}

#[tokio::test]
async fn a_call_during_observation_waits_for_its_result() {
    // A look that takes long: the file is large, and read on another thread.
    let place = TestDirectory::new();
    place.write("a", &"old ".repeat(4_000_000));
    let question = Question::number(1);
    let before = place.here.lead(&question, &Policy::default()).await;
    let (witness, path) = (before.witness().clone(), place.path("a"));
    let looking = tokio::task::spawn_blocking(move || content(&witness, &path));
    tokio::time::sleep(Duration::from_millis(2)).await;
    place.write("a", "new");
    let finishing = async {
        // If it began to look only after the write, it saw what is new, and may be joined.
        let seen = looking.await.unwrap();
        before.finish(product(&seen)).await;
    };
    let (reported, ()) = tokio::join!(place.read("a"), finishing);
    assert_eq!(reported.text(), "new");
    assert_eq!(place.read("a").await.text(), "new");
}

#[tokio::test]
async fn snapshot_can_be_checked_without_an_entry() {
    let place = TestDirectory::new();
    place.write("a", "one");
    let witness = Witness::default();
    assert!(witness.snapshot().content_digest().is_err());
    witness.read(&place.path("a")).unwrap();
    let snapshot = witness.snapshot();
    assert_eq!(
        snapshot.content_digest(),
        Ok(cachalot_core::Digest::sha256(b"one"))
    );
    assert_eq!(snapshot.holds().await, Ok(()));
    place.write("a", "two");
    assert!(matches!(
        snapshot.holds().await,
        Err(ObservationError::Changed(_))
    ));
}

#[test]
fn witness_reports_whether_it_is_empty() {
    let home = tempfile::tempdir().unwrap();
    let witness = Witness::default();
    assert!(witness.is_empty());
    witness.observe(Observation::Existence(&home.path().join("absent")));
    assert!(!witness.is_empty());
    let witness = Witness::default();
    witness.mark_incomplete("why");
    assert!(!witness.is_empty());
}

#[tokio::test]
async fn repeated_equal_observations_are_merged_and_others_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    let witness = Witness::default();
    for _ in 0..3 {
        witness.observe(Observation::Existence(&path));
    }
    assert!(witness.snapshot().holds().await.is_ok());
    std::fs::write(&path, "now").unwrap();
    witness.observe(Observation::Existence(&path));
    // It was absent, and it was there: one of them does not hold.
    assert!(witness.snapshot().holds().await.is_err());
}

#[test]
fn witness_records_thousands_of_files_quickly() {
    let home = tempfile::tempdir().unwrap();
    let witness = Witness::default();
    let began = std::time::Instant::now();
    for number in 0..30_000 {
        witness.observe(Observation::Existence(
            &home.path().join(number.to_string()),
        ));
    }
    // Comparing each with each would take minutes.
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}

#[cfg(unix)]
#[tokio::test]
async fn changed_link_target_invalidates_despite_equal_content() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    for name in ["one", "other"] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("file"), "same").unwrap();
    }
    let note = |name: &str| {
        let witness = Witness::default();
        witness.observe(Observation::Target(&path(name)));
        witness.snapshot()
    };
    let link = |target: &str| {
        let _ = fs::remove_file(path("link"));
        symlink(target, path("link")).unwrap();
    };
    let absent = note("link");
    assert!(absent.holds().await.is_ok());
    link("one/file");
    assert!(absent.holds().await.is_err());
    let (direct, linked) = (note("one/file"), note("link"));
    fs::write(path("one/file"), "new").unwrap();
    assert!(
        linked.holds().await.is_ok(),
        "what is there is another question"
    );
    link("other/file");
    let why = linked.holds().await.unwrap_err().to_string();
    assert!(why.ends_with("link leads elsewhere"), "{why}");
    link("one/../one/file");
    assert!(linked.holds().await.is_ok(), "it is the same place");
    // A directory on the way becomes a link.
    fs::rename(path("one"), path("moved")).unwrap();
    symlink("moved", path("one")).unwrap();
    assert!(direct.holds().await.is_err() && linked.holds().await.is_err());
    fs::remove_file(path("moved/file")).unwrap();
    assert!(direct.holds().await.is_err());
}
