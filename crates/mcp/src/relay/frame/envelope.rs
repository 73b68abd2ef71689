//! The members of the envelope of a message.

use std::ops::Range;

use cachalot_core::json::{JsonError, Scanner};

use super::FrameKind;
use super::places::Places;
use super::scan::{decoded, object, range};

/// The member of `_meta` with the token by which progress is reported.
const PROGRESS_TOKEN: &[u8] = b"progressToken";

/// The member of `_meta` with the id of the request that opened a subscription.
const SUBSCRIPTION_ID: &[u8] = b"io.modelcontextprotocol/subscriptionId";

/// The member of `_meta` with the protocol revision of a request; revisions with sessions have none.
const PROTOCOL_VERSION: &[u8] = b"io.modelcontextprotocol/protocolVersion";

/// The members that a scan has found. Members may come in any order, so those that only some methods have are kept
/// until the method is known.
#[derive(Default)]
pub(super) struct Found {
    pub(super) id: Option<Range<usize>>,
    pub(super) method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    pub(super) result: Option<Range<usize>>,
    pub(super) error: Option<Range<usize>>,
    /// `params.progressToken`.
    progress_token: Option<Range<usize>>,
    /// `params.requestId`.
    request_id: Option<Range<usize>>,
    params_meta: Meta,
    result_meta: Meta,
    /// The name of a member that is there twice.
    pub(super) duplicate: Option<&'static str>,
}

/// Members of `_meta`.
#[derive(Default)]
struct Meta {
    place: Option<Range<usize>>,
    progress_token: Option<Range<usize>>,
    subscription_id: Option<Range<usize>>,
    protocol_version: Option<Range<usize>>,
}

impl Found {
    /// Scans a message.
    ///
    /// # Errors
    /// If the text is not one JSON object.
    pub(super) fn read(text: &str) -> Result<Self, JsonError> {
        let mut found = Self::default();
        let mut scanner = Scanner::new(text.as_bytes());
        scanner.members(|name, scanner| found.member(&decoded(name), scanner))?;
        scanner.end()?;
        Ok(found)
    }

    /// Reads a member of the message.
    fn member(&mut self, name: &[u8], scanner: &mut Scanner<'_>) -> Result<(), JsonError> {
        let duplicate = &mut self.duplicate;
        match name {
            b"id" => take(&mut self.id, "id", duplicate, range(scanner)?),
            b"method" => take(&mut self.method, "method", duplicate, range(scanner)?),
            b"error" => take(&mut self.error, "error", duplicate, range(scanner)?),
            b"params" => {
                let meta = &mut self.params_meta;
                let (token, request) = (&mut self.progress_token, &mut self.request_id);
                let place = object(scanner, |name, scanner| {
                    match name {
                        b"_meta" => meta.read(scanner, duplicate)?,
                        b"progressToken" => {
                            take(token, "progressToken", duplicate, range(scanner)?);
                        }
                        b"requestId" => take(request, "requestId", duplicate, range(scanner)?),
                        _ => drop(scanner.value()?),
                    }
                    Ok(())
                })?;
                take(&mut self.params, "params", duplicate, place);
            }
            b"result" => {
                let meta = &mut self.result_meta;
                let place = object(scanner, |name, scanner| match name {
                    b"_meta" => meta.read(scanner, duplicate),
                    _ => scanner.value().map(drop),
                })?;
                take(&mut self.result, "result", duplicate, place);
            }
            _ => drop(scanner.value()?),
        }
        Ok(())
    }

    /// Returns the places of a message of this kind.
    pub(super) fn places(self, kind: FrameKind, method: &str) -> Places {
        let params = self.params_meta;
        Places {
            id: self.id,
            params: self.params,
            result: self.result,
            error: self.error,
            progress_token: match kind {
                FrameKind::Request => params.progress_token,
                _ if method == "notifications/progress" => self.progress_token,
                _ => None,
            },
            request_id: self
                .request_id
                .filter(|_| method == "notifications/cancelled"),
            subscription_id: match kind {
                FrameKind::Request => None,
                FrameKind::Notification => params.subscription_id,
                FrameKind::Response => self.result_meta.subscription_id,
            },
            protocol_version: params.protocol_version,
        }
    }
}

impl Meta {
    fn read(
        &mut self,
        scanner: &mut Scanner<'_>,
        duplicate: &mut Option<&'static str>,
    ) -> Result<(), JsonError> {
        let (token, subscription) = (&mut self.progress_token, &mut self.subscription_id);
        let version = &mut self.protocol_version;
        let place = object(scanner, |name, scanner| {
            let place = range(scanner)?;
            match name {
                PROGRESS_TOKEN => take(token, "progressToken", duplicate, place),
                SUBSCRIPTION_ID => take(subscription, "subscriptionId", duplicate, place),
                PROTOCOL_VERSION => take(version, "protocolVersion", duplicate, place),
                _ => {}
            }
            Ok(())
        })?;
        take(&mut self.place, "_meta", duplicate, place);
        Ok(())
    }
}

/// Notes the place of a member, and its name if it was there before.
fn take(
    place: &mut Option<Range<usize>>,
    name: &'static str,
    duplicate: &mut Option<&'static str>,
    new: Range<usize>,
) {
    if place.replace(new).is_some() {
        *duplicate = Some(name);
    }
}
