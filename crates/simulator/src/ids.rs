//! Identifiers and signatures. All follow from the request, so that the same requests get the same
//! answers in every run, and a conversation never sees an identifier twice.

use cachalot_core::Digest;

/// Makes the identifiers of one answer.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    body: Digest,
    number: u64,
}

impl Ids {
    /// For the request with this body, the `number`th of the server.
    pub(crate) fn new(body: &[u8], number: u64) -> Self {
        Self {
            body: Digest::of(body),
            number,
        }
    }

    /// Of the answer: different for each request.
    pub(crate) fn answer(&self, prefix: &str) -> String {
        let number = self.number.to_le_bytes();
        hex(prefix, &[self.body.as_bytes(), b"answer", &number])
    }

    /// Of the request, for the response header.
    pub(crate) fn request(&self) -> String {
        let number = self.number.to_le_bytes();
        hex("req_", &[self.body.as_bytes(), b"request", &number])
    }

    /// Of a part of the answer: the same if the same request is sent again.
    pub(crate) fn part(&self, prefix: &str, at: usize) -> String {
        let at = (at as u64).to_le_bytes();
        hex(prefix, &[self.body.as_bytes(), prefix.as_bytes(), &at])
    }
}

fn hex(prefix: &str, parts: &[&[u8]]) -> String {
    let hex = Digest::of_parts(parts).to_hex();
    format!("{prefix}{}", &hex[..24])
}

/// The signature of a thinking block: a digest of its text, so that it can be checked without memory.
pub(crate) fn signature(thinking: &str) -> String {
    let hex = Digest::of_parts(&[b"thinking", thinking.as_bytes()]).to_hex();
    format!("simulated-{hex}")
}

/// The encrypted content of a reasoning item: opaque to clients, and it can be checked without memory.
pub(crate) fn encrypted(reasoning: &str) -> String {
    let sealed: String = reasoning
        .bytes()
        .map(|byte| format!("{:02x}", byte ^ 0x5a))
        .collect();
    let check = Digest::of_parts(&[b"reasoning", sealed.as_bytes()]).to_hex();
    format!("simulated-{check}-{sealed}")
}

/// Whether `content` comes from [`encrypted`], unchanged.
pub(crate) fn is_encrypted(content: &str) -> bool {
    let parts = content
        .strip_prefix("simulated-")
        .and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(check, sealed)| {
        Digest::of_parts(&[b"reasoning", sealed.as_bytes()]).to_hex() == check
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_reasoning_can_be_checked_and_does_not_show_the_text() {
        let content = encrypted("I thought of whales");
        assert!(is_encrypted(&content) && !content.contains("whales"));
        assert!(!is_encrypted(&format!("{content}0")));
        assert!(!is_encrypted("gAAAAA"));
        assert_ne!(signature("a"), signature("b"));
    }
}
