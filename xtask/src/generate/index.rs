//! What lists the messages: `mod.rs`, and the keys of the APIs.

use super::schema::{Message, module_of};
use std::fmt::Write;

/// The module of all messages.
pub(super) fn messages(messages: &[Message]) -> String {
    let mut code = String::from(
        "//! Requests, replies, and what members of a group tell each other, from Kafka's own schemas.
//!
//! Each message has a module with its structs; the messages themselves are here, too. Fields that a version does not
//! carry are left at their defaults when read, and must stand at their defaults to be written, unless the schema says
//! that they may be left out.
#![allow(clippy::field_reassign_with_default, reason = \"a field that the version does not carry keeps its default\")]

pub mod api_key;
mod form;

pub use form::{Message, Request};
pub(crate) use form::Wire;

",
    );
    for message in messages {
        let _ = writeln!(code, "pub mod {};", module_of(&message.name));
    }
    code.push('\n');
    for message in messages {
        let _ = writeln!(code, "pub use {}::{};", module_of(&message.name), message.name);
    }
    code
}

/// The keys of the APIs whose requests are among the messages.
pub(super) fn keys(messages: &[Message]) -> String {
    let mut requests: Vec<_> = messages.iter().filter(|message| message.is_request()).collect();
    requests.sort_by_key(|request| request.key);
    let mut arms = Arms::default();
    for request in requests {
        arms.add(request);
    }
    arms.code()
}

/// The lines of the keys' enum and of its methods.
#[derive(Default)]
struct Arms {
    variants: String,
    all: String,
    names: String,
    numbers: String,
    versions: String,
    flexible: String,
}

impl Arms {
    fn add(&mut self, request: &Message) {
        let (api, versions) = (request.api(), request.versions);
        let key = request.key.unwrap_or_default();
        let _ = writeln!(self.variants, "/// {}, {}.\n{api} = {key},", api, versions.shown());
        let _ = writeln!(self.all, "Self::{api},");
        let _ = writeln!(self.names, "Self::{api} => {api:?},");
        let _ = writeln!(self.numbers, "{key} => Self::{api},");
        let _ = writeln!(self.versions, "Self::{api} => {}..={},", versions.min, versions.max);
        match request.flexible_from() {
            Some(first) => writeln!(self.flexible, "Self::{api} => version >= {first},"),
            None => writeln!(self.flexible, "Self::{api} => false,"),
        }
        .unwrap_or_default();
    }

    fn code(&self) -> String {
        let Self { variants, all, names, numbers, versions, flexible } = self;
        format!(
            "//! The keys of the APIs.

use std::fmt;
use std::ops::RangeInclusive;

/// An API that is spoken here; the number is its key on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ApiKey {{
{variants}
}}

impl ApiKey {{
    /// All of them, in the order of their numbers.
    pub const ALL: &[Self] = &[{all}];

    /// The name that Kafka gives it.
    pub const fn name(self) -> &'static str {{
        match self {{ {names} }}
    }}

    /// The API of this number, if it is spoken here.
    pub const fn from_i16(number: i16) -> Option<Self> {{
        Some(match number {{
            {numbers}
            _ => return None,
        }})
    }}

    /// The versions that are spoken here.
    pub const fn versions(self) -> RangeInclusive<i16> {{
        match self {{ {versions} }}
    }}

    /// Whether a request of this version, spoken here or not, has compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {{
        match self {{ {flexible} }}
    }}
}}

impl fmt::Display for ApiKey {{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{
        f.write_str(self.name())
    }}
}}
"
        )
    }
}
