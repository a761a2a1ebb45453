//! What all messages have in common.

use crate::api::ApiKey;
use crate::error::{DecodeError, DecodeFault, EncodeError, EncodeFault};
use crate::{Input, Output, Uuid};
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// A message: a request, a reply, or what members of a group tell each other.
pub trait Message: Wire + Clone + Debug + Default + PartialEq {
    /// Its name, as Kafka has it.
    const NAME: &'static str;
    /// The versions that are spoken: all that Kafka counts as stable.
    const VERSIONS: RangeInclusive<i16>;
    /// The first version with compact lengths and tagged fields.
    const FLEXIBLE: Option<i16>;

    /// Whether this version has compact lengths and tagged fields.
    fn is_flexible(version: i16) -> bool {
        Self::FLEXIBLE.is_some_and(|first| version >= first)
    }

    /// Reads the message, and leaves what comes after it.
    ///
    /// # Errors
    /// The version is not among `VERSIONS`, or the bytes are not this message.
    fn decode(input: &mut Input, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            let fault = DecodeFault::Version { known: Self::VERSIONS, found: version };
            return Err(input.fault("", fault).of(Self::NAME, version));
        }
        input
            .with_form(Self::is_flexible(version), |input| Self::read(input, version))
            .map_err(|error| error.of(Self::NAME, version))
    }

    /// Writes the message.
    ///
    /// # Errors
    /// The version is not among `VERSIONS`, a field is set that the version cannot carry (unless Kafka's schema says
    /// that such a field may be left out), or something is too long. What was written by then stays in the output.
    fn encode(&self, output: &mut Output, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            let fault = EncodeFault::Version { known: Self::VERSIONS, found: version };
            return Err(EncodeError::new("", fault).of(Self::NAME, version));
        }
        output
            .with_form(Self::is_flexible(version), |output| self.write(output, version))
            .map_err(|error| error.of(Self::NAME, version))
    }
}

/// A request, and what answers it.
pub trait Request: Message {
    /// The key of its API.
    const KEY: ApiKey;
    /// What answers it.
    type Response: Message;
}

/// What can be read and written as a whole: messages, their structs, and what arrays are made of.
///
/// Not to be named or implemented outside this crate.
pub trait Wire: Sized {
    /// The bytes that the smallest value takes, in any version. Never 0.
    const LEAST: usize;

    /// Reads the value's bytes.
    fn read(input: &mut Input, version: i16) -> Result<Self, DecodeError>;

    /// Writes the value's bytes.
    fn write(&self, output: &mut Output, version: i16) -> Result<(), EncodeError>;
}

/// What arrays are made of apart from structs. The array puts its own name and index into an error.
macro_rules! element {
    ($type:ty, $least:literal, $read:ident, |$output:ident, $value:ident| $write:expr) => {
        impl Wire for $type {
            const LEAST: usize = $least;

            fn read(input: &mut Input, _: i16) -> Result<Self, DecodeError> {
                input.$read("")
            }

            fn write(&self, $output: &mut Output, _: i16) -> Result<(), EncodeError> {
                let $value = self;
                $write
            }
        }
    };
}

element!(i8, 1, i8, |output, value| {
    output.put_i8(*value);
    Ok(())
});
element!(i16, 2, i16, |output, value| {
    output.put_i16(*value);
    Ok(())
});
element!(i32, 4, i32, |output, value| {
    output.put_i32(*value);
    Ok(())
});
element!(i64, 8, i64, |output, value| {
    output.put_i64(*value);
    Ok(())
});
element!(Uuid, 16, uuid, |output, value| {
    output.put_uuid(*value);
    Ok(())
});
element!(String, 1, string, |output, value| output.put_string("", value));
