//! Sessions, answer by answer.

use std::path::Path;
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::log::Analyzer;
use cachalot_prefix::spend::{SpendReader, Spending};
use cachalot_prefix::walk::{Breaks, JumpCause, SessionWalk, Walker, sessions};
use serde_json::{Value, json};

const MODEL: &str = "claude-sonnet-4-5-20250929";

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// An answer of Claude Code at a second, whose request read and wrote so many tokens.
fn answer(second: u64, id: &str, model: &str, (read, written): (u64, u64), output: u64) -> Value {
    let (minutes, seconds) = (second / 60, second % 60);
    json!({"type": "assistant", "uuid": id, "sessionId": "s1", "cwd": "/home/ada/shop", "isSidechain": false,
        "timestamp": format!("2026-11-18T{:02}:{:02}:{seconds:02}.000Z", 9 + minutes / 60, minutes % 60),
        "message": {"id": id, "role": "assistant", "model": model, "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "…"}],
            "usage": {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written}}})
}

fn with(mut line: Value, members: Value) -> Value {
    for (name, member) in members.as_object().unwrap() {
        line[name] = member.clone();
    }
    line
}

fn calling(mut line: Value, id: &str, tool: &str) -> Value {
    line["message"]["content"] = json!([{"type": "tool_use", "id": id, "name": tool, "input": {}}]);
    line
}

fn read(files: &[(&str, &str)]) -> Spending {
    let mut reader = SpendReader::with_details();
    for (name, text) in files {
        reader.read(Path::new(name), text.as_bytes()).unwrap();
    }
    reader.finish()
}

/// Walks the only session, with the breaks of the text.
fn walked<T>(lines: &[Value], check: impl FnOnce(&SessionWalk<'_>) -> T) -> T {
    let text = text(lines);
    let spending = read(&[("s1.jsonl", &text)]);
    let mut analyzer =
        Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty())).keep_breaks(100);
    analyzer.read(text.as_bytes()).unwrap();
    let breaks = Breaks::new(analyzer.finish().all_breaks);
    let catalog = Catalog::built_in();
    let sessions = sessions(&spending.answers, &spending.side_requests);
    let [session] = sessions.as_slice() else {
        panic!("{sessions:?}")
    };
    check(&Walker::new(&catalog, &breaks).walk(session))
}

#[test]
fn pauses_losses_and_tools_are_those_of_a_conversation() {
    let agent = json!({"agentId": "a1", "isSidechain": true});
    let lines = [
        calling(answer(0, "m1", MODEL, (0, 20_000), 100), "t1", "Read"),
        // Another line of the same answer, and a copy of that line.
        calling(answer(1, "m1", MODEL, (0, 20_000), 200), "t2", "Bash"),
        calling(answer(1, "m1", MODEL, (0, 20_000), 200), "t2", "Bash"),
        with(answer(700, "m2", MODEL, (0, 3_000), 50), agent),
        answer(720, "m3", MODEL, (0, 21_000), 100),
    ];
    walked(&lines, |walk| {
        let [first, of_agent, last] = walk.turns.as_slice() else {
            panic!("{:?}", walk.turns)
        };
        let tools = &first.answer.details.as_ref().unwrap().tools;
        assert_eq!(
            tools.iter().map(|tool| &**tool).collect::<Vec<_>>(),
            ["Read", "Bash"]
        );
        assert_eq!(first.pause, None);
        // The sub-agent has a conversation of its own.
        assert_eq!(of_agent.answer.agent(), Some("a1"));
        assert_eq!((of_agent.pause, of_agent.is_cold), (None, false));
        assert_eq!(last.answer.agent(), None);
        assert_eq!(last.pause, Some(720_000));
        assert_eq!(last.lifetime, Some(300_000));
        assert!(last.is_cold);
        let loss = last.loss.as_ref().unwrap();
        assert_eq!(loss.tokens, 20_000);
        assert_eq!(loss.cause, "the cached prefix had expired");
        assert_eq!(walk.lost(), (20_000, loss.cost.unwrap()));
        assert_eq!(&*walk.project, "/home/ada/shop");
    });
}

#[test]
fn jumps_have_the_cause_of_their_largest_part() {
    let jumps = |lines: &[Value]| {
        walked(lines, |walk| {
            let jumps = walk.turns.iter();
            jumps
                .map(|turn| turn.jump.map(|jump| jump.cause))
                .collect::<Vec<_>>()
        })
    };
    let first = || answer(0, "m1", MODEL, (0, 20_000), 100);
    let next = || answer(10, "m2", MODEL, (20_000, 500), 100);
    assert_eq!(
        jumps(&[
            first(),
            next(),
            answer(20, "m3", MODEL, (20_500, 500), 5_000)
        ]),
        [None, None, Some(JumpCause::LargerOutput)]
    );
    assert_eq!(
        jumps(&[
            first(),
            next(),
            answer(20, "m3", MODEL, (20_500, 60_000), 100)
        ]),
        [None, None, Some(JumpCause::LongerPrompt)]
    );
    assert_eq!(
        jumps(&[first(), next(), answer(900, "m3", MODEL, (0, 21_000), 100)]),
        [None, None, Some(JumpCause::ColdCache)]
    );
    assert_eq!(
        jumps(&[first(), next(), answer(20, "m3", MODEL, (0, 21_000), 100)]),
        [None, None, Some(JumpCause::BrokenPrefix)]
    );
    // The same tokens at the price of another model.
    assert_eq!(
        jumps(&[
            first(),
            next(),
            answer(20, "m3", "claude-opus-4-1-20250805", (20_000, 500), 100)
        ]),
        [None, None, Some(JumpCause::OtherModel)]
    );
    // Not twice as much.
    assert_eq!(
        jumps(&[first(), next(), answer(20, "m3", MODEL, (20_500, 700), 120)]),
        [None, None, None]
    );
}

#[test]
fn recorded_requests_give_the_texts_that_differ() {
    let hash = |digit: char| digit.to_string().repeat(64);
    let line = |kind: &str, members: Value| {
        with(
            json!({"type": kind, "sessionId": "s1", "isSidechain": false}),
            members,
        )
    };
    let shape = |digit: char, system: &str| {
        let shape = json!({"system": [{"type": "text", "text": system}]});
        line(
            "api-request-shape",
            json!({"shapeHash": hash(digit), "shape": shape}),
        )
    };
    let request = |id: &str, shape: char| {
        let markers = json!([{"path": ["system", 0], "value": {"type": "ephemeral"}}]);
        let params = json!({"model": MODEL, "max_tokens": 9});
        line(
            "api-request",
            json!({"id": id, "shapeHash": hash(shape), "keep": 0, "tail": [hash('1')],
                "thread": {"type": "none"}, "params": params, "cacheControl": markers}),
        )
    };
    let message = json!({"role": "user", "content": [{"type": "text", "text": "Fix it."}]});
    let lines = [
        shape('a', "You are a coding agent. It is 09:00 o'clock."),
        shape('b', "You are a coding agent. It is 09:07 o'clock."),
        line(
            "api-request-blob",
            json!({"hash": hash('1'), "message": message}),
        ),
        request("r1", 'a'),
        with(
            answer(0, "m1", MODEL, (0, 20_000), 100),
            json!({"requestRef": "r1"}),
        ),
        request("r2", 'b'),
        with(
            answer(20, "m2", MODEL, (0, 20_000), 100),
            json!({"requestRef": "r2"}),
        ),
    ];
    walked(&lines, |walk| {
        let loss = walk.turns[1].loss.as_ref().unwrap();
        let change = loss.logged.unwrap().diagnosis.change.as_ref().unwrap();
        assert!(change.before.contains("09:00"), "{change:?}");
        assert!(change.after.contains("09:07"), "{change:?}");
        assert_eq!(loss.cause, "a time of day in the prefix");
        assert_eq!(walk.turns[0].loss.as_ref().map(|loss| loss.tokens), None);
    });
}

/// The transcript has a record and a count for each answer, with the result of a tool between them.
#[test]
fn tools_of_codex_and_others_are_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/data/transcripts");
    let called = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let spending = read(&[(file, &text)]);
        let sessions = sessions(&spending.answers, &spending.side_requests);
        let answers = sessions.iter().flat_map(|session| &session.answers);
        let tools = answers.map(|answer| answer.details.as_ref().unwrap().tools.join(" "));
        tools.collect::<Vec<_>>()
    };
    let codex = "codex/tool_resume_fork_subagent_compact/sessions/2026/11/28/rollout-2026-11-28T11-08-56-01a221d8-0cf2-7fd1-bcaf-3bd7c719607c.jsonl";
    assert_eq!(called(codex), ["exec_command", "", ""]);
    let gemini = "gemini-cli/tool_and_resume/gwork/chats/session-2026-11-28T11-09-d48fb249.jsonl";
    assert_eq!(called(gemini), ["run_shell_command", "", ""]);
    let pi = "pi/three_apis_and_fork/--home-user-piwork--/2026-11-28T11-14-17-812Z_01a221dc-f253-740f-97eb-075d84730d23.jsonl";
    assert_eq!(called(pi), ["bash", ""]);
}

#[test]
fn details_are_kept_on_request_only() {
    let text = text(&[calling(
        answer(0, "m1", MODEL, (0, 20_000), 100),
        "t1",
        "Read",
    )]);
    let mut reader = SpendReader::default();
    reader.read(Path::new("s1.jsonl"), text.as_bytes()).unwrap();
    assert!(reader.finish().answers[0].details.is_none());
}

/// A fork repeats the answers of its parent; only the parent's file has their requests.
#[test]
fn file_of_an_answer_is_that_of_its_session() {
    let line = answer(0, "m1", MODEL, (0, 20_000), 100);
    let copy = with(
        line.clone(),
        json!({"sessionId": "s0", "requestSessionId": "s1"}),
    );
    let (copy, line) = (text(&[copy]), text(&[line]));
    let spending = read(&[("s0.jsonl", &copy), ("s1.jsonl", &line)]);
    let [answer] = spending.answers.as_slice() else {
        panic!("{:?}", spending.answers)
    };
    assert_eq!(&*answer.session, "s1");
    let file = &answer.details.as_ref().unwrap().file;
    assert_eq!(&**file, Path::new("s1.jsonl"));
}

#[test]
fn pause_of_a_program_without_causes_is_concluded_from_counts() {
    let answer = |minute: u64, read: u64, written: u64| {
        json!({"type": "message", "id": format!("m{minute}"),
            "timestamp": format!("2026-11-18T09:{minute:02}:00.000Z"),
            "message": {"role": "assistant", "api": "anthropic-messages", "model": "claude-opus-5-5",
                "usage": {"input": 3, "output": 9, "cacheRead": read, "cacheWrite": written}}})
    };
    let session = json!({"type": "session", "version": 3, "id": "s1", "cwd": "/home/ada/shop"});
    let lines = [
        session,
        answer(0, 0, 20_000),
        answer(1, 0, 20_500),
        answer(12, 0, 21_000),
    ];
    walked(&lines, |walk| {
        let [_, soon, late] = walk.turns.as_slice() else {
            panic!("{:?}", walk.turns)
        };
        // Within the lifetime, other reasons are possible.
        assert!(soon.loss.is_none());
        assert_eq!(late.loss.as_ref().map(|loss| loss.tokens), Some(20_500));
        assert_eq!(late.pause, Some(660_000));
    });
}

#[test]
fn answers_that_are_not_shown_still_precede_the_others() {
    let lines = [
        answer(0, "m1", MODEL, (0, 20_000), 100),
        answer(3_600, "m2", MODEL, (0, 20_000), 100),
    ];
    let spending = read(&[("s1.jsonl", &text(&lines))]);
    let (catalog, breaks) = (Catalog::built_in(), Breaks::new(Vec::new()));
    let sessions = sessions(&spending.answers, &spending.side_requests);
    let walker = Walker::new(&catalog, &breaks);
    let all = walker.walk(&sessions[0]);
    let last = all.turns[1].answer.at;
    let shown = walker.walk_shown(&sessions[0], &|answer| answer.at == last);
    assert_eq!((all.turns.len(), shown.turns.len()), (2, 1));
    assert_eq!((shown.totals.answers, shown.lost().0), (1, 20_000));
    assert_eq!(shown.turns[0].pause, all.turns[1].pause);
}
