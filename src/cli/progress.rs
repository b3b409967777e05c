//! A progress bar on stderr for builds.

use crate::geometry::field::build::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows the progress of a build; silent where stderr is no terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar with a title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {percent:>3} % ({eta} left)") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(super::out::word(title).into_owned());
        Self(bar)
    }

    /// Takes the bar off the screen.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}
