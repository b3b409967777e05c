//! Delay lines between host and plant. Fixed size, real-time safe.

use super::PlantState;

/// Commands on their way to the motors. 8 samples of delay at four times the nominal rate fit.
const QUEUE: usize = 32;

/// Commands with the time at which they take effect, first in, first out.
pub(super) struct CommandQueue<T> {
    ring: [(u64, T); QUEUE],
    head: usize,
    len: usize,
}

impl<T: Copy> CommandQueue<T> {
    pub fn new(empty: T) -> Self {
        Self { ring: [(0, empty); QUEUE], head: 0, len: 0 }
    }

    /// Appends; when full the newest one is replaced, so the last command always arrives.
    pub fn push(&mut self, at: u64, command: T) {
        if self.len < QUEUE {
            self.len += 1;
        }
        self.ring[(self.head + self.len - 1) % QUEUE] = (at, command);
    }

    /// The oldest command whose time has come.
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, T)> {
        let (at, command) = self.ring[self.head];
        if self.len == 0 || at > now {
            return None;
        }
        self.head = (self.head + 1) % QUEUE;
        self.len -= 1;
        Some((at, command))
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// Past states: 8 samples of 10 steps fit.
const HISTORY: usize = 128;

/// Past states of the plant, by step number.
pub(super) struct History {
    ring: Box<[Option<PlantState>; HISTORY]>,
}

impl History {
    pub fn new() -> Self {
        Self { ring: Box::new([None; HISTORY]) }
    }

    /// Notes the state after step number `step`.
    pub fn push(&mut self, step: u64, state: &PlantState) {
        self.ring[(step % HISTORY as u64) as usize] = Some(*state);
    }

    /// The state `back` steps before `step`; the oldest known at the start.
    pub fn before(&self, step: u64, back: u64, present: &PlantState) -> PlantState {
        let back = back.min(HISTORY as u64 - 1);
        let wanted = step.saturating_sub(back).max(1);
        self.ring[(wanted % HISTORY as u64) as usize].unwrap_or(*present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_leave_in_order_at_their_time_and_the_last_always_arrives() {
        let mut q = CommandQueue::new(0);
        for k in 1..=40 {
            q.push(k * 10, k);
        }
        assert_eq!(q.pop_due(9), None);
        for k in 1..32 {
            assert_eq!(q.pop_due(u64::MAX), Some((k * 10, k)));
        }
        assert_eq!(q.pop_due(u64::MAX), Some((400, 40)));
        assert_eq!(q.pop_due(u64::MAX), None);
        q.push(5, 1);
        q.clear();
        assert_eq!(q.pop_due(u64::MAX), None);
    }
}
