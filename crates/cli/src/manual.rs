//! `ottla completions` and `ottla man`: what is known of the command line, for shells and for readers.

use std::io;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{args::Args, exit::Exit, tell::Failure};

pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ottla", &mut script);
    print(&script)
}

/// The page of the whole, or of one of its commands (`group seek`).
pub(crate) fn man(names: &[String]) -> Result<Exit, Failure> {
    let mut root = Args::command();
    root.build();
    let mut page = Vec::new();
    Man::new(find(root, names)?).render(&mut page)?;
    print(as_written(&String::from_utf8(page)?).as_bytes())
}

/// Lines that are set in, examples and tables, stay lines: roff would fill them.
fn as_written(page: &str) -> String {
    let (mut text, mut was_set_in) = (String::with_capacity(page.len()), false);
    for line in page.lines() {
        let is_set_in = line.starts_with("  ");
        match (was_set_in, is_set_in) {
            (false, true) => text.push_str(".nf\n"),
            (true, false) => text.push_str(".fi\n"),
            _ => {}
        }
        text.push_str(line);
        text.push('\n');
        was_set_in = is_set_in;
    }
    text
}

fn find(root: Command, names: &[String]) -> Result<Command, Failure> {
    let mut found = root;
    for name in names {
        let inner = found.find_subcommand(name).cloned();
        found = inner.ok_or_else(|| Failure(format!("there is no command {}", names.join(" "))))?;
    }
    Ok(found)
}

/// That nobody reads it any more is no failure.
fn print(bytes: &[u8]) -> Result<Exit, Failure> {
    match io::Write::write_all(&mut io::stdout().lock(), bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}
