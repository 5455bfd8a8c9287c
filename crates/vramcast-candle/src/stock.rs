//! The models of candle-transformers, run as their users run them.

use crate::real::{Observer, Real};
use candle_core::{DType, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert;
use std::collections::HashMap;
use vramcast::backend::{Activation, Init};
use vramcast::candle::{Candle, Leaf, Outcome};
use vramcast::config::ModelConfig;
use vramcast::timeline::Phase;
use vramcast::workload::Workload;

/// Loads the stock model from plain tensors and runs `steps` forward passes.
///
/// # Errors
/// candle's, and a model that is not run so.
pub fn run_stock<O: Observer>(
    real: &Real<O>,
    config: &ModelConfig,
    workload: &Workload,
    steps: u32,
) -> Result<Outcome> {
    let ModelConfig::Bert(config) = config else {
        let message = format!("no stock model of {} is run", config.model_type());
        return Err(Error::Msg(message));
    };
    real.begin(Phase::Load)?;
    let weights = weights(real, config)?;
    let outcome = Outcome {
        n_params: weights.values().map(|t| t.elem_count() as u64).sum(),
        n_tensors: weights.len() as u64,
        ..Outcome::default()
    };
    let builder = VarBuilder::from_tensors(weights, DType::F32, &real.device);
    let model = bert::BertModel::load(builder, &stock_config(config)?)?;
    let shape = [workload.batch, workload.seq];
    for _ in 0..steps {
        real.begin(Phase::Forward)?;
        let input_ids = real.ids(&shape, |i| (i % config.vocab_size) as u32)?;
        let token_type_ids = real.ids(&shape, |_| 0)?;
        let mask = real.ids(&shape, |_| 1)?;
        let output = model.forward(&input_ids, &token_type_ids, Some(&mask))?;
        drop(output);
        drop(input_ids);
        drop(token_type_ids);
        drop(mask);
        real.synchronize()?;
    }
    real.end();
    Ok(outcome)
}

/// Our configuration in the form of candle-transformers.
///
/// # Errors
/// An activation that the stock model does not have.
pub fn stock_config(config: &vramcast::config::bert::Config) -> Result<bert::Config> {
    let hidden_act = match config.hidden_act {
        Activation::Gelu => bert::HiddenAct::Gelu,
        Activation::GeluTanh | Activation::GeluNew | Activation::GeluFast => {
            bert::HiddenAct::GeluApproximate
        }
        Activation::Relu => bert::HiddenAct::Relu,
        Activation::Tanh => {
            return Err(Error::Msg(
                "the stock BertModel has no tanh activation".to_owned(),
            ));
        }
    };
    Ok(bert::Config {
        vocab_size: config.vocab_size as usize,
        hidden_size: config.hidden_size as usize,
        num_hidden_layers: config.num_hidden_layers as usize,
        num_attention_heads: config.num_attention_heads as usize,
        intermediate_size: config.intermediate_size as usize,
        hidden_act,
        hidden_dropout_prob: config.hidden_dropout_prob,
        max_position_embeddings: config.max_position_embeddings as usize,
        type_vocab_size: config.type_vocab_size as usize,
        initializer_range: config.initializer_range,
        layer_norm_eps: config.layer_norm_eps,
        ..bert::Config::default()
    })
}

/// Fresh weights under the names that the stock model asks for.
fn weights<O: Observer>(
    real: &Real<O>,
    config: &vramcast::config::bert::Config,
) -> Result<HashMap<String, Tensor>> {
    let mut tensors = HashMap::new();
    let (h, i) = (config.hidden_size, config.intermediate_size);
    let mut tensor = |name: String, shape: &[u64], init| -> Result<()> {
        tensors.insert(
            name,
            real.leaf(shape, init, Leaf::Constant, vramcast::dtype::DType::F32)?,
        );
        Ok(())
    };
    let normal = Init::Normal(config.initializer_range);
    for (name, rows) in [
        ("word", config.vocab_size),
        ("position", config.max_position_embeddings),
        ("token_type", config.type_vocab_size),
    ] {
        tensor(
            format!("embeddings.{name}_embeddings.weight"),
            &[rows, h],
            normal,
        )?;
    }
    tensor("embeddings.LayerNorm.weight".to_owned(), &[h], Init::Ones)?;
    tensor("embeddings.LayerNorm.bias".to_owned(), &[h], Init::Zeros)?;
    for layer in 0..config.num_hidden_layers {
        let at = format!("encoder.layer.{layer}");
        for (name, from, to, norm) in [
            ("attention.self.query", h, h, None),
            ("attention.self.key", h, h, None),
            ("attention.self.value", h, h, None),
            (
                "attention.output.dense",
                h,
                h,
                Some("attention.output.LayerNorm"),
            ),
            ("intermediate.dense", h, i, None),
            ("output.dense", i, h, Some("output.LayerNorm")),
        ] {
            tensor(format!("{at}.{name}.weight"), &[to, from], normal)?;
            tensor(format!("{at}.{name}.bias"), &[to], Init::Zeros)?;
            if let Some(norm) = norm {
                tensor(format!("{at}.{norm}.weight"), &[h], Init::Ones)?;
                tensor(format!("{at}.{norm}.bias"), &[h], Init::Zeros)?;
            }
        }
    }
    Ok(tensors)
}
