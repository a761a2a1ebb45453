//! What a value's `Debug` says, as a tree: so values of different types, with the same field names, can be compared.

use ottla_wire::Uuid;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Struct(BTreeMap<String, Shape>),
    List(Vec<Shape>),
    /// A number, a text in quotes, a name.
    Leaf(String),
}

impl Shape {
    pub(crate) fn of(value: &impl Debug) -> Self {
        let text = format!("{value:?}");
        let mut parser = Parser { rest: text.chars().peekable() };
        let shape = parser.value();
        assert_eq!(parser.rest.next(), None, "left over of {text}");
        shape
    }

    /// The paths of all lists, without indices: `responses.partitions`.
    pub(crate) fn lists(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find_lists("", &mut found);
        found
    }

    fn find_lists(&self, path: &str, found: &mut Vec<String>) {
        match self {
            Self::Leaf(_) => {}
            Self::List(elements) => {
                found.push(path.to_owned());
                elements.iter().for_each(|element| element.find_lists(path, found));
            }
            Self::Struct(fields) => {
                for (name, field) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    field.find_lists(&format!("{path}{dot}{name}"), found);
                }
            }
        }
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn value(&mut self) -> Shape {
        let word = self.word();
        match self.rest.peek() {
            Some('[') if word.is_empty() => Shape::List(self.items('[', ']', Self::value)),
            Some('"') => Shape::Leaf(word + &self.quoted()),
            Some('{') => Shape::Struct(self.items('{', '}', Self::field).into_iter().collect()),
            // `Some(x)`, `TopicName(x)`, `Uuid(x)` are as good as x.
            Some('(') => self.items('(', ')', Self::value).remove(0),
            _ => Shape::Leaf(plain(word)),
        }
    }

    fn field(&mut self) -> (String, Shape) {
        let name = self.word();
        assert_eq!(self.rest.next(), Some(':'), "after {name}");
        self.space();
        (name, self.value())
    }

    fn items<T>(&mut self, open: char, close: char, item: fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        assert_eq!(self.rest.next(), Some(open));
        loop {
            self.space();
            if self.rest.next_if_eq(&close).is_some() {
                return items;
            }
            items.push(item(self));
            self.rest.next_if_eq(&',');
        }
    }

    fn word(&mut self) -> String {
        let of_word = |letter: &char| letter.is_alphanumeric() || "_-".contains(*letter);
        let word = std::iter::from_fn(|| self.rest.next_if(of_word)).collect();
        self.rest.next_if_eq(&' ');
        word
    }

    fn quoted(&mut self) -> String {
        let mut quoted = String::from(self.rest.next().unwrap());
        while !quoted.ends_with('"') || quoted.len() == 1 {
            let letter = self.rest.next().expect("an end of the quoted text");
            quoted.push(letter);
            if letter == '\\' {
                quoted.push(self.rest.next().unwrap());
                // Not the end, even if it was a quote.
                quoted.push('\u{0}');
            }
        }
        quoted
    }

    fn space(&mut self) {
        while self.rest.next_if(|letter| letter.is_whitespace()).is_some() {}
    }
}

/// Others show uuids in hexadecimal digits.
fn plain(word: String) -> String {
    let digits = word.replace('-', "");
    match u128::from_str_radix(&digits, 16) {
        Ok(bits) if word.len() == 36 && digits.len() == 32 => Uuid(bits.to_be_bytes()).to_string(),
        _ => word,
    }
}
