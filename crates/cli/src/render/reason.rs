//! Reasons why a stored answer was not served, in plain words.

use std::borrow::Cow;

use cachalot_mcp::caching::plain_reason;

/// Returns a reason of the engine in plain words: the engine's name of a domain is replaced with the file that was
/// written, or with the change of an MCP server. Paths are relative to the workspace, if there is one.
pub(crate) fn readable<'a>(why: &'a str, workspace: Option<&str>) -> Cow<'a, str> {
    const WRITTEN: &str = " was written to since";
    if let Some(plain) = plain_reason(why) {
        return plain.into();
    }
    let below = workspace.map(|workspace| format!("{}/", workspace.trim_end_matches('/')));
    let domain = why
        .strip_suffix(WRITTEN)
        .and_then(|domain| domain.split_once(':'));
    match domain {
        Some(("path" | "entries" | "tree", path)) if Some(path) == workspace => {
            format!("the workspace{WRITTEN}").into()
        }
        Some(("path" | "entries" | "tree", path)) => {
            let relative = below.and_then(|below| path.strip_prefix(&*below));
            format!("{}{WRITTEN}", relative.unwrap_or(path)).into()
        }
        Some(("workspace", _)) => "something unknown was done in the workspace since".into(),
        Some(("files", _)) => format!("what it was made from{WRITTEN}").into(),
        _ => match below {
            Some(below) => why.replace(&below, "").into(),
            None => why.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_user_facing_terms() {
        for (why, told) in [
            (
                "entries:/w/a/b.md was written to since",
                "a/b.md was written to since",
            ),
            (
                "tree:/w was written to since",
                "the workspace was written to since",
            ),
            (
                "path:/else/x was written to since",
                "/else/x was written to since",
            ),
            (
                "workspace:/w was written to since",
                "something unknown was done in the workspace since",
            ),
            (
                "files:12ab was written to since",
                "what it was made from was written to since",
            ),
            (
                "mcp:node:0123456789ab:calls was written to since",
                "another call, which may have changed something, was made since",
            ),
            ("ltm was written to since", "ltm was written to since"),
            (
                "changed since: /w/a/b.md changed",
                "changed since: a/b.md changed",
            ),
            ("expired", "expired"),
        ] {
            assert_eq!(readable(why, Some("/w")), told, "{why}");
        }
        let elsewhere = "path:/w/a.md was written to since";
        assert_eq!(readable(elsewhere, None), "/w/a.md was written to since");
    }
}
