//! The part of a call that an argument of a rule refers to: paths, commands, URLs, or a value.

use std::net::Ipv4Addr;
use std::path::Path;

use cachalot_core::links::without_links;
use serde_json::Value;
use url::Url;

use super::AccessRequest;
use super::pattern::{MatchResult, Pattern};
use crate::Workspace;
use crate::resource_access::{Command, CommandText};
use crate::shell::{CommandPaths, Script, UNKNOWN, base_name};
use crate::workspace::normalize;

/// The part of a call that an argument of a rule refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentSubject {
    /// All paths of the call, including those that commands name.
    Paths,
    /// All commands that the call runs.
    Commands,
    /// The hosts of all URLs that the call requests.
    Hosts,
    /// All URLs that the call requests.
    Urls,
    /// The value of the argument, which is a path.
    Path,
    /// The value of the argument.
    Text,
}

impl ArgumentSubject {
    /// Returns the subject of an argument with this name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "path" | "paths" | "file" | "files" | "directory" => Self::Paths,
            "command" | "cmd" => Self::Commands,
            "host" => Self::Hosts,
            "url" => Self::Urls,
            "working_directory" | "cwd" => Self::Path,
            _ if name.ends_with("_path") || name.ends_with("_paths") => Self::Path,
            _ => Self::Text,
        }
    }
}

/// A call with its parsed commands: parsed once for all rules.
pub(super) struct AnalyzedRequest<'a> {
    pub(super) request: &'a AccessRequest<'a>,
    pub(super) workspace: &'a Workspace,
    pub(super) commands: Vec<AnalyzedCommand<'a>>,
}

/// A parsed command.
pub(super) struct AnalyzedCommand<'a> {
    pub(super) command: &'a Command,
    pub(super) script: Script,
    paths: CommandPaths,
}

impl<'a> AnalyzedRequest<'a> {
    pub(super) fn new(request: &'a AccessRequest<'a>, workspace: &'a Workspace) -> Self {
        let analyzed = |command: &'a Command| {
            let script = Script::new(command);
            AnalyzedCommand {
                command,
                paths: CommandPaths::named(&script),
                script,
            }
        };
        Self {
            request,
            workspace,
            commands: request
                .resource_access
                .commands
                .iter()
                .map(analyzed)
                .collect(),
        }
    }

    /// The reason why it is unknown which resources the call accesses.
    pub(super) fn unclear_reason(&self) -> String {
        let scripts = self.commands.iter().map(|analyzed| &analyzed.script);
        let unclear: Vec<&str> = scripts
            .flat_map(|script| script.unclear.iter().map(String::as_str))
            .collect();
        if !unclear.is_empty() {
            return unclear.join("; ");
        }
        let others = self
            .commands
            .iter()
            .find_map(|analyzed| analyzed.paths.others.as_deref());
        let obstacle = self
            .commands
            .iter()
            .find_map(|analyzed| analyzed.script.obstacle.as_deref());
        match (others, obstacle) {
            (Some(others), _) => format!("it may name other files: {others}"),
            (None, Some(obstacle)) => format!("a word of it might be a command: {obstacle}"),
            (None, None) => "which files it names is not known before it runs".to_owned(),
        }
    }

    /// The reason why no `allow` rule with a wildcard matches a command of the call.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.commands
            .iter()
            .find_map(|analyzed| analyzed.script.obstacle.as_deref())
    }

    /// Matches an argument of a deny or ask rule, in all possible readings. `is_enforced` is true if the system keeps
    /// programs from the files that the rule names, however a command names them.
    pub(super) fn may_match(
        &self,
        name: &str,
        pattern: &Pattern,
        is_enforced: bool,
    ) -> MatchResult {
        let arguments = &self.request.arguments;
        // The two names of the working directory of a command.
        let value = arguments.get(name).or_else(|| match name {
            "working_directory" => arguments.get("cwd"),
            "cwd" => arguments.get("working_directory"),
            _ => None,
        });
        let values = value.map(value_texts).unwrap_or_default();
        let matched = |text: &String| MatchResult::from(pattern.matches(text));
        let is_path = |path: &String| {
            MatchResult::from(matches_any_spelling(
                Path::new(path),
                pattern,
                self.workspace,
            ))
        };
        match ArgumentSubject::named(name) {
            ArgumentSubject::Paths => {
                let touched = self.request.resource_access.paths();
                let touched = touched.map(|path| {
                    MatchResult::from(matches_any_spelling(path, pattern, self.workspace))
                });
                let named = self
                    .commands
                    .iter()
                    .map(|analyzed| self.named_path(analyzed, pattern, is_enforced));
                strongest(values.iter().map(is_path).chain(touched).chain(named))
            }
            ArgumentSubject::Commands => {
                let commands = self
                    .commands
                    .iter()
                    .map(|analyzed| command(analyzed, pattern));
                strongest(values.iter().map(matched).chain(commands))
            }
            ArgumentSubject::Hosts => {
                let urls = self.request.resource_access.urls.iter();
                let hosts = urls.map(|url| {
                    let mut spellings = host_spellings(url).peekable();
                    let is_unknown = spellings.peek().is_none();
                    let is_any = |host: String| pattern.matches_any_case(&host);
                    // A URL whose host cannot be read may be requested from any host.
                    MatchResult::from(is_unknown || spellings.any(is_any))
                });
                let named = self
                    .commands
                    .iter()
                    .map(|analyzed| match_host(analyzed, pattern));
                strongest(values.iter().map(matched).chain(hosts).chain(named))
            }
            ArgumentSubject::Urls => {
                let urls = self.request.resource_access.urls.iter().chain(&values);
                strongest(urls.map(|url| {
                    let is = |url: &str| {
                        pattern.matches_any_case(url)
                            || pattern.matches_any_case(url.trim_end_matches('/'))
                    };
                    let is_any = pattern.matches(url)
                        || plain_url(url).is_some_and(|plain| is(&plain) || is(&decoded(&plain)));
                    MatchResult::from(is_any)
                }))
            }
            ArgumentSubject::Path => strongest(values.iter().map(is_path)),
            ArgumentSubject::Text => strongest(values.iter().map(matched)),
        }
    }

    /// Matches an argument of an allow rule: true only if the match is certain. `others` returns true if
    /// some allow rule covers a command that is run by another command.
    pub(super) fn always_matches(
        &self,
        name: &str,
        pattern: &Pattern,
        others: &dyn Fn(&str) -> bool,
    ) -> bool {
        let value = self.request.arguments.get(name);
        let is_path = |path: &Path| {
            let relative_path = relative_to_root(self.workspace.root(), path);
            pattern.matches(&relative_path)
                && real_location(path, self.workspace).is_some_and(|real| pattern.matches(&real))
        };
        let resource_access = self.request.resource_access;
        match ArgumentSubject::named(name) {
            ArgumentSubject::Paths => {
                let mut values = value.map(value_texts).unwrap_or_default();
                values.retain(|value| !value.contains("://"));
                // The files that a command opens are unknown.
                self.commands.is_empty()
                    && nonempty_all(resource_access.paths(), is_path)
                    && values.iter().all(|path| is_path(Path::new(path)))
            }
            ArgumentSubject::Commands if !self.commands.is_empty() => {
                nonempty_all(self.commands.iter(), |analyzed| {
                    covers_command(analyzed, pattern, others)
                })
            }
            ArgumentSubject::Hosts => nonempty_all(resource_access.urls.iter(), |url| {
                host(url).is_some_and(|host| pattern.matches(&host))
            }),
            ArgumentSubject::Urls if !resource_access.urls.is_empty() => {
                nonempty_all(resource_access.urls.iter(), |url| {
                    plain_url(url).is_some_and(|plain| {
                        pattern.matches(&plain) || pattern.matches(plain.trim_end_matches('/'))
                    })
                })
            }
            ArgumentSubject::Path => {
                let values = value.map(value_texts).unwrap_or_default();
                nonempty_all(values.iter(), |path| is_path(Path::new(path)))
            }
            ArgumentSubject::Commands | ArgumentSubject::Urls | ArgumentSubject::Text => {
                let values = value.map(value_texts).unwrap_or_default();
                nonempty_all(values.iter(), |text| pattern.matches(text))
            }
        }
    }

    /// Matches the paths that a command names.
    fn named_path(
        &self,
        analyzed: &AnalyzedCommand<'_>,
        pattern: &Pattern,
        is_enforced: bool,
    ) -> MatchResult {
        let root = self.workspace.root();
        let directory = analyzed.command.directory.as_deref();
        let is_denied = directory
            .is_some_and(|directory| matches_any_spelling(directory, pattern, self.workspace));
        let start = directory.map_or_else(|| root.to_owned(), |directory| root.join(directory));
        let words = analyzed.paths.words.iter();
        let found = strongest(words.map(|word| self.word(word, &start, pattern)));
        let found = found.max(MatchResult::from(is_denied));
        // The sandbox looks for denied files in the workspace only. About a pattern for files outside of it, the doubt
        // stays.
        let is_outside = Path::new(&pattern.literal_start()).has_root()
            && !pattern
                .literal_start()
                .starts_with(&*root.to_string_lossy());
        if is_enforced && !is_outside {
            // The program cannot open others.
            return if found == MatchResult::Yes {
                found
            } else {
                MatchResult::No
            };
        }
        if analyzed.script.unclear.is_empty() && analyzed.paths.others.is_none() {
            found
        } else {
            found.max(MatchResult::Maybe)
        }
    }

    fn word(&self, word: &str, start: &Path, pattern: &Pattern) -> MatchResult {
        let written = pattern.match_unknown(word, true);
        if written == MatchResult::Yes || word.contains(UNKNOWN) {
            return written;
        }
        // Aliases of directories of the process.
        let is_alias = word.starts_with("/proc/")
            && ["cwd", "root", "fd", "map_files"]
                .iter()
                .any(|part| word.contains(part));
        match matches_named_path(&start.join(word), pattern, self.workspace) {
            true => MatchResult::Yes,
            false if is_alias => MatchResult::Maybe,
            false => MatchResult::No,
        }
    }
}

/// The strongest of several matches.
fn strongest(matches: impl Iterator<Item = MatchResult>) -> MatchResult {
    let mut strongest = MatchResult::No;
    for each in matches {
        strongest = strongest.max(each);
        if strongest == MatchResult::Yes {
            break;
        }
    }
    strongest
}

/// True if there is at least one item and the condition holds for all.
fn nonempty_all<T>(mut items: impl Iterator<Item = T>, holds: impl Fn(T) -> bool) -> bool {
    match items.next() {
        None => false,
        Some(first) => holds(first) && items.all(holds),
    }
}

/// Converts a value to text; a list to one text per item.
fn value_texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(value_texts).collect(),
        other => vec![other.to_string()],
    }
}

/// Matches a pattern with each command that a command runs, or might run.
fn command(analyzed: &AnalyzedCommand<'_>, pattern: &Pattern) -> MatchResult {
    let text = match &analyzed.command.text {
        CommandText::Line(line) => line.clone(),
        CommandText::Program(words) => words.join(" "),
    };
    if pattern.matches(&text) {
        MatchResult::Yes
    } else {
        match_script(&analyzed.script, pattern)
    }
}

/// Matches a pattern with each command that a script runs, or might run.
pub(super) fn match_script(script: &Script, pattern: &Pattern) -> MatchResult {
    let found = strongest(script.runs.iter().map(|run| match_run(&run.words, pattern)));
    if found != MatchResult::No {
        return found;
    }
    let might = !script.unclear.is_empty()
        || script
            .possible
            .iter()
            .any(|words| match_run(words, pattern) != MatchResult::No);
    if might {
        MatchResult::Maybe
    } else {
        MatchResult::No
    }
}

/// The maximum number of options, and of their values, that are left out before a subcommand.
const MAX_OPTIONS: usize = 15;

/// Matches a pattern with a program and its arguments: as written, without the directory of the program,
/// without options before a subcommand, and with options in another order.
fn match_run(words: &[String], pattern: &Pattern) -> MatchResult {
    let Some((program, rest)) = words.split_first() else {
        return MatchResult::No;
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut programs = vec![program.clone(), name.to_owned(), base_name(program)];
    programs.dedup();
    // An option, or the value of the previous option.
    let is_before_subcommand =
        |at: &usize| rest[*at].starts_with('-') || (*at > 0 && rest[at - 1].starts_with('-'));
    let options = (0..rest.len()).take_while(is_before_subcommand).count();
    let starts: Vec<usize> = (0..=options.min(MAX_OPTIONS)).collect();
    let mut found = MatchResult::No;
    for program in &programs {
        // What stands behind more of them is not looked at.
        if options > MAX_OPTIONS
            && pattern.match_unknown(&format!("{program} {UNKNOWN}"), false) != MatchResult::No
        {
            found = found.max(MatchResult::Maybe);
        }
        for start in &starts {
            let line = [std::slice::from_ref(program), &rest[*start..]]
                .concat()
                .join(" ");
            found = found.max(pattern.match_unknown(&line, false));
            if found == MatchResult::Yes {
                return found;
            }
        }
        found = found.max(MatchResult::from(has_options(program, rest, pattern)));
    }
    found
}

/// True if the pattern contains options and the command has them, combined or separate, in any order:
/// `rm -rf *` matches `rm -fr x` and `rm -r --force x`.
fn has_options(program: &str, rest: &[String], pattern: &Pattern) -> bool {
    let wanted: Vec<&str> = pattern
        .text()
        .split(' ')
        .filter(|word| word.starts_with('-'))
        .collect();
    if wanted.is_empty()
        || wanted
            .iter()
            .any(|word| word.trim_end_matches('*').contains(['*', '?', '\\']))
    {
        return false;
    }
    // The star of `--force*` also matches the following text.
    let is_open = pattern.text().ends_with('*')
        && wanted
            .last()
            .is_some_and(|word| pattern.text().ends_with(word));
    let without: Vec<&str> = pattern
        .text()
        .split(' ')
        .filter(|word| !word.starts_with('-'))
        .collect();
    let without = without.join(" ");
    let Ok(without) = Pattern::new(&if is_open {
        format!("{without}*")
    } else {
        without
    }) else {
        return false;
    };
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rest.iter().partition(|text| text.starts_with('-'));
    let has_letter = |letter: char| {
        options
            .iter()
            .any(|option| match option.strip_prefix("--") {
                Some(long) => long.to_lowercase().starts_with(letter.to_ascii_lowercase()),
                None => option
                    .chars()
                    .skip(1)
                    .any(|character| character == letter || (character == 'R' && letter == 'r')),
            })
    };
    let has = |option: &&str| match option.strip_prefix("--") {
        _ if option.ends_with('*') => {
            let stem = option.trim_end_matches('*');
            options.iter().any(|other| other.starts_with(stem))
        }
        Some(_) => options
            .iter()
            .any(|other| other.split('=').next() == Some(*option)),
        None => {
            options.iter().any(|other| other.as_str() == *option)
                || option.chars().skip(1).all(has_letter)
        }
    };
    let mut line = program.to_owned();
    for operand in operands {
        line.push(' ');
        line.push_str(operand);
    }
    wanted.iter().all(has) && without.matches(&line)
}

/// True if an allow rule covers a command and everything that it runs in turn.
fn covers_command(
    analyzed: &AnalyzedCommand<'_>,
    pattern: &Pattern,
    others: &dyn Fn(&str) -> bool,
) -> bool {
    let is_meant = match &analyzed.command.text {
        CommandText::Line(line) => pattern.permits_line(line),
        CommandText::Program(words) => pattern.matches(&words.join(" ")),
    };
    // A pattern without a wildcard spells everything that the line runs, so that the rest need not be permitted one by
    // one.
    if !is_meant || pattern.is_literal() {
        return is_meant;
    }
    let script = &analyzed.script;
    let start = pattern.literal_start();
    let spelled: Vec<&str> = start.split_whitespace().collect();
    script.obstacle.is_none()
        && script.runs.iter().filter(|run| run.at > 0).all(|run| {
            let is_spelled = spelled
                .get(run.at)
                .is_some_and(|word| *word == run.words[0]);
            is_spelled || others(&run.words.join(" "))
        })
}

/// Matches the hosts that a command names.
fn match_host(analyzed: &AnalyzedCommand<'_>, pattern: &Pattern) -> MatchResult {
    let hosts = analyzed.script.texts().map(|text| {
        if hosts_in(text).any(|host| pattern.matches_any_case(&host)) {
            return MatchResult::Yes;
        }
        // `curl` expands brackets and braces in URLs.
        let place = text.split_once("://").map_or("", |(_, place)| place);
        let is_expanded = place.trim_start_matches('[').contains(['[', '{']);
        if is_expanded || text.contains(UNKNOWN) {
            MatchResult::Maybe
        } else {
            MatchResult::No
        }
    });
    match (strongest(hosts), analyzed.script.unclear.is_empty()) {
        (MatchResult::No, false) => MatchResult::Maybe,
        (found, _) => found,
    }
}

/// The hosts that an argument may name: as a URL, after `=`, `@` or `,`, between colons (`--resolve`,
/// `scp`), or as a device name of bash (`/dev/tcp/HOST/PORT`).
fn hosts_in(text: &str) -> impl Iterator<Item = String> {
    let device = text
        .strip_prefix("/dev/tcp/")
        .or_else(|| text.strip_prefix("/dev/udp/"));
    let whole = [Some(text), device].into_iter().flatten();
    let values = text.split(['=', '@', ',', ' ']).skip(1);
    let between = text.split([':', '=', ',', '@', '/']);
    whole
        .chain(values)
        .chain(between)
        .filter(|part| !part.is_empty())
        .flat_map(|part| {
            let spelled: Vec<String> = host_spellings(part).collect();
            if spelled.is_empty() {
                host_spellings(&format!("http://{part}")).collect()
            } else {
                spelled
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns the normalized host of a URL: in lower case, and with one spelling per IPv4 address. `None`
/// if `url` is no URL with a host.
#[must_use]
pub fn host(url: &str) -> Option<String> {
    host_spellings(url).next()
}

/// The normalized host of a URL, followed by its other spellings in rules.
fn host_spellings(url: &str) -> impl Iterator<Item = String> {
    let url = Url::parse(url.trim()).ok();
    let written = url.as_ref().and_then(Url::host_str);
    let written = written.map(|host| host.trim_end_matches('.').to_lowercase());
    let address = url.as_ref().and_then(within_ipv6);
    let bare = written
        .as_deref()
        .and_then(|host| Some(host.strip_prefix('[')?.strip_suffix(']')?.to_owned()));
    let address = address.map(|address| address.to_string());
    [address, written, bare].into_iter().flatten()
}

/// The IPv4 address that is embedded in the IPv6 host of a URL: mapped, compatible, or after the
/// well-known NAT64 prefix.
fn within_ipv6(url: &Url) -> Option<Ipv4Addr> {
    let Some(url::Host::Ipv6(address)) = url.host() else {
        return None;
    };
    match address.segments() {
        // `::` and `::1`.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

/// Decodes the percent-encoded characters of a URL.
fn decoded(url: &str) -> String {
    let mut bytes = Vec::with_capacity(url.len());
    let mut rest = url.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        (rest, _) = match (first, byte) {
            (b'%', Some(byte)) => (&behind[2..], bytes.push(byte)),
            _ => (behind, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The URL as it is requested: without user information and fragment.
fn plain_url(url: &str) -> Option<String> {
    let mut url = Url::parse(url.trim()).ok()?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.set_fragment(None);
    if let Some(address) = within_ipv6(&url) {
        url.set_host(Some(&address.to_string())).ok()?;
    }
    if let Some(host) = url
        .host_str()
        .and_then(|host| host.strip_suffix('.'))
        .map(str::to_owned)
    {
        url.set_host(Some(&host)).ok()?;
    }
    Some(url.into())
}

/// True if the pattern matches any spelling of a path.
pub(super) fn matches_any_spelling(path: &Path, pattern: &Pattern, workspace: &Workspace) -> bool {
    let root = workspace.root();
    let relative_path = relative_to_root(root, path);
    let absolute = slash_separated(&root.join(&relative_path));
    let real = workspace.resolve(path).ok();
    pattern.matches_any_case(&path.to_string_lossy())
        || pattern.matches_any_case(&relative_path)
        || pattern.matches_any_case(&absolute)
        || real.is_some_and(|real| {
            pattern.matches_any_case(&relative_to_root(root, &real))
                || pattern.matches_any_case(&slash_separated(&real))
        })
}

/// True if the pattern matches an absolute path that a command names, or everything below it. Commands
/// are not confined to the workspace, so links are followed to any location.
fn matches_named_path(path: &Path, pattern: &Pattern, workspace: &Workspace) -> bool {
    let root = workspace.root();
    let is = |path: &Path| {
        let relative_path = relative_to_root(root, path);
        let absolute = slash_separated(&root.join(&relative_path));
        [relative_path, absolute].iter().any(|text| {
            pattern.matches_any_case(text) || pattern.matches_any_case(&format!("{text}/{UNKNOWN}"))
        })
    };
    let real = normalize(&without_links(path));
    is(path) || (real != path && is(&real))
}

/// The location of a path after all links are followed; `None` if it is outside of the workspace or
/// cannot be resolved.
fn real_location(path: &Path, workspace: &Workspace) -> Option<String> {
    let real = workspace.resolve(path).ok()?;
    Some(relative_to_root(workspace.root(), &real))
}

/// The path relative to the root, with `.` and `..` resolved lexically; absolute if it is not below the
/// root.
pub(super) fn relative_to_root(root: &Path, path: &Path) -> String {
    let resolved = normalize(&root.join(path));
    match resolved.strip_prefix(root) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => slash_separated(relative),
        Err(_) => slash_separated(&resolved),
    }
}

/// Converts a path to text, with `/` as the separator on all platforms.
fn slash_separated(path: &Path) -> String {
    let text = path.to_string_lossy();
    match std::path::MAIN_SEPARATOR {
        '/' => text.into_owned(),
        other => text.replace(other, "/"),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/permissions/analyzed_request.rs"]
mod tests;
