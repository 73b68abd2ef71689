//! Adaptation of images and tool results to the limits of a provider.
//!
//! A provider refuses every request that holds an image it does not accept, and therefore every later request
//! of that conversation. So a message is checked against [`MediaLimits`] before it becomes part of a session:
//! an image that is too large is scaled down, one of another type is encoded anew, and one that cannot be
//! shown is replaced by a text. Messages of a session are not changed afterwards.

mod image;

use std::sync::Arc;

use cachalot_model::{Block, Extra, Image, ImageSource, MediaLimits, Message, ToolResult};

use self::image::{AcceptedImage, MediaError, adapt_image, inline};

/// The share of a request that images may use: three quarters; the rest is for text.
const IMAGE_SHARE: (usize, usize) = (3, 4);

/// Images that a conversation already holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ImageUsage {
    images: usize,
    /// Base64 bytes of the images.
    bytes: usize,
}

impl ImageUsage {
    fn from_messages<'a>(messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut used = Self::default();
        for message in messages {
            for block in &message.content {
                used.add(block);
            }
        }
        used
    }

    fn add(&mut self, block: &Block) {
        match block {
            Block::Image(image) => {
                self.images += 1;
                self.bytes += match &image.source {
                    ImageSource::Inline { base64, .. } => base64.len(),
                    ImageSource::Url(url) => url.len(),
                };
            }
            Block::ToolResult(result) => result.content.iter().for_each(|block| self.add(block)),
            _ => {}
        }
    }
}

/// Adapts messages to the limits of the provider, given the messages `before` them.
///
/// Images are decoded on a blocking thread; each is bounded in pixels and memory.
pub(crate) async fn fit_to_limits(
    messages: Vec<Message>,
    before: impl FnOnce() -> Vec<Arc<Message>>,
    limits: &'static MediaLimits,
) -> Vec<Message> {
    if messages.iter().all(|message| is_small(message, limits)) {
        return messages;
    }
    let used = ImageUsage::from_messages(before().iter().map(|message| &**message));
    let kept = messages.clone();
    let fitting = tokio::task::spawn_blocking(move || {
        let mut fitting = MediaAdapter { limits, used };
        let messages = messages.into_iter();
        messages.map(|message| fitting.message(message)).collect()
    });
    // If a decoder panics, all images of these messages are removed.
    fitting.await.unwrap_or_else(|_| {
        let kept = kept.into_iter();
        kept.map(without_images).collect()
    })
}

/// Adds an image, the bytes of a file, to the attachments of a message, given the messages `before` it. A note
/// follows an image that was changed.
///
/// # Errors
/// The reason why it cannot be sent.
pub(crate) async fn attach(
    mut attachments: Vec<Block>,
    bytes: Vec<u8>,
    before: &[Arc<Message>],
    limits: &'static MediaLimits,
) -> Result<Vec<Block>, MediaError> {
    let mut used = ImageUsage::from_messages(before.iter().map(|message| &**message));
    attachments.iter().for_each(|block| used.add(block));
    let adapting = tokio::task::spawn_blocking(move || {
        let image = inline("", &bytes, Extra::new());
        MediaAdapter { limits, used }.image(image)
    });
    match adapting.await {
        Ok(adapted) => attachments.extend(adapted?),
        Err(_) => return Err(MediaError::Unreadable),
    }
    Ok(attachments)
}

/// True if the message holds nothing to check.
fn is_small(message: &Message, limits: &MediaLimits) -> bool {
    message.content.iter().all(|block| match block {
        Block::Image(_) => false,
        Block::ToolResult(result) => {
            let images = result.content.iter();
            let has_image = images.clone().any(|block| matches!(block, Block::Image(_)));
            !has_image && text_bytes(result) <= limits.text_bytes
        }
        _ => true,
    })
}

fn text_bytes(result: &ToolResult) -> usize {
    let texts = result.content.iter().filter_map(Block::as_text);
    texts.map(str::len).sum()
}

fn without_images(message: Message) -> Message {
    let text = |block: Block| match block {
        Block::Image(_) => Block::text("[image not shown: it cannot be read]"),
        other => other,
    };
    let content = message.content.into_iter().map(|block| match block {
        Block::ToolResult(result) => Block::ToolResult(ToolResult {
            content: result.content.into_iter().map(text).collect(),
            ..result
        }),
        other => text(other),
    });
    Message {
        content: content.collect(),
        ..message
    }
}

/// Adapts messages in their order.
struct MediaAdapter {
    limits: &'static MediaLimits,
    used: ImageUsage,
}

impl MediaAdapter {
    fn message(&mut self, message: Message) -> Message {
        let mut content = Vec::with_capacity(message.content.len());
        for block in message.content {
            match block {
                Block::ToolResult(result) => content.push(Block::ToolResult(self.result(result))),
                other => self.block(other, &mut content),
            }
        }
        Message { content, ..message }
    }

    fn result(&mut self, result: ToolResult) -> ToolResult {
        let mut content = Vec::with_capacity(result.content.len());
        let mut room = self.limits.text_bytes;
        let mut left_out = 0;
        for block in result.content {
            match block {
                Block::Text { text, extra } if text.len() > room => {
                    let end = text.floor_char_boundary(room);
                    left_out += text.len() - end;
                    room = 0;
                    if end > 0 {
                        let text = text[..end].to_owned();
                        content.push(Block::Text { text, extra });
                    }
                }
                Block::Text { text, extra } => {
                    room -= text.len();
                    content.push(Block::Text { text, extra });
                }
                other => self.block(other, &mut content),
            }
        }
        if left_out > 0 {
            content.push(Block::text(format!(
                "[… {left_out} bytes left out: the provider takes at most {} bytes of text in one result; ask for less]",
                self.limits.text_bytes
            )));
        }
        ToolResult { content, ..result }
    }

    /// Appends the block; an image that cannot be shown is replaced by a text.
    fn block(&mut self, block: Block, content: &mut Vec<Block>) {
        match block {
            Block::Image(image) => match self.image(image) {
                Ok(blocks) => content.extend(blocks),
                Err(why) => content.push(image_placeholder(&why)),
            },
            other => content.push(other),
        }
    }

    /// Returns an image in a form that the provider accepts, and a note if it was changed.
    fn image(&mut self, image: Image) -> Result<Vec<Block>, MediaError> {
        if self.used.images >= self.limits.images {
            return Err(MediaError::TooManyImages(self.used.images));
        }
        let (parts, whole) = IMAGE_SHARE;
        let room = (self.limits.request_bytes / whole * parts).saturating_sub(self.used.bytes);
        let AcceptedImage { image, note } = adapt_image(image, self.limits, room)?;
        let block = Block::Image(image);
        self.used.add(&block);
        let note = note.map(Block::text);
        Ok([block].into_iter().chain(note).collect())
    }
}

fn image_placeholder(why: &MediaError) -> Block {
    Block::text(format!("[image not shown: {why}]"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::LazyLock;

    use cachalot_model::Role;

    use super::image::samples;
    use super::*;

    static LIMITS: LazyLock<MediaLimits> = LazyLock::new(|| MediaLimits {
        image_bytes: 20_000,
        image_edge: 64,
        images: 3,
        request_bytes: 40_000,
        text_bytes: 10,
        types: vec!["image/png".to_owned(), "image/jpeg".to_owned()],
        animated: false,
    });

    fn results(content: Vec<Block>) -> Message {
        let result = ToolResult {
            id: "call_1".to_owned(),
            content,
            is_error: false,
            extra: Extra::new(),
        };
        Message::new(Role::User, vec![Block::ToolResult(result)])
    }

    fn shown(message: &Message) -> Vec<String> {
        let Block::ToolResult(result) = &message.content[0] else {
            panic!("{message:?}");
        };
        let blocks = result.content.iter().map(|block| match block {
            Block::Text { text, .. } => text.clone(),
            Block::Image(_) => "<image>".to_owned(),
            other => panic!("{other:?}"),
        });
        blocks.collect()
    }

    fn small() -> Block {
        Block::Image(samples::inline("image/png", &samples::png(8, 8)))
    }

    async fn fitted(message: Message, before: &[Message]) -> Message {
        let before = || before.iter().cloned().map(Arc::new).collect();
        fit_to_limits(vec![message], before, &LIMITS)
            .await
            .remove(0)
    }

    #[tokio::test]
    async fn media_within_the_limits_is_unchanged() {
        let message = results(vec![Block::text("see"), small()]);
        assert_eq!(fitted(message.clone(), &[]).await, message);
        let url = Block::Image(Image {
            source: ImageSource::Url("https://example.org/a.png".to_owned()),
            extra: Extra::new(),
        });
        let message = results(vec![url]);
        assert_eq!(fitted(message.clone(), &[]).await, message);
    }

    #[tokio::test]
    async fn images_beyond_the_image_limit_of_a_request_become_text() {
        let before = [results(vec![small(), small()]), Message::assistant("two")];
        let fitted = fitted(results(vec![small(), small()]), &before).await;
        assert_eq!(
            shown(&fitted),
            [
                "<image>",
                "[image not shown: the conversation holds 3 images already, and its provider takes no more in a request]"
            ]
        );
    }

    #[tokio::test]
    async fn images_of_a_conversation_stay_below_the_byte_limit_of_a_request() {
        let noise =
            |seed| Block::Image(samples::inline("image/png", &samples::noise(64, 64, seed)));
        let fitted = fitted(results(vec![noise(1), noise(2), noise(3)]), &[]).await;
        let used = ImageUsage::from_messages([&fitted].into_iter());
        assert!(used.images >= 1 && used.bytes <= 30_000, "{used:?}");
    }

    #[tokio::test]
    async fn text_that_is_too_long_for_a_result_is_cut() {
        let texts = ["12345", "6789éé", "x"].map(Block::text);
        let cut = fitted(results(texts.into()), &[]).await;
        assert_eq!(
            shown(&cut),
            [
                "12345",
                "6789",
                "[… 5 bytes left out: the provider takes at most 10 bytes of text in one result; ask for less]"
            ]
        );
        // Text of the user is not cut.
        let said = Message::user("0123456789abcdef");
        assert_eq!(fitted(said.clone(), &[]).await, said);
    }
}
