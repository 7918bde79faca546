//! `ringlog completions` and `ringlog man`: what shells and `man` want to know of the commands, made of their declarations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::generate;

use crate::failure::{Failure, to_make};
use crate::output::{Counted, print};

/// What `ringlog completions` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog completions bash")]
pub(crate) struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell that completes what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What `ringlog man` is told.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  ringlog man --output man1")]
pub(crate) struct ManArguments {
    /// Write a page for each command into this folder, which is made where it isn't there [default: print the first page].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the script for a shell.
///
/// # Errors
/// It can't be printed.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    print(script(arguments.shell).trim_end())
}

fn script(shell: Shell) -> String {
    let mut command = crate::Arguments::command();
    let mut script = Vec::new();
    let out = &mut script;
    match shell {
        Shell::Bash => generate(clap_complete::Shell::Bash, &mut command, "ringlog", out),
        Shell::Zsh => generate(clap_complete::Shell::Zsh, &mut command, "ringlog", out),
        Shell::Fish => generate(clap_complete::Shell::Fish, &mut command, "ringlog", out),
    }
    String::from_utf8(script).expect("what is generated of text is text")
}

/// Prints the first page, or writes all.
///
/// # Errors
/// They can't be written.
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let pages = pages(crate::Arguments::command()).map_err(Failure::failed)?;
    match &arguments.output {
        None => print(pages[0].text.trim_end()),
        Some(folder) => {
            let failed =
                |error| Failure::failed(format!("--output {}: {error}{}", folder.display(), to_make(&error)));
            write(folder, &pages).map_err(failed)?;
            print(format_args!("{} in {}", Counted(pages.len() as u64, "page"), folder.display()))
        }
    }
}

/// A page of the manual.
struct Page {
    name: String,
    text: String,
}

/// The page of a command, and those of the commands below it.
fn pages(mut command: Command) -> io::Result<Vec<Page>> {
    // From here on each command knows where it stands.
    command.build();
    let mut all = Vec::new();
    collect(&command, &mut all)?;
    Ok(all)
}

fn collect(command: &Command, all: &mut Vec<Page>) -> io::Result<()> {
    let page = clap_mangen::Man::new(without_head(command.clone()));
    let mut text = Vec::new();
    page.render(&mut text)?;
    // What stands behind the help of a command are its examples.
    let text = String::from_utf8_lossy(&text).replace("\n.SH EXTRA\n", "\n.SH EXAMPLES\n");
    all.push(Page { name: page.get_filename(), text });
    let mut below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.try_for_each(|below| collect(below, all))
}

/// The command, its examples without the line above them, which a page has as the name of the section.
fn without_head(command: Command) -> Command {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    match help.split_once('\n') {
        Some(("Example:" | "Examples:", examples)) => command.after_help(examples.to_owned()),
        _ => command,
    }
}

fn write(folder: &Path, pages: &[Page]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    pages.iter().try_for_each(|page| fs::write(folder.join(&page.name), &page.text))
}

#[cfg(test)]
mod tests {
    use std::process;

    use net_server::config::parse_routing;

    use super::*;

    #[test]
    fn each_command_and_flag_is_completed_in_each_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["serve", "completions", "buffered-dev", "key-separator", "quorum", "explain"] {
                let is_known = script.contains(word) || (word == "quorum" && !script.contains("flush"));
                assert!(is_known, "{shell:?}: {word}");
            }
        }
    }

    #[test]
    fn the_values_a_flag_may_have_are_completed() {
        let command = crate::Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let routing = serve.get_arguments().find(|argument| argument.get_id() == "routing").unwrap();
        let values: Vec<_> =
            routing.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(values, ["shard", "node"]);
        assert!(values.iter().all(|value| parse_routing(value).is_ok()));
        assert!(script(Shell::Bash).contains("\"shard node\""));
    }

    /// A shell that is there reads its script without a complaint.
    #[test]
    fn shells_take_their_scripts() {
        let folder = tempfile::tempdir().unwrap();
        for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let path = folder.path().join(name);
            fs::write(&path, script(shell)).unwrap();
            let Ok(checked) = process::Command::new(name).arg("-n").arg(&path).output() else { continue };
            assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
        }
        let script = folder.path().join("bash");
        let asked = format!(
            "source {}; COMP_WORDS=(ringlog topic cr); COMP_CWORD=2; _ringlog ringlog cr topic; echo ${{COMPREPLY[@]}}",
            script.display()
        );
        let Ok(answer) = process::Command::new("bash").args(["-c", &asked]).output() else { return };
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "create\n", "{answer:?}");
    }

    #[test]
    fn each_command_has_a_page_with_its_flags_and_example() {
        let pages = pages(crate::Arguments::command()).unwrap();
        let text = |name: &str| {
            &pages.iter().find(|page| page.name == name).unwrap_or_else(|| panic!("{name}")).text
        };
        assert!(pages[0].name == "ringlog.1" && text("ringlog.1").contains("ringlog"));
        let serve = text("ringlog-serve.1");
        assert!(serve.contains("data\\-dir"), "{serve}");
        let (_, examples) = serve.split_once("\n.SH EXAMPLES\n").unwrap();
        assert!(examples.trim_start().starts_with("ringlog serve"), "{examples}");
        for page in &pages {
            assert!(
                !page.text.contains("EXTRA") && !page.text.contains("Example"),
                "{}: {}",
                page.name,
                page.text
            );
        }
        assert!(text("ringlog-topic-create.1").contains("partitions"));
        assert!(text("ringlog-config-import.1").contains("server.properties"));
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("made"), &pages).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("made")).unwrap().count(), pages.len());
    }
}
