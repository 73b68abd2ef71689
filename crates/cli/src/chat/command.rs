//! What begins with a slash.

use cachalot_agent::Chat;
use cachalot_core::suggest::did_you_mean;

use super::show::Show;
use super::words::cut;
use crate::render;
use crate::render::visible::on_one_line;
use crate::workbench::Workbench;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    New,
    /// A new answer to this message, or to the next one.
    Fresh(Option<String>),
    Compact,
    Session,
    Stats,
    Tools,
    Quit,
    /// What it looked like.
    Unknown(String),
}

const KNOWN: [&str; 8] = [
    "/help", "/new", "/fresh", "/compact", "/session", "/stats", "/tools", "/quit",
];

const HELP: &str = "\
/new      end the session and begin a new one
/fresh    a new answer to the message behind it, or to the next one, whatever was answered before
/compact  summarize what was said so far, and go on from the summary
/session  tell the session's name
/stats    tell what the session's tool calls were answered from
/tools    list the tools
/quit     end the chat (as Ctrl-D does); the session is kept
A line that ends with \\ goes on in the next; \"\"\" begins and ends a text of several lines.
Ctrl-C interrupts the turn, and then nothing but the turn. A second one does not wait for its end.
When a tool call is asked about: y allows this one, a allows this tool to this agent until the
chat ends, n refuses it, and anything else is told to the model instead of the result.";

impl Command {
    /// The command that a line is, if it is one. A path, or a line that begins with a blank, is none.
    pub(super) fn of(line: &str) -> Option<Self> {
        let word = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
        if word.is_empty() || !word.chars().all(|sign| sign.is_ascii_alphabetic()) {
            return None;
        }
        if let Some(text) = line.strip_prefix("/fresh ").map(str::trim)
            && !text.is_empty()
        {
            return Some(Self::Fresh(Some(text.to_owned())));
        }
        Some(match line.trim_end() {
            "/help" => Self::Help,
            "/new" => Self::New,
            "/fresh" => Self::Fresh(None),
            "/compact" => Self::Compact,
            "/session" => Self::Session,
            "/stats" => Self::Stats,
            "/tools" => Self::Tools,
            "/quit" | "/exit" => Self::Quit,
            _ => Self::Unknown(format!("/{word}")),
        })
    }

    /// Tells what it asks for. Those that do something ask for nothing to be told.
    pub(super) fn tell(&self, chat: &Chat, bench: &Workbench, show: &Show) {
        match self {
            Self::Help => render::err(HELP),
            Self::Session => render::err(chat.session()),
            Self::Stats => render::err(&bench.stats(chat.session())),
            Self::Tools => tools(chat, show.width()),
            Self::Unknown(name) if KNOWN.contains(&name.as_str()) => {
                render::err(&format!("{name} takes nothing behind it"));
            }
            Self::Unknown(name) => render::err(&format!(
                "there is no command {name}; {} (a blank in front makes it a message)",
                did_you_mean(name, &KNOWN)
            )),
            Self::New | Self::Fresh(_) | Self::Compact | Self::Quit => {}
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
    fn commands_are_told_from_messages() {
        assert_eq!(Command::of("/quit"), Some(Command::Quit));
        assert_eq!(Command::of("/new "), Some(Command::New));
        assert_eq!(Command::of("/fresh"), Some(Command::Fresh(None)));
        let afresh = Command::Fresh(Some("How deep?\nSay.".to_owned()));
        assert_eq!(Command::of("/fresh  How deep?\nSay. "), Some(afresh));
        for message in [
            "",
            "/",
            "/etc/hosts is what?",
            " /quit",
            "a /quit",
            "/ quit",
            "//",
        ] {
            assert_eq!(Command::of(message), None, "{message}");
        }
        for (line, name) in [("/qiut", "/qiut"), ("/new one", "/new")] {
            assert_eq!(Command::of(line), Some(Command::Unknown(name.to_owned())));
        }
    }
}
