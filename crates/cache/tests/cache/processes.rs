//! Real processes on one SQLite file: this test's own program, started again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    Cache, CacheBounds, CacheMode, CacheOptions, Domain, HitPolicy, Ledger, Policy, RunPolicy,
    SingleFlight, Ticket,
};
use cachalot_core::{SecretSet, SystemClock};
use cachalot_store::sqlite::{self, SqliteStore};

use crate::test_engine::{Question, product, reported};

const PART: &str = "CACHALOT_TEST_PART";
const HOME: &str = "CACHALOT_TEST_HOME";

fn start(part: &str, home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::as_another_process",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PART, part)
        .env(HOME, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn cache(home: &Path) -> Cache {
    let clock = Arc::new(SystemClock);
    let memory = SqliteStore::open(
        &home.join("cachalot.db"),
        sqlite::SqliteOptions::new(clock.clone()),
    )
    .unwrap();
    Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::new(memory)),
        ledger: Ledger::at(
            &home.join("ledger.db"),
            std::process::id().to_string(),
            Arc::new(|text| panic!("{text}")),
        ),
        clock,
        secret_set: Arc::new(SecretSet::empty()),
        bounds: CacheBounds::default(),
        warn: Arc::new(|text| assert!(text.contains("waiting for another process"), "{text}")),
    })
}

/// A run leaves a line behind.
fn note(home: &Path, line: &str) {
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(home.join("notes"))
        .unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn notes(home: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(home.join("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn wait_for(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn patient() -> Policy {
    Policy {
        run: RunPolicy {
            join: SingleFlight::AllProcesses {
                wait: Duration::from_secs(60),
            },
            lookup_timeout: Some(Duration::from_secs(60)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

/// The work of child processes; returns at once when run as a test.
#[test]
fn as_another_process() {
    let (Ok(part), Some(home)) = (std::env::var(PART), std::env::var_os(HOME)) else {
        return;
    };
    let home = PathBuf::from(home);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        match part.as_str() {
            "ask" => ask_together(&home).await,
            "store" => store_many(&home).await,
            "lead and die" => lead_and_die(&home).await,
            "read on" => read_on(&home).await,
            other => panic!("{other}"),
        }
    });
}

async fn ask_together(home: &Path) {
    let cache = cache(home);
    note(home, "ready");
    wait_for(&home.join("go")).await;
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let (cache, home) = (cache.clone(), home.to_owned());
            tokio::spawn(async move {
                let work = |ticket: Ticket| async move {
                    note(&home, "ran");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    ticket.finish(product("once")).await;
                };
                let reported = reported(
                    cache
                        .through(&Question::number(1).call(), &patient(), work)
                        .await
                        .unwrap(),
                )
                .await;
                assert_eq!(reported.text(), "once");
                assert!(reported.settled.stored.is_ok(), "{reported:?}");
                reported.settled.paid.calls
            })
        })
        .collect();
    let mut paid = 0;
    for one in asking {
        paid += one.await.unwrap();
    }
    note(home, &format!("paid {paid}"));
    cache.close().await;
}

#[test]
fn four_processes_on_one_key_run_it_once() {
    let home = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..4).map(|_| start("ask", home.path())).collect();
    while notes(home.path()).len() < 4 {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut notes = notes(home.path());
    notes.sort();
    assert_eq!(
        notes,
        [
            "paid 0", "paid 0", "paid 0", "paid 1", "ran", "ready", "ready", "ready", "ready"
        ]
    );
    let totals = cache(home.path()).ledger().totals().unwrap()[0].2;
    assert_eq!(
        (totals.misses, totals.hits + totals.coalesced),
        (1, 15),
        "{totals:?}"
    );
}

async fn store_many(home: &Path) {
    let cache = cache(home);
    let storing: Vec<_> = (0..16)
        .map(|task| {
            let cache = cache.clone();
            tokio::spawn(async move {
                for number in (task..1_000).step_by(16) {
                    let work = move |ticket: Ticket| async move {
                        ticket.finish(product(&"x".repeat(number))).await;
                    };
                    let outcome = cache
                        .through(&Question::number(number).call(), &patient(), work)
                        .await
                        .unwrap();
                    if reported(outcome).await.settled.stored.is_ok() {
                        let mut out = std::io::stdout().lock();
                        writeln!(out, "stored {number}").unwrap();
                        out.flush().unwrap();
                    }
                }
            })
        })
        .collect();
    for one in storing {
        one.await.unwrap();
    }
}

#[test]
fn entries_stored_before_a_kill_survive_it() {
    for after in [1, 150, 500] {
        let home = tempfile::tempdir().unwrap();
        let mut child = start("store", home.path());
        let mut stored = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            // The harness may write before us on the same line.
            if let Some((_, number)) = line.unwrap().rsplit_once("stored ") {
                stored.push(number.parse::<usize>().unwrap());
                if stored.len() == after {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(stored.len() >= after, "{}", stored.len());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let cache = cache(home.path());
            for number in &stored {
                let there = cache.peek(&Question::number(*number).key()).await.unwrap();
                assert_eq!(
                    there.expect("it was said to be stored").entry_info.bytes,
                    *number as u64
                );
            }
            // Its reservations lapse soon.
            for number in (0..1_000).step_by(97) {
                let work = |ticket: Ticket| async move {
                    ticket.finish(product("again")).await;
                };
                let outcome = cache
                    .through(&Question::number(number).call(), &patient(), work)
                    .await
                    .unwrap();
                assert!(reported(outcome).await.settled.stored.is_ok());
            }
        });
    }
}

async fn lead_and_die(home: &Path) {
    let cache = cache(home);
    let ticket = match cache
        .begin(&Question::number(1).call(), &patient())
        .await
        .unwrap()
    {
        cachalot_cache::BeginResult::Run(ticket) => ticket,
        _ => panic!("served"),
    };
    note(home, "leads");
    wait_for(&home.join("never")).await;
    drop(ticket);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_a_killed_process_is_taken_over() {
    let home = tempfile::tempdir().unwrap();
    let mut child = start("lead and die", home.path());
    while notes(home.path()).is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let cache = cache(home.path());
    let asking = tokio::spawn(async move {
        let work = |ticket: Ticket| async move {
            ticket.finish(product("taken over")).await;
        };
        reported(
            cache
                .through(&Question::number(1).call(), &patient(), work)
                .await
                .unwrap(),
        )
        .await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asking.is_finished(), "somebody else is at work");
    child.kill().unwrap();
    child.wait().unwrap();
    let reported = tokio::time::timeout(Duration::from_secs(60), asking)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(reported.text(), "taken over");
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
}

/// Reads the same call until told to stop; what it reads never goes back behind what was announced.
async fn read_on(home: &Path) {
    let cache = cache(home);
    note(home, "ready");
    let policy = Policy {
        hit: HitPolicy {
            domains: vec![Domain::new("d")],
            mode: CacheMode::ReadOnly,
            ..patient().hit
        },
        ..patient()
    };
    let mut asked = 0;
    while !home.join("stop").exists() {
        let announced: u64 = std::fs::read_to_string(home.join("announced"))
            .unwrap()
            .parse()
            .unwrap();
        let path = home.join("world");
        let work = |ticket: Ticket| async move {
            let world = std::fs::read_to_string(path).unwrap();
            ticket.finish(product(&world)).await;
        };
        let reported = reported(
            cache
                .through(&Question::number(1).call(), &policy, work)
                .await
                .unwrap(),
        )
        .await;
        let got: u64 = reported.text().parse().unwrap();
        assert!(
            got >= announced,
            "{got} after {announced}: {:?}",
            reported.status
        );
        asked += 1;
    }
    assert!(asked > 10);
}

fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("aside");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(&aside, path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_serves_a_value_older_than_an_announced_write() {
    let home = tempfile::tempdir().unwrap();
    let (world, announced) = (home.path().join("world"), home.path().join("announced"));
    replace(&world, "0");
    replace(&announced, "0");
    let mut children = [start("read on", home.path()), start("read on", home.path())];
    while notes(home.path()).len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let cache = cache(home.path());
    let policy = Policy {
        hit: HitPolicy {
            domains: vec![Domain::new("d")],
            ..patient().hit
        },
        ..patient()
    };
    for version in 1..=40 {
        let write_guard = cache.write_guard(&policy.hit.domains).await;
        replace(&world, &version.to_string());
        write_guard.finish().await.unwrap();
        replace(&announced, &version.to_string());
        let path = world.clone();
        let work = |ticket: Ticket| async move {
            let world = std::fs::read_to_string(path).unwrap();
            ticket.finish(product(&world)).await;
        };
        let reported = reported(
            cache
                .through(&Question::number(1).call(), &policy, work)
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(reported.text(), version.to_string());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    std::fs::write(home.path().join("stop"), "").unwrap();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
}
