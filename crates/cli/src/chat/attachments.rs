//! Images that a message of the user names: found in the text, read and attached.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use cachalot_agent::Chat;

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
/// The maximum number of places in a line at which a name can end.
const MAX_ENDS: usize = 16;
/// Characters of a sentence that may follow a name.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '"', '\''];

/// The folders to which names are relative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folders<'a> {
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

    fn resolve(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => self.workspace.join(name),
        }
    }
}

/// An image that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedImage {
    name: String,
    path: PathBuf,
    /// Set if the name follows an `@`, and is therefore meant as an attachment.
    is_marked: bool,
}

/// Attaches the images that a text of the user names to the next message, and prints a line about each of them.
///
/// # Errors
/// The reason why one of them cannot be attached. The message should not be sent, and has no attachments.
pub(super) async fn attach(
    chat: &mut Chat,
    typed: &str,
    folders: Folders<'_>,
    show: &Show,
) -> Result<()> {
    let mut images = Vec::new();
    for named in find(typed, folders) {
        let path = named.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        let read = read.unwrap_or_else(|_| Err(ReadError::Other("it cannot be read".to_owned())));
        let name = on_one_line(&named.name);
        match read {
            Ok(bytes) => images.push((name, bytes)),
            // It may be part of a text, such as the path in an address.
            Err(ReadError::Missing) if !named.is_marked => {
                show.warn(&format!("not attached: there is no file `{name}`"));
            }
            Err(ReadError::Missing) => return Err(refusal(&name, "there is no such file")),
            Err(ReadError::Other(why)) => return Err(refusal(&name, &why)),
        }
    }
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

/// Finds the images that a text names, outside of backticks: `@` and a path, or an absolute path as terminals
/// paste it, in quotes or with backslashes.
fn find(text: &str, folders: Folders<'_>) -> Vec<NamedImage> {
    let mut found: Vec<NamedImage> = Vec::new();
    let mut rest = text;
    let mut is_start = true;
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        if character == '`' {
            length = code_length(rest);
        } else if is_start && let Some((named, end)) = image_at(rest, folders) {
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

/// Returns the image that a text names at its beginning, and the length of the name in the text.
fn image_at(text: &str, folders: Folders<'_>) -> Option<(NamedImage, usize)> {
    let body = text.strip_prefix('@').unwrap_or(text);
    let marks = text.len() - body.len();
    let is_marked = marks > 0;
    let (name, length) = match body.chars().next()? {
        quote @ ('"' | '\'') => {
            let (name, _) = body[1..].split_once(quote)?;
            let is_image = !name.contains('\n') && ends_like_an_image(name);
            is_image.then(|| (name.to_owned(), name.len() + 2))?
        }
        _ => bare_name(body, folders)?,
    };
    if !is_marked && !name.starts_with('/') && !name.starts_with("~/") {
        return None;
    }
    let named = NamedImage {
        path: folders.resolve(&name),
        name,
        is_marked,
    };
    Some((named, marks + length))
}

fn ends_like_an_image(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns the name without quotes that begins a text, and its length in the text. Blanks that no backslash
/// precedes are part of the name only if there is such a file.
fn bare_name(text: &str, folders: Folders<'_>) -> Option<(String, usize)> {
    let line = text.lines().next()?;
    let ends = line
        .char_indices()
        .map(|(at, character)| at + character.len_utf8());
    let ends = ends.filter(|&end| ends_like_an_image(&line[..end]));
    let ends = ends.filter(|&end| {
        let rest = line[end..].trim_start_matches(PUNCTUATION);
        rest.is_empty() || rest.starts_with(char::is_whitespace)
    });
    ends.take(MAX_ENDS).find_map(|end| {
        let (name, has_blank) = unescaped(&line[..end]);
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
        std::fs::write(place.path().join("my shot.png"), "x").unwrap();
        let folders = Folders {
            workspace: place.path(),
            home: Some(Path::new("/home/me")),
        };
        let shown = |named: NamedImage| {
            if named.is_marked {
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
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_name_no_image() {
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
            "@a.pngx @a.txt /tmp/a.svg",
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
