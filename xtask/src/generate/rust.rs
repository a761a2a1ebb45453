//! A message as Rust: its structs, and how each is read and written.

use super::schema::{Field, Kind, Message, Struct, module_of};
use super::steps::Steps;
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
        let _ =
            writeln!(code, "#[derive(Debug, Clone, PartialEq{derived})]\npub struct {} {{", self.part.name);
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
        self.part.fields.iter().all(Field::has_rust_default)
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
        let length = |fixed: usize| if flexible { 1 } else { fixed };
        match &field.kind {
            Kind::Struct(_) if field.optional => 1,
            Kind::Bool | Kind::I8 => 1,
            Kind::I16 => 2,
            Kind::I32 => 4,
            Kind::I64 => 8,
            Kind::Uuid => 16,
            Kind::String => length(2),
            Kind::Bytes | Kind::Records | Kind::Array(_) => length(4),
            Kind::Struct(name) => {
                let part = self.message.find(name);
                part.map_or(0, |part| Part { message: self.message, part }.least_in(version))
            }
        }
    }
}

/// Whether the code has the argument `version`, not just a field or a text of that name or a longer one.
pub(super) fn uses_version(code: &str) -> bool {
    let part_of_name = |letter: char| letter.is_alphanumeric() || "_.\"".contains(letter);
    code.match_indices("version").any(|(at, word)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
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
