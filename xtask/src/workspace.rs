//! Where things are, and how other programs of the workspace are called.

use crate::failure::{During, Result, fail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static SELF: OnceLock<PathBuf> = OnceLock::new();

/// To be called first: once Cargo has replaced our file, the system no longer knows where it was.
pub(crate) fn remember_self() {
    SELF.get_or_init(|| std::env::current_exe().unwrap_or_else(|_| "xtask".into()));
}

/// Ourselves as a program that others can call.
pub(crate) fn own_binary() -> PathBuf {
    SELF.get().cloned().unwrap_or_else(|| "xtask".into())
}

/// The directory that holds the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Where Cargo builds, and where everything that we make goes.
pub(crate) fn target() -> Result<&'static Path> {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = TARGET.get() {
        return Ok(known);
    }
    let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).output();
    let output = output.during(|| "running cargo metadata".into())?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).during(|| "reading cargo metadata".into())?;
    match metadata["target_directory"].as_str() {
        Some(path) => Ok(TARGET.get_or_init(|| path.into())),
        None => fail("cargo metadata names no target directory"),
    }
}

/// Cargo, in the workspace, as if a person had called it: what `cargo run` told us about ourselves is taken
/// away again, because build scripts that watch it would run anew every time.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    if !colours() {
        cargo.env("CARGO_TERM_COLOR", "never");
    }
    cargo
}

/// Whether to print in colours.
pub(crate) fn colours() -> bool {
    use std::io::IsTerminal;
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    std::io::stderr().is_terminal() && unset("CI") && unset("NO_COLOR")
}

/// Runs a command with our own output; an exit code other than 0 is a failure that shows the command.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command.status().during(|| format!("running {}", shown(command)))?;
    if status.success() { Ok(()) } else { fail(format!("{} failed ({status})", shown(command))) }
}

/// Builds the `ottla` command in release mode and says where it is.
pub(crate) fn release_ottla() -> Result<PathBuf> {
    check(cargo().args(["build", "--release", "--package", "ottla-cli"]))?;
    Ok(target()?.join("release/ottla"))
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_command_is_shown_without_its_folder() {
        let mut command = Command::new("/usr/bin/cargo");
        assert_eq!(shown(command.args(["fmt", "--check"])), "cargo fmt --check");
    }

    #[test]
    fn a_failing_command_is_named() {
        let error = check(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.starts_with("sh -c exit 3 failed"), "{error}");
    }
}
