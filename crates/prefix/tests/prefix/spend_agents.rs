//! Spend of agents whose transcripts are in the data of the command-line tests, against what the provider served.

use std::path::{Path, PathBuf};

use cachalot_core::Cost;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{
    Client, FileError, SpendReader, SpendTotals, Spending, find_files, is_opencode_database,
};
use rusqlite::{Connection, params};

/// The working directories.
const PROJECTS: [&str; 6] = [
    "/home/user/clinework",
    "/home/user/copilotwork",
    "/home/user/kimiwork",
    "/home/user/ocwork",
    "/home/user/piwork",
    "/home/user/qwork",
];

const CLINE: &str = "cline/openai_and_anthropic";
const COPILOT: &str = "copilot-cli/tool_and_resume";
const KIMI: &str = "kimi-code/two_apis_resume_fork";
const OPENCODE: &str = "opencode/tool_subagent_fork/opencode.db.sql";
const PI: &str = "pi/three_apis_and_fork";
const QWEN: &str = "qwen-code/tool_continue_subagent";

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/data/transcripts")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(transcripts().join(name)).unwrap()
}

fn read_into(reader: &mut SpendReader, place: &Path) {
    let paths = find_files(&[place.to_owned()]).paths;
    assert!(!paths.is_empty(), "{place:?}");
    for path in paths {
        let file = std::fs::read(&path).unwrap();
        match reader.read(&path, &file[..]) {
            // Programs have other files beside their transcripts.
            Ok(()) | Err(FileError::Unknown) => {}
            Err(error) => panic!("{path:?}: {error}"),
        }
    }
}

fn read_folder(name: &str) -> Spending {
    let mut reader = SpendReader::default();
    // A folder that is read twice counts once.
    read_into(&mut reader, &transcripts().join(name));
    read_into(&mut reader, &transcripts().join(name));
    reader.finish()
}

fn read_texts(texts: &[(&str, &str)]) -> Spending {
    let mut reader = SpendReader::default();
    for (name, text) in texts {
        reader.read(Path::new(name), text.as_bytes()).unwrap();
    }
    reader.finish()
}

/// Creates a database with the rows of opencode.
fn database(folder: &Path, sql: &str) -> PathBuf {
    let path = folder.join("opencode.db");
    open(&path).execute_batch(sql).unwrap();
    path
}

/// Opens a database whose rows may refer to rows that it lacks.
fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .pragma_update(None, "foreign_keys", false)
        .unwrap();
    connection
}

fn read_database(path: &Path) -> (Spending, Result<(), FileError>) {
    let mut reader = SpendReader::default();
    let read = reader.read_database(path, true);
    (reader.finish(), read)
}

fn opencode() -> Spending {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), &text(OPENCODE));
    let mut reader = SpendReader::default();
    reader.read_database(&path, true).unwrap();
    reader.read_database(&path, true).unwrap();
    reader.finish()
}

fn totals(spending: &Spending) -> SpendTotals {
    let mut totals = SpendTotals::default();
    for answer in &spending.answers {
        totals.add(answer, &Catalog::built_in());
    }
    totals
}

/// The tokens are those of `truth.json` of each case, without the requests that are in no file. The cost is that of its
/// prices, except that programs that do not record for how long their writes live are counted with five minutes.
#[test]
fn agents_are_counted_as_their_provider_served_them() {
    let usage = |input, read, written: [u64; 3], output, reasoning| Usage {
        uncached_input: input,
        cache_read: read,
        cache_write_5m: written[0],
        cache_write_1h: written[1],
        cache_write_other: written[2],
        output,
        reasoning,
        ..Usage::default()
    };
    let cases = [
        (
            read_folder(CLINE),
            4,
            usage(4_010, 80_010, [0, 0, 6_007], 410, 0),
            59_738_525_000,
            (6_007, 18_021_000_000),
        ),
        (
            read_folder(COPILOT),
            3,
            usage(3_006, 60_006, [0, 0, 9_006], 306, 0),
            75_175_200_000,
            (9_006, 27_018_000_000),
        ),
        // The price of one of its models is not known.
        (
            read_folder(KIMI),
            4,
            usage(4_010, 80_010, [0, 0, 9_009], 410, 0),
            75_262_800_000,
            (9_009, 27_027_000_000),
        ),
        // The provider served ten requests; three of them, for titles, are in no row.
        (
            opencode(),
            7,
            usage(6_333, 140_042, [0, 0, 6_714], 742, 237),
            84_393_100_000,
            (6_005, 18_015_000_000),
        ),
        (
            read_folder(PI),
            7,
            usage(5_617, 140_028, [6_010, 3_000, 1_411], 728, 178),
            123_551_025_000,
            (0, 0),
        ),
        (
            read_folder(QWEN),
            6,
            usage(6_021, 120_021, [0, 0, 0], 621, 261),
            28_738_875_000,
            (0, 0),
        ),
    ];
    for (spending, answers, usage, picodollars, (written, more)) in cases {
        let client = spending.answers[0].client;
        let totals = totals(&spending);
        assert_eq!((totals.answers, totals.usage), (answers, usage), "{client}");
        assert_eq!(totals.cost.picodollars, picodollars, "{client}");
        assert_eq!(totals.by_kind.total().picodollars, picodollars, "{client}");
        assert_eq!(
            totals.written_for_unknown_time,
            (written, Cost::from_picodollars(more)),
            "{client}"
        );
        let unpriced = u64::from(client == Client::KimiCode);
        assert_eq!(totals.cost.unpriced, unpriced, "{client}");
        assert_eq!(
            totals.unpriced.get("the price of `kimi-k2.5` is not known"),
            (unpriced > 0).then_some(&1),
            "{client}"
        );
        assert!(spending.unknown.is_empty(), "{:?}", spending.unknown);
        assert!(
            spending
                .answers
                .iter()
                .all(|answer| answer.client == client)
        );
        assert!(spending.answers.iter().all(|answer| answer.at.is_some()));
        for answer in &spending.answers {
            assert!(PROJECTS.contains(&&*answer.project), "{}", answer.project);
            assert!(!answer.session.is_empty() && !answer.model.is_empty());
        }
    }
}

#[test]
fn requests_without_tokens_in_any_file_are_named() {
    let spending = opencode();
    let named: Vec<_> = spending.untraced.into_iter().collect();
    assert_eq!(
        named,
        [(Client::OpenCode, "requests for titles of sessions")]
    );
    assert_eq!(spending.untraced_counts[&Client::OpenCode], 3);
    // A record of Copilot CLI that was lost.
    let path = &format!("{COPILOT}/bcc6f0da-e3cb-4e36-8155-fedc2ffd4681/events.jsonl");
    let whole = text(path);
    assert!(read_texts(&[(path, &whole)]).untraced.is_empty());
    let lines: Vec<_> = whole
        .lines()
        .filter(|line| !line.contains(r#""sequence":2"#))
        .collect();
    let spending = read_texts(&[(path, &lines.join("\n"))]);
    assert_eq!(spending.answers.len(), 2);
    assert_eq!(spending.untraced_counts[&Client::CopilotCli], 1);
}

/// The answer that a fork of opencode has copied belongs to the original.
#[test]
fn original_gives_the_session_of_a_copied_answer() {
    let reversed: Vec<String> = {
        let sql = text(OPENCODE);
        let (messages, others): (Vec<_>, Vec<_>) = sql
            .lines()
            .partition(|line| line.starts_with("INSERT INTO \"message\""));
        let messages = messages.into_iter().rev();
        others
            .into_iter()
            .chain(messages)
            .map(str::to_owned)
            .collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), &reversed.join("\n"));
    let (backwards, read) = read_database(&path);
    read.unwrap();
    for spending in [opencode(), backwards] {
        let copied = spending
            .answers
            .iter()
            .find(|answer| &*answer.model == "gpt-5.6-sol");
        assert_eq!(&*copied.unwrap().session, "ses_dde2545a6fferEy2OO0e062XTf");
    }
}

#[test]
fn messages_of_qwen_code_count_only_without_their_events() {
    let session = "1a861ac7-780f-4c17-86a8-2a8dd4603d52";
    let chat = text(&format!(
        "{QWEN}/projects/-home-user-qwork/chats/{session}.jsonl"
    ));
    let agent = text(&format!(
        "{QWEN}/projects/-home-user-qwork/subagents/{session}/agent-general-purpose-call_000003.jsonl"
    ));
    let whole = totals(&read_texts(&[("a.jsonl", &chat), ("b.jsonl", &agent)]));
    assert_eq!(whole.answers, 6);
    let lines: Vec<_> = chat
        .lines()
        .filter(|line| !line.contains("ui_telemetry"))
        .collect();
    let old = totals(&read_texts(&[
        ("a.jsonl", &lines.join("\n")),
        ("b.jsonl", &agent),
    ]));
    assert_eq!((old.answers, old.usage), (6, whole.usage));
    // The messages of the sub-agent do not name its model.
    assert_eq!(old.unpriced["the model is not known"], 1);
    let copy = chat.replace(session, "00000000-0000-4000-8000-000000000001");
    let both = totals(&read_texts(&[("a.jsonl", &chat), ("c.jsonl", &copy)]));
    assert_eq!((both.answers, both.usage), (6, whole.usage));
    // An API whose output excludes thoughts, as the sum shows.
    let apart = r#"{"uuid":"u","sessionId":"s","type":"assistant","model":"m","message":{"parts":[]},"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":18}}"#;
    let usage = totals(&read_texts(&[("d.jsonl", apart)])).usage;
    assert_eq!((usage.uncached_input, usage.output), (10, 8));
}

#[test]
fn compactions_of_pi_are_answers_of_the_chosen_model() {
    let lines = concat!(
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-11-28T11:00:00Z","cwd":"/x"}"#,
        "\n",
        r#"{"type":"model_change","id":"a","timestamp":"2026-11-28T11:00:01Z","provider":"p","modelId":"gpt-5.1"}"#,
        "\n",
        r#"{"type":"compaction","id":"b","timestamp":"2026-11-28T11:00:02Z","summary":"x","firstKeptEntryId":"a","tokensBefore":9,"usage":{"input":7,"output":3,"cacheRead":2,"cacheWrite":0}}"#,
        "\n",
        r#"{"type":"message","id":"c","timestamp":"2026-11-28T11:00:03Z","message":{"role":"assistant","model":"gpt-5.1","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0},"stopReason":"aborted"}}"#,
        "\n",
        r#"{"type":"teleport","id":"d","timestamp":"2026-11-28T11:00:04Z"}"#,
        "\n",
    );
    let spending = read_texts(&[("s.jsonl", lines)]);
    // An answer without tokens was not paid for.
    assert_eq!(spending.answers.len(), 1);
    let answer = &spending.answers[0];
    assert_eq!((&*answer.model, &*answer.project), ("gpt-5.1", "/x"));
    let expected = Usage {
        cache_read: 2,
        ..Usage::from_counts(7, 3)
    };
    assert_eq!(answer.usage, expected);
    assert_eq!(spending.unknown["pi: teleport"], 1);
}

#[test]
fn alias_is_no_name_of_a_model() {
    let session = "session_f13be06e-de91-4a3d-88f2-a5346aec89ff";
    let path = &format!("{KIMI}/wd_kimiwork_d948294224f4/{session}/agents/main/wire.jsonl");
    let lines: Vec<_> = text(path)
        .lines()
        .filter(|line| !line.contains("llm.request"))
        .map(|line| line.replace("fakea", "gpt-5.1"))
        .collect();
    let spending = read_texts(&[(path, &lines.join("\n"))]);
    let totals = totals(&spending);
    assert_eq!(totals.answers, 3);
    assert_eq!((totals.cost.picodollars, totals.cost.unpriced), (0, 3));
    assert_eq!(
        totals.unpriced["the price of `the alias gpt-5.1` is not known"],
        3
    );
    assert!(
        spending
            .answers
            .iter()
            .all(|answer| &*answer.session == session)
    );
}

#[test]
fn nothing_is_made_beside_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode test?.db");
    let connection = open(&path);
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    connection.execute_batch(&text(OPENCODE)).unwrap();
    // The last connection moves the log into the database.
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let (spending, read) = read_database(&path);
    read.unwrap();
    assert_eq!(spending.answers.len(), 7);
    let entries = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(entries.count(), 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(is_opencode_database("opencode-dev.db"));
    assert!(!is_opencode_database("opencode.db-wal"));
}

#[test]
fn other_and_damaged_databases_are_refused() {
    const ENDLESS: &str = "CREATE VIEW message AS
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)
        SELECT i AS id, 's' AS session_id, '{}' AS data FROM n;";
    let session = "CREATE TABLE session (id TEXT, directory TEXT, title TEXT, parent_id TEXT);";
    for sql in ["CREATE TABLE a (b);", &format!("{session} {ENDLESS}")] {
        let folder = tempfile::tempdir().unwrap();
        let (spending, read) = read_database(&database(folder.path(), sql));
        assert!(matches!(read, Err(FileError::Unknown)), "{read:?}");
        assert!(spending.answers.is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), &text(OPENCODE));
    // Rows that are no messages are counted, those after them are read.
    let connection = open(&path);
    connection
        .execute_batch(
            "INSERT INTO message VALUES ('a', 's', 1, 1, 'no JSON');
             INSERT INTO message VALUES ('b', 's', 1, 1, x'ff00');
             INSERT INTO message VALUES ('c', 'unknown', 1, 1, '{\"modelID\":\"m\",\"tokens\":{\"input\":-5,\"output\":2,\"reasoning\":1}}');",
        )
        .unwrap();
    drop(connection);
    let (spending, read) = read_database(&path);
    assert!(
        matches!(
            read,
            Err(FileError::Malformed {
                first: 15,
                count: 2
            })
        ),
        "{read:?}"
    );
    let other = spending.answers.iter().find(|answer| &*answer.model == "m");
    assert_eq!(other.unwrap().usage.output, 3);
    assert_eq!(other.unwrap().usage.uncached_input, 0);
    // The pages of the rows are gone.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..4_096]).unwrap();
    let (_, read) = read_database(&path);
    assert!(matches!(read, Err(FileError::Unreadable(_))), "{read:?}");
}

#[test]
fn messages_that_are_too_long_are_named_and_the_others_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), &text(OPENCODE));
    let connection = open(&path);
    // 8 and 18 MiB: more than is read, and more than a statement may load.
    for (id, half) in [("a", 4_i64 << 20), ("b", 9 << 20)] {
        connection
            .execute(
                "INSERT INTO message
                 VALUES (?1, 's', 1, 1, '{\"tokens\":{\"input\":7},\"x\":\"' || hex(zeroblob(?2)) || '\"}')",
                params![id, half],
            )
            .unwrap();
    }
    let after = r#"{"modelID":"m","tokens":{"input":7}}"#;
    for id in ["c", "d"] {
        connection
            .execute(
                "INSERT INTO message VALUES (?1, 's', 1, 1, ?2)",
                [id, after],
            )
            .unwrap();
    }
    drop(connection);
    let (spending, read) = read_database(&path);
    read.unwrap();
    assert_eq!(spending.unknown["opencode: a message that is too long"], 2);
    // Two answers with equal counts and no time are two answers.
    let equal = spending
        .answers
        .iter()
        .filter(|answer| &*answer.model == "m");
    assert_eq!(equal.count(), 2);
    assert_eq!(spending.answers.len(), 9);
}

/// Lines or messages with the same counts and without an ID are different answers; a file that is read twice is the same.
#[test]
fn answers_without_ids_do_not_merge() {
    let pi = [
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-11-28T11:00:00Z","cwd":"/x"}"#,
        r#"{"type":"message","message":{"model":"m","usage":{"input":7,"output":3}}}"#,
        r#"{"type":"message","message":{"model":"m","usage":{"input":7,"output":3}}}"#,
    ];
    let message = r#"{"modelInfo":{"id":"m"},"metrics":{"inputTokens":7,"outputTokens":3}}"#;
    let cline = format!(r#"{{"sessionId":"s","origin":{{}},"messages":[{message},{message}]}}"#);
    let copilot = [
        r#"{"type":"session.start","data":{"sessionId":"s"}}"#,
        r#"{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":7,"outputTokens":3}}}"#,
        r#"{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":7,"outputTokens":3}}}"#,
    ];
    let kimi = [
        r#"{"type":"metadata","protocol_version":"1"}"#,
        r#"{"type":"usage.record","model":"m","usage":{"inputOther":7,"output":3}}"#,
        r#"{"type":"usage.record","model":"m","usage":{"inputOther":7,"output":3}}"#,
    ];
    let event = r#"{"uuid":"u","sessionId":"s","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response","model":"m","input_token_count":7,"output_token_count":3}}}"#;
    for (name, text) in [
        ("pi.jsonl", pi.join("\n")),
        ("cline.json", cline),
        ("copilot.jsonl", copilot.join("\n")),
        ("kimi.jsonl", kimi.join("\n")),
        ("qwen.jsonl", [event, event].join("\n")),
    ] {
        let spending = read_texts(&[(name, &text), (name, &text)]);
        let counts: Vec<_> = spending
            .answers
            .iter()
            .map(|answer| (answer.usage.uncached_input, answer.usage.output))
            .collect();
        assert_eq!(counts, [(7, 3), (7, 3)], "{name}");
    }
    // Those that may be copies of each other are named.
    let claude = r#"{"type":"assistant","sessionId":"s","message":{"model":"m","usage":{"input_tokens":7}}}"#;
    let gemini = [
        r#"{"sessionId":"s","projectHash":"p","startTime":"2026-11-28T11:00:00Z"}"#,
        r#"{"model":"m","tokens":{"input":7,"output":3}}"#,
    ];
    for (name, program, text) in [
        ("claude.jsonl", "Claude Code", claude.to_owned()),
        ("gemini.jsonl", "Gemini CLI", gemini.join("\n")),
    ] {
        let spending = read_texts(&[(name, &text)]);
        assert!(spending.answers.is_empty());
        let named = format!("{program}: an answer without an ID");
        assert_eq!(spending.unknown[&named], 1, "{name}");
    }
}

/// In files that the programs have written, each session with answers has a title.
#[test]
fn written_sessions_have_titles() {
    for (folder, client) in [
        ("claude-code", Client::ClaudeCode),
        ("codex", Client::Codex),
        ("gemini-cli", Client::GeminiCli),
        (QWEN, Client::QwenCode),
        (PI, Client::Pi),
        (COPILOT, Client::CopilotCli),
        (CLINE, Client::Cline),
        (KIMI, Client::KimiCode),
    ] {
        let spending = read_folder(folder);
        let sessions: std::collections::BTreeSet<_> = spending
            .answers
            .iter()
            .map(|answer| &answer.session)
            .collect();
        assert!(!sessions.is_empty(), "{folder}");
        for session in sessions {
            let title = spending.titles.get(&(client, session.clone()));
            assert!(
                title.is_some_and(|title| !title.is_empty()),
                "{folder} {session}"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = database(folder.path(), &text(OPENCODE));
    let mut reader = SpendReader::default();
    reader.read_database(&path, true).unwrap();
    let titles = reader.finish().titles;
    assert!(
        titles.values().any(|title| title == "Answer 1."),
        "{titles:?}"
    );
}
