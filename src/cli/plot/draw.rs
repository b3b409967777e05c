//! The picture: stacked panels over one time axis, contact shaded, faults and missed ticks marked.

use super::reduce::{Column, Columns, SERIES, Series, Span};
use super::scale::{self, Unit};
use crate::recording::{ClockKind, Header};
use anyhow::anyhow;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::register_font;
use std::path::Path;

const INK: RGBColor = RGBColor(40, 44, 52);
const GREY: RGBColor = RGBColor(120, 126, 135);
const GRID: RGBColor = RGBColor(222, 225, 229);
const CONTACT: RGBColor = RGBColor(255, 236, 204);
const FORCES_OFF: RGBColor = RGBColor(232, 234, 238);
const FAULT: RGBColor = RGBColor(247, 190, 190);
// Okabe-Ito colours: told apart by colour-blind eyes too.
const X: RGBColor = RGBColor(213, 94, 0);
const Y: RGBColor = RGBColor(0, 158, 115);
const Z: RGBColor = RGBColor(0, 114, 178);
const MISSED: RGBColor = RGBColor(200, 30, 30);

const FONT: &str = "hapticd-sans";
/// The picture is drawn this many times larger and averaged down: smooth lines and letters.
const S: u32 = 2;
const SI: i32 = S as i32;
const HEAD: u32 = 62 * S;
const TITLE_STRIP: u32 = 26 * S;
const AXIS: u32 = 44 * S;
const LEFT: u32 = 74 * S;
const RIGHT: u32 = 24 * S;

/// Width below which the letters are smaller.
const NARROW: u32 = 900 * S;
/// Width of a mark of the key with its margins.
const KEY_STEP: u32 = 42;

type Area<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;

/// One line of a panel.
struct Line {
    series: Series,
    name: &'static str,
    colour: RGBColor,
    width: u32,
}

const fn line(series: Series, name: &'static str, colour: RGBColor, width: u32) -> Line {
    Line { series, name, colour, width }
}

struct Panel {
    title: String,
    unit: Unit,
    lines: Vec<Line>,
    log: bool,
    missed: bool,
}

/// The bitmap backend picks the format by the ending, and knows more formats than we built in.
///
/// # Errors
/// Another ending.
pub fn must_be_png(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")),
        "the picture's name must end in .png"
    );
    Ok(())
}

/// Draws the columns into a PNG file.
///
/// # Errors
/// The file cannot be written.
pub fn draw(
    path: &Path,
    size: (u32, u32),
    name: &str,
    header: &Header,
    columns: &Columns,
) -> anyhow::Result<()> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| anyhow!("font"))?;
    register_font(FONT, FontStyle::Bold, dejavu::sans::bold()).map_err(|_| anyhow!("font"))?;
    must_be_png(path)?;
    let large = (size.0 * S, size.1 * S);
    let mut pixels = vec![0u8; large.0 as usize * large.1 as usize * 3];
    draw_large(&mut pixels, large, name, header, columns)?;
    let small = average(&pixels, large);
    let mut file = BitMapBackend::new(path, size);
    file.blit_bitmap((0, 0), size, &small)?;
    file.present()?;
    Ok(())
}

fn draw_large(
    pixels: &mut [u8],
    size: (u32, u32),
    name: &str,
    header: &Header,
    columns: &Columns,
) -> anyhow::Result<()> {
    let root = BitMapBackend::with_buffer(pixels, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    caption(&head, name, header, columns)?;
    let panels = panels(header, columns);
    // The last panel also carries the time axis.
    let each = (size.1 - HEAD - AXIS) / panels.len() as u32;
    let cuts: Vec<u32> = (1..panels.len() as u32).map(|i| i * each).collect();
    for (i, (panel, area)) in panels.iter().zip(body.split_by_breakpoints([0u32; 0], &cuts)).enumerate() {
        let last = i + 1 == panels.len();
        draw_panel(&area, panel, columns, if last { AXIS } else { 6 * S }, last)?;
    }
    root.present()?;
    Ok(())
}

/// Averages blocks of `S` by `S` pixels.
fn average(large: &[u8], size: (u32, u32)) -> Vec<u8> {
    let (width, scale) = (size.0 as usize, S as usize);
    let mut small = Vec::with_capacity(large.len() / (scale * scale));
    for y in 0..size.1 as usize / scale {
        for x in 0..width / scale {
            for channel in 0..3 {
                let at = |i: usize| (y * scale + i / scale) * width + x * scale + i % scale;
                let sum: usize = (0..scale * scale).map(|i| usize::from(large[at(i) * 3 + channel])).sum();
                small.push((sum / (scale * scale)) as u8);
            }
        }
    }
    small
}

fn panels(header: &Header, columns: &Columns) -> Vec<Panel> {
    let max = |series| columns.range(series).map_or(0.0, |r: (f64, f64)| r.1);
    let mut panels = vec![
        Panel {
            title: "Force on the hand".into(),
            unit: scale::force(max(Series::Force)),
            lines: vec![
                line(Series::ForceX, "x", X, 1),
                line(Series::ForceY, "y", Y, 1),
                line(Series::ForceZ, "z", Z, 1),
                line(Series::Force, "magnitude", INK, 2),
            ],
            log: false,
            missed: false,
        },
        Panel {
            title: "Torque on the hand".into(),
            unit: scale::torque(max(Series::Torque)),
            lines: vec![
                line(Series::TorqueX, "x", X, 1),
                line(Series::TorqueY, "y", Y, 1),
                line(Series::TorqueZ, "z", Z, 1),
                line(Series::Torque, "magnitude", INK, 2),
            ],
            log: false,
            missed: false,
        },
        Panel {
            title: "Deepest penetration".into(),
            unit: scale::length(max(Series::Depth)),
            lines: vec![line(Series::Depth, "depth", INK, 2)],
            log: false,
            missed: false,
        },
    ];
    panels.push(match header.clock {
        ClockKind::Real => Panel {
            title: "Tick".into(),
            unit: scale::time(max(Series::Compute).max(max(Series::Wake))),
            lines: vec![
                line(Series::Wake, "wake error", GREY, 1),
                line(Series::Compute, "compute time", Z, 2),
            ],
            log: true,
            missed: true,
        },
        // No times there: the work units tell what a tick costs.
        ClockKind::Virtual => Panel {
            title: "Work of the contact query".into(),
            unit: Unit { factor: 1.0, name: "units" },
            lines: vec![line(Series::Work, "work", Z, 2)],
            log: false,
            missed: true,
        },
    });
    panels
}

fn caption(area: &Area<'_>, name: &str, header: &Header, columns: &Columns) -> anyhow::Result<()> {
    let ticks = columns.records();
    let sum = |f: fn(&Column) -> u64| columns.columns().iter().map(f).sum::<u64>();
    let touching = 100.0 * sum(|c| u64::from(c.touching)) as f64 / ticks.max(1) as f64;
    let clock = match header.clock {
        ClockKind::Real => "real clock",
        ClockKind::Virtual => "virtual clock",
    };
    let (width, _) = area.dim_in_pixel();
    // Smaller letters where the picture is small: everything that is said must fit.
    let small = width < NARROW;
    let size = if small { 10 } else { 15 };
    let key = ["fault", "forces off", "in contact"];
    let mut key_width = 0;
    for text in key {
        key_width += area.estimate_text_size(text, &font(size, false, INK))?.0 + KEY_STEP * S;
    }
    let room = (width - LEFT - RIGHT).saturating_sub(key_width);
    let name = fit(area, name, if small { 14 } else { 20 }, room);
    area.draw(&Text::new(name, (LEFT as i32, 10 * SI), font(if small { 14 } else { 20 }, true, INK)))?;
    let where_ = format!("device {} · scene {} · {clock}", header.device, header.scene);
    let ticks = crate::geometry::import::count(ticks as usize, "tick");
    let what = format!("{ticks} · {} missed · contact in {touching:.0} %", sum(|c| c.missed));
    let lines = if small { vec![where_, what] } else { vec![format!("{where_} · {what}")] };
    for (k, text) in lines.iter().enumerate() {
        let at = if small { 32 + 14 * k as i32 } else { 36 };
        let text = fit(area, text, size, width - LEFT - RIGHT);
        area.draw(&Text::new(text, (LEFT as i32, at * SI), font(size, false, GREY)))?;
    }
    // Key to the shading.
    let mut x = width as i32 - RIGHT as i32;
    for (text, colour) in key.into_iter().zip([FAULT, FORCES_OFF, CONTACT]) {
        let (w, _) = area.estimate_text_size(text, &font(size, false, INK))?;
        x -= w as i32;
        area.draw(&Text::new(text, (x, 13 * SI), font(size, false, INK)))?;
        x -= 24 * SI;
        area.draw(&Rectangle::new([(x, 13 * SI), (x + 17 * SI, 27 * SI)], colour.filled()))?;
        area.draw(&Rectangle::new([(x, 13 * SI), (x + 17 * SI, 27 * SI)], GREY))?;
        x -= 18 * SI;
    }
    Ok(())
}

/// Cuts a text so that it fits.
fn fit(area: &Area<'_>, text: &str, size: u32, width: u32) -> String {
    let mut text = text.to_owned();
    while area.estimate_text_size(&text, &font(size, false, GREY)).is_ok_and(|(w, _)| w > width) {
        let keep = text.chars().count().saturating_sub(4);
        text = text.chars().take(keep).chain(['…']).collect();
    }
    text
}

fn font(size: u32, bold: bool, colour: RGBColor) -> TextStyle<'static> {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    TextStyle { color: colour.to_backend_color(), ..TextStyle::from((FONT, size * S, style).into_font()) }
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel,
    columns: &Columns,
    bottom: u32,
    last: bool,
) -> anyhow::Result<()> {
    let (strip, chart) = area.split_vertically(TITLE_STRIP);
    let label = format!("{} [{}]", panel.title, panel.unit.name);
    let small = strip.dim_in_pixel().0 < NARROW;
    let head = font(if small { 11 } else { 16 }, true, INK);
    let gap = if small { 14 } else { 30 };
    let mut x = LEFT as i32 + strip.estimate_text_size(&label, &head)?.0 as i32 + gap * SI;
    strip.draw(&Text::new(label, (LEFT as i32, 6 * SI), head))?;
    let (size, step) = if small { (10, 8) } else { (15, 22) };
    for l in &panel.lines {
        strip.draw(&PathElement::new(
            [(x, 15 * SI), (x + step * SI, 15 * SI)],
            l.colour.stroke_width((l.width + 1) * S),
        ))?;
        strip.draw(&Text::new(l.name, (x + (step + 6) * SI, 7 * SI), font(size, false, INK)))?;
        x += (2 * step + 6) * SI + strip.estimate_text_size(l.name, &font(size, false, INK))?.0 as i32;
    }
    if panel.missed && columns.columns().iter().any(|c| c.missed > 0) {
        strip.draw(&TriangleMarker::new((x + 8 * SI, 16 * SI), 6 * S, MISSED.filled()))?;
        strip.draw(&Text::new("missed tick", (x + 20 * SI, 7 * SI), font(size, false, INK)))?;
    }
    let span = |f: fn((f64, f64)) -> f64, join: fn(f64, f64) -> f64| {
        panel.lines.iter().filter_map(|l| columns.range(l.series)).map(f).reduce(join).unwrap_or(0.0)
            * panel.unit.factor
    };
    let (min, max) = (span(|r| r.0, f64::min), span(|r| r.1, f64::max));
    let mut builder = ChartBuilder::on(&chart);
    builder.set_label_area_size(LabelAreaPosition::Left, LEFT).margin_right(RIGHT);
    builder.set_label_area_size(LabelAreaPosition::Bottom, bottom).margin_top(2 * S);
    let time = 0.0..columns.seconds();
    if panel.log && max > 0.0 {
        let floor = panel
            .lines
            .iter()
            .filter_map(|l| columns.smallest_positive(l.series))
            .min_by(f64::total_cmp)
            .map_or(max / 10.0, |v| v * panel.unit.factor);
        // Below a tenth of a microsecond there is nothing to see.
        let floor = floor.clamp(max * 1e-6, max).max(0.1_f64.min(max / 10.0)) * 0.8;
        let chart = builder.build_cartesian_2d(time, (floor..max * 1.6).log_scale())?;
        fill_panel(chart, panel, columns, (floor, max * 1.6), last)
    } else {
        let (lo, hi) = scale::padded(min, max);
        let chart = builder.build_cartesian_2d(time, lo..hi)?;
        fill_panel(chart, panel, columns, (lo, hi), last)
    }
}

fn fill_panel<Yc>(
    mut chart: ChartContext<'_, BitMapBackend<'_>, Cartesian2d<RangedCoordf64, Yc>>,
    panel: &Panel,
    columns: &Columns,
    (lo, hi): (f64, f64),
    last: bool,
) -> anyhow::Result<()>
where
    Yc: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    shade(&mut chart, columns, (lo, hi))?;
    let x_format = |v: &f64| tidy(*v);
    let y_format = |v: &f64| tidy(*v);
    let no_label = |_: &f64| String::new();
    let chart_width = chart.plotting_area().dim_in_pixel().0;
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID.stroke_width(S)).light_line_style(TRANSPARENT).axis_style(GREY.stroke_width(S));
    mesh.x_labels(if chart_width < NARROW { 5 } else { 12 }).y_labels(6).label_style(font(14, false, INK));
    mesh.x_label_formatter(&x_format).y_label_formatter(&y_format);
    if last {
        mesh.x_desc("time [s]");
    } else {
        mesh.x_label_formatter(&no_label);
    }
    mesh.axis_desc_style(font(15, false, INK)).draw()?;
    let zero = [(0.0, 0.0), (columns.seconds(), 0.0)];
    if lo < 0.0 {
        chart.draw_series([PathElement::new(zero, GREY.stroke_width(S))])?;
    }
    for l in &panel.lines {
        let style = l.colour.stroke_width(l.width * S);
        for piece in pieces(columns, l.series, panel.unit.factor, lo) {
            // Each segment by itself: the backend's joins of thick lines shoot out at sharp corners.
            let segments =
                piece.windows(2).filter(|w| w[0] != w[1]).map(|w| PathElement::new([w[0], w[1]], style));
            chart.draw_series(segments)?;
            if let [alone] = piece[..] {
                chart.draw_series([Circle::new(alone, (l.width + 1) * S, l.colour.filled())])?;
            }
        }
    }
    if panel.missed {
        let at = columns.columns().iter().enumerate().filter(|(_, c)| c.missed > 0);
        let marks = at.map(|(i, _)| ((i as f64 + 0.5) * columns.width_s(), hi));
        chart.draw_series(
            marks.map(|p| EmptyElement::at(p) + TriangleMarker::new((0, 8 * SI), 6 * S, MISSED.filled())),
        )?;
    }
    Ok(())
}

/// Contact, forces off and faults as bands behind the lines.
fn shade<Yc: Ranged<ValueType = f64>>(
    chart: &mut ChartContext<'_, BitMapBackend<'_>, Cartesian2d<RangedCoordf64, Yc>>,
    columns: &Columns,
    (lo, hi): (f64, f64),
) -> anyhow::Result<()> {
    let kind = |c: &Column| match c {
        c if c.ticks == 0 => None,
        c if c.fault > 0 => Some(FAULT),
        c if c.rendering * 2 < c.ticks => Some(FORCES_OFF),
        c if c.touching > 0 => Some(CONTACT),
        _ => None,
    };
    let mut bands: Vec<(usize, usize, RGBColor)> = Vec::new();
    for (i, c) in columns.columns().iter().enumerate() {
        match (kind(c), bands.last_mut()) {
            (Some(colour), Some(band)) if band.1 == i && band.2 == colour => band.1 = i + 1,
            (Some(colour), _) => bands.push((i, i + 1, colour)),
            (None, _) => {}
        }
    }
    let width = columns.width_s();
    chart.draw_series(bands.into_iter().map(|(from, to, colour)| {
        Rectangle::new([(from as f64 * width, lo), (to as f64 * width, hi)], colour.filled())
    }))?;
    Ok(())
}

/// The points of a line, broken where records are missing for long.
fn pieces(columns: &Columns, series: Series, factor: f64, floor: f64) -> Vec<Vec<(f64, f64)>> {
    debug_assert!((series as usize) < SERIES);
    let width = columns.width_s();
    let gap = (0.02 / width).max(3.0) as usize;
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut previous = None;
    for (i, column) in columns.columns().iter().enumerate() {
        let Some(Span { first, min, max, last }) = column.series[series as usize] else { continue };
        if previous.is_none_or(|p| i - p > gap) {
            pieces.push(Vec::new());
        }
        previous = Some(i);
        let x = (i as f64 + 0.5) * width;
        if let Some(piece) = pieces.last_mut() {
            let clamped = [first, min, max, last].map(|v| (x, (v * factor).max(floor)));
            piece.extend_from_slice(if column.ticks > 1 { &clamped } else { &clamped[..1] });
        }
    }
    pieces
}

/// A number for an axis: no trailing zeros, no rounding noise.
fn tidy(v: f64) -> String {
    if v != 0.0 && (v.abs() < 1e-3 || v.abs() >= 1e6) {
        return format!("{v:.1e}");
    }
    let text = format!("{v:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servo::record::TickRecord;

    #[test]
    fn axis_numbers_are_short() {
        assert_eq!(tidy(-0.0), "0");
        assert_eq!(tidy(0.30000000000000004), "0.3");
        assert_eq!(tidy(250.0), "250");
        assert_eq!(tidy(2e-5), "2.0e-5");
    }

    #[test]
    fn long_gaps_break_the_line_and_short_ones_do_not() {
        let mut columns = Columns::new(1000, 1_000_000);
        for ms in (0..100).chain(102..200).chain(400..500) {
            columns.push(&TickRecord { planned_ns: ms * 1_000_000, depth: 1.0, ..TickRecord::default() });
        }
        assert_eq!(pieces(&columns, Series::Depth, 1.0, 0.0).len(), 2);
    }

    #[test]
    fn flat_and_empty_runs_are_drawn_too() {
        let dir = tempfile::tempdir().unwrap();
        for clock in [ClockKind::Real, ClockKind::Virtual] {
            let mut columns = Columns::new(800, 1_000_000);
            columns.push(&TickRecord { distance: f64::INFINITY, depth: f64::NAN, ..TickRecord::default() });
            let path = dir.path().join("flat.png");
            draw(&path, (800, 600), "flat", &Header::new("d", "s", clock), &columns).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(&bytes[1..4], b"PNG");
        }
    }
}
