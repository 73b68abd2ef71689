//! Identifiers and signatures. All are derived from the request, so that the same requests get the same
//! answers in every run, and identifiers do not repeat within a conversation.

use cachalot_core::Digest;

/// Creates the identifiers of one answer.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    body: Digest,
    number: u64,
}

impl Ids {
    /// Creates the identifiers for the request with this body, the `number`th of the server.
    pub(crate) fn new(body: &[u8], number: u64) -> Self {
        Self {
            body: Digest::sha256(body),
            number,
        }
    }

    /// Returns the id of the answer: different for each request.
    pub(crate) fn answer(&self, prefix: &str) -> String {
        let number = self.number.to_le_bytes();
        hex(prefix, &[self.body.as_bytes(), b"answer", &number])
    }

    /// Returns the id of the request, for the response header.
    pub(crate) fn request(&self) -> String {
        let number = self.number.to_le_bytes();
        hex("req_", &[self.body.as_bytes(), b"request", &number])
    }

    /// Returns the id of a part of the answer: the same if the same request is sent again.
    pub(crate) fn part(&self, prefix: &str, at: usize) -> String {
        let at = (at as u64).to_le_bytes();
        hex(prefix, &[self.body.as_bytes(), prefix.as_bytes(), &at])
    }
}

fn hex(prefix: &str, parts: &[&[u8]]) -> String {
    let hex = Digest::sha256_of_parts(parts).to_hex();
    format!("{prefix}{}", &hex[..24])
}

/// Returns the signature of a thinking block: a digest of its text, which can be verified without state.
pub(crate) fn signature(thinking: &str) -> String {
    let hex = Digest::sha256_of_parts(&[b"thinking", thinking.as_bytes()]).to_hex();
    format!("simulated-{hex}")
}

/// Returns the encrypted content of a reasoning item: opaque to clients, and it can be verified without
/// state.
pub(crate) fn encrypted(reasoning: &str) -> String {
    let sealed: Vec<u8> = reasoning.bytes().map(|byte| byte ^ 0x5a).collect();
    let sealed = hex::encode(sealed);
    let check = Digest::sha256_of_parts(&[b"reasoning", sealed.as_bytes()]).to_hex();
    format!("simulated-{check}-{sealed}")
}

/// Returns true if `content` is an unchanged result of [`encrypted`].
pub(crate) fn is_encrypted(content: &str) -> bool {
    let parts = content
        .strip_prefix("simulated-")
        .and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(check, sealed)| {
        Digest::sha256_of_parts(&[b"reasoning", sealed.as_bytes()]).to_hex() == check
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_reasoning_is_verifiable_and_opaque() {
        let content = encrypted("I thought of whales");
        assert!(is_encrypted(&content) && !content.contains("whales"));
        assert!(!is_encrypted(&format!("{content}0")));
        assert!(!is_encrypted("gAAAAA"));
        assert_ne!(signature("a"), signature("b"));
    }
}
