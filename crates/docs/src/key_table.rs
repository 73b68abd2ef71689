//! Tables of keys.

use std::collections::BTreeMap;

use cachalot_core::config::{Literal, Row};

/// What precedes the part of a cell that is written by hand: it stays when the table is written again.
const REMARK: &str = "<!-- remark -->";

/// A table of declared keys.
pub(crate) struct KeyTable {
    /// The keys.
    rows: Vec<Row>,
    columns: Columns,
}

/// The columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Key and meaning.
    Meaning,
    /// Key, default and meaning.
    Default,
    /// Parameter, type and meaning.
    Type,
}

/// The cells of a row that are written by hand.
#[derive(Default)]
struct ByHand {
    /// The default of a key that declares none.
    default: Option<String>,
    /// Follows the sentence of the declaration.
    remark: String,
}

impl KeyTable {
    pub(crate) fn new(rows: Vec<Row>, columns: Columns) -> Self {
        Self { rows, columns }
    }

    /// Returns the table. What is written by hand is taken from the old one.
    pub(crate) fn text(&self, old: &str) -> String {
        let mut by_hand = by_hand(old);
        let mut text = match self.columns {
            Columns::Meaning => "| key | meaning |\n|---|---|\n",
            Columns::Default => "| key | default | meaning |\n|---|---|---|\n",
            Columns::Type => "| parameter | type | meaning |\n|---|---|---|\n",
        }
        .to_owned();
        for Row { key, parameter } in &self.rows {
            let ByHand { default, remark } = by_hand.remove(key).unwrap_or_default();
            let mut cells = vec![format!("`{key}`")];
            let sentence = match self.columns {
                Columns::Meaning => parameter.description(),
                Columns::Default => {
                    cells.push(match parameter.default {
                        Some(Literal::Text(text)) => format!("`{text}`"),
                        Some(literal) => format!("`{}`", literal.to_value()),
                        None if parameter.required => "required".to_owned(),
                        None => default.unwrap_or_else(|| "none".to_owned()),
                    });
                    parameter.sentence().to_owned()
                }
                Columns::Type => {
                    let required = if parameter.required { ", required" } else { "" };
                    cells.push(format!("{}{required}", parameter.kind.noun()));
                    let aliases = parameter.aliases.iter();
                    let aliases = aliases.map(|alias| format!(" Also `{alias}`."));
                    parameter.description() + &aliases.collect::<String>()
                }
            };
            let sentence = sentence.replace('|', "\\|");
            cells.push(match remark.as_str() {
                "" => sentence,
                remark => format!("{sentence} {REMARK} {remark}"),
            });
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text
    }
}

/// Returns what is written by hand in the rows of a table, by key.
fn by_hand(table: &str) -> BTreeMap<String, ByHand> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.filter_map(|line| {
        let line = line.trim().strip_prefix("| `")?.strip_suffix(" |")?;
        let (key, rest) = line.split_once("` | ")?;
        // A cell may contain `\|`, but no other bar.
        let (default, meaning) = match rest.split_once(" | ") {
            Some((default, meaning)) => (Some(default.to_owned()), meaning),
            None => (None, rest),
        };
        let remark = meaning.split_once(REMARK);
        let remark = remark.map(|(_, remark)| remark.trim().to_owned());
        Some((
            key.to_owned(),
            ByHand {
                default,
                remark: remark.unwrap_or_default(),
            },
        ))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use cachalot_core::config::{ParameterKind as Kind, Table, key, required};

    use super::*;

    static TABLE: Table = Table::new(
        "a section",
        "",
        &[&[
            required("name", Kind::Text, "The name."),
            key("size", Kind::Integer, "The size | width.").default(Literal::Integer(3)),
            key("place", Kind::Text, "The place.").with_aliases(&["where"]),
        ]],
    );

    #[test]
    fn rows_are_declared_and_remarks_stay() {
        let table = |columns| KeyTable::new(TABLE.rows("a.", true), columns);
        let old =
            "| `a.place` | here | Old. <!-- remark --> [More](b.md). |\n| `a.gone` | x | y |\n";
        let new = "| key | default | meaning |\n|---|---|---|\n\
            | `a.name` | required | The name. |\n\
            | `a.size` | `3` | The size \\| width. |\n\
            | `a.place` | here | The place. <!-- remark --> [More](b.md). |\n";
        assert_eq!(table(Columns::Default).text(old), new);
        assert_eq!(table(Columns::Default).text(new), new);
        let new = "| key | meaning |\n|---|---|\n\
            | `a.name` | The name. |\n\
            | `a.size` | The size \\| width. Default: 3. |\n\
            | `a.place` | The place. |\n";
        assert_eq!(table(Columns::Meaning).text(""), new);
        let new = "| parameter | type | meaning |\n|---|---|---|\n\
            | `a.name` | text, required | The name. |\n\
            | `a.size` | whole number | The size \\| width. Default: 3. |\n\
            | `a.place` | text | The place. Also `where`. |\n";
        assert_eq!(table(Columns::Type).text(""), new);
    }
}
