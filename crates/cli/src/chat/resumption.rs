//! The session that a chat resumes.

use std::io::Write as _;

use cachalot_agent::Team;
use cachalot_core::{Millis, Problem};
use cachalot_prompt::{SessionFilter, SessionOverview, Sessions};

use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};
use crate::render::visible::on_one_line;
use crate::render::{self, local_time};

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

    /// Returns the ID of the session, or `None` for a new session. A choice is made on the terminal if
    /// `can_ask` is true.
    ///
    /// # Errors
    /// There is no such session, the store fails, or the user cannot be asked or chooses none.
    pub(crate) async fn session(
        &self,
        sessions: &Sessions,
        team: &Team,
        workspace: &str,
        can_ask: bool,
    ) -> Result<Option<String>> {
        match self {
            Self::New => Ok(None),
            Self::Session(id) => Ok(Some(id.clone())),
            Self::Newest => {
                let newest = list(sessions, team, workspace, 1).await?.pop();
                Ok(Some(newest.ok_or_else(|| none(workspace))?.1.head.id))
            }
            Self::Choice if !can_ask => Err(CommandError::usage(
                Problem::new(
                    "no-session",
                    "`--resume` without an ID asks for the session, which needs a terminal",
                )
                .help("`--continue` resumes the newest one, and `cachalot sessions ls` lists them"),
            )),
            Self::Choice => {
                let listed = list(sessions, team, workspace, MAX_CHOICES).await?;
                if listed.is_empty() {
                    return Err(none(workspace));
                }
                show(&listed);
                // Reading blocks; Ctrl-C drops this future.
                let line = tokio::task::spawn_blocking(read_line).await;
                let line = line.map_err(CommandError::failed)??;
                choose(listed, &line).map(Some)
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
    most: usize,
) -> Result<Vec<(Millis, SessionOverview)>> {
    let filter = SessionFilter {
        workspace: Some(workspace),
        ..SessionFilter::default()
    };
    let listed = sessions.list(&filter).await.map_err(CommandError::failed)?;
    let readable = listed
        .into_iter()
        .filter_map(|summary| Some((summary.saved, summary.state.ok()?)));
    let resumable = readable.filter(|(_, overview)| {
        let head = &overview.head;
        head.parent.is_none() && overview.messages > 0 && team.agent(&head.agent).is_some()
    });
    Ok(resumable.take(most).collect())
}

fn none(workspace: &str) -> CommandError {
    CommandError::failed(format!(
        "there is no session of this agent in {workspace}; `cachalot sessions ls` lists those of all directories"
    ))
}

/// Lists sessions on stderr with their numbers, and asks for one.
fn show(sessions: &[(Millis, SessionOverview)]) {
    for (number, (saved, session)) in sessions.iter().enumerate() {
        let title = session.head.title.as_deref().unwrap_or_default();
        render::err(&format!(
            "{:>3}  {}  {:>4} messages  {}",
            number + 1,
            local_time::to_second(*saved),
            session.messages,
            on_one_line(title),
        ));
    }
    let mut stderr = std::io::stderr().lock();
    // A failure leaves out the question, not the answer.
    let _ = write!(stderr, "number of the session [1]: ").and_then(|()| stderr.flush());
}

/// Reads a line from stdin; empty at the end of the input.
fn read_line() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}

/// Returns the ID of the session with the number in a line; the first one for an empty line.
fn choose(sessions: Vec<(Millis, SessionOverview)>, line: &str) -> Result<String> {
    let number = match line.trim() {
        "" if line.is_empty() => None,
        "" => Some(1),
        text => text.parse::<usize>().ok(),
    };
    let chosen = number.and_then(|number| sessions.into_iter().nth(number.checked_sub(1)?));
    let none = || CommandError::Interrupted("no session was chosen".to_owned());
    chosen.map(|(_, session)| session.head.id).ok_or_else(none)
}
