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
        match data.is_empty() || data == "[DONE]" {
            true => Ok(Vec::new()),
            false => self.0.take(data),
        }
    }

    fn complete(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Reply, Error> {
        match self.0.ended() {
            true => Ok(self.0.reply()),
            false => Err(Error::new(
                ErrorKind::CutOff,
                "the stream ended before the answer was complete, without a stop reason; retry",
            )),
        }
    }
}
