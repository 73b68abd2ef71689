//! Limits of providers on images and texts in a conversation, read from a data file.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::Format;
use crate::table::{self, Rows};

const BUILT_IN: &str = include_str!("../data/media.yaml");

/// Limits of a provider on images and texts. The provider refuses a request that exceeds them, and
/// therefore every later request of the same conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
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

impl MediaLimits {
    /// Returns the limits of a provider in this format.
    #[must_use]
    pub fn find(provider: &str, format: Format) -> &'static Self {
        static TABLE: LazyLock<Rows<MediaLimits>> =
            LazyLock::new(|| table::built_in("media.yaml", BUILT_IN));
        static NOTHING: LazyLock<MediaLimits> = LazyLock::new(MediaLimits::default);
        TABLE.find(provider, "", format).unwrap_or(&NOTHING)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn built_in_media_limits_are_valid_for_every_provider() {
        let table: Rows<MediaLimits> = table::read("media.yaml", BUILT_IN).unwrap();
        for row in &table.rows {
            let MediaLimits {
                image_bytes,
                image_edge,
                images,
                request_bytes,
                text_bytes,
                ref types,
                animated: _,
            } = row.values;
            assert!(image_edge > 0 && images > 0, "{row:?}");
            assert!(image_bytes <= request_bytes && text_bytes < request_bytes);
            // Images that are re-encoded have one of these types.
            for kind in ["image/png", "image/jpeg"] {
                assert!(types.iter().any(|known| known == kind), "{row:?}");
            }
        }
        let last = table.rows.last();
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
