//! Access tokens of Google for a service account.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cachalot_core::{Digest, Millis};
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

/// The private key of the service account. It is public.
const PRIVATE_KEY: &str = include_str!("../../data/service_account.pem");
const EMAIL: &str = "simulated@cachalot-simulator.iam.gserviceaccount.com";

/// The grant type of a signed assertion (RFC 7523), as in a form.
const GRANT: &str = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";

/// Lifetime of a token, and the maximum lifetime of an assertion, in seconds.
const LIFETIME: i64 = 3_600;

/// Maximum difference between the clocks of a client and the server, in seconds.
const CLOCK_SKEW: i64 = 300;

/// Returns the key file of the service account, which obtains its tokens from the simulator at `origin`.
#[must_use]
pub fn service_account(origin: &str) -> Value {
    json!({
        "type": "service_account",
        "project_id": "cachalot-simulator",
        "private_key_id": "simulated",
        "private_key": PRIVATE_KEY,
        "client_email": EMAIL,
        "client_id": "0",
        "token_uri": format!("{origin}/token"),
    })
}

/// Answers a token request, a form with a signed assertion: returns a token or an error.
pub(crate) fn token(form: &[u8], now: Millis) -> Result<Value, Value> {
    let now = now / 1_000;
    let refused = |why: &str| {
        let why = format!("Invalid JWT: {why}");
        json!({"error": "invalid_grant", "error_description": why})
    };
    let form = String::from_utf8_lossy(form);
    let field = |name: &str| {
        let mut fields = form.split('&').filter_map(|field| field.split_once('='));
        let found = fields.find(|(key, _)| *key == name);
        found.map(|(_, value)| value).unwrap_or_default()
    };
    if field("grant_type") != GRANT {
        let why = format!("Invalid grant_type: {}", field("grant_type"));
        return Err(json!({"error": "unsupported_grant_type", "error_description": why}));
    }
    let claims =
        verified(field("assertion")).ok_or_else(|| refused("Signature verification failed."))?;
    let text = |name: &str| claims[name].as_str().unwrap_or_default();
    if text("iss") != EMAIL {
        return Err(refused("account not found"));
    }
    if !text("aud").ends_with("/token") {
        return Err(refused("audience is not the token endpoint"));
    }
    if text("scope").is_empty() {
        let why = "Invalid OAuth scope or ID token audience provided.";
        return Err(json!({"error": "invalid_scope", "error_description": why}));
    }
    let times = claims["iat"].as_i64().zip(claims["exp"].as_i64());
    let is_short = times.is_some_and(|(issued, expires)| {
        expires > now - CLOCK_SKEW
            && issued < now + CLOCK_SKEW
            && (1..=LIFETIME).contains(&(expires - issued))
    });
    if !is_short {
        let why = "Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.";
        return Err(refused(why));
    }
    Ok(json!({
        "access_token": access_token(now),
        "expires_in": LIFETIME - 1,
        "token_type": "Bearer",
    }))
}

/// Returns a token that can be verified without state.
fn access_token(issued: i64) -> String {
    let proof = Digest::sha256_of_parts(&[b"token", &issued.to_le_bytes()]).to_hex();
    format!("ya29.simulated.{issued}.{proof}")
}

/// Returns whether a token was issued by this simulator and is valid.
pub(crate) fn is_token(token: &str, now: Millis) -> bool {
    let rest = token.strip_prefix("ya29.simulated.");
    let issued = rest.and_then(|rest| rest.split('.').next()?.parse::<i64>().ok());
    issued.is_some_and(|issued| {
        access_token(issued) == token && now / 1_000 < issued.saturating_add(LIFETIME)
    })
}

/// Returns the claims of a JSON Web Token that is signed with the account's key.
fn verified(assertion: &str) -> Option<Value> {
    // Some clients send the padding.
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches("%3D")).ok();
    let (signed, signature) = assertion.rsplit_once('.')?;
    let (_, pem) = PRIVATE_KEY.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (pem, _) = pem.split_once("-----END")?;
    let der = STANDARD.decode(pem.split_whitespace().collect::<String>());
    let pair = RsaKeyPair::from_pkcs8(&der.ok()?).ok()?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key())
        .verify(signed.as_bytes(), &decode(signature)?)
        .ok()?;
    let (header, claims) = signed.split_once('.')?;
    let part = |text: &str| serde_json::from_slice::<Value>(&decode(text)?).ok();
    (part(header)?["alg"] == "RS256")
        .then(|| part(claims))
        .flatten()
}
