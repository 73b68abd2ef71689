//! Images and results that a provider would refuse, on their way into a session.

use std::io::Cursor;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_hooks::Event;
use cachalot_model::{Block, Image, ImageSource};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Arguments, Operation, OperationMetadata, Tool, ToolContext, ToolOutput};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::bodies::{Turn, turns};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::CODER;

fn png(width: u32, height: u32) -> Vec<u8> {
    let image: DynamicImage = RgbImage::from_pixel(width, height, Rgb([1, 2, 3])).into();
    let mut bytes = Vec::new();
    image
        .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
        .unwrap();
    bytes
}

/// The media types and sizes of the images in a request.
fn images(body: &Value) -> Vec<(String, u32, u32)> {
    fn look(value: &Value, found: &mut Vec<(String, u32, u32)>) {
        let inline = match value {
            Value::String(url) => url
                .strip_prefix("data:")
                .and_then(|url| url.split_once(";base64,"))
                .map(|(kind, data)| (kind.to_owned(), data.to_owned())),
            Value::Object(source) if source.get("type") == Some(&json!("base64")) => Some((
                source["media_type"].as_str().unwrap().to_owned(),
                source["data"].as_str().unwrap().to_owned(),
            )),
            _ => None,
        };
        if let Some((kind, data)) = inline {
            let image = image::load_from_memory(&STANDARD.decode(data).unwrap()).unwrap();
            found.push((kind, image.width(), image.height()));
            return;
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| look(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| look(field, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    look(body, &mut found);
    found
}

/// The text of the newest results.
fn results(fixture: &Fixture) -> String {
    let turns = turns(&fixture.last_body());
    let results = turns.iter().rev().find_map(|turn| match turn {
        Turn::Results(results) => Some(results.clone()),
        _ => None,
    });
    let results = results.unwrap_or_default().into_iter();
    results.map(|(_, text)| text).collect()
}

#[tokio::test]
async fn image_with_too_many_pixels_is_scaled_down_once() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "wide.png"})),
            ScriptedReply::text("one"),
            ScriptedReply::text("two"),
        ];
        let fixture = Fixture::new(wire, CODER, replies).await;
        std::fs::write(fixture.root.path().join("wide.png"), png(9_000, 90)).unwrap();
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "look").await;
        let (width, height) = if wire.is_anthropic() {
            (2_000, 20)
        } else {
            (8_000, 80)
        };
        let shown = images(&fixture.last_body());
        assert_eq!(shown, [("image/png".to_owned(), width, height)], "{wire:?}");
        let note = format!("scaled down from 9000×90 to {width}×{height} pixels");
        assert!(results(&fixture).contains(&note), "{}", results(&fixture));
        assert_eq!(fixture.turn(&mut chat, "and now?").await.text, "two");
        assert_eq!(images(&fixture.last_body()), shown);
        fixture.check();
    }
}

/// A tool of anything.
struct FixedTool {
    metadata: OperationMetadata,
    content: Vec<Block>,
}

#[async_trait]
impl Operation for FixedTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        ToolOutput {
            content: self.content.clone(),
            ..ToolOutput::text("")
        }
    }
}

fn gives(content: Vec<Block>) -> Arc<dyn Tool> {
    let parameters = json!({"type": "object", "properties": {}});
    let mut metadata =
        OperationMetadata::with_side_effects("give", "Gives something.".to_owned(), parameters);
    metadata.read_only = true;
    Arc::new(FixedTool { metadata, content })
}

fn inline(media_type: &str, bytes: &[u8]) -> Block {
    Block::Image(Image {
        source: ImageSource::Inline {
            media_type: media_type.to_owned(),
            base64: STANDARD.encode(bytes),
        },
        extra: cachalot_model::Extra::new(),
    })
}

#[tokio::test]
async fn undecodable_image_becomes_a_text_with_the_reason() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("give", json!({})),
            ScriptedReply::text("one"),
        ];
        let mut fixture = Fixture::new(wire, CODER, replies).await;
        let mut damaged = png(50, 50);
        damaged.truncate(60);
        fixture.tools = vec![gives(vec![
            inline("image/svg+xml", b"<svg/>"),
            inline("image/png", &damaged),
            // What it is called is wrong, and what it holds is right.
            inline("image/jpeg", &png(5, 5)),
        ])];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "give").await;
        assert_eq!(
            images(&fixture.last_body()),
            [("image/png".to_owned(), 5, 5)],
            "{wire:?}"
        );
        let shown = results(&fixture);
        for said in [
            "[image not shown: image/svg+xml, 6 bytes",
            "[image not shown: it is damaged",
        ] {
            assert!(shown.contains(said), "{shown}");
        }
        fixture.check();
    }
}

#[tokio::test]
async fn result_text_is_cut_to_the_limit_of_the_provider() {
    for wire in [Wire::Chat, Wire::Messages] {
        let replies = vec![
            ScriptedReply::call("give", json!({})),
            ScriptedReply::text("one"),
        ];
        let mut fixture = Fixture::new(wire, CODER, replies).await;
        fixture.tools = vec![gives(vec![Block::text("x".repeat(10_000_100))])];
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "give").await;
        let shown = results(&fixture);
        assert!(shown.len() < 10_001_000, "{}", shown.len());
        assert!(shown.contains("[… 100 bytes left out"), "{wire:?}");
        fixture.check();
    }
}

#[tokio::test]
async fn images_are_adapted_to_the_limits_of_another_provider() {
    let replies = vec![
        ScriptedReply::call("read_file", json!({"path": "wide.png"})),
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
    ];
    let mut fixture = Fixture::new(Wire::Chat, CODER, replies).await.in_file();
    std::fs::write(fixture.root.path().join("wide.png"), png(3_000, 30)).unwrap();
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "look").await;
    assert_eq!(
        images(&fixture.last_body()),
        [("image/png".to_owned(), 3_000, 30)]
    );
    let session = chat.session().to_owned();
    chat.close().await;
    fixture.restart();
    fixture.wire = Wire::Messages;
    let mut chat = fixture.resume(&session).await.unwrap();
    fixture.turn(&mut chat, "and now?").await;
    assert_eq!(
        images(&fixture.last_body()),
        [("image/png".to_owned(), 2_000, 20)]
    );
    fixture.check_from(2);
}

#[tokio::test]
async fn attached_images_are_part_of_the_users_message() {
    for wire in WIRES {
        let replies = vec![ScriptedReply::text("one"), ScriptedReply::text("two")];
        let fixture = Fixture::new(wire, CODER, replies).await;
        fixture.hook_recorder.listen([Event::UserPromptSubmit]);
        let mut chat = fixture.chat().await;
        chat.attach(png(8, 8)).await.unwrap();
        chat.attach(png(9_000, 90)).await.unwrap();
        fixture.turn(&mut chat, "look").await;
        let shown = images(&fixture.last_body());
        assert_eq!(shown.len(), 2, "{wire:?}");
        assert_eq!((shown[0].1, shown[1].1 < 9_000), (8, true), "{wire:?}");
        // Hooks, and with them keys of the response cache, see the images and the note that one was scaled down.
        let recorded = fixture.hook_recorder.recorded_of(Event::UserPromptSubmit);
        let prompt = recorded[0].prompt.as_ref().unwrap();
        assert_eq!((&*prompt.text, prompt.attachments.len()), ("look", 3));
        assert_ne!(prompt.attachments[0], prompt.attachments[1]);

        // They belong to this message only, also in a resumed session.
        let session = chat.session().to_owned();
        chat.close().await;
        let mut chat = fixture.resume(&session).await.unwrap();
        fixture.turn(&mut chat, "and now?").await;
        assert_eq!(images(&fixture.last_body()), shown);
        let recorded = fixture.hook_recorder.recorded_of(Event::UserPromptSubmit);
        assert!(recorded[1].prompt.as_ref().unwrap().attachments.is_empty());
        fixture.check();
    }
}

#[tokio::test]
async fn refused_attachments_leave_none() {
    for wire in WIRES {
        let fixture = Fixture::new(wire, CODER, vec![ScriptedReply::text("one")]).await;
        let mut chat = fixture.chat().await;
        chat.attach(png(8, 8)).await.unwrap();
        let error = chat.attach(b"no image".to_vec()).await.unwrap_err();
        assert!(error.message.contains("PNG, JPEG, GIF and WebP"), "{error}");
        fixture.turn(&mut chat, "look").await;
        assert_eq!(images(&fixture.last_body()), []);
        fixture.check();
    }
}
