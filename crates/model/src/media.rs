//! Limits of providers on images and texts in a conversation, read from a data file.

use std::sync::LazyLock;

use cachalot_core::Problem;
use cachalot_core::tree::{self, Node, Section};

use crate::Format;

const BUILT_IN: &str = include_str!("../data/media.yaml");

/// Limits of a provider on images and texts. The provider refuses a request that exceeds them, and
/// therefore every later request of the same conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediaLimits {
    /// Maximum size of one image in base64, in bytes.
    pub image_bytes: usize,
    /// Maximum width and height of an image, in pixels.
    pub image_edge: u32,
    /// Maximum number of images in one request.
    pub images: usize,
    /// Maximum size of one request, in bytes.
    pub request_bytes: usize,
    /// Maximum size of the text of one tool result, in bytes.
    pub text_bytes: usize,
    /// Accepted media types of images.
    pub types: Vec<String>,
    /// True if images with several frames are accepted.
    pub animated: bool,
}

/// Requests to which a [`MediaLimits`] applies.
#[derive(Debug)]
struct Row {
    format: Option<Format>,
    providers: Vec<String>,
    limits: MediaLimits,
}

impl MediaLimits {
    /// Returns the limits of a provider in this format.
    #[must_use]
    pub fn find(provider: &str, format: Format) -> &'static Self {
        static ROWS: LazyLock<(Vec<Row>, MediaLimits)> = LazyLock::new(|| {
            let (rows, problems) = parse(BUILT_IN);
            debug_assert!(problems.is_empty(), "{problems:?}");
            (rows, MediaLimits::default())
        });
        let (rows, nothing) = &*ROWS;
        let row = rows.iter().find(|row| row.applies_to(provider, format));
        row.map_or(nothing, |row| &row.limits)
    }
}

impl Row {
    fn applies_to(&self, provider: &str, format: Format) -> bool {
        self.format.is_none_or(|own| own == format)
            && (self.providers.is_empty() || self.providers.iter().any(|own| own == provider))
    }

    fn read(node: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut section = Section::from_node(node, "a row of `rows`", problems)?;
        let mut texts = |key| {
            let texts = section.texts(key, problems).unwrap_or_default();
            texts.into_iter().map(str::to_owned).collect()
        };
        let (providers, types) = (texts("providers"), texts("types"));
        let format = Format::read(&mut section, problems);
        let animated = section.boolean("animated", problems).unwrap_or(false);
        let mut number = |key| {
            let number = section.integer(key, 1..=u64::from(u32::MAX), problems);
            usize::try_from(number.unwrap_or(0)).unwrap_or(usize::MAX)
        };
        let limits = MediaLimits {
            image_bytes: number("image_bytes"),
            image_edge: u32::try_from(number("image_edge")).unwrap_or(u32::MAX),
            images: number("images"),
            request_bytes: number("request_bytes"),
            text_bytes: number("text_bytes"),
            types,
            animated,
        };
        section.finish(problems);
        Some(Self {
            format,
            providers,
            limits,
        })
    }
}

fn parse(text: &str) -> (Vec<Row>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut rows = Vec::new();
    match tree::parse("media.yaml", text) {
        Err(found) => problems = found,
        Ok(node) => {
            if let Some(mut section) = Section::from_node(&node, "a file of limits", &mut problems)
            {
                let listed = section.list("rows", &mut problems).unwrap_or_default();
                rows.extend(
                    listed
                        .iter()
                        .filter_map(|node| Row::read(node, &mut problems)),
                );
                section.finish(&mut problems);
            }
        }
    }
    (rows, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_media_limits_are_valid_for_every_provider() {
        let (rows, problems) = parse(BUILT_IN);
        assert_eq!(problems, []);
        for row in &rows {
            let MediaLimits {
                image_bytes,
                image_edge,
                images,
                request_bytes,
                text_bytes,
                ref types,
                animated: _,
            } = row.limits;
            assert!(image_edge > 0 && images > 0, "{row:?}");
            assert!(image_bytes <= request_bytes && text_bytes < request_bytes);
            // Images that are re-encoded have one of these types.
            for kind in ["image/png", "image/jpeg"] {
                assert!(types.iter().any(|known| known == kind), "{row:?}");
            }
        }
        let last = rows.last();
        assert!(last.is_some_and(|row| row.format.is_none() && row.providers.is_empty()));
    }

    #[test]
    fn media_limits_depend_on_provider_and_format() {
        let gif = "image/gif".to_owned();
        let anthropic = MediaLimits::find("anthropic", Format::Messages);
        assert_eq!(
            (anthropic.image_bytes, anthropic.animated),
            (5_000_000, true)
        );
        let openai = MediaLimits::find("openai", Format::Responses);
        assert!(openai.types.contains(&gif) && !openai.animated);
        assert!(
            !MediaLimits::find("google", Format::Chat)
                .types
                .contains(&gif)
        );
        assert_eq!(
            MediaLimits::find("nobody-knows", Format::Chat).image_bytes,
            5_000_000
        );
    }
}
