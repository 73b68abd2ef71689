//! Screens of `cachalot chat`, kept as snapshots: what a user sees in two sizes of the terminal.

use crate::provider::{Provider, SHELL};
use crate::support::Home;
use crate::terminal::{DOWN, Terminal};

const SCRIPT: &str = r##"
rules:
  - user: 'run (.*)'
    tools: [shell]
    steps:
      - tool_calls: [{name: shell, arguments: {command: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
  - user: 'edit it'
    steps:
      - tool_calls: [{name: edit_file, arguments: {path: notes.txt, old_text: two, new_text: "2\nII"}}]
      - text: 'It said: {{last_result}}'
  - user: 'read it'
    steps:
      - tool_calls: [{name: read_file, arguments: {path: notes.txt}}]
      - text: 'Three lines.'
  - user: 'table'
    steps:
      - text: |
          | Store | Where it keeps its records | When to choose it |
          |---|---|---|
          | `sqlite` | in one file beside the ledger, with its stamps and the digest key | **by default**: on one machine, for any number of processes |
          | `redis` | in the memory of a server | many machines, 鯨は海に住む |

          The narrow one:

          | a | b |
          |--:|---|
          | 1 | x |
  - user: 'markdown'
    steps:
      - text: |
          # How deep it dives

          A sperm whale dives **1,000 m** on an ordinary day, and some have been found at more than twice this depth.

          > The whale has no famous author, and whaling no famous chronicler, you will say.

          - An item that is long enough to be wrapped, so that its second row shows how it is indented
            - an item in it
          - [x] done

          ```rust
          fn depth() -> u32 { 1_000 }
          ```
  - user: 'difference'
    steps:
      - text: |
          The change:

          ```diff
          --- a/notes.txt
          +++ b/notes.txt
          @@ -1,3 +1,3 @@
           one
          -two
          +2
           three
          ```
otherwise: {text: 'I was told: {{user}}'}
"##;

const AGENTS: &str = r#"providers: {openai: {format: chat}}
agents:
  root:
    model: openai/gpt-4o
    description: Reads and edits the files of this directory.
    instruction: Edit.
    toolsets: [{type: filesystem}]
  reviewer: {model: openai/gpt-4o-mini, description: Looks for mistakes., instruction: Look.}
  writer: {model: openai/gpt-4o-mini, description: Writes texts., instruction: Write.}
"#;

/// A chat in a size of the terminal.
struct Chat {
    home: Home,
    provider: Provider,
    size: (u16, u16),
    terminal: Terminal,
}

impl Chat {
    fn start(agents: &str, size: (u16, u16)) -> Self {
        let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
        home.write("agent.yaml", agents);
        home.write("notes.txt", "one\ntwo\nthree\n");
        home.write(".git/HEAD", "ref: refs/heads/topic\n");
        let terminal = open(&home, &provider, size, &[]);
        let mut chat = Self {
            home,
            provider,
            size,
            terminal,
        };
        chat.terminal.prompt();
        chat
    }

    /// Compares the rows of the terminal with the snapshot, when they are as expected.
    #[track_caller]
    fn shows(&mut self, name: &str, expected: impl Fn(&str) -> bool) {
        let rows = self.terminal.rows_when(expected);
        let patterns = [
            (r"\bsession [0-9a-f]{16}\b", "session [id]"),
            (r" +\d+(\.\d+)? (ms|µs|s|min)\b", " [time]"),
            (
                r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b",
                "[date and time     ]",
            ),
        ];
        let rows = patterns.iter().fold(rows, |rows, (pattern, name)| {
            let pattern = regex::Regex::new(pattern).unwrap();
            pattern.replace_all(&rows, *name).into_owned()
        });
        let (columns, _) = self.size;
        insta::assert_snapshot!(format!("{name}_{columns}"), rows);
    }
}

fn open(home: &Home, provider: &Provider, size: (u16, u16), arguments: &[&str]) -> Terminal {
    let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
    provider.known_to(&mut command);
    Terminal::sized(&mut command, size.0, size.1)
}

fn is_idle(view: &str) -> bool {
    !view.contains("Esc interrupts") && view.lines().any(|line| line == ">")
}

/// Runs a scenario in both sizes.
fn in_both_sizes(agents: &str, scenario: impl Fn(&mut Chat)) {
    for size in [(100, 30), (60, 20)] {
        let mut chat = Chat::start(agents, size);
        scenario(&mut chat);
    }
}

#[test]
fn start() {
    in_both_sizes(AGENTS, |chat| chat.shows("start", is_idle));
}

#[test]
fn answers() {
    for topic in ["table", "markdown", "difference"] {
        in_both_sizes(AGENTS, |chat| {
            chat.terminal.say(topic).see("tokens in").prompt();
            chat.shows(topic, is_idle);
        });
    }
}

#[test]
fn turns_with_tools() {
    in_both_sizes(AGENTS, |chat| {
        for _ in 0..2 {
            chat.terminal.say("read it").see("Three lines.").prompt();
        }
        chat.shows("turns_with_tools", is_idle);
    });
}

#[test]
fn approvals() {
    in_both_sizes(SHELL, |chat| {
        chat.terminal
            .say("run touch made; echo made")
            .see("allow it?");
        chat.terminal.press("\t");
        chat.shows("approval_of_a_command", |view| !view.contains("Tab, then"));
    });
    in_both_sizes(AGENTS, |chat| {
        chat.terminal.say("edit it").see("allow it?").press("\t");
        chat.shows("approval_of_an_edit", |view| !view.contains("Tab, then"));
    });
}

#[test]
fn lists() {
    in_both_sizes(AGENTS, |chat| {
        chat.terminal
            .press("/re")
            .see("/retract")
            .press(&DOWN.repeat(2));
        chat.shows("commands", |view| view.contains("\n> /resume   "));
        chat.terminal
            .press("\u{15}see @n")
            .see("@notes.txt")
            .press("\t");
        chat.shows("files", |view| {
            view.contains("> see @notes.txt") && is_listless(view)
        });
        chat.terminal
            .press("\u{15}/agent\r")
            .see("Enter chooses")
            .press(DOWN);
        chat.shows("agents", |view| view.contains("> reviewer"));
    });
}

fn is_listless(view: &str) -> bool {
    !view.contains("  @notes.txt")
}

#[test]
fn pasted_text() {
    in_both_sizes(AGENTS, |chat| {
        let lines: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        chat.terminal
            .press(&format!("read this: \u{1b}[200~{lines}\u{1b}[201~"));
        chat.shows("pasted_text", |view| view.contains("[pasted 40 lines]"));
    });
}

#[test]
fn resumed_session() {
    in_both_sizes(AGENTS, |chat| {
        chat.terminal
            .say("hello")
            .see("I was told: hello")
            .prompt()
            .leave();
        chat.terminal = open(&chat.home, &chat.provider, chat.size, &["--continue"]);
        chat.terminal.see("I was told: hello").prompt();
        chat.shows("resumed_session", is_idle);
    });
}
