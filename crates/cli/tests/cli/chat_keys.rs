//! Keys of `cachalot chat` at a terminal: pasted text, lists to choose from, typed answers, the whole screen anew, and
//! the bell.

use crate::provider::{Provider, SHELL};
use crate::support::Home;
use crate::terminal::{BACK_TAB, DOWN, ESCAPE, Terminal, UP};

const CTRL_L: &str = "\u{c}";
const CTRL_O: &str = "\u{f}";
const FOCUS_IN: &str = "\u{1b}[I";
const FOCUS_OUT: &str = "\u{1b}[O";
const BACKSPACE: &str = "\u{7f}";

const SCRIPT: &str = r##"
rules:
  - user: 'run (.*)'
    tools: [shell]
    steps:
      - tool_calls: [{name: shell, arguments: {command: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
  # Longer than any test acts; an interrupt ends it.
  - user: 'slowly'
    steps:
      - text: one two three four five six seven eight nine ten
        fault: {slow: {first_byte: 10ms, per_event: 8s}}
  - user: 'items'
    steps:
      - text: "- baleen krill sonar ambergris spout baleen krill sonar ambergris spout baleen krill sonar ambergris spout\n- krill sonar ambergris spout baleen krill sonar ambergris spout baleen krill sonar ambergris spout baleen\nthe end"
        fault: {slow: {first_byte: 10ms, per_event: 40ms}}
otherwise: {text: 'I was told: {{user}}'}
"##;

/// The sizes at which the screen is checked.
const SIZES: [(u16, u16); 2] = [(100, 30), (60, 20)];

fn home() -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
    home.write("agent.yaml", SHELL);
    (home, provider)
}

fn chat(home: &Home, provider: &Provider, (columns, rows): (u16, u16)) -> Terminal {
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    Terminal::sized(&mut command, columns, rows)
}

fn pasted(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

#[test]
fn pasted_lines_are_folded_and_shown_by_a_key() {
    let lines: String = (1..=100).map(|line| format!("line {line};\n")).collect();
    for size in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().press("explain ").press(&pasted(&lines));
        terminal
            .press(" now")
            .see("> explain [pasted 100 lines] now");
        terminal.press("\r").see("I was told: explain");
        let text = terminal.prompt().text();
        assert!(
            text.contains("\n> explain [pasted 100 lines] now\n"),
            "{text}"
        );
        // The answer of this model repeats it once.
        assert_eq!(text.matches("line 57;").count(), 1, "{text}");
        terminal.press(CTRL_O).shows(|text| {
            text.contains("\n  │ explain line 1;\n") && text.contains("\n  │ line 57;\n")
        });
        // The same as a character of the input line, and as its text.
        terminal.press(&pasted(&lines)).see("> [pasted 100 lines]");
        terminal.press(BACKSPACE).prompt();
        terminal.press(&pasted(&lines)).see("> [pasted 100 lines]");
        terminal.press(CTRL_O).press("end").see("line 100;\n  end");
        terminal.press("\r").see("I was told: line 1;");
        terminal.prompt().press(CTRL_O);
        terminal.see("there is no pasted text to show").leave();
        let asked = provider.received();
        let message = |at: usize| {
            let body = asked[at].json();
            let last = body["messages"].as_array().unwrap().last().unwrap();
            last["content"].as_str().unwrap().to_owned()
        };
        assert_eq!(message(0), format!("explain {lines} now"));
        assert_eq!(message(1), format!("{lines}end"));
    }
}

#[test]
fn pasted_backslashes_are_part_of_the_message() {
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, SIZES[0]);
    terminal
        .prompt()
        .press(&pasted("cc \\\n  main.c"))
        .see("  main.c");
    terminal
        .press("\r")
        .see("I was told: cc \\")
        .prompt()
        .leave();
    let asked = provider.received().last().unwrap().json();
    assert_eq!(asked["messages"][1]["content"], "cc \\\n  main.c");
}

#[test]
fn queued_pasted_text_returns_folded_after_an_interrupt() {
    let lines = "line\n".repeat(30);
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, SIZES[1]);
    terminal.prompt().say("slowly").see("one");
    terminal.press(&pasted(&lines)).see("[pasted 30 lines]");
    terminal.press("\r").see("queued: [pasted 30 lines]");
    terminal.press(ESCAPE).see("interrupted");
    terminal.shows(|text| text.contains("\n> [pasted 30 lines]\n"));
    terminal
        .press("\r")
        .see("I was told: line")
        .prompt()
        .leave();
    let asked = provider.received().last().unwrap().json().to_string();
    assert!(asked.contains(&"line\\n".repeat(30)), "{asked}");
}

#[test]
fn typed_answers_are_answered_by_the_keys_that_count() {
    for size in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().say("run touch made").see("allow it?");
        terminal.press("yes").see("> yes").press("\r");
        terminal.shows(|text| {
            let is_cleared = !text.lines().any(|line| line == "> yes");
            let text = text.replace('\n', " ");
            let hint = "\"yes\" was not sent: press the key y, a, s, n or r to answer";
            is_cleared && text.contains(hint)
        });
        assert!(!home.join("made").exists(), "{}", terminal.text());
        // Other text is a message, which waits.
        terminal.say("and then stop").see("queued: and then stop");
        terminal.shows(|text| {
            let text = text.replace('\n', " ");
            let hint = "sent after this turn: press the key y, a, s, n or r to answer first";
            text.contains(hint)
        });
        terminal.answer("y").see("allowed once").see("It said:");
        terminal.see("I was told: and then stop").prompt().leave();
        assert!(home.join("made").exists());
    }
}

#[test]
fn edits_are_asked_about_with_the_key_that_accepts_them() {
    let script = r#"
rules:
  - user: 'write (.*)'
    steps:
      - tool_calls: [{name: write_file, arguments: {path: '{{1}}', content: x}}]
      - text: 'Done: {{1}}'
"#;
    let (home, provider) = (Home::new(), Provider::scripted(script));
    home.write("agent.yaml", SHELL.replace("shell", "filesystem"));
    let mut terminal = chat(&home, &provider, SIZES[0]);
    terminal.prompt().say("write one.txt");
    terminal
        .see("\"always\" covers calls of this agent that `write_file:path=one.txt` matches")
        .see("Shift-Tab accepts later edits without a question")
        .see("allow it?")
        .press(BACK_TAB)
        .see("accept edits · root")
        .answer("y");
    terminal.see("Done: one.txt").prompt().say("write two.txt");
    let text = terminal.see("Done: two.txt").prompt().leave();
    assert_eq!(text.matches("always in this chat").count(), 0, "{text}");
    assert!(home.join("two.txt").exists());
}

#[test]
fn suggestions_are_chosen_with_arrow_keys() {
    for size in SIZES {
        let (home, provider) = home();
        for number in 1..=30 {
            home.write(&format!("file{number:02}.txt"), "");
        }
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().press("read @file").see("… of 30");
        terminal.press(&DOWN.repeat(25)).see("> read @file25.txt");
        terminal.shows(|text| text.contains("\n> @file25.txt\n  25 of 30\n"));
        terminal.press(UP).see("> read @file24.txt");
        // The first Enter takes the name, and the next one sends the message.
        terminal
            .press("\r")
            .see("> read @file24.txt ")
            .press("now\r");
        terminal.see("I was told: read @file24.txt now").prompt();
        // Esc closes the list: the arrow keys then lead to earlier messages.
        terminal.press("/").see("/agent").press(ESCAPE);
        terminal.shows(|text| !text.contains("/agent"));
        terminal.press(UP).see("> read @file24.txt now");
        terminal.press("\u{15}").prompt().press("/s");
        terminal.see("/session").press(DOWN).see("> /session");
        terminal
            .press("\r")
            .shows(|text| text.contains("\n> /session\n"));
        terminal.prompt().leave();
    }
}

#[test]
fn the_beginning_of_one_command_runs_it() {
    let (home, provider) = home();
    home.write(
        "agent.yaml",
        format!("{SHELL}    commands:\n      whale: Say whale.\n      wharf: Say wharf.\n"),
    );
    let mut terminal = chat(&home, &provider, SIZES[1]);
    terminal.prompt().say("/too").see("> /tools").see("shell");
    terminal
        .prompt()
        .say("/wha")
        .see("there is no command /wha");
    terminal
        .prompt()
        .say("/whal")
        .see("> /whale")
        .see("I was told: Say whale.");
    // A blank in front makes it a message.
    terminal.prompt().say(" /too").see("I was told:  /too");
    terminal.prompt().leave();
    assert_eq!(provider.received().len(), 2);
}

#[test]
fn the_screen_is_painted_anew() {
    for size in SIZES {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, size);
        for round in 0..12 {
            terminal.prompt().say(&format!("hello {round}"));
            terminal.see(&format!("I was told: hello {round}"));
        }
        terminal.prompt().press("typed");
        let before = terminal.view_when(|view| view.contains("\n> typed\nroot"));
        terminal.scribble("\u{1b}[3;5Hnoise of another program\r\n\r\nnoise");
        assert!(terminal.view().contains("noise"));
        terminal.press(CTRL_L).view_when(|view| view == before);
        terminal.press("\u{15}").leave();
    }
}

#[test]
fn the_bell_rings_if_a_turn_ends_without_the_focus() {
    let rings = |terminal: &Terminal| terminal.raw().matches('\u{7}').count();
    let (home, provider) = home();
    let mut terminal = chat(&home, &provider, SIZES[0]);
    terminal
        .prompt()
        .say("hello")
        .see("I was told: hello")
        .prompt();
    assert_eq!(rings(&terminal), 0);
    terminal.press(FOCUS_OUT).say("hi").see("I was told: hi");
    terminal.prompt();
    terminal.hears_bells(1);
    // A question rings, too.
    terminal.say("run touch made").see("allow it?");
    terminal.hears_bells(2);
    terminal.press(FOCUS_IN).answer("y").see("It said:");
    terminal.prompt().leave();
    assert_eq!(rings(&terminal), 2);
    terminal.is_restored();
    // Not without a terminal.
    let ran = home.ask(&provider, &["agent.yaml"], "hello").ok();
    assert!(
        !ran.stdout.contains('\u{7}') && !ran.stderr.contains('\u{7}'),
        "{ran}"
    );
    assert!(
        !ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'),
        "{ran}"
    );
}

#[test]
fn header_and_running_answer_are_described() {
    let (home, provider) = home();
    home.write(".git/HEAD", "ref: refs/heads/topic\n");
    let mut terminal = chat(&home, &provider, SIZES[1]);
    terminal
        .see("root (openai/gpt-4o)\n")
        .see("~ (topic)\n")
        .see("/help: commands · Shift-Tab: mode · Ctrl-D: end\n")
        .prompt();
    terminal.say("slowly").see("answering · about ");
    terminal.shows(|text| {
        let label = text
            .lines()
            .find(|line| line.contains("answering · about "));
        label.is_some_and(|label| label.contains(" tokens ") && label.ends_with(" s"))
    });
    let text = terminal
        .press(ESCAPE)
        .see("interrupted")
        .prompt()
        .say("hello")
        .see("told: hello");
    let text = text.prompt().leave();
    assert_eq!(text.matches("answering").count(), 0, "{text}");
    // A blank line is between turns.
    let before = text.split("\n> hello\n").next().unwrap();
    assert!(before.ends_with('\n'), "{text}");
}

#[test]
fn words_of_an_answer_are_whole_after_a_resize() {
    const WORDS: [&str; 5] = ["baleen", "krill", "sonar", "ambergris", "spout"];
    for (from, to) in [(SIZES[0], SIZES[1]), (SIZES[1], SIZES[0])] {
        let (home, provider) = home();
        let mut terminal = chat(&home, &provider, from);
        terminal.prompt().say("items").see("krill sonar");
        terminal.see("• krill").resize(to.0, to.1);
        terminal.see("the end").prompt();
        // Row by row, as the terminal breaks them.
        let text = terminal.view_when(|view| view.contains("the end"));
        let answer = text.split("> items\n").nth(1).unwrap();
        let answer = answer.split("the end").next().unwrap();
        let words: Vec<&str> = answer.split_whitespace().collect();
        assert!(
            words
                .iter()
                .all(|word| *word == "•" || WORDS.contains(word)),
            "{text}"
        );
        assert_eq!(words.len(), 2 + 15 + 15, "{text}");
        terminal.leave();
    }
}
