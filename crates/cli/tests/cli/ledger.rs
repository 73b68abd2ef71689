//! The ledger: what `why` and `cache stats` know of it, `cachalot ledger …`, and what other commands
//! erase from it.

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{Home, MARKING};

fn ledger(home: &Home) -> rusqlite::Connection {
    let mut path = home.database().into_os_string();
    path.push(".ledger");
    rusqlite::Connection::open(path).unwrap()
}

fn run(home: &Home, text: &str) -> serde_json::Value {
    let input = format!("text={text}");
    home.run(&["run", "agent.yaml", "-q", "-i", &input])
        .ok()
        .json()
}

fn with_runs(texts: &[&str]) -> Home {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    for text in texts {
        run(&home, text);
    }
    home
}

/// Files of the home's data that hold a text.
fn holding(home: &Home, text: &str) -> Vec<String> {
    let data = home.join("data");
    let files = home.files().into_iter();
    files
        .filter(|(path, _)| path.starts_with(&data))
        .filter(|(_, bytes)| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        })
        .map(|(path, _)| path.display().to_string())
        .collect()
}

/// Rows of the ledger.
fn rows(home: &Home) -> u64 {
    ledger(home)
        .query_row("SELECT count(*) FROM calls", [], |row| row.get::<_, i64>(0))
        .unwrap()
        .unsigned_abs()
}

#[test]
fn why_shows_the_payment_after_30000_later_hits() {
    let home = with_runs(&["x"]);
    let handle = run(&home, "x")["answer"]["_cache_key"].clone();
    let handle = handle.as_str().unwrap();
    // 30,000 times the row of the hit, as if the step had run so often.
    ledger(&home)
        .execute_batch(
            "INSERT INTO calls (at, run, kind, name, scope, key, handle, answered, paid, saved)
             WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 30000)
             SELECT at, run, kind, name, scope, key, handle, answered, paid, saved
             FROM calls, many WHERE answered = 'hit';",
        )
        .unwrap();
    run(&home, "x");
    let hits = "SELECT count(*) FROM calls WHERE answered = 'hit'";
    let hits: i64 = ledger(&home).query_row(hits, [], |row| row.get(0)).unwrap();
    assert_eq!(hits, 1_000);
    let why = home.run(&["why", handle]).ok();
    assert!(why.stdout.contains("answered from the cache"), "{why}");
    let paid = why.stdout.lines().find(|line| line.contains("  paid  "));
    assert!(paid.unwrap().ends_with(": not in the cache"), "{why}");
    let why = home.run(&["why", handle, "--json"]).ok().json();
    assert_eq!(why["payment"]["answered"], "miss");
    assert_eq!(why["call"]["answered"], "hit");
}

#[test]
fn settings_of_a_workflow_bound_the_ledger() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    run(&home, "old");
    ledger(&home)
        .execute("UPDATE calls SET at = at - 86400000 * 40", [])
        .unwrap();
    run(&home, "new");
    assert_eq!(rows(&home), 2, "any age, unless a file says otherwise");
    let bounded = format!("settings: {{ledger: {{max_age: 30d, max_hits: 2}}}}\n{MARKING}");
    home.write("agent.yaml", bounded);
    for _ in 0..5 {
        run(&home, "new");
    }
    assert_eq!(rows(&home), 3, "a payment and two hits");
    let stats = home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(
        (&stats["totals"]["misses"], &stats["totals"]["hits"]),
        (&2.into(), &5.into())
    );
    for (wrong, problem) in [
        ("max_age: 30", "`30d`"),
        ("max_age: soon", "`90d`"),
        ("max_bytes: 1000", "1048576"),
        ("max_hits: -1", "max_hits"),
        ("max_payments: 5", "max_bytes"),
    ] {
        home.write(
            "agent.yaml",
            format!("settings: {{ledger: {{{wrong}}}}}\n{MARKING}"),
        );
        let refused = home.run(&["validate", "agent.yaml"]).fails(2);
        let is_named = refused.stderr.contains(problem) || problem == "`30d`";
        assert!(is_named, "{wrong}: {refused}");
    }
}

#[test]
fn the_settings_of_a_team_bound_the_ledger() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    home.ask(&provider, &["agent.yaml"], "hello").ok();
    ledger(&home)
        .execute("UPDATE calls SET at = at - 86400000 * 40", [])
        .unwrap();
    let bounded = format!("settings: {{ledger: {{max_age: 30d}}}}\n{SHELL}");
    home.write("agent.yaml", bounded);
    home.run(&["validate", "agent.yaml"]).ok();
    home.ask(&provider, &["agent.yaml"], "hello").ok();
    let old: i64 = ledger(&home)
        .query_row(
            "SELECT count(*) FROM calls WHERE at < (SELECT max(at) FROM calls) - 86400000",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(old, 0);
    home.write(
        "agent.yaml",
        format!(
            "settings: {{cache: {{max_bytes: 5, patience: 1s}}, ltm: {{staleness: 2s, local: true}}}}\n{SHELL}"
        ),
    );
    home.run(&["validate", "agent.yaml"]).ok();
    home.ask(&provider, &["agent.yaml"], "hello").ok();
    for (settings, key) in [("python: {}", "python"), ("ltm: {path: x}", "path")] {
        home.write("agent.yaml", format!("settings: {{{settings}}}\n{SHELL}"));
        let refused = home.run(&["validate", "agent.yaml"]).fails(2);
        let message = format!("unknown key `{key}`");
        assert!(refused.stderr.contains(&message), "{refused}");
    }
}

#[test]
fn failed_step_without_cost_is_not_called_paid() {
    let home = Home::new();
    let failing = MARKING.replace(
        "command: [\"sh\", \"-c\",",
        "command: [\"no-such-program\",",
    );
    home.write(
        "agent.yaml",
        failing.replace("      args:", "      on_error: return\n      args:"),
    );
    let ran = home
        .run(&["run", "agent.yaml", "--json", "-i", "text=x"])
        .ok();
    let report = &ran.json()["report"];
    assert_eq!(report["steps"][0]["outcome"], "failed", "{ran}");
    assert_eq!(report["steps"][0]["paid_ms"], 0.0, "{ran}");
    assert_eq!(
        (&report["paid"]["calls"], &report["failed"]["calls"]),
        (&0.into(), &1.into())
    );
    let closing = ran.stderr.lines().last().unwrap();
    assert!(
        closing.starts_with("paid 0 calls, 0 s · failed 1 call, "),
        "{ran}"
    );
    let stats = home.run(&["cache", "stats"]).ok();
    let all = stats.stdout.lines().find(|line| line.starts_with("all "));
    let all: Vec<_> = all.unwrap().split_whitespace().collect();
    // hits, coalesced, paid, failed
    assert_eq!(all[1..5], ["0", "0", "0", "1"], "{stats}");
    let why = home.run(&["why"]).ok();
    assert!(
        why.stdout.starts_with("shell.run (action): failed, "),
        "{why}"
    );
    let ran = home
        .run(&["run", "agent.yaml", "--ndjson", "-i", "text=x"])
        .ok();
    let answered = ran.stdout.lines().find(|line| line.contains("answered"));
    assert!(
        answered.unwrap().contains("\"outcome\":\"failed\""),
        "{ran}"
    );
}

#[test]
fn ledger_rm_erases_inputs_of_calls() {
    let home = with_runs(&["klabautermann", "klabautermann", "other"]);
    let named = "klabautermann";
    let answer = run(&home, "other")["answer"].clone();
    let handle = answer["_cache_key"].as_str().unwrap();
    let command = home.run(&["ledger", "rm"]).fails(2);
    for way in ["KEY", "--session", "--all"] {
        assert!(command.stderr.contains(way), "{command}");
    }
    let dry = home.run(&["ledger", "rm", "--all", "--dry-run"]).ok();
    assert!(dry.stderr.contains("would erase"), "{dry}");
    assert!(dry.stderr.contains("4 calls"), "{dry}");
    let one = home.run(&["ledger", "rm", handle, "--json"]).ok().json();
    assert_eq!(one, serde_json::json!({"dry_run": false, "count": 2}));
    assert!(home.run(&["why", handle]).fails(1).stderr.contains(handle));
    assert!(
        holding(&home, named)
            .iter()
            .any(|file| file.contains(".ledger"))
    );
    home.run(&["ledger", "rm", "--all"]).ok();
    let left = holding(&home, named);
    assert!(
        left.iter().all(|file| !file.contains(".ledger")),
        "{left:?}"
    );
    assert!(!left.is_empty(), "the cache keeps its entries");
    assert_eq!(rows(&home), 4);
    let why = home.run(&["why"]).ok();
    assert!(why.stdout.contains("erased"), "{why}");
    let stats = home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(stats["totals"]["misses"], 2);
}

#[test]
fn cache_rm_all_removes_inputs_from_every_file() {
    let home = with_runs(&["klabautermann", "klabautermann"]);
    let dry = home.run(&["cache", "rm", "--all", "--dry-run"]).ok();
    assert!(dry.stderr.contains("2 calls"), "{dry}");
    // What one entry was made from stays known.
    let part = home.run(&["cache", "rm", "cache:none:*", "--json"]).ok();
    assert_eq!(part.json()["erased_calls"], 0);
    let erased = home.run(&["cache", "rm", "--all", "--json"]).ok().json();
    assert_eq!(
        (&erased["count"], &erased["erased_calls"]),
        (&1.into(), &2.into())
    );
    let left = holding(&home, "klabautermann");
    assert!(
        left.iter().all(|file| !file.contains(".ledger")),
        "{left:?}"
    );
    assert_eq!(rows(&home), 2);
}

#[test]
fn sessions_rm_leaves_only_amounts_in_the_ledger() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let ask =
        |question: &str| session(&home.ask(&provider, &["agent.yaml", "--yes"], question).ok());
    let (first, second) = (ask("run echo klabautermann"), ask("run echo other"));
    let all = rows(&home);
    let of = |session: &str| {
        let which = "SELECT count(*) FROM calls WHERE session = ?1";
        ledger(&home)
            .query_row(which, [session], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert!(of(&first) >= 2 && of(&second) >= 2);
    home.run(&["sessions", "rm", &first]).ok();
    for gone in ["klabautermann", first.as_str()] {
        let left = holding(&home, gone);
        assert!(
            left.iter().all(|file| !file.contains(".ledger")),
            "{left:?}"
        );
    }
    assert_eq!((of(&first), rows(&home)), (0, all));
    assert!(of(&second) >= 2);
    home.run(&["why", &second]).ok();
    // The session is removed, and its calls are known by the beginning of its name.
    let erased = home.run(&["ledger", "rm", "--session", &second[..8], "--json"]);
    assert!(erased.ok().json()["count"].as_u64().unwrap() >= 2);
    assert_eq!(of(&second), 0);
    let both = ["ledger", "rm", "--session", &second, "--session", &first];
    let unknown = home.run(&both).fails(1);
    assert!(unknown.stderr.contains("knows no session"), "{unknown}");
    let stats = home.run(&["cache", "stats", "--json"]).ok().json();
    assert!(stats["models"]["totals"]["misses"].as_u64().unwrap() >= 2);
}

#[test]
fn ledger_prune_deletes_calls_and_keeps_the_sums() {
    let home = with_runs(&["klabautermann", "other", "other"]);
    ledger(&home)
        .execute(
            "UPDATE calls SET at = at - 86400000 * 40 WHERE id = (SELECT min(id) FROM calls)",
            [],
        )
        .unwrap();
    let stats = || home.run(&["cache", "stats"]).ok().stdout;
    let before = stats();
    let command = home.run(&["ledger", "prune"]).fails(2);
    assert!(command.stderr.contains("--older-than"), "{command}");
    for wrong in ["30", "soon"] {
        let refused = home.run(&["ledger", "prune", "--older-than", wrong]);
        assert!(refused.fails(2).stderr.contains("90d"));
    }
    let prune = ["ledger", "prune", "--older-than", "30d", "--dry-run"];
    let dry = home.run(&prune).ok();
    assert!(dry.stderr.contains("would delete 1 call"), "{dry}");
    assert_eq!(rows(&home), 3);
    let pruned = home.run(&prune[..4]).ok();
    assert!(pruned.stderr.contains("deleted 1 call"), "{pruned}");
    assert_eq!(rows(&home), 2);
    let left = holding(&home, "klabautermann");
    assert!(
        left.iter().all(|file| !file.contains(".ledger")),
        "{left:?}"
    );
    let all = home
        .run(&["ledger", "prune", "--all", "--json"])
        .ok()
        .json();
    assert_eq!((&all["count"], &all["dry_run"]), (&2.into(), &false.into()));
    assert_eq!((rows(&home), stats()), (0, before));
}

#[test]
fn missing_ledger_is_reported() {
    let home = Home::new();
    for command in [["ledger", "rm"], ["ledger", "prune"]] {
        let ran = home.run(&[command[0], command[1], "--all"]).fails(1);
        assert!(ran.stderr.contains("there is no ledger at"), "{ran}");
    }
}

#[test]
fn run_during_a_locked_ledger_loses_no_payment() {
    let home = with_runs(&["a"]);
    let lock = ledger(&home);
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            home.run(&["run", "agent.yaml", "-i", "text=while it is locked"])
                .ok()
        });
        std::thread::sleep(std::time::Duration::from_secs(3));
        lock.execute_batch("COMMIT").unwrap();
        let ran = running.join().unwrap();
        assert!(!ran.stderr.contains("warning"), "{ran}");
    });
    assert_eq!(rows(&home), 2);
    let why = home.run(&["why"]).ok();
    assert!(why.stdout.contains("while it is locked"), "{why}");
}

#[test]
fn dropped_rows_are_counted_in_the_statistics() {
    let home = with_runs(&["a"]);
    let stats = home.run(&["cache", "stats"]).ok();
    assert!(!stats.stdout.contains("sums only"), "{stats}");
    ledger(&home)
        .execute("INSERT INTO counters VALUES ('dropped', 7)", [])
        .unwrap();
    let stats = home.run(&["cache", "stats"]).ok();
    assert!(
        stats.stdout.contains("7 calls are in these sums only"),
        "{stats}"
    );
    let stats = home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(stats["dropped_calls"], 7);
}

#[test]
fn calls_are_exported_as_csv() {
    let home = with_runs(&["x", "x", "a,\"b\"\nc"]);
    let exported = home.run(&["ledger", "export", "calls.csv"]).ok();
    assert!(exported.stderr.contains("exported 3 calls"), "{exported}");
    let file = std::fs::read(home.join("calls.csv")).unwrap();
    let printed = home.run(&["ledger", "export", "-"]).ok();
    assert_eq!(printed.stdout.as_bytes(), file);
    let mut csv = csv::Reader::from_reader(&file[..]);
    let columns = csv.headers().unwrap().clone();
    let calls: Vec<std::collections::BTreeMap<String, String>> = csv
        .records()
        .map(|record| {
            let names = columns.iter().map(str::to_owned);
            names
                .zip(record.unwrap().iter().map(str::to_owned))
                .collect()
        })
        .collect();
    let answered: Vec<&str> = calls.iter().map(|call| &*call["answered"]).collect();
    assert_eq!(answered, ["miss", "hit", "miss"]);
    assert_eq!(calls[0]["reason"], "not in the cache");
    assert_eq!(calls[0]["paid_dollars"], "0.000000000000");
    assert!(calls[0]["paid_ms"].parse::<f64>().unwrap() > 0.0);
    assert_eq!(calls[1]["paid_ms"], "0.000");
    assert!(calls[1]["saved_ms"].parse::<f64>().unwrap() > 0.0);
    assert!(calls[0]["time"].starts_with("20"), "{:?}", calls[0]);
    // More calls than are read at once.
    ledger(&home)
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
             INSERT INTO calls (at, run, kind, name, scope, key, answered, paid, saved, paid_cost)
             SELECT at, run, kind, name, scope, key, 'hit', 0, 1, 1500000000000 FROM n, calls WHERE id = 1",
        )
        .unwrap();
    let exported = home.run(&["ledger", "export", "-"]).ok();
    assert_eq!(exported.stdout.matches(",1.500000000000,").count(), 2500);
    if cfg!(not(feature = "duckdb")) {
        let refused = home.run(&["ledger", "export", "calls.parquet"]).fails(1);
        assert!(refused.stderr.contains("writes no Parquet"), "{refused}");
        assert!(!home.join("calls.parquet").exists());
    }
    // A file of the store is not overwritten.
    let target = home.database();
    home.run(&["ledger", "export", target.to_str().unwrap()])
        .fails(2);
}
