use super::*;
use proptest::prelude::*;

const MS: f64 = 1e-3;
const DOWN: f64 = 1.0 / 30.0;

fn at(phase: Phase, was: f64, comes: f64, reached: f64) -> Lapse {
    Lapse::new(phase, Gain { was, comes, reached, quick: true }, MS, 1.0, 1.0)
}

fn known() -> Lapse {
    Lapse::new(Phase::Known, Gain::WHOLE, MS, 1.0, 1.0)
}

/// A wall of the stiffness `k`.
fn wall(all: f64, k: f64) -> Pressed {
    Pressed { all, stiffness: k, material: k, anew: false, settled: true, gain: 1.0 }
}

/// What is felt of it in a tick, with all the gain.
fn felt(back: &mut Back, now: &Pressed, lapse: &Lapse) -> f64 {
    now.all * back.part(now, lapse)
}

/// One that was pressed with this force, and is seen again at `all` after so many stale ticks of a ramp of 30. What is felt then, with all the gain.
fn lapsed(back: &mut Back, k: f64, force: f64, ticks: u32, all: f64) -> f64 {
    let mut gain = 1.0f64;
    felt(back, &wall(force, k), &known());
    for _ in 0..ticks {
        back.part(&wall(force, k), &at(Phase::Away, gain, gain, 1.0));
        gain = (gain - DOWN).max(0.0);
    }
    felt(back, &wall(all, k), &at(Phase::Back, gain, (gain + DOWN).min(1.0), 1.0))
}

#[test]
fn what_is_felt_after_a_lapse_is_limited_by_what_it_took() {
    for (ticks, left) in [(1, 29.0 / 30.0), (10, 2.0 / 3.0), (14, 16.0 / 30.0), (20, 1.0 / 3.0), (30, 0.0f64)]
    {
        let limit = match left {
            r if r >= 0.5 => f64::INFINITY,
            r => (2.0 + EASY) / (1.0 - 2.0 * r),
        };
        for all in [1.0, 2.5, 7.0, 14.0, 500.0] {
            let mut back = Back::default();
            let felt = lapsed(&mut back, 1000.0, 2.0, ticks, all);
            assert!((felt - limit.min(all)).abs() < 1e-9, "{ticks} {all}: {felt}, not {limit} N");
            assert_eq!(back.holds(), all > limit);
        }
    }
    // What was not touched before has none of it; what is touched only afterwards is whole.
    assert!((lapsed(&mut Back::default(), 1000.0, 0.0, 40, 9.0) - EASY).abs() < 1e-9);
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 0.0, 40, 0.0);
    assert_eq!(felt(&mut back, &wall(0.0, 1000.0), &known()), 0.0);
    assert_eq!(felt(&mut back, &wall(9.0, 1000.0), &known()), 9.0);
}

/// A limit that is there is not lifted by a short lapse, nor does one after another make it less than each.
#[test]
fn one_lapse_after_another() {
    for ticks in [1, 5, 14] {
        let mut back = Back::default();
        for _ in 0..200 {
            assert_eq!(lapsed(&mut back, 1000.0, 5.0, ticks, 6.0), 6.0);
            assert!(!back.holds());
        }
    }
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
    for k in 1..=20 {
        felt(&mut back, &wall(14.0, 1000.0), &at(Phase::Away, 1.0, 1.0, 1.0));
        let felt = felt(&mut back, &wall(14.0, 1000.0), &at(Phase::Back, 1.0 - DOWN, 1.0, 1.0));
        assert!((felt - (2.0 + EASY)).abs() < 1e-9, "{k}: {felt}");
    }
    // Pressed with 5 N by now, that holds through a short lapse, too; and a long one goes by what was before the first.
    for _ in 0..1000 {
        felt_at(&mut back, 5.0);
    }
    let all = back.all;
    back.part(&wall(all, 1000.0), &at(Phase::Away, 1.0, 1.0, 1.0));
    let still = felt(&mut back, &wall(all, 1000.0), &at(Phase::Back, 1.0 - DOWN, 1.0, 1.0));
    assert!((still - 5.0).abs() < 0.1, "{still}");
    let before = back.before;
    assert!(before > 2.0 && before < 5.0, "{before}");
    back.part(&wall(all, 1000.0), &at(Phase::Away, 0.0, 0.0, 1.0));
    let after = felt(&mut back, &wall(all + 9.0, 1000.0), &at(Phase::Back, 0.0, DOWN, 1.0));
    assert!((after - (before + EASY)).abs() < 1e-9, "{after} {before}");
}

/// A hand that presses with `force` goes there by 0.1 N in a tick at most.
fn felt_at(back: &mut Back, force: f64) -> f64 {
    let all = back.all + (force - (back.all - back.back)).clamp(-0.1, 0.1);
    felt(back, &wall(all, 1000.0), &known())
}

#[test]
fn the_wall_goes_back_at_walking_pace_under_any_hand_in_its_time() {
    // A hand held in its place: 20 N/s, up to as much more than before, and from then on as what is felt is followed.
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
    back.back = 13.0;
    let mut last = 1.0;
    for k in 1..=2000u32 {
        let felt = felt(&mut back, &wall(14.0, 1000.0), &known());
        assert!(
            felt - last < 0.02 + 1e-9 && felt < 2.0 + EASY + 0.02 + EASY * MS * f64::from(k),
            "{k}: {felt}"
        );
        assert!(k > 79 || (felt - last - 0.02).abs() < 1e-9, "{k}: {felt}");
        last = felt;
    }
    // It is led out with the wall at its back, until nothing is held back.
    let mut all = 14.0;
    for _ in 0..700 {
        all -= 0.02;
        felt(&mut back, &wall(all, 1000.0), &known());
    }
    assert!(!back.holds());
    // One that presses with P, more than F before, stays for FOLLOW ln((P - F)/EASY), and then goes out at the pace, too.
    for force in [4.0f64, 8.0] {
        let mut back = Back::default();
        lapsed(&mut back, 1000.0, 2.0, 40, 24.0);
        // It has come to rest.
        back.most = 100.0;
        let mut ticks = 0u32;
        while back.holds() {
            felt_at(&mut back, force);
            ticks += 1;
            assert!(ticks < 20_000);
        }
        let waits = FOLLOW * ((force - 2.0) / EASY).ln();
        let expect = waits + (24.0 - 2.0 - EASY) / (1000.0 * WALK);
        assert!(
            (f64::from(ticks) * MS - expect).abs() < 0.1 * expect,
            "{force} N: {ticks} ms, not {expect} s"
        );
    }
}

/// The limit is one of energy: a wrench that hardly changes with the place is the less.
#[test]
fn what_is_pressed_alike_everywhere_is_not_felt() {
    for (k, part) in [(1000.0, 1.0), (3000.0, 1.0), (250.0, 0.5), (0.0, 0.0f64)] {
        let mut back = Back::default();
        lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
        let now = Pressed { stiffness: k, material: 1000.0, ..wall(14.0, k) };
        let felt = felt(&mut back, &now, &at(Phase::Known, DOWN, 2.0 * DOWN, 1.0));
        let expect = part * (2.0 + EASY + FIRM * MS);
        assert!(felt <= expect + k * WALK * MS + 1e-9 && felt > expect - 0.021, "{k}: {felt} {expect}");
    }
}

/// A proxy that waits presses nothing; when it is there, however late, it is limited as it would have been at once.
#[test]
fn what_is_not_known_yet_is_limited_when_it_is() {
    for ticks in [1, 10, 1000] {
        let mut back = Back::default();
        lapsed(&mut back, 1000.0, 2.0, 40, 0.0);
        for _ in 0..ticks {
            back.part(&Pressed { settled: false, ..wall(0.0, 0.0) }, &known());
        }
        let felt = felt(&mut back, &Pressed { anew: true, ..wall(40.0, 1000.0) }, &known());
        assert!((felt - (2.0 + EASY)).abs() < 0.05, "{ticks}: {felt}");
    }
    // Who has touched nothing for long is not inside, whether there is time for the whole query or not.
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 2.0, 40, 0.0);
    for _ in 0..6000 {
        back.part(&Pressed { settled: false, ..wall(0.0, 0.0) }, &known());
    }
    assert_eq!(felt(&mut back, &Pressed { settled: false, ..wall(40.0, 1000.0) }, &known()), 40.0);
    // But not before the lapse: a hand that was in the free for long may come to it in one.
    let mut back = Back::default();
    for _ in 0..6000 {
        back.part(&wall(0.0, 0.0), &known());
    }
    lapsed(&mut back, 1000.0, 0.0, 40, 0.0);
    for _ in 0..40 {
        back.part(&Pressed { settled: false, ..wall(0.0, 0.0) }, &known());
    }
    let first = felt(&mut back, &Pressed { anew: true, settled: false, ..wall(14.0, 1000.0) }, &known());
    assert!((first - EASY).abs() < 0.05, "{first}");
    // What never has the time for the whole of it is led out as any, and in the end is as firm.
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
    back.back = 13.0;
    let cut = Pressed { settled: false, ..wall(14.0, 1000.0) };
    for _ in 0..30_000 {
        back.part(&cut, &known());
    }
    assert!(!back.holds() && back.most == f64::INFINITY);
}

#[test]
fn an_edit_changes_what_is_felt_as_it_changes_the_whole() {
    for (all, most) in [(7.0, 100.0), (14.14, 100.0), (40.0, 100.0), (14.14, 2.0 + EASY), (40.0, 2.0 + EASY)]
    {
        let mut back = Back::default();
        let was = lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
        back.most = most;
        let felt = felt(&mut back, &Pressed { anew: true, ..wall(all, 1000.0) }, &known());
        let expect = (was * all / 14.0).min(most + FIRM * MS);
        assert!((felt - expect).abs() < 0.021, "{all}: {felt} after {was}, not {expect}");
    }
}

#[test]
fn many_objects_share_what_one_may_give() {
    let shared = known().shared(10);
    assert!((shared.easy - 0.1 * EASY).abs() < 1e-12 && (shared.firmer - 0.1 * FIRM * MS).abs() < 1e-12);
    assert_eq!(known().shared(0).easy, EASY);
    // How many there are is known a tick later where none was touched before.
    let mut back = Back::default();
    let at_first = lapsed(&mut back, 1000.0, 0.0, 40, 9.0);
    assert!((at_first - EASY).abs() < 1e-9);
    let then = felt(&mut back, &wall(9.0, 1000.0), &known().shared(10));
    assert!((then - 0.1 * EASY).abs() < 0.1 * FIRM * MS + 1000.0 * WALK * MS, "{then}");
}

/// Of what faded in before the lapse only what was wanted of it counts.
#[test]
fn what_faded_in_is_limited_by_what_was_felt_of_it() {
    let mut back = Back::default();
    let faded = |all| Pressed { gain: 0.25, ..wall(all, 1000.0) };
    felt(&mut back, &faded(12.0), &known());
    back.part(&faded(12.0), &at(Phase::Away, 1.0, 1.0, 1.0));
    let got = felt(&mut back, &faded(40.0), &at(Phase::Back, 0.0, DOWN, 1.0));
    assert!((got - (3.0 + EASY)).abs() < 1e-9, "{got}");
    // What was softened and keeps its force for a while is felt more than it presses, and no more of it than before.
    let mut back = Back::default();
    let kept = |all| Pressed { gain: 8.0, ..wall(all, 125.0) };
    felt(&mut back, &kept(0.25), &known());
    back.part(&kept(0.25), &at(Phase::Away, 1.0, 1.0, 1.0));
    let got = 8.0 * felt(&mut back, &kept(9.0), &at(Phase::Back, 0.0, DOWN, 1.0));
    assert!((got - (2.0 + EASY)).abs() < 1e-9, "{got}");
}

/// Where the ramp takes its time, the wall's spring is softer for as long, and holds no more for it than the limit's: (g w)²/2gk.
#[test]
fn a_slow_ramp_is_no_way_in() {
    let mut back = Back::default();
    lapsed(&mut back, 1000.0, 2.0, 40, 0.0);
    for gain in [0.1, 0.5, 1.0] {
        let lapse = at(Phase::Known, gain, gain, 1.0);
        let slow = Lapse { gain: Gain { quick: false, ..lapse.gain }, firmer: 0.0, walk: 0.0, ..lapse };
        let felt = gain * felt(&mut back, &wall(100.0, 1000.0), &slow);
        let held = felt * felt / (2.0 * gain * 1000.0);
        assert!((held - (2.0 + EASY).powi(2) / 2000.0).abs() < 1e-9, "{gain}: {felt} N, {held} J");
    }
}

#[test]
fn what_is_no_number_is_not_hidden_and_holds_nothing_back_for_good() {
    for broken in [f64::NAN, f64::INFINITY] {
        let mut back = Back::default();
        lapsed(&mut back, 1000.0, 2.0, 40, 14.0);
        assert!(!felt(&mut back, &wall(broken, 1000.0), &known()).is_finite());
        felt(&mut back, &Pressed { anew: true, ..wall(1.0, broken) }, &known());
        felt(&mut back, &wall(1.0, 1000.0), &Lapse { phase: Phase::Off, ..known() });
        assert_eq!(felt(&mut back, &wall(1.0, 1000.0), &known()), 1.0);
    }
}

proptest! {
    /// Lapse after lapse, a hand that moves as it likes gets no more out of the wall in the time from one that took the force to the next than the limit's
    /// spring holds, and than the wall's own way back puts in: its force times that. Nor is more than the limit felt, and no more than without it.
    /// Work by trapezoids: exact for a spring from tick to tick.
    #[test]
    fn no_motion_gets_more_out_of_the_wall_than_the_limit_holds(
        k in 50.0..5000.0f64, force in 0.0..8.0f64, rise in 0.003..0.2f64,
        lapses in prop::collection::vec(
            (1u32..60, -0.01..0.04f64, prop::collection::vec(-6e-4..6e-4f64, 1..200)), 1..6)
    ) {
        let mut back = Back::default();
        let (mut x, mut gain, mut reached) = (force / k, 1.0f64, 0.0f64);
        felt(&mut back, &wall(force, k), &known());
        for (ticks, deep, steps) in lapses {
            for _ in 0..ticks {
                reached = reached.max(gain);
                back.part(&wall(k * x, k), &at(Phase::Away, gain, gain, reached));
                gain = (gain - DOWN).max(0.0);
            }
            x = (x + deep).max(0.0);
            let (mut now, mut out, mut put) = (0.0, 0.0, 0.0);
            for (tick, step) in std::iter::once(0.0).chain(steps).enumerate() {
                x = (x + step).max(0.0);
                let next = (gain + rise).min(1.0);
                let phase = if tick == 0 { Phase::Back } else { Phase::Known };
                let was = now;
                let wanted = felt(&mut back, &wall(k * x, k), &at(phase, gain, next, reached));
                now = next * wanted;
                gain = next;
                prop_assert!(wanted <= k * x + 1e-9 && wanted <= back.most + k * WALK * MS + 1e-9);
                if gain >= reached {
                    reached = 0.0;
                }
                if tick == 0 {
                    continue;
                }
                out -= 0.5 * (was + now) * step;
                put += WALK * MS * (was.max(now) + k * step.abs());
                // Where it lets go of the hand within the step, the trapezoid is too large by less than that.
                if now == 0.0 || was == 0.0 {
                    put += 0.5 * k * step * step;
                }
                let most = back.most + k * WALK * MS;
                prop_assert!(out <= 0.5 * most * most / k + put + 1e-9, "{out} J of {most} N and {put} J");
            }
        }
    }
}
