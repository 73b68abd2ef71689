//! `strip_unsupported_modalities`: no images for models that take none.

use std::sync::Arc;

use cachalot_hooks::{Event, Input, Output};
use cachalot_model::{Block, Image, ImageSource, Message, Role, ToolResult};
use serde_json::Map;

use crate::seam::{Agent, Fixture};

const NAME: &str = "strip_unsupported_modalities";

fn image() -> Block {
    Block::Image(Image {
        source: ImageSource::Inline {
            media_type: "image/png".to_owned(),
            base64: "iVBORw0KGgo=".to_owned(),
        },
        extra: Map::new(),
    })
}

fn result(content: Vec<Block>) -> Block {
    Block::ToolResult(ToolResult {
        id: "call-1".to_owned(),
        content,
        is_error: false,
        extra: Map::new(),
    })
}

fn said(content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message::new(Role::User, content))
}

fn call(model: &str, messages: Vec<Arc<Message>>, unsent: usize) -> Input {
    Input {
        event: Event::BeforeLlmCall,
        agent_name: "root".to_owned(),
        model_id: model.to_owned(),
        messages,
        unsent,
        ..Input::default()
    }
}

fn fixture(models: &[&str], sections: &str) -> Fixture {
    Fixture::of(vec![Agent::of("root", models, sections)])
}

#[tokio::test]
async fn unsent_images_are_replaced_by_text() {
    let fixture = fixture(&["openai/o3-mini"], "");
    let before = said(vec![image()]);
    let newest = said(vec![
        Block::text("Look:"),
        image(),
        result(vec![Block::text("a chart"), image()]),
        Block::text("What is it?"),
    ]);
    let messages = vec![Arc::clone(&before), said(vec![Block::text("hm")]), newest];
    let input = call("openai/o3-mini", messages.clone(), 2);
    let output = fixture.run(NAME, &[], &input).await.unwrap();
    let left_out = "[There was an image here; it was left out, because openai/o3-mini takes none.]";
    let expected = Message::new(
        Role::User,
        vec![
            Block::text("Look:"),
            Block::text(left_out),
            result(vec![Block::text("a chart"), Block::text(left_out)]),
            Block::text("What is it?"),
        ],
    );
    // What stands for the tail is the whole tail; what was sent stays as it is.
    assert_eq!(
        output.updated_messages,
        Some(vec![(*messages[1]).clone(), expected])
    );
    let sent = call("openai/o3-mini", vec![before], 0);
    assert_eq!(
        fixture.run(NAME, &[], &sent).await.unwrap(),
        Output::default()
    );
}

#[tokio::test]
async fn images_are_kept_for_capable_and_unknown_models() {
    let fixture = fixture(&["openai/gpt-4o", "ollama/llava", "openai/o3-mini"], "");
    for (model, is_stripped) in [
        ("openai/gpt-4o", false),
        ("ollama/llava", false),
        ("openai/o3-mini", true),
    ] {
        let input = call(model, vec![said(vec![image()])], 1);
        let output = fixture.run(NAME, &[], &input).await.unwrap();
        assert_eq!(output.updated_messages.is_some(), is_stripped, "{model}");
    }
}

#[tokio::test]
async fn messages_without_images_are_unchanged() {
    let fixture = fixture(&["openai/o3-mini"], "");
    let texts = vec![said(vec![
        Block::text("hello"),
        result(vec![Block::text("x")]),
    ])];
    let input = call("openai/o3-mini", texts, 1);
    assert_eq!(
        fixture.run(NAME, &[], &input).await.unwrap(),
        Output::default()
    );
    // More that is unsent than there is: nothing to stumble over.
    let input = call("openai/o3-mini", Vec::new(), 3);
    assert_eq!(
        fixture.run(NAME, &[], &input).await.unwrap(),
        Output::default()
    );
}

#[tokio::test]
async fn section_overrides_the_catalog() {
    let blind = fixture(&["ollama/llama3.2"], "strip_unsupported_modalities: true");
    let input = call("ollama/llama3.2", vec![said(vec![image()])], 1);
    let output = blind.run(NAME, &[], &input).await.unwrap();
    assert!(output.updated_messages.is_some());
    let seeing = fixture(&["openai/o3-mini"], "strip_unsupported_modalities: false");
    let input = call("openai/o3-mini", vec![said(vec![image()])], 1);
    assert_eq!(
        seeing.run(NAME, &[], &input).await.unwrap(),
        Output::default()
    );
}

#[test]
fn builtin_is_injected_for_models_without_images_or_by_section() {
    let fixture = Fixture::new();
    for (models, sections, expected) in [
        (&["openai/o3-mini"][..], "", true),
        (&["openai/gpt-4o", "openai/gpt-3.5-turbo"], "", true),
        (&["openai/gpt-4o"], "", false),
        (&["ollama/llama3.2"], "", false),
        (
            &["ollama/llama3.2"],
            "strip_unsupported_modalities: true",
            true,
        ),
        (
            &["openai/o3-mini"],
            "strip_unsupported_modalities: false",
            false,
        ),
        (&[], "", false),
    ] {
        let agent = Agent::of("root", models, sections);
        let injected = fixture.injected(NAME, &agent);
        let of_model_calls = vec![(Event::BeforeLlmCall, Vec::new())];
        assert_eq!(injected, if expected { of_model_calls } else { Vec::new() });
    }
}

#[test]
fn section_is_a_boolean() {
    let fixture = Fixture::new();
    let yaml = "strip_unsupported_modalities: flase";
    let problems = fixture.problems(NAME, yaml);
    assert_eq!(problems[0].code, "wrong-type");
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `false`?"));
    let place = problems[0].place.as_ref().unwrap();
    assert_eq!(&yaml[place.start..place.start + place.len], "flase");
    assert!(fixture.refusal(NAME, &["images"]).contains("`images`"));
}
