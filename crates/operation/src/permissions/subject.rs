//! The part of a call that an argument of a rule refers to: paths, commands, URLs, or a value.

use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use url::Url;

use super::Operation;
use super::pattern::{Match, Pattern, SHELL_SYNTAX};
use crate::Workspace;
use crate::shell::{Atom, Directories, Known, Script, Word, base, candidates, files};
use crate::touches::{Command, CommandText};

/// Maximum number of parts of a command line that are compared with a path.
const MOST: usize = 4_000;

/// The part of a call that an argument of a rule refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
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

impl Subject {
    /// Returns the subject of an argument with this name.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "path" | "paths" | "file" | "files" | "directory" => Self::Paths,
            "command" | "cmd" => Self::Commands,
            "host" => Self::Hosts,
            "url" => Self::Urls,
            "working_directory" => Self::Path,
            _ if name.ends_with("_path") || name.ends_with("_paths") => Self::Path,
            _ => Self::Text,
        }
    }
}

/// A call with its parsed commands: parsed once for all rules.
pub(super) struct Subjects<'a> {
    pub(super) operation: &'a Operation<'a>,
    pub(super) workspace: &'a Workspace,
    pub(super) commands: Vec<Taken<'a>>,
}

/// A parsed command.
pub(super) struct Taken<'a> {
    pub(super) command: &'a Command,
    pub(super) script: Script,
    directories: Directories,
    /// The words that may be paths.
    paths: Vec<Word>,
}

impl<'a> Subjects<'a> {
    pub(super) fn of(operation: &'a Operation<'a>, workspace: &'a Workspace) -> Self {
        let taken = |command: &'a Command| {
            let start = match &command.directory {
                Some(directory) => workspace.root().join(directory),
                None => workspace.root().to_owned(),
            };
            let known = Known {
                variables: Some(workspace.variables()),
                directory: Some(&start),
            };
            let script = Script::of(command, &known);
            let mut paths = candidates(&script);
            paths.truncate(MOST);
            Taken {
                command,
                directories: Directories::of(&script, start),
                paths,
                script,
            }
        };
        Self {
            operation,
            workspace,
            commands: operation.touches.commands.iter().map(taken).collect(),
        }
    }

    /// The reason why it is unknown which resources the call accesses.
    pub(super) fn why(&self) -> String {
        let unclear: Vec<&str> = self
            .commands
            .iter()
            .flat_map(|taken| taken.script.unclear.iter().map(String::as_str))
            .collect();
        match unclear.is_empty() {
            true => "which files it names is not known before it runs".to_owned(),
            false => unclear.join("; "),
        }
    }

    /// Matches an argument of a deny or ask rule, in all possible readings.
    pub(super) fn wide(&self, name: &str, pattern: &Pattern) -> Match {
        let value = self.operation.arguments.get(name);
        let values = value.map(texts).unwrap_or_default();
        let matched = |text: &String| Match::from(pattern.matches(text));
        let is_path =
            |path: &String| Match::from(is_any_reading(Path::new(path), pattern, self.workspace));
        match Subject::named(name) {
            Subject::Paths => {
                let touched = self.operation.touches.paths();
                let touched =
                    touched.map(|path| Match::from(is_any_reading(path, pattern, self.workspace)));
                let named = self
                    .commands
                    .iter()
                    .map(|taken| self.named_path(taken, pattern));
                most(values.iter().map(is_path).chain(touched).chain(named))
            }
            Subject::Commands => {
                let commands = self.commands.iter().map(|taken| command(taken, pattern));
                most(values.iter().map(matched).chain(commands))
            }
            Subject::Hosts => {
                let urls = self.operation.touches.urls.iter();
                let hosts = urls.map(|url| {
                    let mut spellings = host_spellings(url).peekable();
                    let is_unknown = spellings.peek().is_none();
                    let is_any = |host: String| pattern.matches_any_case(&host);
                    Match::from(is_unknown || spellings.any(is_any))
                });
                let named = self.commands.iter().map(|taken| named_host(taken, pattern));
                most(values.iter().map(matched).chain(hosts).chain(named))
            }
            Subject::Urls => {
                let urls = self.operation.touches.urls.iter().chain(&values);
                most(urls.map(|url| {
                    let is = |url: &str| {
                        pattern.matches_any_case(url)
                            || pattern.matches_any_case(url.trim_end_matches('/'))
                    };
                    let is_any = pattern.matches(url)
                        || plain_url(url).is_some_and(|plain| is(&plain) || is(&decoded(&plain)));
                    Match::from(is_any)
                }))
            }
            Subject::Path => most(values.iter().map(is_path)),
            Subject::Text => most(values.iter().map(matched)),
        }
    }

    /// Matches an argument of an allow rule: true only if the match is certain. `others` returns true if
    /// some allow rule covers a command that is run by another command.
    pub(super) fn narrow(
        &self,
        name: &str,
        pattern: &Pattern,
        others: &dyn Fn(&str) -> bool,
    ) -> bool {
        let value = self.operation.arguments.get(name);
        let is_path = |path: &Path| {
            let lies = below(self.workspace.root(), path);
            pattern.matches(&lies)
                && really(path, self.workspace).is_some_and(|real| pattern.matches(&real))
        };
        let touches = self.operation.touches;
        match Subject::named(name) {
            Subject::Paths => {
                let mut values = value.map(texts).unwrap_or_default();
                values.retain(|value| !value.contains("://"));
                // The files that a command opens are unknown.
                self.commands.is_empty()
                    && every(touches.paths(), is_path)
                    && values.iter().all(|path| is_path(Path::new(path)))
            }
            Subject::Commands if !self.commands.is_empty() => {
                every(self.commands.iter(), |taken| {
                    permits(taken, pattern, others)
                })
            }
            Subject::Hosts => every(touches.urls.iter(), |url| {
                host(url).is_some_and(|host| pattern.matches(&host))
            }),
            Subject::Urls if !touches.urls.is_empty() => every(touches.urls.iter(), |url| {
                plain_url(url).is_some_and(|plain| {
                    pattern.matches(&plain) || pattern.matches(plain.trim_end_matches('/'))
                })
            }),
            Subject::Path => {
                let values = value.map(texts).unwrap_or_default();
                every(values.iter(), |path| is_path(Path::new(path)))
            }
            Subject::Commands | Subject::Urls | Subject::Text => {
                let values = value.map(texts).unwrap_or_default();
                every(values.iter(), |text| pattern.matches(text))
            }
        }
    }

    /// Matches the paths that a command names.
    fn named_path(&self, taken: &Taken<'_>, pattern: &Pattern) -> Match {
        let mut found = match taken.script.unclear.is_empty() {
            true => Match::No,
            false => Match::Maybe,
        };
        if let Some(directory) = &taken.command.directory {
            found = found.max(Match::from(is_any_reading(
                directory,
                pattern,
                self.workspace,
            )));
        }
        for word in &taken.paths {
            if found == Match::Yes {
                break;
            }
            found = found.max(self.word(word, taken, pattern));
        }
        found
    }

    fn word(&self, word: &Word, taken: &Taken<'_>, pattern: &Pattern) -> Match {
        let directories = &taken.directories;
        if let Some(text) = word.text() {
            if text.is_empty() || text.contains('\0') {
                return Match::No;
            }
            let here = directories.known.iter();
            let is_meant = pattern.matches_any_case(&text)
                || here
                    .clone()
                    .any(|from| is_named(&from.join(&text), pattern, self.workspace));
            if is_meant {
                return Match::Yes;
            }
            let mut may = Match::No;
            if directories.others && !text.starts_with('/') {
                let mut atoms = vec![
                    Atom::Any,
                    Atom::Char {
                        sign: '/',
                        quoted: true,
                    },
                ];
                atoms.extend(word.0.iter().cloned());
                may = pattern.likeness(&atoms, true).min(Match::Maybe);
            }
            // Aliases of directories of the process.
            if text.starts_with("/proc/")
                && ["cwd", "root", "fd", "map_files"]
                    .iter()
                    .any(|part| text.contains(part))
            {
                may = Match::Maybe;
            }
            return may;
        }
        if word.is_glob() {
            return self.glob(word, taken, pattern);
        }
        let written = pattern.likeness(&word.0, true);
        let from = |directory: &PathBuf| {
            let lies = below(self.workspace.root(), directory);
            let mut most = Match::No;
            for before in [lies, slashes(directory)] {
                let before = if before == "." {
                    String::new()
                } else {
                    format!("{before}/")
                };
                let mut atoms = Word::literal(&before).0;
                atoms.extend(word.0.iter().cloned());
                most = most.max(pattern.likeness(&atoms, true));
            }
            most
        };
        written.max(most(directories.known.iter().map(from)))
    }

    /// Matches a pattern of file names: the files that it matches now, and those that it may match after
    /// earlier commands of the line have run.
    fn glob(&self, word: &Word, taken: &Taken<'_>, pattern: &Pattern) -> Match {
        let mut may = pattern.likeness(&word.0, true).min(Match::Maybe);
        let mut is_listed = true;
        for from in &taken.directories.known {
            match files(from, word) {
                Some(files) => {
                    if files
                        .iter()
                        .any(|file| is_named(file, pattern, self.workspace))
                    {
                        return Match::Yes;
                    }
                }
                None => is_listed = false,
            }
            let before = match below(self.workspace.root(), from) {
                lies if lies == "." => String::new(),
                lies => format!("{lies}/"),
            };
            let mut atoms = Word::literal(&before).0;
            atoms.extend(word.0.iter().cloned());
            may = may.max(pattern.likeness(&atoms, true).min(Match::Maybe));
        }
        // Files that were not listed may match.
        if !is_listed {
            return Match::Maybe;
        }
        // For a single plain command, or a redirection without a command, nothing runs before it.
        match may == Match::Maybe
            && taken.script.invocations.len() <= 1
            && !taken.directories.others
        {
            true => Match::No,
            false => may,
        }
    }
}

/// The strongest of several matches.
fn most(matches: impl Iterator<Item = Match>) -> Match {
    let mut most = Match::No;
    for each in matches {
        most = most.max(each);
        if most == Match::Yes {
            break;
        }
    }
    most
}

/// True if there is at least one item and the condition holds for all.
fn every<T>(mut items: impl Iterator<Item = T>, holds: impl Fn(T) -> bool) -> bool {
    match items.next() {
        None => false,
        Some(first) => holds(first) && items.all(holds),
    }
}

/// Converts a value to text; a list to one text per item.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

/// Matches a pattern with each command that a command runs.
fn command(taken: &Taken<'_>, pattern: &Pattern) -> Match {
    let text = match &taken.command.text {
        CommandText::Line(line) => line.clone(),
        CommandText::Program(words) => words.join(" "),
    };
    // The text as written, even if it cannot be parsed.
    if pattern.matches(&text) || commands(&text).any(|command| pattern.matches(command)) {
        return Match::Yes;
    }
    let runs = taken.script.invocations.iter();
    let found = most(runs.map(|invocation| invoked(&invocation.words, pattern)));
    let might = taken.script.possible.iter();
    let found = found
        .max(most(might.map(|invocation| invoked(&invocation.words, pattern))).min(Match::Maybe));
    match taken.script.unclear.is_empty() {
        true => found,
        false => found.max(Match::Maybe),
    }
}

/// Matches a pattern with a program and its arguments: as written, without the directory of the program,
/// without options before a subcommand, and with options in another order.
pub(super) fn invoked(words: &[Word], pattern: &Pattern) -> Match {
    let mut programs = vec![words[0].clone()];
    if let Some(program) = words[0].text() {
        let name = program.rsplit('/').next().unwrap_or(&program);
        for other in [name.to_owned(), base(&program)] {
            let other = Word::literal(&other);
            if !programs.contains(&other) {
                programs.push(other);
            }
        }
    }
    let rest = &words[1..];
    let mut starts = vec![0];
    let mut at = 0;
    while at < rest.len() && starts.len() < 16 {
        // An option, or the value of the previous option.
        let is_option = rest[at].starts_with('-');
        let is_value = at > 0 && rest[at - 1].starts_with('-');
        if !is_option && !is_value {
            break;
        }
        at += 1;
        starts.push(at);
    }
    let mut found = Match::No;
    for program in &programs {
        for start in &starts {
            let mut atoms = program.0.clone();
            for word in &rest[*start..] {
                atoms.push(Atom::Char {
                    sign: ' ',
                    quoted: true,
                });
                atoms.extend(word.0.iter().cloned());
            }
            found = found.max(pattern.likeness(&atoms, false));
            if found == Match::Yes {
                return found;
            }
        }
        found = found.max(Match::from(has_options(program, rest, pattern)));
    }
    found
}

/// True if the pattern contains options and the command has them, combined or separate, in any order:
/// `rm -rf *` matches `rm -fr x` and `rm -r --force x`.
fn has_options(program: &Word, rest: &[Word], pattern: &Pattern) -> bool {
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
    let texts: Vec<String> = rest.iter().map(|word| word.text_with('\u{fffc}')).collect();
    let (options, operands): (Vec<&String>, Vec<&String>) =
        texts.iter().partition(|text| text.starts_with('-'));
    let has_letter = |letter: char| {
        options
            .iter()
            .any(|option| match option.strip_prefix("--") {
                Some(long) => long.to_lowercase().starts_with(letter.to_ascii_lowercase()),
                None => option
                    .chars()
                    .skip(1)
                    .any(|sign| sign == letter || (sign == 'R' && letter == 'r')),
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
    let mut line = program.text_with('\u{fffc}');
    for operand in operands {
        line.push(' ');
        line.push_str(operand);
    }
    wanted.iter().all(has) && without.matches(&line)
}

/// True if an allow rule covers a command and everything that it runs in turn.
fn permits(taken: &Taken<'_>, pattern: &Pattern, others: &dyn Fn(&str) -> bool) -> bool {
    let is_meant = match &taken.command.text {
        CommandText::Line(line) => pattern.permits_line(line),
        CommandText::Program(words) => pattern.matches(&words.join(" ")),
    };
    if !is_meant || pattern.is_literal() {
        return is_meant;
    }
    let script = &taken.script;
    let start = pattern.literal_start();
    let spelled: Vec<&str> = start.split_whitespace().collect();
    (script.unclear.is_empty() || script.only_code)
        && script
            .invocations
            .iter()
            .filter(|each| each.nested)
            .all(|each| {
                let texts: Vec<String> = each
                    .words
                    .iter()
                    .map(|word| word.text_with('\u{fffc}'))
                    .collect();
                spelled.contains(&texts[0].as_str()) || others(&texts.join(" "))
            })
}

/// The approximate commands in a line: the parts between shell syntax.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(SHELL_SYNTAX)
        .map(|part| part.trim_matches(|sign: char| sign.is_whitespace() || "'\"{}!".contains(sign)))
        .filter(|part| !part.is_empty())
}

/// Matches the hosts that a command names.
fn named_host(taken: &Taken<'_>, pattern: &Pattern) -> Match {
    let mut found = match taken.script.unclear.is_empty() {
        true => Match::No,
        false => Match::Maybe,
    };
    let script = &taken.script;
    let arguments = script
        .invocations
        .iter()
        .flat_map(|each| each.words.iter().skip(1));
    for word in arguments.chain(&script.redirects).chain(&script.values) {
        found = found.max(match word.text() {
            Some(text) => {
                let may = Match::from(hosts_in(&text).any(|host| pattern.matches_any_case(&host)));
                // `curl` expands brackets and braces in URLs.
                let place = text.split_once("://").map_or("", |(_, place)| place);
                match place.trim_start_matches('[').contains(['[', '{']) {
                    true => may.max(Match::Maybe),
                    false => may,
                }
            }
            None if !word.is_glob() => Match::Maybe,
            None => Match::No,
        });
    }
    found
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
            match spelled.is_empty() {
                true => host_spellings(&format!("http://{part}")).collect(),
                false => spelled,
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
pub(super) fn is_any_reading(path: &Path, pattern: &Pattern, workspace: &Workspace) -> bool {
    let root = workspace.root();
    let lies = below(root, path);
    let absolute = slashes(&root.join(&lies));
    let real = workspace.readable_place(path).ok().map(|place| place.real);
    pattern.matches_any_case(&path.to_string_lossy())
        || pattern.matches_any_case(&lies)
        || pattern.matches_any_case(&absolute)
        || real.is_some_and(|real| {
            pattern.matches_any_case(&below(root, &real))
                || pattern.matches_any_case(&slashes(&real))
        })
}

/// True if the pattern matches an absolute path that a command names, or everything below it. Commands
/// are not confined to the workspace, so links are followed to any location.
fn is_named(path: &Path, pattern: &Pattern, workspace: &Workspace) -> bool {
    let root = workspace.root();
    let is = |path: &Path| {
        let lies = below(root, path);
        let absolute = slashes(&root.join(&lies));
        [lies, absolute].iter().any(|text| {
            pattern.matches_any_case(text) || pattern.matches_any_case(&format!("{text}/\u{fffc}"))
        })
    };
    is(path) || real(path).is_some_and(|real| real != path && is(&real))
}

/// Resolves the links of an absolute path as far as it exists.
fn real(path: &Path) -> Option<PathBuf> {
    let mut rest = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            return Some(rest.iter().rev().fold(real, |path, name| path.join(name)));
        }
        // A link to a target that does not exist yet is followed as well.
        if let Ok(target) = std::fs::read_link(ancestor) {
            let target = ancestor.parent()?.join(target);
            let whole = rest.iter().rev().fold(target, |path, name| path.join(name));
            return Some(whole);
        }
        rest.push(ancestor.file_name()?);
    }
    None
}

/// The location of a path after all links are followed; `None` if it is outside of the workspace or
/// cannot be resolved.
fn really(path: &Path, workspace: &Workspace) -> Option<String> {
    let real = workspace.readable_place(path).ok()?.real;
    Some(below(workspace.root(), &real))
}

/// The path relative to the root, with `.` and `..` resolved lexically; absolute if it is not below the
/// root.
pub(super) fn below(root: &Path, path: &Path) -> String {
    let mut resolved = PathBuf::new();
    for part in root.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    match resolved.strip_prefix(root) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => slashes(relative),
        Err(_) => slashes(&resolved),
    }
}

/// Converts a path to text, with `/` as the separator on all platforms.
fn slashes(path: &Path) -> String {
    let text = path.to_string_lossy();
    match std::path::MAIN_SEPARATOR {
        '/' => text.into_owned(),
        other => text.replace(other, "/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lie_where_their_text_leads() {
        let below = |path: &str| below(Path::new("/w"), Path::new(path));
        assert_eq!(below("./a/../.env"), ".env");
        assert_eq!(below("/w/a"), "a");
        assert_eq!(below("a/.."), ".");
        assert_eq!(below("../x"), "/x");
        assert_eq!(below("/etc//passwd"), "/etc/passwd");
    }

    #[test]
    fn commands_are_what_stands_between_shell_syntax() {
        let commands: Vec<&str> =
            commands("cd x && rm -rf y; echo \"$(rm z)\" | sh\n{ rm q; }").collect();
        assert_eq!(commands, ["cd x", "rm -rf y", "echo", "rm z", "sh", "rm q"]);
    }

    #[test]
    fn hosts_are_those_that_are_looked_up() {
        for url in [
            "https://EVIL.com/",
            "https://evil.com./",
            "http://a:b@evil.com:80",
            " https://evil.com\\@x.org",
        ] {
            assert_eq!(host(url).as_deref(), Some("evil.com"), "{url}");
        }
        assert_eq!(host("evil.com"), None);
        for url in [
            "http://127.0.0.2:80/",
            "http://[::ffff:127.0.0.2]/",
            "http://[::127.0.0.2]/",
            "http://[64:ff9b::7f00:2]/",
            "http://0x7f000002/",
        ] {
            assert_eq!(host(url).as_deref(), Some("127.0.0.2"), "{url}");
        }
        assert_eq!(host("http://[::1]/").as_deref(), Some("[::1]"));
        assert_eq!(decoded("/forb%69dden%2"), "/forbidden%2");
    }
}
