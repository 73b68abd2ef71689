//! A conversation as Markdown.

use pulldown_cmark::{Event, Parser, Tag};

use super::{Part, SYNTAX, Section, Transcript, is_harmless_link};

/// The maximum number of times that a text is searched for markup to escape: what is escaped changes the meaning of what
/// follows it.
const MAX_PASSES: usize = 16;

/// Formats a conversation. Texts are quotations, which no text can end.
pub(super) fn document(transcript: &Transcript) -> String {
    let Transcript {
        title,
        about,
        sections,
    } = transcript;
    let mut document = format!("# {title}\n\n");
    for line in about {
        document += &format!("- {line}\n");
    }
    for Section { is_user, parts } in sections {
        document += if *is_user {
            "\n## User\n"
        } else {
            "\n## Assistant\n"
        };
        for part in parts {
            document += &match part {
                Part::Text(text) => quoted(text),
                Part::Details { title, content } => format!("\n{title}:\n\n{}", fenced(content)),
            };
        }
    }
    // The whole document at once: a definition in one text, such as the target of a link, holds in all of them.
    escaped(document)
}

fn quoted(text: &str) -> String {
    let lines = text.lines().map(|line| format!("> {line}"));
    let lines = lines.map(|line| format!("{}\n", line.trim_end()));
    format!("\n{}", lines.collect::<String>())
}

/// Returns a text in a fence that is longer than any in it.
fn fenced(text: &str) -> String {
    let runs = text.split(|character| character != '`');
    let longest = runs.map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Escapes markup that would run or load something: HTML, images, and links other than to pages.
fn escaped(mut text: String) -> String {
    for _ in 0..MAX_PASSES {
        let places = harmful_places(&text);
        if places.is_empty() {
            return text;
        }
        for place in places.into_iter().rev() {
            text.insert(place, '\\');
        }
    }
    fenced(&text)
}

/// Returns the places at which a backslash makes markup a text, in ascending order.
fn harmful_places(text: &str) -> Vec<usize> {
    let mut places = Vec::new();
    for (event, range) in Parser::new_ext(text, SYNTAX).into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let opening = text[range.clone()].match_indices('<');
                places.extend(opening.map(|(at, _)| range.start + at));
            }
            Event::Start(Tag::Image { .. }) => places.push(range.start),
            Event::Start(Tag::Link { dest_url, .. }) if !is_harmless_link(&dest_url) => {
                places.push(range.start);
            }
            _ => {}
        }
    }
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, transcript};
    use super::*;

    /// The HTML, images, links and headings that a viewer finds.
    fn markup(document: &str) -> Vec<String> {
        let events = Parser::new_ext(document, SYNTAX);
        let found = events.filter_map(|event| match event {
            Event::Html(html) | Event::InlineHtml(html) => Some(html.to_string()),
            Event::Start(Tag::Image { dest_url, .. } | Tag::Link { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        });
        found.collect()
    }

    #[test]
    fn nothing_runs_and_nothing_is_loaded() {
        let document = document(&transcript(HOSTILE));
        assert_eq!(
            markup(&document),
            ["https://example.org", "http://example.org/pixel"],
            "{document}"
        );
        assert!(
            !document.contains(" ![c]") && document.contains("`<b>` is code"),
            "{document}"
        );
        // Headings of a message stay in its quotation.
        assert!(document.contains("\n> ## Assistant\n"), "{document}");
        assert_eq!(document.matches("\n## Assistant\n").count(), 1);
    }

    #[test]
    fn definitions_of_other_messages_make_no_link_that_runs() {
        let mut transcript = transcript("[x]");
        let definition = Part::Text("[x]: javascript:alert(1)".to_owned());
        transcript.sections[1].parts.push(definition);
        assert_eq!(markup(&document(&transcript)), [""; 0]);
    }

    #[test]
    fn fences_are_longer_than_those_in_a_text() {
        assert_eq!(fenced("a"), "```text\na\n```\n");
        assert_eq!(fenced("````\nb\n"), "`````text\n````\nb\n`````\n");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_harmless(text in "(<|</|>|b |`|!|\\[|\\]|\\(javascript:x\\)|\\\\|\n|\n\n|    |<!--|-->|- |> |:){0,24}") {
            let document = document(&transcript(&text));
            proptest::prop_assert!(harmful_places(&document).is_empty(), "{}", document);
        }
    }
}
