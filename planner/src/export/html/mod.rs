//! Plans as one HTML file that asks for nothing else: the graph, and above it or below it, lane by lane, when each node runs
//! by the cost model and, where there is a trace, when it ran. `data` is what the page's script is given; the script and its
//! style stand in files of their own beside this one.

mod data;
#[cfg(test)]
mod tests;

use super::drawing::{Critical, Drawing};
use super::geometry::Geometry;
use super::joined::Picture;
use super::svg::{UNTIED, bare, escaped};
use data::{Data, Painting};

/// Graphs of up to so many nodes are SVG, whose text can be searched and copied; larger ones are painted as far as they are seen.
const SVG_NODES: usize = 600;

const STYLE: &str = include_str!("page.css");

/// The script, in order: each part uses those before it.
const SCRIPT: [&str; 8] = [
    include_str!("model.js"),
    include_str!("words.js"),
    include_str!("view.js"),
    include_str!("picture.js"),
    include_str!("painting.js"),
    include_str!("graphs.js"),
    include_str!("timeline.js"),
    include_str!("main.js"),
];

/// Nothing from elsewhere, whatever the data say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

impl Drawing<'_> {
    /// The page. A plan of many lanes is shown folded, and unfolds on a click.
    pub fn html(&self) -> String {
        let (folded, whole) = (Picture::folded(self.plans), Picture::new(self.plans));
        let pictures = if folded.is_folded() { vec![folded, whole] } else { vec![whole] };
        let laid_out: Vec<_> = pictures
            .iter()
            .map(|picture| (picture, Geometry::of(picture, self), Critical::of(picture, self.timeline)))
            .collect();
        let painting = |(picture, geometry, critical)| {
            let picture: &Picture<'_> = picture;
            Painting { picture, geometry, critical, is_painted: picture.boxes.len() > SVG_NODES }
        };
        let paintings: Vec<_> = laid_out
            .iter()
            .map(|(picture, geometry, critical)| painting((*picture, geometry, critical)))
            .collect();
        let data = Data::of(self, &paintings).json();
        let graphs: String = paintings.iter().map(|painting| self.graph(painting)).collect();
        let title = escaped(&format!("hcomm: {}", self.title()));
        let (_, geometry, critical) = &laid_out[0];
        let header = self.header(critical.has_any(), !geometry.frames.is_empty(), paintings.len() > 1);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n{header}<div id=\"graphs\">{graphs}</div>\n{}<script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>\n(() => {{\n\"use strict\";\n{}}})();\n</script>\n</body>\n</html>\n",
            self.below(),
            SCRIPT.concat(),
        )
    }

    /// The place of a picture: SVG, or a canvas that the script paints.
    fn graph(&self, painting: &Painting<'_>) -> String {
        let Painting { picture, geometry, critical, is_painted } = *painting;
        let graph = match is_painted {
            true => "<canvas></canvas>".to_owned(),
            false => bare(self, picture, geometry, critical),
        };
        format!("<section class=\"graph\" aria-label=\"graph\">{graph}</section>")
    }

    /// What stands above the graph: what it is, and the legend.
    fn header(&self, with_critical: bool, with_hosts: bool, with_folds: bool) -> String {
        let critical =
            format!("<span title=\"{UNTIED}\"><i class=\"critical\"></i>critical path of one tile</span>");
        let hosts = "<span><i class=\"between\"></i>message between hosts</span>";
        let folds = "<button data-do=\"fold\">unfold lanes</button>";
        let shown = |is_shown: bool, words: &str| if is_shown { words.to_owned() } else { String::new() };
        let untied = shown(with_critical, &format!("<p>{UNTIED}</p>"));
        format!(
            "<header>\n<h1>{}</h1>\n<p>{}</p>\n<p class=\"legend\"><span><i class=\"lane\"></i>lane order</span>\
             <span><i class=\"dep\"></i>dependency</span><span><i class=\"message\"></i>message</span>{}{}\
             <span>fill: lane</span><span>*: a rank's own contribution</span><span>!: the last contribution is in</span></p>{untied}\n\
             <nav>{}<button data-do=\"fit\">fit</button><button data-do=\"in\">+</button><button data-do=\"out\">−</button>\
             <small>wheel: zoom · drag: move · click: keep</small></nav>\n\
             </header>\n",
            escaped(&self.title()),
            escaped(&self.subtitle()),
            shown(with_hosts, hosts),
            shown(with_critical, &critical),
            shown(with_folds, folds),
        )
    }

    /// What stands below the graph: the times, where there are any, and the details of what is pointed at.
    fn below(&self) -> String {
        let has_times = self.timeline.is_some() || self.measured.is_some();
        let scale = match (self.timeline, self.measured) {
            (Some(_), Some(_)) => "<label><input type=\"checkbox\" id=\"scale\" checked>same scale</label>",
            _ => "",
        };
        let times = format!(
            "<div id=\"times-head\"><b>lanes over time</b><span id=\"times-note\"></span>{scale}\
             <button data-do=\"all\">whole call</button></div>\n\
             <section id=\"times\" aria-label=\"timeline\"><canvas></canvas></section>\n"
        );
        format!("{}<div id=\"details\" hidden></div>\n", if has_times { &times } else { "" })
    }
}
