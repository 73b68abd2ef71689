//! `cachalot chat`.

use std::io::{IsTerminal as _, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use cachalot_agent::event::Nobody;
use cachalot_agent::{Approver, Cancel, Listener, Stop, Sum, TurnReport};
use cachalot_cache::Bounds;
use cachalot_core::Problem;

use crate::arguments::Chat;
use crate::chat::approval::{Everything, User};
use crate::chat::prompt::{Line, Prompt};
use crate::chat::show::{Level, Show};
use crate::chat::sum;
use crate::outcome::{Result, Trouble};
use crate::render;
use crate::render::style::Style;
use crate::team::{self, Loaded};
use crate::wiring::{Opening, Surroundings, Warn, run_id};
use crate::workbench::Workbench;

pub(crate) async fn chat(arguments: &Chat, surroundings: &Surroundings) -> Result<()> {
    let loaded = team::load(&arguments.file, surroundings)?;
    match std::io::stdin().is_terminal() {
        true => converse(arguments, surroundings, loaded).await,
        false => answer(arguments, surroundings, loaded).await,
    }
}

fn level(arguments: &Chat) -> Level {
    match (arguments.quiet, arguments.verbose) {
        (true, _) => Level::Quiet,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    }
}

/// One question from a pipe, and its answer alone on stdout.
async fn answer(arguments: &Chat, surroundings: &Surroundings, loaded: Loaded) -> Result<()> {
    render::stdout::open()?;
    let mut question = String::new();
    std::io::stdin()
        .read_to_string(&mut question)
        .map_err(|error| Trouble::failed(format!("the question on stdin: {error}")))?;
    if question.trim().is_empty() {
        return Err(Trouble::usage(
            Problem::new("no-question", "there is no question on stdin")
                .help("write one: `echo 'How deep can it dive?' | cachalot chat FILE`"),
        ));
    }
    let show = Arc::new(Show::new(level(arguments), false));
    let approver: Arc<dyn Approver> = match arguments.yes {
        true => Arc::new(Everything),
        false => Arc::new(Nobody),
    };
    let (bench, mut chat) = open(arguments, surroundings, loaded, &show, approver).await?;
    let cancel = Cancel::default();
    let turn = interruptible(chat.turn(question.trim_end(), &cancel), &cancel).await;
    let session = chat.session().to_owned();
    let total = chat.close().await;
    bench.close().await;
    let report = turn.map_err(Trouble::failed)?;
    if report.stop == Stop::Interrupted {
        return Err(Trouble::Interrupted);
    }
    if !report.text.is_empty() {
        render::out(&format!("{}\n", report.text.trim_end()))?;
    }
    if !arguments.quiet {
        summed(&total);
        render::err(&format!("session {session}"));
    }
    match report.stop.notice() {
        Some(notice) => Err(Trouble::failed(notice)),
        None => Ok(()),
    }
}

/// Turn after turn, until the user leaves.
async fn converse(arguments: &Chat, surroundings: &Surroundings, loaded: Loaded) -> Result<()> {
    let show = Arc::new(Show::new(level(arguments), true));
    let home = loaded.home(arguments.place.db.as_deref(), surroundings)?;
    let history = home.memory.with_file_name("chat-history");
    let prompt = Arc::new(Prompt::new(history)?);
    let under_way = Arc::new(Mutex::new(Cancel::default()));
    let approver: Arc<dyn Approver> = match arguments.yes {
        true => Arc::new(Everything),
        false => Arc::new(User {
            prompt: Arc::clone(&prompt),
            show: Arc::clone(&show),
            cancel: Arc::clone(&under_way),
        }),
    };
    let (bench, mut chat) = open(arguments, surroundings, loaded, &show, approver).await?;
    greet(&chat);
    loop {
        match Arc::clone(&prompt).message().await {
            Line::End => break,
            Line::Interrupted => render::err("Ctrl-D or /quit ends the chat"),
            Line::Text(text) => match text.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                command if command.starts_with('/') => {
                    obey(command, &mut chat, &bench).await?;
                }
                _ => {
                    let cancel = Cancel::default();
                    under_way
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone_from(&cancel);
                    turn(&mut chat, &text, &cancel, (&show, level(arguments))).await;
                }
            },
        }
    }
    let session = chat.session().to_owned();
    let total = chat.close().await;
    bench.close().await;
    summed(&total);
    let file = arguments.file.display();
    render::err(&format!(
        "to go on: cachalot chat {file} --session {session}"
    ));
    Ok(())
}

/// One turn on a terminal. What goes wrong is told; the chat goes on.
async fn turn(
    chat: &mut cachalot_agent::Chat,
    text: &str,
    cancel: &Cancel,
    (show, level): (&Show, Level),
) {
    let ended = interruptible(chat.turn(text, cancel), cancel).await;
    show.end_line();
    let style = Style::of_stderr();
    match ended {
        Ok(report) => {
            if let Some(notice) = report.stop.notice() {
                render::err(&style.notable(&notice));
            }
            if level != Level::Quiet {
                render::err(&style.faint(&sum::line(&report.sum)));
            }
        }
        Err(error) => render::err(&format!("{} {error}", style.bad("error:"))),
    }
}

/// Ctrl-C cancels the turn, which then ends in order.
async fn interruptible(
    turn: impl Future<Output = std::result::Result<TurnReport, cachalot_agent::Error>>,
    cancel: &Cancel,
) -> std::result::Result<TurnReport, cachalot_agent::Error> {
    tokio::pin!(turn);
    tokio::select! {
        ended = &mut turn => return ended,
        pressed = tokio::signal::ctrl_c() => {
            if pressed.is_ok() {
                cancel.cancel();
            }
        }
    }
    turn.await
}

async fn open(
    arguments: &Chat,
    surroundings: &Surroundings,
    loaded: Loaded,
    show: &Arc<Show>,
    approver: Arc<dyn Approver>,
) -> Result<(Workbench, cachalot_agent::Chat)> {
    let workspace = match &arguments.workspace {
        Some(path) => surroundings.directory.join(path),
        None => surroundings.directory.clone(),
    };
    let home = loaded.home(arguments.place.db.as_deref(), surroundings)?;
    let warn: Warn = {
        let show = Arc::clone(show);
        Arc::new(move |message| show.warn(message))
    };
    let tell: Warn = {
        let show = Arc::clone(show);
        Arc::new(move |message| show.note(message))
    };
    let engine = Opening {
        surroundings,
        home: &home,
        run: &run_id(),
        bounds: Bounds::default(),
        secrets: false,
        warn: Arc::clone(&warn),
    }
    .for_run()?;
    let bench = Workbench::over(engine, surroundings, &home, &workspace, (warn, tell))?;
    let team = Arc::new(loaded.team);
    let house = bench.furnish(&team, Arc::clone(show) as Arc<dyn Listener>, approver)?;
    let chat = match &arguments.session {
        Some(session) => cachalot_agent::Chat::resume(house, team, session).await,
        None => cachalot_agent::Chat::begin(house, team, arguments.agent.as_deref()).await,
    };
    Ok((bench, chat.map_err(Trouble::failed)?))
}

fn greet(chat: &cachalot_agent::Chat) {
    let agent = chat.agent();
    let description = match agent.description.trim() {
        "" => String::new(),
        description => format!(": {description}"),
    };
    render::err(&format!("{} ({}){description}", agent.name, agent.model));
    render::err(&format!("session {} · /help", chat.session()));
}

fn summed(total: &Sum) {
    if total.model_calls > 0 {
        let line = format!("in all {}", sum::line(total));
        render::err(&Style::of_stderr().strong(&line));
    }
}

const HELP: &str = "\
/new      end the session and begin a new one
/session  tell the session's name
/stats    tell what the session's tool calls were answered from
/tools    list the tools
/quit     end the chat (as Ctrl-D does); the session is kept
A line that ends with \\ goes on in the next; \"\"\" begins and ends a text of several lines.
Ctrl-C interrupts the turn.";

/// Carries out what begins with a slash.
async fn obey(command: &str, chat: &mut cachalot_agent::Chat, bench: &Workbench) -> Result<()> {
    match command {
        "/help" => render::err(HELP),
        "/new" => {
            chat.renew().await.map_err(Trouble::failed)?;
            render::err(&format!("session {}", chat.session()));
        }
        "/session" => render::err(chat.session()),
        "/stats" => render::err(&bench.stats(chat.session())),
        "/tools" => {
            for tool in chat.toolbox().definitions() {
                let first = tool.description.lines().next().unwrap_or_default();
                render::err(&format!("{:<24} {first}", tool.name));
            }
        }
        other => {
            let known = ["/help", "/new", "/session", "/stats", "/tools", "/quit"];
            let remedy = cachalot_core::suggest::did_you_mean(other, &known);
            render::err(&format!("there is no command {other}; {remedy}"));
        }
    }
    Ok(())
}
