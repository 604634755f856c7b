//! Plans as one HTML file that asks for nothing else: the graph, and above it or below it, lane by lane, when each node runs
//! by the cost model and, where there is a trace, when it ran. `data` is what the page's script is given; the script and its
//! style stand in files of their own beside this one.

mod data;
#[cfg(test)]
mod tests;

use super::drawing::{Critical, Drawing};
use super::geometry::Geometry;
use super::joined::Picture;
use super::svg::{bare, escaped};
use data::Data;

/// Graphs of up to so many nodes are SVG, whose text can be searched and copied; larger ones are painted as far as they are seen.
const SVG_NODES: usize = 600;

/// Measured and predicted times have one scale at first, unless one of them takes more than so many times the other.
const SAME_SCALE: f64 = 4.0;

const STYLE: &str = include_str!("page.css");

/// The script, in order: each part uses those before it.
const SCRIPT: [&str; 7] = [
    include_str!("model.js"),
    include_str!("words.js"),
    include_str!("view.js"),
    include_str!("picture.js"),
    include_str!("painting.js"),
    include_str!("timeline.js"),
    include_str!("main.js"),
];

/// Nothing from elsewhere, whatever the data say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

impl Drawing<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let picture = Picture::new(self.plans);
        let geometry = Geometry::of(&picture, self);
        let critical = Critical::of(&picture, self.timeline);
        let is_small = picture.len() <= SVG_NODES;
        let data = Data::of(self, &picture, &geometry, &critical, !is_small).json();
        let graph =
            if is_small { bare(&picture, &geometry, &critical) } else { "<canvas></canvas>".to_owned() };
        let title = escaped(&format!("hcomm: {}", self.title()));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n{}{}</section>\n{}<script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>\n(() => {{\n\"use strict\";\n{}}})();\n</script>\n</body>\n</html>\n",
            self.header(critical.has_any()),
            format_args!("<section id=\"graph\" aria-label=\"graph\">{graph}"),
            self.below(),
            SCRIPT.concat(),
        )
    }

    /// What stands above the graph: what it is, and the legend.
    fn header(&self, with_critical: bool) -> String {
        let critical = "<span><i class=\"critical\"></i>critical path of one tile</span>";
        format!(
            "<header>\n<h1>{}</h1>\n<p>{}</p>\n<p class=\"legend\"><span><i class=\"lane\"></i>lane order</span>\
             <span><i class=\"dep\"></i>dependency</span><span><i class=\"message\"></i>message</span>{}\
             <span>fill: lane</span><span>*: a rank's own contribution</span><span>!: the last contribution is in</span></p>\n\
             <nav><button data-do=\"fit\">fit</button><button data-do=\"in\">+</button><button data-do=\"out\">−</button>\
             <small>wheel: zoom · drag: move · click: keep</small></nav>\n\
             </header>\n",
            escaped(&self.title()),
            escaped(&self.subtitle()),
            if with_critical { critical } else { "" },
        )
    }

    /// What stands below the graph: the times, where there are any, and the details of what is pointed at.
    fn below(&self) -> String {
        let has_times = self.timeline.is_some() || self.measured.is_some();
        let scale = match (self.timeline, self.measured) {
            (Some(timeline), Some(measured)) => {
                let totals = [timeline.total_ns(), measured.total_ns()];
                let is_near = totals[0].max(totals[1]) <= SAME_SCALE * totals[0].min(totals[1]);
                let checked = if is_near { " checked" } else { "" };
                format!("<label><input type=\"checkbox\" id=\"scale\"{checked}>same scale</label>")
            }
            _ => String::new(),
        };
        let times = format!(
            "<div id=\"times-head\"><b>lanes over time</b><span id=\"times-note\"></span>{scale}\
             <button data-do=\"all\">whole call</button></div>\n\
             <section id=\"times\" aria-label=\"timeline\"><canvas></canvas></section>\n"
        );
        format!("{}<div id=\"details\" hidden></div>\n", if has_times { &times } else { "" })
    }
}
