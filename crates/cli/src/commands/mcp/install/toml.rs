//! The configuration of Codex, edited in place: comments and everything else stay.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::jsonc::Fault;

/// The table with the servers.
pub(super) const SERVERS: &str = "mcp_servers";

/// Parses a text.
pub(super) fn document(text: &str) -> Result<DocumentMut, Fault> {
    text.parse().map_err(|error: toml_edit::TomlError| Fault {
        at: error.span().map_or(0, |span| span.start),
        what: format!("this is no TOML: {}", error.message()),
    })
}

/// Returns the entry of a server as JSON, without times, which none has; `null` if there is none.
pub(super) fn server(text: &str, name: &str) -> Result<Value, Fault> {
    let document = document(text)?;
    let entry = document.get(SERVERS).and_then(|servers| servers.get(name));
    Ok(entry.map(of_item).unwrap_or_default())
}

/// Returns the text with the members of `entry` in the table of the server `name`.
pub(super) fn with_server(text: &str, name: &str, entry: &Value) -> Result<String, Fault> {
    let mut document = document(text)?;
    let no_table = || Fault {
        at: text.find(SERVERS).unwrap_or(0),
        what: format!("`{SERVERS}` is not a table of tables"),
    };
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or_else(no_table)?;
    let table = servers.entry(name).or_insert_with(toml_edit::table);
    let table = table.as_table_like_mut().ok_or_else(no_table)?;
    for (key, value) in entry.as_object().into_iter().flatten() {
        set(table, key, of_json(value));
    }
    let edited = with_ends_of(text, &document.to_string());
    // What other programs read must not depend on the ends of lines.
    match self::document(&edited) {
        Ok(after) if of_table(after.as_table()) == of_table(document.as_table()) => Ok(edited),
        _ => Err(Fault {
            at: 0,
            what: "this cannot be edited here without a change of other settings".to_owned(),
        }),
    }
}

/// Returns the edited text with carriage returns if all lines of `text` have them: the library writes them within texts
/// of several lines only.
fn with_ends_of(text: &str, edited: &str) -> String {
    let ends = text.matches('\n').count();
    if ends > 0 && ends == text.matches("\r\n").count() {
        edited.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        edited.to_owned()
    }
}

/// Sets a member, with the comments of its old value.
pub(super) fn set(table: &mut dyn TableLike, key: &str, mut value: toml_edit::Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        Some(other) => *other = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}

fn of_json(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Array(items) => items.iter().map(of_json).collect::<Array>().into(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.as_str(), of_json(value)))
            .collect::<InlineTable>()
            .into(),
        Value::String(text) => text.as_str().into(),
        // Entries have none.
        Value::Number(_) | Value::Null => value.to_string().into(),
    }
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::Value(value) => of_value(value),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
        Item::Table(table) => of_table(table),
        Item::None => Value::Null,
    }
}

fn of_value(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;

    match value {
        Toml::String(text) => text.value().as_str().into(),
        Toml::Boolean(value) => (*value.value()).into(),
        Toml::Array(items) => items.iter().map(of_value).collect(),
        Toml::InlineTable(table) => of_table(table),
        other => other.to_string().into(),
    }
}

fn of_table(table: &dyn TableLike) -> Value {
    let members = table.iter();
    Value::Object(
        members
            .map(|(key, item)| (key.to_owned(), of_item(item)))
            .collect(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(text: &str) -> Result<String, Fault> {
        let entry = json!({ "command": "/x y", "args": ["mcp", "--", "a\"b"] });
        let edited = with_server(text, "new", &entry)?;
        let written = server(&edited, "new")?;
        assert_eq!(written["command"], entry["command"]);
        assert_eq!(written["args"], entry["args"]);
        Ok(edited)
    }

    const BLOCK: &str = "[mcp_servers.new]\ncommand = \"/x y\"\nargs = [\"mcp\", \"--\", 'a\"b']\n";

    #[test]
    fn everything_else_stays() {
        assert_eq!(set("").unwrap(), BLOCK);
        let before = "# mine\nmodel = 'a' # b\n\n[mcp_servers.other]\ncommand='x'";
        assert_eq!(set(before).unwrap(), format!("{before}\n\n{BLOCK}"));
        let before = "a = 1\n[mcp_servers.new] # mine\n# x\ncommand = 'y' # z\n\n# of tui\n[tui]\nx = 1979-05-27\n";
        assert_eq!(
            set(before).unwrap(),
            before.replace(
                "'y' # z\n",
                "\"/x y\" # z\nargs = [\"mcp\", \"--\", 'a\"b']\n"
            )
        );
        let before = "a = 1\r\nb = \"\"\"x\r\ny\"\"\"\r\n\r\n[tui]\r\nb = 2\r\n";
        let block = BLOCK.replace('\n', "\r\n");
        assert_eq!(set(before).unwrap(), format!("{before}\r\n{block}"));
        let mixed = "a = 1\nb = \"\"\"x\r\ny\nz\"\"\"\r\n";
        assert!(set(mixed).unwrap().contains("\"\"\"x\r\ny\nz\"\"\""));
        for before in [
            "mcp_servers = { other = { command = 'x' } }\n",
            "mcp_servers.new.command = 'x'\n",
            "[mcp_servers.new]\ncommand = 'x'\n[mcp_servers.new.env]\nA = 'b'\n",
        ] {
            set(before).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_edited_is_refused_with_its_place() {
        for (text, at) in [("a = 1\nb = \n", 10), ("mcp_servers = 1\n", 0)] {
            assert_eq!(set(text).unwrap_err().at, at, "{text}");
        }
    }
}
