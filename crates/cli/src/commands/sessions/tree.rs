//! Tree of the prefixes that sessions share.

use std::collections::HashMap;
use std::io::IsTerminal as _;

use cachalot_prompt::{
    Level, PrefixTree, PromptEnd, SessionFilter, SessionOverview, Sessions, TreeRun,
};
use serde_json::{Value, json};

use crate::command_error::Result;
use crate::render;
use crate::render::table::{cut_end, headline};
use crate::render::visible::on_one_line;

/// Prints the tree of all sessions, or of those of one agent.
pub(super) async fn tree(sessions: &Sessions, agent: Option<&str>, as_json: bool) -> Result<()> {
    let listing = SessionFilter {
        agent,
        ..SessionFilter::default()
    };
    let tree = sessions.tree(&listing).await?;
    let listed = sessions.list(&listing).await?;
    let known = listed
        .into_iter()
        .filter_map(|summary| Some((summary.id, summary.state.ok()?)));
    let family = SessionTree {
        tree: &tree,
        known: known.collect(),
    };
    if as_json {
        return render::json(&family.json());
    }
    if tree.sharing.prompts == 0 && tree.unreadable.is_empty() {
        render::err("there are no sessions: `cachalot chat FILE` begins one");
        return Ok(());
    }
    render::out(&(headline(&family.sum()) + "\n" + &family.drawn(lines())))
}

/// Draws the tree of conversations that are not stored sessions.
pub(crate) fn drawn(tree: &PrefixTree) -> String {
    let known = HashMap::new();
    SessionTree { tree, known }.drawn(lines())
}

/// Returns the same as JSON.
pub(crate) fn json(tree: &PrefixTree) -> Value {
    let known = HashMap::new();
    SessionTree { tree, known }.json()
}

fn lines() -> &'static TreeGlyphs {
    if std::io::stdout().is_terminal() {
        &BOXES
    } else {
        &PLAIN
    }
}

/// Prefixes of drawn lines.
struct TreeGlyphs {
    /// Prefix of a run, and of the lines below it, if another run of the same parent follows.
    follows: [&'static str; 2],
    /// Prefixes for the last run of a parent.
    last: [&'static str; 2],
}

const BOXES: TreeGlyphs = TreeGlyphs {
    follows: ["├─ ", "│  "],
    last: ["└─ ", "   "],
};

const PLAIN: TreeGlyphs = TreeGlyphs {
    follows: ["  ", "  "],
    last: ["  ", "  "],
};

/// A tree, and the sessions in it by id.
struct SessionTree<'a> {
    tree: &'a PrefixTree,
    known: HashMap<String, SessionOverview>,
}

impl SessionTree<'_> {
    /// Returns the session that this one was forked from or that delegated a task to it, and true if it
    /// continues the prefix of that session.
    fn parent(&self, name: &str) -> Option<(&str, bool)> {
        let head = &self.known.get(name)?.head;
        Some((head.parent.as_deref()?, head.origin.is_some()))
    }

    fn drawn(&self, lines: &TreeGlyphs) -> String {
        let mut text = String::new();
        // Prefix of the lines below each run.
        let mut below: Vec<String> = Vec::with_capacity(self.tree.runs.len());
        for (at, run) in self.tree.runs.iter().enumerate() {
            let (before, [branch, after]) = match run.parent {
                None => ("", ["", ""]),
                Some(parent) => {
                    let is_last = self.tree.runs[parent].children.last() == Some(&at);
                    let drawn = if is_last { lines.last } else { lines.follows };
                    (&*below[parent], drawn)
                }
            };
            let line = format!("{before}{branch}{}", described(run));
            text += &format!("{}\n", cut_end(&line));
            let mine = format!("{before}{after}");
            let bar = if run.children.is_empty() {
                lines.last[1]
            } else {
                lines.follows[1]
            };
            for end in &run.ends {
                text += &format!("{mine}{bar}  {}\n", self.ended(run, end));
            }
            below.push(mine);
        }
        for name in &self.tree.empty {
            text += &format!("{}{}\n", self.session(name), ", without a prompt");
        }
        for (id, error) in &self.tree.unreadable {
            text += &format!("{}: {}\n", on_one_line(id), on_one_line(&error.to_string()));
        }
        text
    }

    /// Formats a session that ends in a run.
    fn ended(&self, run: &TreeRun, end: &PromptEnd) -> String {
        let mut text = self.session(&end.name);
        let inner = end.pieces - run.pieces_before;
        if inner < run.pieces {
            text += &format!(", ends after {inner} of {} pieces", run.pieces);
        }
        text
    }

    fn session(&self, name: &str) -> String {
        let mut text = on_one_line(name);
        if let Some(SessionOverview { head, .. }) = self.known.get(name) {
            let whose = format!("  {} ({}/{})", head.agent, head.provider, head.model);
            text += &on_one_line(&whose);
        }
        match self.parent(name) {
            Some((parent, true)) => text += &format!(", fork of {}", on_one_line(parent)),
            Some((parent, false)) => text += &format!(", of {}", on_one_line(parent)),
            None => {}
        }
        text
    }

    fn sum(&self) -> String {
        let sharing = &self.tree.sharing;
        format!(
            "{}, {} · {} if each is sent by itself, {} stored · {} shared · dedup ratio {:.2}",
            render::count(sharing.prompts, "session", "sessions"),
            render::count(sharing.leaves, "leaf", "leaves"),
            render::bytes(sharing.sent_bytes),
            render::bytes(sharing.stored_bytes),
            render::bytes(sharing.shared_bytes()),
            sharing.dedup_ratio(),
        )
    }

    fn json(&self) -> Value {
        let runs = self.tree.runs.iter().map(|run| {
            let sessions: Vec<Value> = run.ends.iter().map(|end| self.end_json(end)).collect();
            json!({
                "parent": run.parent, "from": run.levels.0.to_string(),
                "to": run.levels.1.to_string(), "pieces_before": run.pieces_before,
                "messages_before": run.messages_before, "pieces": run.pieces,
                "messages": run.messages, "bytes": run.bytes, "tokens": run.tokens,
                "words": run.words, "shared_by": run.prompts, "sessions": sessions,
            })
        });
        let unreadable = self.tree.unreadable.iter();
        let unreadable =
            unreadable.map(|(id, error)| json!({"id": id, "error": error.to_string()}));
        let sharing = &self.tree.sharing;
        json!({
            "runs": runs.collect::<Vec<_>>(), "empty": self.tree.empty,
            "unreadable": unreadable.collect::<Vec<_>>(), "sessions": sharing.prompts,
            "leaves": sharing.leaves, "pieces": sharing.pieces, "sent_bytes": sharing.sent_bytes,
            "stored_bytes": sharing.stored_bytes, "shared_bytes": sharing.shared_bytes(),
            "dedup_ratio": sharing.dedup_ratio(),
        })
    }

    fn end_json(&self, end: &PromptEnd) -> Value {
        let mut told = json!({"id": end.name, "pieces": end.pieces, "bytes": end.bytes});
        if let Some(SessionOverview { head, .. }) = self.known.get(&end.name) {
            told["agent"] = json!(head.agent);
            told["provider"] = json!(head.provider);
            told["model"] = json!(head.model);
        }
        if let Some((parent, forked)) = self.parent(&end.name) {
            told["parent"] = json!(parent);
            told["forked"] = json!(forked);
        }
        told
    }
}

fn described(run: &TreeRun) -> String {
    let mut text = format!(
        "{} · {} · about {}",
        place(run),
        render::bytes(run.bytes),
        render::count(run.tokens, "token", "tokens"),
    );
    if run.prompts > 1 {
        text += &format!(" · {} sessions", render::grouped(run.prompts));
    }
    if let Some(words) = &run.words {
        text += &format!(" · \"{}\"", on_one_line(words));
    }
    text
}

/// Describes the part of the prompt in a run: `tools to message 4`, `messages 5–8`.
fn place(run: &TreeRun) -> String {
    let (first, last) = (run.messages_before + 1, run.messages_before + run.messages);
    match run.levels {
        (Level::Message, _) if run.messages == 0 => format!("the rest of message {last}"),
        (Level::Message, _) if run.messages == 1 => format!("message {first}"),
        (Level::Message, _) => format!("messages {first}–{last}"),
        (from, Level::Message) => format!("{from} to message {last}"),
        (from, to) if from == to => from.to_string(),
        (from, to) => format!("{from} to {to}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::Format;
    use cachalot_model::wire::CHAT;
    use cachalot_prompt::{Origin, PrefixTreeBuilder, Prompt, SessionHead, SessionTotals};

    use super::*;

    fn prompt(before: &Prompt, text: &str) -> Prompt {
        let message = std::sync::Arc::new(cachalot_model::Message::user(text));
        before.append(&CHAT.message(&message).unwrap(), message)
    }

    fn overview(id: &str, parent: Option<&str>, forked: bool) -> (String, SessionOverview) {
        let origin = || Origin {
            session: "main".to_owned(),
            created: 0,
        };
        let head = SessionHead {
            parent: parent.map(str::to_owned),
            origin: forked.then(origin),
            ..SessionHead::new(id, "root", "openai", "gpt-4o", Format::Chat)
        };
        let overview = SessionOverview {
            head,
            totals: SessionTotals::default(),
            messages: 0,
            pieces: 0,
            bytes: 0,
            prompt: None,
            holds_secrets: false,
        };
        (id.to_owned(), overview)
    }

    #[test]
    fn drawn_tree_shows_its_messages() {
        let begun = Prompt::begin(&[], &[CHAT.system("You help.")]);
        let asked = prompt(&begun, "a\u{7}sked");
        let main = prompt(&prompt(&asked, "one"), "two");
        let mut forest = PrefixTreeBuilder::default();
        forest.insert("short", &asked);
        forest.insert("main", &main);
        let review = prompt(&asked, "review");
        forest.insert("review", &prompt(&review, "a"));
        forest.insert("again", &prompt(&review, "b"));
        forest.insert("task", &prompt(&begun, "a task"));
        let tree = forest.tree();
        let known = [
            overview("main", None, false),
            overview("review", Some("main"), true),
            overview("task", Some("main"), false),
        ];
        let family = SessionTree {
            tree: &tree,
            known: known.into_iter().collect(),
        };
        let drawn = family.drawn(&BOXES);
        // Sizes are tested elsewhere.
        let lines: Vec<String> = drawn
            .lines()
            .map(|line| {
                let mut parts: Vec<&str> = line.split(" · ").collect();
                parts.retain(|part| !part.ends_with(" B") && !part.ends_with(" tokens"));
                parts.join(" · ")
            })
            .collect();
        assert_eq!(
            lines[..12],
            [
                "system · 5 sessions",
                "├─ message 1 · 4 sessions · \"a␇sked\"",
                "│  │    short",
                "│  ├─ messages 2–3 · \"one\"",
                "│  │       main  root (openai/gpt-4o)",
                "│  └─ message 2 · 2 sessions · \"review\"",
                "│     ├─ message 3 · \"a\"",
                "│     │       review  root (openai/gpt-4o), fork of main",
                "│     └─ message 3 · \"b\"",
                "│             again",
                "└─ message 1 · \"a task\"",
                "        task  root (openai/gpt-4o), of main",
            ]
        );
        let sum = family.sum();
        assert!(sum.starts_with("5 sessions, 4 leaves · "), "{sum}");
        let plain = family.drawn(&PLAIN);
        assert!(!plain.contains(['│', '├', '└']), "{plain}");
        assert!(plain.contains("\n    messages 2–3 · "), "{plain}");
    }
}
