//! `cachalot spend`.

use std::path::{Path, PathBuf};
use std::process::Command;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::support::{CommandOutput, Home};

/// Transcripts that are made from public descriptions of the formats; none is a real one.
fn transcripts() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn output(command: &mut Command) -> CommandOutput {
    command.env("TZ", "UTC").output().unwrap().into()
}

#[test]
fn headline_tells_cost_and_cache() {
    let home = Home::new();
    let shown = output(&mut home.command(&["spend", &transcripts()])).ok();
    insta::assert_snapshot!(shown.stdout);
    assert!(shown.stdout.lines().all(|line| line.chars().count() <= 120));
    assert_eq!(shown.stderr, "");
}

#[test]
fn groups_and_periods_are_chosen() {
    let home = Home::new();
    let place = transcripts();
    let json = |options: &[&str]| {
        let mut arguments = vec!["spend", &place, "--json"];
        arguments.extend(options);
        output(&mut home.command(&arguments)).ok().json()
    };
    let all = json(&[]);
    assert_eq!(all["total"]["answers"], 14);
    assert_eq!(all["total"]["unpriced"], 0);
    let names = |report: &serde_json::Value| -> Vec<String> {
        let groups = report["groups"].as_array().unwrap().iter();
        let name = |group: &serde_json::Value| group["name"].as_str().unwrap().to_owned();
        groups.map(name).collect()
    };
    let mut programs = names(&json(&["--by", "client"]));
    programs.sort();
    assert_eq!(programs, ["Claude Code", "Codex", "Gemini CLI"]);
    assert!(names(&json(&["--by", "project"])).contains(&"/home/ada/api".to_owned()));
    assert!(names(&json(&["--by", "model"])).contains(&"gpt-5-codex".to_owned()));
    assert_eq!(json(&["--project", "ada/api"])["total"]["answers"], 3);
    let one_day = json(&["--since", "2026-11-19", "--until", "2026-11-19"]);
    assert_eq!(one_day["total"]["answers"], 3);
    assert_eq!(names(&one_day), ["2026-11-19"]);
    // A day begins at midnight of this machine's zone.
    let mut command = home.command(&["spend", &place, "--json", "--since", "2026-11-19"]);
    let command = command
        .args(["--until", "2026-11-19"])
        .env("TZ", "Pacific/Kiritimati");
    let there: CommandOutput = command.output().unwrap().into();
    assert_eq!(there.ok().json()["total"]["answers"], 0);
}

#[test]
fn requests_in_no_line_are_named() {
    let home = Home::new();
    let show = |case: &str| {
        let place = written().join(case);
        let arguments = ["spend", place.to_str().unwrap(), "--by", "session"];
        output(&mut home.command(&arguments)).ok().stdout
    };
    let shown = show("claude-code/prompt_hook");
    let mut lines = shown.lines();
    let title = lines.find(|line| line.contains("side requests"));
    let name = "Of it, side requests (session titles, summaries, hooks)";
    assert_eq!(title, Some(name), "{shown}");
    let row = lines.nth(1).unwrap();
    assert!(row.starts_with("Claude Code 7e38fdce-"), "{shown}");
    assert!(row.ends_with("$0.03"), "{shown}");
    let shown = show("gemini-cli/tool_and_resume");
    let not_counted = "Not counted: requests to the model that routes prompts (Gemini CLI)";
    assert!(shown.contains(not_counted), "{shown}");
}

#[test]
fn programs_are_found_where_they_keep_transcripts() {
    let home = Home::new();
    let place = transcripts();
    let mut command = home.command(&["spend", "--json"]);
    command
        .env("CLAUDE_CONFIG_DIR", format!("{place}/claude"))
        .env("CODEX_HOME", format!("{place}/codex"));
    assert_eq!(output(&mut command).ok().json()["total"]["answers"], 12);
    let wrong: [(&[&str], i32); 3] = [
        (&["spend"], 1),
        (&["spend", "absent"], 1),
        (&["spend", &place, "--since", "soon"], 2),
    ];
    let shown = wrong.map(|(arguments, code)| {
        let failed = output(&mut home.command(arguments)).fails(code);
        failed.shown(&home)
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn defective_and_compressed_files_are_read_as_far_as_possible() {
    let home = Home::new();
    let folder = Path::new(&transcripts()).join("codex/sessions/2026/11/20");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        // A file that grows has a frame for each part.
        let (first, second) = file.split_at(file.len() / 2);
        let pack = |part: &[u8]| compress_to_vec(part, CompressionLevel::Fastest);
        let packed = [pack(first), pack(second)].concat();
        home.write(&format!("logs/{name}.zst"), packed);
    }
    home.write("logs/notes.jsonl", "{\"a\": 1}\n");
    home.write("logs/index.json", "{\"a\": 1}\n");
    home.write("logs/broken.jsonl.zst", "no zstd");
    home.write(
        "logs/cut.jsonl",
        "{\"type\":\"user\",\"sessionId\":\"s\",\"uuid\":\"u\"}\n{\"type\":\"assis",
    );
    let shown = output(&mut home.command(&["spend", "logs", "--json"])).ok();
    assert_eq!(shown.json()["total"]["answers"], 3);
    for part in ["notes.jsonl", "broken.jsonl.zst", "cut.jsonl: line 2"] {
        assert_eq!(shown.stderr.matches(part).count(), 1, "{shown}");
    }
    assert!(!shown.stderr.contains("index.json"), "{shown}");
}

/// A pipe has no end, and a link into `/proc` leads anywhere.
#[cfg(target_os = "linux")]
#[test]
fn only_regular_files_are_read() {
    use std::os::unix::fs::symlink;
    let home = Home::new();
    let folder = Path::new(&transcripts()).join("codex/sessions/2026/11/20");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        home.write(&format!("logs/{name}"), std::fs::read(&path).unwrap());
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, home.join("logs/pipe.jsonl"), kind, mode, 0).unwrap();
    for (link, target) in [
        ("proc", "/proc"),
        ("process.jsonl", "/proc/self/pagemap"),
        ("kernel.jsonl", "/sys/kernel/notes"),
        ("zero.jsonl", "/dev/zero"),
    ] {
        symlink(target, home.join("logs").join(link)).unwrap();
    }
    let shown = output(&mut home.command(&["spend", "logs", "--json"])).ok();
    assert_eq!(shown.json()["total"]["answers"], 3);
    for name in ["pipe.jsonl", "process.jsonl", "kernel.jsonl"] {
        assert_eq!(shown.stderr.matches(name).count(), 1, "{name}: {shown}");
    }
    for given in ["logs/pipe.jsonl", "/proc/self/root/proc", "/dev/zero"] {
        let refused = output(&mut home.command(&["spend", given])).fails(1);
        assert!(refused.stderr.contains("it is "), "{refused}");
    }
}

/// Transcripts that agents wrote: see the README.md of `tests/data`.
fn written() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts")
}

/// Copies transcripts into a folder of the home, as their program does.
fn install(home: &Home, name: &str, folder: &str) {
    let from = written().join(name);
    let mut folders = vec![from.clone()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(&from).unwrap().to_str().unwrap();
            home.write(&format!("{folder}/{below}"), std::fs::read(&path).unwrap());
        }
    }
}

/// Opens a database of opencode in a folder of the home, and adds its rows.
fn opencode(home: &Home, folder: &str) -> rusqlite::Connection {
    let rows = written().join("opencode/tool_subagent_fork/opencode.db.sql");
    let rows = std::fs::read_to_string(rows).unwrap();
    let path = home.write(&format!("{folder}/opencode.db"), "");
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    connection
        .pragma_update(None, "foreign_keys", false)
        .unwrap();
    connection.execute_batch(&rows).unwrap();
    connection
}

/// A home with the transcripts of all agents that wrote some.
fn with_agents() -> Home {
    let home = Home::new();
    for (name, folder) in [
        ("cline/openai_and_anthropic", ".cline/data/sessions"),
        ("copilot-cli/tool_and_resume", ".copilot/session-state"),
        ("kimi-code/two_apis_resume_fork", ".kimi-code/sessions"),
        ("pi/three_apis_and_fork", ".pi/agent/sessions"),
        ("qwen-code/tool_continue_subagent", ".qwen"),
    ] {
        install(&home, name, folder);
    }
    drop(opencode(&home, "data/opencode"));
    home
}

/// The files below a folder of the home, with their bytes.
fn files(home: &Home, folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = home.join(folder);
    let mut files = home.files();
    files.retain(|(path, _)| path.starts_with(&folder));
    files.sort();
    files
}

fn spend(home: &Home, options: &[&str]) -> CommandOutput {
    let arguments = [&["spend"][..], options].concat();
    output(&mut home.command(&arguments)).ok()
}

#[test]
fn agents_are_found_where_they_keep_transcripts() {
    let home = with_agents();
    let report = spend(&home, &["--by", "agent", "--json"]);
    assert_eq!(report.stderr, "");
    let report = report.json();
    let groups = report["groups"].as_array().unwrap();
    let mut answers: Vec<_> = groups
        .iter()
        .map(|group| (group["by"]["agent"].as_str().unwrap(), &group["answers"]))
        .collect();
    answers.sort_by_key(|(agent, _)| *agent);
    let expected = [
        ("Cline", 4),
        ("Copilot CLI", 3),
        ("Kimi Code", 4),
        ("Qwen Code", 6),
        ("opencode", 7),
        ("pi", 7),
    ];
    assert_eq!(answers.len(), expected.len());
    for ((agent, answers), expected) in answers.into_iter().zip(expected) {
        assert_eq!((agent, answers.as_u64()), (expected.0, Some(expected.1)));
    }
    let dollars = report["total"]["usd"].as_f64().unwrap();
    assert!((dollars - 0.446_859_525).abs() < 1e-9, "{dollars}");
    let untraced = &report["untraced"];
    assert_eq!(untraced.as_object().unwrap().len(), 1);
    assert_eq!(untraced["opencode"], "requests for titles of sessions");
    assert_eq!(report["untraced_counts"]["opencode"], 3);
    assert_eq!(report["total"]["unpriced"], 1);
    let unknown = &report["total"]["cache_write_of_unknown_lifetime"];
    assert_eq!(unknown["tokens"], 6_007 + 9_006 + 9_009 + 6_005);
    // Variables of the programs name other places.
    for (name, value, missing) in [
        ("CLINE_DIR", "elsewhere", 4),
        ("CLINE_DATA_DIR", "elsewhere", 4),
        ("COPILOT_HOME", "elsewhere", 3),
        ("KIMI_CODE_HOME", "elsewhere", 4),
        ("PI_CODING_AGENT_DIR", "elsewhere", 7),
        ("PI_CODING_AGENT_SESSION_DIR", ".pi/agent/sessions", 0),
        ("QWEN_HOME", "elsewhere", 6),
        ("QWEN_RUNTIME_DIR", ".qwen", 0),
        ("XDG_DATA_HOME", "elsewhere", 7),
        ("OPENCODE_DB", "data/opencode/opencode.db", 0),
    ] {
        let mut command = home.command(&["spend", "--json"]);
        let shown = output(command.env(name, home.join(value))).ok().json();
        let answers = shown["total"]["answers"].as_u64().unwrap();
        assert_eq!(answers, 31 - missing, "{name}");
    }
}

#[test]
fn open_databases_are_read_without_a_change() {
    let home = Home::new();
    let connection = opencode(&home, "data/opencode");
    let answers = |options: &[&str]| spend(&home, options).json()["total"]["answers"].clone();
    // All rows are in the write-ahead log.
    let before = files(&home, "data/opencode");
    assert_eq!(before.len(), 3, "{before:?}");
    assert_eq!(answers(&["--json"]), 7);
    assert!(files(&home, "data/opencode") == before);
    // The same after the program was killed.
    for name in ["opencode.db", "opencode.db-wal"] {
        let file = std::fs::read(home.join("data/opencode").join(name)).unwrap();
        home.write(&format!("killed/{name}"), file);
    }
    let killed = files(&home, "killed");
    assert_eq!(answers(&["killed", "--json"]), 7);
    assert!(files(&home, "killed") == killed);
    // Without a log, the file alone.
    drop(connection);
    let closed = files(&home, "data/opencode");
    assert_eq!(closed.len(), 1);
    assert_eq!(answers(&["--json"]), 7);
    assert!(files(&home, "data/opencode") == closed);
    home.write("other/opencode.db", "SQLite format 3\0, and nothing else");
    let refused = output(&mut home.command(&["spend", "other"])).fails(1);
    assert!(
        refused.stderr.contains("opencode.db: it cannot be read"),
        "{refused}"
    );
}

#[test]
fn amounts_that_are_not_known_are_no_zeros() {
    let home = with_agents();
    let shown = spend(&home, &["--by", "model"]);
    let lines: Vec<_> = shown.stdout.lines().collect();
    // The one without a price is the last one before the total.
    let place = lines.iter().position(|line| line.starts_with("total"));
    let last: Vec<_> = lines[place.unwrap() - 1].split_whitespace().collect();
    assert_eq!(last[..3], ["kimi-k2.5", "–", "1,001"]);
    let total: Vec<_> = lines[place.unwrap()].split_whitespace().collect();
    assert_eq!(total[..2], ["total", "$0.45+"]);
    for part in [
        "$0.45 and 1 answer without a known price in 1 day",
        "1 answer without a known price:",
        "the price of `kimi-k2.5` is not known (1)",
        "Not counted: 3 requests for titles of sessions (opencode), which are in no file.",
        "the lifetime of 30,027 tokens written to caches is not recorded",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {shown}");
    }
    let alone = spend(&home, &[".kimi-code/sessions", "--by", "model", "--json"]).json();
    let groups = alone["groups"].as_array().unwrap();
    assert_eq!(groups[1]["name"], "kimi-k2.5");
    assert_eq!(groups[1]["usd"], serde_json::Value::Null);
    // Narrow terminals keep the names and the cost.
    let mut narrow = home.command(&["spend", "--by", "model", "-v"]);
    let narrow = output(narrow.env("COLUMNS", "40")).ok();
    assert!(
        narrow.stdout.lines().all(|line| line.chars().count() <= 40),
        "{narrow}"
    );
    assert!(narrow.stdout.contains("gpt-5.1"), "{narrow}");
}

#[test]
fn dollars_are_shown_by_kind() {
    let home = with_agents();
    let place = ".pi/agent/sessions";
    let shown = spend(&home, &[place, "--by", "agent", "-v"]);
    let titles = shown.stdout.lines().find(|line| line.starts_with("agent"));
    let expected = "cost  $ input  $ read  $ write  $ output  input";
    assert!(titles.unwrap().contains(expected), "{shown}");
    let row = shown.stdout.lines().find(|line| line.starts_with("pi"));
    let row: Vec<_> = row.unwrap().split_whitespace().collect();
    assert_eq!(
        row[1..7],
        ["$0.12", "$0.02", "$0.03", "$0.06", "$0.01", "5,617"]
    );
    let report = spend(&home, &[place, "--json"]).json();
    let kinds = &report["total"]["usd_by_kind"];
    for (kind, dollars) in [
        ("input", 0.016_948_75),
        ("cache_read", 0.033_007_275),
        ("cache_write", 0.061_105),
        ("output", 0.012_49),
        ("tools", 0.0),
        ("unsplit", 0.0),
    ] {
        let shown = kinds[kind].as_f64().unwrap();
        assert!((shown - dollars).abs() < 1e-12, "{kind}: {shown}");
    }
}

#[test]
fn rows_are_exported_as_csv() {
    let home = with_agents();
    let csv = spend(&home, &["--by", "agent,model", "--csv"]);
    assert_eq!(csv.stderr, "");
    let lines: Vec<_> = csv.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "agent,model,answers,unpriced,usd,input,cache_read,cache_write_5m,cache_write_1h,cache_write_12h,output,web_searches,usd_input,usd_cache_read,usd_cache_write,usd_output,usd_tools,usd_unsplit"
    );
    let kimi = "Kimi Code,kimi-k2.5,1,1,,1001,20001,0,0,0,101,0,,,,,,";
    assert_eq!(lines.last(), Some(&kimi), "{csv}");
    let qwen = "Qwen Code,gpt-5.1,6,0,0.028738875000,6021,120021,0,0,0,621,0,0.007526250000,0.015002625000,0.000000000000,0.006210000000,0.000000000000,0.000000000000";
    assert!(lines.contains(&qwen), "{csv}");
    let both = output(&mut home.command(&["spend", "--csv", "--json"])).fails(2);
    assert!(both.stderr.contains("--json"), "{both}");
}

#[test]
fn rows_are_days_weeks_and_months_by_model() {
    let home = Home::new();
    let place = transcripts();
    let names = |by: &str| -> Vec<String> {
        let report = spend(&home, &[&place, "--by", by, "--json"]).json();
        let groups = report["groups"].as_array().unwrap().iter();
        groups
            .map(|group| group["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("week"), ["2026-W47"]);
    assert_eq!(names("month"), ["2026-11"]);
    let both = names("day,model");
    assert!(both.len() > 3, "{both:?}");
    assert!(both[0].starts_with("2026-11-18 claude"), "{both:?}");
    let days: Vec<_> = both.iter().map(|name| &name[..10]).collect();
    assert!(days.is_sorted(), "{both:?}");
    let shown = spend(&home, &[&place, "--by", "day,model"]);
    let titles = shown.stdout.lines().find(|line| line.starts_with("day"));
    let titles: Vec<_> = titles.unwrap().split_whitespace().collect();
    assert_eq!(titles[..3], ["day", "model", "cost"]);
}

/// The own answers are in the ledger, each with its time, those of the gateway included.
#[test]
fn own_answers_count_one_by_one() {
    let home = Home::new();
    home.write("agent.yaml", crate::support::MARKING);
    home.run(&["run", "agent.yaml", "-q", "-i", "text=a"]).ok();
    let mut path = home.database().into_os_string();
    path.push(".ledger");
    let ledger = rusqlite::Connection::open(path).unwrap();
    let add = |at: i64, kind: &str, name: &str, handle: Option<&str>, input: &str, cost: i64| {
        ledger
            .execute(
                "INSERT INTO calls (at, run, kind, name, scope, key, handle, answered, paid, saved, input, paid_input, paid_output, paid_cost)
                 VALUES (?1, 'r', ?2, ?3, 'user:u', 'k', ?4, 'miss', 5, 0, ?5, 1000, 10, ?6)",
                (at, kind, name, handle, input, cost),
            )
            .unwrap();
    };
    let day = 86_400_000;
    let first = 1_795_867_200_000;
    let request = r#"{"body":{"model":"claude-opus-5-5"},"path":"/v1/messages"}"#;
    let gemini = r#"{"body":{},"path":"/v1beta/models/gemini-2.5-pro:generateContent"}"#;
    let turn = r#"{"session":"s","read_from_its_cache":900,"written_to_its_cache":50}"#;
    add(first, "request", "messages", None, request, 4_200_000_000);
    add(first, "request", "generate_content", None, gemini, 1_000);
    add(
        first,
        "prefix",
        "anthropic/claude-opus-5-5",
        Some("s"),
        turn,
        830_000_000,
    );
    add(
        first + day,
        "prefix",
        "anthropic/claude-opus-5-5",
        Some("s"),
        turn,
        1_000_000_000,
    );
    let report = spend(&home, &["--by", "project,model", "--json"]).json();
    assert_eq!(report["total"]["answers"], 4);
    let kinds = &report["total"]["usd_by_kind"];
    // The third answer costs what its tokens cost, the fourth does not.
    assert!((kinds["cache_read"].as_f64().unwrap() - 0.000_18).abs() < 1e-12);
    assert!((kinds["unsplit"].as_f64().unwrap() - 0.001_000_001).abs() < 1e-12);
    let groups = report["groups"].as_array().unwrap().iter();
    let names: Vec<_> = groups
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "gateway claude-opus-5-5",
            "no project claude-opus-5-5",
            "gateway gemini-2.5-pro"
        ]
    );
    let shown = spend(&home, &[]);
    assert!(!shown.stdout.contains("Twice"), "{shown}");
    let days = spend(&home, &["--json"]).json();
    let days = days["groups"].as_array().unwrap();
    assert_eq!(
        (&days[0]["name"], &days[0]["answers"]),
        (&"2026-11-28".into(), &3.into())
    );
    assert_eq!(
        (&days[1]["name"], &days[1]["answers"]),
        (&"2026-11-29".into(), &1.into())
    );
    // The transcripts of a program that may have used the gateway.
    install(&home, "pi", ".pi/agent/sessions");
    let shown = spend(&home, &[]);
    let note = "Twice: <$0.01 went through the gateway";
    assert!(shown.stdout.contains(note), "{shown}");
}

/// An answer of Claude Code that writes 100,000 tokens, so many minutes after eight o'clock.
fn answer(session: &str, minutes: u32, agent: Option<&str>, model: &str) -> String {
    let id = format!("{session}-{minutes}-{agent:?}");
    let mut line = serde_json::json!({
        "type": "assistant", "sessionId": session, "uuid": id, "cwd": "/home/ada/api",
        "timestamp": format!("2026-11-18T08:{minutes:02}:00.000Z"),
        "isSidechain": agent.is_some(),
        "message": {"id": id, "model": model, "stop_reason": "end_turn", "usage": {
            "input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 100_000,
        }},
    });
    if let Some(agent) = agent {
        line["agentId"] = agent.into();
    }
    format!("{line}\n")
}

/// Opus 4.8 writes a million tokens for $6.25 (an hour: $10), and reads them for $0.50; Haiku 5.5 writes them for $0.125.
#[test]
fn remedies_are_those_that_save() {
    let home = Home::new();
    let opus = "claude-opus-4-8";
    // A pause of 50 minutes: 100,000 tokens are written again for $0.625.
    let pause = answer("a", 0, None, opus) + &answer("a", 50, None, opus);
    home.write("t/a.jsonl", &pause);
    let place = home.join("t").to_str().unwrap().to_owned();
    let report = |options: &[&str]| spend(&home, &[&[&place as &str], options].concat());
    let remedies = |document: &serde_json::Value| -> Vec<(String, i64)> {
        let remedies = document["remedies"].as_array().unwrap().iter();
        let remedies = remedies.map(|remedy| {
            #[expect(clippy::cast_possible_truncation)]
            let hundredths_of_cents =
                (remedy["saved_usd"].as_f64().unwrap() * 10_000.0).round() as i64;
            (
                remedy["policy"].as_str().unwrap().to_owned(),
                hundredths_of_cents,
            )
        });
        remedies.collect()
    };
    // Twice $0.625, with an hour once $1 and once $0.05.
    let found = remedies(&report(&["--json"]).json());
    assert_eq!(found[0], ("one_hour".to_owned(), 2_000), "{found:?}");
    let shown = report(&[]).stdout;
    let headline = shown.lines().next().unwrap();
    assert!(
        headline.ends_with("; $0.20 less with `ENABLE_PROMPT_CACHING_1H=1`"),
        "{shown}"
    );
    let how =
        "Claude Code, 1 h writes: $0.20 of $1.25 (16 %)\n  Write `ENABLE_PROMPT_CACHING_1H=1` in";
    assert!(shown.contains(how), "{shown}");
    // A sub-agent: on Haiku it costs $0.0125 in place of $0.625. Another model gives other answers.
    home.write("t/agent-x.jsonl", answer("a", 1, Some("x"), opus));
    let document = report(&["--json"]).json();
    let found = remedies(&document);
    assert!(
        found.is_sorted_by(|one, other| one.1 >= other.1),
        "{found:?}"
    );
    assert!(
        found.contains(&("sub_agents_on_haiku".to_owned(), 6_125)),
        "{found:?}"
    );
    let of_sub_agents = document["remedies"].as_array().unwrap().iter();
    let mut of_sub_agents =
        of_sub_agents.filter(|remedy| remedy["policy"] == "sub_agents_on_haiku");
    let remedy = of_sub_agents.next().unwrap();
    assert_eq!(remedy["certainty"], "estimate");
    assert_eq!(remedy["setting"], "CLAUDE_CODE_SUBAGENT_MODEL=haiku");
    // Without them, and with a pause of two minutes, nothing would have saved money.
    std::fs::remove_file(home.join("t/agent-x.jsonl")).unwrap();
    let short = answer("a", 0, None, opus);
    home.write("t/a.jsonl", &short);
    let shown = report(&[]).stdout;
    assert!(
        shown.contains("No setting would have saved money: "),
        "{shown}"
    );
    assert_eq!(
        report(&["--json"]).json()["remedies"],
        serde_json::json!([])
    );
}

#[test]
fn sessions_have_a_title_a_project_and_a_day() {
    let home = Home::new();
    let prompt = r#"{"type":"user","sessionId":"a","uuid":"u","message":{"role":"user","content":"Fix the tests"}}"#;
    let text = format!("{prompt}\n{}", answer("a", 0, None, "claude-opus-4-8"));
    home.write("t/a.jsonl", &text);
    let place = home.join("t").to_str().unwrap().to_owned();
    let options = [&place as &str, "--by", "session"];
    let shown = spend(&home, &options).stdout;
    let row = shown.lines().find(|line| line.starts_with("Claude Code a"));
    let cells: Vec<_> = row
        .unwrap()
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .collect();
    assert_eq!(
        cells[..4]
            .iter()
            .map(|cell| cell.trim())
            .collect::<Vec<_>>(),
        [
            "Claude Code a",
            "Fix the tests",
            "/home/ada/api",
            "2026-11-18"
        ],
        "{shown}"
    );
    let group =
        spend(&home, &[&options as &[&str], &["--json"]].concat()).json()["groups"][0].clone();
    assert_eq!(group["title"], "Fix the tests");
    assert_eq!(group["day"], "2026-11-18");
    let csv = spend(&home, &[&options as &[&str], &["--csv"]].concat()).stdout;
    let lines: Vec<_> = csv.lines().collect();
    assert!(lines[0].ends_with(",title,project,day"), "{csv}");
    assert!(
        lines[1].ends_with(",Fix the tests,/home/ada/api,2026-11-18"),
        "{csv}"
    );
}
