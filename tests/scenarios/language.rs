//! The scenario language: one command a line (or several with `;`), `#` comments, numbers as arithmetic over
//! constants. `README.md` beside the scenarios lists the commands.

use std::collections::BTreeMap;

/// A command with the line it stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub number: usize,
    pub command: Command,
}

/// What an expectation looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    State,
    Zero,
    Fault,
    /// A number of the newest record, with its axis where it has several.
    Value(String, Option<usize>),
    /// Number of ticks since the last mark with that flag.
    Count(String),
    /// Largest value since the last mark.
    Peak(String, Option<usize>),
    /// Largest change from tick to tick of that vector since the last mark.
    Jump(String),
}

/// What it must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    Is(String),
    Near { value: f64, tolerance: f64 },
    Below(f64),
    Above(f64),
}

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Scene file beside the scenario.
    Scene(String),
    /// Registry name of the device.
    Device(String),
    /// A preset, or mass, damping, stiffness.
    Hand(Vec<String>),
    /// Where the hand begins, m.
    Start([f64; 3]),
    /// Position (m) and time (ticks) of the hand's next target.
    Reach {
        to: [f64; 3],
        ticks: u64,
    },
    Wait(u64),
    Arm,
    Disarm,
    ClearFault,
    /// Renew the lease from now on.
    Renew(bool),
    /// Device fault of that kind for so many ticks.
    Break {
        kind: String,
        ticks: u64,
    },
    Clutch(bool),
    Recentre([f64; 3]),
    Limits([f64; 3]),
    Delete(String),
    Stiffness {
        material: String,
        value: f64,
    },
    Move {
        object: String,
        by: [f64; 3],
    },
    ToolSphere(f64),
    Workspace(f64),
    /// Work units of a tick.
    Budget(u32),
    /// The hand lets go.
    LetGo,
    /// The button without which there is no force.
    DeadMan(u32),
    /// A button is held from now on, or no more.
    Button(u32, bool),
    Mark,
    Expect {
        subject: Subject,
        check: Check,
    },
}

/// Parses a scenario.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut constants = BTreeMap::new();
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or("");
        for part in code.split(';') {
            let words: Vec<&str> = part.split_whitespace().collect();
            let number = i + 1;
            let one = command(&words, part, &mut constants).map_err(|e| format!("line {number}: {e}"))?;
            lines.extend(one.map(|command| Line { number, command }));
        }
    }
    Ok(lines)
}

fn command(
    words: &[&str],
    text: &str,
    constants: &mut BTreeMap<String, f64>,
) -> Result<Option<Command>, String> {
    if let ["let", name, "=", ..] = words {
        let (_, expression) = text.split_once('=').unwrap_or_default();
        let value = number(expression, constants)?;
        constants.insert((*name).into(), value);
        return Ok(None);
    }
    let value = |text: &str| number(text, constants);
    let vector = |x: &str, y: &str, z: &str| Ok::<_, String>([value(x)?, value(y)?, value(z)?]);
    let ticks = |text: &str| value(text).map(|v| v.round() as u64);
    let on = |word: &str| match word {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off")),
    };
    Ok(Some(match words {
        [] => return Ok(None),
        ["scene", file] => Command::Scene((*file).into()),
        ["device", name] => Command::Device((*name).into()),
        ["hand", rest @ ..] => Command::Hand(rest.iter().map(|w| (*w).into()).collect()),
        ["start", x, y, z] => Command::Start(vector(x, y, z)?),
        ["reach", x, y, z] => Command::Reach { to: vector(x, y, z)?, ticks: 1 },
        ["reach", x, y, z, "in", t] => Command::Reach { to: vector(x, y, z)?, ticks: ticks(t)? },
        ["wait", t] => Command::Wait(ticks(t)?),
        ["arm"] => Command::Arm,
        ["deadman", n] => Command::DeadMan(value(n)? as u32),
        ["button", n, word] => Command::Button(value(n)? as u32, on(word)?),
        ["disarm"] => Command::Disarm,
        ["clear"] => Command::ClearFault,
        ["renew", word] => Command::Renew(on(word)?),
        ["break", kind, "for", t] => Command::Break { kind: (*kind).into(), ticks: ticks(t)? },
        ["clutch", word] => Command::Clutch(on(word)?),
        ["recentre", x, y, z] => Command::Recentre(vector(x, y, z)?),
        ["limits", f, t, v] => Command::Limits(vector(f, t, v)?),
        ["delete", name] => Command::Delete((*name).into()),
        ["stiffness", name, v] => Command::Stiffness { material: (*name).into(), value: value(v)? },
        ["move", name, x, y, z] => Command::Move { object: (*name).into(), by: vector(x, y, z)? },
        ["tool", "sphere", r] => Command::ToolSphere(value(r)?),
        ["workspace", s] => Command::Workspace(value(s)?),
        ["budget", units] => Command::Budget(value(units)?.round() as u32),
        ["let_go"] => Command::LetGo,
        ["mark"] => Command::Mark,
        ["expect", rest @ ..] => expect(rest, constants)?,
        other => return Err(format!("no command '{}'", other.join(" "))),
    }))
}

fn expect(words: &[&str], constants: &BTreeMap<String, f64>) -> Result<Command, String> {
    let (subject, rest) = match words {
        ["state", rest @ ..] => (Subject::State, rest),
        ["zero", rest @ ..] => (Subject::Zero, rest),
        ["fault", rest @ ..] => (Subject::Fault, rest),
        ["count", flag, rest @ ..] => (Subject::Count((*flag).into()), rest),
        ["jump", name, rest @ ..] => (Subject::Jump((*name).into()), rest),
        ["peak", name, rest @ ..] => {
            let (axis, rest) = axis(rest);
            (Subject::Peak((*name).into(), axis), rest)
        }
        [name, rest @ ..] => {
            let (axis, rest) = axis(rest);
            (Subject::Value((*name).into(), axis), rest)
        }
        [] => return Err("expect what?".into()),
    };
    let check = match rest {
        [word] => Check::Is((*word).into()),
        ["<", rest @ ..] => Check::Below(number(&rest.join(" "), constants)?),
        [">", rest @ ..] => Check::Above(number(&rest.join(" "), constants)?),
        ["~", rest @ ..] => {
            let text = rest.join(" ");
            let (value, tolerance) =
                text.split_once("+-").ok_or("a value needs a tolerance, '~ 1.2 +- 5%' or '~ 1.2 +- 0.1'")?;
            let value = number(value, constants)?;
            let tolerance = match tolerance.trim().strip_suffix('%') {
                Some(percent) => number(percent, constants)? / 100.0 * value.abs(),
                None => number(tolerance, constants)?,
            };
            Check::Near { value, tolerance }
        }
        other => return Err(format!("no check '{}'", other.join(" "))),
    };
    Ok(Command::Expect { subject, check })
}

fn axis<'a, 'b>(words: &'a [&'b str]) -> (Option<usize>, &'a [&'b str]) {
    match words {
        [word, rest @ ..] => match ["x", "y", "z"].iter().position(|a| a == word) {
            Some(i) => (Some(i), rest),
            None => (None, words),
        },
        [] => (None, words),
    }
}

/// Arithmetic with + - * / ^ ( ), `pi`, `sqrt` and constants.
pub fn number(text: &str, constants: &BTreeMap<String, f64>) -> Result<f64, String> {
    let mut p = Parser { rest: text.trim(), constants };
    let value = p.sum()?;
    if p.rest.is_empty() && value.is_finite() {
        return Ok(value);
    }
    Err(format!("'{}' is no number (at '{}')", text.trim(), p.rest))
}

struct Parser<'a> {
    rest: &'a str,
    constants: &'a BTreeMap<String, f64>,
}

impl Parser<'_> {
    fn eat(&mut self, symbol: char) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.eat('+') {
                value += self.product()?;
            } else if self.eat('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.power()?;
        loop {
            if self.eat('*') {
                value *= self.power()?;
            } else if self.eat('/') {
                value /= self.power()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn power(&mut self) -> Result<f64, String> {
        if self.eat('-') {
            return Ok(-self.power()?);
        }
        let base = self.atom()?;
        if self.eat('^') { Ok(base.powf(self.power()?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.eat('(') {
            let value = self.sum()?;
            return if self.eat(')') { Ok(value) } else { Err("a ')' is missing".into()) };
        }
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() {
            let sign = matches!(bytes[end], b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
            let numeric = bytes[0].is_ascii_digit() || bytes[0] == b'.';
            let more = bytes[end].is_ascii_alphanumeric() || matches!(bytes[end], b'.' | b'_');
            if !(more || (sign && numeric)) {
                break;
            }
            end += 1;
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if word == "sqrt" {
            return Ok(self.atom()?.sqrt());
        }
        if word == "pi" {
            return Ok(std::f64::consts::PI);
        }
        let known = self.constants.get(word).copied();
        known
            .or_else(|| word.parse().ok())
            .ok_or_else(|| format!("'{word}' is neither a number nor a constant"))
    }
}

#[test]
fn numbers_are_arithmetic() {
    let constants = BTreeMap::from([("k".to_string(), 800.0)]);
    for (text, value) in [
        ("1.5", 1.5),
        ("-2e-3", -0.002),
        ("k / 1e-4 * (0.02 * 0.02) * 1e-3", 3.2),
        ("2 - 3 - 4", -5.0),
        ("-2 ^ 2", -4.0),
        ("sqrt(16) / 2", 2.0),
        ("2 * pi", std::f64::consts::TAU),
    ] {
        let got = number(text, &constants).unwrap();
        assert!((got - value).abs() <= 1e-15 * value.abs(), "{text}: {got}");
    }
    for text in ["", "1 +", "q", "(1", "1 2", "1/0"] {
        assert!(number(text, &constants).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_line() {
    assert_eq!(parse("wait 3\n\nwiat 4").unwrap_err(), "line 3: no command 'wiat 4'");
    assert!(parse("expect force z ~ 3").unwrap_err().contains("needs a tolerance"));
    let lines = parse("let a = 2; reach 0 0 -a in 10 # down\nexpect peak force z < 3*a").unwrap();
    assert_eq!(lines[0].command, Command::Reach { to: [0.0, 0.0, -2.0], ticks: 10 });
    let subject = Subject::Peak("force".into(), Some(2));
    assert_eq!(lines[1], Line { number: 2, command: Command::Expect { subject, check: Check::Below(6.0) } });
}
