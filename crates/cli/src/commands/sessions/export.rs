//! Export of conversations as JSON lines.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use cachalot_core::clock::iso8601;
use cachalot_model::Message;
use cachalot_prompt::{Level, Session, SessionFilter, Sessions};
use serde_json::json;

use super::absent;
use crate::command_error::{CommandError, Result};
use crate::home::Home;
use crate::output_file::OutputFile;
use crate::render;
use crate::wiring::Warn;

/// Parameters of `sessions export`.
pub(super) struct Export<'a> {
    /// The sessions to export; if empty, all conversations that no other session continues.
    pub(super) ids: &'a [String],
    /// Includes conversations that other sessions continue.
    pub(super) all: bool,
    pub(super) out: &'a Path,
    pub(super) with_secrets: bool,
    pub(super) warn: Warn,
}

/// Conversations to export.
#[derive(Default)]
struct ExportSelection {
    conversations: Vec<ExportedConversation>,
    /// The number of conversations left out because they hold secrets.
    left_out: u64,
    /// The number of conversations left out because they cannot be read.
    unreadable: u64,
}

struct ExportedConversation {
    id: String,
    /// Identical sessions.
    also: Vec<String>,
}

impl Export<'_> {
    /// Exports the conversations. `home` is the location of the sessions: its files are refused as output.
    pub(super) async fn run(&self, sessions: &Sessions, home: &Home) -> Result<()> {
        let mut chosen = match self.ids {
            [] => self.select_from_tree(sessions).await?,
            ids => self.select_named(sessions, ids).await?,
        };
        let mut output_file = OutputFile::new(self.out, home)?;
        let exported = self.write(sessions, &mut chosen, &mut output_file).await?;
        output_file.persist()?;
        let mut told = format!(
            "exported {}",
            render::count(exported, "conversation", "conversations")
        );
        match chosen.left_out {
            0 => {}
            1 => told += ", left out 1 that holds secrets (--with-secrets includes it)",
            count => {
                told +=
                    &format!(", left out {count} that hold secrets (--with-secrets includes them)");
            }
        }
        render::err(&told);
        match chosen.unreadable {
            0 => Ok(()),
            count => Err(CommandError::failed(format!(
                "{} cannot be read, and not exported",
                render::count(count, "session", "sessions")
            ))),
        }
    }

    /// Chooses all conversations, in the order of the tree.
    async fn select_from_tree(&self, sessions: &Sessions) -> Result<ExportSelection> {
        let tree = sessions.tree(&SessionFilter::default()).await?;
        for (_, error) in &tree.unreadable {
            (self.warn)(&error.to_string());
        }
        let secret = self.secret(sessions).await?;
        let groups: Vec<Vec<&str>> = if self.all {
            let ends = tree.runs.iter().flat_map(|run| &run.ends);
            let names = ends.map(|end| &end.name).chain(&tree.empty);
            names.map(|name| vec![name.as_str()]).collect()
        } else {
            let leaves = tree.leaves();
            leaves
                .map(|ends| ends.iter().map(|end| &*end.name).collect())
                .collect()
        };
        let mut chosen = ExportSelection {
            unreadable: tree.unreadable.len() as u64,
            ..ExportSelection::default()
        };
        for group in groups {
            let holds = |name: &&str| secret.get(*name).copied().unwrap_or_default();
            let mut names = group.iter().map(|name| (*name).to_owned());
            match names.next() {
                Some(_) if !self.with_secrets && group.iter().any(holds) => chosen.left_out += 1,
                Some(id) => chosen.conversations.push(ExportedConversation {
                    id,
                    also: names.collect(),
                }),
                None => {}
            }
        }
        Ok(chosen)
    }

    /// Chooses the named sessions; one that cannot be exported is an error.
    async fn select_named(&self, sessions: &Sessions, ids: &[String]) -> Result<ExportSelection> {
        let secret = self.secret(sessions).await?;
        let mut chosen = ExportSelection::default();
        for id in ids {
            let id = sessions.resolve(id).await?.ok_or_else(|| absent(id))?;
            if !self.with_secrets && secret.get(&id).copied().unwrap_or_default() {
                return Err(CommandError::failed(format!(
                    "the session `{id}` holds something that was known as a secret when it was \
                     written: --with-secrets exports it all the same"
                )));
            }
            if chosen.conversations.iter().all(|other| other.id != id) {
                chosen.conversations.push(ExportedConversation {
                    id,
                    also: Vec::new(),
                });
            }
        }
        Ok(chosen)
    }

    /// Writes one line for each session that still exists, and returns the number of lines. One session is in memory at a
    /// time. Leaves out sessions that hold secrets since they were chosen.
    async fn write(
        &self,
        sessions: &Sessions,
        chosen: &mut ExportSelection,
        to: &mut impl Write,
    ) -> Result<u64> {
        let mut written = 0;
        for conversation in &chosen.conversations {
            let found = sessions.open(&conversation.id).await?;
            // If this session is gone, its id may be the beginning of another one's id.
            let Some(session) = found.filter(|session| session.head.id == conversation.id) else {
                continue;
            };
            if session.holds_secrets() && !self.with_secrets {
                chosen.left_out += 1;
                continue;
            }
            to.write_all(&line(&session, &conversation.also)?)?;
            written += 1;
        }
        Ok(written)
    }

    /// Returns for each session whether it holds secrets.
    async fn secret(&self, sessions: &Sessions) -> Result<HashMap<String, bool>> {
        let listed = sessions.list(&SessionFilter::default()).await?;
        Ok(listed
            .into_iter()
            .filter_map(|summary| Some((summary.id, summary.state.ok()?.holds_secrets)))
            .collect())
    }
}

/// Formats a session. Tools and system text are the bytes that were sent.
fn line(session: &Session, also: &[String]) -> Result<Vec<u8>> {
    let head = &session.head;
    let mut fields = json!({
        "session": head.id, "agent": head.agent, "provider": head.provider, "model": head.model,
        "format": head.format, "parent": head.parent, "created": iso8601(head.created),
    });
    if !also.is_empty() {
        fields["also"] = json!(also);
    }
    let mut line = serde_json::to_vec(&fields).map_err(std::io::Error::from)?;
    // The closing brace. The pieces follow as the bytes that were sent, which a JSON value could not keep.
    line.pop();
    let nodes = session.prompt.nodes();
    for (name, level) in [("tools", Level::Tool), ("system", Level::System)] {
        let pieces = nodes.iter().filter(|node| node.level == level);
        let pieces: Vec<&[u8]> = pieces.map(|node| &node.bytes[..]).collect();
        line.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        line.extend(pieces.join(&b','));
        line.push(b']');
    }
    line.extend_from_slice(b",\"messages\":");
    let messages = session.prompt.messages();
    let messages: Vec<&Message> = messages.iter().map(|message| &**message).collect();
    serde_json::to_writer(&mut line, &messages).map_err(std::io::Error::from)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}
