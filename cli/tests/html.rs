//! `hcomm plan --html` in a real browser: the page draws itself without an error, in time, answers to the pointer, and is not blank.
//! Where there is no Chromium, nothing is tested, and that is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the page promises for 10,000 nodes: to be drawn, and a frame while it is moved. Tests allow ten times as much.
const DRAWN_MS: f64 = 1000.0;
const FRAME_MS: f64 = 60.0;

/// Frames are painted at once instead of when the screen is ready, so that they can be timed here; reading a pixel makes the
/// browser finish each of them.
const BEFORE: &str = r#"<script>
window.frames_ms = [];
window.requestAnimationFrame = (call) => {
  const begun = performance.now();
  call(begun);
  for (const canvas of document.querySelectorAll("canvas")) canvas.getContext("2d").getImageData(0, 0, 1, 1);
  window.frames_ms.push(performance.now() - begun);
  return 0;
};
</script>"#;

/// Turns the wheel and moves the pointer as a user would, and leaves what came of it in attributes.
const AFTER: &str = r##"<script>
try {
  const said = document.documentElement.dataset;
  const details = () => { const box = document.getElementById("details"); return box.hidden ? "" : box.textContent; };
  const send = (target, kind, x, y, more) => {
    const make = kind === "wheel" ? WheelEvent : PointerEvent;
    target.dispatchEvent(new make(kind, { bubbles: true, cancelable: true, clientX: x, clientY: y, ...more }));
  };
  const hunt = (section, from, found) => {
    const box = section.getBoundingClientRect();
    for (let y = box.top + from * box.height; y < box.bottom; y += 5) {
      for (let x = box.left + 150; x < box.right; x += 9) {
        send(document.elementFromPoint(x, y), "pointermove", x, y);
        if (details()) return found(x, y);
      }
    }
  };
  const graph = document.querySelector(".graph:not([hidden])"), times = document.getElementById("times");
  const painted = () => graph.querySelector("canvas")?.toDataURL();
  const opened = painted();
  document.querySelector("button[data-do=fit]").click();
  said.opens = opened === painted() ? "fitted" : "cut off";
  for (const section of [graph, times]) {
    const box = section.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    for (let i = 0; i < 24; i++) send(section, "wheel", x, y, { deltaY: i < 12 ? -300 : 280 });
    send(section, "pointerdown", x, y);
    for (let i = 0; i < 12; i++) send(section, "pointermove", x + 9 * i, y + 4 * i);
    send(section, "pointerup", x + 99, y + 44);
  }
  said.slowest = Math.max(...frames_ms).toFixed(1);
  said.mean = (frames_ms.reduce((a, b) => a + b) / frames_ms.length).toFixed(1);
  for (const button of document.querySelectorAll("button[data-do=fit], button[data-do=all]")) button.click();
  hunt(graph, 0.5, () => { said.onGraph = details(); });
  send(graph, "pointerleave", 0, 0);
  said.gone = details();
  hunt(times, 0.1, () => {
    said.onTimes = details();
    said.pointed = document.querySelectorAll("svg .pointed").length;
  });
  const fold = document.querySelector("button[data-do=fold]");
  if (fold) {
    const boxes = () => [said.boxes, document.querySelectorAll(".graph:not([hidden])").length, fold.textContent].join();
    said.folded = boxes();
    fold.click();
    said.unfolded = boxes();
    fold.click();
    said.again = boxes();
    const high = times.style.height, box = times.getBoundingClientRect();
    for (const kind of ["pointerdown", "pointerup"]) send(times.querySelector("canvas"), kind, box.left + 30, box.top + 34);
    said.rows = times.style.height !== high;
  }
} catch (error) { document.documentElement.dataset.error = String(error); }
</script>"##;

/// Where Chromium is.
fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    let found = places.into_iter().find(|place| place.is_file());
    if found.is_none() {
        println!("skipped: no Chromium here");
    }
    found
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("html").join(name);
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

fn hcomm(args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_hcomm")).args(args).output().expect("hcomm starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
}

/// Opens a page and returns what the browser prints.
fn browse(folder: &Path, page: &Path, args: &[&str]) -> String {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let always = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1400,900",
        &profile,
    ];
    let output = Command::new(chromium().expect("looked for before"))
        .args(always)
        .args(args)
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .expect("Chromium starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An attribute that the page has set on its root element.
fn said(dom: &str, name: &str) -> Option<String> {
    let root = dom.split_once("<html")?.1.split_once('>')?.0;
    let value = root.split_once(&format!("data-{name}=\""))?.1;
    Some(value.split_once('"')?.0.to_owned())
}

fn number(dom: &str, name: &str) -> f64 {
    let words = said(dom, name).unwrap_or_else(|| panic!("the page has not said {name}"));
    words.trim_end_matches(" ms").parse().unwrap_or_else(|_| panic!("{name} is {words}"))
}

/// The size of a picture of a page: a blank one compresses to little.
fn shot_bytes(folder: &Path, page: &Path, name: &str) -> u64 {
    let shot = folder.join(name);
    browse(folder, page, &[&format!("--screenshot={}", shot.display())]);
    let bytes = fs::read(&shot).expect("a screenshot");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{} is no PNG", shot.display());
    bytes.len() as u64
}

/// Draws a plan, opens its page, and checks what the page says of itself.
fn check(name: &str, args: &[&str], nodes: usize) {
    if chromium().is_none() {
        return;
    }
    let folder = folder(name);
    let page = folder.join("plan.html");
    let file = page.to_str().expect("a plain path");
    hcomm(&[&["plan"], args, &["--html", file]].concat());
    let dom = browse(&folder, &page, &["--dump-dom"]);
    assert_eq!(said(&dom, "error"), None, "{name}");
    assert_eq!(said(&dom, "drawn"), Some(format!("{nodes} nodes")), "{name}");
    assert!(number(&dom, "took") <= 10.0 * DRAWN_MS, "{name} took {}", number(&dom, "took"));
    check_answers(name, &folder, &page);
    let blank = folder.join("blank.html");
    fs::write(&blank, "<!doctype html><title>blank</title>").expect("it can be written");
    let (empty, drawn) = (shot_bytes(&folder, &blank, "blank.png"), shot_bytes(&folder, &page, "plan.png"));
    assert!(drawn > 4 * empty, "{name}: a picture of {drawn} bytes beside {empty} of a blank page");
}

/// The page answers to wheel and pointer, in time.
fn check_answers(name: &str, folder: &Path, page: &Path) {
    let text = fs::read_to_string(page).expect("it was written");
    let at = text.find("<script>").expect("the page's script");
    let driven =
        format!("{}{BEFORE}{}", &text[..at], text[at..].replace("</body>", &format!("{AFTER}</body>")));
    let copy = folder.join("driven.html");
    fs::write(&copy, driven).expect("it can be written");
    let dom = browse(folder, &copy, &["--dump-dom"]);
    assert_eq!(said(&dom, "error"), None, "{name}");
    assert_eq!(said(&dom, "opens").as_deref(), Some("fitted"), "{name}");
    println!("{name}: {} ms a frame, the slowest {}", number(&dom, "mean"), number(&dom, "slowest"));
    assert!(number(&dom, "slowest") <= 10.0 * FRAME_MS, "{name}: a frame of {}", number(&dom, "slowest"));
    for place in ["on-graph", "on-times"] {
        let words = said(&dom, place).unwrap_or_else(|| panic!("{name}: nothing is told {place}"));
        assert!(words.starts_with("rank ") && words.contains("predicted"), "{name}, {place}: {words}");
    }
    assert_eq!(said(&dom, "gone").as_deref(), Some(""), "{name}: the details go with the pointer");
    let is_painted = dom.contains("<canvas") && !dom.contains("<svg");
    let pointed = if is_painted { "0" } else { "1" };
    assert_eq!(
        said(&dom, "pointed").as_deref(),
        Some(pointed),
        "{name}: what is pointed at below is marked above"
    );
}

#[test]
fn a_ring_of_four() {
    check("ring", &["all_reduce", "-n", "4", "--algorithm", "ring"], 32);
}

#[test]
fn a_tree_of_eight() {
    check("tree", &["broadcast", "-n", "8", "--algorithm", "binomial"], 8);
}

#[test]
fn many_lanes_fold_and_unfold() {
    check("folded", &["all_to_all", "-n", "12", "--hosts", "2", "--algorithm", "direct"], 276);
    let Some(_) = chromium() else { return };
    let folder = folder("folded");
    let dom = browse(&folder, &folder.join("driven.html"), &["--dump-dom"]);
    let boxes: usize =
        said(&dom, "folded").and_then(|words| words.split(',').next()?.parse().ok()).expect("a number");
    assert!(boxes < 276 / 3, "{boxes}");
    assert_eq!(said(&dom, "folded"), Some(format!("{boxes},1,unfold lanes")));
    assert_eq!(said(&dom, "unfolded").as_deref(), Some("276,1,fold lanes"));
    assert_eq!(said(&dom, "again"), said(&dom, "folded"));
    assert_eq!(said(&dom, "rows").as_deref(), Some("true"), "a click on a rank's name unfolds its rows");
}

#[test]
fn ten_thousand_nodes() {
    check("large", &["all_reduce", "-n", "71", "--algorithm", "ring", "--bytes", "71MB"], 10_082);
}

#[test]
fn tall_times_leave_the_graph_less_room() {
    check("tall", &["all_reduce", "-n", "50", "--algorithm", "multi_ring:2", "--bytes", "8M"], 10_000);
}

#[test]
fn a_trace_beside_its_prediction() {
    if chromium().is_none() {
        return;
    }
    let folder = folder("trace");
    let (trace, page) = (folder.join("trace.json"), folder.join("plan.html"));
    let (trace, file) = (trace.to_str().expect("a plain path"), page.to_str().expect("a plain path"));
    let call = ["all_reduce", "-n", "3", "--algorithm", "ring"];
    let bench = ["--transport", "inproc", "--sizes", "600KB", "--iters", "2", "--trace", trace];
    hcomm(&[&["bench"], &call[..], &bench].concat());
    hcomm(&[&["plan"], &call[..], &["--bytes", "600KB", "--html", file, "--trace", trace]].concat());
    let dom = browse(&folder, &page, &["--dump-dom"]);
    assert_eq!(said(&dom, "error"), None);
    assert_eq!(said(&dom, "drawn").as_deref(), Some("18 nodes"));
    let runs = said(&dom, "runs").expect("the page says how many");
    let runs: Vec<usize> = runs.split(' ').map(|count| count.parse().expect("a number")).collect();
    assert!(runs[0] >= 18 && runs[1] == 36, "{runs:?}: measured and predicted, of two tiles of 128 KiB");
    assert!(dom.contains("measured: ") && dom.contains("same scale"));
    let shot = shot_bytes(&folder, &page, "plan.png");
    assert!(shot > 20_000, "a picture of {shot} bytes");
}
