//! Spend of coding agents.

use std::path::{Path, PathBuf};

use cachalot_core::Cost;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{
    Client, FileError, LossCause, PaidAnswer, SpendReader, SpendTotals, Spending, find_files,
};

/// Transcripts that are made from public descriptions of the formats; none is a real one.
fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts")
}

fn read(places: &[PathBuf]) -> Spending {
    let mut reader = SpendReader::default();
    for path in find_files(places).paths {
        let file = std::fs::read(&path).unwrap();
        reader.read(&path, &file[..]).unwrap();
    }
    reader.finish()
}

fn read_text(name: &str, text: &str) -> (Spending, Result<(), FileError>) {
    let mut reader = SpendReader::default();
    let read = reader.read(Path::new(name), text.as_bytes());
    (reader.finish(), read)
}

fn sum<'a>(answers: impl IntoIterator<Item = &'a PaidAnswer>) -> (u64, Usage) {
    let mut count = 0;
    let mut usage = Usage::default();
    for answer in answers {
        count += 1;
        usage += answer.usage;
    }
    (count, usage)
}

fn of(spending: &Spending, client: Client) -> Vec<&PaidAnswer> {
    let answers = spending.answers.iter();
    answers.filter(|answer| answer.client == client).collect()
}

#[test]
fn answers_count_once_however_often_they_were_written() {
    let spending = read(&[transcripts()]);
    // Nine answers: one of them in two lines, two also in a resumed session, one of a sub-agent.
    let (count, usage) = sum(of(&spending, Client::ClaudeCode));
    let expected = Usage {
        uncached_input: 4 + 6 + 9 + 7 + 5 + 5 + 8 + 8 + 3,
        cache_read: 18_200 + 21_700 + 12_000 + 21_300,
        cache_write_5m: 18_200 + 2_600 + 21_700 + 1_400 + 6_400 + 19_000 + 21_300 + 400 + 5_200,
        output: 212 + 640 + 880 + 1_100 + 300 + 420 + 95 + 150 + 90,
        ..Usage::default()
    };
    assert_eq!((count, usage), (9, expected));
    // Two answers, and one of a fork that replays them; repeated totals are the same answer.
    let (count, usage) = sum(of(&spending, Client::Codex));
    let expected = Usage {
        uncached_input: 14_000 + 1_500 + 1_100,
        cache_read: 13_600 + 15_100,
        output: 300 + 400 + 200,
        reasoning: 120 + 120 + 60,
        ..Usage::default()
    };
    assert_eq!((count, usage), (3, expected));
    // The input includes what was cached, and thoughts are output.
    let (count, usage) = sum(of(&spending, Client::GeminiCli));
    let expected = Usage {
        uncached_input: 9_100 + 1_200,
        cache_read: 8_700,
        output: 420 + 310 + 200 + 90,
        reasoning: 310 + 90,
        ..Usage::default()
    };
    assert_eq!((count, usage), (2, expected));
    assert!(spending.unknown.is_empty(), "{:?}", spending.unknown);
}

#[test]
fn answers_have_projects_models_and_times() {
    let spending = read(&[transcripts()]);
    let claude = of(&spending, Client::ClaudeCode);
    assert!(
        claude
            .iter()
            .all(|answer| &*answer.project == "/home/ada/shop")
    );
    let haiku = claude
        .iter()
        .find(|answer| answer.model.contains("haiku"))
        .unwrap();
    assert_eq!(haiku.at, Some(1_795_096_830_000));
    let codex = of(&spending, Client::Codex);
    assert!(codex.iter().all(|answer| &*answer.model == "gpt-5-codex"));
    assert!(
        codex
            .iter()
            .all(|answer| &*answer.project == "/home/ada/api")
    );
    let gemini = of(&spending, Client::GeminiCli);
    assert!(gemini.iter().all(|answer| &*answer.project == "3f1c"));
    assert!(
        gemini
            .iter()
            .all(|answer| &*answer.model == "gemini-2.5-pro")
    );
}

#[test]
fn losses_have_the_first_cause_that_fits() {
    let spending = read(&[transcripts()]);
    let mut losses: Vec<_> = spending
        .answers
        .iter()
        .filter_map(|answer| answer.loss.clone())
        .collect();
    losses.sort_by_key(|loss| (loss.tokens, loss.cause.clone()));
    let found: Vec<_> = losses
        .iter()
        .map(|loss| (loss.tokens, &loss.cause))
        .collect();
    let day = 104_395_000;
    assert_eq!(
        found,
        [
            (6_400, &LossCause::Compaction),
            (20_800, &LossCause::Paused(1_855_000)),
            (20_800, &LossCause::Paused(day)),
        ]
    );
}

/// The provider's comparison names the cause only if it has a result.
#[test]
fn comparisons_without_a_result_name_no_cause() {
    let line = |id: &str, reason: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"s","message":{{"id":"{id}","model":"claude-sonnet-4-5","usage":{{"cache_creation_input_tokens":5000}},"diagnostics":{{"cache_miss_reason":{{"type":"{reason}"}}}}}}}}"#
        )
    };
    for (reason, cause) in [
        ("unavailable", LossCause::Unexplained),
        (
            "tools_changed",
            LossCause::Diagnosed("tools_changed".into()),
        ),
        ("context_compacted", LossCause::Compaction),
    ] {
        let text = format!("{}\n{}\n", line("a", "unavailable"), line("b", reason));
        let (spending, _) = read_text("s.jsonl", &text);
        let losses: Vec<_> = spending
            .answers
            .iter()
            .filter_map(|answer| answer.loss.clone())
            .collect();
        assert_eq!(losses.len(), 1);
        assert_eq!(losses[0].cause, cause);
    }
}

/// The prices are those of the catalog; the amounts are computed by hand from the tokens.
#[test]
fn money_follows_from_tokens_and_prices() {
    let catalog = Catalog::built_in();
    let price = |model: &str| catalog.find_by_name(model).unwrap().price.clone().unwrap();
    let sonnet = price("claude-sonnet-4-5-20250929").rates;
    let spending = read(&[transcripts()]);
    let mut totals = SpendTotals::default();
    for answer in of(&spending, Client::ClaudeCode) {
        totals.add(answer, &catalog);
    }
    assert_eq!(totals.cost.unpriced, 0);
    let lost = 2 * 20_800 * (sonnet.cache_write_5m - sonnet.cache_read);
    let mut written_again = Cost::default();
    totals
        .written_again
        .values()
        .for_each(|cause| written_again += cause.cost);
    assert_eq!(written_again, Cost::from_picodollars(lost));
}

#[test]
fn links_and_copies_of_folders_count_once() {
    let once = sum(&read(&[transcripts()]).answers);
    let claude = transcripts().join("claude");
    let twice = [
        transcripts(),
        claude.clone(),
        claude.join("projects/../projects"),
    ];
    assert_eq!(sum(&read(&twice).answers), once);
    #[cfg(unix)]
    {
        let folder = std::env::temp_dir().join(format!("cachalot-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(transcripts(), &link).unwrap();
        // A folder that contains itself.
        let _ = std::os::unix::fs::symlink(&folder, folder.join("self"));
        assert_eq!(sum(&read(&[folder.clone(), transcripts()]).answers), once);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn unknown_and_malformed_lines_are_counted() {
    let text = concat!(
        r#"{"type":"user","sessionId":"s","uuid":"u"}"#,
        "\n{\n",
        r#"{"type":"teleport","sessionId":"s"}"#,
        "\n",
        r#"{"type":"assistant","sessionId":"s","isSidechain":true,"message":{"id":"m","model":"claude-sonnet-4-5","usage":{"input_tokens":5,"output_tokens":7}}}"#,
        "\nnot JSON\n",
        r#"{"type":"assistant","sessionId":"s","message":{"id":"n","model":"<synthetic>","usage":{"input_tokens":5,"output_tokens":7}}}"#,
        "\n",
    );
    let (spending, read) = read_text("s.jsonl", text);
    assert_eq!(sum(&spending.answers).1, Usage::from_counts(5, 7));
    assert!(spending.answers[0].is_partial);
    assert_eq!(spending.unknown["Claude Code: teleport"], 1);
    assert!(matches!(
        read,
        Err(FileError::Malformed { first: 2, count: 2 })
    ));
    for (text, is_unknown) in [("", false), ("{\"a\": 1}\n", true), ("[1]\n", true)] {
        let (spending, read) = read_text("x.jsonl", text);
        assert!(spending.answers.is_empty());
        assert_eq!(
            matches!(read, Err(FileError::Unknown)),
            is_unknown,
            "{text}"
        );
    }
}

/// Codex's newer records, and lines that a sub-agent has from its parent.
#[test]
fn records_count_instead_of_totals() {
    let text = concat!(
        r#"{"type":"session_meta","ordinal":0,"payload":{"id":"c","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p"}}},"subagent_history_start_ordinal":4}}"#,
        "\n",
        r#"{"type":"turn_context","ordinal":1,"payload":{"model":"gpt-5","cwd":"/x"}}"#,
        "\n",
        r#"{"type":"token_usage_record","ordinal":2,"payload":{"response_id":"r0","usage":{"input_tokens":900,"output_tokens":9}}}"#,
        "\n",
        r#"{"type":"token_usage_record","ordinal":4,"payload":{"response_id":"r1","usage":{"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":30,"output_tokens":5}}}"#,
        "\n",
        r#"{"type":"event_msg","ordinal":5,"payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":1000},"last_token_usage":{"input_tokens":100}}}}"#,
        "\n",
        r#"{"type":"token_usage_record","ordinal":6,"payload":{"response_id":"r1","usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":5}}}"#,
        "\n",
    );
    let (spending, read) = read_text("rollout-c.jsonl", text);
    read.unwrap();
    let expected = Usage {
        uncached_input: 10,
        cache_read: 60,
        cache_write_other: 30,
        output: 5,
        ..Usage::default()
    };
    assert_eq!(sum(&spending.answers), (1, expected));
}

#[test]
fn resumed_chats_of_gemini_count_once() {
    let text = concat!(
        r#"{"sessionId":"g","projectHash":"h","startTime":"2026-11-20T08:00:00Z"}"#,
        "\n",
        r#"{"id":"m1","type":"gemini","model":"gemini-2.5-pro","tokens":{"input":10,"output":1}}"#,
        "\n",
        r#"{"$set":{"messages":[{"id":"m1","type":"gemini","model":"gemini-2.5-pro","tokens":{"input":10,"output":2}},{"id":"m2","type":"gemini","model":"gemini-2.5-pro","tokens":{"input":20,"output":3}}]}}"#,
        "\n",
        r#"{"$rewindTo":"m1"}"#,
        "\n",
    );
    let (spending, read) = read_text("chat.jsonl", text);
    read.unwrap();
    assert_eq!(sum(&spending.answers), (2, Usage::from_counts(30, 5)));
}

#[test]
fn advisors_and_service_tiers_have_their_own_prices() {
    let line = |usage: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"s","message":{{"id":"m","model":"claude-sonnet-4-5","stop_reason":"end_turn","usage":{usage}}}}}"#
        )
    };
    let advised = line(
        r#"{"input_tokens":5,"output_tokens":7,"iterations":[{"type":"message","input_tokens":5,"output_tokens":7},{"type":"advisor_message","model":"claude-opus-4-8","input_tokens":40,"output_tokens":8}]}"#,
    );
    let (spending, _) = read_text("s.jsonl", &advised);
    let models: Vec<_> = spending
        .answers
        .iter()
        .map(|answer| (&*answer.model, answer.usage))
        .collect();
    assert_eq!(
        models,
        [
            ("claude-sonnet-4-5", Usage::from_counts(5, 7)),
            ("claude-opus-4-8", Usage::from_counts(40, 8))
        ]
    );
    let fast = line(r#"{"input_tokens":5,"output_tokens":7,"speed":"fast"}"#);
    let (spending, _) = read_text("s.jsonl", &fast);
    let mut totals = SpendTotals::default();
    totals.add(&spending.answers[0], &Catalog::built_in());
    assert_eq!(totals.cost, Cost::UNPRICED);
    // The model has no fast mode.
    let reason = "the price of the speed `fast` is not known".to_owned();
    assert_eq!(totals.unpriced, [(reason, 1)].into());
}

#[test]
fn counts_that_cannot_be_read_are_named() {
    let text = r#"{"type":"assistant","sessionId":"s","uuid":"u","message":{"id":"m1","model":"claude-opus-4-8","usage":{"input_tokens":1000000.0,"output_tokens":5}}}"#;
    let (spending, read) = read_text("s.jsonl", text);
    read.unwrap();
    assert!(spending.answers.is_empty());
    let named: Vec<&str> = spending.unknown.keys().map(String::as_str).collect();
    assert_eq!(
        named,
        ["Claude Code: an answer whose usage has no whole numbers"]
    );
}

#[test]
fn lines_with_too_many_values_are_skipped_and_named() {
    let answer = |id: &str, more: &str| {
        format!(
            r#"{{"type":"assistant","sessionId":"s","uuid":"u","message":{{"id":"{id}","model":"claude-opus-4-8","usage":{{"input_tokens":1,"output_tokens":5{more}}}}}}}"#
        )
    };
    let many = format!(r#","x":[{}0]"#, "0,".repeat(1 << 20));
    let text = format!("{}\n{}\n", answer("m1", &many), answer("m2", ""));
    let (spending, read) = read_text("s.jsonl", &text);
    assert!(matches!(
        read,
        Err(FileError::Malformed { first: 1, count: 1 })
    ));
    assert_eq!(spending.answers.len(), 1);
}

#[test]
fn sessions_have_titles() {
    let prompt = r#"{"type":"user","sessionId":"s","uuid":"u1","message":{"role":"user","content":"Fix\n the tests"}}"#;
    let own = r#"{"type":"user","sessionId":"s","uuid":"u0","message":{"role":"user","content":"<command-name>/clear</command-name>"}}"#;
    let result = r#"{"type":"user","sessionId":"s","uuid":"u2","message":{"role":"user","content":[{"type":"tool_result","content":"no title"}]}}"#;
    let generated = r#"{"type":"ai-title","sessionId":"s","aiTitle":"Repair of tests"}"#;
    let given = r#"{"type":"custom-title","sessionId":"s","customTitle":"My tests"}"#;
    let title = |lines: &[&str]| {
        let (spending, read) = read_text("s.jsonl", &lines.join("\n"));
        read.unwrap();
        spending
            .titles
            .get(&(Client::ClaudeCode, "s".into()))
            .cloned()
    };
    assert_eq!(title(&[own, result]), None);
    assert_eq!(
        title(&[own, result, prompt]).as_deref(),
        Some("Fix the tests")
    );
    assert_eq!(
        title(&[prompt, generated]).as_deref(),
        Some("Repair of tests")
    );
    assert_eq!(
        title(&[prompt, given, generated]).as_deref(),
        Some("My tests")
    );
}

#[test]
fn projects_of_gemini_cli_have_their_path() {
    let folder = tempfile::tempdir().unwrap();
    let chat = |name: &str| {
        let chats = folder.path().join(name).join("chats");
        std::fs::create_dir_all(&chats).unwrap();
        let text = format!(
            r#"{{"sessionId":"{name}","projectHash":"x","startTime":"2026-11-28T11:09:59.507Z"}}
{{"id":"{name}","timestamp":"2026-11-28T11:09:59.507Z","type":"gemini","model":"gemini-2.5-pro","tokens":{{"input":10,"output":1}}}}
"#
        );
        std::fs::write(chats.join("session-1.jsonl"), text).unwrap();
    };
    // The SHA-256 of `/home/ada/api`, and of a directory that no other program names.
    let hashed = cachalot_core::Digest::sha256(b"/home/ada/api").to_hex();
    let unknown = cachalot_core::Digest::sha256(b"/elsewhere").to_hex();
    for name in ["api", &hashed, &unknown] {
        chat(name);
    }
    std::fs::write(folder.path().join("api/.project_root"), "/home/ada/web\n").unwrap();
    let other = r#"{"type":"assistant","sessionId":"s","uuid":"u","cwd":"/home/ada/api/src","timestamp":"2026-11-28T11:00:00.000Z","message":{"id":"m","model":"claude-sonnet-4-5","usage":{"input_tokens":1,"output_tokens":1}}}"#;
    std::fs::write(folder.path().join("claude.jsonl"), other).unwrap();
    let spending = read(&[folder.path().to_owned()]);
    let project = |session: &str| {
        let answers = spending.answers.iter();
        let mut found = answers.filter(|answer| &*answer.session == session);
        found.next().unwrap().project.to_string()
    };
    assert_eq!(project("api"), "/home/ada/web");
    assert_eq!(project(&hashed), "/home/ada/api");
    assert_eq!(project(&unknown), unknown);
}
