//! Masking of credentials in URIs.

use std::borrow::Cow;

use cachalot_core::secret::MASK;

/// Returns `uri` with masked credentials: the user and password before `@`, and the values of query and
/// fragment parameters that hold credentials (signatures, tokens, keys). The rest is unchanged.
#[must_use]
pub fn masked(uri: &str) -> Cow<'_, str> {
    let Some(scheme) = uri.find("://") else {
        return Cow::Borrowed(uri);
    };
    let rest = scheme + 3;
    let mut shown = uri[..rest].to_owned();
    let rest = match end_of_user(&uri[..scheme], &uri[rest..]) {
        Some(at) => {
            shown.push_str(MASK);
            rest + at
        }
        None => rest,
    };
    let end = uri[rest..].find(['?', '#']).map_or(uri.len(), |n| rest + n);
    shown.push_str(&uri[rest..end]);
    mask_parameters(&uri[end..], &mut shown);
    if shown == uri {
        Cow::Borrowed(uri)
    } else {
        Cow::Owned(shown)
    }
}

/// Masks all URIs in `text` as [`masked`] does.
pub(crate) fn masked_text(text: &str) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(|word| {
            let address = word.trim_end();
            masked(address).into_owned() + &word[address.len()..]
        })
        .collect()
}

/// Returns the position of the `@` after user and password. A password may contain characters that should
/// have been encoded; in that case, too much is masked rather than too little.
fn end_of_user(scheme: &str, rest: &str) -> Option<usize> {
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let Some(at) = authority.rfind('@') else {
        // The apparent port is not a number: a password continues after the slash.
        let (host, port) = authority.split_once(':')?;
        let number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        return if number || host.starts_with('[') {
            None
        } else {
            rest.rfind('@')
        };
    };
    if authority[..at].contains(':') {
        return rest[..rest.find(['?', '#']).unwrap_or(rest.len())].rfind('@');
    }
    // `abfss://container@account…` names no user.
    let azure = scheme.eq_ignore_ascii_case("abfs") || scheme.eq_ignore_ascii_case("abfss");
    (!azure).then_some(at)
}

fn mask_parameters(parameters: &str, shown: &mut String) {
    for piece in parameters.split_inclusive(['?', '#', '&', ';']) {
        let body = piece.trim_end_matches(['?', '#', '&', ';']);
        match body.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_credential_parameter(name) => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(MASK);
                shown.push_str(&piece[body.len()..]);
            }
            _ => shown.push_str(piece),
        }
    }
}

/// True if a parameter with this name usually holds a credential. Prefers false positives.
fn is_credential_parameter(name: &str) -> bool {
    const WHOLE: [&str; 8] = ["sig", "key", "code", "auth", "pwd", "sas", "jwt", "session"];
    const PARTS: [&str; 9] = [
        "signature",
        "token",
        "secret",
        "passw",
        "credential",
        "apikey",
        "accesskey",
        "authorization",
        "sessionid",
    ];
    let folded: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    WHOLE.contains(&folded.as_str()) || PARTS.iter().any(|part| folded.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_uris_are_masked_and_nothing_else() {
        for (uri, shown) in [
            ("https://u:p@host/a?b=1", "https://[secret]@host/a?b=1"),
            ("https://user@host", "https://[secret]@host"),
            ("http://u:p/w@host/x", "http://[secret]@host/x"),
            ("http://u:p?w#w@host/x", "http://[secret]@host/x"),
            ("http://u:p@w/w@host/x", "http://[secret]@host/x"),
            (
                "https://h/o?X-Amz-Signature=abc&X-Amz-Date=1#access_token=t",
                "https://h/o?X-Amz-Signature=[secret]&X-Amz-Date=1#access_token=[secret]",
            ),
            (
                "https://h/?sig=a%2Fb&se=2026",
                "https://h/?sig=[secret]&se=2026",
            ),
            (
                "https://h/?api_key=1;q=2",
                "https://h/?api_key=[secret];q=2",
            ),
            (
                "abfss://box@account.dfs.core.windows.net/k",
                "abfss://box@account.dfs.core.windows.net/k",
            ),
            ("abfss://box:pw@account/k", "abfss://[secret]@account/k"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("http://host/a@b", "http://host/a@b"),
            ("data/a?token=x", "data/a?token=x"),
            ("http://h/?token=", "http://h/?token="),
        ] {
            assert_eq!(masked(uri), shown);
        }
    }

    #[test]
    fn urls_within_a_text_are_masked() {
        assert_eq!(
            masked_text("GET https://u:p@h/x?sig=1 failed: see a@b"),
            "GET https://[secret]@h/x?sig=[secret] failed: see a@b"
        );
    }
}
