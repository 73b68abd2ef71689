//! Detection of the type of a file by its first bytes.

/// The type of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Text,
    /// UTF-16 text with a byte order mark; true for little-endian.
    Utf16(bool),
    /// An image that models accept, with its media type.
    Image(&'static str),
    /// Anything else, with a description.
    Binary(&'static str),
}

/// Number of leading bytes in which a NUL makes a file binary, if no signature matches.
const SNIFFED_BYTES: usize = 8 << 10;

const SIGNATURES: &[(&[u8], ContentKind)] = &[
    (b"\x89PNG\r\n\x1a\n", ContentKind::Image("image/png")),
    (b"\xff\xd8\xff", ContentKind::Image("image/jpeg")),
    (b"GIF87a", ContentKind::Image("image/gif")),
    (b"GIF89a", ContentKind::Image("image/gif")),
    (b"%PDF-", ContentKind::Binary("a PDF document")),
    (
        b"PK\x03\x04",
        ContentKind::Binary("a ZIP archive, or a document in one"),
    ),
    (b"\x1f\x8b", ContentKind::Binary("gzip data")),
    (b"BZh", ContentKind::Binary("bzip2 data")),
    (b"\xfd7zXZ\0", ContentKind::Binary("XZ data")),
    (b"\x28\xb5\x2f\xfd", ContentKind::Binary("Zstandard data")),
    (b"7z\xbc\xaf\x27\x1c", ContentKind::Binary("a 7z archive")),
    (
        b"\x7fELF",
        ContentKind::Binary("an ELF executable or library"),
    ),
    (b"\0asm", ContentKind::Binary("a WebAssembly module")),
    (
        b"\xca\xfe\xba\xbe",
        ContentKind::Binary("Java bytecode or a Mach-O file"),
    ),
    (
        b"SQLite format 3\0",
        ContentKind::Binary("a SQLite database"),
    ),
    (b"OggS", ContentKind::Binary("Ogg media")),
    (b"ID3", ContentKind::Binary("MP3 audio")),
];

impl ContentKind {
    /// Detects the type by the beginning of a file.
    pub(super) fn detect(head: &[u8]) -> Self {
        match head {
            [0xff, 0xfe, 0, 0, ..] => return Self::Binary("text in UTF-32"),
            [0xff, 0xfe, ..] => return Self::Utf16(true),
            [0xfe, 0xff, ..] => return Self::Utf16(false),
            _ => {}
        }
        if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            return Self::Image("image/webp");
        }
        let has_nul = head.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0);
        match SIGNATURES.iter().find(|(mark, _)| head.starts_with(mark)) {
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
