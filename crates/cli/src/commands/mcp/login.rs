//! `cachalot mcp login`, `logout` and `ls`: logins at servers.

use std::io::BufRead as _;

use cachalot_core::clock::iso8601;
use cachalot_core::secret::mask_credentials;
use cachalot_core::{Millis, Problem, Secret};
use cachalot_mcp::oauth::{
    self, Browser, ClientChoice, ClientKind, Login, LoginFile, LoginRequest, OauthError,
    OauthErrorKind, Presentation,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::arguments::{McpLogin, McpLogout};
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::render;
use crate::render::local_time;
use crate::render::table::{self, Column};
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// Logs in at a server, and stores the tokens.
///
/// # Errors
/// An argument is invalid, or the login fails.
pub(super) async fn login(
    arguments: &McpLogin,
    environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let file = file(environment)?;
    let variables = &environment.environment;
    let mut request = LoginRequest::new(arguments.url.as_str());
    request.client = ClientChoice {
        id: arguments.client_id.clone(),
        secret: secret(arguments, environment)?,
    };
    request.scopes = arguments.scope.as_ref().map(|scopes| {
        let scopes = scopes.split_whitespace();
        scopes.map(str::to_owned).collect()
    });
    request.port = arguments.port;
    request.allowed_hosts.clone_from(&arguments.allow);
    let browser = (!arguments.no_browser).then(|| Browser::of_user(variables));
    let presentation = Presentation {
        show: &|url| {
            let is_opened = browser.as_ref().is_some_and(|it| it.open(url, variables));
            let how = if is_opened {
                "The browser opens this page to log in:"
            } else {
                "Open this page to log in:"
            };
            render::err(how);
            render::err(url.as_str());
            render::err(
                "If the browser is on another machine, paste the address that it is sent to in the end.",
            );
        },
        warn: &|message| warn(message),
        pasted: Some(lines_of_stdin()),
    };
    let mut interrupts = Interrupts::listen()?;
    let done = tokio::select! {
        done = oauth::login(request, variables, &file, presentation) => done.map_err(failed)?,
        _ = interrupts.next() => {
            return Err(CommandError::Interrupted("nothing was stored".to_owned()));
        }
    };
    let scopes = match done.scopes.as_slice() {
        [] => String::new(),
        scopes => format!(" with the scopes {}", on_one_line(&scopes.join(" "))),
    };
    let until = match done.expires() {
        None => String::new(),
        Some(_) if done.refresh_token.is_some() => "; the token is renewed by itself".to_owned(),
        Some(expires) => format!(
            "; the token expires at {}",
            local_time::to_second(millis(expires))
        ),
    };
    render::out(&format!(
        "logged in at {} by {}{scopes}{until}\n",
        shown(&done.server),
        shown(&done.issuer)
    ))
}

/// Removes the login at a server.
///
/// # Errors
/// There is none, or the file of logins cannot be changed.
pub(super) async fn logout(arguments: &McpLogout, environment: &ProcessEnvironment) -> Result<()> {
    let file = file(environment)?;
    let server = oauth::server_url(&arguments.url).map_err(failed)?;
    let lock = file.lock().await.map_err(failed)?;
    match file.remove(&server, &lock).map_err(failed)? {
        Some(removed) => render::out(&format!(
            "logged out of {}; {} may keep the permission until you revoke it there\n",
            shown(&removed.server),
            shown(&removed.issuer)
        )),
        None => Err(CommandError::failed(format!(
            "there is no login at {server}; `cachalot mcp ls` lists those there are"
        ))),
    }
}

/// Lists the logins.
///
/// # Errors
/// The file of logins cannot be read.
pub(super) fn list(is_json: bool, environment: &ProcessEnvironment) -> Result<()> {
    let logins = file(environment)?.logins().map_err(failed)?;
    if is_json {
        let logins: Vec<Value> = logins.iter().map(to_json).collect();
        return render::json(&logins);
    }
    if logins.is_empty() {
        return render::out("no logins; `cachalot mcp login URL` makes one\n");
    }
    let now = environment.clock.now();
    let columns = [
        Column::whole("server"),
        Column::text("by"),
        Column::text("scopes"),
        Column::text("token"),
    ];
    let row = |login: &Login| {
        let state = match login.expires() {
            _ if login.refresh_token.is_some() => "renewed by itself".to_owned(),
            None => "no expiry stated".to_owned(),
            Some(expires) if millis(expires) <= now => "expired: log in again".to_owned(),
            Some(expires) => format!("until {}", local_time::to_second(millis(expires))),
        };
        vec![
            shown(&login.server),
            shown(&login.issuer),
            on_one_line(&login.scopes.join(" ")),
            state,
        ]
    };
    let rows: Vec<Vec<String>> = logins.iter().map(row).collect();
    let sentence = render::count(rows.len() as u64, "login", "logins");
    render::out(&table::list(&sentence, &columns, &rows))
}

fn to_json(login: &Login) -> Value {
    let kind = match login.client.kind {
        ClientKind::Registered => "registered",
        ClientKind::MetadataDocument => "metadata_document",
        ClientKind::Dynamic => "dynamic",
    };
    json!({
        "server": mask_credentials(&login.server),
        "issuer": login.issuer,
        "client_id": login.client.id,
        "client_kind": kind,
        "scopes": login.scopes,
        "expires": login.expires().map(|expires| iso8601(millis(expires))),
        "is_renewable": login.refresh_token.is_some(),
    })
}

/// Returns a URL on one line, without credentials in it.
fn shown(url: &str) -> String {
    on_one_line(&mask_credentials(url))
}

fn millis(seconds: u64) -> Millis {
    Millis::try_from(seconds.saturating_mul(1_000)).unwrap_or(Millis::MAX)
}

fn file(environment: &ProcessEnvironment) -> Result<LoginFile> {
    LoginFile::of_user(&environment.environment).ok_or_else(|| {
        CommandError::usage(
            Problem::new("no-home", "no place for logins: HOME is not set")
                .help("set HOME or XDG_DATA_HOME"),
        )
    })
}

fn secret(
    arguments: &McpLogin,
    environment: &ProcessEnvironment,
) -> Result<Option<Secret<String>>> {
    let Some(variable) = &arguments.client_secret_env else {
        return Ok(None);
    };
    let value = environment.environment.get(variable);
    match value.filter(|value| !value.is_empty()) {
        Some(value) => Ok(Some(Secret::new(value.clone()))),
        None => Err(CommandError::usage(
            Problem::new(
                "unset-variable",
                format!("--client-secret-env: the variable {variable} is not set"),
            )
            .help("set it to the secret of the client"),
        )),
    }
}

fn failed(error: OauthError) -> CommandError {
    match error.kind {
        OauthErrorKind::Invalid => CommandError::usage(Problem::new("bad-value", error.message)),
        _ => CommandError::failed(error.message),
    }
}

/// Returns the lines of stdin. A thread of its own reads them, which ends with the process.
fn lines_of_stdin() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin()
            .lock()
            .lines()
            .map_while(std::result::Result::ok)
        {
            if !line.trim().is_empty() && sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}
