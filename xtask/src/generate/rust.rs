//! A message as Rust: its structs, and how each is read and written.

use super::schema::{Field, Kind, Message, Struct, module_of};
use super::versions::{Test, Versions};
use std::fmt::Write;

/// The module of a message, to be formatted.
pub(super) fn module(message: &Message) -> String {
    let mut code = imports(message);
    for (index, part) in message.structs.iter().enumerate() {
        let part = Part { message, part };
        code += &part.definition();
        code += &part.default();
        code += &part.wire();
        if index == 0 {
            code += &traits(message);
        }
    }
    code
}

fn imports(message: &Message) -> String {
    let fields = || message.structs.iter().flat_map(|part| &part.fields);
    let uses = |wanted: &[Kind]| fields().any(|field| wanted.contains(field.kind.innermost()));
    let mut code = format!("//! {}.\n\n", message.name);
    code += if message.is_request() {
        "use crate::api::ApiKey;\nuse crate::message::{Message, Request, Wire};\n"
    } else {
        "use crate::message::{Message, Wire};\n"
    };
    code += "use crate::{DecodeError, EncodeError, Input, Output};\nuse std::ops::RangeInclusive;\n";
    if uses(&[Kind::Uuid]) {
        code += "use crate::Uuid;\n";
    }
    if uses(&[Kind::Bytes, Kind::Records]) {
        code += "use bytes::Bytes;\n";
    }
    code + "\n"
}

fn traits(message: &Message) -> String {
    let (name, Versions { min, max }) = (&message.name, message.versions);
    let flexible = message.flexible_from();
    let mut code = format!(
        "impl Message for {name} {{
            const NAME: &'static str = {name:?};
            const VERSIONS: RangeInclusive<i16> = {min}..={max};
            const FLEXIBLE: Option<i16> = {flexible:?};
        }}\n\n"
    );
    if message.is_request() {
        let api = message.api();
        let response = format!("{api}Response");
        let module = module_of(&response);
        let _ = write!(
            code,
            "impl Request for {name} {{
                const KEY: ApiKey = ApiKey::{api};
                type Response = super::{module}::{response};
            }}\n\n"
        );
    }
    code
}

/// A struct of a message.
struct Part<'a> {
    message: &'a Message,
    part: &'a Struct,
}

impl Part<'_> {
    fn definition(&self) -> String {
        let derived = if self.derives_default() { ", Default" } else { "" };
        let mut code = doc(&self.part.about);
        let _ = writeln!(code, "#[derive(Debug, Clone, PartialEq{derived})]\npub struct {} {{", self.part.name);
        for field in &self.part.fields {
            code += &doc(&self.about(field));
            let _ = writeln!(code, "pub {}: {},", field.name, field.rust_type());
        }
        code + "}\n\n"
    }

    /// What Kafka says about a field, and in which versions it is there.
    fn about(&self, field: &Field) -> String {
        if field.versions == self.part.versions {
            return field.about.clone();
        }
        let only = field.versions.shown();
        format!("{}\n\nOnly in {only}.", field.about)
    }

    fn default(&self) -> String {
        if self.derives_default() {
            return String::new();
        }
        let name = &self.part.name;
        let mut code = format!("impl Default for {name} {{\nfn default() -> Self {{\nSelf {{\n");
        for field in &self.part.fields {
            let _ = writeln!(code, "{}: {},", field.name, field.default_value());
        }
        code + "}\n}\n}\n\n"
    }

    fn derives_default(&self) -> bool {
        self.part.fields.iter().all(|field| field.default_value() == field.rust_default())
    }

    fn wire(&self) -> String {
        let (name, least) = (&self.part.name, self.least());
        let (read, write) = (self.read(), self.write());
        let version = |body: &str| if uses_version(body) { "version" } else { "_" };
        let (read_version, write_version) = (version(&read), version(&write));
        format!(
            "impl Wire for {name} {{
                const LEAST: usize = {least};

                fn read(input: &mut Input, {read_version}: i16) -> Result<Self, DecodeError> {{ {read} }}

                fn write(&self, output: &mut Output, {write_version}: i16) -> Result<(), EncodeError> {{ {write} }}
            }}\n\n"
        )
    }

    fn read(&self) -> String {
        let mut steps = Steps::among(self.part.versions);
        for field in self.untagged() {
            steps.add(field.versions, format!("value.{} = {};\n", field.name, field.read()), String::new());
        }
        format!("let mut value = Self::default();\n{}{}Ok(value)", steps.code(), self.read_tags())
    }

    fn read_tags(&self) -> String {
        if self.is_never_flexible() {
            return String::new();
        }
        if self.tagged().is_empty() {
            return "input.skip_tags()?;\n".into();
        }
        let mut arms = String::new();
        for (tag, field) in self.tagged() {
            let guard = match field.versions.test(self.flexible()) {
                Test::If(test) => format!(" if {test}"),
                Test::Always | Test::Never => String::new(),
            };
            let _ = writeln!(arms, "{tag}{guard} => value.{} = {},", field.name, field.read());
        }
        format!("input.tags(|input, tag| {{ match tag {{ {arms} _ => return Ok(false), }} Ok(true) }})?;\n")
    }

    fn write(&self) -> String {
        let mut steps = Steps::among(self.part.versions);
        for field in self.untagged() {
            steps.add(field.versions, field.write(), field.refuse());
        }
        for (_, field) in self.tagged() {
            steps.add(field.versions, String::new(), field.refuse());
        }
        steps.code() + &self.write_tags()
    }

    /// The end of writing, with its result.
    fn write_tags(&self) -> String {
        if self.is_never_flexible() {
            return "Ok(())".into();
        }
        if self.tagged().is_empty() {
            return "output.put_no_tags();\nOk(())".into();
        }
        let mut adds = String::new();
        for (tag, field) in self.tagged() {
            let is_set = field.is_set();
            let test = match field.versions.test(self.flexible()) {
                Test::If(test) => format!("{test} && {is_set}"),
                Test::Always | Test::Never => is_set,
            };
            let _ = writeln!(adds, "if {test} {{ tags.add({tag}, |output| {})?; }}", field.write_result());
        }
        format!("output.put_tags(|tags| {{ {adds} Ok(()) }})")
    }

    fn untagged(&self) -> impl Iterator<Item = &Field> {
        self.part.fields.iter().filter(|field| field.tag.is_none())
    }

    /// In the order of their tags, as Kafka wants them written.
    fn tagged(&self) -> Vec<(i64, &Field)> {
        let mut tagged: Vec<_> =
            self.part.fields.iter().filter_map(|field| field.tag.map(|tag| (tag, field))).collect();
        tagged.sort_by_key(|(tag, _)| *tag);
        tagged
    }

    fn flexible(&self) -> Versions {
        self.message.flexible.and(self.part.versions)
    }

    fn is_never_flexible(&self) -> bool {
        self.flexible().is_empty()
    }

    /// The bytes of the smallest value in the version where it is smallest.
    fn least(&self) -> usize {
        let Versions { min, max } = self.part.versions;
        (min..=max).map(|version| self.least_in(version)).min().unwrap_or(0)
    }

    fn least_in(&self, version: i16) -> usize {
        let flexible = self.message.flexible.contains(version);
        let carried = self.untagged().filter(|field| field.versions.contains(version));
        carried.map(|field| self.least_of(field, version, flexible)).sum::<usize>() + usize::from(flexible)
    }

    fn least_of(&self, field: &Field, version: i16, flexible: bool) -> usize {
        match &field.kind {
            Kind::Struct(_) if field.optional => 1,
            Kind::Bool | Kind::I8 => 1,
            Kind::I16 => 2,
            Kind::I32 => 4,
            Kind::I64 => 8,
            Kind::Uuid => 16,
            Kind::String => if flexible { 1 } else { 2 },
            Kind::Bytes | Kind::Records | Kind::Array(_) => if flexible { 1 } else { 4 },
            Kind::Struct(name) => {
                let part = self.message.find(name);
                part.map_or(0, |part| Part { message: self.message, part }.least_in(version))
            }
        }
    }
}

/// What is done one after the other, each step in some versions; neighbours in the same versions stand together.
struct Steps {
    among: Versions,
    steps: Vec<Step>,
}

struct Step {
    versions: Versions,
    code: String,
    /// What is done in the other versions instead.
    other: String,
}

impl Steps {
    fn among(among: Versions) -> Self {
        Self { among, steps: Vec::new() }
    }

    fn add(&mut self, versions: Versions, code: String, other: String) {
        match self.steps.last_mut() {
            Some(last) if last.versions == versions => {
                last.code += &code;
                last.other += &other;
            }
            _ => self.steps.push(Step { versions, code, other }),
        }
    }

    fn code(&self) -> String {
        self.steps.iter().map(|step| step.rust(self.among)).collect()
    }
}

impl Step {
    fn rust(&self, among: Versions) -> String {
        let Self { versions, code, other } = self;
        match (versions.test(among), code.as_str(), other.as_str()) {
            (Test::Always, code, _) => code.into(),
            (Test::Never, _, other) => other.into(),
            (Test::If(_), "", "") => String::new(),
            (Test::If(test), code, "") => format!("if {test} {{ {code} }}\n"),
            (Test::If(test), "", other) => when_not(&test, other),
            (Test::If(test), code, other) => format!("if {test} {{ {code} }} else {}\n", alternative(other)),
        }
    }
}

/// `else if` reads better than an `if` alone inside of `else`.
fn alternative(code: &str) -> String {
    if code.lines().count() == 1 { code.into() } else { format!("{{ {code} }}") }
}

fn when_not(test: &str, code: &str) -> String {
    let never = negated(test);
    match code.strip_prefix("if ") {
        Some(rest) if code.lines().count() == 1 => format!("if {never} && {rest}"),
        _ => format!("if {never} {{ {code} }}\n"),
    }
}

impl Kind {
    fn innermost(&self) -> &Self {
        match self {
            Self::Array(element) => element.innermost(),
            other => other,
        }
    }

    fn rust_type(&self) -> String {
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
    fn rust_type(&self) -> String {
        let inner = self.kind.rust_type();
        if self.optional { format!("Option<{inner}>") } else { inner }
    }

    fn rust_default(&self) -> String {
        if self.optional { "None".into() } else { self.inner_default() }
    }

    /// Where the schema names no default, records that may be null are null, and everything else is empty.
    fn default_value(&self) -> String {
        if !self.optional {
            return self.inner_default();
        }
        match (&self.kind, self.default.as_deref()) {
            (_, Some("null")) | (Kind::Records, None) => "None".into(),
            _ => format!("Some({})", self.inner_default()),
        }
    }

    fn inner_default(&self) -> String {
        let given = self.default.as_deref().unwrap_or("");
        match &self.kind {
            Kind::Bool => given.eq_ignore_ascii_case("true").to_string(),
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => integer(given, &self.kind),
            Kind::Uuid => "Uuid::ZERO".into(),
            Kind::String if given.is_empty() => "String::new()".into(),
            Kind::String => format!("{given:?}.into()"),
            Kind::Bytes | Kind::Records => "Bytes::new()".into(),
            Kind::Struct(name) => format!("{name}::default()"),
            Kind::Array(_) => "Vec::new()".into(),
        }
    }

    /// Whether it differs from its default.
    fn is_set(&self) -> String {
        let place = format!("self.{}", self.name);
        let default = self.default_value();
        match (&self.kind, self.optional) {
            (_, true) if default == "None" => format!("{place}.is_some()"),
            (_, true) => format!("{place}.as_ref().is_none_or(|value| !value.is_empty())"),
            (Kind::Bool, _) => if default == "true" { format!("!{place}") } else { place },
            (Kind::Uuid, _) => format!("!{place}.is_zero()"),
            (Kind::String | Kind::Bytes | Kind::Records | Kind::Array(_), _) => format!("!{place}.is_empty()"),
            _ => format!("{place} != {default}"),
        }
    }

    /// Refuses a value that the version cannot carry.
    fn refuse(&self) -> String {
        if self.ignorable {
            return String::new();
        }
        format!("if {} {{ return Err(EncodeError::unsupported({:?})); }}\n", self.is_set(), self.name)
    }

    fn read(&self) -> String {
        let version = if self.kind.is_versioned() { ", version" } else { "" };
        let call = |prefix: &str| format!("input.{prefix}{}({:?}{version})?", self.kind.method(), self.name);
        match self.nullable.test(self.versions) {
            Test::Always => call("nullable_"),
            Test::Never => call(""),
            Test::If(test) => format!("if {test} {{ {} }} else {{ Some({}) }}", call("nullable_"), call("")),
        }
    }

    fn write(&self) -> String {
        let question = if self.kind.is_always_written() { "" } else { "?" };
        format!("{}{}{question};\n", self.refuse_null(), self.write_call())
    }

    /// Writing as one expression that says how it went.
    fn write_result(&self) -> String {
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

/// Whether the code has the argument `version`, not just a field or a text of that name or a longer one.
fn uses_version(code: &str) -> bool {
    let part_of_name = |letter: char| letter.is_alphanumeric() || "_.\"".contains(letter);
    code.match_indices("version").any(|(at, word)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

/// `version < 7` for `version >= 7`.
fn negated(test: &str) -> String {
    match test.split_once(' ') {
        Some(("version", rest)) if rest.starts_with(">= ") => test.replace(">=", "<"),
        Some(("version", rest)) if rest.starts_with("<= ") => test.replace("<=", ">"),
        Some(("version", rest)) if rest.starts_with("== ") => test.replace("==", "!="),
        _ => format!("!{test}"),
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

/// A doc comment, wrapped.
pub(super) fn doc(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let mut row = String::from("///");
        for word in line.split_whitespace() {
            if row.len() + word.len() > 100 {
                code += &row;
                code.push('\n');
                row = "///".into();
            }
            row += " ";
            row += word;
        }
        code += &row;
        code.push('\n');
    }
    code
}
