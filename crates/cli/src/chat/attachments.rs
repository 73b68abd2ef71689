//! Files and directories that a message of the user names: found in the text, read and attached.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_agent::{CancellationToken, Chat};
use cachalot_model::{Block, ImageSource};

use super::show::Show;
use crate::command_error::{CommandError, Result};
use crate::regular_file::open_regular;
use crate::render;
use crate::render::visible::on_one_line;
use crate::wiring::ProcessEnvironment;

/// The endings of names of images.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
/// The maximum size of a file that is read.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// The maximum size of all texts of a message together.
const MAX_TEXT_BYTES: usize = 512 << 10;
/// The maximum number of places in a line at which a name can end.
const MAX_ENDS: usize = 16;
/// Characters of a sentence that may follow a name.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '"', '\''];

/// The folders to which names are relative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folders<'a> {
    /// The folder of relative names.
    workspace: &'a Path,
    /// The folder of `~`.
    home: Option<&'a Path>,
}

impl<'a> Folders<'a> {
    pub(super) fn new(workspace: &'a Path, process_environment: &'a ProcessEnvironment) -> Self {
        let home = process_environment.environment.get("HOME");
        Self {
            workspace,
            home: home.map(Path::new),
        }
    }

    /// Returns the path that a name stands for.
    pub(super) fn resolve(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => self.workspace.join(name),
        }
    }

    /// Returns a path as tools are called with it: relative to the workspace, if it is below.
    fn argument(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.workspace).unwrap_or(path);
        match below.to_string_lossy() {
            below if below.is_empty() => ".".to_owned(),
            below => below.into_owned(),
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.resolve(name).symlink_metadata().is_ok()
    }
}

/// The kind of a named file, as far as its name reveals it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedKind {
    Image,
    /// Any other file, or a directory.
    Path,
    /// The name is one of a file, but there is none.
    Missing,
}

/// A file or a directory that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedFile {
    name: String,
    path: PathBuf,
    kind: NamedKind,
    /// Set if the name follows an `@`, and is therefore meant as an attachment.
    is_marked: bool,
}

/// Attaches what a text of the user names to the next message, and prints a line about each of the files.
///
/// # Errors
/// The reason why one of them cannot be attached. The message should not be sent, and has no attachments.
pub(super) async fn attach(
    chat: &mut Chat,
    typed: &str,
    folders: Folders<'_>,
    show: &Show,
    cancel: &CancellationToken,
) -> Result<()> {
    let mut images = Vec::new();
    let mut texts = Vec::new();
    for named in find(typed, folders) {
        let name = on_one_line(&named.name);
        let refused = |why: &str| refusal(&name, why);
        let argument = folders.argument(&named.path);
        match named.kind {
            NamedKind::Missing => {
                show.warn(&format!(
                    "not attached: there is no file or directory `{name}`"
                ));
            }
            NamedKind::Image => {
                // It is read first: a path in a text that is no file needs no permission.
                if let Some(bytes) = read_image(&named, &name, show).await? {
                    let permitted = chat.permit_reading(&argument, cancel).await;
                    permitted.map_err(|error| refused(&error.message))?;
                    images.push((name, bytes));
                }
            }
            NamedKind::Path => {
                let read = chat.read_path(&argument, cancel).await;
                let content = read.map_err(|error| refused(&error.message))?;
                match inline_image(&content) {
                    Some(bytes) => images.push((name.clone(), bytes)),
                    None => texts.push(text_of(&argument, &name, &content, show)),
                }
                if texts.iter().map(String::len).sum::<usize>() > MAX_TEXT_BYTES {
                    let why = format!(
                        "all that is attached has more than {}; name fewer files",
                        render::bytes(MAX_TEXT_BYTES as u64)
                    );
                    return Err(refused(&why));
                }
            }
        }
    }
    texts.into_iter().for_each(|text| chat.attach_text(text));
    for (name, bytes) in images {
        let size = render::bytes(bytes.len() as u64);
        let attached = chat.attach(bytes).await;
        attached.map_err(|error| refusal(&name, &error.message))?;
        let file = name.rsplit('/').next().unwrap_or(&name);
        show.note(&format!("attached {file}, {size}"));
    }
    Ok(())
}

fn refusal(name: &str, why: &str) -> CommandError {
    CommandError::failed(format!(
        "not sent: `{name}` cannot be attached: {why}; a name in backticks is not attached"
    ))
}

/// Reads an image. Returns `None` if the name may be part of a text, such as the path in an address.
async fn read_image(named: &NamedFile, name: &str, show: &Show) -> Result<Option<Vec<u8>>> {
    let path = named.path.clone();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    match read.unwrap_or_else(|_| Err(ReadError::Other("it cannot be read".to_owned()))) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Missing) if !named.is_marked => {
            show.warn(&format!("not attached: there is no file `{name}`"));
            Ok(None)
        }
        Err(ReadError::Missing) => Err(refusal(name, "there is no such file")),
        Err(ReadError::Other(why)) => Err(refusal(name, &why)),
    }
}

/// Returns the bytes of the image that `read_file` has found in a file with another ending.
fn inline_image(content: &[Block]) -> Option<Vec<u8>> {
    content.iter().find_map(|block| match block {
        Block::Image(image) => match &image.source {
            ImageSource::Inline { base64, .. } => STANDARD.decode(base64).ok(),
            ImageSource::Url(_) => None,
        },
        _ => None,
    })
}

/// Returns the text of a file or a directory with its name around it, and prints a line about it.
fn text_of(argument: &str, name: &str, content: &[Block], show: &Show) -> String {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    let size = render::bytes(text.len() as u64);
    // Lines of a file begin with their number.
    let notice = text.lines().last().filter(|line| line.starts_with('['));
    let notice = notice.map(|line| format!(" {line}")).unwrap_or_default();
    show.note(&format!("attached {name}, {size}{notice}"));
    enclosed("attached", "path", argument, &text)
}

/// The beginnings of attached texts: the content of a path, and the output of a command.
const OPENINGS: [&str; 2] = ["<attached path=\"", "<ran command=\""];

/// Returns a text with tags around it. The text cannot end the tag.
fn enclosed(tag: &str, attribute: &str, value: &str, text: &str) -> String {
    let value = on_one_line(value).replace('"', "'");
    let text = text.replace(&format!("</{tag}"), &format!("<\\/{tag}"));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<{tag} {attribute}=\"{value}\">\n{text}{end}</{tag}>")
}

/// Returns the text that is attached for the output of a command of the user.
pub(super) fn command_output(line: &str, output: &str) -> String {
    enclosed("ran", "command", line, output)
}

/// Returns the name and the content of an attached text; `None` for another text of a message.
pub(super) fn attachment(text: &str) -> Option<(&str, &str)> {
    let opening = OPENINGS
        .iter()
        .find(|opening| text.starts_with(**opening))?;
    let (name, content) = text[opening.len()..].split_once("\">\n")?;
    let (content, _) = content.rsplit_once("</")?;
    Some((name, content))
}

/// The reason why a file was not read.
enum ReadError {
    Missing,
    Other(String),
}

fn read(path: &Path) -> std::result::Result<Vec<u8>, ReadError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::Missing,
        _ => ReadError::Other(format!("it cannot be read: {error}")),
    };
    let mut bytes = Vec::new();
    let file = open_regular(path).map_err(failed)?;
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > MAX_FILE_BYTES {
        Err(ReadError::Other(format!(
            "it is larger than {}; make it smaller first",
            render::bytes(MAX_FILE_BYTES)
        )))
    } else {
        Ok(bytes)
    }
}

/// Finds the files that a text names, outside of backticks: `@` and a path, or an absolute path of an image as
/// terminals paste it, in quotes or with backslashes.
fn find(text: &str, folders: Folders<'_>) -> Vec<NamedFile> {
    let mut found: Vec<NamedFile> = Vec::new();
    let mut rest = text;
    let mut is_start = true;
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        if character == '`' {
            length = code_length(rest);
        } else if is_start && let Some((named, end)) = file_at(rest, folders) {
            if found.iter().all(|known| known.path != named.path) {
                found.push(named);
            }
            length = end;
        }
        is_start =
            length > character.len_utf8() || character.is_whitespace() || "([`".contains(character);
        rest = &rest[length..];
    }
    found
}

/// Returns the length of the code that begins a text, with its backticks; without an end, that of the backticks.
fn code_length(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let end = text[ticks..].find(&text[..ticks]);
    end.map_or(ticks, |end| ticks + end + ticks)
}

/// Returns the file that a text names at its beginning, and the length of the name in the text.
fn file_at(text: &str, folders: Folders<'_>) -> Option<(NamedFile, usize)> {
    let body = text.strip_prefix('@').unwrap_or(text);
    let marks = text.len() - body.len();
    let is_marked = marks > 0;
    let (name, kind, length) = match body.chars().next()? {
        quote @ ('"' | '\'') => {
            let (name, _) = body[1..].split_once(quote)?;
            let is_line = !name.is_empty() && !name.contains('\n');
            let kind = is_line.then(|| kind_of(name, folders))?;
            (name.to_owned(), kind, name.len() + 2)
        }
        _ => match image_name(body, folders) {
            Some((name, length)) => (name, NamedKind::Image, length),
            None => path_name(body, folders).filter(|_| is_marked)?,
        },
    };
    let is_absolute = name.starts_with('/') || name.starts_with("~/");
    let is_pasted = kind == NamedKind::Image && is_absolute;
    if !is_marked && !is_pasted {
        return None;
    }
    let named = NamedFile {
        path: folders.resolve(&name),
        name,
        kind,
        is_marked,
    };
    Some((named, marks + length))
}

fn kind_of(name: &str, folders: Folders<'_>) -> NamedKind {
    if ends_like_an_image(name) {
        NamedKind::Image
    } else if folders.exists(name) {
        NamedKind::Path
    } else {
        NamedKind::Missing
    }
}

/// Returns the name without quotes that begins a text, its kind, and its length in the text: the shortest name of a
/// file, or else a word that looks like one.
fn path_name(text: &str, folders: Folders<'_>) -> Option<(String, NamedKind, usize)> {
    // The beginning of `..` is no name.
    let ends = name_ends(text).filter(|&end| {
        let is_dots = text[..end].chars().all(|character| character == '.');
        !(is_dots && text[end..].starts_with('.'))
    });
    let names = ends.map(|end| (unescaped(&text[..end]).0, end));
    let mut names = names.take(MAX_ENDS);
    let (word, length) = names.clone().next()?;
    if let Some((name, end)) = names.find(|(name, _)| folders.exists(name)) {
        return Some((name, NamedKind::Path, end));
    }
    let is_path = word.contains('/') || word.contains('.');
    is_path.then_some((word, NamedKind::Missing, length))
}

/// Returns the places in the first line of a text at which a name can end.
fn name_ends(text: &str) -> impl Iterator<Item = usize> + Clone {
    let line = text.lines().next().unwrap_or_default();
    let ends = line
        .char_indices()
        .map(|(at, character)| at + character.len_utf8());
    ends.filter(|&end| {
        let rest = line[end..].trim_start_matches(PUNCTUATION);
        rest.is_empty() || rest.starts_with(char::is_whitespace)
    })
}

fn ends_like_an_image(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns the name of an image without quotes that begins a text, and its length in the text. Blanks that no backslash
/// precedes are part of the name only if there is such a file.
fn image_name(text: &str, folders: Folders<'_>) -> Option<(String, usize)> {
    let ends = name_ends(text).filter(|&end| ends_like_an_image(&text[..end]));
    ends.take(MAX_ENDS).find_map(|end| {
        let (name, has_blank) = unescaped(&text[..end]);
        let is_name = !has_blank || folders.resolve(&name).is_file();
        is_name.then_some((name, end))
    })
}

/// Removes the backslashes before characters. Returns true if the text has a blank without one.
fn unescaped(text: &str) -> (String, bool) {
    let mut name = String::with_capacity(text.len());
    let mut has_blank = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !cfg!(windows) => name.extend(characters.next()),
            character => {
                has_blank |= character.is_whitespace();
                name.push(character);
            }
        }
    }
    (name, has_blank)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The names that are found in a text, marked ones with an `@`.
    fn names(text: &str) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        for name in ["my shot.png", "my notes.txt", "a.rs", "it's"] {
            std::fs::write(place.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(place.path().join("src")).unwrap();
        let folders = Folders {
            workspace: place.path(),
            home: Some(Path::new("/home/me")),
        };
        let shown = |named: NamedFile| {
            if named.kind == NamedKind::Missing {
                format!("?{}", named.name)
            } else if named.is_marked {
                format!("@{}", named.name)
            } else {
                named.path.display().to_string()
            }
        };
        find(text, folders).into_iter().map(shown).collect()
    }

    #[test]
    fn marked_and_absolute_paths_are_found() {
        for (text, expected) in [
            ("what is in @a.png?", vec!["@a.png"]),
            ("@src/A.JPEG, @b.webp.", vec!["@src/A.JPEG", "@b.webp"]),
            ("compare (@a.gif) and @a.gif", vec!["@a.gif"]),
            ("see @my shot.png now", vec!["@my shot.png"]),
            ("see @\"other shot.png\" now", vec!["@other shot.png"]),
            ("see @/tmp/a.png", vec!["@/tmp/a.png"]),
            ("/tmp/a.png", vec!["/tmp/a.png"]),
            (r"/tmp/my\ (1).png  what?", vec!["/tmp/my (1).png"]),
            ("'/tmp/my shot.png' what?", vec!["/tmp/my shot.png"]),
            (
                "\"/tmp/a b.jpg\"\n'/tmp/c.png'",
                vec!["/tmp/a b.jpg", "/tmp/c.png"],
            ),
            ("~/a.png", vec!["/home/me/a.png"]),
            ("a.jpg.png is @a.jpg.png", vec!["@a.jpg.png"]),
            ("compare @a.rs, @src/ (@src)?", vec!["@a.rs", "@src/"]),
            ("read @my notes.txt now", vec!["@my notes.txt"]),
            (r"read @my\ notes.txt now", vec!["@my notes.txt"]),
            (
                "read @'my notes.txt', @\"it's\".",
                vec!["@my notes.txt", "@it's"],
            ),
            ("look at @a.rs: it's @./a.rs", vec!["@a.rs"]),
            ("all of @.", vec!["@."]),
            ("and @..", vec!["@.."]),
            ("fix @src/mian.rs and @b.rs.", vec!["?src/mian.rs", "?b.rs"]),
            ("a.rs and @a.png of @a.rs", vec!["@a.png", "@a.rs"]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_name_no_file() {
        for text in [
            "",
            "a.png",
            "src/a.png and 'a b.png'",
            "mail me@a.png",
            "@me see that.png",
            "https://example.org/a.png",
            "`@a.png` and `/tmp/a.png`",
            "```\n/tmp/a.png\n@a.png\n```",
            "<img src=\"/a.png\">",
            "@apngx @a_txt /tmp/a.svg /etc/hosts src a.rs",
            "@ .",
            "'/tmp/a.png",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
        // A single backtick is no code.
        assert_eq!(names("it`s @a.png"), ["@a.png"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_searched(text in "[@/~ a\n\\\\`'\"(é.]{0,12}(\\.png|@a\\.gif|`)?[ .`'\"@/é]{0,4}") {
            names(&text);
        }
    }
}
