//! The command line that asks a workload again: the way back through the argument parser.

use crate::args::of_loop;
use std::fmt::Display;
use vramcast::predict::Question;
use vramcast::shadow::torch::BUILDS;
use vramcast::workload::{Mode, Runtime, Task, Workload};

/// `vramcast predict` of a question. `None` if a shell cannot be told the model's name, or a person
/// not shown it.
pub(crate) fn predict(question: &Question<'_>) -> Option<String> {
    let mut options = options(question.workload, Runtime::Torch);
    options.extend(option("gpu", question.gpu.map(|gpu| gpu.name)));
    options.extend(option("capacity", question.capacity.map(|bytes| bytes.0)));
    options.extend(limit(question));
    let torch = question.workload.runtime == Runtime::Torch;
    let build = torch && question.build.version != BUILDS[0].version;
    options.extend(option("torch", build.then_some(question.build.version)));
    join("predict", question.model, options)
}

/// `vramcast probe` of a question, on a device such as `cpu` or `cuda:0`; `None` as of [`predict`].
pub(crate) fn probe(question: &Question<'_>, device: &str) -> Option<String> {
    let mut options = options(question.workload, Runtime::Candle);
    options.extend(option("device", Some(device)));
    options.extend(limit(question));
    join("probe", question.model, options)
}

/// Batch and sequence, and every other option that is not what the parser takes where it is missing,
/// on a command whose own runtime is `default`.
fn options(workload: &Workload, default: Runtime) -> Vec<String> {
    let Workload {
        task,
        mode,
        batch,
        seq,
        precision,
        attention,
        optimizer,
        runtime,
        code,
        checkpointing,
        accumulation,
        dropout,
        drop_graph,
        padding,
        training_loop,
        placement,
        lora_rank,
        compile,
        allocator_conf,
    } = workload;
    let (of_optimizer, of_placement) = of_loop(*training_loop);
    let plain = Workload::new(*runtime, Task::default(), Mode::default(), *batch, *seq);
    let flag = |name: &str, set: &bool| set.then(|| format!("--{name}")).into_iter().collect();
    [
        differs("task", task, &plain.task),
        differs("mode", mode, &plain.mode),
        option("batch", Some(batch)),
        option("seq", Some(seq)),
        differs("precision", precision, &plain.precision),
        differs("attention", attention, &plain.attention),
        differs("loop", training_loop, &plain.training_loop),
        differs("optimizer", optimizer, &of_optimizer),
        differs("placement", placement, &of_placement),
        differs("runtime", runtime, &default),
        differs("code", code, &plain.code),
        flag("checkpointing", checkpointing),
        differs("accumulation", accumulation, &plain.accumulation),
        flag("no-dropout", &!dropout),
        flag("drop-graph", drop_graph),
        flag("padding", padding),
        differs("lora-rank", lora_rank, &plain.lora_rank),
        flag("compile", compile),
        differs("allocator-conf", allocator_conf, &plain.allocator_conf),
    ]
    .concat()
}

fn limit(question: &Question<'_>) -> Vec<String> {
    option("allocator-limit", question.allocator_limit.map(|b| b.0))
}

fn differs<T: PartialEq + Display>(name: &str, value: &T, default: &T) -> Vec<String> {
    option(name, (value != default).then_some(value))
}

/// An option and its value; one word where the value could be taken for an option.
fn option(name: &str, value: Option<impl Display>) -> Vec<String> {
    let words = value.map(|value| match value.to_string() {
        value if value.starts_with('-') => vec![format!("--{name}={value}")],
        value => vec![format!("--{name}"), value],
    });
    words.unwrap_or_default()
}

fn join(command: &str, model: &str, options: Vec<String>) -> Option<String> {
    let shown = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let mut words = vec!["vramcast".to_owned(), command.to_owned()];
    // A name may look like an option.
    if model.starts_with('-') {
        words.extend(options);
        words.extend(["--".to_owned(), model.to_owned()]);
    } else {
        words.push(model.to_owned());
        words.extend(options);
    }
    let line = shlex::try_join(words.iter().map(String::as_str)).ok()?;
    line.chars().all(shown).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;
    use std::str::FromStr;
    use strum::VariantNames;
    use vramcast::bytes::Bytes;
    use vramcast::config::ModelConfig;
    use vramcast::gpu::GPUS;

    /// The question of a command line, back through a shell's words and the parser.
    fn check(model: &str, workload: &Workload) {
        let config = ModelConfig::known("bert-base-uncased").unwrap();
        for (i, build) in BUILDS.iter().enumerate() {
            let asked = Question {
                gpu: GPUS.get(i),
                capacity: (i == 1).then_some(Bytes(15_655_829_505)),
                allocator_limit: (i % 2 == 1).then_some(Bytes(7_249_854_464)),
                build,
                ..Question::new(model, &config, workload)
            };
            let line = predict(&asked).unwrap();
            let Command::Predict(args) = parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(args.model, model, "{line}");
            assert_eq!(args.workload.workload(Runtime::Torch), *workload, "{line}");
            let read = args.target.question(model, &config, workload).unwrap();
            let target = |q: &Question<'_>| (q.gpu.map(|g| g.name), q.capacity, q.allocator_limit);
            assert_eq!(target(&read), target(&asked), "{line}");
            if workload.runtime == Runtime::Torch {
                assert_eq!(read.build.version, build.version, "{line}");
            }

            let line = probe(&asked, "cuda:1").unwrap();
            let Command::Probe(args) = parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(args.model.as_deref(), Some(model), "{line}");
            assert_eq!(args.workload.workload(Runtime::Candle), *workload, "{line}");
            assert_eq!(args.target.allocator_limit, asked.allocator_limit, "{line}");
        }
    }

    fn parse(line: &str) -> Command {
        let words = shlex::split(line).unwrap();
        Args::try_parse_from(words).expect(line).command
    }

    /// Every value of an enum.
    fn all<T: VariantNames + FromStr>() -> Vec<T> {
        T::VARIANTS
            .iter()
            .filter_map(|word| word.parse().ok())
            .collect()
    }

    /// The workload with one field at each of its values.
    fn with<T: Clone>(start: &Workload, values: &[T], set: fn(&mut Workload, T)) -> Vec<Workload> {
        let changed = values.iter().map(|value| {
            let mut workload = start.clone();
            set(&mut workload, value.clone());
            workload
        });
        changed.collect()
    }

    #[test]
    fn every_field_at_every_value_comes_back_through_the_parser() {
        let yes_no = [false, true];
        let mut starts = Vec::new();
        for runtime in all::<Runtime>() {
            for training_loop in all() {
                let start = Workload::new(runtime, Task::MaskedLm, Mode::Train, 3, 77);
                starts.push(Workload {
                    training_loop,
                    ..start
                });
            }
        }
        let mut count = 0;
        for s in &starts {
            let confs = ["", "max_split_size_mb:64,expandable_segments:True", "-x y'z"];
            let confs = confs.map(str::to_owned);
            let every = [
                with(s, &all(), |w, v| w.task = v),
                with(s, &all(), |w, v| w.mode = v),
                with(s, &[1, 8, u64::MAX], |w, v| w.batch = v),
                with(s, &[1, 128, u64::MAX], |w, v| w.seq = v),
                with(s, &all(), |w, v| w.precision = v),
                with(s, &all(), |w, v| w.attention = v),
                with(s, &all(), |w, v| w.optimizer = v),
                with(s, &all(), |w, v| w.code = v),
                with(s, &yes_no, |w, v| w.checkpointing = v),
                with(s, &[1, 2, u32::MAX], |w, v| w.accumulation = v),
                with(s, &yes_no, |w, v| w.dropout = v),
                with(s, &yes_no, |w, v| w.drop_graph = v),
                with(s, &yes_no, |w, v| w.padding = v),
                with(s, &all(), |w, v| w.placement = v),
                with(s, &[0, 8, u64::MAX], |w, v| w.lora_rank = v),
                with(s, &yes_no, |w, v| w.compile = v),
                with(s, &confs, |w, v| w.allocator_conf = v),
            ];
            for workload in every.concat() {
                check("bert-base-uncased", &workload);
                count += 1;
            }
        }
        assert_eq!(starts.len(), 4);
        assert!(count > 150, "{count}");
    }

    #[test]
    fn a_model_is_one_word_whatever_is_in_its_name() {
        let workload = Workload::new(Runtime::Torch, Task::Base, Mode::Infer, 1, 1);
        for model in [
            "my models/a",
            "it's",
            "\"$(touch x)\"",
            "a;b|c&d",
            "--json",
            "-",
            "模型",
        ] {
            check(model, &workload);
        }
    }

    #[test]
    fn a_model_that_nobody_could_read_off_the_page_has_no_command_line() {
        let config = ModelConfig::known("bert-base-uncased").unwrap();
        let workload = Workload::new(Runtime::Torch, Task::Base, Mode::Infer, 1, 1);
        for model in ["a\0b", "a\nb", "a\u{202e}b"] {
            let question = Question::new(model, &config, &workload);
            assert_eq!(predict(&question), None, "{model:?}");
            assert_eq!(probe(&question, "cpu"), None, "{model:?}");
        }
    }

    #[test]
    fn what_is_as_the_parser_has_it_is_left_out() {
        let config = ModelConfig::known("bert-base-uncased").unwrap();
        let workload = Workload::new(Runtime::Torch, Task::default(), Mode::Train, 32, 128);
        let question = Question::new("bert-base-uncased", &config, &workload);
        assert_eq!(
            predict(&question).as_deref(),
            Some("vramcast predict bert-base-uncased --batch 32 --seq 128")
        );
    }
}
