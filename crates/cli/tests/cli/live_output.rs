//! Output of commands at a terminal: while they run, when they have ended, and when they are interrupted.

use crate::provider::{Provider, SHELL};
use crate::support::Home;
use crate::terminal::{CTRL_C, ESCAPE, Terminal};

const SCRIPT: &str = r##"
rules:
  - user: 'run (.*)'
    tools: [shell]
    steps:
      - tool_calls: [{name: shell, arguments: {command: '{{1}}'}}]
      - text: 'It ended.'
  - user: 'call the script'
    steps:
      - tool_calls: [{name: count, arguments: {}}]
      - text: 'It ended.'
  - user: 'delegate both'
    tools: [transfer_task]
    steps:
      - tool_calls:
          - {name: transfer_task, arguments: {agent: one, task: 'run sh write.sh first'}}
          - {name: transfer_task, arguments: {agent: two, task: 'run sh write.sh second'}}
      - text: 'Both ended.'
otherwise: {text: 'I was told: {{user}}'}
"##;

/// Writes lines, then waits for a file, and then writes more.
const WRITE: &str = r#"
for line in 1 2 3 4 5 6 7; do echo "$1 line $line"; done
printf '%s 10%%\r%s 50%%' "$1" "$1"
while [ ! -e go ]; do sleep 0.02; done
printf '\r%s 100%%\n' "$1"
for line in 8 9 10 11 12 13 14; do echo "$1 line $line"; done
"#;

/// The sizes at which the screen is checked.
const SIZES: [(u16, u16); 2] = [(100, 30), (60, 20)];

fn home(file: &str) -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
    let tool = if file.contains("type: script") {
        "count"
    } else {
        "shell"
    };
    let allowed = format!("{file}permissions: {{allow: [{tool}]}}\n");
    home.write("agent.yaml", &allowed);
    home.write("write.sh", WRITE);
    (home, provider)
}

fn chat(home: &Home, provider: &Provider, (columns, rows): (u16, u16)) -> Terminal {
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    Terminal::sized(&mut command, columns, rows)
}

/// The lines that contain a text.
fn lines<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(str::trim_end).collect()
}

/// What a terminal shows of the script while it waits.
const LAST_LINES: [&str; 5] = [
    "    it line 4",
    "    it line 5",
    "    it line 6",
    "    it line 7",
    "    it 50%",
];

fn shows_last_lines(text: &str) -> bool {
    let mut rows = text.lines().map(str::trim_end);
    let Some(_) = rows.find(|row| row.ends_with(" s") && row.contains("write.sh it")) else {
        return false;
    };
    let rows: Vec<&str> = rows.collect();
    rows.starts_with(&LAST_LINES)
        && rows
            .get(5)
            .is_some_and(|row| row.contains("Esc interrupts"))
}

#[test]
fn last_lines_appear_while_a_command_runs_and_are_folded_afterwards() {
    for size in SIZES {
        let (home, provider) = home(SHELL);
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().say("run sh write.sh it");
        terminal.shows(shows_last_lines);
        // They are part of the live region alone.
        assert_eq!(lines(&terminal.text(), "line 3"), [""; 0]);
        home.write("go", "");
        terminal.see("It ended.");
        let text = terminal.prompt().leave();
        let folded = [
            "    it line 1",
            "    it line 2",
            "    it line 3",
            "    it line 4",
            "    it line 5",
            "    it line 11",
            "    it line 12",
            "    it line 13",
            "    it line 14",
        ];
        assert_eq!(lines(&text, "it line"), folded, "{text}");
        assert_eq!(lines(&text, "more lines"), ["    … 6 more lines"], "{text}");
        assert_eq!(lines(&text, "0%"), [""; 0], "{text}");
        assert_eq!(lines(&text, "exit status 0").len(), 1, "{text}");
    }
}

#[test]
fn output_of_an_interrupted_command_is_kept() {
    for (size, key) in [(SIZES[0], CTRL_C), (SIZES[1], CTRL_C), (SIZES[1], ESCAPE)] {
        let (home, provider) = home(SHELL);
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().say("run sh write.sh it");
        terminal.shows(shows_last_lines).press(key);
        terminal.see("interrupted; the session is kept");
        terminal.prompt().say("go on").see("I was told: go on");
        let text = terminal.prompt().leave();
        let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
        let at = rows.iter().position(|row| row.contains("interrupted"));
        let at = at.unwrap_or_else(|| panic!("{text}"));
        assert!(rows[at].starts_with("  shell sh write.sh it "), "{text}");
        let kept = ["it line 1", "it line 2", "it line 3"].map(|row| format!("    {row}"));
        assert_eq!(rows[at + 1..at + 4], kept, "{text}");
        assert_eq!(rows[at + 4..at + 9], LAST_LINES, "{text}");
        assert!(
            rows[at + 9].starts_with("interrupted; the session"),
            "{text}"
        );
        assert_eq!(lines(&text, "it line").len(), 7, "{text}");
        // The model receives it, too.
        let asked = provider.received().last().unwrap().json().to_string();
        assert!(
            asked.contains("look before you repeat it. Its output before that:\\nit line 1\\n"),
            "{asked}"
        );
    }
}

#[test]
fn output_is_kept_when_the_chat_is_left_in_a_turn() {
    let (home, provider) = home(SHELL);
    let mut terminal = chat(&home, &provider, SIZES[1]);
    terminal
        .prompt()
        .say("run trap '' INT TERM; sh write.sh it");
    terminal.shows(|text| text.contains("    it line 7"));
    terminal.press(CTRL_C).press(CTRL_C);
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    terminal.shows_at_end(|text| lines(text, "it line").len() == 7);
}

#[test]
fn scripts_show_their_output_like_commands() {
    let script = SHELL.replace(
        "{type: shell}",
        "{type: script, shell: {count: {cmd: sh write.sh it, description: Counts.}}}",
    );
    let (home, provider) = home(&script);
    let mut terminal = chat(&home, &provider, SIZES[1]);
    terminal.prompt().say("call the script");
    terminal.shows(|text| text.contains("    it line 7\n    it 50%\n"));
    home.write("go", "");
    terminal.see("It ended.");
    let text = terminal.prompt().leave();
    assert_eq!(lines(&text, "it line").len(), 9, "{text}");
}

const TEAM: &str = "providers: {openai: {format: chat}}
agents:
  root:
    model: openai/gpt-4o
    instruction: Delegate.
    toolsets: [{type: shell}]
    sub_agents: [{name: one, fork: true}, {name: two, fork: true}]
  one: &fork
    model: openai/gpt-4o
    description: Obeys.
    instruction: Obey.
    toolsets: [{type: shell}]
  two: *fork
";

#[test]
fn concurrent_commands_share_the_rows() {
    for (size, each) in [(SIZES[0], 2), (SIZES[1], 1)] {
        let (home, provider) = home(TEAM);
        // Forks do not extend each other's requests.
        let provider = provider.accepting_anything();
        let mut terminal = chat(&home, &provider, size);
        terminal.prompt().say("delegate both");
        terminal.shows(|text| {
            let is_shown = |agent: &str, name: &str| {
                let mut rows = text.lines().skip_while(|row| {
                    !(row.ends_with(" s") && row.contains(&format!("{agent}: shell")))
                });
                let output = rows.nth(each);
                output.is_some_and(|row| row.trim_end() == format!("    {name} 50%"))
            };
            is_shown("one", "first") && is_shown("two", "second")
        });
        home.write("go", "");
        terminal.see("Both ended.");
        let text = terminal.prompt().leave();
        for name in ["first", "second"] {
            assert_eq!(lines(&text, &format!("    {name} line")).len(), 9, "{text}");
        }
    }
}

#[test]
fn secrets_are_masked_while_a_command_runs() {
    let file = SHELL.replace("{type: shell}", "{type: shell, pass_env: [OPENAI_API_KEY]}");
    let (home, provider) = home(&file);
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    command.env("OPENAI_API_KEY", "swordfish-1234");
    let mut terminal = Terminal::sized(&mut command, 60, 20);
    let wait = "while [ ! -e go ]; do sleep 0.02; done";
    terminal
        .prompt()
        .say(&format!("run echo \"it is $OPENAI_API_KEY\"; {wait}"));
    terminal.shows(|text| text.contains("    it is [secret]\n"));
    home.write("go", "");
    terminal.see("It ended.").prompt().leave();
    assert!(!terminal.raw().contains("swordfish"), "{}", terminal.raw());
}

#[test]
fn pipes_and_dumb_terminals_get_nothing_live() {
    let (home, provider) = home(SHELL);
    home.write("go", "");
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(&mut command);
    terminal
        .see("\n> ")
        .say("run sh write.sh it")
        .see("It ended.");
    terminal.see("\n> ").leave();
    let text = terminal.raw();
    assert!(!text.contains("it line"), "{text}");
}
