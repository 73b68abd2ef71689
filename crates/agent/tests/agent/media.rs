//! Images and results that a provider would refuse, on their way into a session.

use std::io::Cursor;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_model::{Block, Image, ImageSource};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Arguments, Operation, OperationMetadata, Tool, ToolContext, ToolOutput};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::bodies::{Turn, turns};
use crate::turns::CODER;
use crate::world::{WIRES, Wire, World};

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
fn results(world: &World) -> String {
    let turns = turns(&world.last_body());
    let results = turns.iter().rev().find_map(|turn| match turn {
        Turn::Results(results) => Some(results.clone()),
        _ => None,
    });
    let results = results.unwrap_or_default().into_iter();
    results.map(|(_, text)| text).collect()
}

#[tokio::test]
async fn a_file_with_too_many_pixels_is_scaled_down_and_stays_as_it_was_sent() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "wide.png"})),
            ScriptedReply::text("one"),
            ScriptedReply::text("two"),
        ];
        let world = World::new(wire, CODER, replies).await;
        std::fs::write(world.root.path().join("wide.png"), png(9_000, 90)).unwrap();
        let mut chat = world.chat().await;
        world.turn(&mut chat, "look").await;
        let (width, height) = match wire.is_anthropic() {
            true => (2_000, 20),
            false => (8_000, 80),
        };
        let shown = images(&world.last_body());
        assert_eq!(shown, [("image/png".to_owned(), width, height)], "{wire:?}");
        let note = format!("scaled down from 9000×90 to {width}×{height} pixels");
        assert!(results(&world).contains(&note), "{}", results(&world));
        assert_eq!(world.turn(&mut chat, "and now?").await.text, "two");
        assert_eq!(images(&world.last_body()), shown);
        world.check();
    }
}

/// A tool of anything.
struct Gives {
    metadata: OperationMetadata,
    content: Vec<Block>,
}

#[async_trait]
impl Operation for Gives {
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
    Arc::new(Gives { metadata, content })
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
async fn what_cannot_be_shown_is_a_text_that_says_why() {
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("give", json!({})),
            ScriptedReply::text("one"),
        ];
        let mut world = World::new(wire, CODER, replies).await;
        let mut damaged = png(50, 50);
        damaged.truncate(60);
        world.tools = vec![gives(vec![
            inline("image/svg+xml", b"<svg/>"),
            inline("image/png", &damaged),
            // What it is called is wrong, and what it holds is right.
            inline("image/jpeg", &png(5, 5)),
        ])];
        let mut chat = world.chat().await;
        world.turn(&mut chat, "give").await;
        assert_eq!(
            images(&world.last_body()),
            [("image/png".to_owned(), 5, 5)],
            "{wire:?}"
        );
        let shown = results(&world);
        for said in [
            "[image not shown: image/svg+xml, 6 bytes",
            "[image not shown: it is damaged",
        ] {
            assert!(shown.contains(said), "{shown}");
        }
        world.check();
    }
}

#[tokio::test]
async fn a_result_has_no_more_text_than_the_provider_takes() {
    for wire in [Wire::Chat, Wire::Messages] {
        let replies = vec![
            ScriptedReply::call("give", json!({})),
            ScriptedReply::text("one"),
        ];
        let mut world = World::new(wire, CODER, replies).await;
        world.tools = vec![gives(vec![Block::text("x".repeat(10_000_100))])];
        let mut chat = world.chat().await;
        world.turn(&mut chat, "give").await;
        let shown = results(&world);
        assert!(shown.len() < 10_001_000, "{}", shown.len());
        assert!(shown.contains("[… 100 bytes left out"), "{wire:?}");
        world.check();
    }
}

#[tokio::test]
async fn another_provider_gets_images_as_it_takes_them() {
    let replies = vec![
        ScriptedReply::call("read_file", json!({"path": "wide.png"})),
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
    ];
    let mut world = World::new(Wire::Chat, CODER, replies).await.in_file();
    std::fs::write(world.root.path().join("wide.png"), png(3_000, 30)).unwrap();
    let mut chat = world.chat().await;
    world.turn(&mut chat, "look").await;
    assert_eq!(
        images(&world.last_body()),
        [("image/png".to_owned(), 3_000, 30)]
    );
    let session = chat.session().to_owned();
    chat.close().await;
    world.restart();
    world.wire = Wire::Messages;
    let mut chat = world.resume(&session).await.unwrap();
    world.turn(&mut chat, "and now?").await;
    assert_eq!(
        images(&world.last_body()),
        [("image/png".to_owned(), 2_000, 20)]
    );
    world.check_from(2);
}
