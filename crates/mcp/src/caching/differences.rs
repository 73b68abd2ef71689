//! Differences between the inputs of two calls, in plain words. The members of an input are declared in
//! [`super::request_key`] and [`super::identity`].

use std::collections::BTreeSet;

use cachalot_cache::Difference;
use serde_json::Value;

/// Returns the differences between the inputs of two calls through the proxy in plain words, and those that are shown as
/// they are: arguments and other parameters.
#[must_use]
pub fn plain_differences(differences: &[Difference]) -> (Vec<String>, Vec<&Difference>) {
    let mut plain = PlainDifferences::default();
    let others = differences
        .iter()
        .filter(|difference| !plain.add(difference));
    let others = others.collect();
    (plain.finish(), others)
}

/// Differences in plain words, while they are collected.
#[derive(Default)]
struct PlainDifferences {
    lines: Vec<String>,
    variables: NamedValues,
    headers: NamedValues,
    has_other_parts: bool,
    has_other_address: bool,
    is_other_url: bool,
    is_other_server: bool,
    has_other_version: bool,
    is_other_info: bool,
}

/// Names whose values differ: a value is gone, new, or both.
#[derive(Default)]
struct NamedValues {
    gone: BTreeSet<String>,
    new: BTreeSet<String>,
}

impl NamedValues {
    fn add(&mut self, difference: &Difference) {
        let name =
            |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        self.gone.extend(name(&difference.old));
        self.new.extend(name(&difference.new));
    }

    fn lines(&self, what: &str) -> impl Iterator<Item = String> {
        let all = self.gone.union(&self.new);
        all.map(move |name| {
            let how = match (self.gone.contains(name), self.new.contains(name)) {
                (true, true) => "has another value",
                (true, false) => "is gone",
                _ => "is new",
            };
            format!("{what} `{name}` {how}")
        })
    }
}

impl PlainDifferences {
    /// Takes a difference; returns false if it has no other form.
    fn add(&mut self, difference: &Difference) -> bool {
        let steps: Vec<String> = difference
            .pointer
            .split('/')
            .skip(1)
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        if let ["server", "parts", part, rest @ ..] = steps.as_slice() {
            self.has_other_parts = true;
            return self.add_part(part, rest, difference);
        }
        match *steps {
            ["server", ..] => self.is_other_server = true,
            ["server_info", "name"] => {
                self.has_other_version = true;
                self.line("the name that the server gives itself", difference);
            }
            ["server_info", "version"] => {
                self.has_other_version = true;
                self.line("the version of the server", difference);
            }
            ["server_info", ..] => self.is_other_info = true,
            ["definition"] => {
                self.fixed("the server defines the tool in another way (`tools/list`)")
            }
            ["policy"] => self.fixed("the policy says something else about the call"),
            ["process"] => self.process(difference),
            ["version"] => self.line("the revision of the protocol", difference),
            ["capabilities"] => self.fixed("the client declares other capabilities"),
            ["roots"] => self.fixed("the client has other roots"),
            ["format"] => self.fixed("the earlier call was made with another version of Cachalot"),
            _ => return false,
        }
        true
    }

    /// Takes a difference in a part of the identity of the server.
    fn add_part(&mut self, part: &str, rest: &[&str], difference: &Difference) -> bool {
        match (part, rest) {
            ("command", [place, ..]) => self.word(place, difference),
            ("directory", []) => self.line("the working directory of the server", difference),
            ("machine", []) => self.line("the machine", difference),
            ("environment", [_]) => self.variables.add(difference),
            ("headers", [_]) => self.headers.add(difference),
            ("files", [path]) => self.file(path, difference),
            ("address", []) => {
                self.has_other_address = true;
                self.line("the address of the server", difference);
            }
            ("url", []) => self.is_other_url = true,
            // Another kind of server has other parts.
            (_, []) => self.fixed("the server is reached in another way"),
            _ => return false,
        }
        true
    }

    fn fixed(&mut self, line: &str) {
        if !self.lines.iter().any(|known| known == line) {
            self.lines.push(line.to_owned());
        }
    }

    /// Adds the line of a value that is shown.
    fn line(&mut self, what: &str, difference: &Difference) {
        let text = |value: &Option<Value>| match value {
            Some(Value::String(text)) => Some(format!("`{text}`")),
            Some(Value::Null) | None => None,
            Some(_) => Some("one that is not shown, because it may be a secret".to_owned()),
        };
        self.lines
            .push(match (text(&difference.old), text(&difference.new)) {
                (Some(old), Some(new)) => format!("{what}: {old} became {new}"),
                (None, Some(new)) => format!("{what}: {new} is new"),
                (Some(old), None) => format!("{what}: {old} is gone"),
                (None, None) => format!("{what} differs"),
            });
    }

    /// Adds the line of a word of the command.
    fn word(&mut self, place: &str, difference: &Difference) {
        let what = match place {
            "0" => "the program of the server".to_owned(),
            _ => format!("argument {place} of the server"),
        };
        if difference.pointer.ends_with("/hidden") {
            let line = format!("{what} differs; it is not shown, because it may be a secret");
            return self.fixed(&line);
        }
        self.line(&what, difference);
    }

    fn file(&mut self, path: &str, difference: &Difference) {
        let how = match (&difference.old, &difference.new) {
            (Some(_), Some(_)) => "has another content",
            (None, _) => "is new",
            (_, None) => "is gone",
        };
        self.lines
            .push(format!("the file `{path}` of the server {how}"));
    }

    fn process(&mut self, difference: &Difference) {
        // The name of the proxy, and the number of processes of the server that have ended.
        let text = |value: &Option<Value>| {
            let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
            text.split_once(' ')
                .map(|(proxy, ends)| (proxy.to_owned(), ends.to_owned()))
        };
        // A name may be absent, because the first process of a server has none with `stateless`.
        let was_started_again = match (text(&difference.old), text(&difference.new)) {
            (Some((old, _)), Some((new, _))) => old == new,
            (Some((_, ends)), None) | (None, Some((_, ends))) => ends != "0",
            (None, None) => false,
        };
        self.fixed(if was_started_again {
            "the process of the server ended and was started again"
        } else {
            "another process of the server; answers to tools are shared by processes if the policy says `stateless: true`"
        });
    }

    fn finish(mut self) -> Vec<String> {
        let lines = self.variables.lines("the environment variable");
        let headers = self.headers.lines("the header");
        self.lines.extend(lines.chain(headers));
        if self.is_other_url && !self.has_other_address {
            self.fixed("the URL of the server differs behind its host; it is not shown, because it may hold a secret");
        }
        if self.is_other_server && !self.has_other_parts {
            self.fixed("the server is started in another way, in a part that is not shown");
        }
        if self.is_other_info && !self.has_other_version {
            self.fixed("the server describes itself in another way (`serverInfo`)");
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(of: &[(&str, Value, Value)]) -> Vec<String> {
        let some = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
        let differences: Vec<Difference> = of
            .iter()
            .map(|(pointer, old, new)| Difference {
                pointer: (*pointer).to_owned(),
                old: some(old),
                new: some(new),
            })
            .collect();
        let (plain, others) = plain_differences(&differences);
        assert!(others.is_empty(), "{others:?}");
        plain
    }

    #[test]
    fn values_that_may_be_secrets_are_named_only() {
        assert_eq!(
            lines(&[
                ("/server/digest", json!("a"), json!("b")),
                ("/server/parts/environment/12", json!("TOKEN"), json!(null)),
                ("/server/parts/environment/13", json!(null), json!("TOKEN")),
                ("/server/parts/environment/14", json!(null), json!("X")),
                ("/server/parts/command/2/hidden", json!("1"), json!("2")),
                (
                    "/server/parts/command/3",
                    json!("a-b"),
                    json!({"hidden": "2"})
                ),
            ]),
            [
                "argument 2 of the server differs; it is not shown, because it may be a secret",
                "argument 3 of the server: `a-b` became one that is not shown, because it may be a secret",
                "the environment variable `TOKEN` has another value",
                "the environment variable `X` is new",
            ]
        );
        assert_eq!(
            lines(&[
                ("/server/digest", json!("a"), json!("b")),
                ("/server/parts/url", json!("a"), json!("b")),
            ]),
            [
                "the URL of the server differs behind its host; it is not shown, because it may hold a secret"
            ]
        );
    }

    #[test]
    fn another_process_is_told_from_one_that_was_started_again() {
        let another = "another process of the server; answers to tools";
        let again = "the process of the server ended and was started again";
        for (old, new, line) in [
            (json!("a 0"), json!("b 0"), another),
            // Another proxy, also if a process has ended before.
            (json!("a 1"), json!("b 0"), another),
            (json!("a 0"), json!("b 1"), another),
            (json!("a 0"), json!("a 1"), again),
            // With `stateless`, the first process of a server has no name.
            (json!(null), json!("b 1"), again),
            (json!("a 1"), json!(null), again),
            (json!(null), json!("b 0"), another),
        ] {
            let lines = lines(&[("/process", old, new)]);
            assert!(lines.len() == 1 && lines[0].starts_with(line), "{lines:?}");
        }
    }

    #[test]
    fn arguments_keep_their_pointers() {
        let difference = Difference {
            pointer: "/arguments/path".to_owned(),
            old: Some(json!("a")),
            new: Some(json!("b")),
        };
        let (plain, others) = plain_differences(std::slice::from_ref(&difference));
        assert_eq!((plain.len(), others), (0, vec![&difference]));
    }
}
