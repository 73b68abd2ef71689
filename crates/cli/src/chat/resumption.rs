//! The session that a chat resumes.

use cachalot_agent::Team;
use cachalot_core::{Millis, Problem};
use cachalot_prompt::{SessionFilter, SessionOverview, Sessions};

use super::prompt::{AskedBy, Prompt};
use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};
use crate::render::local_time;
use crate::render::visible::on_one_line;
use crate::terminal::Entry;

/// Maximum number of sessions in a list to choose from with the arrow keys.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of sessions that are printed with their numbers.
const MAX_CHOICES: usize = 20;

/// The session that a chat resumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// None: a new session begins.
    New,
    /// The session with this ID, or with this beginning of it.
    Session(String),
    /// The newest session of the workspace and the team.
    Newest,
    /// The session that the user chooses.
    Choice,
}

impl Resumption {
    /// Reads `--continue` and `--resume`.
    pub(crate) fn read(arguments: &Chat) -> Self {
        match (&arguments.resume, arguments.continues) {
            (Some(id), _) if id.is_empty() => Self::Choice,
            (Some(id), _) => Self::Session(id.clone()),
            (None, true) => Self::Newest,
            (None, false) => Self::New,
        }
    }

    /// Returns the ID of the session, or `None` for a new session. A choice is made through `prompt`.
    ///
    /// # Errors
    /// There is no such session, the store fails, or the user cannot be asked or chooses none.
    pub(crate) async fn session(
        &self,
        sessions: &Sessions,
        team: &Team,
        workspace: &str,
        prompt: Option<&Prompt>,
    ) -> Result<Option<String>> {
        match self {
            Self::New => Ok(None),
            Self::Session(id) => Ok(Some(id.clone())),
            Self::Newest => {
                let newest = list(sessions, team, workspace, 1).await?.pop();
                Ok(Some(newest.ok_or_else(|| none(workspace))?.1.head.id))
            }
            Self::Choice => {
                let prompt = prompt.ok_or_else(cannot_ask)?;
                let maximum = match prompt {
                    Prompt::Live(_) => MAX_ENTRIES,
                    Prompt::Plain(_) => MAX_CHOICES,
                };
                let listed = list(sessions, team, workspace, maximum).await?;
                if listed.is_empty() {
                    return Err(none(workspace));
                }
                choose(listed, prompt).await.map(Some)
            }
        }
    }
}

/// Returns the newest sessions of the workspace that agents of the team have had with the user, the newest
/// first.
async fn list(
    sessions: &Sessions,
    team: &Team,
    workspace: &str,
    maximum: usize,
) -> Result<Vec<(Millis, SessionOverview)>> {
    let filter = SessionFilter {
        workspace: Some(workspace),
        ..SessionFilter::default()
    };
    let listed = sessions.list(&filter).await?;
    let readable = listed
        .into_iter()
        .filter_map(|summary| Some((summary.saved, summary.state.ok()?)));
    let resumable = readable.filter(|(_, overview)| {
        let head = &overview.head;
        head.parent.is_none() && overview.messages > 0 && team.agent(&head.agent).is_some()
    });
    Ok(resumable.take(maximum).collect())
}

fn none(workspace: &str) -> CommandError {
    CommandError::failed(format!(
        "there is no session of this agent in {workspace}; `cachalot sessions ls` lists those of all directories"
    ))
}

fn cannot_ask() -> CommandError {
    CommandError::usage(
        Problem::new(
            "no-session",
            "`--resume` without an ID asks for the session, which needs a terminal",
        )
        .help("`--continue` resumes the newest one, and `cachalot sessions ls` lists them"),
    )
}

/// Lets the user choose a session, and returns its ID.
async fn choose(sessions: Vec<(Millis, SessionOverview)>, prompt: &Prompt) -> Result<String> {
    let entries = sessions.iter().map(|(saved, session)| Entry {
        text: local_time::to_second(*saved),
        help: format!(
            "{:>4} messages  {}",
            session.messages,
            on_one_line(session.head.title.as_deref().unwrap_or_default())
        ),
    });
    let entries: Vec<Entry> = entries.collect();
    let place = match prompt {
        Prompt::Live(console) => console.pick("session: ", entries).await,
        Prompt::Plain(_) => {
            for (number, Entry { text, help }) in entries.iter().enumerate() {
                prompt.tell(&format!("{:>3}  {text}  {help}", number + 1));
            }
            let line = prompt
                .ask("number of the session [1]: ", AskedBy::User)
                .await;
            line.and_then(|line| place(&line))
        }
    };
    let chosen = place.and_then(|place| sessions.into_iter().nth(place));
    let none = || CommandError::Interrupted("no session was chosen".to_owned());
    chosen.map(|(_, session)| session.head.id).ok_or_else(none)
}

/// Returns the index for the number in a line; the first one for an empty line.
fn place(line: &str) -> Option<usize> {
    match line.trim() {
        "" => Some(0),
        number => number.parse::<usize>().ok()?.checked_sub(1),
    }
}
