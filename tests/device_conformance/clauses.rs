//! What is asked of every driver, and of which driver something is not asked, and why.

pub const OPENINGS: &str = "opened and closed a thousand times, zero at each end";
pub const UNPLUGGED: &str = "unplugged at every step";
pub const DAMAGED: &str = "short, long, garbled, late and doubled packets";
pub const STALE: &str = "stale samples";
pub const BEFORE: &str = "force before it is ready";
pub const NO_NUMBER: &str = "a force that is no number";
pub const ACCEPTED: &str = "what is accepted is what the motors get";
pub const ZERO: &str = "zero arrives and stays";
pub const REFUSED: &str = "writes that are refused";
pub const BROKEN: &str = "a link that breaks under force";
pub const DROPPED: &str = "zero when it is dropped";
pub const POSE: &str = "the pose is the mechanism's";

/// All of them.
pub const CLAUSES: [&str; 12] =
    [OPENINGS, UNPLUGGED, DAMAGED, STALE, BEFORE, NO_NUMBER, ACCEPTED, ZERO, REFUSED, BROKEN, DROPPED, POSE];

const NO_MOTORS: &str = "it has no motors, and nothing is ever sent to it";

/// Why this is not asked of that driver; `None` where it is.
pub fn not_asked(driver: &str, clause: &str) -> Option<&'static str> {
    assert!(CLAUSES.contains(&clause), "{clause}");
    if driver.starts_with("SpaceMouse") {
        return match clause {
            BEFORE => Some("it has no frame to be found, so it is ready at once"),
            STALE => Some("it speaks when something changes: silence is its ordinary state"),
            ACCEPTED | ZERO | REFUSED | BROKEN | DROPPED => Some(NO_MOTORS),
            POSE => Some("it tells speeds; a test of its own has where they lead"),
            _ => None,
        };
    }
    None
}

/// Says so; true where it is asked.
pub fn is_asked(driver: &str, clause: &str) -> bool {
    let why = not_asked(driver, clause);
    if let Some(why) = why {
        println!("{driver}: not asked: {clause}: {why}");
    }
    why.is_none()
}
