//! Go templates of docker-agent, in which a model hook writes its `prompt`: `{{ .ToolInput | toJSON }}`.
//!
//! They are translated to Jinja, the language of our own templates. A template that has no Jinja counterpart
//! is refused.

use std::borrow::Cow;

use cachalot_core::Problem;
use cachalot_core::text::truncate;

use crate::contract::INPUT_KEYS;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The maximum number of characters of an action that a message shows.
const MAX_SHOWN: usize = 60;

/// Words with which an action of a Go template begins, and no expression of Jinja.
const GO_WORDS: [&str; 12] = [
    "if", "else", "end", "range", "with", "define", "template", "block", "toJSON", "index", "len",
    "printf",
];

/// Returns the template in Jinja. A Jinja template is returned as it is.
///
/// # Errors
/// `bad-template`: the template is one of Go, and has no counterpart.
pub(crate) fn to_jinja(source: &str) -> Result<Cow<'_, str>, Problem> {
    if actions(source).any(is_go) {
        translated(source).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(source))
    }
}

/// Returns the field of hook input that a template in `text` names: `tool_name` for `{{ .ToolName }}`. Names
/// of one word are left out, because templates of other programs have such names, as in
/// `docker ps --format '{{ .Status }}'`.
pub(crate) fn named_field(text: &str) -> Option<&'static str> {
    actions(text)
        .flat_map(|action| action.split(|c: char| !(c.is_alphanumeric() || "._".contains(c))))
        .filter_map(|word| word.trim_start_matches('.').split('.').next())
        .map(snake_case)
        .filter(|name| name.contains('_'))
        .find_map(|name| {
            INPUT_KEYS
                .iter()
                .map(|key| key.name)
                .find(|key| *key == name)
        })
}

/// Returns the contents of the actions, without their markers and the marks that trim white space.
fn actions(source: &str) -> impl Iterator<Item = &str> {
    source.split(OPEN).skip(1).filter_map(|rest| {
        let (action, _) = rest.split_once(CLOSE)?;
        Some(action.trim_matches('-').trim())
    })
}

fn is_go(action: &str) -> bool {
    let word = action.split_whitespace().next().unwrap_or_default();
    action.starts_with('.') || action.starts_with("/*") || GO_WORDS.contains(&word)
}

fn translated(source: &str) -> Result<String, Problem> {
    let mut jinja = String::new();
    let mut rest = source;
    // The number of conditions that have not ended.
    let mut depth = 0_u32;
    while let Some((text, after)) = rest.split_once(OPEN) {
        literal(text, &mut jinja);
        let Some((action, after)) = after.split_once(CLOSE) else {
            return Err(refused(after, "it does not end"));
        };
        rest = after;
        let (left, right) = (action.starts_with("- "), action.ends_with(" -"));
        let inner = action.strip_prefix('-').unwrap_or(action);
        let inner = inner.strip_suffix('-').unwrap_or(inner).trim();
        let (markers, body) = statement(inner, &mut depth).map_err(|why| refused(inner, why))?;
        let dash = |is_set| if is_set { "-" } else { "" };
        jinja.push_str(&format!(
            "{}{} {body} {}{}",
            markers.0,
            dash(left),
            dash(right),
            markers.1
        ));
    }
    literal(rest, &mut jinja);
    match depth {
        0 => Ok(jinja),
        _ => Err(refused("if", "it has no `end`")),
    }
}

/// Appends text that is not part of an action; markers of Jinja have no meaning in it.
fn literal(text: &str, jinja: &mut String) {
    let text = text.replace("{%", "{{ '{%' }}").replace("{#", "{{ '{#' }}");
    jinja.push_str(&text);
}

type Markers = (&'static str, &'static str);
const EXPRESSION: Markers = ("{{", "}}");
const STATEMENT: Markers = ("{%", "%}");
const COMMENT: Markers = ("{#", "#}");

const NO_COUNTERPART: &str = "it has no counterpart here";

fn statement(action: &str, depth: &mut u32) -> Result<(Markers, String), &'static str> {
    if let Some(comment) = action.strip_prefix("/*") {
        let comment = comment.trim_end_matches("*/").replace("#}", "");
        return Ok((COMMENT, comment));
    }
    let (word, rest) = action
        .split_once(char::is_whitespace)
        .unwrap_or((action, ""));
    let rest = rest.trim();
    match word {
        "if" => {
            *depth += 1;
            Ok((STATEMENT, format!("if {}", pipeline(rest)?)))
        }
        "else" if *depth == 0 => Err("it has no `if`"),
        "else" if rest.is_empty() => Ok((STATEMENT, "else".to_owned())),
        "else" => match rest.strip_prefix("if ") {
            Some(condition) => Ok((STATEMENT, format!("elif {}", pipeline(condition)?))),
            None => Err(NO_COUNTERPART),
        },
        "end" => match depth.checked_sub(1) {
            Some(outer) => {
                *depth = outer;
                Ok((STATEMENT, "endif".to_owned()))
            }
            None => Err("it has no `if`"),
        },
        _ => Ok((EXPRESSION, pipeline(action)?)),
    }
}

/// Translates commands that are joined by `|`.
fn pipeline(text: &str) -> Result<String, &'static str> {
    let mut words = words(text)?.into_iter().peekable();
    let mut value: Option<String> = None;
    while words.peek().is_some() {
        let command: Vec<String> = words.by_ref().take_while(|word| word != "|").collect();
        value = Some(self::command(&command, value)?);
    }
    value.ok_or("it is empty")
}

/// Translates one command; `piped` is the result of the command before it, which is the last argument.
fn command(words: &[String], piped: Option<String>) -> Result<String, &'static str> {
    let Some((first, rest)) = words.split_first() else {
        return Err("it is empty");
    };
    let mut values = rest
        .iter()
        .map(|word| value(word))
        .collect::<Result<Vec<_>, _>>()?;
    let is_value = value(first).is_ok();
    if is_value {
        return match (values.is_empty(), piped) {
            (true, None) => value(first),
            _ => Err(NO_COUNTERPART),
        };
    }
    values.extend(piped);
    let infix = |operator: &str| Ok(format!("({})", values.join(operator)));
    match (first.as_str(), values.as_slice()) {
        ("toJSON", [value]) => Ok(format!("{value} | tojson")),
        ("truncate", [length, value]) => Ok(format!("{value} | truncate({length})")),
        ("len", [value]) => Ok(format!("{value} | length")),
        ("not", [value]) => Ok(format!("(not {value})")),
        ("index", [value, keys @ ..]) if !keys.is_empty() => {
            Ok(format!("{value}[{}]", keys.join("][")))
        }
        ("eq", [_, _]) => infix(" == "),
        ("ne", [_, _]) => infix(" != "),
        ("and", [_, _, ..]) => infix(" and "),
        ("or", [_, _, ..]) => infix(" or "),
        _ => Err(NO_COUNTERPART),
    }
}

/// Translates a field, a text or a number.
fn value(word: &str) -> Result<String, &'static str> {
    if word == "." {
        return Ok("input".to_owned());
    }
    if let Some(path) = word.strip_prefix('.') {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let mut names = path.split('.');
        return if names.clone().all(is_name) {
            Ok(names.by_ref().map(snake_case).collect::<Vec<_>>().join("."))
        } else {
            Err(NO_COUNTERPART)
        };
    }
    let is_text = word.len() > 1 && word.starts_with('"') && word.ends_with('"');
    if is_text || word.parse::<i64>().is_ok() || ["true", "false"].contains(&word) {
        Ok(word.to_owned())
    } else {
        Err(NO_COUNTERPART)
    }
}

/// Splits an action into words; texts stay whole.
fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                let word = words.last_mut().ok_or(NO_COUNTERPART)?;
                word.push('"');
                loop {
                    match characters.next() {
                        None => return Err("a text does not end"),
                        Some('"') => break,
                        Some('\\') => {
                            word.push('\\');
                            word.extend(characters.next());
                        }
                        Some(other) => word.push(other),
                    }
                }
                word.push('"');
            }
            '|' => words.extend(["|".to_owned(), String::new()]),
            space if space.is_whitespace() => words.push(String::new()),
            '(' | ')' | '$' | '`' | '\'' | '=' => return Err(NO_COUNTERPART),
            other => words.last_mut().ok_or(NO_COUNTERPART)?.push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Returns the name of a field in JSON: `tool_use_id` for `ToolUseID`. Keys of a mapping stay as they are.
fn snake_case(name: &str) -> String {
    if !name.starts_with(char::is_uppercase) {
        return name.to_owned();
    }
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (at, character) in characters.iter().enumerate() {
        let is_after_lower = at > 0 && characters[at - 1].is_lowercase();
        let is_before_lower = characters
            .get(at + 1)
            .is_some_and(|next| next.is_lowercase());
        let begins_word = at > 0 && character.is_uppercase() && (is_after_lower || is_before_lower);
        if begins_word {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

fn refused(action: &str, why: &str) -> Problem {
    let shown = truncate(action.trim(), MAX_SHOWN);
    let message = format!("`prompt`: the Go template `{{{{ {shown} }}}}` cannot be used: {why}");
    Problem::new("bad-template", message)
        .help("write it as a Jinja template, such as `May this run? {{ tool_input | tojson }}`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/go_template.rs"]
mod tests;
