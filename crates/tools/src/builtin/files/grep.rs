//! The tool `grep`.

mod results;

use std::ops::ControlFlow;
use std::path::Path;

use cachalot_cache::Witness;
use cachalot_core::config::{CallArguments, Custom, ParameterKind as Kind};
use cachalot_core::{EffectTarget, Effects};
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde::Deserialize;
use serde_json::json;

use self::results::{FileMatches, GrepResults};
use super::content_kind::ContentKind;
use super::file_call::{FileCall, RunningCall};
use super::file_content::FileContent;
use super::open_path::{access_error, open_directory, open_file};
use super::walk::{Walk, WalkVisitor, format_notices, shown, touched};
use super::{NON_EMPTY, format_count, reader, reading};
use crate::workspace::{self, Directory, DirectoryEntry, EntryKind};

/// Default maximum number of matches, or files, that are shown.
const DEFAULT_LIMIT: usize = 200;

const OUTPUT_MODE: Kind = Kind::Custom(&Custom::shape(
    || json!({ "type": "string", "enum": ["content", "files", "count"] }),
));

#[derive(CallArguments, Deserialize)]
pub(super) struct Grep {
    /// The regular expression.
    #[setting(kind = NON_EMPTY)]
    pattern: String,
    /// A directory or a file, relative to the workspace; the workspace itself if left out.
    path: Option<String>,
    /// Search only files that match, for example `*.rs` (in any directory) or `src/**/*.ts`; with `!` before it,
    /// only those that do not.
    glob: Option<String>,
    case_insensitive: Option<bool>,
    /// How many lines to show before and after each match.
    #[setting(range = 0..=20)]
    context: Option<usize>,
    /// Matching lines, the default; or only which files match; or how many lines of each do.
    #[setting(kind = OUTPUT_MODE)]
    output: Option<OutputMode>,
    /// How many matching lines, or files, to show; 200 if left out.
    #[setting(range = 1..=2_000)]
    limit: Option<usize>,
    /// Whether to look at what begins with a dot, too.
    hidden: Option<bool>,
}

/// The form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutputMode {
    Content,
    Files,
    Count,
}

const DESCRIPTION: &str = "Searches files line by line with a regular expression (Rust syntax: no \
    look-around, no back references). Gives each file's path, then its matching lines as \
    `number:line` and lines around them as `number-line`; or the files only; or counts of \
    lines. Files come sorted by path. What `.gitignore` and `.ignore` files name is left out, \
    and so are binary files, symbolic links, and what begins with a dot unless `hidden` is \
    set or `glob` names it.";

impl Grep {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl FileCall for Grep {
    const SEARCHES: bool = true;

    fn metadata() -> OperationMetadata {
        reader("grep", DESCRIPTION, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        reading(self.path(), context, |resolved| match resolved.found {
            workspace::PathKind::File => vec![EffectTarget::Path(resolved.real.clone())],
            _ => touched(resolved),
        })
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::searching(self.path())
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        let context = running.context;
        let path = self.path();
        let matcher = matcher(self)?;
        let filter = self.glob.as_deref().map(FileFilter::parse).transpose()?;
        let mut searching = GrepSearch {
            searcher: searcher(self),
            found: GrepResults::new(
                self.output.unwrap_or(OutputMode::Content),
                self.limit.unwrap_or(DEFAULT_LIMIT),
            ),
            matcher,
            witness: &context.witness,
            searched: 0,
            binary: 0,
            notices: Vec::new(),
        };
        let workspace = &context.workspace;
        if workspace.resolved(path)?.found == workspace::PathKind::File {
            let (resolved, file) = open_file(workspace, path)?;
            // There is one file only, so that nothing is left to stop.
            let _ = searching.search(
                Ok(file),
                &resolved.requested,
                &workspace.shown(&resolved.requested),
            );
            return Ok(searching.output(Vec::new()));
        }
        let (resolved, directory) = open_directory(workspace, path)?;
        let hidden = self.hidden.unwrap_or(false)
            || filter.as_ref().is_some_and(|filter| filter.names_hidden);
        let mut visiting = GrepVisitor {
            searching: &mut searching,
            filter,
            name: |path: &Path| shown(workspace, &resolved, path),
        };
        let notices = Walk::new(running, hidden)
            .walk(&resolved, &directory, &mut visiting)
            .map_err(|error| access_error("list", path, &error))?;
        Ok(searching.output(notices))
    }
}

fn matcher(requested: &Grep) -> Result<RegexMatcher, ToolOutput> {
    RegexMatcherBuilder::new()
        .case_insensitive(requested.case_insensitive.unwrap_or(false))
        .multi_line(true)
        .crlf(true)
        .build(&requested.pattern)
        .map_err(|error| ToolOutput::error(format!("the pattern is wrong: {error}")))
}

fn searcher(requested: &Grep) -> Searcher {
    let around = requested.context.unwrap_or(0);
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .before_context(around)
        .after_context(around)
        .build()
}

struct GrepSearch<'a> {
    searcher: Searcher,
    matcher: RegexMatcher,
    found: GrepResults,
    witness: &'a Witness,
    searched: usize,
    binary: usize,
    notices: Vec<String>,
}

/// A search of the files that a walk finds.
struct GrepVisitor<'s, 'a, N> {
    searching: &'s mut GrepSearch<'a>,
    filter: Option<FileFilter>,
    /// Formats the path of a file.
    name: N,
}

impl<N: Fn(&Path) -> String> WalkVisitor for GrepVisitor<'_, '_, N> {
    fn visit(
        &mut self,
        directory: &Directory,
        entry: &DirectoryEntry,
        path: &Path,
    ) -> ControlFlow<()> {
        let wanted = entry.kind == EntryKind::File
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| filter.selects(path));
        if !wanted {
            return ControlFlow::Continue(());
        }
        let name = (self.name)(path);
        let requested = directory.requested().join(&entry.name);
        self.searching
            .search(directory.file(&entry.name), &requested, &name)
    }
}

impl GrepSearch<'_> {
    fn search(
        &mut self,
        file: std::io::Result<std::fs::File>,
        requested: &Path,
        name: &str,
    ) -> ControlFlow<()> {
        let source = file.and_then(|file| FileContent::read(file, requested, self.witness));
        let searched = match source {
            Ok(FileContent::Whole(bytes)) => self.search_bytes(&bytes, name),
            Ok(FileContent::FileStream(mut stream)) => {
                self.searcher.set_binary_detection(BinaryDetection::quit(0));
                let mut hits = FileMatches::new(&mut self.found, &self.matcher, name);
                let searched =
                    self.searcher
                        .search_reader(&self.matcher, &mut stream.reader, &mut hits);
                self.binary += usize::from(hits.is_binary());
                stream.end(self.witness);
                searched
            }
            Err(error) => Err(error),
        };
        self.searched += 1;
        if let Err(error) = searched {
            // A witness does not record readability.
            self.witness.mark_incomplete(format!("{name}: {error}"));
            self.notices
                .push(format!("cannot be read: {name}: {error}"));
        }
        if self.found.is_full() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn search_bytes(&mut self, bytes: &[u8], name: &str) -> std::io::Result<()> {
        let is_utf16 = matches!(ContentKind::detect(bytes), ContentKind::Utf16(_));
        if !is_utf16 && memchr::memchr(0, bytes).is_some() {
            self.binary += 1;
            return Ok(());
        }
        self.searcher.set_binary_detection(BinaryDetection::none());
        let mut hits = FileMatches::new(&mut self.found, &self.matcher, name);
        self.searcher.search_slice(&self.matcher, bytes, &mut hits)
    }

    fn output(mut self, notices: Vec<String>) -> ToolOutput {
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
                format!(
                    "no match in {}{binary}",
                    format_count(self.searched, "file")
                ),
            );
        }
        ToolOutput::text(format!(
            "{}{}",
            self.found.text(),
            format_notices(&self.notices)
        ))
    }
}

/// Selects the files that are searched.
struct FileFilter {
    matcher: GlobMatcher,
    /// Set if matching files are excluded.
    excludes: bool,
    /// Set if the pattern applies to file names in any directory.
    by_name: bool,
    names_hidden: bool,
}

impl FileFilter {
    fn parse(text: &str) -> Result<Self, ToolOutput> {
        let (excludes, pattern) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let pattern = pattern.trim_start_matches("./");
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                ToolOutput::error(format!("the glob `{text}` is wrong: {}", error.kind()))
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

    fn selects(&self, path: &Path) -> bool {
        let matches = if self.by_name {
            path.file_name()
                .is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(path)
        };
        matches != self.excludes
    }
}
