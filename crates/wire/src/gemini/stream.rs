//! Reads a streamed answer: responses, each with the next parts. The stream has no end marker other than
//! the end of the HTTP body: a signature may follow the finish reason.

use super::answer::GeminiAnswerBuilder;
use crate::error::{Error, ErrorKind};
use crate::{Delta, Reply};
use crate::{StreamReader, sse};

/// Reads the responses of one streamed answer.
#[derive(Default)]
pub(crate) struct GeminiStreamReader(GeminiAnswerBuilder);

impl StreamReader for GeminiStreamReader {
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            Ok(Vec::new())
        } else {
            self.0.take(data)
        }
    }

    fn complete(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        if self.0.ended() {
            Ok(self.0.reply())
        } else {
            Err(Error::new(
                ErrorKind::CutOff,
                "the stream ended before the answer was complete, without a stop reason; retry",
            ))
        }
    }
}
