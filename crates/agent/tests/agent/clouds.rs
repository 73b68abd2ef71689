//! Agents with Anthropic's models on cloud platforms; the simulator checks tokens and signatures.

use std::sync::Arc;

use cachalot_simulator::cloud::{ACCESS_KEY, SECRET_KEY, service_account};
use cachalot_simulator::{Script, ScriptedReply, Simulator, SimulatorOptions};
use serde_json::json;

use crate::fixture::{Fixture, Wire};

#[tokio::test]
async fn a_turn_with_tools_over_bedrock_and_over_vertex() {
    for provider in ["bedrock", "vertex"] {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "notes.md"})),
            ScriptedReply::text("It says one, at a length that needs several events."),
        ];
        let mut fixture = Fixture::new(Wire::Chat, "", vec![]).await;
        let cloud = Simulator::start(SimulatorOptions {
            script: Script::replies(replies),
            clock: Arc::clone(&fixture.clock),
            ..SimulatorOptions::default()
        })
        .await
        .unwrap();
        let url = cloud.url();
        fixture.write("account.json", &service_account(&url).to_string());
        let file = fixture.root.path().join("account.json");
        fixture.environment = [
            ("ANTHROPIC_BEDROCK_BASE_URL", url.clone()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("ANTHROPIC_VERTEX_BASE_URL", url),
            ("ANTHROPIC_VERTEX_PROJECT_ID", "p".to_owned()),
            ("GOOGLE_APPLICATION_CREDENTIALS", file.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        fixture.rewrite(&format!(
            "
agents:
  root: {{model: '{provider}/claude-sonnet-4-5', instruction: You work on files., toolsets: [{{type: filesystem}}]}}
"
        ));
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        let report = fixture.turn(&mut chat, "Read it.").await;
        assert_eq!(
            report.text,
            "It says one, at a length that needs several events."
        );
        assert_eq!(cloud.violations(), [] as [String; 0]);
        fixture.check();
    }
}
