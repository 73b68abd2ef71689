//! Images that a message of the user names.

use serde_json::{Value, json};

use crate::provider::{Provider, session};
use crate::support::Home;

/// A PNG of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82";
const BASE64: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

const SCRIPT: &str = "otherwise: {text: 'I was told: {{user}}'}\n";

/// An agent with a model; `format` is that of the provider `openai`.
fn home(model: &str, format: &str) -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
    let file = format!(
        "providers: {{openai: {{format: {format}}}}}
agents:
  root:
    model: {model}
    instruction: Look.
    toolsets: [{{type: filesystem}}]
"
    );
    home.write("agent.yaml", file);
    home.write("shots/my shot.png", PNG);
    home.write("big.png", vec![0; (32 << 20) + 1]);
    home.write("text.png", "no image");
    (home, provider)
}

/// The content of the last message of a request, without cache markers.
fn last_content(body: &Value) -> Vec<Value> {
    let messages = body.get("messages").or(body.get("input")).unwrap();
    let last = messages.as_array().unwrap().last().unwrap();
    let parts = last["content"].as_array().unwrap();
    let bare = |part: &Value| {
        let mut part = part.clone();
        part.as_object_mut().unwrap().remove("cache_control");
        part
    };
    parts.iter().map(bare).collect()
}

#[test]
fn images_of_a_prompt_are_sent_in_the_format_of_the_provider() {
    let url = format!("data:image/png;base64,{BASE64}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": BASE64});
    for (model, format, kind, part) in [
        (
            "openai/gpt-4o",
            "chat",
            "text",
            json!({"type": "image_url", "image_url": {"url": url}}),
        ),
        (
            "openai/gpt-4o",
            "responses",
            "input_text",
            json!({"type": "input_image", "image_url": url, "detail": "auto"}),
        ),
        (
            "anthropic/claude-sonnet-5",
            "chat",
            "text",
            json!({"type": "image", "source": source}),
        ),
    ] {
        let (home, provider) = home(model, format);
        let prompt = "What is in @shots/my shot.png?";
        let ran = home.ask(&provider, &["agent.yaml", "-p", prompt], "").ok();
        assert!(
            ran.stderr.contains("attached my shot.png, 69 B\n"),
            "{model}: {}",
            ran.stderr
        );
        let asked = provider.received().last().unwrap().json();
        let content = last_content(&asked);
        assert_eq!(content[0], json!({"type": kind, "text": prompt}), "{model}");
        assert_eq!(content[1], part, "{model}");

        // The resumed session sends the same bytes again, and they are checked when the provider is dropped.
        let session = session(&ran);
        let resumed = ["agent.yaml", "--resume", &session, "-p", "And now?"];
        home.ask(&provider, &resumed, "").ok();
        let asked = provider.received().last().unwrap().json();
        assert_eq!(asked.to_string().matches(BASE64).count(), 1, "{model}");
    }
}

#[test]
fn images_that_cannot_be_attached_prevent_the_request() {
    let (home, provider) = home("openai/gpt-4o", "chat");
    for (prompt, why) in [
        (
            "see @gone.png",
            "`gone.png` cannot be attached: there is no such file",
        ),
        (
            "see @big.png",
            "`big.png` cannot be attached: it is larger than 32.0 MiB",
        ),
        (
            "see @text.png",
            "`text.png` cannot be attached: unknown type, 8 bytes: PNG, JPEG, GIF",
        ),
    ] {
        let ran = home.ask(&provider, &["agent.yaml", "-p", prompt], "");
        let ran = ran.fails(1);
        assert!(
            ran.stderr.contains(&format!("not sent: {why}")),
            "{}",
            ran.stderr
        );
    }
    assert!(provider.received().is_empty());
    // An absolute path may be a part of any text, and text of stdin may come from anywhere.
    let ran = home.ask(
        &provider,
        &["agent.yaml", "-p", "what is /static/a.png"],
        "@gone.png",
    );
    let ran = ran.ok();
    let line = "not attached: there is no file `/static/a.png`\n";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    assert_eq!(provider.received().len(), 1);
}

#[test]
fn models_without_images_are_named() {
    let (home, provider) = home("openai/gpt-3.5-turbo", "chat");
    let ran = home.ask(
        &provider,
        &[
            "agent.yaml",
            "-p",
            "see '@shots/my shot.png' @\"shots/my shot.png\"",
        ],
        "",
    );
    let ran = ran.fails(1);
    let why = "the model openai/gpt-3.5-turbo accepts no images; use another one";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(provider.received().is_empty());
}

#[cfg(unix)]
mod at_a_terminal {
    use super::*;
    use crate::terminal::Terminal;

    fn chat(home: &Home, provider: &Provider, arguments: &[&str]) -> Terminal {
        let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
        provider.known_to(&mut command);
        Terminal::sized(&mut command, 60, 20)
    }

    #[test]
    fn pasted_paths_are_attached() {
        let (home, provider) = home("openai/gpt-4o", "chat");
        let path = home.join("shots/my shot.png").display().to_string();
        let mut terminal = chat(&home, &provider, &[]);
        for pasted in [path.replace(' ', "\\ "), format!("'{path}'"), path.clone()] {
            let before = provider.received().len();
            terminal
                .prompt()
                .press(&format!("\u{1b}[200~{pasted}\u{1b}[201~"))
                .press(" what is it?\r")
                .see("attached my shot.png, 69 B")
                .see("I was told:");
            let received = provider.received();
            assert_eq!(received.len(), before + 1);
            let content = last_content(&received.last().unwrap().json());
            assert_eq!(content[0]["text"], format!("{pasted} what is it?"));
            assert_eq!(content[1]["type"], "image_url");
        }
        terminal.prompt().leave();
        let mut terminal = chat(&home, &provider, &["--continue"]);
        terminal.see("resumed after 6 messages").see("what is it?");
        terminal.prompt().say("go on").see("I was told: go on");
        terminal.prompt().leave();
        let asked = provider.received().last().unwrap().json().to_string();
        assert_eq!(asked.matches(BASE64).count(), 3);
    }

    #[test]
    fn message_returns_to_the_input_line_if_its_image_is_missing() {
        let (home, provider) = home("openai/gpt-4o", "chat");
        let mut terminal = chat(&home, &provider, &[]);
        terminal.prompt().say("what is in @shots/gone.png");
        terminal.see("not sent: `shots/gone.png` cannot be attached:");
        // The line can be corrected.
        terminal.see("> what is in @shots/gone.png");
        assert!(provider.received().is_empty());
        for _ in 0.."gone.png".len() {
            terminal.press("\u{7f}");
        }
        terminal.press("my shot.png\r").see("attached my shot.png");
        terminal.see("I was told: what is in @shots/my shot.png");
        terminal.prompt().leave();
        assert_eq!(provider.received().len(), 1);
    }
}
