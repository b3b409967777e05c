//! What the benches of the contact methods share: a reference load, two linked tori in a hand's motion, cost against size as
//! a picture.
#![allow(dead_code, reason = "not every bench uses all")]

use hapticd::contact::{
    Budget, Contact, Friction, Material, ObjectShape, Query, QueryState, Texture, ToolShape, query,
};
use hapticd::geometry::{Pose, TriMesh, Twist, Vec3, shapes};
use nalgebra::{Translation3, UnitQuaternion};
use plotters::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// One of two equal rings.
pub fn torus() -> TriMesh {
    shapes::torus(0.06, 0.02, 128, 64)
}

/// 20,000 dependent multiply-adds, us.
pub fn reference() -> f64 {
    let time = || {
        let start = Instant::now();
        let mut x = black_box(1.0f64);
        for _ in 0..20_000 {
            x = x * 0.999_999 + 1e-6;
        }
        black_box(x);
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..50).map(|_| time()).collect();
    times.sort_by(f64::total_cmp);
    times[25]
}

/// A hand's motion, `apart` further from the pressed pose: the rings linked, the one turned by a right angle.
pub fn pose(k: usize, apart: f64) -> Pose {
    let s = k as f64 * 1e-3;
    Pose::from_parts(
        Translation3::new(0.081 + apart + 1e-4 * s.sin(), 2e-4 * (1.3 * s).cos(), 1e-4 * (0.7 * s).sin()),
        UnitQuaternion::from_scaled_axis(Vec3::new(std::f64::consts::FRAC_PI_2, 0.01 * s.cos(), 0.02 * s)),
    )
}

const MATERIAL: Material = Material {
    stiffness: 1000.0,
    reference_area: 1e-4,
    damping: 2.0,
    friction: Friction::NONE,
    texture: Texture::NONE,
};

/// What is asked of a tool at this pose against an object that rests at the origin.
pub fn question<'a>(tool: &'a ToolShape, tool_pose: &'a Pose, object: &'a ObjectShape) -> Query<'a> {
    static ORIGIN: std::sync::LazyLock<Pose> = std::sync::LazyLock::new(Pose::identity);
    Query {
        tool,
        tool_pose,
        tool_twist: &Twist::ZERO,
        object,
        object_pose: &ORIGIN,
        object_twist: &Twist::ZERO,
        material: &MATERIAL,
    }
}

/// Times of `queries` queries along the motion, sorted, us, and the last answer. `cold`: each with an empty memory.
pub fn timed(
    tool: &ToolShape,
    object: &ObjectShape,
    apart: f64,
    queries: usize,
    cold: bool,
) -> (Vec<f64>, Contact) {
    let mut state = QueryState::default();
    let mut last = Contact::none(None);
    let mut times: Vec<f64> = (0..queries)
        .map(|k| {
            let tool_pose = pose(k, apart);
            let q = question(tool, &tool_pose, object);
            if cold {
                state = QueryState::default();
            }
            let start = Instant::now();
            last = query(black_box(&q), Budget::UNLIMITED, &mut state);
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times, last)
}

/// Slope of the straight line through the logarithms.
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let (xy, xx) =
        logs.iter().fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + (x - mx) * (y - my), xx + (x - mx).powi(2)));
    xy / xx
}

/// Names, curves (number of elements, us) and colours.
pub type Series<'a> = (&'a str, Vec<(f64, f64)>, RGBColor);

/// Draws cost against the number of `elements` from `least` on, both logarithmic.
pub fn draw(
    file: &str,
    elements: &str,
    least: f64,
    series: &[Series<'_>],
) -> Result<(), Box<dyn std::error::Error>> {
    plotters::style::register_font("sans", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "font")?;
    let area = BitMapBackend::new(file, (1000, 700)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Cost of a query against {elements}: two tori"), ("sans", 22))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(70)
        .build_cartesian_2d((0.8 * least..1.3e6).log_scale(), (0.05..1e4).log_scale())?;
    chart.configure_mesh().x_desc(elements).y_desc("µs, least").label_style(("sans", 15)).draw()?;
    for (name, points, colour) in series {
        let colour = *colour;
        let label = format!("{name}: ~ n^{:.2}", exponent(points));
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(3)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
        chart.draw_series(points.iter().map(|p| Circle::new(*p, 5, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans", 17))
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}
