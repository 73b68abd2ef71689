//! Secrets: values that are used but never shown.
//!
//! A secret enters a cache key only as a keyed digest, and never a ledger, log, error or export. [`SecretSet`] is
//! the set of the secrets of a run, and finds them in texts.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::RwLock;
use zeroize::Zeroize;

mod credentials;

pub(crate) use credentials::names_a_credential;
pub use credentials::{find_credentials, mask_credentials, redact_value};

use crate::Digest;
use crate::atomic_file::{self, Access};

/// The text that replaces a secret.
pub const MASK: &str = "[secret]";

/// A value that is never printed and is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value itself, for the one place that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl<T: Zeroize> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// The key under which secrets are digested before they enter a cache key, so that a cache key cannot be used
/// to test guesses of the secret.
#[derive(Debug, Clone)]
pub struct DigestKey {
    bytes: Secret<[u8; 32]>,
    first_use: Option<Arc<FirstUse>>,
}

/// The callback before the first digest that may become a part of a key.
struct FirstUse {
    is_over: AtomicBool,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for FirstUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstUse").finish_non_exhaustive()
    }
}

impl DigestKey {
    /// Creates a key from 32 bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self {
            bytes: Secret::new(bytes),
            first_use: None,
        }
    }

    /// Calls `notify` once, before the first digest that this key or a clone of it contributes to the key of a call.
    #[must_use]
    pub fn on_first_use(mut self, notify: impl Fn() + Send + Sync + 'static) -> Self {
        self.first_use = Some(Arc::new(FirstUse {
            is_over: AtomicBool::new(false),
            notify: Box::new(notify),
        }));
        self
    }

    /// Creates a random key that is not stored: for secrets that must be masked in runs whose cache keys need
    /// not be found again.
    ///
    /// # Errors
    /// If the machine provides no randomness.
    pub fn ephemeral() -> io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self::new(bytes))
    }

    /// Reads the key at `path`, or creates one there (mode 0600). Two processes that do so concurrently get
    /// the same key: the complete file is written under another name and then hard-linked into place.
    ///
    /// # Errors
    /// I/O errors, or a file that contains no key (see [`Self::load`]).
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match Self::load(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let key = Self::ephemeral()?;
        let mut suffix = [0_u8; 8];
        getrandom::fill(&mut suffix).map_err(io::Error::other)?;
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".{}", hex::encode(suffix)));
        // The link fails if the file exists. One of several processes makes the key, and none of them reads a part of
        // it.
        let written = key
            .store(Path::new(&aside))
            .and_then(|()| std::fs::hard_link(&aside, path));
        // The temporary file is no longer needed, whether this process or another one has created the link.
        let _ = std::fs::remove_file(&aside);
        match written {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::load(path),
        }
    }

    /// Writes the key to a new file (mode 0600).
    ///
    /// # Errors
    /// I/O errors; an existing file is not changed.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        write_private(path, self.bytes.expose())
    }

    /// Writes the key to a new file (mode 0600) as one line of 64 hex digits, for other machines.
    ///
    /// # Errors
    /// I/O errors; an existing file is not changed.
    pub fn store_as_text(&self, path: &Path) -> io::Result<()> {
        let mut text = hex::encode(self.bytes.expose());
        text.push('\n');
        let written = write_private(path, text.as_bytes());
        text.zeroize();
        written
    }

    /// Reads the key of a file: its 32 bytes, or 64 hex digits.
    ///
    /// # Errors
    /// I/O errors; [`io::ErrorKind::InvalidData`] if the file contains anything else.
    pub fn load(path: &Path) -> io::Result<Self> {
        /// More than 64 digits and the ends of a line.
        const MAX_LENGTH: u64 = 128;
        let mut bytes = Vec::with_capacity(MAX_LENGTH as usize);
        std::fs::File::open(path)?
            .take(MAX_LENGTH)
            .read_to_end(&mut bytes)?;
        let key = Self::parse(&bytes);
        bytes.zeroize();
        key.ok_or_else(|| {
            let path = path.display();
            let fault = format!("{path} is not a digest key: expected 32 bytes, or 64 hex digits");
            io::Error::new(io::ErrorKind::InvalidData, fault)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let digits = bytes.trim_ascii();
        if digits.len() == 64 {
            let mut key = [0; 32];
            hex::decode_to_slice(digits, &mut key).ok()?;
            return Some(Self::new(key));
        }
        // A text of 32 characters is no random key.
        let key = <[u8; 32]>::try_from(bytes).ok()?;
        (!key
            .iter()
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()))
        .then(|| Self::new(key))
    }

    /// Returns a value by which two holders of a key find out that it is the same one. It reveals nothing of the key,
    /// and is no digest of a secret.
    #[must_use]
    pub fn check_value(&self) -> Digest {
        self.mac(b"cachalot digest key\0check value 1")
    }

    /// HMAC-SHA256 of `bytes`, which may become a part of a key.
    #[must_use]
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        self.note_use();
        self.mac(bytes)
    }

    fn note_use(&self) {
        if let Some(first_use) = &self.first_use
            && !first_use.is_over.load(Ordering::Relaxed)
            && !first_use.is_over.swap(true, Ordering::Relaxed)
        {
            (first_use.notify)();
        }
    }

    fn mac(&self, bytes: &[u8]) -> Digest {
        let mut mac = match Hmac::<sha2::Sha256>::new_from_slice(self.bytes.expose()) {
            Ok(mac) => mac,
            Err(_) => unreachable!("HMAC takes keys of any length"),
        };
        mac.update(bytes);
        Digest(mac.finalize().into_bytes().into())
    }

    /// Returns the 32 bytes, for a cassette that includes them on the user's request.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        self.bytes.expose()
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = atomic_file::create(path, Access::Private)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A piece of a text that may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart<'a> {
    /// Ordinary text.
    Plain(&'a str),
    /// A secret, as its keyed digest.
    Secret(Digest),
}

/// A secret and its spellings.
struct KnownSecret {
    text: Secret<String>,
    /// Other spellings of the secret: inside a JSON string, percent-encoded.
    spellings: Vec<(Secret<String>, Digest)>,
    digest: Digest,
}

/// The secrets that are known in a run. An empty set, which most runs have, costs nothing.
#[derive(Default)]
pub struct SecretSet {
    key: Option<DigestKey>,
    known: RwLock<Vec<KnownSecret>>,
}

impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.read();
        write!(f, "SecretSet({} secrets)", known.len())
    }
}

impl SecretSet {
    /// Creates an empty set that never learns a secret.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates an empty set whose secrets will be digested under `key`.
    #[must_use]
    pub fn with_key(key: DigestKey) -> Self {
        Self {
            key: Some(key),
            known: RwLock::default(),
        }
    }

    /// The key under which secrets are digested, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&DigestKey> {
        self.key.as_ref()
    }

    /// Adds `text` as a secret, which applies to every later occurrence. The empty text is not a secret.
    /// Without a digest key nothing is added: [`SecretSet::empty`] is for runs without secrets.
    pub fn learn(&self, text: &str) {
        let Some(key) = &self.key else { return };
        if text.is_empty() {
            return;
        }
        let mut known = self.known.write();
        if known.iter().any(|other| other.text.expose() == text) {
            return;
        }
        known.push(KnownSecret {
            // Not `digest`: a secret that is learned is no part of a key yet. `split` notes the use.
            digest: key.mac(text.as_bytes()),
            spellings: spellings(text)
                .into_iter()
                .map(|spelling| {
                    let digest = key.mac(spelling.expose().as_bytes());
                    (spelling, digest)
                })
                .collect(),
            text: Secret::new(text.to_owned()),
        });
        // Longest first, so that a secret inside another one does not split it.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.text.expose().len()));
    }

    /// True if no secret is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.read().is_empty()
    }

    /// Splits `text` at its secrets; `None` if it contains none.
    #[must_use]
    pub fn split<'a>(&self, text: &'a str) -> Option<Vec<TextPart<'a>>> {
        let known = self.known.read();
        let mut pieces = vec![TextPart::Plain(text)];
        for (spelling, digest) in known.iter().flat_map(KnownSecret::all_spellings) {
            if !text.contains(spelling) {
                continue;
            }
            let mut next = Vec::with_capacity(pieces.len() + 2);
            for piece in pieces {
                match piece {
                    TextPart::Plain(plain) => split_at_each(plain, spelling, digest, &mut next),
                    sealed @ TextPart::Secret(_) => next.push(sealed),
                }
            }
            pieces = next;
        }
        let mut secrets = pieces.iter();
        if !secrets.any(|piece| matches!(piece, TextPart::Secret(_))) {
            return None;
        }
        self.key.iter().for_each(DigestKey::note_use);
        Some(pieces)
    }

    /// Replaces every known secret in `text`, in any spelling, by [`MASK`].
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known.read();
        let mut shown = Cow::Borrowed(text);
        for (spelling, _) in known.iter().flat_map(KnownSecret::all_spellings) {
            if shown.contains(spelling) {
                shown = Cow::Owned(shown.replace(spelling, MASK));
            }
        }
        shown
    }

    /// Returns the length in bytes of the longest end of `text` with which a known secret begins: later text may
    /// complete it. Ends of fewer than four characters do not count.
    #[must_use]
    pub fn begun_at_end(&self, text: &str) -> usize {
        /// The number of characters of a secret that may be shown.
        const MAX_SHOWN_CHARS: usize = 3;
        let known = self.known.read();
        let spellings = known.iter().flat_map(KnownSecret::all_spellings);
        let begun = spellings.filter_map(|(spelling, _)| {
            let ends = spelling.char_indices().map(|(end, _)| end);
            let ends = ends.skip(MAX_SHOWN_CHARS + 1);
            ends.filter(|end| text.ends_with(&spelling[..*end])).last()
        });
        begun.max().unwrap_or(0)
    }

    /// True if `bytes` contain a known secret: literally, as JSON escapes it, or percent-encoded.
    #[must_use]
    pub fn occurs_in(&self, bytes: &[u8]) -> bool {
        let known = self.known.read();
        known
            .iter()
            .flat_map(KnownSecret::all_spellings)
            .any(|(spelling, _)| memchr::memmem::find(bytes, spelling.as_bytes()).is_some())
    }
}

impl KnownSecret {
    /// Returns every spelling with its digest.
    fn all_spellings(&self) -> impl Iterator<Item = (&str, Digest)> {
        let plain = std::iter::once((self.text.expose().as_str(), self.digest));
        plain.chain(
            self.spellings
                .iter()
                .map(|(text, digest)| (text.expose().as_str(), *digest)),
        )
    }
}

fn split_at_each<'a>(plain: &'a str, needle: &str, digest: Digest, into: &mut Vec<TextPart<'a>>) {
    let mut rest = plain;
    while let Some(at) = rest.find(needle) {
        if at > 0 {
            into.push(TextPart::Plain(&rest[..at]));
        }
        into.push(TextPart::Secret(digest));
        rest = &rest[at + needle.len()..];
    }
    if !rest.is_empty() {
        into.push(TextPart::Plain(rest));
    }
}

/// Returns other spellings of a secret: inside a JSON string, in a URL.
fn spellings(text: &str) -> Vec<Secret<String>> {
    let mut found: Vec<String> = Vec::new();
    if let Ok(quoted) = serde_json::to_string(text) {
        found.push(quoted[1..quoted.len() - 1].to_owned());
    }
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // The characters that a URL does not encode depend on its part (WHATWG URL, percent-encode sets).
    let in_path = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>?`{}^".contains(&byte);
    let in_query = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>'".contains(&byte);
    found.push(percent_encoded(text, unreserved));
    found.push(percent_encoded(text, in_path));
    found.push(percent_encoded(text, in_query));
    // Forms write a space as a plus sign.
    found.push(percent_encoded(text, |byte| unreserved(byte) || byte == b' ').replace(' ', "+"));
    found.sort();
    found.dedup();
    found.retain(|spelling| spelling != text);
    found.into_iter().map(Secret::new).collect()
}

fn percent_encoded(text: &str, as_it_is: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if as_it_is(byte) {
            encoded.push(byte as char);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn secret_set(secrets: &[&str]) -> SecretSet {
        let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
        secrets.iter().for_each(|secret| secret_set.learn(secret));
        secret_set
    }

    #[test]
    fn secret_is_redacted_in_display_and_debug() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?}"), "[secret] [secret]");
        assert!(!format!("{:?}", secret_set(&["hunter2"])).contains("hunter2"));
    }

    #[test]
    fn texts_are_split_at_secrets_with_the_longest_match() {
        let secret_set = secret_set(&["abc", "abcdef"]);
        let pieces = secret_set.split("x abcdef abc").unwrap();
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], TextPart::Plain("x "));
        assert_ne!(pieces[1], pieces[3]);
        assert_eq!(secret_set.split("nothing here"), None);
        let all_spellings = self::secret_set(&["a b"]);
        assert_eq!(
            all_spellings.split("?k=a%20b").unwrap().len(),
            2,
            "percent-encoded"
        );
    }

    #[test]
    fn every_spelling_is_redacted_and_found() {
        let secret_set = secret_set(&["a\"b/c"]);
        assert_eq!(
            secret_set.redact(r#"{"k": "a\"b/c"}"#),
            r#"{"k": "[secret]"}"#
        );
        assert_eq!(secret_set.redact("u?k=a%22b%2Fc"), "u?k=[secret]");
        assert!(secret_set.occurs_in(b"--a\"b/c--"));
        assert!(!secret_set.occurs_in(b"nothing"));
    }

    #[test]
    fn begun_secrets_are_found_at_the_end() {
        let secret_set = secret_set(&["swordfish", "sword and shield"]);
        for (text, begun) in [
            ("", 0),
            ("a swo", 0),
            ("a swor", 4),
            ("a swordf", 6),
            ("a sword an", 8),
            ("a sword%20an", 10),
            ("a sword it is", 0),
            ("a swordfish", 0),
        ] {
            assert_eq!(secret_set.begun_at_end(text), begun, "{text}");
        }
    }

    #[test]
    fn processes_that_create_the_digest_key_at_once_agree_on_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("digest.key");
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| *DigestKey::load_or_create(&path).unwrap().expose()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
        std::fs::write(&path, b"short").unwrap();
        let error = DigestKey::load_or_create(&path).unwrap_err();
        assert!(error.to_string().contains("expected 32 bytes"));
    }

    #[test]
    fn keys_are_read_as_bytes_and_as_text() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        let key = DigestKey::new(*b"\x00123456789abcdef0123456789abcdef");
        key.store_as_text(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().len(), 65);
        assert!(key.store_as_text(&path).is_err(), "never overwritten");
        assert_eq!(DigestKey::load(&path).unwrap().expose(), key.expose());
        let digits = hex::encode([0xAB; 32]);
        for text in [digits.clone(), format!("{}\r\n", digits.to_uppercase())] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(*DigestKey::load(&path).unwrap().expose(), [0xAB; 32]);
        }
        std::fs::write(&path, key.expose()).unwrap();
        assert_eq!(DigestKey::load(&path).unwrap().expose(), key.expose());
        for damaged in [
            Vec::new(),
            b"\n".to_vec(),
            digits.as_bytes()[..32].to_vec(),
            digits.as_bytes()[..63].to_vec(),
            format!("{}g", &digits[..63]).into_bytes(),
            format!("{digits}{digits}").into_bytes(),
            vec![0xAB; 31],
            vec![0xAB; 33],
            vec![b'a'; 100_000],
        ] {
            std::fs::write(&path, &damaged).unwrap();
            let error = DigestKey::load(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{damaged:?}");
        }
    }

    #[test]
    fn first_use_of_a_digest_is_reported_once() {
        use std::sync::atomic::AtomicU32;
        let uses = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&uses);
        let key = DigestKey::new([7; 32]).on_first_use(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let count = || uses.load(Ordering::Relaxed);
        let secret_set = SecretSet::with_key(key.clone());
        secret_set.learn("hunter2");
        assert_eq!(secret_set.split("no secret"), None);
        let _ = key.check_value();
        assert_eq!(count(), 0, "nothing became a part of a key");
        assert!(secret_set.split("hunter2").is_some());
        assert_eq!(count(), 1);
        let _ = (key.digest(b"x"), key.digest(b"y"));
        assert_eq!(count(), 1);
    }

    #[test]
    fn digests_under_different_keys_differ() {
        let keys = [DigestKey::new([1; 32]), DigestKey::new([2; 32])];
        let [one, other] = keys.map(|key| {
            let secret_set = SecretSet::with_key(key);
            secret_set.learn("hunter2");
            secret_set
                .split("hunter2")
                .map(|parts| format!("{parts:?}"))
        });
        assert_ne!(one.unwrap(), other.unwrap());
    }
}
