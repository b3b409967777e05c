//! Prometheus text on loopback: just enough HTTP for a scraper.

use super::ipc::Server;
use super::lobby::Lobby;
use super::names;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Scrapes at a time; of more, the one that has not asked for longest gives way.
const MAX_SCRAPES: usize = 16;
/// Longest request, bytes.
const MAX_REQUEST: usize = 8192;
/// Time for a scrape.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers scrapes for ever.
pub async fn serve(server: Arc<Server>, listener: TcpListener) {
    let lobby = Lobby::new(MAX_SCRAPES);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // TCP does not say who is there.
        let mut place = lobby.enter(0, 0);
        let server = server.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = tokio::time::timeout(PATIENCE, scrape(&server, stream)) => {}
                () = place.given_away() => {}
            }
        });
    }
}

async fn scrape(server: &Server, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut chunk).await?;
        if n == 0 || head.len() + n > MAX_REQUEST {
            return Ok(());
        }
        head.extend_from_slice(&chunk[..n]);
    }
    stream.write_all(answer(&head, || text(server)).as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to a request that begins with `head`.
fn answer(head: &[u8], text: impl FnOnce() -> String) -> String {
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).map(|l| l.split(' ').collect()).unwrap_or_default();
    let (method, target) = match words.as_slice() {
        [method, target, version] if version.starts_with("HTTP/") => (*method, *target),
        _ => ("", ""),
    };
    let only = || "only GET /metrics is served\n".to_owned();
    let (status, more, body) = match (method, target.split('?').next()) {
        ("", _) => ("400 Bad Request", "", only()),
        ("GET" | "HEAD", Some("/metrics")) => ("200 OK", "", text()),
        (_, Some("/metrics")) => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n", only()),
        _ => ("404 Not Found", "", only()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n{body}"
    )
}

/// One metric: its kind, and its values by labels.
#[derive(Default)]
struct Metric {
    kind: &'static str,
    values: Vec<(String, String)>,
}

/// Metrics by name, in the order in which they came.
#[derive(Default)]
struct Metrics(Vec<(String, Metric)>);

impl Metrics {
    fn put(&mut self, name: &str, kind: &'static str, labels: &[(&str, &str)], value: impl ToString) {
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let known = self.0.iter().position(|(n, _)| n == name);
        let at = known.unwrap_or_else(|| {
            self.0.push((name.into(), Metric { kind, values: Vec::new() }));
            self.0.len() - 1
        });
        self.0[at].1.values.push((labels, value.to_string()));
    }

    /// All values of a metric stand together, as the format wants it.
    fn text(&self) -> String {
        let mut out = String::new();
        for (name, metric) in &self.0 {
            let _ = writeln!(out, "# TYPE hapticd_{name} {}", metric.kind);
            for (labels, value) in &metric.values {
                let _ = writeln!(out, "hapticd_{name}{labels} {value}");
            }
        }
        out
    }
}

/// Maxima fall when the servo starts anew; everything else only rises.
fn kind(counter: &str) -> &'static str {
    if counter.contains("max") { "gauge" } else { "counter" }
}

fn text(server: &Server) -> String {
    let mut all = Metrics::default();
    for (name, value) in server.count_daemon() {
        all.put(&name, kind(&name), &[], value);
    }
    all.put("generation", "gauge", &[], server.scene.generation());
    all.put("sessions", "gauge", &[], server.sessions.list().len());
    for (device, shared) in server.bridge.shared.devices.iter().enumerate() {
        // Which one, where there are several. A role has nothing in it that a label would have to escape then.
        let role: Vec<_> = server.board.name(device).map(|role| ("device", role)).into_iter().collect();
        for (name, value) in server.count_device(device) {
            all.put(&name, kind(&name), &role, value);
        }
        all.put("armed", "gauge", &role, u8::from(shared.owner.load(Relaxed) != 0));
        let Some(r) = shared.latest() else { continue };
        let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (name, value) in [
            ("generation_felt", r.generation as f64),
            ("force_newton", norm(r.force)),
            ("torque_newton_metre", norm(r.torque)),
            ("depth_metre", r.depth),
            ("tick_compute_seconds", r.compute_ns as f64 * 1e-9),
        ] {
            all.put(name, "gauge", &role, value);
        }
        for (name, value) in [("state", names::state(r.state)), ("fault", names::fault(r.fault))] {
            let labels: Vec<_> = role.iter().copied().chain([(name, value)]).collect();
            all.put(name, "gauge", &labels, 1);
        }
    }
    all.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_decides_the_status() {
        for (line, status, length) in [
            ("GET /metrics HTTP/1.1", "200 OK", 3),
            ("GET /metrics?name=x HTTP/1.0", "200 OK", 3),
            ("HEAD /metrics HTTP/1.1", "200 OK", 0),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed", 28),
            ("DELETE /metrics HTTP/1.1", "405 Method Not Allowed", 28),
            ("GET / HTTP/1.1", "404 Not Found", 28),
            ("POST /metricsx HTTP/1.1", "404 Not Found", 28),
            ("GET /metrics", "400 Bad Request", 28),
            ("\u{16}\u{3}\u{1}", "400 Bad Request", 28),
        ] {
            let head = format!("{line}\r\nHost: x\r\n\r\n");
            let answer = answer(head.as_bytes(), || "x 1".into());
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert_eq!(head.lines().next(), Some(format!("HTTP/1.1 {status}").as_str()), "{line}");
            assert_eq!(body.len(), length, "{line}");
            // RFC 9110, section 15.5.6: a 405 names what is allowed.
            assert_eq!(head.contains("Allow: GET, HEAD"), status.starts_with("405"), "{line}");
        }
        assert!(answer(&[0xff, b'\r'], String::new).contains("400"));
    }
}
