//! Slash commands of a chat.

use cachalot_agent::Chat;
use cachalot_core::suggest::did_you_mean;

use super::show::Show;
use crate::render;
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
    /// Takes back the last message and everything after it.
    Retract,
    Session,
    Stats,
    Tools,
    Quit,
    /// The name of an unknown command, or of one with invalid arguments.
    Unknown(String),
}

const KNOWN: [&str; 12] = [
    "/help", "/new", "/fresh", "/compact", "/retract", "/review", "/btw", "/reload", "/session",
    "/stats", "/tools", "/quit",
];

const HELP: &str = "\
/new      end the session and begin a new one
/fresh    a new answer to the message behind it, or to the next one, bypassing the response cache
/compact  summarize the conversation and continue from the summary
/retract  remove your last message and all that follows from it, for instance when the provider refuses
          the conversation because of it; repeat for earlier messages; effects of tools remain
/review   review the conversation for what should be remembered; the text after the command is
          the focus
/btw      a question beside the conversation: its answer is shown, and the conversation continues without it
/reload   use the tools that were added, removed or changed since the session began
/session  show the session's name
/stats    show how the session's tool calls were answered
/tools    list the tools
/quit     end the chat (as Ctrl-D does); the session is kept
A line that ends with \\ continues on the next; \"\"\" begins and ends a text of several lines.
Ctrl-C interrupts the turn, and then nothing but the turn. A second one does not wait for its end.
When a tool call needs approval: y allows this one, a allows this tool to this agent until the
chat ends, n refuses it, and any other text goes to the model instead of the result.";

impl Command {
    /// Parses a command. Returns `None` for a message: a path, or a line that begins with whitespace.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let word = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
        if word.is_empty() || !word.chars().all(|sign| sign.is_ascii_alphabetic()) {
            return None;
        }
        let text = line[1 + word.len()..].trim();
        let text = (!text.is_empty()).then(|| text.to_owned());
        Some(match (word, text) {
            ("fresh", text) => Self::Fresh(text),
            ("review", text) => Self::Review(text),
            ("btw", Some(question)) => Self::Aside(question),
            ("help", None) => Self::Help,
            ("new", None) => Self::New,
            ("compact", None) => Self::Compact,
            ("reload", None) => Self::Reload,
            ("retract", None) => Self::Retract,
            ("session", None) => Self::Session,
            ("stats", None) => Self::Stats,
            ("tools", None) => Self::Tools,
            ("quit" | "exit", None) => Self::Quit,
            _ => Self::Unknown(format!("/{word}")),
        })
    }

    /// True if the chat itself has a command of this name.
    pub(super) fn is_known(name: &str) -> bool {
        KNOWN.iter().any(|known| &known[1..] == name) || name == "exit"
    }

    /// Prints the output of commands that only show information. Other commands print nothing here.
    pub(super) fn tell(&self, chat: &Chat, bench: &Workbench, show: &Show) {
        match self {
            Self::Help => render::err(HELP),
            Self::Session => render::err(chat.session()),
            Self::Stats => render::err(&bench.stats(chat.session())),
            Self::Tools => tools(chat, show.width()),
            Self::Unknown(name) if name == "/btw" => {
                render::err("/btw takes a question behind it: /btw what was the file called?");
            }
            Self::Unknown(name) if KNOWN.contains(&name.as_str()) => {
                render::err(&format!("{name} takes nothing behind it"));
            }
            Self::Unknown(name) => render::err(&format!(
                "there is no command {name}; {} (a blank in front makes it a message)",
                did_you_mean(name, &KNOWN)
            )),
            Self::New
            | Self::Fresh(_)
            | Self::Compact
            | Self::Review(_)
            | Self::Aside(_)
            | Self::Reload
            | Self::Retract
            | Self::Quit => {}
        }
    }
}

fn tools(chat: &Chat, width: Option<usize>) {
    let tools = chat.toolbox().definitions();
    if tools.is_empty() {
        render::err("there are no tools");
    }
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max();
    let widest = widest.unwrap_or_default().min(32);
    for tool in tools {
        let sentence = tool.description.split(". ").next().unwrap_or_default();
        let sentence = sentence.lines().next().unwrap_or_default();
        let line = format!("{:<widest$}  {}", tool.name, on_one_line(sentence));
        let line = width.map_or_else(|| line.clone(), |width| cut(&line, width.saturating_sub(1)));
        render::err(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::Command;

    #[test]
    fn commands_are_distinguished_from_messages() {
        assert_eq!(Command::parse("/quit"), Some(Command::Quit));
        assert_eq!(Command::parse("/new "), Some(Command::New));
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
