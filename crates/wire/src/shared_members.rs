//! Members and types that have one meaning in all formats, and the tables of all formats.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::members::{MemberFacts, Members};
use crate::{Format, registry, table};

const BUILT_IN: &str = include_str!("../data/members.yaml");
const EMBEDDINGS: &str = include_str!("embeddings/members.yaml");
const GEMINI_EMBEDDINGS: &str = include_str!("gemini/embeddings.yaml");

/// The table of what all formats share.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedMembers {
    /// Members with data of the client's tools and with schemas, normalized.
    pub client_data: Vec<String>,
    /// Members at any depth that refer to objects at the provider, normalized.
    pub objects: BTreeSet<String>,
    /// Parts of names of members that show the work of a tool, normalized.
    pub traces: Vec<String>,
    /// Parts of the names of models that look something up without being asked to.
    pub searching_models: Vec<String>,
    /// Members of inputs whose strings are texts, normalized.
    pub texts: Vec<String>,
    /// Values of `role` of messages.
    pub roles: Vec<String>,
    /// Members of an answer that repeat the request.
    pub repeated: Vec<String>,
    /// Members that name a model, normalized.
    pub models: Vec<String>,
    /// Members and types of parts of a request whose tokens do not depend on their bytes, normalized.
    pub media: Vec<String>,
    /// Values of `type` of contents that have the price of texts.
    pub types: BTreeSet<String>,
    /// Members of a body that refer to objects at the provider, normalized: those of all formats.
    #[serde(skip)]
    pub request_objects: BTreeSet<String>,
}

impl SharedMembers {
    /// Returns the table of the program. Objects are those of all formats: a server may accept members of several APIs.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static TABLE: LazyLock<SharedMembers> = LazyLock::new(|| {
            let mut shared: SharedMembers = table::built_in("members.yaml", BUILT_IN);
            for members in all() {
                for (name, facts) in &members.request {
                    if facts.object {
                        shared.request_objects.insert(normalized(name));
                    }
                    shared.add_objects_in(facts);
                }
            }
            shared
        });
        &TABLE
    }

    fn add_objects_in(&mut self, facts: &MemberFacts) {
        for (name, facts) in &facts.members {
            if facts.object {
                self.objects.insert(normalized(name));
            }
            self.add_objects_in(facts);
        }
    }
}

/// Returns the table of embeddings in the API of a format.
#[must_use]
pub fn embeddings(format: Format) -> &'static Members {
    static OPENAI: LazyLock<Members> =
        LazyLock::new(|| Members::built_in("embeddings/members.yaml", EMBEDDINGS));
    static GEMINI: LazyLock<Members> =
        LazyLock::new(|| Members::built_in("gemini/embeddings.yaml", GEMINI_EMBEDDINGS));
    match format {
        Format::Gemini => &GEMINI,
        _ => &OPENAI,
    }
}

/// Returns the tables of all formats.
pub fn all() -> impl Iterator<Item = &'static Members> {
    registry::all()
        .map(|wire| wire.members())
        .chain([embeddings(Format::Chat), embeddings(Format::Gemini)])
}

/// Returns a name in small letters without `_` and `-`: servers accept several spellings.
#[must_use]
pub fn normalized(name: &str) -> String {
    signs(name).collect()
}

/// Returns the signs of the normalized name.
pub fn signs(name: &str) -> impl Iterator<Item = char> {
    let characters = name
        .chars()
        .filter(|character| !matches!(character, '_' | '-'));
    characters.map(|character| character.to_ascii_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::members::Effect;

    fn read(file: &str, text: &str) -> Members {
        table::read(file, text).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
    }

    #[test]
    fn built_in_tables_are_valid() {
        let shared: SharedMembers = table::read("members.yaml", BUILT_IN).unwrap();
        let normal = shared.client_data.iter().chain(&shared.traces);
        let normal = normal.chain(&shared.models).chain(&shared.media);
        for name in normal.chain(&shared.objects) {
            assert_eq!(&normalized(name), name);
        }
        for (file, text) in [
            ("chat", include_str!("chat/members.yaml")),
            ("responses", include_str!("responses/members.yaml")),
            ("messages", include_str!("messages/members.yaml")),
            ("gemini", include_str!("gemini/members.yaml")),
            ("interactions", include_str!("interactions/members.yaml")),
            ("embeddings", EMBEDDINGS),
            ("gemini embeddings", GEMINI_EMBEDDINGS),
        ] {
            let members = read(file, text);
            assert!(!members.request.is_empty() && !members.since.is_empty());
            for (name, facts) in &members.request {
                // A member that refers to an object is state.
                assert!(
                    !facts.object || facts.does == Effect::State,
                    "{file}: {name}"
                );
            }
            for name in &members.inputs {
                assert!(members.request.contains_key(name), "{file}: {name}");
            }
            for (kind, facts) in &members.parts {
                assert!(
                    matches!(facts.does, Effect::Answer | Effect::State),
                    "{file}: {kind}"
                );
            }
        }
    }

    #[test]
    fn objects_are_those_of_all_formats() {
        let shared = SharedMembers::built_in();
        for name in [
            "conversation",
            "prompt",
            "thread",
            "continuationtoken",
            "previousresponseid",
        ] {
            assert!(shared.request_objects.contains(name), "{name}");
        }
        for name in [
            "fileid",
            "comparisonresponseid",
            "previousmessageid",
            "continuationid",
        ] {
            assert!(shared.objects.contains(name), "{name}");
        }
    }
}
