//! Words of a command line with known and unknown parts.

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Atom {
    /// A character. `quoted` if it was quoted or escaped, so that it is no syntax.
    Char {
        /// The character.
        sign: char,
        /// True if it was quoted.
        quoted: bool,
    },
    /// One unknown character of a file name (`?`, `[…]`).
    One,
    /// An unknown part of a file name (`*`), without `/`.
    Star,
    /// Any text: a substitution, or a variable whose value is unknown.
    Any,
    /// A variable that the line may have set. With `quoted`, its value is one word.
    Variable {
        /// The name.
        name: String,
        /// True within double quotes.
        quoted: bool,
    },
    /// Unquoted `{`, `,` and `}`: a brace expansion, if they match.
    Open,
    /// See [`Atom::Open`].
    Comma,
    /// See [`Atom::Open`].
    Close,
}

/// A word, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Word(pub(crate) Vec<Atom>);

impl Word {
    /// Creates a word with exactly this text.
    pub(crate) fn literal(text: &str) -> Self {
        Self(text.chars().map(quoted).collect())
    }

    /// Creates a word with any text.
    pub(crate) fn any() -> Self {
        Self(vec![Atom::Any])
    }

    /// The text, if it is completely known.
    pub(crate) fn text(&self) -> Option<String> {
        self.0
            .iter()
            .map(|atom| match atom {
                Atom::Char { sign, .. } => Some(*sign),
                _ => None,
            })
            .collect()
    }

    /// The text of a word without quotes, which may be a reserved word or the name in an assignment.
    pub(crate) fn unquoted(&self) -> Option<String> {
        let is_quoted = |atom: &Atom| matches!(atom, Atom::Char { quoted: true, .. });
        match self.0.iter().any(is_quoted) {
            true => None,
            false => self.shown(),
        }
    }

    /// Like [`Word::text`], with braces and commas as written.
    fn shown(&self) -> Option<String> {
        self.0
            .iter()
            .map(|atom| match atom {
                Atom::Char { sign, .. } => Some(*sign),
                Atom::Open => Some('{'),
                Atom::Comma => Some(','),
                Atom::Close => Some('}'),
                _ => None,
            })
            .collect()
    }

    /// The text, with `unknown` for each unknown part.
    pub(crate) fn text_with(&self, unknown: char) -> String {
        self.0
            .iter()
            .map(|atom| match atom {
                Atom::Char { sign, .. } => *sign,
                _ => unknown,
            })
            .collect()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.iter().all(|atom| matches!(atom, Atom::Char { .. }))
    }

    /// True if it has unknown parts, and all of them are patterns of file names.
    pub(crate) fn is_glob(&self) -> bool {
        !self.is_known()
            && self
                .0
                .iter()
                .all(|atom| matches!(atom, Atom::Char { .. } | Atom::One | Atom::Star))
    }

    /// True if the text is known and one of these.
    pub(crate) fn is_one_of(&self, texts: &[&str]) -> bool {
        self.text().is_some_and(|text| texts.contains(&&*text))
    }

    /// True if the text may be one of these: it is one, or is not known.
    pub(crate) fn may_be_one_of(&self, texts: &[&str]) -> bool {
        self.text().is_none_or(|text| texts.contains(&&*text))
    }

    pub(crate) fn starts_with(&self, sign: char) -> bool {
        matches!(self.0.first(), Some(Atom::Char { sign: first, .. }) if *first == sign)
    }

    /// The name and the value, if this is NAME=VALUE with an unquoted name.
    pub(crate) fn assignment(&self) -> Option<(String, Self)> {
        let mut name = String::new();
        for (at, atom) in self.0.iter().enumerate() {
            match atom {
                atom if is_unquoted(atom, "=") && !name.is_empty() => {
                    let name = name.trim_end_matches('+').to_owned();
                    return Some((name, Self(self.0[at + 1..].to_vec())));
                }
                atom if is_unquoted(atom, "+")
                    && !name.is_empty()
                    && matches!(self.0.get(at + 1), Some(Atom::Char { sign: '=', .. })) =>
                {
                    name.push('+');
                }
                Atom::Char { sign, quoted } => {
                    let is_digit_first = name.is_empty() && sign.is_ascii_digit();
                    let is_letter = sign.is_ascii_alphanumeric() || *sign == '_';
                    if *quoted || is_digit_first || !is_letter {
                        return None;
                    }
                    name.push(*sign);
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns the words of its brace expansion; `None` if there are too many.
    pub(crate) fn braces(self) -> Option<Vec<Self>> {
        if self.0.iter().filter(|atom| **atom == Atom::Open).count() > 32 {
            return None;
        }
        let mut done = Vec::new();
        let mut open = vec![self];
        while let Some(word) = open.pop() {
            if done.len() + open.len() > 64 {
                return None;
            }
            match word.first_brace() {
                Some(parts) => open.extend(parts.into_iter().rev()),
                None => done.push(word.plain()),
            }
        }
        Some(done)
    }

    /// Returns the words of its first brace expansion.
    fn first_brace(&self) -> Option<Vec<Self>> {
        let atoms = &self.0;
        for start in (0..atoms.len()).filter(|at| atoms[*at] == Atom::Open) {
            let mut depth = 0;
            let mut commas = Vec::new();
            for (at, atom) in atoms.iter().enumerate().skip(start + 1) {
                match atom {
                    Atom::Open => depth += 1,
                    Atom::Comma if depth == 0 => commas.push(at),
                    Atom::Close if depth > 0 => depth -= 1,
                    Atom::Close => {
                        let inner = &atoms[start + 1..at];
                        let parts: Vec<Vec<Atom>> = if !commas.is_empty() {
                            let mut from = start + 1;
                            let mut parts = Vec::new();
                            for comma in commas.iter().copied().chain([at]) {
                                parts.push(atoms[from..comma].to_vec());
                                from = comma + 1;
                            }
                            parts
                        } else if is_sequence(inner) {
                            vec![vec![Atom::Any]]
                        } else {
                            break;
                        };
                        let around = |part: Vec<Atom>| {
                            let before = atoms[..start].iter().cloned();
                            Self(
                                before
                                    .chain(part)
                                    .chain(atoms[at + 1..].iter().cloned())
                                    .collect(),
                            )
                        };
                        return Some(parts.into_iter().map(around).collect());
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// Converts braces that do not expand to text.
    fn plain(self) -> Self {
        let plain = |atom| match atom {
            Atom::Open => unquoted('{'),
            Atom::Comma => unquoted(','),
            Atom::Close => unquoted('}'),
            other => other,
        };
        Self(self.0.into_iter().map(plain).collect())
    }
}

/// True for `a..b` in braces.
fn is_sequence(atoms: &[Atom]) -> bool {
    let dot = |atom: &Atom| matches!(atom, Atom::Char { sign: '.', .. });
    atoms.windows(2).any(|pair| pair.iter().all(dot))
}

/// True for an unquoted character that is one of these.
pub(crate) fn is_unquoted(atom: &Atom, signs: &str) -> bool {
    matches!(atom, Atom::Char { sign, quoted: false } if signs.contains(*sign))
}

pub(crate) fn quoted(sign: char) -> Atom {
    Atom::Char { sign, quoted: true }
}

pub(crate) fn unquoted(sign: char) -> Atom {
    Atom::Char {
        sign,
        quoted: false,
    }
}
