//! Numbers as arguments: each with its range, checked before anything runs.

fn parsed(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| "not a number".to_owned())
}

/// A finite number.
///
/// # Errors
/// What is wrong.
pub fn finite(text: &str) -> Result<f64, String> {
    let x = parsed(text)?;
    if x.is_finite() { Ok(x) } else { Err("must be finite".into()) }
}

/// A finite number above zero.
///
/// # Errors
/// What is wrong.
pub fn positive(text: &str) -> Result<f64, String> {
    let x = parsed(text)?;
    if x > 0.0 && x.is_finite() { Ok(x) } else { Err("must be above zero and finite".into()) }
}

/// A finite number of at least zero.
///
/// # Errors
/// What is wrong.
pub fn not_negative(text: &str) -> Result<f64, String> {
    let x = parsed(text)?;
    if x >= 0.0 && x.is_finite() { Ok(x) } else { Err("must be zero or more and finite".into()) }
}

/// Takes a number from `low` to `high`, both included.
pub fn between(low: f64, high: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let x = parsed(text)?;
        if (low..=high).contains(&x) { Ok(x) } else { Err(format!("must be {low} to {high}")) }
    }
}

/// A number of seconds, at most a million.
///
/// # Errors
/// What is wrong.
pub fn seconds(text: &str) -> Result<f64, String> {
    between(0.0, 1e6)(text)
}

/// Numbers separated by commas, each finite.
///
/// # Errors
/// What is wrong.
pub fn list<const N: usize>(text: &str) -> Result<[f64; N], String> {
    let all: Result<Vec<f64>, _> = text.split(',').map(finite).collect();
    let all = all.map_err(|e| format!("'{text}': {e}"))?;
    all.try_into().map_err(|v: Vec<f64>| format!("'{text}' has {} numbers, not {N}", v.len()))
}

/// Takes "-1" as the value of an option and not as another option, in the whole tree of commands.
#[must_use]
pub fn negative(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|a| {
        if a.get_action().takes_values() && !a.is_allow_hyphen_values_set() {
            a.allow_negative_numbers(true)
        } else {
            a
        }
    });
    command.mut_subcommands(negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_has_its_ends() {
        for bad in ["nan", "inf", "-inf", "1e999", "", "x", "1,2"] {
            assert!(finite(bad).is_err() && positive(bad).is_err() && not_negative(bad).is_err(), "{bad}");
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!((finite("-1e-3"), finite(" 2 ")), (Ok(-1e-3), Ok(2.0)));
        assert!(positive("0").is_err() && positive("-0.0").is_err() && not_negative("-1").is_err());
        assert_eq!((positive("1e-300"), not_negative("0")), (Ok(1e-300), Ok(0.0)));
        assert!(seconds("1000001").is_err() && seconds("-1").is_err());
        assert_eq!((between(0.1, 2.0)("0.1"), between(0.1, 2.0)("2")), (Ok(0.1), Ok(2.0)));
        assert_eq!(between(0.1, 2.0)("2.01"), Err("must be 0.1 to 2".into()));
        assert!(between(0.1, 2.0)("nan").is_err() && between(0.1, 2.0)("0.099").is_err());
        assert_eq!(list("1,-2.5, 3e-3"), Ok([1.0, -2.5, 0.003]));
        assert!(list::<3>("1,2").unwrap_err().contains("2 numbers, not 3"));
        assert!(list::<3>("nan,0,0").unwrap_err().contains("finite"));
    }
}
