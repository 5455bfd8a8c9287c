//! `vramcast report --out FILE.html`: what the page says, and what no file can make of it.

use assert_cmd::Command;
use scraper::{ElementRef, Html, Selector};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vramcast::config::ModelConfig;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn vramcast(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("vramcast").unwrap();
    command.current_dir(folder);
    command
}

/// What a command prints.
fn printed(line: &str) -> String {
    let output = vramcast(&root()).args(line.split(' ')).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The page of some files, made in a folder.
fn page_in(folder: &Path, files: &[&Path]) -> String {
    let out = folder.join("made/page.html");
    let mut command = vramcast(folder);
    command.arg("report").args(files);
    command.arg("--out").arg(&out).assert().success();
    std::fs::read_to_string(out).unwrap()
}

/// The page of some texts, a file each, in a folder of its own.
fn page(texts: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let write = |(i, text): (usize, &&str)| {
        let file = folder.path().join(format!("{i}.jsonl"));
        std::fs::write(&file, text).unwrap();
        file
    };
    let files: Vec<PathBuf> = texts.iter().enumerate().map(write).collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    page_in(folder.path(), &files)
}

fn records(name: &str) -> String {
    std::fs::read_to_string(root().join("reports/records").join(name)).unwrap()
}

/// A record that was measured, by its place in a file.
fn record(name: &str, line: usize) -> String {
    records(name).lines().nth(line).unwrap().to_owned()
}

const NO_FIT: &str = "bert-large-uncased --batch 16 --seq 384 --loop trainer --gpu rtx-3060";

fn select<'a>(page: &'a Html, css: &str) -> Vec<ElementRef<'a>> {
    page.select(&Selector::parse(css).unwrap()).collect()
}

/// The words of an element, with single spaces.
fn words(element: ElementRef<'_>) -> String {
    let text: String = element.text().collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn all_words(page: &Html, css: &str) -> Vec<String> {
    select(page, css).into_iter().map(words).collect()
}

/// What every page must be, whatever is on it.
fn check_page(text: &str) -> Html {
    let page = Html::parse_document(text);
    let mut ids = BTreeSet::new();
    let (mut links, mut level) = (Vec::new(), 0);
    for element in select(&page, "*") {
        let name = element.value().name();
        assert!(ELEMENTS.contains(&name), "a {name} on the page");
        for (attribute, value) in element.value().attrs() {
            assert!(ATTRIBUTES.contains(&attribute), "a {attribute} of a {name}");
            match attribute {
                "id" => assert!(ids.insert(value.to_owned()), "{value} is there twice"),
                "href" => links.push(value.strip_prefix('#').expect("on the page").to_owned()),
                _ => {}
            }
        }
        if let Some(next) = name.strip_prefix('h').and_then(|n| n.parse::<u32>().ok()) {
            assert!(next <= level + 1, "h{next} after h{level}");
            level = next;
        }
    }
    for link in links {
        assert!(ids.contains(&link), "nothing is named {link}");
    }
    for table in select(&page, "table") {
        let of = |css| table.select(&Selector::parse(css).unwrap()).count();
        assert_eq!(of("caption"), 1);
        assert_eq!(of("th:not([scope])"), 0);
        assert_eq!(of("tbody tr"), of("tbody th[scope=row]"));
    }
    assert_eq!(select(&page, "h1").len(), 1);
    assert_eq!(select(&page, "html[lang=en] > head > title").len(), 1);
    let policy = select(&page, "meta[http-equiv=Content-Security-Policy]");
    let policy = policy[0].attr("content").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    let style = words(select(&page, "style")[0]);
    for outside in ["url(", "@import", "http", "@font-face"] {
        assert!(!style.contains(outside), "{outside} in the style");
    }
    check_dark(&page, &style);
    page
}

/// Every colour of a chart has another on a dark page.
fn check_dark(page: &Html, style: &str) {
    for property in ["fill", "stroke"] {
        for element in select(page, &format!(".chart [{property}]")) {
            let colour = element.attr(property).unwrap();
            let rule = format!(".chart [{property}=\"{colour}\"] {{ {property}: #");
            assert!(
                colour == "none" || style.contains(&rule),
                "{property} {colour} has no dark one"
            );
        }
    }
}

const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "section",
    "article",
    "h1",
    "h2",
    "h3",
    "p",
    "br",
    "strong",
    "span",
    "a",
    "ul",
    "li",
    "dl",
    "dt",
    "dd",
    "div",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "figure",
    "figcaption",
    "pre",
    "code",
    "sup",
    "svg",
    "rect",
    "text",
    "polygon",
    "polyline",
    "circle",
];

const ATTRIBUTES: &[&str] = &[
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "id",
    "href",
    "role",
    "aria-label",
    "aria-labelledby",
    "tabindex",
    "scope",
    "xmlns",
    "viewBox",
    "width",
    "height",
    "x",
    "y",
    "dx",
    "dy",
    "cx",
    "cy",
    "r",
    "points",
    "fill",
    "stroke",
    "stroke-width",
    "opacity",
    "text-anchor",
    "font-family",
    "font-size",
    "font-weight",
];

#[test]
fn a_job_that_does_not_fit_says_so_first_and_what_to_do() {
    let text = page(&[&printed(&format!("predict {NO_FIT} --json"))]);
    let page = check_page(&text);
    let terminal = printed(&format!("predict {NO_FIT}"));
    let advised = printed(&format!("advise {NO_FIT}"));
    let answer = &all_words(&page, ".answer.oom")[0];
    let first = |text: &str| text.lines().next().unwrap().to_owned();
    assert_eq!(*answer, format!("{}.{}", first(&terminal), first(&advised)));
    // What stands in the terminal's tables stands on the page.
    for cell in all_words(&page, "td.n, .cost, .how code, article li") {
        let known = [&terminal, &advised].into_iter().any(|t| {
            let t = t.split_whitespace().collect::<Vec<_>>().join(" ");
            t.contains(&cell)
        });
        assert!(known || cell.starts_with("nothing of this"), "{cell}");
    }
    let sums = all_words(&page, ".sum th");
    assert_eq!(sums, ["= allocated", "= reserved", "= nvml"]);
    let command = format!("vramcast predict {NO_FIT}");
    assert_eq!(all_words(&page, "pre code"), [command]);
    let titles = all_words(&page, "figcaption");
    assert_eq!(titles.len(), 3, "{titles:?}");
}

#[test]
fn a_measured_job_stands_beside_its_prediction() {
    for (file, measure, charts) in [
        (
            "torch-h200-suite.jsonl",
            "vramcast probe xlm-roberta-base --batch 12 --seq 160 --runtime torch --padding --device cuda:0",
            3,
        ),
        (
            "candle-h200.jsonl",
            "vramcast probe bert-base-uncased --batch 1 --seq 10 --device cuda:0",
            3,
        ),
    ] {
        let record = record(file, 0);
        let page = check_page(&page(&[&record]));
        let answer = &all_words(&page, ".answer.fits")[0];
        assert!(answer.contains("Measured: exact: "), "{answer}");
        assert_eq!(all_words(&page, "pre code")[1], measure);
        assert_eq!(select(&page, "svg").len(), charts);
        let value: Value = serde_json::from_str(&record).unwrap();
        let nvml = value["nvml_used"].as_u64().unwrap();
        let last = all_words(&page, ".ledger .sum:last-child td");
        let digits: String = last[2].split(',').collect();
        assert_eq!(digits, nvml.to_string(), "{last:?}");
        let fields = all_words(&page, ".fields dd");
        for name in ["id", "driver", "runtime_version", "gpu"] {
            let field = value[name].as_str().unwrap();
            assert!(fields.iter().any(|f| f == field), "{name} {field}");
        }
    }
}

#[test]
fn a_probe_on_the_cpu_has_no_card_and_no_advice() {
    let mut record: Value = serde_json::from_str(&record("candle-h200.jsonl", 0)).unwrap();
    let fields = record.as_object_mut().unwrap();
    for name in [
        "gpu",
        "capacity",
        "driver",
        "nvml_before",
        "nvml_used",
        "peak_reserved",
    ] {
        fields.remove(name);
    }
    fields["device"] = json!("cpu");
    let page = check_page(&page(&[&record.to_string()]));
    let answer = &all_words(&page, ".answer")[0];
    assert!(answer.contains("requested"), "{answer}");
    assert_eq!(all_words(&page, ".sum th"), ["= requested"]);
    let command = "vramcast probe bert-base-uncased --batch 1 --seq 10 --device cpu";
    assert_eq!(all_words(&page, "pre code"), [command]);
}

#[test]
fn a_suite_has_a_row_a_job_and_sections_for_those_that_need_one() {
    let text = page(&[&records("candle-h200.jsonl")]);
    assert!(text.len() < 3 << 20, "{} bytes", text.len());
    let page = check_page(&text);
    assert_eq!(all_words(&page, ".answer"), ["74 jobs: all fit."]);
    assert_eq!(select(&page, ".jobs tbody tr").len(), 74);
    assert_eq!(select(&page, "article").len(), 10);
    assert_eq!(select(&page, ".jobs a").len(), 10);
    let said = all_words(&page, "header p");
    let exact = "74 runs of candle 0.11.1 on NVIDIA H200: requested exact to the byte in all 74";
    assert!(said[1].starts_with(exact), "{said:?}");
    let told = "10 of the 74 jobs have a section below";
    assert!(all_words(&page, "main p")[0].contains(told));
    // The charts of the suite, and three of each section.
    assert_eq!(select(&page, "svg").len(), 3 + 10 * 3);
}

#[test]
fn a_mix_names_the_jobs_that_do_not_fit_and_has_them_in_sections() {
    let prediction = printed(&format!("predict {NO_FIT} --json"));
    let limited = records("torch-h200-limit.jsonl");
    let page = check_page(&page(&[&prediction, &limited]));
    let answer = "13 jobs: 2 fit, 3 are tight, 8 do not fit.";
    assert_eq!(all_words(&page, ".answer.oom"), [answer]);
    let named = all_words(&page, ".doubtful li");
    assert_eq!(named.len(), 7);
    assert!(
        named[0].contains("does not fit 1. bert-large-uncased"),
        "{named:?}"
    );
    assert!(
        named[0].contains("with amp-bf16 it fits into rtx-3060"),
        "{named:?}"
    );
    assert_eq!(named[6], "and 5 more, in the table");
    // Those of PyTorch that ran out of memory said so.
    let errors = all_words(&page, ".error");
    assert!(
        errors[0].starts_with("CUDA out of memory. Tried to allocate"),
        "{errors:?}"
    );
}

/// A run that was said to fit and did not is what a reader must see first.
#[test]
fn a_run_that_ended_otherwise_than_said_is_named_at_the_top_and_has_a_section() {
    let mut lines: Vec<Value> = records("candle-h200.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines[40]["outcome"] = json!("oom");
    lines[40]["error"] = json!("out of memory\nsecond line");
    lines[41]["outcome"] = json!("failed");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let page = check_page(&page(&[&text]));
    let named = all_words(&page, ".doubtful li");
    assert_eq!(named.len(), 2, "{named:?}");
    assert!(named[0].starts_with("fits 41. ") && named[0].ends_with(", ran out of memory"));
    assert!(named[1].starts_with("fits 42. ") && named[1].ends_with(", failed"));
    let verdict = &all_words(&page, "#job-41 .verdict")[0];
    assert!(
        verdict.ends_with("Measured: it ran out of memory."),
        "{verdict}"
    );
    assert_eq!(select(&page, "article").len(), 10);
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let limited = records("torch-h200-limit.jsonl");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("records.jsonl");
    std::fs::write(&file, limited).unwrap();
    let first = page_in(folder.path(), &[&file]);
    assert_eq!(first, page_in(folder.path(), &[&file]));
}

/// A name with everything that ends a text somewhere: it is a path of two folders.
const HOSTILE: &str = "x</title><script>alert(1)<&amp;\"'`]]>\u{202e}--><svg onload=x>\u{200b}";

#[test]
fn nothing_that_a_file_says_becomes_an_element_or_an_attribute() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join(HOSTILE);
    std::fs::create_dir_all(&model).unwrap();
    let config = ModelConfig::known("bert-base-uncased").unwrap().to_json();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();

    let mut record: Value = serde_json::from_str(&record("torch-h200-limit.jsonl", 0)).unwrap();
    for name in [
        "model",
        "id",
        "error",
        "driver",
        "transformers_version",
        "device",
    ] {
        record[name] = json!(HOSTILE);
    }
    let output = vramcast(folder.path())
        .args([
            "predict", HOSTILE, "--batch", "64", "--seq", "512", "--gpu", "t4", "--json",
        ])
        .output()
        .unwrap();
    let mut prediction: Value = serde_json::from_slice(&output.stdout).unwrap();
    prediction["notes"] = json!([HOSTILE]);
    prediction["shortage"]["scope"] = json!(HOSTILE);
    let mut gone = prediction.clone();
    gone["model"] = json!(format!("no/{HOSTILE}"));
    gone["gpu"] = json!(HOSTILE);
    gone["runtime_version"] = json!(HOSTILE);
    let mut other = prediction.clone();
    other["runtime"] = json!(HOSTILE);
    other["id"] = json!(HOSTILE);

    let name = "<img src=x onerror=alert(1)>.jsonl";
    let lines = [record, prediction, gone, other].map(|value| value.to_string());
    std::fs::write(folder.path().join(name), lines.join("\n")).unwrap();
    let text = page_in(folder.path(), &[Path::new(name)]);
    // `check_page` knows no script, no img, no title of an SVG's but the chart's, and no `onload`.
    let page = check_page(&text);
    assert!(!text.contains(['\u{202e}', '\u{200b}']));
    let shown = HOSTILE
        .replace('\u{202e}', "\\u{202e}")
        .replace('\u{200b}', "\\u{200b}");
    let first = &all_words(&page, ".jobs th[scope=row] a")[0];
    assert_eq!(*first, shown);
    let errors = select(&page, ".error")[0].text().collect::<String>();
    assert_eq!(errors, shown);
    assert!(words(select(&page, "footer")[0]).contains(name));
    // Charts are drawn of the two that are there, and say the name as well as a line of text can.
    let titles = all_words(&page, "svg > title");
    assert_eq!(titles.len(), 3 + 3, "{titles:?}");
    assert!(titles[0].starts_with("x</title><script>alert(1)<&amp;\"'`]]>\u{fffd}"));
    // A name that nobody can read off the page has no command line.
    assert_eq!(select(&page, "pre code").len(), 0);
    assert!(
        all_words(&page, "article li")
            .iter()
            .any(|note| note.contains("no charts"))
    );
}

#[test]
fn a_model_that_is_not_there_is_told_and_its_prediction_shown() {
    let text = printed(&format!("predict {NO_FIT} --json"));
    let mut prediction: Value = serde_json::from_str(&text).unwrap();
    prediction["model"] = json!("gone/config.json");
    let page = check_page(&page(&[&prediction.to_string()]));
    let notes = all_words(&page, "article li");
    let told = "no charts and no advice: gone/config.json: no such file";
    assert!(notes.iter().any(|note| note == told), "{notes:?}");
    assert!(all_words(&page, ".answer.oom")[0].starts_with("does not fit: needs 13.81 GiB"));
    assert_eq!(select(&page, ".ledger .sum").len(), 3);
    assert_eq!(select(&page, "svg").len(), 0);
    let command = NO_FIT.replace("bert-large-uncased", "vramcast predict gone/config.json");
    assert_eq!(all_words(&page, "pre code"), [command]);
}

#[test]
fn a_prediction_of_another_version_says_what_is_predicted_today() {
    let text = printed(&format!("predict {NO_FIT} --json"));
    let mut prediction: Value = serde_json::from_str(&text).unwrap();
    prediction["n_params"] = json!(1);
    let page = check_page(&page(&[&prediction.to_string()]));
    let notes = all_words(&page, "article li");
    let told = "this version predicts otherwise, and draws and advises on it: does not fit";
    assert!(notes.iter().any(|note| note.starts_with(told)), "{notes:?}");
}

#[test]
fn searches_and_what_is_not_predicted_are_told_below_the_jobs() {
    let page = check_page(&page(&[
        &record("torch-h200-suite.jsonl", 0),
        &record("torch-h200-need.jsonl", 0),
        &record("advice-h200-epochs.jsonl", 0),
        &record("advice-h200-sharing.jsonl", 0),
    ]));
    let others = all_words(&page, "section[aria-labelledby=others] li");
    assert_eq!(others.len(), 3);
    assert!(
        others[0].contains("need of distilbert-base-uncased"),
        "{others:?}"
    );
    assert!(others[1].contains("epochs"), "{others:?}");
}

/// A report that must be refused, with one line that contains `part`, and leave no page.
fn check_refused(text: &str, part: &str) {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.jsonl"), text).unwrap();
    let output = vramcast(folder.path())
        .args(["report", "a.jsonl", "--out", "page.html"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(part), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!folder.path().join("page.html").exists());
}

#[test]
fn a_file_without_a_job_is_refused_in_one_line() {
    let good = record("torch-h200-suite.jsonl", 0);
    check_refused("", "no records and no predictions in a.jsonl");
    check_refused("[\n]", "no records and no predictions in a.jsonl");
    check_refused(
        &format!("{good}\n{{\"a\": 1}}\n"),
        "a.jsonl:2: not a record",
    );
    check_refused(
        &good[..good.len() / 2],
        "a.jsonl:1: not a JSON object, or cut off",
    );
    check_refused(&format!("{good}\n{good}"), "is there twice");
    check_refused(&record("advice-h200-epochs.jsonl", 0), "no job in a.jsonl");
}

#[test]
fn a_prediction_whose_sizes_contradict_one_another_is_refused() {
    let text = printed(&format!("predict {NO_FIT} --json"));
    let good: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in [
        ("peak_allocated", json!(u64::MAX)),
        ("peak_reserved", json!(1)),
        ("peak_nvml", json!(u64::MAX)),
        ("peak_nvml_low", json!(u64::MAX)),
        ("peak_allocated_low", json!(u64::MAX)),
        ("context", json!(u64::MAX)),
    ] {
        let mut broken = good.clone();
        broken[name] = value;
        check_refused(
            &broken.to_string(),
            "a.jsonl:1: not a prediction: its sizes contradict",
        );
    }
    let mut broken = good.clone();
    broken["at_peak"]["optimizer"] = json!(u64::MAX);
    check_refused(&broken.to_string(), "its sizes contradict");
    broken = good;
    broken["shortage"]["allocated"] = json!(u64::MAX);
    check_refused(&broken.to_string(), "its sizes contradict");
}
