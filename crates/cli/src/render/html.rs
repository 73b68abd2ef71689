//! HTML reports: the frame of a page. A report is one static file that loads nothing and runs no script but its own.
//!
//! Templates escape each value, in attributes, too. Values are escaped for scripts by [`Data`] only. The policy in the page
//! permits the style and the script of this program by their hashes, so that markup that got around the escaping would
//! still neither run nor load anything.

pub(crate) mod chart;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cachalot_core::{Digest, Millis};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::local_time::to_second;
use crate::command_error::{CommandError, Result};

/// The beginning of each report, by which its file is recognized.
pub(crate) const BEGINNING: &str = "<!DOCTYPE html>\n<html lang=\"en\" data-report=\"cachalot\">\n";

const PAGE: &str = include_str!("html/page.html");
const PARTS: &str = include_str!("html/parts.html");
const STYLE: &str = include_str!("html/page.css");

/// The parts of a page that are the same for each report of its kind.
pub(crate) struct Kind {
    /// The name of the template; it ends with `.html`, so that values are escaped.
    pub(crate) name: &'static str,
    /// The template, which extends `page.html`.
    pub(crate) template: &'static str,
    /// The script; empty if there is none.
    pub(crate) script: &'static str,
}

impl Kind {
    /// Returns the page. The template finds `content` under the name `page`.
    ///
    /// # Errors
    /// The template is wrong.
    pub(crate) fn render(
        &self,
        title: &str,
        made: Millis,
        content: &impl Serialize,
    ) -> Result<String> {
        let Self {
            name,
            template,
            script,
        } = *self;
        let frame = context! {
            title,
            policy => policy(script),
            style => STYLE,
            script,
            version => env!("CARGO_PKG_VERSION"),
            made => to_second(made),
        };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::SemiStrict);
        let templates = [("page.html", PAGE), ("parts.html", PARTS), (name, template)];
        let mut added = templates.into_iter();
        added
            .try_for_each(|(name, source)| environment.add_template(name, source))
            .and_then(|()| {
                let page = Value::from(Serde(content));
                environment
                    .get_template(name)?
                    .render(context! { frame, page })
            })
            .map_err(|error| CommandError::failed(format!("cannot write HTML: {error:#}")))
    }
}

/// Returns the policy of a page: it loads nothing, sends nothing, and runs its own script only.
fn policy(script: &str) -> String {
    let hash = |text: &str| {
        format!(
            "'sha256-{}'",
            BASE64.encode(Digest::sha256(text.as_bytes()).as_bytes())
        )
    };
    let script = match script {
        "" => "'none'".to_owned(),
        script => hash(script),
    };
    format!(
        "default-src 'none'; script-src {script}; style-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE)
    )
}

/// A figure at the top of a page: its name, its value, a remark in small print, and the class of its style.
#[derive(Serialize)]
pub(crate) struct Card {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) remark: String,
    pub(crate) class: &'static str,
}

/// JSON in a `script` element. `<`, `>` and `&` are written as escapes, so that no text ends the element.
pub(crate) struct Data(String);

impl Data {
    /// # Errors
    /// The value cannot be represented in JSON.
    pub(crate) fn new(value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_string(value).map_err(std::io::Error::from)?;
        let mut escaped = String::with_capacity(json.len());
        for character in json.chars() {
            match character {
                '<' => escaped.push_str("\\u003c"),
                '>' => escaped.push_str("\\u003e"),
                '&' => escaped.push_str("\\u0026"),
                other => escaped.push(other),
            }
        }
        Ok(Self(escaped))
    }
}

impl Serialize for Data {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        Value::from_safe_string(self.0.clone()).serialize(serializer)
    }
}

/// Returns a part of a whole in percent, rounded.
pub(crate) fn share(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    let percent = (u128::from(part) * 100 + whole / 2) / whole;
    u64::try_from(percent).unwrap_or(100).min(100)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn unwrapped<T>(result: Result<T>) -> T {
        result.map_err(|error| error.to_string()).unwrap()
    }

    #[test]
    fn page_escapes_values_and_permits_its_own_script_only() {
        let kind = Kind {
            name: "test.html",
            template: "{% extends 'page.html' %}{% from 'parts.html' import texts %}\
                       {% block head %}<h1 title=\"{{ page.name }}\">{{ page.name }}</h1>{% endblock %}\
                       {% block body %}{{ texts(page.name, '') }}{% endblock %}\
                       {% block data %}<script type=\"application/json\">{{ page.data }}</script>{% endblock %}",
            script: "f();",
        };
        let hostile = "</script><b title='x'>\" & \u{2028}";
        let content = serde_json::json!({"name": hostile, "a": 1});
        #[derive(Serialize)]
        struct Content {
            name: String,
            data: Data,
        }
        let content = Content {
            name: hostile.to_owned(),
            data: unwrapped(Data::new(&content)),
        };
        let page = unwrapped(kind.render(hostile, 0, &content));
        assert!(page.starts_with(BEGINNING), "{page}");
        assert!(!page.contains("<b title"), "{page}");
        // The script of the page, and the data.
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        assert!(
            page.contains(
                "<h1 title=\"&lt;&#x2f;script&gt;&lt;b title=&#x27;x&#x27;&gt;&quot; &amp;"
            ),
            "{page}"
        );
        let data = page
            .split_once("<script type=\"application/json\">")
            .unwrap()
            .1;
        let data = data.split_once("</script>").unwrap().0;
        let read: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["name"], hostile);
        // The hash of `f();`, by `openssl dgst -sha256 -binary | base64`.
        let hash = "9RATIFdqkCJTNwEc6+pNG0qjxmJA9pKWbaKmy3Jw3G0=";
        assert!(
            page.contains(&format!("script-src &#x27;sha256-{hash}&#x27;")),
            "{page}"
        );
        assert!(page.contains("<script>f();</script>"), "{page}");
    }

    #[test]
    fn page_without_a_script_permits_none() {
        let kind = Kind {
            name: "test.html",
            template: "{% extends 'page.html' %}",
            script: "",
        };
        let page = unwrapped(kind.render("title", 0, &()));
        assert!(page.contains("script-src &#x27;none&#x27;;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(!STYLE.contains("</") && !STYLE.contains("url("));
    }

    #[test]
    fn shares_are_between_nothing_and_all() {
        let shares = [share(2, 3), share(1, 3), share(5, 0), share(u64::MAX, 1)];
        assert_eq!(shares, [67, 33, 100, 100]);
    }
}
