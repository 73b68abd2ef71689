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
    /// File names of its program.
    pub commands: &'a [String],
    /// Number of the command's words up to its program or package, behind which its options are inserted; `None` if no
    /// word names it.
    pub words: Option<usize>,
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

/// Shells: the word behind their option `-c` is a script.
const SHELLS: [&str; 5] = ["sh", "bash", "zsh", "dash", "ksh"];

/// Endings of the file names of programs that an interpreter runs.
const SCRIPTS: [&str; 4] = [".js", ".mjs", ".cjs", ".py"];

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

    /// Returns the file names of the clients' programs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let commands = self.clients.values().flat_map(|client| &client.commands);
        commands.map(String::as_str)
    }

    /// Returns the client that the user names: by its name, or by that of its program. The program may be any word of
    /// the command, such as an argument of a script. `wrapped` is the number of words in front of what it runs in the
    /// end, such as those of `timeout 20`.
    #[must_use]
    pub fn named(
        &self,
        name: &str,
        command: &[&str],
        wrapped: usize,
    ) -> Option<RecognizedClient<'_>> {
        let by_name = self.clients.get_key_value(name);
        let (name, client) = by_name.or_else(|| {
            let mut clients = self.clients.iter();
            clients.find(|(_, client)| is_one_of(name, &client.commands))
        })?;
        let words = client
            .started_by(command, wrapped)
            .or_else(|| client.named_in(command));
        Some(client.recognized(name, words))
    }

    /// Recognizes the client that a command runs, by the file name of its program or by the package that a launcher
    /// runs, behind `wrapped` words.
    #[must_use]
    pub fn recognize(&self, command: &[&str], wrapped: usize) -> Option<RecognizedClient<'_>> {
        self.clients.iter().find_map(|(name, client)| {
            let words = client.started_by(command, wrapped)?;
            Some(client.recognized(name, Some(words)))
        })
    }
}

impl Client {
    fn recognized<'a>(&'a self, name: &'a str, words: Option<usize>) -> RecognizedClient<'a> {
        RecognizedClient {
            name,
            folder: &self.folder,
            setup: &self.setup,
            commands: &self.commands,
            words,
        }
    }

    /// Returns the number of words up to the program, if the command starts it.
    fn started_by(&self, command: &[&str], at: usize) -> Option<usize> {
        let program = file_name(command.get(at)?);
        if is_one_of(program, &self.commands) {
            return Some(at + 1);
        }
        let at = at + package_of_launcher(&command[at..])?;
        let package = without_version(command[at]);
        let is_own = is_one_of(package, &self.packages) || is_one_of(package, &self.commands);
        is_own.then_some(at + 1)
    }

    /// Returns the number of words up to the first argument that names the program. An option and its value do not, and
    /// neither does the script of a shell: the words behind it are not arguments of the program.
    fn named_in(&self, command: &[&str]) -> Option<usize> {
        let is_program = |at: usize| {
            let word = command[at];
            let name = file_name(word);
            let name = SCRIPTS
                .iter()
                .find_map(|ending| name.strip_suffix(ending))
                .unwrap_or(name);
            let is_named =
                is_one_of(name, &self.commands) || is_one_of(without_version(word), &self.packages);
            let is_value = OPTIONS_WITH_VALUE.contains(&command[at - 1]) || is_script(command, at);
            is_named && !word.starts_with('-') && !word.contains('=') && !is_value
        };
        (1..command.len())
            .find(|at| is_program(*at))
            .map(|at| at + 1)
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

/// Returns true if a word is the script of a shell: `sh -c SCRIPT`, `bash -lc SCRIPT`.
fn is_script(command: &[&str], at: usize) -> bool {
    let is_option = |word: &&&str| word.starts_with('-');
    let options = command[..at].iter().rev().take_while(is_option).count();
    let (before, options) = command[..at].split_at(at - options);
    let shell = before.last().map(|shell| file_name(shell));
    shell.is_some_and(|shell| SHELLS.contains(&shell))
        && options
            .iter()
            .any(|option| !option.starts_with("--") && option.contains('c'))
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
            let found = table.recognize(&words, 0);
            let found = found.map(|found| (found.name, found.words.unwrap_or(0)));
            assert_eq!(found, expected, "{command}");
        }
        let found = table.recognize(&["timeout", "20", "npx", "llm"], 2);
        assert_eq!(found.and_then(|found| found.words), Some(4));
        assert!(table.recognize(&["timeout", "20"], 2).is_none());
    }

    /// What a request says and what a command needs are known of the same clients.
    #[test]
    fn clients_have_a_profile_and_a_setup() {
        let mut setups: Vec<&str> = ClientTable::built_in().names().collect();
        let mut profiles = crate::client_profile::Clients::built_in().names();
        setups.sort_unstable();
        profiles.sort_unstable();
        assert_eq!(setups, profiles);
    }

    #[test]
    fn options_are_for_the_program_of_the_client_only() {
        let words = |agent: &str, command: &str| {
            let words: Vec<&str> = command.split(' ').collect();
            let named = ClientTable::built_in().named(agent, &words, 0).unwrap();
            assert_eq!(named.name, "codex");
            named.words
        };
        for (command, expected) in [
            ("codex exec", Some(1)),
            ("npx -p @openai/codex codex exec", Some(4)),
            (
                "node --max-old-space-size=9 /opt/bin/codex.js exec",
                Some(3),
            ),
            ("./wrapper --verbose codex exec", Some(3)),
            ("./wrapper npx -y @openai/codex@1.0 exec", Some(4)),
            ("./wrapper npx -p @openai/codex codex exec", Some(5)),
            ("sh -c \"$@\" sh codex exec", Some(5)),
            ("./wrapper exec", None),
            ("npx -y wrapper", None),
            ("sh -c codex", None),
            ("bash -e -lc codex", None),
            ("./wrapper --program=codex A=/codex", None),
        ] {
            assert_eq!(words("codex", command), expected, "{command}");
        }
        let table = ClientTable::built_in();
        let by_program = table.named("claude", &["./wrapper"], 0).unwrap();
        assert_eq!((by_program.name, by_program.words), ("claude-code", None));
        assert!(table.named("whale", &["claude"], 0).is_none());
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
