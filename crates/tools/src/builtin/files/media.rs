//! Detection of the type of a file by its first bytes.

/// The type of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Text,
    /// UTF-16 text with a byte order mark; true for little-endian.
    Utf16(bool),
    /// An image that models accept, with its media type.
    Picture(&'static str),
    /// Anything else, with a description.
    Binary(&'static str),
}

/// Number of leading bytes in which a NUL makes a file binary, if no signature matches.
const HEAD: usize = 8 << 10;

const MARKS: &[(&[u8], Media)] = &[
    (b"\x89PNG\r\n\x1a\n", Media::Picture("image/png")),
    (b"\xff\xd8\xff", Media::Picture("image/jpeg")),
    (b"GIF87a", Media::Picture("image/gif")),
    (b"GIF89a", Media::Picture("image/gif")),
    (b"%PDF-", Media::Binary("a PDF document")),
    (
        b"PK\x03\x04",
        Media::Binary("a ZIP archive, or a document in one"),
    ),
    (b"\x1f\x8b", Media::Binary("gzip data")),
    (b"BZh", Media::Binary("bzip2 data")),
    (b"\xfd7zXZ\0", Media::Binary("XZ data")),
    (b"\x28\xb5\x2f\xfd", Media::Binary("Zstandard data")),
    (b"7z\xbc\xaf\x27\x1c", Media::Binary("a 7z archive")),
    (b"\x7fELF", Media::Binary("an ELF executable or library")),
    (b"\0asm", Media::Binary("a WebAssembly module")),
    (
        b"\xca\xfe\xba\xbe",
        Media::Binary("Java bytecode or a Mach-O file"),
    ),
    (b"SQLite format 3\0", Media::Binary("a SQLite database")),
    (b"OggS", Media::Binary("Ogg media")),
    (b"ID3", Media::Binary("MP3 audio")),
];

impl Media {
    /// Detects the type by the beginning of a file.
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [0xff, 0xfe, 0, 0, ..] => return Self::Binary("text in UTF-32"),
            [0xff, 0xfe, ..] => return Self::Utf16(true),
            [0xfe, 0xff, ..] => return Self::Utf16(false),
            _ => {}
        }
        if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            return Self::Picture("image/webp");
        }
        let has_nul = head.iter().take(HEAD).any(|byte| *byte == 0);
        match MARKS.iter().find(|(mark, _)| head.starts_with(mark)) {
            // A text may begin with some of the signatures.
            Some((mark, media)) if has_nul || !mark.is_ascii() || mark.len() > 4 => *media,
            _ if has_nul => Self::Binary("binary data"),
            _ => Self::Text,
        }
    }
}

/// Decodes UTF-16 (without its byte order mark); invalid units become U+FFFD.
pub(super) fn from_utf16(bytes: &[u8], low_first: bool) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        if low_first {
            u16::from_le_bytes([pair[0], pair[1]])
        } else {
            u16::from_be_bytes([pair[0], pair[1]])
        }
    });
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
