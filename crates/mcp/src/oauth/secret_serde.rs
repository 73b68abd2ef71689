//! Secrets in the file of logins, which is where they are exposed.

/// A secret as a text of the file.
pub(super) mod secret_text {
    use cachalot_core::Secret;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        secret: &Secret<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret<String>, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// An optional secret as a text of the file.
pub(super) mod optional_secret_text {
    use cachalot_core::Secret;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        secret: &Option<Secret<String>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = secret.as_ref().map(|secret| secret.expose().as_str());
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret<String>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}
