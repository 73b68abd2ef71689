//! The tool `grep`.

mod hits;

use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::{Effects, Touched};
use cachalot_operation::Touches;
use cachalot_operation::permissions::SearchFilter;
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use self::hits::{Found, Hits};
use super::media::Media;
use super::opening::{cannot, open_directory, open_file};
use super::source::Source;
use super::walk::{Visit, Walk, noticed, shown, touched};
use super::{counted, denied, reader, reading, searchable, searching, typed};
use crate::blocking::{Abandoned, blocking};
use crate::tool::{About, Arguments, Context, Output, Tool};
use crate::workspace::{self, Directory, Entry, Kind};

/// Default maximum number of matches, or files, that are shown.
const LIMIT: usize = 200;

pub(super) struct Grep {
    about: About,
}

#[derive(Deserialize)]
struct Asked {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    case_insensitive: Option<bool>,
    context: Option<usize>,
    output: Option<Shape>,
    limit: Option<usize>,
    hidden: Option<bool>,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Content,
    Files,
    Count,
}

impl Grep {
    pub(super) fn new() -> Self {
        let description = "Searches files line by line with a regular expression (Rust syntax: no \
            look-around, no back references). Gives each file's path, then its matching lines as \
            `number:line` and lines around them as `number-line`; or the files only; or counts of \
            lines. Files come sorted by path. What `.gitignore` and `.ignore` files name is left out, \
            and so are binary files, symbolic links, and what begins with a dot unless `hidden` is \
            set or `glob` names it.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The regular expression.",
                },
                "path": {
                    "type": "string",
                    "description": "A directory or a file, relative to the workspace; the workspace itself if left out.",
                },
                "glob": {
                    "type": "string",
                    "description": "Search only files that match, for example `*.rs` (in any directory) or `src/**/*.ts`; with `!` before it, only those that do not.",
                },
                "case_insensitive": { "type": "boolean" },
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 20,
                    "description": "How many lines to show before and after each match.",
                },
                "output": {
                    "type": "string",
                    "enum": ["content", "files", "count"],
                    "description": "Matching lines, the default; or only which files match; or how many lines of each do.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 2_000,
                    "description": "How many matching lines, or files, to show; 200 if left out.",
                },
                "hidden": {
                    "type": "boolean",
                    "description": "Whether to look at what begins with a dot, too.",
                },
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        Self {
            about: reader("grep", description, parameters),
        }
    }
}

#[async_trait]
impl Tool for Grep {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        reading(path.unwrap_or("."), context, |place| match place.found {
            workspace::Found::File => vec![Touched::Path(place.real.clone())],
            _ => touched(place),
        })
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        searching(arguments)
    }

    fn implicit_inputs(&self, context: &Context) -> Value {
        searchable(&self.about.name, context)
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let denied = denied(self, &arguments, context);
        let asked: Asked = match typed(arguments) {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let context = context.clone();
        blocking(move |abandoned| {
            search(&asked, &context, &denied, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn search(
    asked: &Asked,
    context: &Context,
    denied: &SearchFilter,
    abandoned: &Abandoned,
) -> Result<Output, Output> {
    let path = asked.path.as_deref().unwrap_or(".");
    let matcher = matcher(asked)?;
    let filter = asked.glob.as_deref().map(Filter::parse).transpose()?;
    let mut searching = Searching {
        searcher: searcher(asked),
        found: Found::new(
            asked.output.unwrap_or(Shape::Content),
            asked.limit.unwrap_or(LIMIT),
        ),
        matcher,
        witness: &context.witness,
        searched: 0,
        binary: 0,
        notices: Vec::new(),
    };
    let workspace = &context.workspace;
    if workspace.readable_place(path)?.found == workspace::Found::File {
        let (place, file) = open_file(workspace, path)?;
        let _ = searching.search(Ok(file), &place.asked, &workspace.shown(&place.asked));
        return Ok(searching.output(Vec::new()));
    }
    let (place, directory) = open_directory(workspace, path)?;
    let hidden =
        asked.hidden.unwrap_or(false) || filter.as_ref().is_some_and(|filter| filter.names_hidden);
    let mut visiting = Visiting {
        searching: &mut searching,
        filter,
        name: |path: &Path| shown(workspace, &place, path),
    };
    let notices = Walk::new(context, denied, abandoned, hidden)
        .walk(&place, &directory, &mut visiting)
        .map_err(|error| cannot("list", path, &error))?;
    Ok(searching.output(notices))
}

fn matcher(asked: &Asked) -> Result<RegexMatcher, Output> {
    RegexMatcherBuilder::new()
        .case_insensitive(asked.case_insensitive.unwrap_or(false))
        .multi_line(true)
        .crlf(true)
        .build(&asked.pattern)
        .map_err(|error| Output::error(format!("the pattern is wrong: {error}")))
}

fn searcher(asked: &Asked) -> Searcher {
    let around = asked.context.unwrap_or(0);
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .before_context(around)
        .after_context(around)
        .build()
}

struct Searching<'a> {
    searcher: Searcher,
    matcher: RegexMatcher,
    found: Found,
    witness: &'a Witness,
    searched: usize,
    binary: usize,
    notices: Vec<String>,
}

/// A search of the files that a walk finds.
struct Visiting<'s, 'a, N> {
    searching: &'s mut Searching<'a>,
    filter: Option<Filter>,
    /// Formats the path of a file.
    name: N,
}

impl<N: Fn(&Path) -> String> Visit for Visiting<'_, '_, N> {
    fn meet(&mut self, directory: &Directory, entry: &Entry, path: &Path) -> ControlFlow<()> {
        let wanted = entry.kind == Kind::File
            && self.filter.as_ref().is_none_or(|filter| filter.takes(path));
        if !wanted {
            return ControlFlow::Continue(());
        }
        let name = (self.name)(path);
        let asked = directory.asked().join(&entry.name);
        self.searching
            .search(directory.file(&entry.name), &asked, &name)
    }
}

impl Searching<'_> {
    fn search(
        &mut self,
        file: std::io::Result<std::fs::File>,
        asked: &Path,
        name: &str,
    ) -> ControlFlow<()> {
        let source = file.and_then(|file| Source::read(file, asked, self.witness));
        let searched = match source {
            Ok(Source::Whole(bytes)) => self.search_bytes(&bytes, name),
            Ok(Source::Stream(mut stream)) => {
                self.searcher.set_binary_detection(BinaryDetection::quit(0));
                let mut hits = Hits::new(&mut self.found, &self.matcher, name);
                let searched =
                    self.searcher
                        .search_reader(&self.matcher, &mut stream.reader, &mut hits);
                self.binary += usize::from(hits.met_binary());
                stream.end(self.witness);
                searched
            }
            Err(error) => Err(error),
        };
        self.searched += 1;
        if let Err(error) = searched {
            // A witness does not record readability.
            self.witness.spoil(format!("{name}: {error}"));
            self.notices
                .push(format!("cannot be read: {name}: {error}"));
        }
        if self.found.is_full() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn search_bytes(&mut self, bytes: &[u8], name: &str) -> std::io::Result<()> {
        let is_utf16 = matches!(Media::of(bytes), Media::Utf16(_));
        if !is_utf16 && memchr::memchr(0, bytes).is_some() {
            self.binary += 1;
            return Ok(());
        }
        self.searcher.set_binary_detection(BinaryDetection::none());
        let mut hits = Hits::new(&mut self.found, &self.matcher, name);
        self.searcher.search_slice(&self.matcher, bytes, &mut hits)
    }

    fn output(mut self, notices: Vec<String>) -> Output {
        self.notices.extend(notices);
        if self.found.is_empty() {
            let binary = match self.binary {
                0 => String::new(),
                count => format!(
                    ", {} of them binary and skipped",
                    super::grouped(count as u64)
                ),
            };
            self.notices.insert(
                0,
                format!("no match in {}{binary}", counted(self.searched, "file")),
            );
        }
        Output::text(format!("{}{}", self.found.text(), noticed(&self.notices)))
    }
}

/// Selects the files that are searched.
struct Filter {
    matcher: GlobMatcher,
    /// Set if matching files are excluded.
    excludes: bool,
    /// Set if the pattern applies to file names in any directory.
    by_name: bool,
    names_hidden: bool,
}

impl Filter {
    fn parse(text: &str) -> Result<Self, Output> {
        let (excludes, pattern) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let pattern = pattern.trim_start_matches("./");
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                Output::error(format!("the glob `{text}` is wrong: {}", error.kind()))
            })?
            .compile_matcher();
        Ok(Self {
            matcher,
            excludes,
            by_name: !pattern.contains('/'),
            names_hidden: !excludes
                && pattern
                    .split(['/', '{', ','])
                    .any(|name| name.starts_with('.')),
        })
    }

    fn takes(&self, path: &Path) -> bool {
        let matches = if self.by_name {
            path.file_name()
                .is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        };
        matches != self.excludes
    }
}
