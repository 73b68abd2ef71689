//! The order of requests in a log: each one continues the request whose prompt it begins with.

use std::collections::HashMap;

use cachalot_prompt::NodeId;

use crate::hash::hash;
use crate::request::Request;
use crate::spend::AnswerPlace;

/// The requests of a log, by the ends of their prompts.
#[derive(Default)]
pub(super) struct LogOrder {
    /// The key of the last request with this prompt and these parameters.
    keys: HashMap<(NodeId, u64), u64>,
    count: u64,
}

impl LogOrder {
    /// Returns the place of a request after those that were passed before.
    pub(super) fn place(&mut self, request: &Request) -> AnswerPlace {
        self.count += 1;
        let key = hash(("log", self.count));
        let parameters = serde_json::to_string(&request.namespace).unwrap_or_default();
        let parameters = hash((&request.model, parameters));
        let prompt = &request.compared.prompt;
        let previous = prompt
            .backwards()
            .find_map(|node| self.keys.get(&(node.id, parameters)).copied());
        if let Some(tip) = prompt.tip() {
            self.keys.insert((tip, parameters), key);
        }
        AnswerPlace::Recorded {
            key,
            previous,
            is_sub_agent: false,
        }
    }
}
