//! `redact_secrets`: no secrets for models, and none from them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::{DigestKey, ManualClock, SecretSet};
use cachalot_hooks::builtin::BuiltinDependencies;
use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_hooks::{Builtins, Event, HookEntry, Hooks, Input, Matcher, Output, Verdict};
use cachalot_model::{
    Block, Extra, Format, Image, ImageSource, Message, Reasoning, Role, ToolResult,
    ToolUse as Called,
};
use cachalot_storage::{HttpClient, HttpOptions};
use serde_json::{Value, json};

use crate::hook_builder::{entry, hook_dependencies};
use crate::seam::Agent;

const KNOWN: &str = "correct \"horse\" battery";
const SHAPED: &str = "sk-abcdefghijklmnopqrstuv";
const ON: &str = "redact_secrets: true";

/// The builtins that come with the program, with one known secret and a directory for temporary files.
pub(crate) fn builtins(place: &Path) -> Builtins {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secret_set.learn(KNOWN);
    let environment = BTreeMap::from([("TMPDIR".to_owned(), place.display().to_string())]);
    Builtins::standard(&BuiltinDependencies {
        lookup: Arc::new(()),
        clock: Arc::new(ManualClock::at(0)),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
        secret_set: Arc::new(secret_set),
        environment: Arc::new(environment),
    })
}

/// The hooks of an agent with these sections, of which no file names any.
pub(crate) fn hooks(place: &Path, sections: &str) -> Hooks {
    let agent = Agent::of("root", &[], sections);
    Hooks::assemble(Vec::new(), &agent, &hook_dependencies(builtins(place))).unwrap()
}

#[test]
fn output_is_withheld_only_from_hooks_that_must_see_it() {
    let place = tempfile::tempdir().unwrap();
    // Tools mask the known secrets themselves, and the limit of results is one of the model.
    let known = hooks(place.path(), "");
    assert!(known.handles_tool(Event::ToolResponseTransform, "shell"));
    assert!(!known.withholds_output("shell"));
    assert!(hooks(place.path(), ON).withholds_output("shell"));
    assert!(!Hooks::default().withholds_output("shell"));
    let of_shell = HookEntry {
        matcher: Matcher::new("shell").unwrap(),
        ..entry(Event::ToolResponseTransform, "redact_secrets", &[])
    };
    let agent = Agent::of("root", &[], "");
    let dependencies = hook_dependencies(builtins(place.path()));
    let of_shell = Hooks::assemble(vec![of_shell], &agent, &dependencies).unwrap();
    assert!(of_shell.withholds_output("shell"));
    assert!(!of_shell.withholds_output("read_file"));
}

async fn fire(sections: &str, input: Input) -> Verdict {
    let place = tempfile::tempdir().unwrap();
    hooks(place.path(), sections).fire(input).await
}

fn given(arguments: Value) -> Input {
    let Value::Object(input) = arguments else {
        panic!("no arguments");
    };
    Input {
        event: Event::ToolInputTransform,
        tool: Some(ToolUse {
            name: "shell".into(),
            input,
            ..ToolUse::default()
        }),
        ..Input::default()
    }
}

fn answered(text: &str, is_error: bool) -> Input {
    Input {
        event: Event::ToolResponseTransform,
        tool: Some(ToolUse::default()),
        tool_response: Some(ToolResponse {
            text: text.into(),
            is_error,
        }),
        ..Input::default()
    }
}

fn asking(messages: Vec<Message>, unsent: usize) -> Input {
    Input {
        event: Event::BeforeLlmCall,
        messages: messages.into_iter().map(Arc::new).collect(),
        unsent,
        ..Input::default()
    }
}

/// Why a call with these arguments is not made. Whatever is said, nothing is rewritten.
async fn objection(sections: &str, arguments: Value) -> Option<String> {
    let verdict = fire(sections, given(arguments)).await;
    assert_eq!(
        (verdict.updated_input.as_ref(), verdict.removed_input.len()),
        (None, 0)
    );
    verdict.denial().map(str::to_owned)
}

#[tokio::test]
async fn call_with_a_secret_is_denied_and_not_rewritten() {
    for arguments in [
        json!({"cwd": "/tmp", "command": format!("echo '{KNOWN}' > key")}),
        json!({"command": "curl -H 'Authorization: Bearer abcdefgh12345678' https://host"}),
        json!({"command": ["sh", {"deep": [SHAPED]}]}),
        json!({"command": {SHAPED: true}}),
    ] {
        let why = objection(ON, arguments).await.unwrap();
        assert!(why.contains("`command` holds a secret"), "{why}");
        assert!(why.contains("the call was not made"), "{why}");
        for secret in [KNOWN, SHAPED, "abcdefgh12345678"] {
            assert!(!why.contains(secret), "{why}");
        }
    }
    let why = objection(ON, json!({SHAPED: 1})).await.unwrap();
    assert!(why.contains("`[secret]` holds a secret"), "{why}");
}

/// The model has seen a file with a mask, and would write the mask over the secret.
#[tokio::test]
async fn call_with_a_mask_is_denied() {
    for arguments in [
        json!({"path": ".env", "content": "KEY=[secret]\nPORT=80"}),
        json!({"content": {"deep": [["[secret]"]]}}),
        json!({"content": {"a [secret]": null}}),
    ] {
        for (sections, is_refused) in [("", true), (ON, true), ("redact_secrets: false", false)] {
            let why = objection(sections, arguments.clone()).await;
            assert_eq!(why.is_some(), is_refused, "{sections} {arguments}");
            let says = |why: &String| why.contains("`content` holds `[secret]`");
            assert!(why.as_ref().is_none_or(says), "{why:?}");
        }
    }
}

#[tokio::test]
async fn names_and_numbers_in_arguments_are_not_secrets() {
    let harmless = json!({"command": "ls", "max_token": 5, "token": "harmless", "n": 1.50});
    assert_eq!(objection(ON, harmless).await, None);
}

#[tokio::test]
async fn texts_without_secrets_are_not_rewritten() {
    let harmless = json!({"path": "a.txt", "null": null, "list": [1, true, "Basic knowledge"]});
    assert_eq!(objection(ON, harmless).await, None);
    assert_eq!(objection(ON, json!({})).await, None);
    let text = "the Basic understanding of ----- and keys like sk-short";
    for input in [
        answered(text, false),
        answered("", false),
        asking(vec![Message::user(text)], 1),
        asking(Vec::new(), 0),
    ] {
        let verdict = fire(ON, input).await;
        assert_eq!(verdict.updated_tool_response, None);
        assert_eq!(verdict.updated_messages, None);
        assert_eq!(verdict.messages, [""; 0]);
    }
}

#[tokio::test]
async fn results_and_failures_of_tools_are_masked() {
    for is_error in [false, true] {
        let text = format!("user: bob\npassword: {KNOWN}\nkey: {SHAPED}\nend");
        let verdict = fire(ON, answered(&text, is_error)).await;
        assert_eq!(
            verdict.updated_tool_response.unwrap(),
            "user: bob\npassword: [secret]\nkey: [secret]\nend"
        );
    }
}

#[tokio::test]
async fn secret_is_found_in_every_encoding() {
    let text = r#"{"p": "correct \"horse\" battery"} ?p=correct%20%22horse%22%20battery"#;
    let verdict = fire(ON, answered(text, false)).await;
    assert_eq!(
        verdict.updated_tool_response.unwrap(),
        r#"{"p": "[secret]"} ?p=[secret]"#
    );
}

#[tokio::test]
async fn private_key_is_masked_without_the_rest_of_a_result() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\nC7VJTUt9Us8cKjMzEfYyjiWA4R4==\n-----END PRIVATE KEY-----";
    let verdict = fire(
        ON,
        answered(&format!("# config\n{key}\nport = 80\n"), false),
    )
    .await;
    assert_eq!(
        verdict.updated_tool_response.unwrap(),
        "# config\n[secret]\nport = 80\n"
    );
}

#[tokio::test]
async fn only_unsent_messages_are_masked() {
    let secret = format!("my key is {SHAPED}");
    let sent = Message::user(&secret);
    let unsent = [
        Message::user("and now?"),
        Message::new(
            Role::User,
            vec![
                Block::text(&secret),
                Block::ToolResult(ToolResult {
                    id: "call-1".into(),
                    content: vec![Block::text(KNOWN), Block::text("fine")],
                    is_error: true,
                    extra: Extra::new(),
                }),
            ],
        ),
    ];
    let mut all = vec![sent];
    all.extend(unsent.clone());
    let updated = fire(ON, asking(all, 2)).await.updated_messages.unwrap();
    assert_eq!(updated.len(), 2);
    assert_eq!(updated[0], unsent[0]);
    assert_eq!(updated[1].text(), "my key is [secret]");
    let Block::ToolResult(result) = &updated[1].content[1] else {
        panic!("no result");
    };
    assert_eq!((result.id.as_str(), result.is_error), ("call-1", true));
    assert_eq!(
        result.content,
        [Block::text("[secret]"), Block::text("fine")]
    );
    let nothing_new = vec![Message::user(&secret), Message::user("and now?")];
    assert_eq!(
        fire(ON, asking(nothing_new, 1)).await.updated_messages,
        None
    );
}

#[tokio::test]
async fn masked_calls_stay_valid_json_and_reasoning_and_images_unchanged() {
    let call = |arguments: String| {
        Block::ToolUse(Called {
            id: "call-1".into(),
            name: "shell".into(),
            arguments,
            extra: Extra::new(),
        })
    };
    let verbatim = [
        Block::Reasoning(Reasoning {
            text: SHAPED.into(),
            format: Format::Messages,
            verbatim: json!({"thinking": SHAPED}),
        }),
        Block::Image(Image {
            source: ImageSource::Url(format!("https://host/?key={SHAPED}")),
            extra: Extra::new(),
        }),
        call(r#"{"n": 1e2}"#.into()),
    ];
    let mut content = verbatim.to_vec();
    content.push(call(json!({"p": KNOWN, "n": 2}).to_string()));
    content.push(call(format!("{{\"broken\": \"{SHAPED}")));
    let message = Message::new(Role::Assistant, content);
    let updated = fire(ON, asking(vec![message], 1)).await;
    let updated = updated.updated_messages.unwrap();
    assert_eq!(updated[0].content[..3], verbatim);
    let written: Vec<&str> = updated[0]
        .tool_uses()
        .map(|call| call.arguments.as_str())
        .collect();
    assert_eq!(
        written[1..],
        [r#"{"p":"[secret]","n":2}"#, r#"{"broken": "[secret]"#]
    );
}

#[tokio::test]
async fn section_decides_whether_credential_shapes_are_masked() {
    for (sections, known, shaped) in [
        ("", true, false),
        ("redact_secrets:", true, false),
        (ON, true, true),
        ("redact_secrets: false", false, false),
    ] {
        for (secret, is_masked) in [(KNOWN, known), (SHAPED, shaped)] {
            let why = objection(sections, json!({"a": secret})).await;
            assert_eq!(why.is_some(), is_masked, "{sections}");
            let verdict = fire(sections, answered(secret, false)).await;
            let updated = verdict.updated_tool_response;
            assert_eq!(updated.is_some(), is_masked, "{sections}");
            let verdict = fire(sections, asking(vec![Message::user(secret)], 1)).await;
            assert_eq!(verdict.updated_messages.is_some(), is_masked, "{sections}");
        }
    }
}

#[tokio::test]
async fn file_can_name_the_builtin_when_the_section_disables_it() {
    let place = tempfile::tempdir().unwrap();
    let agent = Agent::of("root", &[], "redact_secrets: false");
    let named = entry(Event::PreToolUse, "redact_secrets", &[]);
    let builtins = builtins(place.path());
    let hooks = Hooks::assemble(vec![named], &agent, &hook_dependencies(builtins)).unwrap();
    let mut input = given(json!({"a": SHAPED}));
    input.event = Event::PreToolUse;
    let verdict = hooks.fire(input).await;
    assert_eq!(verdict.updated_input, None);
    assert!(verdict.denial().unwrap().contains("`a` holds a secret"));
    assert!(!hooks.handles(Event::ToolInputTransform));
}

#[tokio::test]
async fn other_events_and_empty_inputs_are_ignored() {
    let place = tempfile::tempdir().unwrap();
    let builtins = builtins(place.path());
    let builtin = builtins.get("redact_secrets").unwrap();
    for event in Event::all() {
        let input = Input {
            event,
            ..Input::default()
        };
        assert_eq!(builtin.run(&[], &input).await, Ok(Output::default()));
    }
}

#[test]
fn unknown_sections_and_arguments_are_reported() {
    let place = tempfile::tempdir().unwrap();
    let builtins = builtins(place.path());
    let tree = cachalot_core::tree::parse("agent.yaml", "redact_secrets: sometimes").unwrap();
    for name in ["redact_secrets", "elide_repeated_tool_results"] {
        let mut problems = Vec::new();
        let section = tree.get("redact_secrets").unwrap();
        let owner = builtins.owner(name).unwrap();
        owner.check_section(name, section, &mut problems);
        let said = problems[0].to_string();
        assert!(
            said.contains(name) && said.contains("`true` or `false`"),
            "{said}"
        );
    }
    for name in [
        "redact_secrets",
        "elide_repeated_tool_results",
        "limit_large_tool_results",
    ] {
        let builtin = builtins.get(name).unwrap();
        let said = builtin.check_arguments(&["x".to_owned()]).unwrap_err();
        assert!(said.0.contains(name) && said.0.contains("`x`"), "{said}");
    }
}
