//! Kafka's schemas as they concern us: the structs of a message with their fields, in the versions that are spoken.

use super::versions::Versions;
use crate::failure::{During, Result, fail};
use serde_json::Value;

/// A request, a reply or a piece of data.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) key: Option<i64>,
    pub(super) versions: Versions,
    pub(super) flexible: Versions,
    /// The message itself first, then the structs it is made of, each once.
    pub(super) structs: Vec<Struct>,
}

#[derive(Debug)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) about: String,
    /// The versions in which it can occur.
    pub(super) versions: Versions,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// In Rust's spelling.
    pub(super) name: String,
    pub(super) about: String,
    pub(super) kind: Kind,
    /// The versions that carry it, among those of its struct.
    pub(super) versions: Versions,
    /// The versions in which it may be null, among those that carry it.
    pub(super) nullable: Versions,
    /// Whether it is an `Option`: it may be null in some version.
    pub(super) optional: bool,
    pub(super) default: Option<String>,
    pub(super) ignorable: bool,
    pub(super) tag: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Kind>),
}

impl Message {
    /// Reads a schema. A reply is spoken in the versions of its request, which alone says whether the newest one is
    /// stable; so for a reply the request's versions are given.
    pub(super) fn parse(text: &str, request: Option<Versions>) -> Result<Self> {
        let schema = serde_json::from_str(&without_comments(text)).during(|| "reading JSON".into())?;
        let name = text_of(&schema, "name")?;
        Self::of(&schema, name, request).during(|| format!("the schema of {name}"))
    }

    pub(super) fn is_request(&self) -> bool {
        self.key.is_some() && self.name.ends_with("Request")
    }

    /// `Fetch` for `FetchRequest`.
    pub(super) fn api(&self) -> &str {
        self.name.strip_suffix("Request").unwrap_or(&self.name)
    }

    pub(super) fn flexible_from(&self) -> Option<i16> {
        let flexible = self.flexible.and(self.versions);
        (!flexible.is_empty()).then_some(flexible.min)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|part| part.name == name)
    }

    fn of(schema: &Value, name: &str, request: Option<Versions>) -> Result<Self> {
        let mut versions = Versions::parse(text_of(schema, "validVersions")?)?;
        if is_true(schema, "latestVersionUnstable") {
            versions.max -= 1;
        }
        versions = versions.and(request.unwrap_or(versions));
        let mut message = Self {
            name: name.to_owned(),
            key: schema["apiKey"].as_i64(),
            versions,
            flexible: Versions::parse(text_of(schema, "flexibleVersions")?)?,
            structs: Vec::new(),
        };
        let about = format!("{name}, {}.", versions.shown());
        message.add(name, about, versions, schema, schema)?;
        Ok(message)
    }

    /// Adds a struct and those inside it. `schema` is where its fields stand.
    fn add(
        &mut self,
        name: &str,
        about: String,
        versions: Versions,
        schema: &Value,
        root: &Value,
    ) -> Result<()> {
        let at = self.structs.len();
        self.structs.push(Struct { name: name.into(), about, versions, fields: Vec::new() });
        self.add_fields(at, schema, root)
    }

    fn add_fields(&mut self, at: usize, schema: &Value, root: &Value) -> Result<()> {
        for field in list_of(schema, "fields") {
            let name = format!("{}.{}", self.structs[at].name, field["name"]);
            self.add_field(at, field, root).during(|| name)?;
        }
        Ok(())
    }

    fn add_field(&mut self, at: usize, schema: &Value, root: &Value) -> Result<()> {
        let Some(field) = Field::of(schema, self.structs[at].versions)? else { return Ok(()) };
        field.check(self.flexible)?;
        if let Some(name) = field.kind.struct_name() {
            let common = list_of(root, "commonStructs").iter().find(|common| common["name"] == name);
            let about = field.about_struct(&self.structs[at].name);
            self.add_named(name, about, field.versions, common.unwrap_or(schema), root)?;
        }
        self.structs[at].fields.push(field);
        Ok(())
    }

    /// Adds the struct that a field is made of. If another field had it before, it may now occur in more versions,
    /// and its fields are read anew.
    fn add_named(
        &mut self,
        name: &str,
        about: String,
        versions: Versions,
        schema: &Value,
        root: &Value,
    ) -> Result<()> {
        let Some(at) = self.structs.iter().position(|part| part.name == name) else {
            return self.add(name, about, versions, schema, root);
        };
        let wider = self.structs[at].versions.cover(versions);
        if wider == self.structs[at].versions {
            return Ok(());
        }
        self.structs[at].versions = wider;
        self.structs[at].fields.clear();
        self.add_fields(at, schema, root)
    }
}

impl Field {
    /// `None` where no version that is spoken carries it.
    fn of(schema: &Value, among: Versions) -> Result<Option<Self>> {
        let range = |key: &str| schema[key].as_str().map_or(Ok(Versions::NONE), Versions::parse);
        let versions = Versions::parse(text_of(schema, "versions")?)?.and(among);
        let nullable = range("nullableVersions")?.and(versions);
        if versions.is_empty() {
            return Ok(None);
        }
        if !schema["taggedVersions"].is_null() && range("taggedVersions")?.and(among) != versions {
            return fail("is tagged in some of its versions only");
        }
        Ok(Some(Self {
            name: snake_case(text_of(schema, "name")?),
            about: text_of(schema, "about")?.trim().to_owned(),
            kind: Kind::parse(text_of(schema, "type")?)?,
            versions,
            nullable,
            optional: !nullable.is_empty(),
            default: default_of(&schema["default"]),
            ignorable: is_true(schema, "ignorable"),
            tag: schema["tag"].as_i64(),
        }))
    }

    /// What to say about the struct that the field of `owner` is made of.
    fn about_struct(&self, owner: &str) -> String {
        let relation = if matches!(self.kind, Kind::Array(_)) { "An element of" } else { "What is in" };
        format!("{relation} [`{owner}::{}`].", self.name)
    }

    /// What the writer of Rust counts on.
    fn check(&self, flexible: Versions) -> Result<()> {
        if self.tag.is_some() && self.versions.and(flexible) != self.versions {
            return fail("is tagged in a version without tags");
        }
        if matches!(self.kind, Kind::Struct(_)) && self.optional && self.nullable != self.versions {
            return fail("is a struct that may be null in some of its versions only");
        }
        if matches!(self.kind, Kind::Struct(_)) && self.optional && self.default.as_deref() != Some("null") {
            return fail("is a struct that may be null and is not by default");
        }
        if self.kind == Kind::String && !matches!(self.default.as_deref(), None | Some("" | "null")) {
            return fail("is a string with a default that is neither empty nor null");
        }
        Ok(())
    }
}

impl Kind {
    fn parse(text: &str) -> Result<Self> {
        if let Some(element) = text.strip_prefix("[]") {
            return Ok(Self::Array(Box::new(Self::parse(element)?)));
        }
        Ok(match text {
            "bool" => Self::Bool,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            name if name.starts_with(|first: char| first.is_ascii_uppercase()) => Self::Struct(name.into()),
            other => return fail(format!("the type `{other}` is not known here yet")),
        })
    }

    /// The struct that it is, or that it is an array of.
    pub(super) fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name(),
            _ => None,
        }
    }
}

/// Kafka's schemas have comments, always on lines of their own.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn text_of<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().map_or_else(|| fail(format!("has no text `{key}`")), Ok)
}

fn list_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Kafka writes booleans and numbers with and without quotes.
fn is_true(value: &Value, key: &str) -> bool {
    default_of(&value[key]).as_deref() == Some("true")
}

fn default_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// `error_code` for `ErrorCode`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// The module of a message: `fetch_request` for `FetchRequest`.
pub(super) fn module_of(name: &str) -> String {
    snake_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(versions: &str, rest: &str) -> String {
        format!(
            r#"{{
              // A comment, as Kafka writes them.
              "apiKey": 7, "type": "request", "name": "PingRequest", {rest},
              "validVersions": "{versions}", "flexibleVersions": "2+"
            }}"#
        )
    }

    fn field(text: &str) -> Result<Message> {
        Message::parse(
            &schema("0-4", &format!(r#""fields": [{{ "name": "Text", "about": "", {text} }}]"#)),
            None,
        )
    }

    #[test]
    fn a_version_that_is_not_stable_is_not_spoken_and_a_reply_follows_its_request() {
        let unstable = schema("1-4", r#""latestVersionUnstable": true, "fields": []"#);
        let request = Message::parse(&unstable, None).unwrap();
        assert_eq!(request.versions, Versions { min: 1, max: 3 });
        let reply = Message::parse(&schema("0-4", r#""fields": []"#), Some(request.versions)).unwrap();
        assert_eq!(reply.versions, request.versions);
        assert_eq!(reply.flexible_from(), Some(2));
    }

    #[test]
    fn a_field_that_no_spoken_version_carries_is_left_out() {
        let fields =
            |versions: &str| field(&format!(r#""type": "string", "versions": "{versions}""#)).unwrap();
        assert_eq!(fields("5+").structs[0].fields.len(), 0);
        assert_eq!(fields("3+").structs[0].fields[0].versions, Versions { min: 3, max: 4 });
    }

    #[test]
    fn a_struct_used_twice_has_the_fields_of_both_uses() {
        let message = Message::parse(
            &schema(
                "0-4",
                r#""fields": [
                  { "name": "Old", "type": "[]Topic", "versions": "0-1", "about": "" },
                  { "name": "New", "type": "[]Topic", "versions": "3+", "about": "" }
                ],
                "commonStructs": [{ "name": "Topic", "versions": "0+", "fields": [
                  { "name": "Name", "type": "string", "versions": "0+", "about": "" },
                  { "name": "TopicId", "type": "uuid", "versions": "4+", "about": "" }
                ]}]"#,
            ),
            None,
        )
        .unwrap();
        let topic = message.find("Topic").unwrap();
        let names: Vec<_> = topic.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!((topic.versions, names), (Versions { min: 0, max: 4 }, vec!["name", "topic_id"]));
        assert_eq!(message.structs.len(), 2);
    }

    #[test]
    fn what_the_rust_would_get_wrong_is_refused() {
        for (text, told) in [
            (r#""type": "float64", "versions": "0+""#, "the type `float64` is not known here yet"),
            (r#""type": "string", "versions": "0+", "default": "x""#, "neither empty nor null"),
            (r#""type": "int8", "versions": "0+", "tag": 0, "taggedVersions": "0+""#, "without tags"),
            (
                r#""type": "int8", "versions": "0+", "tag": 0, "taggedVersions": "2+""#,
                "some of its versions only",
            ),
            (
                r#""type": "Leader", "versions": "0+", "nullableVersions": "1+", "default": "null""#,
                "may be null",
            ),
            (r#""type": "Leader", "versions": "0+", "nullableVersions": "0+""#, "is not by default"),
        ] {
            let error = field(text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            assert!(error.starts_with("the schema of PingRequest: PingRequest.\"Text\": "), "{error}");
        }
    }
}
