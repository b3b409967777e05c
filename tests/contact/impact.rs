//! Continuous collision against closed forms and fine sampling of the motion, and sheets that nothing may pass.

use super::manifold::{points_of, with};
use super::*;
use hapticd::contact::vps::{Side, Swept, sweep_to_impact};
use hapticd::geometry::field::build::{FieldError, FieldParams, Resolution, Silent, build, build_holding};

fn swept(tool: &ToolShape, object: &ObjectShape, from: &Pose, to: &Pose) -> Swept {
    let swept = sweep_to_impact(points_of(tool), object.field(), from, to, Budget::UNLIMITED);
    assert!(swept.complete);
    swept
}

/// A sheet of 0.2 mm about z = 0, 12 mm wide, in cells of 0.1 mm, `off` of a cell beside the nodes.
fn sheet(off: f64) -> ObjectShape {
    let half = Vec3::new(0.006, 0.006, 1e-4);
    let depth = move |p: &Point| {
        let over = p.coords.abs() - half;
        -(over.map(|x| x.max(0.0)).norm() + over.max().min(0.0))
    };
    let cell = 1e-4;
    let corner = Point::new(-0.0065, -0.0065, -0.0015 + off * cell);
    ObjectShape::Field(Arc::new(Field::from_fn(corner, cell, [131, 131, 31], depth)))
}

#[test]
fn the_time_of_impact_is_that_of_the_closed_form() {
    let r = 0.02;
    let ball = shell(&shapes::icosphere(r, 6), 20_000);
    // Straight down on the floor, from 5 mm above it to 15 mm below: a quarter of the way. One point in a hundred of r^2
    // is not at the pole itself.
    let s = swept(&ball, &floor(), &at(0.0, 0.0, r + 0.005), &at(0.0, 0.0, r - 0.015));
    let impact = s.impact.expect("an impact");
    assert!((impact.time - 0.25).abs() < 1e-3 && s.inside.is_none(), "{impact:?}");
    assert!((impact.side - Vec3::z()).norm() < 1e-3 && impact.position.z.abs() < 1e-6);
    // Not far enough; not at all; away.
    for to in [at(0.004, 0.0, r + 1e-4), at(0.0, 0.0, r + 0.005), at(0.0, 0.0, r + 0.3)] {
        assert!(swept(&ball, &floor(), &at(0.0, 0.0, r + 0.005), &to).impact.is_none());
    }
    // A rod of 50 mm, lying 10 mm above the floor, swings about its middle: its end is down when 25 mm sin a = 10 mm (less
    // by its thickness).
    let (half, thick): (f64, f64) = (0.025, 0.001);
    let rod = shell(&shapes::cuboid(Vec3::new(2.0 * half, thick, thick)), 4000);
    let lying = at(0.0, 0.0, 0.01);
    let whole = 1.2;
    let s = swept(&rod, &floor(), &lying, &turned(Vec3::y(), whole, 0.0, 0.0, 0.01));
    let impact = s.impact.expect("an impact");
    // The corner (half, -thick/2) turned by a is at -half sin a - thick/2 cos a + 10 mm.
    let height = |a: f64| 0.01 - half * a.sin() - 0.5 * thick * a.cos();
    assert!(height(impact.time * whole).abs() < 2e-5, "{impact:?} {}", height(impact.time * whole));
    // Grazing along the floor, a hair above it: nothing. A hair below: at once, and never for points that were inside.
    let cube = shell(&shapes::cuboid(Vec3::repeat(0.01)), 3000);
    let hair = 1e-6;
    assert!(
        swept(&cube, &floor(), &at(-0.03, 0.0, 0.005 + hair), &at(0.03, 0.0, 0.005 + hair)).impact.is_none()
    );
    let s = swept(&cube, &floor(), &at(-0.03, 0.0, 0.005 - hair), &at(0.03, 0.0, 0.005 - hair));
    assert!(s.impact.is_none());
    let (id, depth) = s.inside.expect("it starts inside");
    assert!((depth - hair).abs() < 1e-7 && (points_of(&cube).position(id as usize).z + 0.005).abs() < 1e-9);
}

/// What cannot come to the surface within the motion is not looked at: a point, or a ball of them at once.
#[test]
fn what_the_motion_cannot_bring_to_the_surface_is_skipped() {
    let (r, points) = (0.02, 20_000);
    let ball = shell(&shapes::icosphere(r, 6), points);
    let work = |gap: f64, way: f64| {
        let s = swept(&ball, &floor(), &at(0.0, 0.0, r + gap), &at(0.0, 0.0, r + gap - way));
        assert_eq!(s.impact.is_some(), way > gap, "{gap} {way}");
        s.work
    };
    // A millimetre a tick (1 m/s at 1 kHz), from far to near; then all of the lower half comes down.
    let [far, near, hit, deep] = [work(0.02, 1e-3), work(2e-3, 1e-3), work(5e-4, 1e-3), work(5e-4, 0.02)];
    println!(
        "of {points} points: {far} looks from 20 mm, {near} from 2 mm, {hit} into the surface, {deep} for 20 mm"
    );
    // The cap that the floor reaches within h of the pole is h/2r of a ball: 1 mm with what a block is large, some hundredths.
    assert!(
        far <= 16 && near <= hit && u64::from(hit) < u64::from(points) / 5 && hit < deep,
        "{far} {near} {hit} {deep}"
    );
}

/// Another implementation: every point, at a thousand times, in f64.
#[test]
fn no_impact_is_late_or_early_against_fine_sampling() {
    let tools = [
        shell(&shapes::torus(0.02, 0.007, 96, 48), 900),
        shell(&shapes::cuboid(Vec3::new(0.03, 0.01, 0.02)), 400),
    ];
    let objects = [round(), floor()];
    let (mut hits, mut misses, mut work) = (0, 0, 0);
    for k in 0..60u32 {
        let r = |n: u32| random(k, n);
        let (tool, object) = (&tools[k as usize % 2], &objects[k as usize / 2 % 2]);
        let (points, field) = (points_of(tool), object.field());
        let pose = |n: u32, high: f64| {
            let axis = Vec3::new(r(n) - 0.5, r(n + 1) - 0.5, r(n + 2) - 0.5);
            turned(axis, 3.0 * r(n + 3), 0.04 * (r(n + 4) - 0.5), 0.04 * (r(n + 5) - 0.5), high)
        };
        // Fast and slow, towards and past.
        let from = pose(1, 0.045 + 0.02 * r(20));
        let far = pose(8, 0.04 * r(21) - 0.01);
        let part = [1.0, 0.6, 0.1][k as usize % 3];
        let turn = (from.rotation.inverse() * far.rotation).scaled_axis() * part;
        let shift = (far.translation.vector - from.translation.vector) * part;
        let motion = |t: f64| {
            Pose::from_parts(
                Translation3::from(from.translation.vector + shift * t),
                from.rotation * UnitQuaternion::from_scaled_axis(turn * t),
            )
        };
        let s = swept(tool, object, &from, &motion(1.0));
        work += s.work;
        let outside: Vec<Point> =
            (0..points.len).map(|i| points.position(i)).filter(|p| field.depth(&(from * p)) <= 0.0).collect();
        assert_eq!(s.inside.is_some(), outside.len() < points.len, "{k}");
        let steps = 1000;
        let deepest = |j: u32| {
            let pose = motion(f64::from(j) / f64::from(steps));
            outside.iter().map(|p| field.depth(&(pose * p))).fold(f64::NEG_INFINITY, f64::max)
        };
        // First time that anything is inside, and so deep that it may not be missed.
        let depths: Vec<f64> = (0..=steps).map(deepest).collect();
        let time = |least: f64| depths.iter().position(|&d| d > least).map(|j| j as f64 / f64::from(steps));
        let (first, surely) = (time(1e-7), time(field.cell / 16.0));
        match s.impact {
            None => {
                assert!(surely.is_none(), "{k}: missed the entry at {surely:?}");
                misses += 1;
            }
            Some(i) => {
                let grain = 1.0 / f64::from(steps);
                assert!(surely.is_none_or(|t| i.time <= t), "{k}: late, {} after {surely:?}", i.time);
                assert!(
                    first.is_some_and(|t| i.time >= t - grain - 1e-6) || i.time > 1.0 - grain,
                    "{k}: early"
                );
                let p = motion(i.time) * points.position(i.id as usize);
                assert!((p - i.position).norm() < 1e-9 && field.depth(&p).abs() < 1e-6, "{k}");
                hits += 1;
            }
        }
    }
    assert!(hits > 15 && misses > 10, "{hits} {misses}");
    println!("{hits} impacts, {misses} motions without, {} points a motion", work / 60);
}

#[test]
fn a_sheet_of_a_fifth_of_a_millimetre_stops_every_way_through_it_at_a_metre_a_second() {
    let tools = [
        shell(&shapes::icosphere(3e-4, 4), 800),
        shell(&shapes::cuboid(Vec3::new(6e-4, 4e-4, 2e-4)), 800),
        // Wide, and thinner than the sheet itself.
        shell(&shapes::cuboid(Vec3::new(0.003, 0.003, 5e-5)), 800),
    ];
    let sheets: Vec<ObjectShape> = (0..8).map(|k| sheet(f64::from(k) / 8.0)).collect();
    let (speed, dt) = (1.0, 1e-3);
    let mut unseen = 0;
    for k in 0..240u32 {
        let r = |n: u32| random(k, n);
        let (tool, object) = (&tools[k as usize % 3], &sheets[k as usize / 3 % 8]);
        // The wide one nearly flat on.
        let skew = if k % 3 == 2 { 0.05 } else { 1.0 };
        let points = points_of(tool);
        let turn =
            UnitQuaternion::from_scaled_axis(Vec3::new(r(2) - 0.5, r(3) - 0.5, r(4) - 0.5) * 4.0 * skew);
        let spin = Vec3::new(r(5) - 0.5, r(6) - 0.5, r(7) - 0.5) * 40.0 * skew;
        // Within 50 degrees of straight, from above or below.
        let up = if k % 2 == 0 { 1.0 } else { -1.0 };
        let way = Vec3::new(0.8 * (r(8) - 0.5), 0.8 * (r(9) - 0.5), -up).normalize() * speed;
        let pose = |tick: u32| {
            let t = f64::from(tick) * dt;
            let middle = way * (t - 0.006 + dt * r(10));
            Pose::from_parts(middle.into(), turn * UnitQuaternion::from_scaled_axis(spin * t))
        };
        let field = object.field();
        let lowest = |pose: &Pose| {
            (0..points.len).map(|i| up * (pose * points.position(i)).z).fold(f64::INFINITY, f64::min)
        };
        let mut hit = None;
        let mut felt = false;
        for tick in 0..12 {
            let (from, to) = (pose(tick), pose(tick + 1));
            felt |= (0..points.len).any(|i| field.depth(&(from * points.position(i))) > 0.0);
            let s = swept(tool, object, &from, &to);
            if let Some(i) = s.impact {
                hit = Some((tick, i));
                break;
            }
            // Nothing has got behind the sheet.
            assert!(lowest(&to) > -1e-4, "{k}: through at tick {tick}");
        }
        let (tick, impact) = hit.expect("stopped");
        assert!(up * impact.side.z > 0.99, "{k}: {}", impact.side);
        // On the surface, as the field knows it.
        assert!((up * impact.position.z - 1e-4).abs() < 0.5e-4, "{k}: {}", impact.position);
        let before = lowest(&pose(tick));
        assert!(before > 0.5e-4, "{k}: it was behind already: {before}");
        // A single look at each tick would not always have seen the sheet.
        unseen += u32::from(
            !(felt || (0..points.len).any(|i| field.depth(&(pose(tick + 1) * points.position(i))) > 0.0)),
        );
    }
    println!("{unseen} of 240 would have passed unseen");
    assert!(unseen > 20, "{unseen}");
}

/// A free mass thrown at the sheet, stopped by the contact alone, and with the side kept.
#[test]
fn the_side_is_kept_until_separation_and_then_let_go() {
    let object = sheet(0.3);
    let ball = shell(&shapes::icosphere(0.002, 4), 800);
    let material = Material {
        stiffness: 3000.0,
        reference_area: 1e-4,
        damping: 0.0,
        friction: Friction::NONE,
        texture: Texture::NONE,
    };
    let (mass, dt) = (0.05, 1e-3);
    let fly = |keep: bool| {
        let (mut z, mut v): (f64, f64) = (0.0052, -1.0);
        let mut side: Option<Side> = None;
        let (mut held, mut worst, mut lowest) = (0, 0.0f64, f64::INFINITY);
        let mut last = 0.0;
        for _ in 0..200 {
            let from = at(0.0003, 0.0002, z);
            z += v * dt;
            let pose = at(0.0003, 0.0002, z);
            if let (true, None, Some(i)) = (keep, side, swept(&ball, &object, &from, &pose).impact) {
                side = Some(Side::new(&i));
            }
            let q = Query {
                tool: &ball,
                tool_pose: &pose,
                tool_twist: &Twist { linear: Vec3::z() * v, angular: Vec3::zeros() },
                object: &object,
                object_pose: &Pose::identity(),
                object_twist: &Twist::ZERO,
                material: &material,
            };
            let mut c = query(&q, Budget::UNLIMITED, &mut QueryState::default());
            if side.as_mut().is_some_and(|s| !s.hold(&q, &mut c)) {
                side = None;
            }
            held += u32::from(side.is_some());
            let f = c.wrench.force.z;
            assert!(c.wrench.is_finite());
            // No more than the spring over one step's way, and the field's own small force.
            if keep {
                worst = worst.max((f - last).abs());
                assert!(f >= -0.05, "pulled through: {f} N at {z}");
            }
            last = f;
            v += f / mass * dt;
            lowest = lowest.min(z);
        }
        (z, v, held, worst, lowest, side.is_some(), last)
    };
    let (z, v, held, worst, lowest, still, last) = fly(true);
    println!("lowest {:.2} mm, {held} ticks held, worst step {worst:.3} N, back at {v:.3} m/s", lowest * 1e3);
    // Back on its side, at about the speed at which it came: a half swing of the spring lasts pi sqrt(m/k) = 13 ms.
    assert!(z > 0.05 && (v - 1.0).abs() < 0.25 && !still && last == 0.0, "{z} {v}");
    assert!((8..=18).contains(&held), "{held}");
    assert!(worst < 3000.0 * 1.3 * dt + 0.2, "{worst}");
    // As deep as the energy says: v sqrt(m/k), within a step.
    assert!((0.0021 - lowest - (0.05f64 / 3000.0).sqrt()).abs() < 1.2e-3, "{lowest}");
    // Without, the field alone lets it through.
    let (z, ..) = fly(false);
    assert!(z < -0.05, "{z}");
}

#[test]
fn a_held_point_slides_along_a_curved_sheet_and_is_let_go_at_its_edge() {
    // A dome of 0.2 mm over 20 mm radius, cut off below z = 12 mm.
    let (radius, half) = (0.02, 1e-4);
    let dome = move |p: &Point| {
        let sheet = half - (p.coords.norm() - radius).abs();
        sheet.min(p.z - 0.012)
    };
    let field = Field::from_fn(Point::new(-0.002, -0.002, 0.008), 1e-4, [241, 41, 151], dome);
    let object = ObjectShape::Field(Arc::new(field));
    let ball = shell(&shapes::icosphere(0.001, 3), 200);
    let lowest = |direction: Vec3| {
        let p = points_of(&ball);
        (0..p.len).max_by(|&a, &b| {
            let f = |i: usize| -direction.dot(&p.position(i).coords);
            f(a).total_cmp(&f(b))
        })
    };
    let up = Vec3::z();
    let s = swept(&ball, &object, &at(0.0, 0.0, 0.0215), &at(0.0, 0.0, 0.0205));
    let impact = s.impact.expect("an impact");
    assert_eq!(Some(impact.id as usize), lowest(up));
    let mut side = Side::new(&impact);
    let p = points_of(&ball).position(impact.id as usize);
    // The edge is where 20 mm cos a = 12 mm.
    let edge = (0.012f64 / radius).acos();
    // The held point goes along, half a millimetre below the sheet.
    let mut let_go = None;
    for k in 0..1200 {
        let angle = f64::from(k) * 1e-3;
        let out = Vec3::new(angle.sin(), 0.0, angle.cos());
        let pose = Pose::from_parts((out * (radius - 5e-4) - p.coords).into(), UnitQuaternion::identity());
        let mut c = Contact::none(None);
        let held = with(&ball, &pose, &object, |q| side.hold(q, &mut c));
        if !held {
            assert!(c.wrench.force.norm() == 0.0);
            let_go = Some(angle);
            break;
        }
        // At the very edge the surface turns away.
        if angle > edge - 0.02 {
            continue;
        }
        // Along the dome's normal, with the spring over what the point is below the outer surface.
        let want = 800.0 * (5e-4 + half);
        assert!(
            (c.wrench.force - out * want).norm() < 0.1 * want,
            "{angle}: {} {}",
            c.wrench.force,
            out * want
        );
        assert!((c.wrench.torque - p.coords.cross(&c.wrench.force)).norm() < 1e-12);
    }
    assert!((let_go.expect("let go at the edge") - edge).abs() < 0.03, "{let_go:?} {edge}");
}

#[test]
fn a_field_holds_thin_walls_with_finer_cells_or_is_refused() {
    let plate = shapes::cuboid(Vec3::new(0.02, 0.02, 2e-4));
    let coarse = FieldParams { resolution: Resolution::Cell(5e-4), padding: 3 };
    let (_, report) = build(&plate, &coarse, &Silent).expect("a field");
    assert!(report.thinnest_cells < 2.0);
    let (field, report) = build_holding(&plate, &coarse, 1 << 26, &Silent).expect("finer cells");
    assert!(report.thinnest_cells >= 2.0 && field.cell <= 1e-4 && field.cell > 0.8e-4, "{}", field.cell);
    // Wherever between the nodes the plate lies, its middle is inside.
    for k in 0..100 {
        let p = Point::new(1e-4 * f64::from(k) - 5e-3, 3e-3, 0.0);
        assert!(field.depth(&p) > 0.4 * 1e-4, "{}", field.depth(&p));
    }
    match build_holding(&plate, &coarse, 100_000, &Silent) {
        Err(FieldError::TooThin { width, cells, bytes, limit: 100_000 }) => {
            assert!((width - 2e-4).abs() < 1e-6 && (cells - 0.4).abs() < 1e-3 && bytes > 100_000);
        }
        other => panic!("{other:?}"),
    }
    // A body without thin walls is left as it is.
    let cube = shapes::cuboid(Vec3::repeat(0.02));
    let (field, _) = build_holding(&cube, &coarse, 1 << 26, &Silent).expect("a field");
    assert_eq!(field.cell, 5e-4);
}

#[test]
fn a_budget_a_deadline_and_nonsense_end_the_search_with_a_word() {
    struct Over;
    impl Deadline for Over {
        fn passed(&self) -> bool {
            true
        }
    }
    /// Passed after so many looks.
    struct Looks(std::cell::Cell<u32>, u32);
    impl Deadline for Looks {
        fn passed(&self) -> bool {
            self.0.replace(self.0.get() + 1) >= self.1
        }
    }
    let tool = shell(&shapes::cuboid(Vec3::repeat(0.02)), 20_000);
    let (points, object) = (points_of(&tool), floor());
    let (from, to) = (at(0.0, 0.0, 0.0101), at(0.0, 0.0, 0.0));
    let ask = |from: &Pose, to: &Pose, budget: Budget<'_>| {
        sweep_to_impact(points, object.field(), from, to, budget)
    };
    let full = ask(&from, &to, Budget::UNLIMITED);
    assert!(full.complete && !full.late && full.impact.is_some_and(|i| (i.time - 0.01).abs() < 1e-4));
    let cut = ask(&from, &to, Budget { units: 64, deadline: None });
    assert!(!cut.complete && !cut.late && cut.work <= 64, "{}", cut.work);
    let late = ask(&from, &to, Budget { units: 0, deadline: Some(&Over) });
    assert!(!late.complete && late.late && late.impact.is_none());
    for bad in [at(f64::NAN, 0.0, 0.0), at(0.0, f64::INFINITY, 0.0)] {
        assert!(!ask(&bad, &to, Budget::UNLIMITED).complete && !ask(&from, &bad, Budget::UNLIMITED).complete);
    }
    // The clock is looked at on the way as well, every 256 points: it ends what neither meets anything nor comes to an end.
    let grazing = (at(-0.05, 0.0, 0.01 + 1e-5), at(0.05, 0.0, 0.01 + 1e-5));
    let whole = ask(&grazing.0, &grazing.1, Budget::UNLIMITED);
    assert!(whole.complete && whole.impact.is_none());
    let looks = Looks(std::cell::Cell::new(0), 20);
    let ended = ask(&grazing.0, &grazing.1, Budget { units: 0, deadline: Some(&looks) });
    assert!(!ended.complete && ended.late && whole.work > 20 * 512, "{} of {}", ended.work, whole.work);
    assert!((20 * 240..=20 * 256 + 256).contains(&ended.work), "{}", ended.work);
    for far in [at(1e30, 0.0, 0.0), at(0.0, 0.0, -1e6), at(1e12, 0.0, 0.0)] {
        for (a, b) in [(&from, &far), (&far, &from)] {
            let s = ask(a, b, Budget { units: 0, deadline: Some(&Looks(std::cell::Cell::new(0), 1000)) });
            assert!(s.impact.is_none_or(|i| (0.0..=1.0).contains(&i.time)));
        }
    }
    let empty = PointShell::default();
    assert!(sweep_to_impact(&empty, object.field(), &from, &to, Budget::UNLIMITED).impact.is_none());
    let reference = full;
    for level in SimdLevel::ALL {
        if force_simd(Some(level)) {
            assert_eq!(reference, ask(&from, &to, Budget::UNLIMITED), "{level}");
        }
    }
    force_simd(None);
}
