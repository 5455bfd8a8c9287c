//! The command line that asks a workload again: the way back through the argument parser.

use crate::args::of_loop;
use std::fmt::Display;
use vramcast::bytes::Bytes;
use vramcast::shadow::torch::BUILDS;
use vramcast::workload::{Mode, Runtime, Task, Workload};
use vramcast_chart::is_hidden;

/// What a command line asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a str,
    pub(crate) workload: &'a Workload,
    /// A card's name.
    pub(crate) gpu: Option<&'a str>,
    pub(crate) capacity: Option<Bytes>,
    pub(crate) allocator_limit: Option<Bytes>,
    /// The version of PyTorch, where that runs it.
    pub(crate) torch: Option<&'a str>,
}

impl Asked<'_> {
    /// `vramcast predict`. `None` if a shell cannot be told the model's name, or a person not shown
    /// it.
    pub(crate) fn predict(&self) -> Option<String> {
        let torch = self.torch.filter(|&version| version != BUILDS[0].version);
        let target = [
            option("gpu", self.gpu),
            option("capacity", self.capacity.map(|bytes| bytes.0)),
            option("allocator-limit", self.allocator_limit.map(|b| b.0)),
            option("torch", torch),
        ];
        let options = [options(self.workload, Runtime::Torch), target.concat()];
        join("predict", self.model, options.concat())
    }

    /// `vramcast probe`, on a device such as `cpu` or `cuda:0`. `None` as of [`Self::predict`].
    pub(crate) fn probe(&self, device: &str) -> Option<String> {
        let place = [
            option("device", Some(device)),
            option("allocator-limit", self.allocator_limit.map(|b| b.0)),
        ];
        let options = [options(self.workload, Runtime::Candle), place.concat()];
        join("probe", self.model, options.concat())
    }
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
        models,
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
        differs("models", models, &plain.models),
        differs("allocator-conf", allocator_conf, &plain.allocator_conf),
    ]
    .concat()
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
    (!line.chars().any(is_hidden)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command, Device};
    use clap::Parser;
    use std::str::FromStr;
    use strum::VariantNames;
    use vramcast::gpu::GPUS;

    fn asked<'a>(model: &'a str, workload: &'a Workload) -> Asked<'a> {
        Asked {
            model,
            workload,
            gpu: None,
            capacity: None,
            allocator_limit: None,
            torch: None,
        }
    }

    /// What a command line asks, back through a shell's words and the parser.
    fn check(model: &str, workload: &Workload) {
        for (i, build) in BUILDS.iter().enumerate() {
            let asked = Asked {
                gpu: GPUS.get(i).map(|gpu| gpu.name),
                capacity: (i == 1).then_some(Bytes(15_655_829_505)),
                allocator_limit: (i % 2 == 1).then_some(Bytes(7_249_854_464)),
                torch: Some(build.version),
                ..asked(model, workload)
            };
            let line = asked.predict().unwrap();
            let Command::Predict(args) = parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(args.model, model, "{line}");
            assert_eq!(args.workload.workload(Runtime::Torch), *workload, "{line}");
            let target = args.target;
            assert_eq!(target.gpu.as_deref(), asked.gpu, "{line}");
            assert_eq!(target.capacity, asked.capacity, "{line}");
            assert_eq!(target.allocator_limit, asked.allocator_limit, "{line}");
            assert_eq!(Some(target.torch.version), asked.torch, "{line}");

            let line = asked.probe("cuda:1").unwrap();
            let Command::Probe(args) = parse(&line) else {
                panic!("{line}");
            };
            assert_eq!(args.model.as_deref(), Some(model), "{line}");
            assert_eq!(args.workload.workload(Runtime::Candle), *workload, "{line}");
            assert_eq!(args.target.allocator_limit, asked.allocator_limit, "{line}");
            assert_eq!(args.device, Device::Cuda(1), "{line}");
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
            let confs = [
                "",
                "max_split_size_mb:64,expandable_segments:True",
                "-x y'z",
            ];
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
                with(s, &[1, 4, u64::MAX], |w, v| w.models = v),
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
        let workload = Workload::new(Runtime::Torch, Task::Base, Mode::Infer, 1, 1);
        for model in ["a\0b", "a\nb", "a\u{202e}b"] {
            assert_eq!(asked(model, &workload).predict(), None, "{model:?}");
            assert_eq!(asked(model, &workload).probe("cpu"), None, "{model:?}");
        }
    }

    #[test]
    fn what_is_as_the_parser_has_it_is_left_out() {
        let workload = Workload::new(Runtime::Torch, Task::default(), Mode::Train, 32, 128);
        assert_eq!(
            asked("bert-base-uncased", &workload).predict().as_deref(),
            Some("vramcast predict bert-base-uncased --batch 32 --seq 128")
        );
    }
}
