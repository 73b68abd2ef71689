//! The file with `mcpServers` that clients have.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::variables::expanded;

/// A server of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEntry {
    /// A program that speaks stdio.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Variables in addition to those of this process.
        environment: BTreeMap<String, String>,
        /// The working directory.
        directory: Option<String>,
    },
    /// A server that speaks streamable HTTP.
    Url {
        /// The URL of its endpoint.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// Reads the servers of a file, in its order. `${NAME}` and `${NAME:-DEFAULT}` are replaced by variables.
///
/// # Errors
/// If the file is not as clients have it, as a sentence for the user.
pub fn read_servers(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<(String, ServerEntry)>, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let servers = root["mcpServers"].as_object();
    let servers = servers.ok_or("there is no object `mcpServers` in it")?;
    let is_enabled = |entry: &Value| {
        entry["disabled"] != Value::Bool(true) && entry["enabled"] != Value::Bool(false)
    };
    let read = servers
        .iter()
        .filter(|(_, entry)| is_enabled(entry))
        .map(|(name, entry)| {
            let entry = read_entry(entry, environment).map_err(|why| format!("`{name}`: {why}"))?;
            Ok((name.clone(), entry))
        });
    let read: Vec<_> = read.collect::<Result<_, String>>()?;
    if read.is_empty() {
        return Err("`mcpServers` has no server".to_owned());
    }
    Ok(read)
}

fn read_entry(
    entry: &Value,
    environment: &BTreeMap<String, String>,
) -> Result<ServerEntry, String> {
    let text = |name: &str| -> Result<Option<String>, String> {
        match &entry[name] {
            Value::Null => Ok(None),
            Value::String(text) => expanded(text, environment).map(Some),
            _ => Err(format!("`{name}` has to be a text")),
        }
    };
    let texts = |name: &str| -> Result<BTreeMap<String, String>, String> {
        let none = Map::new();
        let members = match &entry[name] {
            Value::Null => &none,
            Value::Object(members) => members,
            _ => return Err(format!("`{name}` has to be an object of texts")),
        };
        let pairs = members.iter().map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), expanded(text, environment)?)),
            _ => Err(format!("`{name}.{key}` has to be a text")),
        });
        pairs.collect()
    };
    match (text("command")?, text("url")?) {
        (Some(command), None) => {
            let arguments = match &entry["args"] {
                Value::Null => Vec::new(),
                Value::Array(arguments) => {
                    let texts = arguments.iter().map(|argument| match argument {
                        Value::String(text) => expanded(text, environment),
                        _ => Err("`args` has to be a list of texts".to_owned()),
                    });
                    texts.collect::<Result<_, _>>()?
                }
                _ => return Err("`args` has to be a list of texts".to_owned()),
            };
            Ok(ServerEntry::Program {
                command,
                arguments,
                environment: texts("env")?,
                directory: text("cwd")?,
            })
        }
        (None, Some(_)) if entry["type"] == "sse" => {
            Err("the transport `sse` is not supported; name the URL of streamable HTTP".to_owned())
        }
        (None, Some(url)) => Ok(ServerEntry::Url {
            url,
            headers: texts("headers")?,
        }),
        (Some(_), Some(_)) => Err("it has both `command` and `url`".to_owned()),
        (None, None) => Err("it has neither `command` nor `url`".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_clients_are_read() {
        let environment = BTreeMap::from([("HOME".to_owned(), "/home/a".to_owned())]);
        let text = r#"{"mcpServers": {
            "files": {"command": "srv", "args": ["${HOME}/x", "${NONE:-d}"], "env": {"A": "1"}},
            "off": {"command": "x", "disabled": true},
            "web": {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "${HOME}"}}}}"#;
        let read = read_servers(text, &environment).unwrap();
        assert_eq!(read.len(), 2);
        let ServerEntry::Program { arguments, .. } = &read[0].1 else {
            panic!("{read:?}");
        };
        assert_eq!(*arguments, ["/home/a/x", "d"]);
        for (wrong, why) in [
            ("{}", "mcpServers"),
            (r#"{"mcpServers": {}}"#, "no server"),
            (r#"{"mcpServers": {"a": {}}}"#, "`a`: it has neither"),
            (
                r#"{"mcpServers": {"a": {"command": "${NONE}"}}}"#,
                "`NONE` is not set",
            ),
        ] {
            let error = read_servers(wrong, &environment).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
