//! Logs as clients really write them: branches, edits, titles, retries.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::Reason;
use cachalot_prefix::log::{Analysis, Analyzer, LogReader};
use serde_json::{Value, json};

/// A conversation of alternating user and assistant texts.
fn talk(system: &str, said: &[&str]) -> Value {
    let messages = said.iter().enumerate().map(|(at, text)| {
        json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text})
    });
    let mut all = vec![json!({"role": "system", "content": system})];
    all.extend(messages);
    json!({"model": "gpt-4.1", "messages": all})
}

fn by(model: &str, mut request: Value) -> Value {
    request["model"] = json!(model);
    request
}

fn in_session(session: &str, request: Value) -> Value {
    json!({"session": session, "request": request})
}

fn analyzed(values: &[Value]) -> Analysis {
    let log: String = values.iter().map(|value| format!("{value}\n")).collect();
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log.as_bytes()).unwrap();
    analyzer.finish()
}

/// The lines that break a prefix, by their reasons.
fn broken(analysis: &Analysis) -> Vec<(Reason, u64)> {
    let breaks = analysis.breaks.iter();
    let mut lines: Vec<_> = breaks
        .flat_map(|breaks| breaks.examples.iter().map(|one| (breaks.reason, one.line)))
        .collect();
    lines.sort_by_key(|(_, line)| *line);
    lines
}

const NOTHING: [(Reason, u64); 0] = [];

#[test]
fn requests_with_different_last_messages_are_branches() {
    for session in [false, true] {
        let part = |last: &str| {
            let request = talk("You help.", &["Read this.", "I have.", last]);
            if session {
                in_session("s", request)
            } else {
                request
            }
        };
        let analysis = analyzed(&[
            part("Part 1 of the text"),
            part("Part 2 of the text"),
            part("Ticket 2026-11-12 10:43"),
            part("Ticket 2026-11-13 10:44"),
            part("something else"),
        ]);
        assert_eq!(broken(&analysis), NOTHING);
        assert_eq!(
            (analysis.conversations, analysis.tree.sharing.leaves),
            (5, 5)
        );
    }
}

#[test]
fn branches_of_a_conversation_continue_separately() {
    let with = |said: &[&str]| talk("You help.", said);
    let analysis = analyzed(&[
        with(&["a", "b", "c"]),
        with(&["a", "b", "c", "plan", "Worker 0: look"]),
        with(&["a", "b", "c", "plan", "Worker 1: look"]),
        with(&["a", "b", "c", "plan", "Worker 2: look"]),
        with(&["a", "b", "c", "plan", "Worker 1: look", "found", "go on"]),
        with(&["a", "b", "c", "plan", "Worker 0: look", "lost", "go on"]),
    ]);
    assert_eq!(broken(&analysis), NOTHING);
    assert_eq!(
        (analysis.conversations, analysis.tree.sharing.leaves),
        (3, 3)
    );
}

#[test]
fn branches_may_differ_in_several_last_messages() {
    let with = |document: &str| {
        let mut request = talk("You help.", &["Read this.", "I have.", document]);
        let messages = request["messages"].as_array_mut().unwrap();
        messages
            .extend(["Be brief.", "Be kind."].map(|said| json!({"role": "user", "content": said})));
        request
    };
    let analysis = analyzed(&[with("Document 1"), with("Document 2"), with("Document 3")]);
    assert_eq!(broken(&analysis), NOTHING);
}

#[test]
fn different_image_in_the_last_message_is_a_branch() {
    let with = |image: &str| {
        let mut request = talk("You help.", &["Look.", "I do."]);
        let messages = request["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "user", "content": [
            {"type": "text", "text": "what is it"},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{image}")}}]}));
        request
    };
    let analysis = analyzed(&[with("AAAA"), with("BBBB"), with("CCCC")]);
    assert_eq!(broken(&analysis), NOTHING);
}

#[test]
fn change_in_the_middle_is_a_break_without_a_known_cause() {
    for session in [false, true] {
        let with = |answer: &str, said: &[&str]| {
            let said = [&["first question", answer], said].concat();
            let request = talk("You help.", &said);
            if session {
                in_session("s", request)
            } else {
                request
            }
        };
        let analysis = analyzed(&[
            talk("You help.", &["first question"]),
            with("the whale dives", &["second question"]),
            with(
                "the whale dives",
                &["second question", "so it is", "third question"],
            ),
            with(
                "the [REDACTED] dives",
                &[
                    "second question",
                    "so it is",
                    "third question",
                    "yes",
                    "fourth question",
                ],
            ),
        ]);
        assert_eq!(broken(&analysis), [(Reason::MessagesChanged, 4)]);
    }
}

#[test]
fn only_the_first_change_of_a_series_is_reported() {
    let trimmed = analyzed(&[
        talk("You help.", &["one", "the first answer", "two"]),
        talk(
            "You help.",
            &["one", "first answer", "two", "the second answer", "three"],
        ),
    ]);
    assert_eq!(broken(&trimmed), [(Reason::MessagesChanged, 2)]);
    let asked = "what stands in the notes about whales, and who has seen them, and when, and where, and why?";
    let with = |left: &str| format!("{asked} {asked} {left}");
    let (at_first, later) = (with("(3 tools are left)"), with(""));
    let suffix = analyzed(&[
        talk("You help.", &[&at_first]),
        talk("You help.", &[&later, "nothing", "and then?"]),
    ]);
    assert_eq!(broken(&suffix), [(Reason::MessagesChanged, 2)]);
    let (one, other) = (
        format!("File: whales. {asked}"),
        format!("File: sharks. {asked}"),
    );
    let file = analyzed(&[
        talk("You help.", &[&one]),
        talk("You help.", &[&other, "nothing", "and then?"]),
    ]);
    assert_eq!(broken(&file), [(Reason::MessagesChanged, 2)]);
}

#[test]
fn conversations_with_equal_beginnings_are_separated() {
    let of = |name: &str| {
        let system = format!("You help {name}.");
        let wish = format!("{name} wants a boat");
        let said = [
            "Can you help me?",
            "Of course!",
            &wish,
            "Here it is.",
            "continue",
        ];
        [1, 3, 5].map(|count| talk(&system, &said[..count]))
    };
    let (ann, bob, cyd) = (of("Ann"), of("Bob"), of("Cyd"));
    let all: Vec<Value> = (0..3)
        .flat_map(|at| [&ann, &bob, &cyd].map(|one| one[at].clone()))
        .collect();
    let analysis = analyzed(&all);
    assert_eq!(broken(&analysis), NOTHING);
    assert_eq!(
        (analysis.conversations, analysis.tree.sharing.leaves),
        (3, 3)
    );
}

#[test]
fn title_requests_to_another_model_are_no_breaks() {
    let title = || by("gpt-4o-mini", talk("You make titles.", &["a question"]));
    let with = |said: &[&str]| talk("You help.", said);
    let titled = analyzed(&[
        in_session("s", with(&["a question"])),
        in_session("s", title()),
        in_session("s", with(&["a question", "an answer", "more"])),
        in_session("s", title()),
    ]);
    assert_eq!(broken(&titled), NOTHING);
    assert_eq!(titled.conversations, 2);

    let each = |said: &[&str]| {
        by(
            "gpt-4o-mini",
            talk("You make titles.", &[said, &["Title, please"]].concat()),
        )
    };
    let each = analyzed(&[
        with(&["a question"]),
        each(&["a question", "I see"]),
        with(&["a question", "an answer", "more"]),
        each(&["a question", "I see", "more", "I see too"]),
    ]);
    assert_eq!(broken(&each), NOTHING);

    let evaluated = ["gpt-4.1", "gpt-4o", "gpt-4o-mini"];
    let evaluated = evaluated.map(|model| by(model, with(&["a question"])));
    assert_eq!(broken(&analyzed(&evaluated)), NOTHING);

    let at = |minute: u32, said: &[&str]| talk(&format!("It is 10:4{minute}. You help."), said);
    let hidden = analyzed(&[
        at(0, &["a question"]),
        title(),
        at(1, &["a question", "an answer", "more"]),
    ]);
    assert_eq!(broken(&hidden), [(Reason::SystemChanged, 3)]);
}

#[test]
fn conversation_continued_with_another_model_is_a_break() {
    let analysis = analyzed(&[
        talk("You help.", &["a question"]),
        by(
            "gpt-4o",
            talk("You help.", &["a question", "an answer", "more"]),
        ),
    ]);
    assert_eq!(broken(&analysis), [(Reason::ModelChanged, 2)]);
    assert_eq!(analysis.conversations, 1);
}

fn answered(at: u64, request: Value, cached: u64) -> Value {
    json!({"ts": 1_795_250_000 + at, "request": request, "response": {"status": 200, "body": {
        "usage": {"prompt_tokens": 2_600 + at, "prompt_tokens_details": {"cached_tokens": cached}}}}})
}

#[test]
fn failed_request_writes_no_cache() {
    let long = "word ".repeat(2_000);
    let request = || talk(&long, &["a question"]);
    // A provider that is known to tell what it reads from its cache.
    let tells = || answered(0, talk("Another.", &["hi"]), 64);
    for response in [
        json!({"status": 429, "body": {"error": {"message": "slow down"}}}),
        json!({"error": {"message": "overloaded"}}),
        json!({"status_code": 503}),
    ] {
        let analysis = analyzed(&[
            tells(),
            json!({"ts": 1_795_250_001, "request": request(), "response": response}),
            answered(5, request(), 0),
            answered(9, talk(&long, &["a question", "an answer", "more"]), 2_560),
        ]);
        assert_eq!(broken(&analysis), NOTHING, "{response}");
        assert_eq!((analysis.requests, analysis.failed), (4, 1));
    }
    // Who has told of a cache once is believed when nothing was read.
    let answers = [(0, 0), (5, 2_560), (9, 0)];
    let answers = answers.map(|(at, cached)| answered(at, request(), cached));
    let analysis = analyzed(&answers);
    assert_eq!(broken(&analysis), [(Reason::EvictedOrUnknown, 3)]);
}

#[test]
fn log_in_answer_order_is_read_in_request_order() {
    let long = "word ".repeat(2_000);
    let turns = ["a", "b", "c", "d", "e"];
    let [first, second, third] = [1, 3, 5].map(|count| talk(&long, &turns[..count]));
    let analysis = analyzed(&[
        answered(60, second, 2_560),
        answered(0, first, 0),
        answered(120, third, 2_560),
    ]);
    assert_eq!(broken(&analysis), NOTHING);
    assert_eq!(analysis.conversations, 1);
}

#[test]
fn tree_contains_every_request() {
    let run = |way: &str| {
        let said = [
            "fix the bug",
            &format!("I try {way}"),
            &format!("{way} failed"),
        ];
        [1, 3].map(|count| talk("You help.", &said[..count]))
    };
    let runs = ["this", "that", "something", "nothing"].map(run).concat();
    let analysis = analyzed(&runs);
    assert_eq!(broken(&analysis), NOTHING);
    assert_eq!(
        (analysis.conversations, analysis.tree.sharing.leaves),
        (4, 4)
    );

    let undone = analyzed(&[
        talk("You help.", &["a", "b", "c", "d", "e"]),
        talk("You help.", &["a", "b", "c"]),
    ]);
    assert_eq!(undone.tree.sharing.prompts, 2);
    assert_eq!(undone.tree.sharing.leaves, 1);
}

#[test]
fn batch_requests_are_read_from_params() {
    let line = json!({"custom_id": "r1", "params": talk("You help.", &["hi"])}).to_string();
    let logged = LogReader::new(line.as_bytes()).next().unwrap().unwrap();
    assert_eq!(logged.request.prompt.len(), 2);
    let line = json!({"params": {"a": 1}, "request": talk("You help.", &["hi"])}).to_string();
    assert!(LogReader::new(line.as_bytes()).next().unwrap().is_ok());
}

#[test]
fn usage_is_read_from_a_recorded_stream() {
    let usage = |line: &Value| {
        let logged = LogReader::new(line.to_string().as_bytes()).next();
        logged.unwrap().unwrap().usage.unwrap()
    };
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":\
        {\"input_tokens\":3,\"cache_read_input_tokens\":70,\"output_tokens\":1}}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n";
    let request = json!({"model": "claude-sonnet-4-5", "messages": []});
    let told = usage(&json!({"request": request, "response": anthropic}));
    assert_eq!(
        (told.total_input(), told.cache_read, told.output),
        (73, 70, 9)
    );
    let openai = "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":\
        {\"prompt_tokens\":100,\"completion_tokens\":3,\
        \"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\ndata: [DONE]\n\n";
    let request = talk("You help.", &["hi"]);
    let told = usage(&json!({"request": request, "response": {"status": 200, "body": openai}}));
    assert_eq!((told.total_input(), told.cache_read), (100, 64));
}
