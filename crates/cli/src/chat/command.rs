//! Slash commands of a chat.

use cachalot_agent::Chat;
use cachalot_core::suggest::did_you_mean;

use super::messages::agents;
use super::permission_list;
use super::server_list;
use crate::render::cut;
use crate::render::visible::on_one_line;
use crate::workbench::Workbench;

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    /// Runs a command line of the user.
    Shell(String),
    /// Writes the conversation to this file, or to one that is named after the session.
    Export(Option<String>),
    /// Continues in a new session from here.
    Fork,
    /// Lists the MCP servers.
    Servers,
    /// Lists the permission rules.
    Permissions,
    New,
    /// Requests a new answer to this message, or to the next one, and bypasses the response cache.
    Fresh(Option<String>),
    Compact,
    /// Starts a review of the conversation with this focus.
    Review(Option<String>),
    /// Asks a side question on a fork of the conversation.
    Aside(String),
    Reload,
    /// Continues with this model, or one that the user chooses.
    Model(Option<String>),
    /// Continues with this agent, or one that the user chooses.
    Agent(Option<String>),
    /// Continues this session, or one that the user chooses.
    Resume(Option<String>),
    /// Takes back the last message and everything after it.
    Retract,
    /// Takes back the last turn and brings back the files that it has changed.
    Rewind,
    Session,
    Stats,
    Tools,
    Quit,
    /// The name of an unknown command, or of one with invalid arguments.
    Unknown(String),
}

/// The commands, and what they do.
pub(super) const COMMANDS: [(&str, &str); 22] = [
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
        "/export",
        "write the conversation to a new file: Markdown, or HTML if its name ends so",
    ),
    (
        "/fork",
        "continue in a new session from here; the current one stays as it is",
    ),
    (
        "/fresh",
        "a new answer to the message behind it, or to the next one, bypassing the response cache",
    ),
    ("/help", "list commands and keys"),
    ("/mcp", "list the MCP servers, their state and their tools"),
    (
        "/model",
        "continue with another model, which reads the conversation anew",
    ),
    ("/new", "end the session and begin a new one"),
    (
        "/permissions",
        "list the permission rules in their order, and where they come from",
    ),
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
        "take back the last turn, with the files that its tools have changed",
    ),
    ("/session", "show the session's name"),
    (
        "/stats",
        "show how the session's tool calls were answered, and the cost",
    ),
    ("/tools", "list the tools"),
];

const KEYS: &str = "
!COMMAND runs a command line in the workspace; the next message has its output, too.
@NAME in a message attaches a file or the list of a directory.
Enter sends a message; while a turn runs, it queues the message.
Alt-Enter, Ctrl-J, or \\ at the end of a line begins a new line; \"\"\" begins and ends a text.
Tab and the arrow keys go through commands and, after @, names of files; Esc closes the list.
The beginning of a command is enough if no other command begins with it.
Up and Down show earlier messages; Ctrl-R searches them.
Ctrl-O shows a long pasted text. Ctrl-L paints the screen anew.
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
fn help(agent_commands: &[String]) -> String {
    let commands = COMMANDS.iter();
    let commands: String = commands
        .map(|(name, help)| format!("{name:<12} {help}\n"))
        .collect();
    let of_agent = agent_commands.iter();
    let of_agent: String = of_agent
        .map(|line| format!("\n{}", on_one_line(line)))
        .collect();
    commands + KEYS.trim_start() + &of_agent
}

impl Command {
    /// Parses a command. Returns `None` for a message: a path, or a line that begins with whitespace.
    pub(super) fn parse(line: &str) -> Option<Self> {
        if let Some(shell) = line.strip_prefix('!') {
            // Several lines may be a pasted text, and `![` begins an image of Markdown.
            let is_message = shell.trim_end().contains('\n') || shell.starts_with('[');
            return (!is_message).then(|| Self::Shell(shell.trim().to_owned()));
        }
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
            ("export", file) => Self::Export(file),
            ("fork", None) => Self::Fork,
            ("mcp", None) => Self::Servers,
            ("permissions", None) => Self::Permissions,
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

    /// Returns the output of a command that only shows information; `None` for others.
    pub(super) fn output(&self, shown: &Shown<'_>) -> Option<String> {
        let Shown {
            chat,
            bench,
            width,
            default_decision,
            agent_commands,
        } = shown;
        Some(match self {
            Self::Help => help(agent_commands),
            Self::Session => chat.session().to_owned(),
            Self::Stats => bench.stats(chat.session()),
            Self::Tools => tools(chat, *width),
            Self::Agent(None) => agents(chat),
            Self::Permissions => permission_list::describe(chat, bench, default_decision),
            Self::Servers => server_list::describe(&bench.servers(chat.session())),
            Self::Shell(line) if line.is_empty() => {
                "! takes a command line behind it: !git status".to_owned()
            }
            Self::Unknown(name) if name == "/btw" => {
                "/btw takes a question behind it: /btw what was the file called?".to_owned()
            }
            Self::Unknown(name) if names().contains(&name.as_str()) => {
                format!("{name} takes nothing behind it")
            }
            Self::Unknown(name) => format!(
                "there is no command {name}; {} (a blank in front makes it a message)",
                did_you_mean(name, &names())
            ),
            Self::Shell(_)
            | Self::Export(_)
            | Self::Fork
            | Self::New
            | Self::Model(_)
            | Self::Agent(Some(_))
            | Self::Resume(_)
            | Self::Fresh(_)
            | Self::Compact
            | Self::Review(_)
            | Self::Aside(_)
            | Self::Reload
            | Self::Retract
            | Self::Rewind
            | Self::Quit => return None,
        })
    }
}

/// The subject of commands that show information.
pub(super) struct Shown<'a> {
    pub(super) chat: &'a Chat,
    pub(super) bench: &'a Workbench,
    /// The width of the terminal, if it is known.
    pub(super) width: Option<usize>,
    /// What happens to calls that no permission rule is about.
    pub(super) default_decision: &'a str,
    /// The commands of the agent, with their descriptions.
    pub(super) agent_commands: Vec<String>,
}

fn tools(chat: &Chat, width: Option<usize>) -> String {
    let tools = chat.toolbox().definitions();
    if tools.is_empty() {
        return "there are no tools".to_owned();
    }
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max();
    let widest = widest.unwrap_or_default().min(32);
    let lines = tools.iter().map(|tool| {
        let sentence = tool.description.split(". ").next().unwrap_or_default();
        let sentence = sentence.lines().next().unwrap_or_default();
        let line = format!("{:<widest$}  {}", tool.name, on_one_line(sentence));
        width.map_or_else(|| line.clone(), |width| cut(&line, width - 1))
    });
    lines.collect::<Vec<_>>().join("\n")
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
        let shell = Command::Shell("ls -l | wc".to_owned());
        assert_eq!(Command::parse("! ls -l | wc \n"), Some(shell));
        let export = Command::Export(Some("my chat.md".to_owned()));
        assert_eq!(Command::parse("/export my chat.md"), Some(export));
        for message in [
            "",
            " !ls",
            "!ls\nls",
            "![a whale](whale.png)",
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
