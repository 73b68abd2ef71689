//! The input line and the live region of `cachalot chat`, at a terminal that reflows.

use std::time::Duration;

use crate::provider::{Provider, SHELL};
use crate::support::Home;
use crate::terminal::{BACK_TAB, CTRL_C, CTRL_R, CTRL_Z, DOWN, ESCAPE, Terminal, UP};
use crate::terminal_mode::chat_in_shell;

const SCRIPT: &str = r##"
rules:
  - user: 'run (.*)'
    tools: [shell]
    steps:
      - text: I run it.
        tool_calls: [{name: shell, arguments: {command: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
  - user: 'slowly'
    steps:
      - text: one two three four five six seven eight nine ten
        fault: {slow: {first_byte: 10ms, per_event: 150ms}}
  - user: 'edit it'
    steps:
      - tool_calls: [{name: edit_file, arguments: {path: notes.txt, old_text: two, new_text: "2\nII"}}]
      - text: 'It said: {{last_result}}'
  - user: 'accepted'
    steps:
      - tool_calls: [{name: write_file, arguments: {path: made.txt, content: x}}]
      - text: 'Carried out.'
  - user: 'plan it'
    steps:
      - tool_calls: [{name: write_file, arguments: {path: early.txt, content: x}}]
      - text: "# The plan\n\n1. Write **made.txt**"
  - user: 'forever'
    steps:
      - text: one two three four five six seven eight nine ten
        fault: {slow: {first_byte: 10ms, per_event: 1s}}
  - user: 'simulate'
    steps: [{fault: {slow: {first_byte: 300ms, per_event: 10ms}}, text: x}, {fault: 400}]
otherwise: {text: 'I was told: {{user}}'}
"##;

const COUNTED: &str = "one two three four five six seven eight nine ten";

fn home() -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
    home.write("agent.yaml", SHELL);
    (home, provider)
}

fn chat(home: &Home, provider: &Provider, columns: u16, rows: u16) -> Terminal {
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    Terminal::sized(&mut command, columns, rows)
}

/// The sizes at which the screen is checked.
const SIZES: [(u16, u16); 2] = [(100, 30), (60, 20)];

/// The lines of a text that contain another.
fn count(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn resizing_in_mid_stream_leaves_no_stale_rows() {
    for ((columns, rows), other) in [(SIZES[0], SIZES[1]), (SIZES[1], SIZES[0])] {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, columns, rows);
        for round in 0..8 {
            terminal
                .prompt()
                .say(&format!("hello {round}"))
                .see(&format!("I was told: hello {round}"));
        }
        terminal.prompt().say("slowly").see("two");
        terminal.press("typed while it streams");
        terminal.see("typed while it streams");
        terminal.resize(other.0, other.1).see("seven").see(COUNTED);
        terminal.shows(|text| text.contains("> typed while it streams") && !text.contains("Esc"));
        let text = terminal.text();
        assert_eq!(count(&text, COUNTED), 1, "{text}");
        assert_eq!(count(&text, "typed while"), 1, "{text}");
        assert_eq!(count(&text, "waiting for"), 0, "{text}");
        for round in 0..8 {
            assert_eq!(count(&text, &format!("> hello {round}")), 1, "{text}");
        }
        let text = terminal.press("\u{15}").leave();
        assert_eq!(count(&text, "typed while"), 0, "{text}");
    }
}

#[test]
fn wide_characters_are_wrapped_and_edited_as_a_whole() {
    for (columns, rows) in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, columns, rows);
        let whales = "鯨は海に住む。".repeat(12);
        terminal.prompt().press(&format!("{whales}海x\u{7f}\u{7f}"));
        terminal.press("\r").see("I was told: 鯨は海に");
        let text = terminal.prompt().leave();
        let squeezed = text.replace(['\n', ' '], "");
        assert_eq!(squeezed.matches(&whales).count(), 2, "{text}");
        let asked = provider.received().last().unwrap().json().to_string();
        assert!(asked.contains(&whales) && !asked.contains("海x"), "{asked}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() < usize::from(columns), "{text}");
    }
}

#[test]
fn a_long_paste_is_one_message_and_sent_by_enter_only() {
    for (columns, rows) in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, columns, rows);
        let lines: String = (0..400)
            .map(|line| format!("{line}: some words of a paste\r"))
            .collect();
        assert!(lines.len() > 10_000);
        terminal
            .prompt()
            .press(&format!("\u{1b}[200~{lines}\u{1b}[201~"))
            .see("> [pasted 400 lines]");
        assert!(provider.received().is_empty());
        assert_eq!(count(&terminal.text(), "some words"), 0);
        terminal.press("end\r").see("> [pasted 400 lines]end");
        terminal.see("I was told: 0: some words");
        terminal.prompt().leave();
        let asked = provider.received().last().unwrap().json().to_string();
        let pasted = lines.replace('\r', "\\n") + "end";
        assert!(asked.contains(&pasted), "{asked}");
        assert_eq!(provider.received().len(), 1);
    }
}

#[test]
fn a_lone_escape_interrupts_the_turn() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 100, 30);
    // It does nothing while the chat waits.
    terminal.prompt().press(ESCAPE);
    // Directly behind Esc, a character would be one with Alt.
    std::thread::sleep(Duration::from_millis(100));
    terminal.press("forever\r").see("one");
    terminal
        .press(ESCAPE)
        .see("interrupted; the session is kept");
    terminal.prompt().say("hello").see("I was told: hello");
    terminal.prompt().leave();
}

#[test]
fn typed_text_never_mixes_with_the_answer_and_is_sent_after_it() {
    for (columns, rows) in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, columns, rows);
        terminal.prompt().say("slowly").see("two");
        for key in "next question".chars() {
            terminal.press(&key.to_string());
            std::thread::sleep(Duration::from_millis(30));
        }
        terminal.press("\r").see("queued: next question");
        terminal.say("and another").see("queued: and another");
        terminal.see("I was told: next question");
        terminal.see("I was told: and another");
        let text = terminal.prompt().leave();
        let order = [
            "> slowly",
            COUNTED,
            "> next question",
            "I was told: next question",
            "> and another",
            "I was told: and another",
        ];
        let lines: Vec<&str> = text.lines().filter(|line| order.contains(line)).collect();
        assert_eq!(lines, order, "{text}");
    }
}

#[test]
fn queued_messages_return_to_the_input_line_after_an_interrupt_or_a_failure() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 60, 20);
    terminal.prompt().say("forever").see("one");
    terminal.say("first").say("second").see("queued: second");
    terminal.press("third").see("> third");
    terminal.press(ESCAPE).see("interrupted");
    terminal.shows(|text| text.contains("> first\n  second\n  third\n"));
    assert_eq!(provider.received().len(), 1);
    terminal.press("\r").see("I was told: first");
    terminal.prompt().leave();
    let asked = provider.received().last().unwrap().json().to_string();
    assert!(asked.contains(r"first\nsecond\nthird"), "{asked}");
}

#[test]
fn ctrl_c_twice_leaves_in_a_turn() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 60, 20);
    terminal.prompt().say("run trap '' INT TERM; sleep 100");
    terminal.see("allow it?").answer("y").see("shell trap");
    terminal.press(CTRL_C).press(CTRL_C);
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    assert!(
        terminal
            .raw()
            .ends_with("\u{1b}[?2004l\u{1b}[?25h\u{1b}[?2026l")
    );
}

#[test]
fn keys_answer_a_question_only_after_a_pause() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal.prompt().say("run touch made");
    terminal.see("allow it?").press("y");
    // The user was typing when the question came: the key is text.
    terminal.see("> y");
    std::thread::sleep(Duration::from_millis(1_200));
    terminal.press("n").see("> yn");
    assert!(!home.join("made").exists(), "{}", terminal.text());
    terminal.press("\u{15}");
    // A word that begins with the key of an answer is text, too.
    std::thread::sleep(Duration::from_millis(1_000));
    for key in "yes".chars() {
        terminal.press(&key.to_string());
        std::thread::sleep(Duration::from_millis(50));
    }
    terminal.see("> yes");
    std::thread::sleep(Duration::from_millis(600));
    assert!(!home.join("made").exists(), "{}", terminal.text());
    // Pasted text never is an answer.
    terminal.press("\u{15}");
    std::thread::sleep(Duration::from_millis(1_000));
    terminal.press("\u{1b}[200~y\u{1b}[201~").see("> y");
    std::thread::sleep(Duration::from_millis(600));
    assert!(!home.join("made").exists(), "{}", terminal.text());
    terminal.press("\u{15}");
    std::thread::sleep(Duration::from_millis(1_000));
    terminal.press("y").see("allowed once").see("It said:");
    terminal.prompt().leave();
    assert!(home.join("made").exists());
}

#[test]
fn ctrl_z_restores_the_terminal_and_the_chat_continues() {
    let (home, provider) = home();
    let mut terminal = chat_in_shell(&home, &provider);
    terminal.say("hello").see("I was told: hello");
    terminal.prompt().press("half").see("> half").press(CTRL_Z);
    terminal.see("shell$ ").say("stty -a").see("\nisig icanon");
    terminal.say("fg").see("> half");
    terminal.press(" a line\r").see("I was told: half a line");
    terminal.prompt().press("\u{4}").see("to continue: ");
    terminal.see("shell$ ").say("exit");
    terminal.ended();
}

#[test]
fn dumb_terminals_get_plain_lines() {
    let (home, provider) = home();
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(&mut command);
    terminal.see("\n> ").say("hello").see("I was told: hello\n");
    terminal.see("\n> ").say("one \\").see("> ").say("two");
    terminal.see("I was told: one \ntwo\n").see("\n> ");
    terminal.say("run touch made");
    terminal.see("  shell touch made\n");
    terminal.see("allow it? [y]es, [a]lways, [n]o, or type what to do instead: ");
    terminal.say("look first").see("look first").see("It said:");
    terminal.see("\n> ").leave();
    assert!(!terminal.raw().contains('\u{1b}'), "{}", terminal.raw());
    assert!(!home.join("made").exists());
}

#[test]
fn earlier_messages_are_in_the_history() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 60, 20);
    terminal.prompt().say("first").see("I was told: first");
    terminal.prompt().say("second").see("I was told: second");
    terminal
        .prompt()
        .press(UP)
        .see("> second")
        .press(UP)
        .see("> first");
    terminal.press("\r").see("I was told: first");
    terminal.prompt().leave();
}

const FILES: &str = r#"providers: {openai: {format: chat}}
agents:
  root:
    model: openai/gpt-4o
    instruction: Edit.
    toolsets: [{type: filesystem}]
  helper:
    model: openai/gpt-4o-mini
    description: Helps.
    instruction: Help.
"#;

#[test]
fn edits_are_approved_with_their_difference() {
    let (home, provider) = home();
    home.write("agent.yaml", FILES);
    home.write("notes.txt", "one\ntwo\nthree\n");
    let mut terminal = chat(&home, &provider, 60, 20);
    terminal.prompt().say("edit it");
    terminal
        .see("    notes.txt\n")
        .see("    1   one\n    2 - two\n    2 + 2\n    3 + II\n    4   three\n")
        .see("allow it?")
        .answer("y");
    terminal.see("It said:").prompt().leave();
    let notes = std::fs::read_to_string(home.join("notes.txt")).unwrap();
    assert_eq!(notes, "one\n2\nII\nthree\n");
}

#[test]
fn plan_mode_only_reads_until_the_plan_is_accepted() {
    let (home, provider) = home();
    home.write("agent.yaml", FILES);
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal.prompt().say("hello").see("I was told: hello");
    terminal.prompt().press(BACK_TAB).see("accept edits · root");
    terminal.press(BACK_TAB).see("plan mode · root");
    terminal.say("plan it").see("refused").see("The plan");
    terminal.see("carry out the plan?").say("yes");
    terminal.see("\"yes\" was not sent: press the key y, e or n to answer");
    terminal.answer("n");
    terminal.prompt().say("plan it").see("carry out the plan?");
    assert!(!home.join("early.txt").exists());
    // A message is another answer.
    terminal.say("plan it again").see("> plan it again");
    terminal.see("carry out the plan?").answer("e");
    terminal.see("> The plan is accepted. Carry it out.");
    terminal.see("Carried out.").prompt();
    terminal.shows(|text| text.contains("\naccept edits · root"));
    let text = terminal.leave();
    assert_eq!(count(&text, "allow it?"), 0, "{text}");
    assert!(home.join("made.txt").exists() && !home.join("early.txt").exists());
    let asked = provider.received();
    let bodies: Vec<_> = asked.iter().map(|request| request.json()).collect();
    // The mode is in the messages alone.
    for body in &bodies {
        assert_eq!(body["tools"], bodies[0]["tools"]);
        assert_eq!(body["messages"][0], bodies[0]["messages"][0]);
    }
    let last = bodies.last().unwrap()["messages"].to_string();
    assert_eq!(last.matches("Plan mode: only tools that read").count(), 3);
    assert_eq!(last.matches("Plan mode has ended").count(), 1, "{last}");
}

#[test]
fn commands_and_files_are_completed() {
    let (home, provider) = home();
    home.write("src/whale.rs", "");
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal
        .prompt()
        .press("/comp")
        .see("summarize the conversation");
    terminal.press("\t").see("> /compact ").press("\u{15}");
    terminal.press("read @wha").see("@src/whale.rs").press("\t");
    terminal.see("> read @src/whale.rs ").press("now\r");
    terminal.see("I was told: read @src/whale.rs now");
    let text = terminal.prompt().leave();
    assert_eq!(count(&text, "summarize"), 0, "{text}");
}

#[test]
fn the_history_is_searched() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 100, 30);
    for message in ["first whale", "second whale", "third"] {
        terminal
            .prompt()
            .say(message)
            .see(&format!("I was told: {message}"));
    }
    terminal.prompt().press(CTRL_R).press("whale");
    terminal.see("search `whale`: second whale").press(CTRL_R);
    terminal.see("search `whale`: first whale").press("\r");
    // Enter takes it, and does not send it.
    terminal
        .see("> first whale")
        .press("!\r")
        .see("I was told: first whale!");
    terminal
        .prompt()
        .press("half")
        .press(CTRL_R)
        .press("second");
    terminal.see("second whale").press(ESCAPE).see("> half");
    terminal.press("\u{15}").leave();
}

#[test]
fn status_shows_the_model_the_context_and_the_cost() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal.see("root · openai/gpt-4o").prompt();
    terminal.say("hello").see("I was told: hello");
    terminal.see("root · openai/gpt-4o · context 0% of 128,000 · <$0.01 · cache 0%");
    // On a narrower terminal, names are shortened or left out.
    terminal
        .prompt()
        .resize(60, 20)
        .shows(|text| text.ends_with("\nroot · openai/gpt-4o · context 0% · <$0.01 · cache 0%\n"));
    let text = terminal.prompt().leave();
    assert_eq!(
        count(&text, "context 0%"),
        0,
        "it is no part of the scrollback: {text}"
    );
}

#[test]
fn resumed_session_shows_its_last_exchange() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal.prompt().say("first").see("I was told: first");
    terminal.prompt().say("second").see("I was told: second");
    terminal.prompt().leave();
    let mut command = home.command(&["chat", "agent.yaml", "--continue"]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::sized(&mut command, 60, 20);
    terminal
        .see("resumed after 4 messages")
        .see("> second")
        .see("I was told: second\n");
    // So does the status.
    terminal.see("root · openai/gpt-4o · context 0% · <$0.01 · cache 0%");
    let text = terminal.prompt().leave();
    assert_eq!(count(&text, "first"), 0, "{text}");
    // In a running chat, too.
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal
        .prompt()
        .say("/resume")
        .see("session: ")
        .see("4 messages  first");
    terminal.press("\r").see("resumed after 4 messages");
    terminal.prompt().say("third").see("I was told: third");
    terminal.prompt().leave();
    let asked = provider.received().last().unwrap().json().to_string();
    assert!(
        asked.contains("first") && asked.contains("third"),
        "{asked}"
    );
}

#[test]
fn model_and_agent_are_changed_within_a_session() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT).accepting_anything());
    home.write("agent.yaml", FILES);
    let mut terminal = chat(&home, &provider, 100, 30);
    terminal.prompt().say("first").see("I was told: first");
    terminal
        .prompt()
        .say("/agent")
        .see("> root")
        .see("  helper  Helps.")
        .press(DOWN)
        .see("> helper")
        .press("\r")
        .see("helper (openai/gpt-4o-mini) continues");
    terminal.prompt().say("second").see("I was told: second");
    // A list that is closed changes nothing.
    terminal
        .prompt()
        .say("/model")
        .see("model: ")
        .see("  openai/gpt-4o-mini")
        .see("now")
        .press(ESCAPE);
    terminal
        .prompt()
        .press("/model gpt-4.1")
        .see("  openai/gpt-4.1\n  openai/gpt-4.1-mini\n  openai/gpt-4.1-nano")
        .press("\t")
        .see("> /model openai/gpt-4.1")
        .press("\r")
        .see("helper continues with openai/gpt-4.1");
    terminal.prompt().say("third").see("I was told: third");
    terminal
        .prompt()
        .say("/agent nobody")
        .see("there is no agent `nobody`");
    terminal.prompt().leave();
    let models: Vec<_> = provider
        .received()
        .iter()
        .map(|request| request.json()["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models, ["gpt-4o", "gpt-4o-mini", "gpt-4.1"]);
    let asked = provider.received().last().unwrap().json().to_string();
    assert!(
        asked.contains("first") && asked.contains("second"),
        "{asked}"
    );
}
