//! Energy account and energy bound: the outermost guard.
//!
//! The account holds, in J, what the device has taken from the servo's force by its own friction and what the hand has
//! put into the virtual environment, less what came back. Ports are the device's driven coordinates (joints, or the
//! six Cartesian ones of a device that has none). With effort `tau` in force while a port moved by `dx` in time `T`,
//!
//! ```text
//! E += b/T (|dx| - q)+^2  +  f_c |dx|  -  tau dx  +  g      (tau: the force on the device)
//! ```
//!
//! `b` is the port's certified viscous damping (by Cauchy and Schwarz `b dx^2/T` is the least that it dissipates over
//! any motion that ends there), `f_c` its Coulomb friction, `q` one encoder count: a reading errs by less, and so
//! does a difference of two. For the friction the least path through the readings' intervals counts, so slow motion
//! earns its share and a reading that flickers earns nothing. `g` is what a source of its own gives the environment
//! within the period (a moving object, one that fades in): an active port beside the hand's, whose work is no debt of the sampled
//! loop's.
//!
//! The worst that a command can cost before the account sees it is, over all motions of one period,
//!
//! ```text
//! R(tau) = sum over ports of (|tau| - f_c)+^2 T / (4 b)
//! ```
//!
//! so a command whose `R` is at most what is left keeps `E >= 0` whatever the hand does (one port: `|tau| <= f_c +
//! 2 sqrt(E b/T)`, Kim and Ryu's energy bound in its least conservative form with friction). Commands that are on
//! their way, or whose samples have not come yet, hold their `R` back.
//!
//! **Resets.** Out of contact (and where nobody holds the force) there is no credit but for what commands on their way hold,
//! whatever effort remains there (the rounding of gravity compensation, the spring of a virtual tool that moves freely): free
//! motion earns nothing for the next contact. Debt is kept until [`FORGIVEN`] without contact, so that one contact does not
//! forgive another's. Credit above [`MOST`] is dropped.
//!
//! **Errors.** `tau dx` is taken from the readings: the balance may be off by `q` times the total variation of the effort
//! since contact began, either way. Rounding to motor codes adds
//! up to half a code to an effort after the bound. A command that stands for longer than a period, because the
//! servo is late, costs more than was held back: the balance then shows the debt. Time between reading and writing within one
//! tick is not modelled. Real-time safe, pure.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

/// Number of ports.
pub const PORTS: usize = 6;
/// One number for each port: efforts (N, N·m) or displacements (m, rad).
pub type PerPort = [f64; PORTS];
/// Largest credit, J: 20 N pressed into a spring of 200 N/m.
pub const MOST: f64 = 1.0;
/// Debt is forgiven after so long without contact, s.
pub const FORGIVEN: f64 = 0.25;
/// Debt that is let stand, J: what a spring lends in passing, from facet to facet. It is the whole account's, so that a loop that goes on making
/// debt is damped all the same.
pub const LENT: f64 = 2e-5;
/// Commands remembered.
const RING: usize = 64;

/// What the guard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyGuard {
    /// No account.
    Off,
    /// The account is kept and shown; the force is as it was.
    Observe,
    /// The force is lowered to what the account covers.
    Certified,
    /// Debt is damped away ([`Account::repayment`]): a passivity controller. It acts after the fact and promises nothing.
    Controller,
}

/// What is certain of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Port {
    /// A motor drives it; the others carry no effort and earn nothing.
    pub driven: bool,
    /// Viscous damping that it has at least, N·s/m or N·m·s/rad.
    pub damping: f64,
    /// Coulomb friction that it has at least, N or N·m.
    pub friction: f64,
    /// One encoder count, m or rad.
    pub count: f64,
}

/// One command.
#[derive(Clone, Copy, Debug)]
struct Entry {
    effort: PerPort,
    reserve: f64,
    contact: bool,
    given: f64,
}

const NOTHING: Entry = Entry { effort: [0.0; PORTS], reserve: 0.0, contact: false, given: 0.0 };

/// The account.
#[derive(Clone, Debug)]
pub struct Account {
    ports: [Port; PORTS],
    period: f64,
    delay: u64,
    energy: f64,
    ring: [Entry; RING],
    /// First tick whose command has not been accounted for.
    next: u64,
    /// For how long there has been no contact, s.
    free: f64,
    /// Where the true position of each port may lie, relative to the last reading.
    play: [(f64, f64); PORTS],
    /// Displacements in the last period.
    moved: PerPort,
    /// Largest efforts since debt was last forgiven.
    peak: PerPort,
}

impl Account {
    /// For a device whose samples are `read_delay` ticks of `period` s old and whose commands take effect
    /// `write_delay` ticks after they were written; `delay` is their sum.
    pub fn new(ports: [Port; PORTS], period: f64, delay: u32) -> Self {
        Self {
            ports,
            period,
            delay: u64::from(delay).min(RING as u64 / 2),
            energy: 0.0,
            ring: [NOTHING; RING],
            next: 0,
            free: 0.0,
            play: ports.map(|p| (0.0, p.count)),
            moved: [0.0; PORTS],
            peak: [0.0; PORTS],
        }
    }

    /// True when every driven port has a certified damping: only then is there a bound.
    pub fn certifiable(&self) -> bool {
        let driven = || self.ports.iter().filter(|p| p.driven);
        driven().count() > 0 && driven().all(|p| p.damping > 0.0)
    }

    /// The balance, J.
    pub fn energy(&self) -> f64 {
        self.energy
    }

    /// Forgets what it knows of the device's place: after a fault, or when the device has found its frame anew. Credit
    /// goes, debt stays. `tick` is the present one.
    pub fn restart(&mut self, tick: u64) {
        self.next = tick.saturating_sub(self.delay).max(self.next);
        // What is held may be unreadable: then nothing is.
        let held = Some(self.held(tick)).filter(|h| h.is_finite()).unwrap_or(0.0);
        self.energy = self.energy.min(held);
        self.play = self.ports.map(|p| (0.0, p.count));
        self.moved = [0.0; PORTS];
    }

    /// A new sample in tick `tick`, before this tick's command: the ports have moved by `moved` within `elapsed` s since
    /// the sample before.
    pub fn sample(&mut self, tick: u64, moved: &PerPort, elapsed: f64) {
        let end = tick.saturating_sub(self.delay);
        let intervals = end.saturating_sub(self.next);
        if intervals as usize >= RING / 2 || !(elapsed > 0.0) || moved.iter().any(|m| !m.is_finite()) {
            self.restart(tick);
            return;
        }
        let friction = self.friction(moved);
        if intervals > 0 {
            let step = elapsed / intervals as f64;
            self.moved = moved.map(|m| m / intervals as f64);
            let given: f64 = (self.next..end).map(|tick| self.entry(tick).given).sum();
            let gained =
                given + (0..PORTS).map(|i| self.gain(i, intervals, moved, step, friction)).sum::<f64>();
            if !gained.is_finite() {
                self.restart(tick);
                return;
            }
            self.energy = (self.energy + gained).min(MOST);
            let touched = (self.next..end).any(|tick| self.entry(tick).contact);
            self.next = end;
            self.free = if touched { 0.0 } else { self.free + elapsed };
            if !touched {
                // What is on its way was granted on the credit of its time.
                self.energy = self.energy.min(self.held(tick));
            }
            if self.free >= FORGIVEN {
                self.energy = self.energy.max(0.0);
                self.peak = [0.0; PORTS];
            }
        }
    }

    /// Shortest way that each port must have gone: the intervals in which the truth lies are met one after the other,
    /// and it moves only where the next does not meet the last.
    fn friction(&mut self, moved: &PerPort) -> PerPort {
        let mut least = [0.0; PORTS];
        for (((play, port), moved), least) in self.play.iter_mut().zip(&self.ports).zip(moved).zip(&mut least)
        {
            let (low, high) = (play.0 - moved, play.1 - moved);
            if low > port.count {
                (*play, *least) = ((port.count, port.count), low - port.count);
            } else if high < 0.0 {
                (*play, *least) = ((0.0, 0.0), -high);
            } else {
                *play = (low.max(0.0), high.min(port.count));
            }
        }
        least
    }

    /// What port `i` has gained over the intervals from `next`, each `step` s long, in which it moved `moved` in all.
    fn gain(&self, i: usize, intervals: u64, moved: &PerPort, step: f64, friction: PerPort) -> f64 {
        let (Some(port), Some(&dx), Some(&least)) = (self.ports.get(i), moved.get(i), friction.get(i)) else {
            return 0.0;
        };
        if !port.driven {
            return 0.0;
        }
        let n = intervals as f64;
        let efforts =
            || (self.next..self.next + intervals).map(|t| self.entry(t).effort.get(i).map_or(0.0, |e| *e));
        let mean = efforts().sum::<f64>() / n;
        let surely = (dx.abs() - port.count).max(0.0);
        let plain = port.damping / (n * step) * surely * surely + port.friction * least - mean * dx;
        if intervals == 1 || port.damping <= 0.0 {
            return plain;
        }
        // Unknown how the way divides among the intervals: the worst division of the damping's and the efforts' work
        // (Lagrange), but never worse than what was held back for each.
        let spread: f64 = efforts().map(|e| (e - mean).powi(2)).sum::<f64>() * step / (4.0 * port.damping);
        let most = efforts().fold(0.0, |m: f64, e| m.max(e.abs()));
        let held: f64 = efforts().map(|e| reserve(port, e, step)).sum();
        (plain - spread).max(-held - most * port.count)
    }

    /// Factor (0..=1) by which `wanted` must be multiplied for the account to cover it in tick `tick`; 1 where nothing can
    /// be certified.
    pub fn factor(&self, tick: u64, wanted: &PerPort) -> f64 {
        if !self.certifiable() || *wanted == [0.0; PORTS] {
            return 1.0;
        }
        let left = (self.energy - self.held(tick)).max(0.0);
        let cost = |s: f64| -> f64 {
            self.ports.iter().zip(wanted).map(|(p, w)| reserve(p, w * s, self.period)).sum()
        };
        if cost(1.0) <= left {
            return 1.0;
        }
        // Between two neighbouring scales at which a port begins to cost anything the cost is one quadratic.
        let begins = |i: usize| match (self.ports.get(i), wanted.get(i)) {
            (Some(p), Some(w)) if p.driven && *w != 0.0 => p.friction / w.abs(),
            _ => f64::INFINITY,
        };
        let (mut low, mut high) = (0.0f64, 1.0f64);
        for i in 0..PORTS {
            let s = begins(i);
            if s < 1.0 {
                if cost(s) <= left {
                    low = low.max(s);
                } else {
                    high = high.min(s);
                }
            }
        }
        let (mut a, mut b, mut c) = (0.0, 0.0, 0.0);
        for (i, (p, w)) in self.ports.iter().zip(wanted).enumerate() {
            if begins(i) <= low {
                let weight = self.period / (4.0 * p.damping);
                a += weight * w * w;
                b += weight * w.abs() * p.friction;
                c += weight * p.friction * p.friction;
            }
        }
        // a s^2 - 2 b s + c = left, the larger root.
        let s = if a > 0.0 { (b + (b * b - a * (c - left)).max(0.0).sqrt()) / a } else { low };
        if s.is_finite() { s.clamp(low, high) } else { 0.0 }
    }

    /// Displacements in the last period.
    pub fn moved(&self) -> &PerPort {
        &self.moved
    }

    /// Efforts that would pay the debt back within the next period, but for [`LENT`] and for what one count hides under the largest
    /// efforts since debt was last forgiven, if the ports go on as in the last: damping
    /// `alpha v` with `alpha = -E / (T |v|^2)` (Hannaford and Ryu 2002, Time-domain passivity control of haptic interfaces, the
    /// controller in series). Nothing without debt. The way that readings may err by does not count as motion.
    pub fn repayment(&self) -> PerPort {
        let hidden: f64 = self.ports.iter().zip(&self.peak).map(|(p, e)| p.count * e).sum();
        let energy = self.energy + LENT + hidden;
        let whole: f64 =
            self.ports.iter().zip(&self.moved).filter(|(p, _)| p.driven).map(|(_, m)| m * m).sum();
        if !(energy < 0.0 && whole > 0.0) {
            return [0.0; PORTS];
        }
        let each = |i: usize| match (self.ports.get(i), self.moved.get(i)) {
            (Some(p), Some(m)) if p.driven => energy * m.signum() * (m.abs() - p.count).max(0.0) / whole,
            _ => 0.0,
        };
        std::array::from_fn(each)
    }

    /// What the motors were really given in tick `tick`, whether the tool was in contact, and what sources of their own put into the
    /// environment while that is in force, J.
    pub fn applied(&mut self, tick: u64, effort: &PerPort, contact: bool, given: f64) {
        for (peak, effort) in self.peak.iter_mut().zip(effort) {
            *peak = peak.max(effort.abs());
        }
        let reserve = self.ports.iter().zip(effort).map(|(p, e)| reserve(p, *e, self.period)).sum();
        if let Some(entry) = self.ring.get_mut(tick as usize % RING) {
            *entry = Entry { effort: *effort, reserve, contact, given };
        }
    }

    /// What the commands that are not accounted for hold back before that of tick `tick`.
    fn held(&self, tick: u64) -> f64 {
        // Not more than are remembered, however long the device has been silent.
        let first = self.next.max(tick.saturating_sub(RING as u64));
        (first..tick).map(|t| self.entry(t).reserve).sum()
    }

    fn entry(&self, tick: u64) -> Entry {
        self.ring.get(tick as usize % RING).copied().unwrap_or(NOTHING)
    }
}

/// The worst that an effort can cost on a port in one period.
fn reserve(port: &Port, effort: f64, period: f64) -> f64 {
    if !port.driven || port.damping <= 0.0 {
        return 0.0;
    }
    if !effort.is_finite() {
        return f64::INFINITY;
    }
    let beyond = (effort.abs() - port.friction).max(0.0);
    beyond * beyond * period / (4.0 * port.damping)
}

#[cfg(test)]
mod tests;
