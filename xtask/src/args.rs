//! A command line, taken apart piece by piece; whatever nobody asked for is an error at the end.

use crate::failure::{Result, misuse};
use std::collections::VecDeque;
use std::str::FromStr;

/// Take the words first, then flags and values by name in any order, then call [`Args::finish`].
#[derive(Debug)]
pub(crate) struct Args {
    rest: VecDeque<String>,
}

impl Args {
    pub(crate) fn of_process() -> Self {
        Self::new(std::env::args().skip(1))
    }

    pub(crate) fn new(args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { rest: args.into_iter().map(Into::into).collect() }
    }

    /// The next argument, whatever it is.
    pub(crate) fn word(&mut self) -> Option<String> {
        self.rest.pop_front()
    }

    /// Whether it asks for help on the command itself, not on the tool that is to be called with what is behind its name
    /// (`kafka tool CLASS --help`).
    pub(crate) fn ask_for_help(&self) -> bool {
        let own = if self.rest.front().is_some_and(|word| word == "tool") { 2 } else { usize::MAX };
        self.rest.iter().take(own).any(|word| word == "--help" || word == "-h")
    }

    /// Whether `name` was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.take(name).is_some()
    }

    /// The value of `name VALUE` or `name=VALUE`; given twice it is an error.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>> {
        let mut values = self.values(name)?;
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => misuse(format!("{name} was given {} times", values.len())),
        }
    }

    /// Like [`Args::value`], for something that has to be a `T`.
    pub(crate) fn parsed<T: FromStr>(&mut self, name: &str, what: &str) -> Result<Option<T>> {
        let Some(text) = self.value(name)? else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => misuse(format!("{name} wants {what}, not `{text}`")),
        }
    }

    /// The values of all `name VALUE`, in order.
    pub(crate) fn values(&mut self, name: &str) -> Result<Vec<String>> {
        let mut values = Vec::new();
        while let Some(value) = self.one_value(name)? {
            values.push(value);
        }
        Ok(values)
    }

    /// The values of a list `name A,B,C`; empty when it was not given.
    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<String>> {
        let text = self.value(name)?.unwrap_or_default();
        Ok(text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// What is left, unparsed: for a command that hands it on.
    pub(crate) fn into_rest(self) -> Vec<String> {
        self.rest.into()
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        match self.word() {
            None => Ok(()),
            Some(extra) => misuse(format!("`{extra}` is not understood here; see `cargo xtask help`")),
        }
    }

    fn one_value(&mut self, name: &str) -> Result<Option<String>> {
        let prefix = format!("{name}=");
        if let Some(at) = self.rest.iter().position(|arg| arg.starts_with(&prefix)) {
            return Ok(self.rest.remove(at).map(|arg| arg[prefix.len()..].to_owned()));
        }
        let Some(at) = self.take(name) else { return Ok(None) };
        match self.rest.remove(at) {
            Some(value) => Ok(Some(value)),
            None => misuse(format!("{name} wants a value")),
        }
    }

    /// Removes `name` and says where it stood.
    fn take(&mut self, name: &str) -> Option<usize> {
        let at = self.rest.iter().position(|arg| arg == name)?;
        self.rest.remove(at);
        Some(at)
    }
}

/// `KEY=VALUE`, as in `--set` and `--extra`.
pub(crate) fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => misuse(format!("`{text}` should look like KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order_and_both_spellings() {
        let mut args = Args::new(["up", "--port=7", "--set", "a=b", "--kill", "--set", "c=d=e"]);
        assert_eq!(args.word().as_deref(), Some("up"));
        assert_eq!(args.values("--set").unwrap(), ["a=b", "c=d=e"]);
        assert_eq!(args.parsed("--port", "a port"), Ok(Some(7u16)));
        assert!(args.flag("--kill"));
        assert!(!args.flag("--kill"));
        args.finish().unwrap();
    }

    #[test]
    fn help_may_stand_anywhere_but_belongs_to_a_tool_behind_its_name() {
        let asks = |line: &str| Args::new(line.split_whitespace()).ask_for_help();
        assert!(["--help", "-h", "up --port 7 --help", "tool --help", "tool -h X"].into_iter().all(asks));
        assert!(!["", "up", "help", "tool TopicCommand --help", "--only=--help"].into_iter().any(asks));
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        let error = Args::new(["--prot", "7"]).finish().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--prot"));
    }

    #[test]
    fn a_missing_a_wrong_and_a_repeated_value_are_told_apart() {
        let told = |args: &[&str]| {
            Args::new(args.iter().copied()).parsed::<u16>("--port", "a port").unwrap_err().to_string()
        };
        assert_eq!(told(&["--port"]), "--port wants a value");
        assert_eq!(told(&["--port", "x"]), "--port wants a port, not `x`");
        assert_eq!(told(&["--port", "1", "--port", "2"]), "--port was given 2 times");
    }

    #[test]
    fn lists_are_split_at_commas() {
        assert_eq!(Args::new(["--topics", "a,b"]).list("--topics").unwrap(), ["a", "b"]);
        assert!(Args::new(Vec::<String>::new()).list("--topics").unwrap().is_empty());
    }

    #[test]
    fn a_pair_keeps_later_equal_signs() {
        assert_eq!(pair("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert!(pair("a").is_err());
        assert!(pair("=a").is_err());
    }
}
