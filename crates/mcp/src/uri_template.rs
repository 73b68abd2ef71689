//! URI templates (RFC 6570) with string values.
//!
//! The crate `iri-string` implements the RFC too, and refuses templates that MCP's SDKs accept and servers
//! offer: names of variables such as `{user-id}`, literals with spaces.

use cachalot_tools::Arguments;

/// The problem of a template.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("`{{` is not closed in `{0}`")]
    NotClosed(String),
    #[error("`{{{inside}}}` in `{template}` names no variable")]
    NoVariable { inside: String, template: String },
}

/// The expansion of an expression's variables: RFC 6570, appendix A.
struct Operator {
    first: &'static str,
    separator: &'static str,
    /// Set if the names of variables are written.
    named: bool,
    /// The text between a name and an empty value.
    if_empty: &'static str,
    /// Set if reserved characters are not encoded.
    reserved: bool,
}

/// A piece of a template.
enum TemplatePart<'a> {
    Literal(&'a str),
    Expression(Operator, Vec<Variable<'a>>),
}

struct Variable<'a> {
    name: &'a str,
    /// Maximum number of characters of the value that are used.
    prefix: Option<usize>,
}

/// Returns the names of a template's variables, each once, in order, and true for those that the URI
/// requires. Variables of a query are optional.
///
/// # Errors
/// The problem of the template.
pub(super) fn variables(template: &str) -> Result<Vec<(String, bool)>, TemplateError> {
    let mut found: Vec<(String, bool)> = Vec::new();
    for piece in template_parts(template)? {
        let TemplatePart::Expression(operator, variables) = piece else {
            continue;
        };
        for variable in variables {
            let required = !operator.named;
            match found.iter_mut().find(|(name, _)| name == variable.name) {
                Some((_, known)) => *known |= required,
                None => found.push((variable.name.to_owned(), required)),
            }
        }
    }
    Ok(found)
}

/// Expands a template with these values. A variable without a value is omitted.
///
/// # Errors
/// The problem of the template.
pub(super) fn expand(template: &str, values: &Arguments) -> Result<String, TemplateError> {
    let mut address = String::new();
    for piece in template_parts(template)? {
        match piece {
            TemplatePart::Literal(text) => encode(text, true, &mut address),
            TemplatePart::Expression(operator, variables) => {
                expression(&operator, &variables, values, &mut address);
            }
        }
    }
    Ok(address)
}

fn expression(
    operator: &Operator,
    variables: &[Variable<'_>],
    values: &Arguments,
    address: &mut String,
) {
    let mut separator = operator.first;
    for variable in variables {
        let Some(value) = values.get(variable.name).and_then(|value| value.as_str()) else {
            continue;
        };
        address.push_str(separator);
        separator = operator.separator;
        if operator.named {
            address.push_str(variable.name);
            if value.is_empty() {
                address.push_str(operator.if_empty);
                continue;
            }
            address.push('=');
        }
        let value = match variable.prefix {
            None => value,
            Some(maximum) => value
                .char_indices()
                .nth(maximum)
                .map_or(value, |(end, _)| &value[..end]),
        };
        encode(value, operator.reserved, address);
    }
}

fn template_parts(template: &str) -> Result<Vec<TemplatePart<'_>>, TemplateError> {
    let mut template_parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        if open > 0 {
            template_parts.push(TemplatePart::Literal(&rest[..open]));
        }
        let (inside, after) = rest[open + 1..]
            .split_once('}')
            .ok_or_else(|| TemplateError::NotClosed(template.to_owned()))?;
        let (operator, list) = operator(inside);
        let variables: Vec<Variable<'_>> = list.split(',').map(variable).collect();
        if variables.iter().any(|variable| variable.name.is_empty()) {
            return Err(TemplateError::NoVariable {
                inside: inside.to_owned(),
                template: template.to_owned(),
            });
        }
        template_parts.push(TemplatePart::Expression(operator, variables));
        rest = after;
    }
    if !rest.is_empty() {
        template_parts.push(TemplatePart::Literal(rest));
    }
    Ok(template_parts)
}

fn operator(inside: &str) -> (Operator, &str) {
    let new_operator = |first, separator, named, if_empty, reserved| Operator {
        first,
        separator,
        named,
        if_empty,
        reserved,
    };
    let known = match inside.as_bytes().first() {
        Some(b'+') => new_operator("", ",", false, "", true),
        Some(b'#') => new_operator("#", ",", false, "", true),
        Some(b'.') => new_operator(".", ".", false, "", false),
        Some(b'/') => new_operator("/", "/", false, "", false),
        Some(b';') => new_operator(";", ";", true, "", false),
        Some(b'?') => new_operator("?", "&", true, "=", false),
        Some(b'&') => new_operator("&", "&", true, "=", false),
        _ => return (new_operator("", ",", false, "", false), inside),
    };
    (known, &inside[1..])
}

fn variable(text: &str) -> Variable<'_> {
    // For a single string, the explode modifier has no effect.
    let text = text.trim().trim_end_matches('*');
    match text.split_once(':') {
        Some((name, maximum)) => Variable {
            name,
            prefix: maximum.parse().ok(),
        },
        None => Variable {
            name: text,
            prefix: None,
        },
    }
}

/// Percent-encodes all but unreserved characters; if `reserved`, also keeps reserved characters and
/// percent-encoded triplets.
fn encode(text: &str, reserved: bool, into: &mut String) {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let is_triplet = || {
            bytes
                .get(at + 1..at + 3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        let stays = byte.is_ascii_alphanumeric()
            || b"-._~".contains(byte)
            || (reserved
                && (b":/?#[]@!$&'()*+,;=".contains(byte) || (*byte == b'%' && is_triplet())));
        if stays {
            into.push(char::from(*byte))
        } else {
            into.push_str(&format!("%{byte:02X}"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 6570, section 3.2, with their values.
    #[test]
    fn expressions_of_every_kind() {
        let values = json!({
            "var": "value", "hello": "Hello World!", "empty": "", "path": "/foo/bar",
            "x": "1024", "y": "768", "half": "50%", "who": "fred", "base": "http://example.com/home/",
        });
        for (template, expected) in [
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{half}", "50%25"),
            ("O{empty}X", "OX"),
            ("O{undef}X", "OX"),
            ("{x,y}", "1024,768"),
            ("{x,hello,y}", "1024,Hello%20World%21,768"),
            ("?{x,undef}", "?1024"),
            ("{var:3}", "val"),
            ("{var:30}", "value"),
            ("{+var}", "value"),
            ("{+hello}", "Hello%20World!"),
            ("{+half}", "50%25"),
            ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
            ("{+base}index", "http://example.com/home/index"),
            ("{+path}/here", "/foo/bar/here"),
            ("{+path:6}/here", "/foo/b/here"),
            ("{#path,x}/here", "#/foo/bar,1024/here"),
            ("X{.var}", "X.value"),
            ("{/var,x}/here", "/value/1024/here"),
            ("{;x,y}", ";x=1024;y=768"),
            ("{;x,y,empty}", ";x=1024;y=768;empty"),
            ("{?x,y,empty}", "?x=1024&y=768&empty="),
            ("{?x,y,undef}", "?x=1024&y=768"),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{who*}", "fred"),
            ("users://{who}/é", "users://fred/%C3%A9"),
        ] {
            let address = expand(template, values.as_object().unwrap()).unwrap();
            assert_eq!(address, expected, "{template}");
        }
        assert!(expand("{a", &Arguments::new()).is_err());
        assert!(expand("{}", &Arguments::new()).is_err());
    }

    #[test]
    fn query_variables_are_optional() {
        let found = variables("db://{table}/{id}{?limit,table}").unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(name, must)| (name.as_str(), *must))
            .collect();
        assert_eq!(found, [("table", true), ("id", true), ("limit", false)]);
    }
}
