//! The proxy of a ball tool: where it can go, what it holds, what it costs nobody.

use super::*;
use hapticd::geometry::bvh::Bvh;
use hapticd::geometry::field::build::{self, FieldParams, Resolution};
use hapticd::geometry::winding::Winding;
use hapticd::haptics::proxy::Proxy;
use rand::{RngExt, SeedableRng};

#[path = "../meshes/mod.rs"]
pub mod meshes;

/// A ball that follows its way, and what it rubs on.
pub struct Way {
    pub tool: ToolShape,
    pub object: ObjectShape,
    pub material: Material,
    pub state: QueryState,
    pub proxy: Proxy,
}

impl Way {
    pub fn new(radius: f64, object: ObjectShape, friction: Friction) -> Self {
        Self {
            tool: ToolShape::Sphere { radius },
            object,
            material: Material { friction, ..MATERIAL },
            state: QueryState::following(),
            proxy: Proxy::default(),
        }
    }

    pub fn to(&mut self, x: Vec3) -> Contact {
        self.within(x, Budget::UNLIMITED)
    }

    pub fn within(&mut self, x: Vec3, budget: Budget<'_>) -> Contact {
        let pose = Pose::translation(x.x, x.y, x.z);
        let q = Query {
            tool: &self.tool,
            tool_pose: &pose,
            tool_twist: &Twist::ZERO,
            object: &self.object,
            object_pose: &Pose::identity(),
            object_twist: &Twist::ZERO,
            material: &self.material,
        };
        let (contact, cone) = self.proxy.touch(&q, budget, &mut self.state, 1e-3);
        if let Some(cone) = cone {
            let press = contact.wrench.force.dot(&cone.normal);
            let pull = (contact.wrench.force - cone.normal * press).norm();
            assert!(pull <= cone.mu * press + 1e-9, "{pull} N along, {press} N across, {}", cone.mu);
        }
        contact
    }
}

pub fn built(mesh: &TriMesh, cells: u32) -> Arc<Field> {
    let params = FieldParams { resolution: Resolution::Longest(cells), ..FieldParams::default() };
    let built = build::build(mesh, &params, &build::Silent).expect("builds");
    Arc::new(built.0)
}

/// A hand that pushes at a body from outside, in any direction, through and along it.
pub struct Hand {
    rng: rand::rngs::SmallRng,
    middle: Vec3,
    /// Of the body, from corner to corner of its box, m.
    pub size: f64,
    aim: Vec3,
    x: Vec3,
    ticks: u32,
}

impl Hand {
    pub fn new(mesh: &TriMesh, seed: u64) -> Self {
        let (low, high) = mesh.bounds().expect("not empty");
        let middle = (low.coords + high.coords) * 0.5;
        let rng = rand::rngs::SmallRng::seed_from_u64(seed);
        Self { rng, middle, size: (high - low).norm(), aim: middle, x: middle, ticks: 0 }
    }

    fn random(&mut self) -> Vec3 {
        let mut one = || self.rng.random_range(-1.0..1.0);
        Vec3::new(one(), one(), one())
    }

    /// Somewhere outside, with a ball of that radius.
    pub fn start(&mut self, radius: f64) -> Vec3 {
        self.x = self.middle + self.random().normalize() * (0.6 * self.size + radius);
        (self.aim, self.ticks) = (self.x, 0);
        self.x
    }

    /// A tick's way on: about `step` m, up to `spread` times less or more, and beside it by a fifth of that, of `tremor` m at most.
    pub fn go(&mut self, step: f64, spread: f64, tremor: f64) -> Vec3 {
        // A new aim now and then: into the body, or about it.
        if self.ticks.is_multiple_of(25) {
            self.aim = self.middle + self.random() * 0.5 * self.size;
        }
        self.ticks += 1;
        let most = step * spread.powf(self.random().x);
        let way = self.aim - self.x;
        let beside = self.random() * 0.2 * most.min(tremor);
        self.x += way * (most / way.norm().max(most)) + beside;
        self.x
    }
}

/// Pushes a ball at a body and asks after every tick where its proxy is. Returns how many ticks touched, how many were held against
/// the mesh itself, and of how many that does not say what is inside.
fn push(name: &str, mesh: &TriMesh, field: &Arc<Field>, pushes: u32, seed: u64) -> [u32; 3] {
    let (bvh, winding) = (Bvh::build(mesh), Winding::build(mesh));
    let mut hand = Hand::new(mesh, seed);
    let size = hand.size;
    let (mut touched, mut exact, mut unclear, mut deepest) = (0, 0, 0, f64::MIN);
    let smooth = Friction::NONE;
    let rubber = Friction { statics: 0.6, dynamic: 0.4, stribeck: 0.0, viscous: 0.0 };
    for (radius, friction) in [(0.0, smooth), (0.0, rubber), (0.01 * size, smooth), (0.01 * size, rubber)] {
        let mut way = Way::new(radius, ObjectShape::Field(field.clone()), friction);
        way.to(hand.start(radius));
        for k in 0..pushes / 4 {
            // From a step within a cell to one of several.
            let contact = way.to(hand.go(0.002 * size, 4.0, f64::INFINITY));
            touched += u32::from(contact.touching);
            let Some(at) = way.proxy.rest() else { continue };
            let depth = match field.covers(&at) {
                true => field.depth(&at),
                false => field.locate(&at).0,
            };
            assert!(depth + radius <= 1e-12, "{name} {k}: {} of {radius} inside its field", depth + radius);
            // The mesh itself knows better than its field, at a price; where it has holes it does not say what is inside.
            if !(contact.touching && k % 16 == 0) {
                continue;
            }
            let around = winding.number(&at);
            if (around - around.round()).abs() >= 0.05 {
                unclear += 1;
            } else {
                let distance = bvh.closest(&at).distance;
                let inside = around > 0.5;
                let true_depth = if inside { distance } else { -distance } + radius;
                deepest = deepest.max(true_depth / field.sample_error());
                assert!(
                    true_depth <= field.sample_error() + 1e-12,
                    "{name} {k}: {true_depth} m inside, stated are {}",
                    field.sample_error()
                );
                exact += 1;
            }
        }
    }
    println!(
        "{name}: {touched} of {pushes} touched, {exact} against the mesh, deepest {deepest:.3} of the stated error"
    );
    [touched, exact, unclear]
}

/// A plate with a slotted hole: sharp edges, concave corners and a passage.
pub fn keyed() -> TriMesh {
    shapes::keyed_hole(&shapes::HoleShape::default())
}

#[test]
fn never_inside_whatever_the_push() {
    let mut sum = [0; 3];
    let mut add = |pushed: [u32; 3]| (0..3).for_each(|i| sum[i] += pushed[i]);
    for (name, mesh) in [("torus", shapes::torus(0.03, 0.012, 48, 24)), ("hole", keyed())] {
        add(push(name, &mesh, &built(&mesh, 64), 40_000, 1));
    }
    for name in ["bunny_filled.ply", "rocker_arm.ply"] {
        let Some(mesh) = meshes::shared(name) else { continue };
        add(push(name, &mesh, &built(&mesh, 96), 20_000, 2));
    }
    // They are closed.
    assert!(sum[0] > 20_000 && sum[1] > 1000 && sum[2] == 0, "{sum:?}");
}

/// Every model that can be imported, closed or not, whose field does not take long; the others in
/// [`never_inside_in_a_million_pushes`]. Walls thinner than two cells let a ball through: some are hardly touched.
#[test]
fn never_inside_of_any_model_whatever_the_push() {
    let (mut models, mut held) = (0, 0);
    for (name, mesh) in meshes::all() {
        if mesh.triangles.len() > 12_000 {
            println!("left out: {name}, {} triangles", mesh.triangles.len());
            continue;
        }
        let [touched, exact, _] = push(&name, &mesh, &built(&mesh, 48), 4000, 2);
        assert!(touched > 0, "{name}");
        (models, held) = (models + 1, held + exact);
    }
    println!("{models} models, {held} pushes held against the mesh itself");
    assert!(models == 0 || held > 50 * models, "{held} pushes at {models} models");
}

/// The full count: `cargo test --release --test contact a_million -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn never_inside_in_a_million_pushes() {
    const THICK: [&str; 6] =
        ["torus", "hole", "armadillo.ply", "bunny_filled.ply", "rocker_arm.ply", "screwdriver.ply"];
    let mut all =
        vec![("torus".to_owned(), shapes::torus(0.03, 0.012, 48, 24)), ("hole".to_owned(), keyed())];
    all.extend(meshes::all());
    for (name, mesh) in &all {
        let [touched, ..] = push(name, mesh, &built(mesh, 128), 1_000_000, 3);
        let least = if THICK.contains(&name.as_str()) { 100_000 } else { 0 };
        assert!(touched > least, "{name}: {touched}");
    }
}

/// On thick round bodies the nearest place that can be reached is the nearest place.
#[test]
fn on_a_round_body_it_is_the_nearest_point() {
    let (radius, cell) = (0.03, 1e-3);
    let field = Field::from_fn(Point::new(-0.04, -0.04, -0.04), cell, [81; 3], |p| radius - p.coords.norm());
    for r in [0.0, 0.004] {
        let mut way = Way::new(r, ObjectShape::Field(Arc::new(field.clone())), Friction::NONE);
        let (mut touched, mut worst) = (0, 0.0f64);
        way.to(Vec3::new(0.0, 0.0, 0.05));
        for step in 0..4000 {
            let t = f64::from(step) * 2e-3;
            let (a, b) = (0.9 * (1.3 * t).sin(), 2.0 * t);
            let out = Vec3::new(a.sin() * b.cos(), a.sin() * b.sin(), a.cos());
            let height = r + 0.002 * (3.1 * t).sin() - 0.001;
            let c = way.to(out * (radius + height));
            let depth = (r - height).max(0.0);
            if height > r + 2.0 * cell {
                assert!(!c.touching);
            }
            let want = out * MATERIAL.stiffness * depth;
            touched += u32::from(c.touching);
            worst = worst.max((c.wrench.force - want).norm());
        }
        println!("radius {r}: {touched} touched, {worst:.4} N off");
        // The field is off by h^2/8R, and its gradient by h/R of the depth, at most.
        let most = MATERIAL.stiffness * (cell * cell / (8.0 * radius) + 0.003 * cell / radius);
        assert!(touched > 2000 && worst < most, "{touched} touched, {worst} N off, at most {most}");
    }
}

/// A room: x, y and z are positive where one can be.
fn room() -> Arc<Field> {
    let depth = |p: &Point| -(p.x.min(p.y).min(p.z));
    // The walls lie between the nodes.
    Arc::new(Field::from_fn(Point::new(-0.0123, -0.0117, -0.0121), 1e-3, [40; 3], depth))
}

#[test]
fn in_corners_of_two_and_three_walls_it_stands_along_all() {
    for r in [0.0, 0.004] {
        for (x, want) in [
            (Vec3::new(-0.002, -0.003, 0.01), Vec3::new(r, r, 0.01)),
            (Vec3::new(r - 0.0005, 0.01, r - 0.003), Vec3::new(r, 0.01, r)),
            (Vec3::new(-0.002, -0.003, -0.001), Vec3::new(r, r, r)),
            (Vec3::new(0.01, -0.003, 0.012), Vec3::new(0.01, r, 0.012)),
        ] {
            let mut way = Way::new(r, ObjectShape::Field(room()), Friction::NONE);
            let start = Vec3::new(0.012, 0.013, 0.011);
            for k in 0..=400 {
                way.to(start + (x - start) * (f64::from(k) / 400.0));
            }
            let c = way.to(x);
            let at = way.proxy.rest().expect("known").coords;
            // Gradients are differences over a cell: they round an edge by as much.
            assert!((at - want).norm() < 1e-3, "radius {r}, {x}: at {at}, not {want}");
            let force = (want - x) * MATERIAL.stiffness;
            assert!((c.wrench.force - force).norm() < 1e-3 * MATERIAL.stiffness);
            // Held along every wall that it leans on, for the damping.
            let k = c.stiffness.fixed_view::<3, 3>(0, 0).into_owned() / MATERIAL.stiffness;
            let leans = [0, 1, 2].map(|i| x[i] < r);
            for i in 0..3 {
                assert!(!leans[i] || k[(i, i)] > 0.3, "radius {r}, {x}: {k}");
                assert!(leans[i] || k[(i, i)] < 0.01, "radius {r}, {x}: {k}");
            }
        }
    }
}

/// A hand that trembles by a micrometre in a corner feels no more than the spring's answer to it.
#[test]
fn in_a_corner_the_force_follows_the_hand_and_no_more() {
    let mut rng = rand::rngs::SmallRng::seed_from_u64(5);
    for r in [0.0, 0.004] {
        for x in [Vec3::new(r - 0.001, r - 0.0012, 0.01), Vec3::new(r - 0.001, r - 0.0012, r - 0.0015)] {
            let mut way = Way::new(r, ObjectShape::Field(room()), Friction::NONE);
            let start = Vec3::new(0.012, 0.013, 0.011);
            for k in 0..=400 {
                way.to(start + (x - start) * (f64::from(k) / 400.0));
            }
            let mut last = way.to(x).wrench.force;
            let (mut before, mut worst) = (x, 0.0f64);
            for _ in 0..2000 {
                let mut one = || rng.random_range(-1e-6..1e-6);
                let next = x + Vec3::new(one(), one(), one());
                let force = way.to(next).wrench.force;
                // In steps of the way: a nearest point of a convex room moves no farther than the hand.
                let moved = (next - before).norm() + 0.2e-6;
                worst = worst.max((force - last).norm() / (MATERIAL.stiffness * moved));
                (last, before) = (force, next);
            }
            println!("radius {r}, {x:?}: {worst:.2} of the spring");
            assert!(worst <= 1.5, "radius {r}, {x}: {worst}");
        }
    }
}

/// Sticks where it was put, to the bit; slides as far behind the hand as friction holds it; comes to rest again.
#[test]
fn it_sticks_and_slides() {
    let friction = Friction { statics: 0.8, dynamic: 0.5, stribeck: 0.0, viscous: 0.0 };
    let mut way = Way::new(0.004, floor(), friction);
    way.to(Vec3::new(0.0, 0.0, 0.006));
    let z = 0.003;
    way.to(Vec3::new(0.0, 0.0, z));
    let rest = way.proxy.rest().expect("known");
    // 1 mm deep: holds up to 0.8 mm.
    for k in 0..800 {
        way.to(Vec3::new(1e-6 * f64::from(k), 0.0, z));
        assert_eq!(way.proxy.rest(), Some(rest), "{k}");
    }
    let c = way.to(Vec3::new(0.81e-3, 0.0, z));
    let force = c.wrench.force;
    close("slides", -force.x / force.z, 0.5, 1e-6);
    close("presses", force.z, MATERIAL.stiffness * 1e-3, 1e-3);
    // On the way: as far behind.
    for k in 0..100 {
        let force = way.to(Vec3::new(0.9e-3 + 1e-5 * f64::from(k), 0.0, z)).wrench.force;
        close("slides on", -force.x / force.z, 0.5, 1e-6);
    }
    // Back: it rests at once, and is dragged the other way after 0.5 + 0.8 mm.
    let rest = way.proxy.rest();
    for k in 0..1290 {
        way.to(Vec3::new(1.89e-3 - 1e-6 * f64::from(k), 0.0, z));
        assert_eq!(way.proxy.rest(), rest, "{k}");
    }
    let force = way.to(Vec3::new(1.89e-3 - 1.35e-3, 0.0, z)).wrench.force;
    close("slides back", force.x / force.z, 0.5, 1e-6);
    // Off the floor nothing is left of it.
    let c = way.to(Vec3::new(0.0, 0.0, 0.0045));
    assert_eq!((c.touching, c.wrench.force), (false, Vec3::zeros()));
}

/// A question about a pose alone has no way; one that was interrupted has none either.
#[test]
fn a_ball_without_a_way_is_where_it_is() {
    let half = 1e-4;
    let sheet =
        Field::from_fn(Point::new(-0.006, -0.006, -0.0015), 1e-4, [121, 121, 31], |p| half - p.z.abs());
    let sheet = ObjectShape::Field(Arc::new(sheet));
    let behind = Vec3::new(0.0, 0.0, -0.0005);
    let mut way = Way::new(0.0, sheet.clone(), Friction::NONE);
    assert!(!way.to(behind).touching);
    way.proxy.interrupt();
    assert!(!way.to(Vec3::new(0.0, 0.0, 0.0005)).touching);
    let held = way.to(behind);
    // A spring from the upper surface on.
    close("held", held.wrench.force.z, MATERIAL.stiffness * (0.0005 + half), 1e-3);
    assert!((held.depth - 0.0006).abs() < 1e-6 && held.wrench.force.xy().norm() < 1e-9);
    assert!((way.proxy.behind() - 0.0006).abs() < 1e-6);
    way.proxy.interrupt();
    assert!(!way.to(behind).touching && way.proxy.behind() == 0.0);
}

/// Same steps, same bits; nonsense does no harm.
#[test]
fn it_repeats_and_bears_nonsense() {
    let mesh = keyed();
    let field = built(&mesh, 48);
    let run = || {
        let mut way = Way::new(0.002, ObjectShape::Field(field.clone()), Friction::of(0.5));
        let mut sum = Vec::new();
        for k in 0..3000u32 {
            let s = |f: f64| 0.03 * (f64::from(k) * 1e-3 * f).sin();
            sum.push(way.to(Vec3::new(s(3.0), s(5.0), s(7.7))).wrench.force.map(f64::to_bits));
        }
        sum
    };
    assert_eq!(run(), run());
    for bad in [f64::NAN, f64::INFINITY, 1e300, -1.0] {
        let friction = Friction { statics: bad, dynamic: bad, stribeck: bad, viscous: bad };
        let mut way = Way::new(bad, ObjectShape::Field(field.clone()), friction);
        let texture = Texture { height: bad, wavelength: bad };
        way.material = Material { stiffness: 800.0, reference_area: bad, damping: bad, friction, texture };
        for k in 0..60 {
            let x = if k % 7 == 3 { bad } else { 0.03 - 1e-3 * f64::from(k) };
            let c = way.to(Vec3::new(x, 0.001, 0.002));
            assert!(c.wrench.is_finite(), "{bad} {k}: {:?}", c.wrench);
        }
    }
}

/// Stroked over its pits a smooth material gives back what it takes, and is never harder than without them.
#[test]
fn texture_takes_no_energy_and_only_lowers_the_force() {
    let mut way = Way::new(0.004, floor(), Friction::NONE);
    way.material.texture = Texture { height: 2e-4, wavelength: 4e-3 };
    way.to(Vec3::new(0.0, 0.0, 0.006));
    let z = 0.003;
    let flat = MATERIAL.stiffness * 1e-3;
    let (mut work, mut taken, mut low, mut high) = (0.0, 0.0, f64::MAX, 0.0f64);
    let at = |k: u32| Vec3::new(1e-5 * f64::from(k), 0.7e-5 * f64::from(k), z);
    way.to(at(0));
    let mut last = way.to(at(0)).wrench.force;
    // Ten waves along x and seven along y, to where the height is as it was.
    for k in 1..=4000u32 {
        let force = way.to(at(k)).wrench.force;
        let step = at(k) - at(k - 1);
        let w = 0.5 * (force + last).dot(&step);
        work += w;
        taken += w.abs();
        (low, high) = (low.min(force.z), high.max(force.z));
        last = force;
    }
    println!("{work:e} J left of {taken:e} J, {low:.3} to {high:.3} N of {flat:.3} N");
    assert!(work.abs() < 2e-3 * taken, "{work} J of {taken} J");
    assert!(high <= flat * (1.0 + 1e-3) && low < 0.9 * flat, "{low} to {high} of {flat}");
    // With friction it stays in the cone (which `Way` sees to).
    way.material.friction = Friction::of(0.4);
    for k in 0..3000u32 {
        way.to(at(4000 - k));
    }
}

/// A plate of half a millimetre about y = 0, 12 cm long in x, in cells of a tenth.
fn long_plate() -> ObjectShape {
    let corner = Point::new(-0.06, -6e-4, -6e-4);
    ObjectShape::Field(Arc::new(Field::from_fn(corner, 1e-4, [1200, 13, 13], |p| 2.5e-4 - p.y.abs())))
}

/// Pushed 3 mm behind the plate at one end of it.
fn behind(friction: Friction) -> (Way, Contact) {
    let mut way = Way::new(0.0, long_plate(), friction);
    let mut last = Contact::none(None);
    for k in 0..=400 {
        last = way.to(Vec3::new(-0.05, 1e-3 - 1e-5 * f64::from(k), 0.0));
    }
    assert!(last.wrench.force.y > 0.9 * MATERIAL.stiffness * 3e-3, "{}", last.wrench.force);
    (way, last)
}

/// A way along a wall that is too long for a tick: the wall stays where it is, and the proxy arrives within a few ticks.
#[test]
fn a_way_too_long_for_a_tick_keeps_the_wall() {
    for friction in [Friction::NONE, Friction::of(0.5)] {
        let (mut way, before) = behind(friction);
        let there = Vec3::new(0.05, -3e-3, 0.0);
        for tick in 0..8 {
            let now = way.to(there).wrench.force;
            assert!((now.y / before.wrench.force.y - 1.0).abs() < 0.02, "tick {tick}: {now}");
            assert!(now.x.abs() <= friction.statics * now.y + 1e-6, "tick {tick}: {now}");
        }
        let at = way.proxy.rest().expect("is followed");
        assert!((at.x - there.x).abs() < 5e-3, "{at}");
    }
}

/// A clock that stops at once.
pub struct Over;

impl Deadline for Over {
    fn passed(&self) -> bool {
        true
    }
}

/// The work is on the contact's account, stays within the budget and ends with the deadline; what pushes goes on pushing.
#[test]
fn the_way_keeps_to_budget_and_deadline() {
    let there = Vec3::new(0.05, -3e-3, 0.0);
    let whole = {
        let (mut way, _) = behind(Friction::NONE);
        way.to(there).work
    };
    assert!(whole > 400 && whole < 1000, "{whole}");
    for (budget, most) in [
        (Budget { units: 100, deadline: None }, 200),
        (Budget { units: 1, deadline: None }, 160),
        (Budget { units: 0, deadline: Some(&Over as &dyn Deadline) }, 160),
    ] {
        let (mut way, before) = behind(Friction::NONE);
        for tick in 0..60 {
            let now = way.within(there, budget);
            assert!(now.work <= most && now.work > 10, "tick {tick}: {} of {most}", now.work);
            assert_eq!(now.deadline_hit, budget.deadline.is_some() && now.deadline_hit);
            let (now, was) = (now.wrench.force, before.wrench.force);
            assert!((now.y / was.y - 1.0).abs() < 0.02 && now.x.abs() < 0.05 * was.y, "tick {tick}: {now}");
        }
        let at = way.proxy.rest().expect("is followed");
        assert!((at.x - there.x).abs() < 5e-3, "{at}");
    }
}

/// Over a ball's edge into the air within a tick that has no time: on its way the spring never gives more than it gave before.
#[test]
fn a_way_cut_short_never_pushes_harder() {
    for radius in [0.02, 0.002] {
        for depth in [1e-3, 5e-4] {
            let far = 0.02 + radius;
            let ball =
                Field::from_fn(Point::new(-0.05, -0.05, -0.05), 5e-4, [201; 3], |p| 0.02 - p.coords.norm());
            let mut way = Way::new(radius, ObjectShape::Field(Arc::new(ball)), Friction::of(0.4));
            for k in 0..=100 {
                way.to(Vec3::y() * (far + 1e-3 - (1e-3 + depth) * f64::from(k) / 100.0));
            }
            let before = way.to(Vec3::y() * (far - depth)).wrench.force.norm();
            // 15 mm along the tangent: outside of the ball.
            let there = Vec3::new(0.03, far - depth, 0.0);
            for tick in 0..40 {
                let now = way.within(there, Budget { units: 1, deadline: None }).wrench.force.norm();
                assert!(now <= before * 1.05, "{radius} {depth} tick {tick}: {now} N after {before} N");
            }
            assert_eq!(way.to(there).wrench.force, Vec3::zeros(), "it is in the air");
        }
    }
}
