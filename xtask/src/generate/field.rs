//! A field as Rust: its type, its default, and how it is read and written.

use super::schema::{Field, Kind};
use super::steps::negated;
use super::versions::Test;

impl Kind {
    pub(super) fn innermost(&self) -> &Self {
        match self {
            Self::Array(element) => element.innermost(),
            other => other,
        }
    }

    pub(super) fn rust_type(&self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::I8 => "i8".into(),
            Self::I16 => "i16".into(),
            Self::I32 => "i32".into(),
            Self::I64 => "i64".into(),
            Self::Uuid => "Uuid".into(),
            Self::String => "String".into(),
            Self::Bytes | Self::Records => "Bytes".into(),
            Self::Struct(name) => name.clone(),
            Self::Array(element) => format!("Vec<{}>", element.rust_type()),
        }
    }

    /// The default that the schema gives, or `""`.
    fn default(&self, given: &str) -> String {
        match self {
            Self::Bool => given.eq_ignore_ascii_case("true").to_string(),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => integer(given, self),
            Self::Uuid => "Uuid::ZERO".into(),
            Self::String if given.is_empty() => "String::new()".into(),
            Self::String => format!("{given:?}.into()"),
            Self::Bytes | Self::Records => "Bytes::new()".into(),
            Self::Struct(name) => format!("{name}::default()"),
            Self::Array(_) => "Vec::new()".into(),
        }
    }

    /// The method that reads it is called so, the one that writes it has `put_` before.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Uuid => "uuid",
            Self::String => "string",
            Self::Bytes | Self::Records => "bytes",
            Self::Struct(_) => "value",
            Self::Array(_) => "array",
        }
    }

    /// Whether there is nothing in it that could be too long.
    fn is_always_written(&self) -> bool {
        matches!(self, Self::Bool | Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Uuid)
    }

    /// Whether reading and writing needs the version.
    fn is_versioned(&self) -> bool {
        matches!(self, Self::Struct(_) | Self::Array(_))
    }
}

impl Field {
    pub(super) fn rust_type(&self) -> String {
        let inner = self.kind.rust_type();
        if self.optional { format!("Option<{inner}>") } else { inner }
    }

    /// Whether its default is what Rust derives.
    pub(super) fn has_rust_default(&self) -> bool {
        let derived = if self.optional { "None".into() } else { self.kind.default("") };
        self.default_value() == derived
    }

    /// Where the schema names no default, records that may be null are null, and everything else is empty.
    pub(super) fn default_value(&self) -> String {
        if !self.optional {
            return self.inner_default();
        }
        match (&self.kind, self.default.as_deref()) {
            (_, Some("null")) | (Kind::Records, None) => "None".into(),
            _ => format!("Some({})", self.inner_default()),
        }
    }

    fn inner_default(&self) -> String {
        self.kind.default(self.default.as_deref().unwrap_or(""))
    }

    /// Whether it differs from its default.
    pub(super) fn is_set(&self) -> String {
        let place = format!("self.{}", self.name);
        let default = self.default_value();
        match (&self.kind, self.optional) {
            (_, true) if default == "None" => format!("{place}.is_some()"),
            (_, true) => format!("{place}.as_ref().is_none_or(|value| !value.is_empty())"),
            (Kind::Bool, _) if default == "true" => format!("!{place}"),
            (Kind::Bool, _) => place,
            (Kind::Uuid, _) => format!("!{place}.is_zero()"),
            (Kind::String | Kind::Bytes | Kind::Records | Kind::Array(_), _) => {
                format!("!{place}.is_empty()")
            }
            _ => format!("{place} != {default}"),
        }
    }

    /// Refuses a value that the version cannot carry.
    pub(super) fn refuse(&self) -> String {
        if self.ignorable {
            return String::new();
        }
        format!("if {} {{ return Err(EncodeError::unsupported({:?})); }}\n", self.is_set(), self.name)
    }

    pub(super) fn read(&self) -> String {
        let version = if self.kind.is_versioned() { ", version" } else { "" };
        let call = |prefix: &str| format!("input.{prefix}{}({:?}{version})?", self.kind.method(), self.name);
        match self.nullable.test(self.versions) {
            Test::Always => call("nullable_"),
            Test::Never => call(""),
            Test::If(test) => format!("if {test} {{ {} }} else {{ Some({}) }}", call("nullable_"), call("")),
        }
    }

    pub(super) fn write(&self) -> String {
        let question = if self.kind.is_always_written() { "" } else { "?" };
        format!("{}{}{question};\n", self.refuse_null(), self.write_call())
    }

    /// Writing as one expression that says how it went.
    pub(super) fn write_result(&self) -> String {
        match (self.kind.is_always_written(), self.refuse_null().as_str()) {
            (false, "") => self.write_call(),
            _ => format!("{{ {} Ok(()) }}", self.write()),
        }
    }

    fn write_call(&self) -> String {
        let (name, method) = (&self.name, self.kind.method());
        if self.kind.is_always_written() {
            return format!("output.put_{method}(self.{name})");
        }
        let version = if self.kind.is_versioned() { ", version" } else { "" };
        if self.optional {
            format!("output.put_nullable_{method}({name:?}, {}{version})", self.borrowed())
        } else {
            format!("output.put_{method}({name:?}, &self.{name}{version})")
        }
    }

    fn borrowed(&self) -> String {
        let how = if matches!(self.kind, Kind::Struct(_)) { "as_ref" } else { "as_deref" };
        format!("self.{}.{how}()", self.name)
    }

    /// Refuses null in versions that have none.
    fn refuse_null(&self) -> String {
        let Test::If(test) = self.nullable.test(self.versions) else { return String::new() };
        let (name, never) = (&self.name, negated(&test));
        format!("if {never} && self.{name}.is_none() {{ return Err(EncodeError::null({name:?})); }}\n")
    }
}

fn integer(text: &str, kind: &Kind) -> String {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if text.is_empty() => Ok(0),
        None => text.parse(),
    };
    match number {
        Ok(number) if number == i64::from(i32::MIN) && *kind == Kind::I32 => "i32::MIN".into(),
        Ok(number) if number == i64::from(i32::MAX) && *kind == Kind::I32 => "i32::MAX".into(),
        Ok(i64::MAX) => "i64::MAX".into(),
        Ok(number) => number.to_string(),
        // Rust's compiler says it better, at the place.
        Err(_) => text.into(),
    }
}
