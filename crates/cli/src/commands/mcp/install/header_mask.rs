//! Settings of clients as they are shown: without values of variables and headers, any of which may be a credential.

use cachalot_core::secret::MASK;
use jsonc_parser::cst::CstNode;
use toml_edit::{Item, TableLike};

use super::clients::Syntax;
use super::{jsonc, toml};

/// Members whose values are not shown.
const HIDDEN: [&str; 3] = ["env", "headers", "http_headers"];

/// The option whose value is a header.
const OPTION: &str = "--header";

/// Returns a text in which these values are masked, and nothing else is another one. One that cannot be parsed is empty.
pub(super) fn masked(syntax: Syntax, text: &str) -> String {
    match syntax {
        Syntax::Json(_) => jsonc::tree(text).map_or_else(
            |_| String::new(),
            |(root, _)| {
                if let Some(value) = root.value() {
                    mask_json(&value, false);
                }
                root.to_string()
            },
        ),
        Syntax::Toml => toml::document(text).map_or_else(
            |_| String::new(),
            |mut document| {
                mask_table(document.as_table_mut(), false);
                document.to_string()
            },
        ),
    }
}

/// Returns what is shown of an argument that follows `before`, if it has a header.
fn masked_argument(before: &str, text: &str) -> Option<String> {
    let (option, header) = match text.strip_prefix("--header=") {
        Some(header) => ("--header=", header),
        None if before == OPTION => ("", text),
        None => return None,
    };
    let name = header.split_once(':').map_or("", |(name, _)| name);
    Some(format!("{option}{name}: {MASK}"))
}

/// Masks a value and all below it; all its texts if it is hidden.
fn mask_json(node: &CstNode, is_hidden: bool) {
    if let Some(object) = node.as_object() {
        for member in object.properties() {
            let name = member.decoded_name().unwrap_or_default();
            if let Some(value) = member.value() {
                mask_json(&value, is_hidden || HIDDEN.contains(&name.as_str()));
            }
        }
    } else if let Some(array) = node.as_array() {
        let mut before = String::new();
        for item in array.elements() {
            let text = item.as_string_lit();
            let text = text.and_then(|text| Some((text.decoded_value().ok()?, text)));
            match text {
                Some((decoded, literal)) if !is_hidden => {
                    if let Some(shown) = masked_argument(&before, &decoded) {
                        literal.set_raw_value(serde_json::Value::from(shown).to_string());
                    }
                    before = decoded;
                }
                _ => mask_json(&item, is_hidden),
            }
        }
    } else if let Some(text) = node.as_string_lit().filter(|_| is_hidden) {
        text.set_raw_value(format!("\"{MASK}\""));
    }
}

fn mask_table(table: &mut dyn TableLike, is_hidden: bool) {
    for (key, item) in table.iter_mut() {
        let is_hidden = is_hidden || HIDDEN.contains(&key.get());
        match item {
            Item::Value(value) => mask_toml(value, is_hidden),
            Item::Table(table) => mask_table(table, is_hidden),
            Item::ArrayOfTables(tables) => {
                for table in tables.iter_mut() {
                    mask_table(table, is_hidden);
                }
            }
            Item::None => {}
        }
    }
}

fn mask_toml(value: &mut toml_edit::Value, is_hidden: bool) {
    let replace = |value: &mut toml_edit::Value, shown: String| {
        let mut shown = toml_edit::Value::from(shown);
        *shown.decor_mut() = value.decor().clone();
        *value = shown;
    };
    match value {
        toml_edit::Value::InlineTable(table) => mask_table(table, is_hidden),
        toml_edit::Value::Array(items) => {
            let mut before = String::new();
            for item in items.iter_mut() {
                match item.as_str().map(str::to_owned) {
                    Some(text) if !is_hidden => {
                        if let Some(shown) = masked_argument(&before, &text) {
                            replace(item, shown);
                        }
                        before = text;
                    }
                    _ => mask_toml(item, is_hidden),
                }
            }
        }
        toml_edit::Value::String(_) if is_hidden => replace(value, MASK.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_and_headers_are_masked_in_any_spelling() {
        let json = r#"{ // mine
  "a": {"env": {"A": "one-pass"}, "args": ["--header", "X: tw\u006f-pass", "--header=Y:three", "x"]},
  "b": {"headers": {"Z": ["four-pass"]}}, "type": "stdio"
}"#;
        let shown = masked(Syntax::Json("a"), json);
        for hidden in ["pass", "three"] {
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
        for kept in ["// mine", "\"X: ", "\"--header=Y: ", "\"stdio\"", "\"x\""] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        let toml = "[mcp_servers.a] # mine\nargs = ['--header', 'X: one-pass', \"x\"]\nhttp_headers = { A = '''two-\npass''' }\n[mcp_servers.a.env]\nB = \"thr\\u0065e-pass\"\n";
        let shown = masked(Syntax::Toml, toml);
        assert!(!shown.contains("pass"), "{shown}");
        for kept in ["# mine", "\"X: ", "\"x\"", "[mcp_servers.a.env]"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}
