//! The fenced blocks of the documents, and what the words after the language of a fence mean.
//!
//! `yaml`: an agent file, which must be valid and run to its end offline.
//! - `fragment=node`: one or more nodes, put under `nodes:` of an agent file first.
//! - `fragment=file`: keys of an agent file without its nodes; a node is added, and an agent where
//!   there are keys that only agents need.
//! - `fragment=agent`: keys of an agent, put under `agents:` of a team first.
//! - `fragment=mcp`: a policy of the MCP proxy, which must be valid.
//! - `fragment=hooks`: a file of hooks; the same, but for what `file` writes.
//! - `team`: a team of agents, which must be valid; it is talked to, and not run.
//! - `input=…`: handed to `--input`; may be repeated.
//! - `file=NAME`: also written under this name where the commands of the document run; a fragment of
//!   an agent as the whole agent file.
//! - `exit=N`: how the run ends, if not with 0.
//! - `wrong=CODE`: `validate` must refuse it with a problem of this code, and only such.
//! - `needs=PROGRAM`: it is run only where there is this program.
//! - `no-run=REASON`: it must be valid, but is not run.
//!
//! `json`: must be JSON.
//! - `file=NAME`: as above.
//! - `state`: every field must be in the final state of the `yaml` block before it, with this value;
//!   the text `"…"` stands for any value, and within a text `…` for any part.
//!
//! `sh`: commands, one a line, each of which must succeed. `console`: commands after `$ `, and what
//! they print (on both streams), `…` standing for any part of a line and, alone, for any lines.
//! - `fresh`: in a new home, as if nothing had been run before.
//! - `exit=N`: how the last command ends, if not with 0.
//! - `no-run=REASON`: not run here.
//! - `file=NAME`, of `sh`: a script, written under this name instead.
//!
//! `text`, `rust`, `toml`: for people to read.

use crate::files;

/// A fenced block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) document: String,
    /// The line of the fence, from 1.
    pub(crate) line: usize,
    pub(crate) language: Language,
    pub(crate) markers: Vec<(Marker, String)>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Yaml,
    Json,
    Sh,
    Console,
    Prose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Fragment,
    Input,
    File,
    Exit,
    Wrong,
    Needs,
    NoRun,
    State,
    Fresh,
    Team,
}

impl Block {
    /// Returns whether it is a team, or a part of one.
    pub(crate) fn is_team(&self) -> bool {
        let fragment = self.marker(Marker::Fragment);
        self.marker(Marker::Team).is_some() || matches!(fragment, Some("agent" | "hooks"))
    }

    /// The value of a marker.
    pub(crate) fn marker(&self, marker: Marker) -> Option<&str> {
        self.all(marker).next()
    }

    /// All values of a marker.
    pub(crate) fn all(&self, marker: Marker) -> impl Iterator<Item = &str> {
        self.markers
            .iter()
            .filter(move |(found, _)| *found == marker)
            .map(|(_, value)| value.as_str())
    }

    /// The expected exit of the run.
    pub(crate) fn exit(&self) -> i32 {
        self.marker(Marker::Exit)
            .map_or(0, |code| code.parse().expect("exit=N"))
    }

    /// The place, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }
}

/// The blocks of all documents, in their order.
pub(crate) fn all() -> Vec<Block> {
    files::documents()
        .iter()
        .flat_map(|document| read(document, &files::text(document)))
        .collect()
}

/// The blocks of a document.
///
/// # Panics
/// If a fence is not closed, has no language or an unknown one, or has an unknown marker.
pub(crate) fn read(document: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut body = String::new();
        let closed = lines.by_ref().any(|(_, line)| {
            let is_end = line.trim() == "```";
            if !is_end {
                body.push_str(line.get(indent..).unwrap_or_default());
                body.push('\n');
            }
            is_end
        });
        let place = format!("{document}:{}", number + 1);
        assert!(closed, "{place}: the fence is not closed");
        let (language, markers) = parse(info, &place);
        blocks.push(Block {
            document: document.to_owned(),
            line: number + 1,
            language,
            markers,
            text: body,
        });
    }
    blocks
}

fn parse(info: &str, place: &str) -> (Language, Vec<(Marker, String)>) {
    let mut words = info.split_whitespace();
    let (language, known): (_, &[&str]) = match words.next() {
        Some("yaml") => (
            Language::Yaml,
            &[
                "fragment", "input", "file", "exit", "wrong", "needs", "no-run", "team",
            ],
        ),
        Some("json") => (Language::Json, &["state", "file"]),
        Some("sh") => (Language::Sh, &["fresh", "exit", "no-run", "file"]),
        Some("console") => (Language::Console, &["fresh", "exit", "no-run"]),
        Some("text" | "rust" | "toml") => (Language::Prose, &[]),
        other => {
            panic!("{place}: no block has the language {other:?}: use one of those in blocks.rs")
        }
    };
    let markers = words.map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        assert!(
            known.contains(&name),
            "{place}: `{name}` is no marker of such a block: see blocks.rs"
        );
        let marker = match name {
            "fragment" => Marker::Fragment,
            "input" => Marker::Input,
            "file" => Marker::File,
            "exit" => Marker::Exit,
            "wrong" => Marker::Wrong,
            "needs" => Marker::Needs,
            "no-run" => Marker::NoRun,
            "fresh" => Marker::Fresh,
            "team" => Marker::Team,
            _ => Marker::State,
        };
        let takes_value = !matches!(marker, Marker::State | Marker::Fresh | Marker::Team);
        assert_eq!(
            takes_value,
            !value.is_empty(),
            "{place}: `{name}` needs a value, or has one too many"
        );
        (marker, value.to_owned())
    });
    (language, markers.collect())
}

#[test]
fn every_fence_is_a_block_of_a_known_language() {
    let blocks = all();
    let fences: usize = files::documents()
        .iter()
        .map(|document| {
            files::text(document)
                .lines()
                .filter(|line| line.trim_start().starts_with("```"))
                .count()
        })
        .sum();
    assert_eq!(fences, 2 * blocks.len());
    for language in [
        Language::Yaml,
        Language::Json,
        Language::Sh,
        Language::Console,
        Language::Prose,
    ] {
        let of_it = blocks.iter().filter(|block| block.language == language);
        println!("{:>3} blocks of {language:?}", of_it.count());
    }
    for language in [Language::Yaml, Language::Sh, Language::Console] {
        assert!(
            blocks.iter().any(|block| block.language == language),
            "no {language:?}: nothing is checked"
        );
    }
}

#[test]
#[should_panic(expected = "is no marker")]
fn an_unknown_marker_is_refused() {
    read("x.md", "```yaml frgment=node\n- name: a\n```\n");
}

#[test]
#[should_panic(expected = "no block has the language")]
fn a_fence_without_a_language_is_refused() {
    read("x.md", "```\ncachalot run x\n```\n");
}

#[test]
fn indented_blocks_lose_their_indentation() {
    let blocks = read(
        "x.md",
        "- a\n  ```sh exit=2\n  cachalot x\n    deeper\n  ```\n",
    );
    assert_eq!(blocks[0].text, "cachalot x\n  deeper\n");
    assert_eq!((blocks[0].exit(), blocks[0].line), (2, 2));
}
