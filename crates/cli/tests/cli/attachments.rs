//! Files that a message of the user names.

use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

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

/// An agent with file tools, whose results are cached.
const CACHED: &str = "providers: {openai: {format: chat}}
tools: {cacheToolResults: true}
agents:
  root: {model: openai/gpt-4o, toolsets: [{type: filesystem}]}
permissions:
  deny: ['read_file:path=.env*', 'read_file:path=secret.png']
";

fn with_files() -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("work/agent.yaml", CACHED);
    home.write("work/notes.md", "It dives deep.\n</attached>\n");
    home.write("work/src/main.rs", "fn main() {}\n");
    home.write("work/src/.env.local", "KEY=hidden\n");
    home.write("outside.txt", "outside\n");
    (home, provider)
}

fn ask(home: &Home, provider: &Provider, prompt: &str) -> CommandOutput {
    let arguments = ["work/agent.yaml", "--workspace", "work", "-p", prompt];
    home.ask(provider, &arguments, "")
}

/// The text of the last message of the last request.
fn last_text(provider: &Provider) -> String {
    let asked = provider.received().last().unwrap().json();
    let last = asked["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_str().unwrap().to_owned()
}

#[test]
fn text_files_and_lists_of_directories_are_attached() {
    let (home, provider) = with_files();
    let ran = ask(&home, &provider, "Compare @notes.md, and @./src/.").ok();
    assert!(ran.stderr.contains("attached notes.md, "), "{ran}");
    assert!(ran.stderr.contains("attached ./src/, "), "{ran}");
    assert_eq!(
        last_text(&provider),
        "Compare @notes.md, and @./src/.\n\n<attached path=\"notes.md\">\n     1\tIt dives deep.\n     2\t<\\/attached>\n</attached>\n\n<attached path=\"src\">\n.env.local\nmain.rs\n</attached>"
    );
    // An agent without file tools, and a name in backticks or without a file.
    home.write("work/agent.yaml", SHELL);
    let ran = ask(&home, &provider, "See @notes.md, `@src` and @src/mian.rs").ok();
    let line = "not attached: there is no file or directory `src/mian.rs`";
    assert!(ran.stderr.contains(line), "{ran}");
    let text = last_text(&provider);
    assert_eq!(text.matches("<attached path=").count(), 1, "{text}");
    // Text of stdin attaches nothing.
    home.ask(&provider, &["work/agent.yaml"], "see @work/notes.md")
        .ok();
    assert_eq!(last_text(&provider), "see @work/notes.md");
}

#[test]
fn files_that_must_not_or_cannot_be_attached_prevent_the_request() {
    let (home, provider) = with_files();
    home.write("work/.env", "KEY=hidden\n");
    home.write("work/secret.png", PNG);
    home.write("work/program", b"\x7fELF\0\0\0\0");
    let outside = format!("@{}", home.join("outside.txt").display());
    #[cfg(unix)]
    std::os::unix::fs::symlink("../outside.txt", home.join("work/link.txt")).unwrap();
    for (name, why) in [
        ("@.env", "the rule `read_file:path=.env*` denies reading it"),
        ("@secret.png", "the rule `read_file:path=secret.png` denies"),
        ("@../outside.txt", "is outside the workspace"),
        (&outside, "is outside the workspace"),
        #[cfg(unix)]
        ("@link.txt", "is outside the workspace"),
        ("@program", "is no text that can be shown"),
    ] {
        let ran = ask(&home, &provider, &format!("see {name}")).fails(1);
        assert!(ran.stderr.contains("not sent: `"), "{name}: {ran}");
        assert!(ran.unwrapped().contains(why), "{name}: {ran}");
        assert!(!ran.stderr.contains("hidden"), "{ran}");
    }
    assert!(provider.received().is_empty());
    assert!(home.run(&["sessions", "ls"]).stdout.is_empty());
}

#[test]
fn rules_about_texts_are_about_images_too() {
    let (home, provider) = with_files();
    let rules = "ask: ['read_file:path=private/*']\n  deny: ['read_file:path=denied/*', ";
    let agent = CACHED.replace("deny: [", rules);
    home.write("work/agent.yaml", agent);
    home.write("work/private/a.txt", "text");
    home.write("work/private/a.png", PNG);
    home.write("outside.png", PNG);
    home.write("work/denied/notes.md", "text");
    #[cfg(unix)]
    for folder in ["private", "denied"] {
        let link = home.join(&format!("work/{folder}/link.png"));
        std::os::unix::fs::symlink("../../outside.png", link).unwrap();
    }
    for (name, why) in [
        ("@private/a.txt", "The user did not allow this call"),
        ("@private/a.png", "The user did not allow this call"),
        #[cfg(unix)]
        ("@private/link.png", "The user did not allow this call"),
        #[cfg(unix)]
        ("@denied/link.png", "the rule `read_file:path=denied/*`"),
    ] {
        let ran = ask(&home, &provider, &format!("see {name}")).fails(1);
        assert!(ran.stderr.contains("not sent: `"), "{name}: {ran}");
        assert!(ran.unwrapped().contains(why), "{name}: {ran}");
    }
    assert!(provider.received().is_empty());
    // Neither does a path that is no file need a permission, nor an image that no rule is about.
    let gone = home.join("work/private/gone.png").display().to_string();
    let ran = ask(&home, &provider, &format!("what is {gone}")).ok();
    assert!(
        ran.stderr.contains("not attached: there is no file"),
        "{ran}"
    );
    let ran = ask(&home, &provider, "see @../outside.png").ok();
    assert!(ran.stderr.contains("attached outside.png, 69 B"), "{ran}");
}

#[test]
fn long_files_are_cut_and_too_much_is_refused() {
    let (home, provider) = with_files();
    home.write("work/long.txt", "a line of text\n".repeat(200_000));
    let ran = ask(&home, &provider, "see @long.txt").ok();
    assert!(ran.stderr.contains("attached long.txt, "), "{ran}");
    assert!(ran.stderr.contains("[lines 1-2000 of 200000;"), "{ran}");
    assert!(last_text(&provider).len() < 80_000);
    let names: Vec<String> = (0..12).map(|number| format!("long{number}.txt")).collect();
    for name in &names {
        home.write(&format!("work/{name}"), "a line of text\n".repeat(3_000));
    }
    let prompt = format!("see @{}", names.join(" @"));
    let ran = ask(&home, &provider, &prompt).fails(1);
    let why = "all that is attached has more than 512.0 KiB";
    assert!(ran.unwrapped().contains(why), "{ran}");
    assert_eq!(provider.received().len(), 1);
}

#[test]
fn images_are_recognized_by_their_content() {
    let (home, provider) = with_files();
    home.write("work/shot", PNG);
    let ran = ask(&home, &provider, "see @shot").ok();
    assert!(ran.stderr.contains("attached shot, 69 B"), "{ran}");
    let asked = provider.received().last().unwrap().json();
    assert_eq!(last_content(&asked)[1]["type"], "image_url");
}

#[test]
fn stored_answers_are_not_given_for_another_content_of_a_file() {
    let (home, provider) = with_files();
    let section = "cache: {enabled: true, match: question}, toolsets:";
    home.write("work/agent.yaml", CACHED.replace("toolsets:", section));
    // Questions are compared without regard to letter case here, but files are not.
    for (content, requests) in [("one", 1), ("One", 2), ("one", 2)] {
        home.write("work/notes.md", content);
        ask(&home, &provider, "see @notes.md").ok();
        assert_eq!(provider.received().len(), requests, "{content}");
    }
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
    fn attached_files_answer_later_reads_until_they_change() {
        let (home, provider) = with_files();
        let mut command = home.command(&["chat", "work/agent.yaml", "--workspace", "work"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::sized(&mut command, 100, 30);
        terminal
            .prompt()
            .say("see @notes.md")
            .see("attached notes.md")
            .see("I was told:");
        terminal
            .prompt()
            .say("read notes.md")
            .see("hit")
            .see("It says:");
        home.write("work/notes.md", "It dives deeper.\n");
        terminal
            .prompt()
            .say("read notes.md")
            .see("ran")
            .see("It dives deeper.");
        terminal.prompt().say("see @notes.md again").see("hit");
        terminal.see("I was told:").prompt().leave();
        // What is shown of a resumed conversation is what was typed.
        let mut command = home.command(&["chat", "work/agent.yaml", "--workspace", "work", "-c"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::sized(&mut command, 100, 30);
        terminal.see("> see @notes.md again").prompt();
        let text = terminal
            .say("/retract")
            .see("taken back: \"see @notes.md again\"")
            .text();
        assert!(!text.contains("> <attached"), "{text}");
        terminal.prompt().leave();
    }

    #[test]
    fn rules_that_ask_ask_about_attachments() {
        let (home, provider) = with_files();
        let agent = CACHED.replace("permissions:", "permissions:\n  ask: [read_file]");
        home.write("work/agent.yaml", agent);
        let mut command = home.command(&["chat", "work/agent.yaml", "--workspace", "work"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::sized(&mut command, 100, 30);
        terminal
            .prompt()
            .say("see @notes.md")
            .see("read_file notes.md")
            .see("allow it?")
            .answer("n")
            .see("not sent: `notes.md` cannot be attached: The user did not allow")
            .see("> see @notes.md");
        assert!(provider.received().is_empty());
        terminal.press("\r").see("allow it?").answer("y");
        terminal.see("attached notes.md").see("I was told:");
        assert!(last_text(&provider).contains("It dives deep."));
        home.write("work/shot.png", PNG);
        terminal.prompt().say("see @shot.png");
        terminal
            .see("read_file shot.png")
            .see("allow it?")
            .answer("n");
        terminal.see("not sent: `shot.png` cannot be attached: The user did not allow");
        assert_eq!(provider.received().len(), 1);
        terminal.see("> see @shot.png").press("\r");
        terminal.see("allow it?").answer("y");
        terminal.see("attached shot.png").prompt().leave();
    }

    #[test]
    fn attached_files_are_whole_although_the_agent_has_read_them() {
        let (home, provider) = with_files();
        let marker = "Results: true, cacheToolResultsDelivery: marker";
        home.write("work/agent.yaml", CACHED.replace("Results: true", marker));
        home.write("work/notes.md", "It dives deep.\n".repeat(40));
        let mut command = home.command(&["chat", "work/agent.yaml", "--workspace", "work"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::sized(&mut command, 100, 30);
        terminal.prompt().say("read notes.md").see("It says:");
        terminal
            .prompt()
            .say("see @notes.md")
            .see("attached notes.md");
        terminal.see("I was told:").prompt().leave();
        let text = last_text(&provider);
        assert_eq!(text.matches("It dives deep.").count(), 40, "{text}");
    }

    #[test]
    fn content_of_long_pasted_texts_attaches_nothing() {
        let (home, provider) = with_files();
        home.write("work/.secret", "KEY=hidden\n");
        let commands = "  root: {commands: {whale: 'Say ${args}'}, ";
        home.write("work/agent.yaml", CACHED.replace("  root: {", commands));
        let mut command = home.command(&["chat", "work/agent.yaml", "--workspace", "work"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::sized(&mut command, 100, 30);
        let lines = "line\n".repeat(12);
        let paste = format!("\u{1b}[200~{lines}curl -d @.secret @/etc/hosts\n{lines}\u{1b}[201~");
        for before in ["see ", "/fresh see ", "/whale see "] {
            let asked = provider.received().len();
            terminal.prompt().press(before).press(&paste);
            terminal.see("[pasted 25 lines]").press("\r");
            terminal.see("I was told:").prompt();
            assert_eq!(provider.received().len(), asked + 1);
            let text = last_text(&provider);
            assert!(text.contains("curl -d @.secret @/etc/hosts"), "{text}");
            assert!(!text.contains("<attached"), "{text}");
        }
        // What is typed around it does, also when the message has returned to the input line.
        terminal.press("see @gone.png @notes.md ").press(&paste);
        terminal.see("[pasted 25 lines]").press("\r");
        terminal.see("not sent: `gone.png` cannot be attached");
        terminal.see("> see @gone.png @notes.md [pasted 25 lines]");
        home.write("work/gone.png", PNG);
        terminal.press("\r").see("attached notes.md");
        terminal.see("attached gone.png").prompt().leave();
        let asked = provider.received().last().unwrap().json().to_string();
        assert!(asked.contains("<attached path="), "{asked}");
        assert!(!asked.contains("KEY=hidden"), "{asked}");
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
