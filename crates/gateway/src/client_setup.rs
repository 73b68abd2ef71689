//! Programs that are clients of model APIs, and what each needs so that its requests go through a gateway.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cachalot_model::wire::table;
use serde::Deserialize;

const BUILT_IN: &str = include_str!("../data/client_setups.yaml");

/// The clients that are known by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTable {
    /// Variables with base URLs that many programs read, in the order of precedence.
    #[serde(deserialize_with = "table::entries")]
    pub base_urls: Vec<(String, BaseUrl)>,
    /// Variables with keys, and the values that stand for a key in a replay.
    pub keys: BTreeMap<String, String>,
    /// Clients by name.
    clients: BTreeMap<String, Client>,
}

/// A variable with a base URL.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseUrl {
    /// Name of the upstream that the URL leads to.
    pub upstream: String,
    /// Value for a command; see [`GatewayUrls::fill_in`].
    pub value: String,
}

/// A program that is a client of model APIs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Client {
    /// File names of the program.
    commands: Vec<String>,
    /// Names of its package in a registry.
    packages: Vec<String>,
    /// The directory of its settings.
    folder: Folder,
    /// Variables, options and files that it needs.
    setup: ClientSetup,
}

/// The directory of a client's settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Folder {
    /// The variable that names it.
    pub variable: Option<String>,
    /// Its place below the home directory, without the variable.
    pub default: String,
}

/// Variables, options and files with which a client's requests go through a gateway, beside the variables that all get.
///
/// Values are templates for [`GatewayUrls::fill_in`]. Files begin with `./` (the current directory) or `{folder}/`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientSetup {
    /// Further variables. A JSON object is merged over the one that the variable has.
    pub environment: BTreeMap<String, String>,
    /// Options that are inserted behind the program.
    pub arguments: Vec<String>,
    /// Files in the private directory, by name, with their contents.
    pub files: BTreeMap<String, String>,
    /// Files of the client that are copied into the private directory.
    pub copies: Vec<CopiedFile>,
    /// Variables with a base URL that are replaced if they are set. The first row for a variable that applies counts.
    pub base_urls: Vec<ReplacedBaseUrl>,
    /// Settings that win over the environment.
    pub settings: Vec<ClientSettings>,
    /// Keys without which it does not start.
    pub keys: Vec<ClientKey>,
    /// Files with a login of its own, which makes keys unnecessary.
    pub logins: Vec<String>,
}

/// A file in JSON that is copied and changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedFile {
    /// The file of the client.
    pub file: String,
    /// Name in the private directory.
    pub to: String,
    /// Members that are set, by JSON Pointer, in objects that exist.
    pub set: BTreeMap<String, String>,
}

/// A variable with a base URL that is replaced if it is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacedBaseUrl {
    /// The variable.
    pub variable: String,
    /// Values of other variables with which the row applies.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// Name of the upstream that the URL leads to.
    pub upstream: String,
    /// The value in its place.
    pub value: String,
}

/// Settings in files in JSON that lead a client to a server of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// The files, in the order of precedence.
    pub files: Vec<String>,
    /// JSON Pointer to the base URL.
    pub base_url: Option<String>,
    /// JSON Pointer to a text whose presence selects `url`.
    pub present: Option<String>,
    /// JSON Pointer to a text whose presence prevents that.
    pub absent: Option<String>,
    /// The base URL that is selected.
    pub url: Option<String>,
    /// Name of the upstream that the URL leads to.
    pub upstream: String,
    /// Options that win over the settings.
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// A variable with a key without which a client does not start.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKey {
    /// The variable.
    pub name: String,
    /// The value that stands for a key in a replay, if it is not that of [`ClientTable::keys`].
    pub value: Option<String>,
    /// Other variables of which one is sufficient.
    #[serde(default)]
    pub unless: Vec<String>,
}

/// The base URLs of a gateway, and the private directory of a command.
#[derive(Debug, Clone, Copy)]
pub struct GatewayUrls<'a> {
    /// The base URL without a version.
    pub root: &'a str,
    /// The private directory.
    pub files: &'a str,
}

/// The client that a command runs.
#[derive(Debug, Clone, Copy)]
pub struct RecognizedClient<'a> {
    /// Name of the client.
    pub name: &'a str,
    /// The directory of its settings.
    pub folder: &'a Folder,
    /// Variables, options and files that it needs.
    pub setup: &'a ClientSetup,
    /// Number of the command's words that name the program, behind which its options are inserted.
    pub words: usize,
}

/// Programs that run the program of a package: the words of the command before the package.
const LAUNCHERS: [&[&str]; 9] = [
    &["npx"],
    &["pnpx"],
    &["bunx"],
    &["bun", "x"],
    &["pnpm", "dlx"],
    &["yarn", "dlx"],
    &["uvx"],
    &["uv", "tool", "run"],
    &["pipx", "run"],
];

/// Options of launchers that have a value in the next word.
const OPTIONS_WITH_VALUE: [&str; 6] = ["-p", "--package", "--from", "--with", "--python", "--spec"];

impl ClientTable {
    /// Returns the built-in table, which is parsed once.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static KNOWN: LazyLock<ClientTable> =
            LazyLock::new(|| table::built_in("client_setups.yaml", BUILT_IN));
        &KNOWN
    }

    /// Returns the names of the clients.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.clients.keys().map(String::as_str)
    }

    /// Returns the client that the user names. Its options are inserted behind the program, or behind the package of a
    /// launcher.
    #[must_use]
    pub fn named(&self, name: &str, command: &[&str]) -> Option<RecognizedClient<'_>> {
        let (name, client) = self.clients.get_key_value(name)?;
        let words = package_of_launcher(command).map_or(1, |at| at + 1);
        Some(RecognizedClient {
            name,
            folder: &client.folder,
            setup: &client.setup,
            words,
        })
    }

    /// Recognizes the client that a command runs, by the file name of its program or by the package that a launcher
    /// runs.
    #[must_use]
    pub fn recognize(&self, command: &[&str]) -> Option<RecognizedClient<'_>> {
        let program = file_name(command.first()?);
        let by_command = |client: &Client| is_one_of(program, &client.commands);
        if let Some(found) = self.find(1, by_command) {
            return Some(found);
        }
        let at = package_of_launcher(command)?;
        let package = without_version(command[at]);
        self.find(at + 1, |client| {
            is_one_of(package, &client.packages) || is_one_of(package, &client.commands)
        })
    }

    fn find(
        &self,
        words: usize,
        is_meant: impl Fn(&Client) -> bool,
    ) -> Option<RecognizedClient<'_>> {
        let mut clients = self.clients.iter();
        let (name, client) = clients.find(|(_, client)| is_meant(client))?;
        Some(RecognizedClient {
            name,
            folder: &client.folder,
            setup: &client.setup,
            words,
        })
    }
}

/// The place of the private directory in a value.
const FILES: &str = "{files}";

impl GatewayUrls<'_> {
    /// Returns a value of the table with the base URLs and the private directory in it.
    #[must_use]
    pub fn fill_in(self, value: &str) -> String {
        let value = value
            .replace(FILES, self.files)
            .replace("{root}", self.root);
        ["v1", "v1beta"].iter().fold(value, |value, version| {
            let url = format!("{}/{version}", self.root);
            value.replace(&format!("{{{version}}}"), &url)
        })
    }

    /// Returns true if a value contains the private directory.
    #[must_use]
    pub fn names_files(value: &str) -> bool {
        value.contains(FILES)
    }
}

fn is_one_of(name: &str, names: &[String]) -> bool {
    names.iter().any(|known| known == name)
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the place of the package in the command of a launcher.
fn package_of_launcher(command: &[&str]) -> Option<usize> {
    let program = file_name(command.first()?);
    let mut launchers = LAUNCHERS.iter();
    let launcher = launchers
        .find(|words| words[0] == program && command.get(1..words.len()) == Some(&words[1..]))?;
    let mut at = launcher.len();
    loop {
        let word = command.get(at)?;
        if OPTIONS_WITH_VALUE.contains(word) {
            at += 2;
        } else if word.starts_with('-') {
            at += 1;
        } else {
            return Some(at);
        }
    }
}

/// Returns the name of a package without its version: `@scope/name@1.0`, `name==1.0`.
fn without_version(package: &str) -> &str {
    let package = package.split("==").next().unwrap_or(package);
    match package.rfind('@') {
        Some(at) if at > 0 => &package[..at],
        _ => package,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn built_in_table_is_valid() {
        let table: ClientTable = table::read("client_setups.yaml", BUILT_IN).unwrap();
        let upstreams = crate::upstream::BUILT_IN.map(|(name, _)| name);
        let is_known = |upstream: &String| upstreams.contains(&upstream.as_str());
        for (variable, base_url) in &table.base_urls {
            assert!(is_known(&base_url.upstream), "{variable}");
        }
        for (name, client) in &table.clients {
            let setup = &client.setup;
            assert!(!client.commands.is_empty(), "{name}");
            for key in &setup.keys {
                let has_value = key.value.is_some() || table.keys.contains_key(&key.name);
                assert!(has_value, "{name}: {}", key.name);
            }
            let replaced = setup.base_urls.iter().map(|url| &url.upstream);
            let settings = setup.settings.iter().map(|settings| &settings.upstream);
            assert!(replaced.chain(settings).all(is_known), "{name}");
            let copied = setup.copies.iter().map(|copy| &copy.file);
            let settings = setup.settings.iter().flat_map(|settings| &settings.files);
            for file in setup.logins.iter().chain(copied).chain(settings) {
                let is_below = ["./", "{folder}/"].iter().any(|at| file.starts_with(at));
                assert!(is_below, "{name}: {file}");
                assert!(
                    file.starts_with("./") || !client.folder.default.is_empty(),
                    "{name}"
                );
            }
            // JSON in the environment and in files.
            let values = setup.environment.values().chain(setup.files.values());
            for value in values.filter(|value| value.starts_with("{\"")) {
                assert!(
                    serde_json::from_str::<serde_json::Value>(value).is_ok(),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn commands_and_packages_are_recognized() {
        let table = ClientTable::built_in();
        for (command, expected) in [
            ("claude -p hi", Some(("claude-code", 1))),
            ("/usr/local/bin/codex exec", Some(("codex", 1))),
            (
                "npx -y @anthropic-ai/claude-code@2.1.332 -p hi",
                Some(("claude-code", 3)),
            ),
            ("npx -p @openai/codex codex exec", Some(("codex", 4))),
            ("bunx @openai/codex", Some(("codex", 2))),
            ("pnpm dlx @google/gemini-cli", Some(("gemini-cli", 3))),
            (
                "uvx --python 3.12 aider-chat==0.86.2 --yes",
                Some(("aider", 4)),
            ),
            ("uvx --from aider-chat aider", Some(("aider", 4))),
            ("uv tool run llm", Some(("llm", 4))),
            ("pnpm install @openai/codex", None),
            ("npx", None),
            ("npx -y", None),
            ("sh -c claude", None),
            ("claude-wrapper", None),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            let found = table.recognize(&words);
            let found = found.map(|found| (found.name, found.words));
            assert_eq!(found, expected, "{command}");
        }
        let named = table.named("codex", &["./wrapper.sh", "exec"]).unwrap();
        assert_eq!((named.name, named.words), ("codex", 1));
        let named = table.named("aider", &["npx", "-y", "wrapper"]).unwrap();
        assert_eq!((named.name, named.words), ("aider", 3));
        assert!(table.named("claude", &["claude"]).is_none());
    }

    #[test]
    fn urls_are_filled_in() {
        let urls = GatewayUrls {
            root: "http://127.0.0.1:9/x/s",
            files: "/private",
        };
        let filled = urls.fill_in(r#"{"a":"{root}","b":"{v1}","c":"{v1beta}","d":"{files}/e"}"#);
        let expected = r#"{"a":"http://127.0.0.1:9/x/s","b":"http://127.0.0.1:9/x/s/v1","c":"http://127.0.0.1:9/x/s/v1beta","d":"/private/e"}"#;
        assert_eq!(filled, expected);
    }
}
