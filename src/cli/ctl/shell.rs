//! `ctl shell`: many commands, one session.

use super::{Command, Manner, execute};
use crate::cli::{exit, numbers, out};
use crate::control::client::{Client, ClientError};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

/// Commands of the shell, one a line; `quit` ends it.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_version_flag = true)]
struct Line {
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Role of the device that is meant
    #[arg(long, value_name = "ROLE", global = true)]
    device: Option<String>,
    /// What to do
    #[command(subcommand)]
    command: Command,
}

pub(super) fn run(mut client: Client, json: bool) -> anyhow::Result<ExitCode> {
    let stdin = std::io::stdin();
    let prompt = stdin.is_terminal();
    let mut failed = false;
    if prompt {
        out::note("what this session creates goes with it; `help` lists the commands, `quit` ends");
    }
    let mut lines = stdin.lock().lines();
    loop {
        if prompt {
            out::prompt("> ");
        }
        let Some(line) = lines.next().transpose()? else { break };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "quit" || line == "exit" {
            break;
        }
        let done = words(line).and_then(|w| Ok(parse(w)?));
        let result = done.and_then(|l| {
            let manner = Manner { json: json || l.json, keep: false, device: l.device };
            manner.check(&l.command)?;
            match l.command {
                Command::Shell => anyhow::bail!("a shell runs already"),
                Command::Takeover(_) => {
                    let answer = client.call("takeover", manner.of_device(serde_json::json!({})))?;
                    super::show::answer(&answer, manner.json)
                }
                command => execute(&mut client, &manner, command),
            }
        });
        if let Err(e) = result {
            // `help` comes as an error of the parser.
            let help = e.downcast_ref::<clap::Error>().is_some_and(|c| !c.use_stderr());
            failed |= !help;
            out::note(out::causes(&e).trim_end());
            if matches!(
                e.downcast_ref::<ClientError>(),
                Some(ClientError::Io(_) | ClientError::Silent { .. })
            ) {
                return Ok(exit::FAILED);
            }
        }
    }
    // A script must notice that one of its lines failed; a person has seen it.
    Ok(if failed && !prompt { exit::FAILED } else { exit::OK })
}

fn grammar() -> clap::Command {
    let arming = |command: clap::Command, about: &'static str| {
        let hide = |a: clap::Arg| a.hide(true);
        command.about(about).mut_arg("rate", hide).mut_arg("seconds", hide)
    };
    numbers::negative(Line::command())
        .mut_subcommand("shell", |shell| shell.hide(true))
        .mut_subcommand("arm", |arm| arming(arm, "Arm; the force is yours until `disarm` or the shell's end"))
        .mut_subcommand("takeover", |arm| arming(arm, "As arm, taking the force from whoever has it"))
}

fn parse(words: Vec<String>) -> Result<Line, clap::Error> {
    let mut grammar = grammar();
    let line = Line::from_arg_matches(&grammar.try_get_matches_from_mut(words)?)?;
    if let Command::Arm(a) | Command::Takeover(a) = &line.command
        && a.follows()
    {
        // Dropped in silence, whoever counts on --seconds would hold the force for as long as the shell runs.
        let text = "in a shell arming ends with `disarm`, and `watch` shows forces: --seconds and --rate of `arm` and `takeover` are for \
                    `hapticd ctl` alone";
        return Err(grammar.error(clap::error::ErrorKind::ArgumentConflict, text));
    }
    Ok(line)
}

/// Splits at blanks; quotes keep them.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let (mut out, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                open = true;
            }
            (None, c) if c.is_whitespace() => {
                if open || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                open = false;
            }
            (None, c) => word.push(c),
        }
    }
    if quote.is_some() {
        anyhow::bail!("a quote is not closed");
    }
    if open || !word.is_empty() {
        out.push(word);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_blanks_outside_quotes() {
        let w = |l| words(l).expect("splits");
        assert_eq!(w("load a 'my file.stl' --unit mm"), ["load", "a", "my file.stl", "--unit", "mm"]);
        assert_eq!(w("raw x '{\"a\": 1}'"), ["raw", "x", "{\"a\": 1}"]);
        assert_eq!(w("delete ''"), ["delete", ""]);
        assert!(words("load 'a").is_err());
    }

    /// What help names can be said: a shell has its socket and its patience already, and starts no other shell.
    #[test]
    fn help_names_only_what_a_line_may_say() {
        let help = parse(vec!["help".into()]).expect_err("help").to_string();
        assert!(help.contains("takeover") && help.contains("recentre"), "{help}");
        for not in ["--socket", "--timeout", "shell  "] {
            assert!(!help.contains(not), "{not} in\n{help}");
        }
        assert!(parse(vec!["status".into(), "--socket".into(), "x".into()]).is_err());
        assert!(parse(vec!["status".into(), "--json".into()]).expect("parses").json);
    }

    /// It would hold the force for longer than was asked for.
    #[test]
    fn a_time_for_the_force_is_refused_as_a_shell_does_not_wait() {
        let l = |text: &str| parse(words(text).expect("splits"));
        for command in ["arm", "takeover"] {
            assert!(matches!(l(command).expect("parses").command, Command::Arm(_) | Command::Takeover(_)));
            for more in ["--seconds 5", "--rate 10"] {
                let e = l(&format!("{command} {more}")).expect_err("refused");
                assert!(e.use_stderr() && e.to_string().contains("`disarm`"), "{e}");
            }
            let help = parse(vec![command.into(), "--help".into()]).expect_err("help").to_string();
            assert!(!help.contains("--seconds") && !help.contains("--rate"), "{help}");
        }
        assert!(l("watch --seconds 1 --rate 5").is_ok());
    }

    /// What an effect would do without is not dropped in silence.
    #[test]
    fn what_an_effect_does_not_have_is_refused() {
        let l = |text: &str| parse(words(&format!("effect e {text}")).expect("splits"));
        for good in [
            "--viscosity 2 --max 1",
            "--constant 0,-1,0",
            "--spring 100 --at 0,0,0",
            "--magnet 1 --at 0,0,0 --range 0.01",
        ] {
            l(good).expect(good);
        }
        for (bad, what) in [
            ("--viscosity 2 --at 0,0,0", "--at"),
            ("--constant 0,-1,0 --at 0,0,0", "--at"),
            ("--viscosity 2 --range 0.01", "--range"),
            ("--constant 0,-1,0 --range 0.01", "--range"),
            ("--spring 100 --at 0,0,0 --range 0.01", "--range"),
            ("--magnet 1 --at 0,0,0", "--range"),
            ("--viscosity 2 --constant 0,-1,0", "--constant"),
            ("--max 1", "--spring"),
        ] {
            let e = l(bad).expect_err(bad).to_string();
            assert!(e.contains(what), "{bad}: {e}");
        }
    }

    #[test]
    fn a_tool_has_one_shape_and_a_mesh_its_points_or_spheres() {
        let l = |text: &str| parse(words(&format!("tool {text}")).expect("splits"));
        for good in ["--sphere 0.01", "--mesh m", "--mesh m --points 100", "--mesh m --spheres 100"] {
            l(good).expect(good);
        }
        for bad in [
            "",
            "--points 100",
            "--sphere 0.01 --mesh m",
            "--sphere 0.01 --points 9",
            "--mesh m --points 9 --spheres 9",
        ] {
            l(bad).expect_err(bad);
        }
    }

    #[test]
    fn the_lines_of_a_shell_are_commands() {
        grammar().debug_assert();
        let l = |text| parse(words(text).expect("splits"));
        assert!(matches!(l("move b --at -0.1,0,0").expect("parses").command, Command::Move(_)));
        assert!(matches!(l("limits --force -1").expect("a number").command, Command::Limits(_)));
        assert!(l("move b --at nan,0,0").is_err_and(|e| e.to_string().contains("finite")));
    }
}
