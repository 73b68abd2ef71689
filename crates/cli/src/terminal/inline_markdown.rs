//! Emphasis, code and links in a line of Markdown.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::render::style::Style;

/// Precedes the text of a line, so that it is not read as the beginning of a list or a heading.
const GUARD: &str = "x ";

/// Renders text with emphasis, code and links.
pub(super) fn inline(source: &str, style: Style) -> String {
    if source.trim().is_empty() {
        return source.to_owned();
    }
    let spaces = source.len() - source.trim_end_matches(' ').len();
    let guarded = format!("{GUARD}{source}");
    let mut rendered = String::new();
    let mut codes: Vec<&str> = Vec::new();
    let mut links: Vec<String> = Vec::new();
    let mut is_first = true;
    for event in Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Text(text) => {
                let text = if std::mem::take(&mut is_first) {
                    text.strip_prefix(GUARD).unwrap_or(&text).to_owned()
                } else {
                    text.into_string()
                };
                rendered.push_str(&text);
            }
            Event::Code(code) => rendered.push_str(&within(&codes, &style.code(&code))),
            Event::InlineHtml(text) | Event::Html(text) => rendered.push_str(&text),
            Event::SoftBreak | Event::HardBreak => rendered.push(' '),
            Event::Start(tag) => {
                let code = match tag {
                    Tag::Strong => "1",
                    Tag::Emphasis => "3",
                    Tag::Strikethrough => "9",
                    Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                        links.push(dest_url.into_string());
                        "4"
                    }
                    _ => continue,
                };
                codes.push(code);
                rendered.push_str(&style.begin(code));
            }
            Event::End(tag) => {
                let is_link = matches!(tag, TagEnd::Link | TagEnd::Image);
                let is_style = matches!(
                    tag,
                    TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough
                );
                if !is_link && !is_style {
                    continue;
                }
                codes.pop();
                rendered.push_str(&style.end());
                for code in &codes {
                    rendered.push_str(&style.begin(code));
                }
                if let Some(url) = links.pop_if(|_| is_link)
                    && !rendered.contains(&url)
                {
                    rendered.push_str(&within(&codes, &style.dim(&format!(" ({url})"))));
                }
            }
            _ => {}
        }
    }
    // The parser leaves out spaces at the end of a line, where the next part of the line begins.
    rendered + &" ".repeat(spaces)
}

/// Restores the styles around a text that has ended its own.
fn within(codes: &[&str], text: &str) -> String {
    if text.ends_with("\x1b[0m") {
        codes
            .iter()
            .fold(text.to_owned(), |text, code| format!("{text}\x1b[{code}m"))
    } else {
        text.to_owned()
    }
}
