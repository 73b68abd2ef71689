//! A conversation as a page of HTML, without scripts and without requests.

use pulldown_cmark::{Event, Parser, Tag, TagEnd, html};

use super::{Part, SYNTAX, Section, Transcript, is_harmless_link};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;overflow-wrap:break-word}\
section{margin:1.5rem 0;padding:.1rem 1rem;border-left:4px solid #8888}\
.user{border-color:#2a7de1}\
h2{font-size:1rem}\
pre{overflow-x:auto;padding:.75rem;background:#8882}\
details pre{max-height:30rem;overflow:auto}\
table{border-collapse:collapse;display:block;overflow-x:auto}\
td,th{border:1px solid #8888;padding:.25rem .5rem}\
@media print{details pre{max-height:none}}";

/// Formats a conversation.
pub(super) fn document(transcript: &Transcript) -> String {
    let Transcript {
        title,
        about,
        sections,
    } = transcript;
    let title = escaped(title);
    let about: String = about
        .iter()
        .map(|line| format!("<p>{}</p>\n", escaped(line)))
        .collect();
    let sections: String = sections.iter().map(section).collect();
    // The policy holds even if something got through as markup.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{about}{sections}</main>\n</body>\n</html>\n"
    )
}

fn section(section: &Section) -> String {
    let (class, name) = if section.is_user {
        ("user", "User")
    } else {
        ("assistant", "Assistant")
    };
    let parts: String = section.parts.iter().map(part).collect();
    format!("<section class=\"{class}\">\n<h2>{name}</h2>\n{parts}</section>\n")
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => rendered(text),
        Part::Details { title, content } => format!(
            "<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n",
            escaped(title),
            escaped(content)
        ),
    }
}

/// Renders Markdown. HTML in it becomes text, images become their description, and links that run something become
/// text.
fn rendered(text: &str) -> String {
    // True for each open link that is kept.
    let mut links: Vec<bool> = Vec::new();
    let events = Parser::new_ext(text, SYNTAX).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link { ref dest_url, .. }) => {
            let is_kept = is_harmless_link(dest_url);
            links.push(is_kept);
            is_kept.then_some(event)
        }
        Event::End(TagEnd::Link) => links.pop().unwrap_or_default().then_some(event),
        event => Some(event),
    });
    let mut rendered = String::new();
    html::push_html(&mut rendered, events);
    rendered
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    html::push_html(&mut escaped, std::iter::once(Event::Text(text.into())));
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, transcript};
    use super::*;

    #[test]
    fn nothing_runs_and_nothing_is_loaded() {
        let document = document(&transcript(HOSTILE));
        for absent in [
            "<script",
            "<img",
            "<div",
            "onclick=\"",
            "href=\"javascript:",
        ] {
            assert!(!document.contains(absent), "{absent}: {document}");
        }
        for present in [
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "<a href=\"https://example.org\">b</a>",
            "<title>Chat with &lt;root&gt;</title>",
            "<code>&lt;b&gt;</code> is code",
            "<summary>call of &lt;shell&gt;</summary>",
            "<pre>&lt;/pre&gt;\n````\n&lt;script&gt;</pre>",
        ] {
            assert!(document.contains(present), "{present}: {document}");
        }
    }
}
