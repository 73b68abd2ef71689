//! The browser of the user.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use url::Url;

/// The variable with the command of the browser: commands that are separated by colons, of which the first that
/// starts is used. `%s` stands for the URL, which is the last argument without it.
pub const BROWSER: &str = "BROWSER";

/// A command that opens a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    /// Programs with their arguments, the preferred one first.
    commands: Vec<Vec<String>>,
}

impl Browser {
    /// Returns the browser that a variable names.
    #[must_use]
    pub fn named(variable: &str, environment: &BTreeMap<String, String>) -> Option<Self> {
        let commands = environment.get(variable)?.split(':').map(|command| {
            let words = command.split_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        });
        let commands: Vec<_> = commands.filter(|words| !words.is_empty()).collect();
        (!commands.is_empty()).then_some(Self { commands })
    }

    /// Returns the browser that `BROWSER` names, or the program of the platform that opens URLs.
    #[must_use]
    pub fn of_user(environment: &BTreeMap<String, String>) -> Self {
        Self::named(BROWSER, environment).unwrap_or_else(|| {
            let command: &[&str] = if cfg!(windows) {
                &["rundll32", "url.dll,FileProtocolHandler"]
            } else if cfg!(target_os = "macos") {
                &["open"]
            } else {
                &["xdg-open"]
            };
            Self {
                commands: vec![command.iter().map(|word| (*word).to_owned()).collect()],
            }
        })
    }

    /// Starts the browser with a URL, and does not wait for its end. Returns false if it does not start.
    pub fn open(&self, url: &Url, environment: &BTreeMap<String, String>) -> bool {
        self.commands.iter().any(|words| {
            let Some((program, arguments)) = words.split_first() else {
                return false;
            };
            let has_place = arguments.iter().any(|word| word.contains("%s"));
            let mut arguments: Vec<String> = arguments
                .iter()
                .map(|word| word.replace("%s", url.as_str()))
                .collect();
            if !has_place {
                arguments.push(url.to_string());
            }
            let started = Command::new(program)
                .args(arguments)
                .env_clear()
                .envs(environment)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            match started {
                Ok(mut child) => {
                    // Waited for on a thread: without that, it stays as a zombie until this process ends.
                    std::thread::spawn(move || child.wait());
                    true
                }
                Err(_) => false,
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_separated_by_colons() {
        let environment = BTreeMap::from([("BROWSER".to_owned(), "a -x %s: :b".to_owned())]);
        let browser = Browser::named(BROWSER, &environment).unwrap();
        assert_eq!(
            browser.commands,
            [vec!["a", "-x", "%s"], vec!["b"]]
                .map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>())
        );
        assert_eq!(Browser::named(BROWSER, &BTreeMap::new()), None);
    }
}
