//! The environment and the words of the command, so that its requests go through the gateway.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use cachalot_core::{Problem, suggest};
use cachalot_gateway::{
    ClientSettings, ClientSetup, ClientTable, GatewayUrls, RecognizedClient, ReplacedBaseUrl,
    Upstream,
};
use cachalot_operation::wrapper_words;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::client_files::ClientFiles;
use super::private_files;
use crate::command_error::{CommandError, Result};
use crate::render::visible::on_one_line;

/// Variables with a proxy for requests to `http://` addresses.
const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
/// Variables with hosts that are reached without a proxy. Programs read either of them.
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];
/// Host of the gateway.
const HOST: &str = "127.0.0.1";

/// The words, variables and files of the command.
#[derive(Debug)]
pub(super) struct Setup {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// Variables that are set for it.
    pub(super) variables: BTreeMap<String, String>,
    /// Files that exist as long as it runs.
    _files: Option<TempDir>,
}

/// Returns the client that a command runs: the one that the user names, or the one that its words name.
///
/// # Errors
/// The user names an unknown client.
pub(super) fn client(
    agent: Option<&str>,
    words: &[OsString],
) -> Result<Option<RecognizedClient<'static>>> {
    let table = ClientTable::built_in();
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_str().unwrap_or("").to_owned())
        .collect();
    let wrapped = wrapper_words(&words);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(agent) = agent else {
        return Ok(table.recognize(&words, wrapped));
    };
    if let Some(named) = table.named(agent, &words, wrapped) {
        return Ok(Some(named));
    }
    let names: Vec<&str> = table.names().collect();
    let problem = Problem::new(
        "bad-value",
        format!("--agent: there is no client `{agent}`"),
    );
    let nearest = suggest::nearest(agent, names.iter().copied());
    let nearest = nearest.map(|name| format!("did you mean `{name}`? "));
    Err(CommandError::usage(problem.help(format!(
        "{}known clients: {}; without --agent, any other command gets the variables that many clients read",
        nearest.unwrap_or_default(),
        names.join(", ")
    ))))
}

/// The servers that a command would ask without the gateway.
#[derive(Debug, Default)]
pub(super) struct Servers<'a> {
    /// Upstreams in place of the built-in ones.
    pub(super) upstreams: Vec<Upstream>,
    /// Settings of the client that have to be overridden.
    overridden: Vec<&'a ClientSettings>,
}

impl<'a> Servers<'a> {
    /// Finds the servers in the settings of the client, which come first, and in the environment.
    ///
    /// # Errors
    /// A base URL cannot be used.
    pub(super) fn find(
        client: Option<RecognizedClient<'a>>,
        environment: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self> {
        let mut servers = Self::default();
        if let Some(client) = client {
            let files = ClientFiles {
                environment,
                directory,
                folder: client.folder,
            };
            for settings in &client.setup.settings {
                if let Some(url) = files.base_url(settings) {
                    let origin = format!("the settings of {}", client.name);
                    servers.add(&settings.upstream, &url, &origin)?;
                    servers.overridden.push(settings);
                }
            }
            for (replaced, url) in replaced(client.setup, environment) {
                servers.add_variable(&replaced.upstream, &replaced.variable, url)?;
            }
        }
        for (variable, base_url) in &ClientTable::built_in().base_urls {
            if let Some(url) = environment.get(variable) {
                servers.add_variable(&base_url.upstream, variable, url)?;
            }
        }
        Ok(servers)
    }

    fn add_variable(&mut self, upstream: &str, variable: &str, url: &str) -> Result<()> {
        let origin = format!("the environment variable {variable}");
        self.add(upstream, url, &origin)
    }

    /// Adds a server, unless an earlier one has the name.
    fn add(&mut self, upstream: &str, url: &str, origin: &str) -> Result<()> {
        let url = url.trim();
        let mut known = self.upstreams.iter();
        if url.is_empty() || known.any(|known| known.name() == upstream) {
            return Ok(());
        }
        // The value may contain a password.
        let upstream = Upstream::new(upstream, url).map_err(|error| {
            let message = format!("{origin}: {}", error.reason);
            CommandError::usage(Problem::new("bad-value", message))
        })?;
        self.upstreams.push(upstream);
        Ok(())
    }
}

/// Returns the variables with a base URL that are set and have to be replaced, with their values.
fn replaced<'a, 'e>(
    setup: &'a ClientSetup,
    environment: &'e BTreeMap<String, String>,
) -> Vec<(&'a ReplacedBaseUrl, &'e str)> {
    let mut found: Vec<(&ReplacedBaseUrl, &str)> = Vec::new();
    for row in &setup.base_urls {
        let mut conditions = row.when.iter();
        let applies = conditions.all(|(name, value)| environment.get(name) == Some(value));
        let value = environment.get(&row.variable);
        let value = value.filter(|value| applies && !value.trim().is_empty());
        let mut known = found.iter();
        if let Some(value) = value
            && !known.any(|(known, _)| known.variable == row.variable)
        {
            found.push((row, value));
        }
    }
    found
}

/// Returns the options that the client needs.
fn options<'a>(client: Option<RecognizedClient<'a>>, servers: &Servers<'a>) -> Vec<&'a str> {
    let own = client
        .into_iter()
        .flat_map(|client| &client.setup.arguments);
    let overriding = servers.overridden.iter();
    let overriding = overriding.flat_map(|settings| &settings.arguments);
    own.chain(overriding).map(String::as_str).collect()
}

/// Checks that the options which the client needs can be inserted behind its program.
///
/// # Errors
/// No word of the command names its program: the options would be those of another one.
pub(super) fn check_options(
    client: Option<RecognizedClient<'_>>,
    servers: &Servers<'_>,
    words: &[OsString],
) -> Result<()> {
    let options = options(client, servers);
    let Some(client) = client.filter(|client| client.words.is_none() && !options.is_empty()) else {
        return Ok(());
    };
    let program = client.commands.first().map_or(client.name, String::as_str);
    let wrapper = words
        .first()
        .map_or("".into(), |word| word.to_string_lossy());
    let problem = Problem::new(
        "bad-value",
        format!(
            "--agent {}: its options have to be inserted behind `{program}`, which is no word of the command",
            client.name
        ),
    );
    // A file of this run cannot be named in a wrapper.
    let in_wrapper = if options
        .iter()
        .any(|option| GatewayUrls::names_files(option))
    {
        String::new()
    } else {
        let variables = ClientTable::built_in().base_urls.iter();
        let options = variables.fold(options.join(" "), |options, (name, base_url)| {
            options.replace(&base_url.value, &format!("${name}"))
        });
        format!(
            "; or run `{}` without --agent, and let it pass the options to `{program}` itself: {options}",
            on_one_line(&wrapper)
        )
    };
    Err(CommandError::usage(problem.help(format!(
        "write the program as a word of its own, such as `sh -c 'exec \"$@\"' sh {program} …`{in_wrapper}"
    ))))
}

/// Checks names of further servers: one that is nearly that of a known server is a typing error.
///
/// # Errors
/// A name is misspelled.
pub(super) fn check_names(given: &[Upstream]) -> Result<()> {
    let known = Upstream::built_in();
    for upstream in given {
        let name = upstream.name();
        let names = known.iter().map(Upstream::name);
        // Further servers, such as `openai-eu`, may have any other name.
        if let Some(nearest) = suggest::nearest(name, names)
            && !name.contains(nearest)
        {
            let problem =
                Problem::new("bad-value", format!("--upstream {name}: no client asks it"));
            return Err(CommandError::usage(
                problem.help(format!("did you mean `{nearest}`?")),
            ));
        }
    }
    Ok(())
}

/// The circumstances in which a command runs.
#[derive(Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) client: Option<RecognizedClient<'a>>,
    /// The base URL of the gateway.
    pub(super) root: &'a str,
    /// Set if the command needs no keys.
    pub(super) is_replay: bool,
    pub(super) environment: &'a BTreeMap<String, String>,
    /// The current directory.
    pub(super) directory: &'a Path,
    /// The directory for files of the command.
    pub(super) data: &'a Path,
}

impl Circumstances<'_> {
    /// Prepares a command.
    ///
    /// # Errors
    /// A file for the command cannot be written.
    pub(super) fn prepare(self, words: &[OsString], servers: &Servers<'_>) -> io::Result<Setup> {
        let table = ClientTable::built_in();
        let setup = self.client.map(|client| client.setup);
        let mut values: Vec<(&str, &str)> = Vec::new();
        let general = table.base_urls.iter();
        values.extend(general.map(|(name, base_url)| (name.as_str(), base_url.value.as_str())));
        let options = options(self.client, servers);
        if let Some(setup) = setup {
            let own = setup.environment.iter();
            values.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
            let replaced = replaced(setup, self.environment).into_iter();
            values.extend(replaced.map(|(row, _)| (row.variable.as_str(), row.value.as_str())));
        }

        let mut templates = values.iter().map(|(_, value)| *value);
        let has_files = templates.any(GatewayUrls::names_files)
            || options
                .iter()
                .any(|option| GatewayUrls::names_files(option));
        let files = has_files
            .then(|| private_files::directory(self.data))
            .transpose()?;
        let path = files.as_ref().map(TempDir::path).and_then(Path::to_str);
        let urls = GatewayUrls {
            root: self.root,
            files: path.unwrap_or_default(),
        };
        if let (Some(client), true) = (self.client, has_files) {
            for (name, content) in &client.setup.files {
                private_files::write(name, content, urls)?;
            }
            for copied in &client.setup.copies {
                private_files::copy(copied, self.files_of(client), urls)?;
            }
        }

        let mut variables = BTreeMap::new();
        for (name, value) in values {
            let filled = urls.fill_in(value);
            // A file of the client that was not there to be copied.
            if GatewayUrls::names_files(value) && !Path::new(&filled).exists() {
                continue;
            }
            let before = self.environment.get(name).map(String::as_str);
            variables.insert(name.to_owned(), merged(before, filled));
        }
        if self.is_replay {
            variables.extend(self.placeholders());
        }
        variables.extend(no_proxy(self.environment));
        let mut words = words.to_vec();
        if let Some(at) = self.client.and_then(|client| client.words) {
            let options = options.into_iter();
            let options = options.map(|option| OsString::from(urls.fill_in(option)));
            words.splice(at..at, options);
        }
        Ok(Setup {
            words,
            variables,
            _files: files,
        })
    }

    fn files_of<'c>(&'c self, client: RecognizedClient<'c>) -> ClientFiles<'c> {
        ClientFiles {
            environment: self.environment,
            directory: self.directory,
            folder: client.folder,
        }
    }

    /// Returns values for the keys that the command needs and does not have.
    fn placeholders(&self) -> BTreeMap<String, String> {
        let table = ClientTable::built_in();
        let is_set = |name: &String| {
            let value = self.environment.get(name);
            value.is_some_and(|value| !value.is_empty())
        };
        let needed: Vec<(&String, Option<&String>)> = match self.client {
            Some(client) if self.files_of(client).has_any(&client.setup.logins) => Vec::new(),
            Some(client) => {
                let keys = client.setup.keys.iter();
                let missing = keys.filter(|key| !key.unless.iter().any(is_set));
                let missing = missing.map(|key| (&key.name, key.value.as_ref()));
                missing.collect()
            }
            None => table.keys.keys().map(|name| (name, None)).collect(),
        };
        let needed = needed.into_iter().filter(|(name, _)| !is_set(name));
        let values = needed.filter_map(|(name, value)| {
            let value = value.or_else(|| table.keys.get(name))?;
            Some((name.clone(), value.clone()))
        });
        values.collect()
    }
}

/// Returns the value of a variable: a JSON object is merged over the one that the variable has.
fn merged(before: Option<&str>, value: String) -> String {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    match (before.and_then(object), object(&value)) {
        (Some(mut before), Some(own)) => {
            merge(&mut before, own);
            Value::Object(before).to_string()
        }
        _ => value,
    }
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Returns the variables with which the gateway is reached without a proxy, if there is one.
fn no_proxy(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_set = |name: &&str| {
        environment
            .get(*name)
            .is_some_and(|proxy| !proxy.is_empty())
    };
    if !PROXIES.iter().any(is_set) {
        return BTreeMap::new();
    }
    let hosts = NO_PROXY.iter().find_map(|name| environment.get(*name));
    let variables = NO_PROXY.iter().map(|name| {
        let hosts = environment.get(*name).or(hosts);
        let hosts = hosts.map_or("", String::as_str);
        ((*name).to_owned(), with_host(hosts))
    });
    variables.collect()
}

/// Adds the host of the gateway to a list of hosts.
fn with_host(hosts: &str) -> String {
    let mut listed = hosts.split(',').map(str::trim);
    if hosts.trim() == "*" || listed.any(|host| host == HOST) {
        hosts.to_owned()
    } else if hosts.trim().is_empty() {
        HOST.to_owned()
    } else {
        format!("{hosts},{HOST}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
