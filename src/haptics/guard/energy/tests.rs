use super::*;
use proptest::prelude::*;

const T: f64 = 1e-3;

fn one(damping: f64, friction: f64, count: f64) -> [Port; PORTS] {
    let mut ports = [Port::default(); PORTS];
    ports[0] = Port { driven: true, damping, friction, count };
    ports
}

fn along(x: f64) -> PerPort {
    [x, 0.0, 0.0, 0.0, 0.0, 0.0]
}

#[test]
fn one_port_is_the_formula_of_the_paper() {
    let mut account = Account::new(one(0.1, 0.05, 0.0), T, 0);
    // Pushed in against 1 N by 1 mm: 1 mJ in, and b dx^2/T and f_c dx dissipated.
    account.applied(0, &along(-1.0), true, 0.0);
    account.sample(1, &along(1e-3), T);
    let energy = 1e-3 + 0.1 * 1e-6 / T + 0.05 * 1e-3;
    assert!((account.energy() - energy).abs() < 1e-15);
    let bound = 0.05 + 2.0 * (energy * 0.1 / T).sqrt();
    for wanted in [10.0, -3.0, 0.9 * bound] {
        let factor = account.factor(1, &along(wanted));
        assert!((factor * wanted.abs() - bound.min(wanted.abs())).abs() < 1e-12, "{factor}");
    }
}

#[test]
fn commands_on_their_way_hold_their_worst_case_back() {
    let mut account = Account::new(one(0.1, 0.0, 0.0), T, 2);
    account.applied(0, &along(-2.0), true, 0.0);
    for tick in 1..3 {
        account.sample(tick, &along(0.0), T);
        account.applied(tick, &along(0.0), true, 0.0);
    }
    account.sample(3, &along(2e-2), T);
    let energy: f64 = 2.0 * 2e-2 + 0.1 * 4e-4 / T;
    assert!((account.energy() - energy).abs() < 1e-15);
    account.applied(3, &along(-3.0), true, 0.0);
    account.sample(4, &along(0.0), T);
    // The command of tick 3 is not accounted for before tick 6.
    assert!((account.energy() - energy).abs() < 1e-15);
    let bound = 2.0 * ((energy - 9.0 * T / 0.4) * 0.1 / T).sqrt();
    assert!((account.factor(4, &along(50.0)) * 50.0 - bound).abs() < 1e-12);
    let mut account = Account::new(one(0.1, 0.0, 0.0), T, 1);
    account.applied(0, &along(-2.0), true, 0.0);
    account.applied(1, &along(-1.0), true, 0.0);
    account.sample(2, &along(2e-2), T);
    let left = account.energy() - 1.0 * T / 0.4;
    let bound = 2.0 * (left * 0.1 / T).sqrt();
    assert!((account.factor(2, &along(50.0)) * 50.0 - bound).abs() < 1e-12);
}

#[test]
fn nothing_certified_bounds_nothing_and_friction_alone_is_no_certificate() {
    for ports in [one(0.0, 0.0, 0.0), one(0.0, 1.0, 0.0), [Port::default(); PORTS]] {
        let account = Account::new(ports, T, 0);
        assert!(!account.certifiable());
        assert_eq!(account.factor(0, &along(100.0)), 1.0, "never a zero force for want of a number");
    }
}

#[test]
fn resets_follow_their_rules() {
    let mut account = Account::new(one(0.1, 0.0, 0.0), T, 0);
    // Free motion earns nothing.
    account.applied(0, &along(0.0), false, 0.0);
    account.sample(1, &along(1e-3), T);
    assert_eq!(account.energy(), 0.0);
    // Contact without effort keeps both: that the bound let nothing through must not keep it from opening.
    account.applied(1, &along(-1.0), true, 0.0);
    account.sample(2, &along(1e-3), T);
    assert!(account.energy() > 0.0);
    account.applied(2, &along(0.0), true, 0.0);
    let before = account.energy();
    account.sample(3, &along(1e-3), T);
    assert!((account.energy() - before - 0.1 * 1e-6 / T).abs() < 1e-15);
    account.applied(3, &along(-1.0), true, 0.0);
    account.sample(4, &along(-5e-3), T);
    let debt = account.energy();
    assert!(debt < 0.0);
    account.applied(4, &along(0.0), true, 0.0);
    account.sample(5, &along(0.0), T);
    assert_eq!(account.energy(), debt);
    account.restart(6);
    assert_eq!(account.energy(), debt);
    // Out of contact debt is kept for a while, so that a contact does not forgive the last one's.
    account.applied(5, &along(0.0), false, 0.0);
    account.applied(6, &along(0.0), false, 0.0);
    account.sample(7, &along(0.0), T);
    assert_eq!(account.energy(), debt);
    let mut tick = 7;
    let mut free = |account: &mut Account, ticks: u64, effort: f64, dx: f64| {
        for _ in 0..ticks {
            account.applied(tick, &along(effort), false, 0.0);
            tick += 1;
            account.sample(tick, &along(dx), T);
        }
        tick
    };
    free(&mut account, 200, 0.0, 0.0);
    assert_eq!(account.energy(), debt);
    free(&mut account, 100, 0.0, 0.0);
    assert_eq!(account.energy(), 0.0);
    // Credit is not had there, whatever effort is left and however the hand moves.
    for (effort, dx) in [(0.0, 1e-3), (1e-4, -1e-3), (-2.0, 1e-3)] {
        free(&mut account, 500, effort, dx);
        assert_eq!(account.energy(), 0.0, "{effort} {dx}");
    }
    let tick = free(&mut account, 1, 0.0, 0.0);
    // Credit has an end.
    account.applied(tick, &along(-100.0), true, 0.0);
    account.sample(tick + 1, &along(0.5), T);
    assert_eq!(account.energy(), MOST);
}

/// What cannot be read allows nothing: it neither opens the account nor stays in it.
#[test]
fn numbers_that_are_none_close_the_account() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut account = Account::new(one(0.1, 0.0, 0.0), T, 1);
        for tick in 0..10 {
            account.applied(tick, &along(-1.0), true, 0.0);
            account.sample(tick + 1, &along(1e-3), T);
        }
        let (rich, next) = (account.energy(), 10);
        assert!(rich > 0.0);
        assert_eq!(account.factor(next, &along(bad)), 0.0, "{bad}");
        account.applied(next, &along(bad), true, 0.0);
        // As long as it is on its way nothing else goes out.
        assert_eq!(account.factor(next + 1, &along(1.0)), 0.0, "{bad}");
        for tick in next + 1..next + 6 {
            account.applied(tick, &along(0.0), true, 0.0);
            account.sample(tick + 1, &along(0.0), T);
            assert!(account.energy().is_finite() && account.energy() <= rich, "{bad}: {}", account.energy());
        }
        assert!(account.energy() <= 0.0, "{bad}: {}", account.energy());
        // It lives on.
        for tick in next + 6..next + 12 {
            account.applied(tick, &along(-1.0), true, 0.0);
            account.sample(tick + 1, &along(1e-3), T);
        }
        assert!(account.energy() > 0.0, "{bad}");
    }
}

/// A device that says nothing for hours costs no more than one that was just lost.
#[test]
fn what_is_held_back_is_looked_for_among_what_is_remembered() {
    let mut account = Account::new(one(0.1, 0.0, 0.0), T, 0);
    for tick in 0..200 {
        account.applied(tick, &along(1.0), true, 0.0);
    }
    let one = T / (4.0 * 0.1);
    assert!((account.held(200) - one * RING as f64).abs() < 1e-12);
    // Tick by tick this would take centuries.
    assert!(account.held(u64::MAX).is_finite());
    assert_eq!(account.factor(u64::MAX, &along(0.0)), 1.0);
    assert_eq!(account.factor(u64::MAX, &along(1.0)), 0.0);
}

#[test]
fn undriven_ports_earn_nothing() {
    let mut ports = one(0.1, 0.0, 0.0);
    ports[3] = Port { driven: false, damping: 1.0, friction: 1.0, count: 0.0 };
    let mut account = Account::new(ports, T, 0);
    account.applied(0, &along(-1.0), true, 0.0);
    account.sample(1, &[0.0, 0.0, 0.0, 0.5, 0.0, 0.0], T);
    assert_eq!(account.energy(), 0.0);
    assert!(account.certifiable());
}

#[test]
fn a_flickering_reading_earns_no_friction_and_slow_motion_does() {
    let mut account = Account::new(one(0.1, 1.0, 1e-4), T, 0);
    for tick in 0..100 {
        account.applied(tick, &along(-1e-3), true, 0.0);
        account.sample(tick + 1, &along(if tick % 2 == 0 { 1e-4 } else { -1e-4 }), T);
    }
    assert!(account.energy().abs() < 1e-9, "{}", account.energy());
    // One count every ten ticks: 100 counts are 99 or 100 counts of way.
    for tick in 100..1100 {
        account.applied(tick, &along(-1e-3), true, 0.0);
        account.sample(tick + 1, &along(if tick % 10 == 0 { 1e-4 } else { 0.0 }), T);
    }
    let way = account.energy() - 1e-3 * 1e-2;
    assert!((0.98e-2..=1e-2 + 1e-9).contains(&way), "{way}");
}

/// What a source of its own gives stands beside what the hand puts in; what cannot be read is forgotten with the rest.
#[test]
fn what_a_source_gives_is_no_debt() {
    for (given, left) in [(0.0, -1e-3), (4e-4, -6e-4), (1e-3, 0.0), (1.5e-3, 5e-4), (f64::NAN, 0.0)] {
        let mut account = Account::new(one(0.0, 0.0, 0.0), T, 1);
        account.applied(0, &along(1.0), true, given);
        account.sample(1, &along(0.0), T);
        account.applied(1, &along(0.0), true, 0.0);
        assert_eq!(account.energy(), 0.0, "it comes when the command does");
        account.sample(2, &along(1e-3), T);
        assert!((account.energy() - left).abs() < 1e-15, "{given}: {} J", account.energy());
    }
}

/// All debt but what is let stand is paid within a period of the same motion; none is asked for a smaller one.
#[test]
fn debt_is_paid_but_for_what_is_lent() {
    for debt in [0.5 * LENT, 2.0 * LENT, 1e-3] {
        let mut account = Account::new(one(0.0, 0.0, 0.0), T, 0);
        let dx = 1e-4;
        account.applied(0, &along(debt / dx), true, 0.0);
        account.sample(1, &along(dx), T);
        assert!((account.energy() + debt).abs() < 1e-15);
        let back = account.repayment();
        account.applied(1, &back, true, 0.0);
        account.sample(2, &along(dx), T);
        assert!((account.energy() + debt.min(LENT)).abs() < 1e-15, "{debt}: {} J", account.energy());
    }
}

/// A port as it really is: position, and what has been dissipated and done to it.
struct Real {
    x: f64,
    energy: f64,
}

proptest! {
    /// Whatever the motion and the wish: the command as bounded never brings the account below zero, nor the truth.
    #[test]
    fn the_account_never_falls_below_zero(
        moves in prop::collection::vec((-1e-3..1e-3f64, -20.0..20.0f64, any::<bool>()), 200),
        damping in 0.01..5.0f64, friction in 0.0..1.0f64, delay in 0u32..4
    ) {
        let mut account = Account::new(one(damping, friction, 0.0), T, delay);
        let mut sent = vec![];
        let mut missed = (0.0, 0.0);
        let mut truth = Real { x: 0.0, energy: 0.0 };
        for (tick, (dx, wanted, lost)) in moves.into_iter().enumerate() {
            let d = delay as usize;
            if tick > d {
                let effort: f64 = sent[tick - 1 - d];
                truth.x += dx;
                truth.energy += damping / T * dx * dx + friction * dx.abs() - effort * dx;
                missed = (missed.0 + dx, missed.1 + T);
                if !lost {
                    account.sample(tick as u64, &along(missed.0), missed.1);
                    missed = (0.0, 0.0);
                    prop_assert!(account.energy() <= truth.energy + 1e-9, "{} {}", account.energy(), truth.energy);
                }
            }
            prop_assert!(account.energy() >= -1e-12 && truth.energy >= -1e-12);
            let effort = wanted * account.factor(tick as u64, &along(wanted));
            account.applied(tick as u64, &along(effort), true, 0.0);
            sent.push(effort);
        }
    }

    /// Several ports: the factor spends what there is and no more.
    #[test]
    fn several_ports_spend_the_account_exactly(
        wanted in prop::array::uniform6(-10.0..10.0f64), damping in prop::array::uniform6(0.01..1.0f64),
        friction in prop::array::uniform6(0.0..2.0f64), pushed in 0.0..1e-2f64
    ) {
        let ports: [Port; PORTS] = std::array::from_fn(|i| Port {
            driven: true, damping: damping[i], friction: friction[i], count: 0.0,
        });
        let mut account = Account::new(ports, T, 0);
        account.applied(0, &along(-1.0), true, 0.0);
        account.sample(1, &along(pushed), T);
        let factor = account.factor(1, &wanted);
        prop_assert!((0.0..=1.0).contains(&factor));
        let cost = |s: f64| (0..PORTS).map(|i| reserve(&ports[i], wanted[i] * s, T)).sum::<f64>();
        prop_assert!(cost(factor) <= account.energy() + 1e-12, "{} {}", cost(factor), account.energy());
        if factor < 1.0 {
            prop_assert!(cost((factor * 1.001).min(1.0) + 1e-6) >= account.energy() - 1e-12, "all that there is");
        }
    }
}
