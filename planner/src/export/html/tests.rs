//! The page is one well-formed file that asks for nothing, whatever the plan says, and holds the plan's nodes, edges and times.

use hcomm_ops::{DType, ReduceOp};
use serde_json::Value;

use crate::export::{Drawing, Sizing};
use crate::plan::Plan;
use crate::request::{Collective, Request};
use crate::timeline::{Measured, Model, Timeline, predict};
use crate::topology::Topology;
use crate::{Choice, Costs, compile_all};

/// A ring of some ranks, its sizes and its times.
fn ring(world: usize) -> (Vec<Plan>, Sizing, Timeline) {
    let topology = Topology::single_host(world);
    let request = Request::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1000).with_algorithm("ring");
    let plans = compile_all(&request, &topology, &Choice::new(&topology, Costs::shm())).expect("a ring");
    let sizing = Sizing { request, tile_bytes: 512 };
    let timeline = predict(&plans, &sizing, &topology, &Model::new(Costs::shm())).expect("a sound plan");
    (plans, sizing, timeline)
}

fn page(world: usize) -> String {
    let (plans, sizing, timeline) = ring(world);
    Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).html()
}

/// What stands between the first pair of two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).and_then(|(_, rest)| rest.split_once(end)).map_or("", |(inside, _)| inside)
}

fn data_of(page: &str) -> Value {
    let text = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    serde_json::from_str(text).expect("the data are JSON")
}

#[test]
fn it_is_one_file_that_asks_for_nothing() {
    for text in [page(4), page(24)] {
        assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
        assert!(text.contains(
            "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\""
        ));
        let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
        let rest = text.replace(namespace, "");
        for word in ["http:", "https:", "//cdn", "src=", "href=", "@import", "fetch(", "XMLHttp", "import("] {
            assert!(!rest.contains(word), "the page has {word}");
        }
        let url = rest.matches("url(").count();
        assert_eq!(url, rest.matches("url(#end-").count(), "only to marks of its own");
    }
}

#[test]
fn elements_are_closed_and_there_is_one_script() {
    for text in [page(4), page(24)] {
        for name in ["html", "head", "body", "style", "header", "section", "svg", "div", "nav", "h1"] {
            let open =
                text.matches(&format!("<{name}>")).count() + text.matches(&format!("<{name} ")).count();
            assert_eq!(open, text.matches(&format!("</{name}>")).count(), "{name}");
        }
        assert_eq!(text.matches("<script>").count(), 1);
        assert_eq!(text.matches("</script>").count(), 2);
    }
}

#[test]
fn small_plans_are_svg_and_large_ones_a_canvas() {
    let (small, large) = (page(4), page(24));
    assert!(small.contains("<section class=\"graph\" aria-label=\"graph\"><svg"));
    assert!(large.contains("<section class=\"graph\" aria-label=\"graph\"><canvas>"));
    assert_eq!(small.matches("data-node=").count(), 32);
    assert_eq!(data_of(&small)["pictures"][0]["routes"].as_array().map(Vec::len), Some(0));
    let data = data_of(&large);
    assert_eq!(
        data["pictures"][0]["routes"].as_array().map(Vec::len).map(|n| n * 3),
        data["pictures"][0]["edges"].as_array().map(Vec::len)
    );
}

#[test]
fn the_data_are_those_of_the_plan() {
    let (plans, sizing, timeline) = ring(3);
    let data = data_of(&Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).html());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nodes: usize = plans.iter().map(|plan| plan.nodes.len()).sum();
    for column in ["slice", "id", "lane", "kind", "sources", "sinks", "size"] {
        assert_eq!(list(&data["nodes"][column]).len(), nodes, "{column}");
    }
    for column in ["x", "y", "width", "lines", "colour"] {
        assert_eq!(list(&data["pictures"][0]["boxes"][column]).len(), nodes, "{column}");
    }
    assert_eq!(list(&data["pictures"]).len(), 1, "few lanes are not folded");
    let messages = list(&data["edges"]).chunks(3).filter(|edge| edge[2].as_u64() >= Some(2)).count();
    assert_eq!(messages, 3 * 2 * 2, "two steps in each half of the ring");
    assert_eq!(data["nodes"]["sinks"][0], "[to rank 1 ch 0]");
    assert_eq!(data["nodes"]["size"][0], "1.3 KiB in 3 tiles");
    // Tile, start and length of each run, less those of the run before.
    let mut packed = list(&data["predicted"]["runs"][0]).into_iter().map(|n| n.as_f64().unwrap_or(f64::NAN));
    let (mut tile, mut from) = (0.0, 0.0);
    for run in timeline.runs_of(0, 0) {
        let [next, later, lasts] =
            [packed.next(), packed.next(), packed.next()].map(|n| n.expect("a number"));
        (tile, from) = (tile + next, from + later);
        assert_eq!(tile, f64::from(run.tile));
        assert!((from - run.from_ns).abs() <= 1.0 && (lasts - (run.to_ns - run.from_ns)).abs() <= 1.0);
    }
    assert_eq!(packed.next(), None);
    assert_eq!(list(&data["predicted"]["path"]).len(), 3 * timeline.critical_path().len());
    assert_eq!(data["measured"], Value::Null);
}

#[test]
fn one_slice_of_many_has_its_own_runs() {
    let (plans, sizing, timeline) = ring(4);
    let data = data_of(&Drawing::new(&plans[2..3]).with_sizing(&sizing).with_timeline(&timeline).html());
    assert_eq!(data["ranks"][0]["rank"], 2);
    assert_eq!(data["predicted"]["runs"].as_array().map(Vec::len), Some(8));
}

#[test]
fn names_cannot_leave_their_place() {
    let (mut plans, ..) = ring(2);
    let evil = "</script><script>alert(1)</script><!--";
    plans.iter_mut().for_each(|plan| plan.algorithm = evil.to_owned());
    let text = Drawing::new(&plans).html();
    assert_eq!(text.matches("<script>").count(), 1);
    assert_eq!(text.matches("</script>").count(), 2);
    assert!(!text.contains("<!--") && text.contains("&lt;/script&gt;"));
    assert!(!text.contains("id=\"times\""), "without times there is no place for them");
    let json = between(&text, "id=\"data\">", "</script>");
    assert!(!json.contains('<'));
}

#[test]
fn measured_runs_stand_beside_predicted_ones() {
    let (plans, sizing, timeline) = ring(2);
    let event = |node: usize, ts: f64| {
        format!(
            r#"{{"cat":"node","ts":{ts},"dur":1.5,"pid":1,"args":{{"operation":4,"tile":0,"node":{node},"plan":"{:016x}"}}}}"#,
            plans[0].id
        )
    };
    let files = [("t".to_owned(), format!("[{},{}]", event(0, 20.0), event(1, 23.0)))];
    let measured = Measured::read(&files, &plans).expect("a trace of this plan");
    let drawing = Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).with_measured(&measured);
    let text = drawing.html();
    let data = data_of(&text);
    let first = plans[0].nodes.len();
    assert_eq!(data["measured"]["note"], "measured: 4.5 µs, operation 4 of the trace");
    assert_eq!(data["measured"]["runs"][first], serde_json::json!([0, 0, 1500]));
    assert_eq!(data["measured"]["runs"][first + 1], serde_json::json!([0, 3000, 1500]));
    assert_eq!(data["measured"]["runs"][0], serde_json::json!([]));
    assert!(text.contains("id=\"scale\""));
}

#[test]
fn many_lanes_are_folded_at_first_and_both_pictures_are_there() {
    let topology = Topology::from_host_of(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    let request =
        Request::new(Collective::AllToAll, DType::F32, ReduceOp::Sum, 1200).with_algorithm("direct");
    let plans = compile_all(&request, &topology, &Choice::new(&topology, Costs::shm())).expect("a plan");
    let sizing = Sizing { request, tile_bytes: 512 };
    let text = Drawing::new(&plans).with_sizing(&sizing).with_topology(&topology).html();
    let data = data_of(&text);
    let nodes: usize = plans.iter().map(|plan| plan.nodes.len()).sum();
    let boxes = |picture: usize| data["pictures"][picture]["boxes"]["x"].as_array().map_or(0, Vec::len);
    assert!(boxes(0) * 3 < nodes && boxes(1) == nodes, "{} and {} of {nodes}", boxes(0), boxes(1));
    let box_of = data["pictures"][0]["box_of"].as_array().map_or(0, Vec::len);
    assert_eq!((box_of, data["pictures"][1]["box_of"].as_array().map(Vec::len)), (nodes, Some(0)));
    assert_eq!(text.matches("<section class=\"graph\"").count(), 2);
    assert!(text.contains("unfold lanes") && text.contains("message between hosts"));
    assert_eq!(data["ranks"][7]["host"], "host1");
    assert_eq!(data["pictures"][0]["frames"][1][0], "host1");
}

#[test]
fn measured_and_predicted_times_have_one_scale_at_first() {
    let (plans, sizing, timeline) = ring(2);
    let event = format!(
        r#"[{{"cat":"node","ts":5.0,"dur":90000,"pid":0,"args":{{"operation":4,"tile":0,"node":0,"plan":"{:016x}"}}}}]"#,
        plans[0].id
    );
    let measured = Measured::read(&[("t".to_owned(), event)], &plans).expect("a trace of this plan");
    let page =
        Drawing::new(&plans).with_sizing(&sizing).with_timeline(&timeline).with_measured(&measured).html();
    assert!(page.contains("id=\"scale\" checked>"));
}
