//! The settings that decide whether a server has all acknowledged writes when it starts again.

use std::collections::HashMap;

use cachalot_store::{Error, ErrorKind};
use redis::{Cmd, Value};

use super::record::text;

/// The settings, with the value that each must have.
const NEEDED: [(&str, &str); 3] = [
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("no-appendfsync-on-rewrite", "no"),
];

/// The settings of the append-only file.
pub(super) struct AppendFile(HashMap<String, String>);

impl AppendFile {
    /// Returns the command that asks for them. Users need the right `+config|get` for it.
    pub(super) fn question() -> Cmd {
        let mut get = redis::cmd("CONFIG");
        // Version 6.2 accepts one pattern.
        get.arg("GET").arg("*append*");
        get
    }

    /// # Errors
    /// If the reply is none of names and values.
    pub(super) fn read(reply: Value) -> Result<Self, Error> {
        let texts = match reply {
            Value::Array(texts) => texts,
            Value::Map(pairs) => pairs
                .into_iter()
                .flat_map(|(name, value)| [name, value])
                .collect(),
            _ => return Err(super::record::damaged("settings")),
        };
        let mut texts = texts.into_iter();
        let mut settings = HashMap::new();
        while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
            settings.insert(text(name)?, text(value)?);
        }
        Ok(Self(settings))
    }

    /// Returns the first setting that loses writes, and the value that it must have.
    fn fault(&self) -> Option<(&'static str, &str, &'static str)> {
        let setting = |(name, needed): (&'static str, &'static str)| {
            let value = self.0.get(name).map_or("unknown", String::as_str);
            (name, value, needed)
        };
        let mut settings = NEEDED.into_iter().map(setting);
        settings.find(|(_, value, needed)| value != needed)
    }

    /// True if the server has all acknowledged writes when it starts again.
    pub(super) fn keeps_all(&self) -> bool {
        self.fault().is_none()
    }

    /// # Errors
    /// If the server may lose writes when it starts again.
    pub(super) fn check(&self, location: &str) -> Result<(), Error> {
        let Some((name, value, needed)) = self.fault() else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{location} may lose writes when it starts again ({name} {value}), and `settings.ltm.durable` says that it \
                 does not: set {name} to {needed}, or remove `durable`"
            ),
        ))
    }
}

/// Error for a server that does not tell its settings.
pub(super) fn unknown(location: &str, error: &Error) -> Error {
    let message = format!(
        "the settings of {location} cannot be read, and `settings.ltm.durable` needs them: give the user the right \
         +config|get, or remove `durable` ({error})"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/redis/append_file.rs"]
mod tests;
