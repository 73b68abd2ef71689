//! The session that a chat resumes.

use cachalot_agent::Team;
use cachalot_core::{Millis, Problem};
use cachalot_prompt::{SessionFilter, SessionOverview, Sessions};

use super::prompt::{AskedBy, Prompt};
use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};
use crate::render::local_time;
use crate::render::visible::on_one_line;

/// Maximum number of sessions to choose from.
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
                let listed = list(sessions, team, workspace, MAX_CHOICES).await?;
                if listed.is_empty() {
                    return Err(none(workspace));
                }
                show(&listed, prompt);
                let line = prompt
                    .ask("number of the session [1]: ", AskedBy::User)
                    .await;
                choose(listed, line.as_deref()).map(Some)
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

/// Lists sessions with their numbers.
fn show(sessions: &[(Millis, SessionOverview)], prompt: &Prompt) {
    for (number, (saved, session)) in sessions.iter().enumerate() {
        let title = session.head.title.as_deref().unwrap_or_default();
        prompt.tell(&format!(
            "{:>3}  {}  {:>4} messages  {}",
            number + 1,
            local_time::to_second(*saved),
            session.messages,
            on_one_line(title),
        ));
    }
}

/// Returns the ID of the session with the number in a line; the first one for an empty line.
fn choose(sessions: Vec<(Millis, SessionOverview)>, line: Option<&str>) -> Result<String> {
    let number = match line.map(str::trim) {
        None => None,
        Some("") => Some(1),
        Some(text) => text.parse::<usize>().ok(),
    };
    let chosen = number.and_then(|number| sessions.into_iter().nth(number.checked_sub(1)?));
    let none = || CommandError::Interrupted("no session was chosen".to_owned());
    chosen.map(|(_, session)| session.head.id).ok_or_else(none)
}
