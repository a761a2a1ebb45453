//! For the tests: messages made up so that every field of every version gets its share.

use super::schema::{Field, Kind, Message, Struct, module_of};
use super::steps::Steps;
use super::versions::Test;
use std::fmt::Write;

pub(super) fn module(messages: &[Message]) -> String {
    let mut code = String::from(
        "//! Messages with random values in all the fields that a version carries.
#![allow(clippy::field_reassign_with_default, reason = \"a field that the version does not carry keeps its default\")]

use crate::source::{Random, Source};
use ottla_wire::message::*;

",
    );
    code += &names("for_each_message", messages.iter());
    code += &names("for_each_request", messages.iter().filter(|message| message.is_request()));
    for message in messages {
        for part in &message.structs {
            code += &random(message, part);
        }
    }
    code
}

/// A macro that calls another with each of the names.
fn names<'a>(list: &str, messages: impl Iterator<Item = &'a Message>) -> String {
    let mut calls = String::new();
    for message in messages {
        let _ = writeln!(calls, "$call!({});", message.name);
    }
    format!("macro_rules! {list} {{\n($call:ident) => {{\n{calls}}};\n}}\npub(crate) use {list};\n\n")
}

fn random(message: &Message, part: &Struct) -> String {
    let mut steps = Steps::among(part.versions);
    for field in &part.fields {
        steps.add(field.versions, fill(field), String::new());
    }
    let (module, name, steps) = (module_of(&message.name), &part.name, steps.code());
    let version = if super::rust::uses_version(&steps) { "version" } else { "_" };
    format!(
        "impl Random for {module}::{name} {{
            fn random(source: &mut Source, {version}: i16) -> Self {{
                let mut value = Self::default();
                {steps}
                value
            }}
        }}\n\n"
    )
}

fn fill(field: &Field) -> String {
    let (name, value) = (&field.name, value(field));
    match field.tag {
        None => format!("value.{name} = {value};\n"),
        Some(_) => format!("value.{name} = source.tagged(value.{name}, |source| {value});\n"),
    }
}

fn value(field: &Field) -> String {
    let inner = inner(&field.kind);
    match (field.optional, field.nullable.test(field.versions)) {
        (false, _) => inner,
        (true, Test::If(test)) => format!("source.nullable({test}, |source| {inner})"),
        (true, _) => format!("source.nullable(true, |source| {inner})"),
    }
}

fn inner(kind: &Kind) -> String {
    match kind {
        Kind::Struct(_) => "Random::random(source, version)".into(),
        Kind::Array(_) => "source.array(version)".into(),
        simple => format!("source.{}()", simple.method()),
    }
}
