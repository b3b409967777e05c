//! The Z-width of a device: the border of stable stiffness over damping.

use super::Report;
use super::measure::Limit;
use plotters::prelude::*;
use plotters::style::register_font;
use std::path::Path;

// Okabe-Ito colours: told apart by colour-blind eyes too.
const NOBODY: RGBColor = RGBColor(213, 94, 0);
const NORMAL: RGBColor = RGBColor(0, 114, 178);
const CERTIFIED: RGBColor = RGBColor(0, 158, 115);
const CONTROLLER: RGBColor = RGBColor(204, 121, 167);
const ASKED: RGBColor = RGBColor(120, 126, 135);
const SIZE: (u32, u32) = (1000, 700);

/// Draws a PNG file.
pub(super) fn draw(path: &Path, report: &Report) -> anyhow::Result<()> {
    register_font("sans", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| anyhow::anyhow!("font"))?;
    anyhow::ensure!(!report.width.is_empty(), "there is nothing to draw: the motors press nothing");
    let most = report.width.iter().map(|l| l.damping).fold(1e-3, f64::max);
    let all = report
        .width
        .iter()
        .flat_map(|l| [l.nobody, l.normal, l.controller])
        .chain([report.asked, report.shipped.certified.stiffness]);
    let (low, high) =
        all.filter(|k| *k > 0.0).fold((f64::MAX, 1.0), |(a, b): (f64, f64), k| (a.min(k), b.max(k)));
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: stiffness that comes to rest", report.name), ("sans", 26))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..most, ((0.5 * low)..(2.0 * high)).log_scale())?;
    let label = ("sans", 18);
    chart
        .configure_mesh()
        .x_desc("virtual damping, N·s/m")
        .y_desc("stiffness, N/m")
        .label_style(label)
        .axis_desc_style(label)
        .light_line_style(WHITE)
        .draw()?;
    let border = |of: fn(&Limit) -> f64| report.width.iter().map(move |l| (l.damping, of(l)));
    let flat = |k: f64| [(0.0, k), (most, k)].into_iter();
    let lines: [(&str, RGBColor, Vec<(f64, f64)>); 5] = [
        ("in a relaxed hand", NORMAL, border(|l| l.normal).collect()),
        ("in a relaxed hand, with the controller", CONTROLLER, border(|l| l.controller).collect()),
        ("without a hand", NOBODY, border(|l| l.nobody).collect()),
        ("rendered at most", ASKED, flat(report.asked).collect()),
        (
            "felt under the energy bound, whatever the hand does",
            CERTIFIED,
            flat(report.shipped.certified.stiffness).collect(),
        ),
    ];
    for (name, colour, points) in lines {
        // Nothing is bounded where nothing is certified.
        if colour == CERTIFIED && report.covered.is_none() {
            continue;
        }
        let style = colour.stroke_width(3);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(label)
        .background_style(WHITE.mix(0.85))
        .draw()?;
    root.present()?;
    Ok(())
}
