//! The ways to begin a connection, and which one follows on the failure of another.

use std::error::Error;
use std::time::Duration;

use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use super::McpSettings;
use super::challenge;
use super::era::Era;
use super::error::reports;
use super::probe::LateDiscovery;

/// Maximum time to wait for the answer to the probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Maximum time to wait for the answer of a server that is known to answer. The library waits for ten seconds.
const PATIENT_LIMIT: Duration = Duration::from_secs(9);

/// The way to begin a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The probe, and the handshake if that identifies an older server. `patient`: the server is known to answer the
    /// probe, though it may take long to start.
    Probe {
        /// Waits longer than for a server that is not known.
        patient: bool,
    },
    /// The handshake of older servers.
    Initialize,
    /// Discovery only: the server refuses the handshake.
    Discover,
}

impl Start {
    /// Returns the way to begin for a server of a known era.
    pub(super) fn for_known(era: Option<Era>) -> Self {
        match era {
            Some(Era::Legacy) => Self::Initialize,
            Some(Era::Modern) => Self::Probe { patient: true },
            None => Self::Probe { patient: false },
        }
    }

    pub(super) fn mode(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::LATEST];
        match self {
            Self::Probe { .. } => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: None,
            },
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
        }
    }

    /// Returns the maximum time to wait for the answer to discovery. A part of the time to start: a silent server must
    /// not use all of it.
    pub(super) fn probe_limit(self, settings: &McpSettings) -> Duration {
        let whole = settings.limits.startup_timeout;
        match self {
            Self::Probe { patient: false } | Self::Initialize => PROBE_LIMIT.min(whole / 3),
            Self::Probe { patient: true } => PATIENT_LIMIT.min(whole / 2),
            Self::Discover => whole,
        }
    }

    /// Returns the way to begin once more after a failure, with a new process or connection; `None` if that cannot
    /// help.
    pub(super) fn after(self, cause: &ClientInitializeError, late: &LateDiscovery) -> Option<Self> {
        if wants_credentials(cause) {
            return None;
        }
        match (self, cause) {
            // The remembered era may be wrong.
            (Self::Initialize, cause) => {
                is_an_answer(cause).then_some(Self::Probe { patient: true })
            }
            (Self::Discover, _) => None,
            // A server of both eras names an older version.
            (
                Self::Probe { .. },
                ClientInitializeError::NoCompatibleProtocolVersion {
                    server_supported, ..
                },
            ) => server_supported
                .iter()
                .any(|version| {
                    version.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(version)
                })
                .then_some(Self::Initialize),
            (Self::Probe { .. }, ClientInitializeError::LegacyFallbackFailed { fallback, .. }) => {
                match &**fallback {
                    // It took its time to start, and knows the newer protocol only.
                    _ if late.has_come() => Some(Self::Discover),
                    ClientInitializeError::ConnectionClosed(_) => Some(Self::Initialize),
                    _ => None,
                }
            }
            (Self::Probe { .. }, ClientInitializeError::JsonRpcError(error)) => {
                (!is_modern(error.code)).then_some(Self::Initialize)
            }
            (Self::Probe { .. }, ClientInitializeError::TransportError { error, .. }) => {
                (!is_unreachable(error.error.as_ref())).then_some(Self::Initialize)
            }
            (Self::Probe { .. }, _) => Some(Self::Initialize),
        }
    }
}

/// True for the errors of the newer protocol that a server gives to discovery.
fn is_modern(code: ErrorCode) -> bool {
    [
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode::HEADER_MISMATCH,
    ]
    .contains(&code)
}

/// True if the server has answered, or ended: it was reached.
fn is_an_answer(cause: &ClientInitializeError) -> bool {
    match cause {
        ClientInitializeError::TransportError { error, .. } => {
            !is_unreachable(error.error.as_ref())
        }
        _ => true,
    }
}

/// Returns the error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause| (*cause).source())
}

fn wants_credentials(cause: &ClientInitializeError) -> bool {
    let error: &(dyn Error + 'static) = match cause {
        ClientInitializeError::TransportError { error, .. } => error.error.as_ref(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            return wants_credentials(fallback);
        }
        _ => return false,
    };
    causes(error).any(|cause| {
        let is_refusal = cause.is::<AuthRequiredError>() || cause.is::<InsufficientScopeError>();
        is_refusal || challenge::login_error(cause).is_some() || {
            let text = cause.to_string();
            reports(&text, "401") || reports(&text, "403")
        }
    })
}

/// True if no server answers at the address of a server.
fn is_unreachable(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        let request = cause.downcast_ref::<reqwest::Error>();
        request.is_some_and(|error| error.is_connect() || error.is_redirect())
    })
}
