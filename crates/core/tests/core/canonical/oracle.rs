//! What is equal, said independently: JSON text as a tree with number lexemes, written for clarity
//! and not for speed; values compared by recursion.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::{Number, Value};

/// A JSON text without what does not matter: white space, escapes, the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Word(&'static str),
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
}

/// Reads a JSON text; `None` if it is none, or has a key twice.
pub(super) fn read(text: &str) -> Option<Tree> {
    let mut reader = Reader(text.chars().collect::<Vec<_>>().into_iter().peekable());
    let tree = reader.tree()?;
    reader.blank();
    reader.0.next().is_none().then_some(tree)
}

struct Reader(Peekable<IntoIter<char>>);

impl Reader {
    fn blank(&mut self) {
        while self
            .0
            .next_if(|c| [' ', '\t', '\r', '\n'].contains(c))
            .is_some()
        {}
    }

    fn is_next(&mut self, wanted: char) -> bool {
        self.blank();
        self.0.next_if_eq(&wanted).is_some()
    }

    fn tree(&mut self) -> Option<Tree> {
        self.blank();
        match *self.0.peek()? {
            '"' => self.text().map(Tree::Text),
            '[' => self.list(),
            '{' => self.map(),
            'a'..='z' => self.word(),
            _ => self.number(),
        }
    }

    fn word(&mut self) -> Option<Tree> {
        let mut letters = String::new();
        while let Some(letter) = self.0.next_if(char::is_ascii_lowercase) {
            letters.push(letter);
        }
        ["null", "true", "false"]
            .into_iter()
            .find(|word| *word == letters)
            .map(Tree::Word)
    }

    fn number(&mut self) -> Option<Tree> {
        let mut lexeme = String::new();
        while let Some(c) = self
            .0
            .next_if(|c| c.is_ascii_digit() || "+-.eE".contains(*c))
        {
            lexeme.push(c);
        }
        is_number(&lexeme).then_some(Tree::Number(lexeme))
    }

    /// A string, through UTF-16, which is how its escapes are meant.
    fn text(&mut self) -> Option<String> {
        let mut units = Vec::new();
        self.0.next_if_eq(&'"')?;
        loop {
            match self.0.next()? {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => units.push(self.escape()?),
                c if c < ' ' => return None,
                c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Option<u16> {
        let plain = match self.0.next()? {
            'u' => {
                let digits: String = (0..4).map_while(|_| self.0.next()).collect();
                let hex = digits.len() == 4 && digits.chars().all(|c| c.is_ascii_hexdigit());
                return hex.then(|| u16::from_str_radix(&digits, 16).unwrap());
            }
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            c @ ('"' | '\\' | '/') => c,
            _ => return None,
        };
        Some(plain as u16)
    }

    fn list(&mut self) -> Option<Tree> {
        self.0.next();
        let mut items = Vec::new();
        if self.is_next(']') {
            return Some(Tree::List(items));
        }
        loop {
            items.push(self.tree()?);
            if self.is_next(']') {
                return Some(Tree::List(items));
            }
            self.is_next(',').then_some(())?;
        }
    }

    fn map(&mut self) -> Option<Tree> {
        self.0.next();
        let mut fields = BTreeMap::new();
        if self.is_next('}') {
            return Some(Tree::Map(fields));
        }
        loop {
            self.blank();
            let key = self.text()?;
            self.is_next(':').then_some(())?;
            let field = self.tree()?;
            if fields.insert(key, field).is_some() {
                return None;
            }
            if self.is_next('}') {
                return Some(Tree::Map(fields));
            }
            self.is_next(',').then_some(())?;
        }
    }
}

/// `-? (0 | [1-9][0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?`
fn is_number(lexeme: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let unsigned = lexeme.strip_prefix('-').unwrap_or(lexeme);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// Returns whether two values are equal inputs: integers by value, floats by bits, no integer equals a float.
pub(super) fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same_value(a, b)))
        }
        _ => false,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    let integer = |n: &Number| n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64().unwrap().to_bits() == b.as_f64().unwrap().to_bits(),
        _ => false,
    }
}

#[test]
fn oracle_parses_json() {
    for text in [
        "",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "nul",
        "\"\\ud800\"",
        "\"\\x\"",
        "[1,]",
        "{\"a\":1,\"\\u0061\":2}",
        "1 2",
        "\"\n\"",
        "--1",
        "1e+-1",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    let tree = read(" {\"b\": [1, 1.0, -0e-5], \"a\\n\": \"\\ud83d\\udc0b\\u00E9\"} ").unwrap();
    let number = |lexeme: &str| Tree::Number(lexeme.to_owned());
    assert_eq!(
        tree,
        Tree::Map(BTreeMap::from([
            ("a\n".to_owned(), Tree::Text("🐋é".to_owned())),
            (
                "b".to_owned(),
                Tree::List(vec![number("1"), number("1.0"), number("-0e-5")])
            ),
        ])),
    );
}
