//! What was wanted, where, and what was there instead.

use std::fmt;
use std::ops::RangeInclusive;

/// Bytes that are not the message they should be.
///
/// Says which message and field was being read, at which byte of the frame (counted after its length), what was
/// wanted and what stood there. The peer is at fault, or something between the peer and us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Place<DecodeFault>>);

/// A value that cannot be put into the bytes of the version asked for.
///
/// The caller is at fault: a field is set which that version does not know, or something is too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeError(Box<Place<EncodeFault>>);

/// What was wrong with the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The bytes end before the value does.
    #[error("{wanted} of {needs} bytes wanted, {left} left")]
    Short {
        /// The kind of value that was wanted.
        wanted: &'static str,
        /// The bytes it takes.
        needs: usize,
        /// The bytes that are there.
        left: usize,
    },
    /// An array names more elements than the bytes left can hold.
    #[error("array of {count} elements of at least {least} bytes each wanted, {left} bytes left")]
    Count {
        /// The elements named.
        count: usize,
        /// The bytes the smallest element takes.
        least: usize,
        /// The bytes that are there.
        left: usize,
    },
    /// A length or a count below -1.
    #[error("{wanted} wanted, found the length {length}")]
    Negative {
        /// The kind of value that was wanted.
        wanted: &'static str,
        /// The length found.
        length: i32,
    },
    /// Null where this version allows none.
    #[error("{wanted} wanted, found null")]
    Null {
        /// The kind of value that was wanted.
        wanted: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("string wanted, found bytes that are not UTF-8 after the first {valid}: {found:02x?}")]
    NotUtf8 {
        /// The bytes that are valid before the first that is not.
        valid: usize,
        /// The first bytes that are not valid, three at most.
        found: Vec<u8>,
    },
    /// A variable-length integer of more than 32 bits.
    #[error("unsigned varint wanted, found more than 32 bits: {0:02x?}")]
    Varint([u8; 5]),
    /// The byte before a nullable struct is neither -1 nor 1.
    #[error("-1 (null) or 1 (a struct) wanted, found {0}")]
    Marker(i8),
    /// The value ended before its bytes did.
    #[error("end wanted, {0} bytes left over")]
    Leftover(usize),
    /// A request with a key that is not known here.
    #[error("the key of an API wanted, found {0}")]
    Api(i16),
    /// A version that is not known here.
    #[error("a version from {} to {} wanted, found {found}", .known.start(), .known.end())]
    Version {
        /// The versions known.
        known: RangeInclusive<i16>,
        /// The version asked for.
        found: i16,
    },
}

/// What was wrong with the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeFault {
    /// The field is set, and this version has no place for it.
    #[error("is set, but this version cannot carry it")]
    Unsupported,
    /// The field is null, and this version has no null for it.
    #[error("is null, but this version has no null for it")]
    Null,
    /// More bytes or elements than the length before them can say.
    #[error("has the length {length}, at most {most} can be said")]
    TooLong {
        /// The bytes or elements there are.
        length: usize,
        /// The most that fit.
        most: usize,
    },
    /// A version that is not known here.
    #[error("a version from {} to {} wanted, asked for {found}", .known.start(), .known.end())]
    Version {
        /// The versions known.
        known: RangeInclusive<i16>,
        /// The version asked for.
        found: i16,
    },
}

impl DecodeError {
    /// The message that was being read, `""` outside any.
    pub fn message(&self) -> &'static str {
        self.0.message
    }

    /// The path of the field, as in `responses[0].partitions[3].records`; `""` for the message as a whole.
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// The byte of the frame at which the value begins, counted after the frame's length.
    pub fn position(&self) -> usize {
        self.0.position
    }

    /// What was wrong.
    pub fn fault(&self) -> &DecodeFault {
        &self.0.fault
    }

    #[cold]
    pub(crate) fn new(field: &str, position: usize, fault: DecodeFault) -> Self {
        Self(Box::new(Place { field: field.into(), position, ..Place::new(fault) }))
    }

    #[cold]
    pub(crate) fn inside(mut self, field: &str) -> Self {
        self.0.inside(field);
        self
    }

    #[cold]
    pub(crate) fn element(self, field: &str, index: usize) -> Self {
        self.inside(&format!("{field}[{index}]"))
    }

    #[cold]
    pub(crate) fn of(mut self, message: &'static str, version: i16) -> Self {
        self.0.of(message, version);
        self
    }
}

impl EncodeError {
    /// The message that was being written, `""` outside any.
    pub fn message(&self) -> &'static str {
        self.0.message
    }

    /// The path of the field, as in `topics[0].name`; `""` for the message as a whole.
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// What was wrong.
    pub fn fault(&self) -> &EncodeFault {
        &self.0.fault
    }

    #[cold]
    pub(crate) fn new(field: &str, fault: EncodeFault) -> Self {
        Self(Box::new(Place { field: field.into(), ..Place::new(fault) }))
    }

    /// A field that is set in a version that has no place for it.
    #[cold]
    pub(crate) fn unsupported(field: &str) -> Self {
        Self::new(field, EncodeFault::Unsupported)
    }

    /// A field that is null in a version that has no null for it.
    #[cold]
    pub(crate) fn null(field: &str) -> Self {
        Self::new(field, EncodeFault::Null)
    }

    #[cold]
    pub(crate) fn inside(mut self, field: &str) -> Self {
        self.0.inside(field);
        self
    }

    #[cold]
    pub(crate) fn element(self, field: &str, index: usize) -> Self {
        self.inside(&format!("{field}[{index}]"))
    }

    #[cold]
    pub(crate) fn of(mut self, message: &'static str, version: i16) -> Self {
        self.0.of(message, version);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name(f)?;
        write!(f, " at byte {}: {}", self.0.position, self.0.fault)
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name(f)?;
        write!(f, ": {}", self.0.fault)
    }
}

impl std::error::Error for DecodeError {}
impl std::error::Error for EncodeError {}

/// A fault, and the message, version, field and byte where it was met. The names are put in on the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place<F> {
    message: &'static str,
    version: i16,
    field: String,
    position: usize,
    fault: F,
}

impl<F> Place<F> {
    fn new(fault: F) -> Self {
        Self { message: "", version: 0, field: String::new(), position: 0, fault }
    }

    fn inside(&mut self, field: &str) {
        let dot = if self.field.is_empty() { "" } else { "." };
        self.field = format!("{field}{dot}{}", self.field);
    }

    /// The innermost message counts: it is the one that knows the field.
    fn of(&mut self, message: &'static str, version: i16) {
        if self.message.is_empty() {
            self.message = message;
            self.version = version;
        }
    }

    fn name(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, self.field.as_str()) {
            ("", "") => f.write_str("frame"),
            ("", field) => f.write_str(field),
            (message, "") => write!(f, "{message} v{}", self.version),
            (message, field) => write!(f, "{message} v{}: {field}", self.version),
        }
    }
}
