//! Slash commands of a chat.

use cachalot_agent::Chat;
use cachalot_core::suggest::did_you_mean;

use super::show::Show;
use crate::render::cut;
use crate::render::visible::on_one_line;
use crate::workbench::Workbench;

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    New,
    /// Requests a new answer to this message, or to the next one, and bypasses the response cache.
    Fresh(Option<String>),
    Compact,
    /// Starts a review of the conversation with this focus.
    Review(Option<String>),
    /// Asks a side question on a fork of the conversation.
    Aside(String),
    Reload,
    /// Continues with this model; shows the current one and lists others without a name.
    Model(Option<String>),
    /// Continues with this agent; shows the agents without a name.
    Agent(Option<String>),
    /// Continues this session, or one that the user chooses.
    Resume(Option<String>),
    /// Takes back the last message and everything after it.
    Retract,
    /// Brings back files that commands without a question have changed.
    Rewind,
    Session,
    Stats,
    Tools,
    Quit,
    /// The name of an unknown command, or of one with invalid arguments.
    Unknown(String),
}

/// The commands, and what they do.
pub(super) const COMMANDS: [(&str, &str); 18] = [
    ("/agent", "continue with another agent of the file"),
    (
        "/btw",
        "a question beside the conversation, which continues without it",
    ),
    ("/clear", "the same as /new"),
    (
        "/compact",
        "summarize the conversation and continue from the summary",
    ),
    ("/cost", "the same as /stats"),
    (
        "/fresh",
        "a new answer to the message behind it, or to the next one, bypassing the response cache",
    ),
    ("/help", "list commands and keys"),
    (
        "/model",
        "continue with another model, which reads the conversation anew",
    ),
    ("/new", "end the session and begin a new one"),
    (
        "/quit",
        "end the chat (as Ctrl-D does); the session is kept",
    ),
    (
        "/reload",
        "use the tools that were added, removed or changed since the session began",
    ),
    ("/resume", "continue an earlier session"),
    (
        "/retract",
        "take back your last message and all that follows from it; effects of tools remain",
    ),
    (
        "/review",
        "review the conversation for what should be remembered; the text behind it is the focus",
    ),
    (
        "/rewind",
        "bring back files that git does not have, as they were before the last turn with commands without a question",
    ),
    ("/session", "show the session's name"),
    (
        "/stats",
        "show how the session's tool calls were answered, and the cost",
    ),
    ("/tools", "list the tools"),
];

const KEYS: &str = "
Enter sends a message; while a turn runs, it queues the message.
Alt-Enter, Ctrl-J, or \\ at the end of a line begins a new line; \"\"\" begins and ends a text.
Tab completes commands and, after @, names of files.
Up and Down show earlier messages; Ctrl-R searches them.
Esc or Ctrl-C interrupts the turn, and queued messages return; Ctrl-C twice ends the chat.
Shift-Tab changes the mode: normal, accept edits, plan. Ctrl-Z suspends the program.
A tool call that needs approval is answered with a key: y once, a always in this chat,
s in every chat, n no, r no with a reason. It counts if the input line is empty and no key
was pressed for 0.7 seconds; otherwise, Tab leads to the question.";

/// Returns the names of all commands.
fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|(name, _)| *name).collect()
}

/// Returns the text of `/help`.
fn help() -> String {
    let commands = COMMANDS.iter();
    let commands: String = commands
        .map(|(name, help)| format!("{name:<9} {help}\n"))
        .collect();
    commands + KEYS.trim_start()
}

impl Command {
    /// Parses a command. Returns `None` for a message: a path, or a line that begins with whitespace.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let word = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
        if word.is_empty()
            || !word
                .chars()
                .all(|character| character.is_ascii_alphabetic())
        {
            return None;
        }
        let text = line[1 + word.len()..].trim();
        let text = (!text.is_empty()).then(|| text.to_owned());
        Some(match (word, text) {
            ("fresh", text) => Self::Fresh(text),
            ("review", text) => Self::Review(text),
            ("btw", Some(question)) => Self::Aside(question),
            ("model", name) => Self::Model(name),
            ("agent", name) => Self::Agent(name),
            ("resume", id) => Self::Resume(id),
            ("help", None) => Self::Help,
            ("new" | "clear", None) => Self::New,
            ("compact", None) => Self::Compact,
            ("reload", None) => Self::Reload,
            ("retract", None) => Self::Retract,
            ("rewind", None) => Self::Rewind,
            ("session", None) => Self::Session,
            ("stats" | "cost", None) => Self::Stats,
            ("tools", None) => Self::Tools,
            ("quit" | "exit", None) => Self::Quit,
            _ => Self::Unknown(format!("/{word}")),
        })
    }

    /// True if the chat itself has a command of this name.
    pub(super) fn is_known(name: &str) -> bool {
        names().iter().any(|known| &known[1..] == name) || name == "exit"
    }

    /// Prints the output of commands that only show information. Other commands print nothing here.
    pub(super) fn tell(&self, chat: &Chat, bench: &Workbench, show: &Show) {
        match self {
            Self::Help => show.tell(&help()),
            Self::Session => show.tell(chat.session()),
            Self::Stats => show.tell(&bench.stats(chat.session())),
            Self::Tools => tools(chat, show),
            Self::Unknown(name) if name == "/btw" => {
                show.tell("/btw takes a question behind it: /btw what was the file called?");
            }
            Self::Unknown(name) if names().contains(&name.as_str()) => {
                show.tell(&format!("{name} takes nothing behind it"));
            }
            Self::Unknown(name) => show.tell(&format!(
                "there is no command {name}; {} (a blank in front makes it a message)",
                did_you_mean(name, &names())
            )),
            Self::New
            | Self::Model(_)
            | Self::Agent(_)
            | Self::Resume(_)
            | Self::Fresh(_)
            | Self::Compact
            | Self::Review(_)
            | Self::Aside(_)
            | Self::Reload
            | Self::Retract
            | Self::Rewind
            | Self::Quit => {}
        }
    }
}

fn tools(chat: &Chat, show: &Show) {
    let width = show.width();
    let tools = chat.toolbox().definitions();
    if tools.is_empty() {
        show.tell("there are no tools");
    }
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max();
    let widest = widest.unwrap_or_default().min(32);
    for tool in tools {
        let sentence = tool.description.split(". ").next().unwrap_or_default();
        let sentence = sentence.lines().next().unwrap_or_default();
        let line = format!("{:<widest$}  {}", tool.name, on_one_line(sentence));
        let line = width.map_or_else(|| line.clone(), |width| cut(&line, width - 1));
        show.tell(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn commands_are_distinguished_from_messages() {
        assert_eq!(Command::parse("/quit"), Some(Command::Quit));
        assert_eq!(Command::parse("/new "), Some(Command::New));
        assert_eq!(Command::parse("/clear"), Some(Command::New));
        assert_eq!(Command::parse("/cost"), Some(Command::Stats));
        let model = Command::Model(Some("openai/gpt-4o".to_owned()));
        assert_eq!(Command::parse("/model openai/gpt-4o"), Some(model));
        assert_eq!(Command::parse("/agent"), Some(Command::Agent(None)));
        assert_eq!(Command::parse("/retract"), Some(Command::Retract));
        assert_eq!(Command::parse("/fresh"), Some(Command::Fresh(None)));
        let afresh = Command::Fresh(Some("How deep?\nSay.".to_owned()));
        assert_eq!(Command::parse("/fresh  How deep?\nSay. "), Some(afresh));
        let above_all = Command::Review(Some("the units".to_owned()));
        assert_eq!(Command::parse("/review the units"), Some(above_all));
        assert_eq!(Command::parse("/review"), Some(Command::Review(None)));
        let aside = Command::Aside("How deep?".to_owned());
        assert_eq!(Command::parse("/btw How deep?"), Some(aside));
        for message in [
            "",
            "/",
            "/etc/hosts is what?",
            " /quit",
            "a /quit",
            "/ quit",
            "//",
        ] {
            assert_eq!(Command::parse(message), None, "{message}");
        }
        for (line, name) in [("/qiut", "/qiut"), ("/new one", "/new"), ("/btw ", "/btw")] {
            assert_eq!(
                Command::parse(line),
                Some(Command::Unknown(name.to_owned()))
            );
        }
    }
}
