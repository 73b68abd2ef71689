//! The environment of a command.

use std::collections::BTreeMap;

use cachalot_core::secret::redact_value;
use cachalot_core::{Secret, SecretSet};
use cachalot_operation::ToolContext;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::json;
use tokio::process::Command;

use super::CommandSettings;

/// The environment of the commands of a toolset.
pub(in crate::builtin) struct CommandEnvironment {
    /// Variables that replace inherited ones of the same name.
    variables: BTreeMap<String, Secret<String>>,
    /// Names of variables that are passed on although they look like credentials.
    passed: GlobSet,
}

impl CommandEnvironment {
    /// Creates an environment from the settings of a toolset.
    ///
    /// # Errors
    /// If an entry of [`CommandSettings::pass`] is not a valid pattern.
    pub(in crate::builtin) fn new(settings: &CommandSettings) -> Result<Self, globset::Error> {
        let mut passed = GlobSetBuilder::new();
        for pattern in &settings.pass {
            passed.add(Glob::new(pattern)?);
        }
        Ok(Self {
            variables: settings.environment.clone(),
            passed: passed.build()?,
        })
    }

    /// Sets the environment of a command.
    pub(in crate::builtin) fn apply(&self, command: &mut Command, context: &ToolContext) {
        command.env_clear().envs(inherited_variables(
            &context.environment,
            &self.passed,
            &context.secret_set,
        ));
        for (name, value) in &self.variables {
            command.env(name, value.expose());
        }
        // After the settings: any other directory for temporary files is not visible in the sandbox.
        if let Some(sandbox) = &context.sandbox {
            command.env("TMPDIR", &sandbox.temporary);
        }
    }
}

/// Returns the variables that a command gets: all except those that look like credentials, unless their name
/// is among `passed`.
fn inherited_variables<'a>(
    environment: &'a BTreeMap<String, String>,
    passed: &GlobSet,
    secret_set: &SecretSet,
) -> BTreeMap<&'a str, &'a str> {
    environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, value)| {
            passed.is_match(name) || !looks_like_a_credential(name, value, secret_set)
        })
        .collect()
}

/// True if a variable looks like a credential: by its name (`GITHUB_TOKEN`), by its shape (a provider's key,
/// a URL with a password), or because it contains a known secret.
pub fn looks_like_a_credential(name: &str, value: &str, secret_set: &SecretSet) -> bool {
    // The rules that mask results decide, so that a value that would be masked in an output is not passed on either.
    let variable = json!({ name: value });
    let mut masked = variable.clone();
    redact_value(&mut masked, secret_set);
    masked != variable && !value.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;

    #[test]
    fn credential_variables_are_passed_only_if_named() {
        let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
        secret_set.learn("swordfish");
        let environment: BTreeMap<String, String> = [
            ("PATH", "/bin"),
            ("HOME", "/home/me"),
            ("OPENAI_API_KEY", "abc"),
            ("GITHUB_TOKEN", "abc"),
            ("DATABASE_URL", "postgres://me:pass@host/db"),
            ("PLAIN", "it is swordfish"),
            ("EMPTY_TOKEN", ""),
            ("MONKEY", "banana"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let names = |passed: &[&str]| {
            let mut set = GlobSetBuilder::new();
            for pattern in passed {
                set.add(Glob::new(pattern).unwrap());
            }
            let kept = inherited_variables(&environment, &set.build().unwrap(), &secret_set);
            kept.into_keys().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[]), "EMPTY_TOKEN HOME MONKEY PATH");
        assert_eq!(
            names(&["GITHUB_*"]),
            "EMPTY_TOKEN GITHUB_TOKEN HOME MONKEY PATH"
        );
        assert_eq!(names(&["*"]).split(' ').count(), environment.len());
    }
}
