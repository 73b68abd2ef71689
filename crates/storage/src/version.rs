//! Versions of objects, for replacing an object only if nobody else has.

use bytes::Bytes;

/// A version of an object in a cloud store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion(pub(crate) object_store::UpdateVersion);

/// An object as it is found.
#[derive(Debug)]
pub enum VersionRead {
    /// There is no object.
    Absent,
    /// It still has the version that the caller knows.
    Unchanged,
    /// It has another version.
    Found(Bytes, ObjectVersion),
}
