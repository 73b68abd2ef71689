//! Members that chunks repeat.

use std::collections::HashMap;

use serde_json::Value;

use super::Object;

/// Members of all chunks of one kind. A member is kept if its meaning is the same under every rule of accumulation:
/// one chunk has a value for it, or all chunks have the same one.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// Members in the order of their first chunks; null if no chunk has a value.
    members: Object,
    /// Numbers of the chunks that have a value.
    counts: HashMap<String, usize>,
    chunks: usize,
}

impl Repeated {
    /// Adds a chunk, without the members in `others`, which have rules of their own. `None` if a member has two
    /// values.
    pub(crate) fn add(&mut self, chunk: &Object, others: &[&str]) -> Option<()> {
        self.chunks += 1;
        for (name, value) in chunk {
            if others.contains(&name.as_str()) {
                continue;
            }
            let known = self.members.entry(name.as_str()).or_insert(Value::Null);
            if value.is_null() {
                continue;
            }
            match known {
                Value::Null => known.clone_from(value),
                known if known == value => {}
                _ => return None,
            }
            *self.counts.entry(name.clone()).or_default() += 1;
        }
        Some(())
    }

    /// Returns the members. `None` if several chunks have a value for a member, but not all of them, or if it is one
    /// of `increments`, which may be equal by chance.
    pub(crate) fn finish(self, increments: &[&str]) -> Option<Object> {
        let is_clear = |(name, count): (&String, &usize)| {
            *count == 1 || (*count == self.chunks && !increments.contains(&name.as_str()))
        };
        self.counts.iter().all(is_clear).then_some(self.members)
    }
}
