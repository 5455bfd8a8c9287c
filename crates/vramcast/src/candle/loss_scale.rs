//! Loss scaling: gradients of half-precision products would underflow, so the loss is multiplied
//! before the backward pass, and gradients are divided after it (Micikevicius et al. 2018,
//! arXiv:1710.03740). Backs off and grows as PyTorch's `GradScaler` does, but begins lower: PyTorch's
//! 65,536 is beyond half precision for the gradient of a single token, whose first steps it leaves
//! out.

use super::api::Candle;

/// Its scale, and for how many steps it has been right.
#[derive(Clone, Copy, Debug)]
pub struct LossScale {
    scale: f64,
    right: u32,
}

const FIRST: f64 = 1_024.0;

/// As in `torch.amp.GradScaler`.
const GROWTH_INTERVAL: u32 = 2_000;

impl Default for LossScale {
    fn default() -> Self {
        Self {
            scale: FIRST,
            right: 0,
        }
    }
}

impl LossScale {
    /// The loss to differentiate.
    ///
    /// # Errors
    /// What `candle` returns.
    pub fn scaled<C: Candle>(&self, candle: &C, loss: &C::Tensor) -> Result<C::Tensor, C::Error> {
        candle.affine(loss, self.scale, 0.0)
    }

    /// Takes the scale out of the gradients of `variables`, one after the other, and says whether
    /// all are finite. If not, the step must be left out.
    ///
    /// # Errors
    /// What `candle` returns.
    pub fn unscale<C: Candle>(
        &mut self,
        candle: &C,
        variables: &[C::Tensor],
        grads: &mut C::Grads,
    ) -> Result<bool, C::Error> {
        let mut total: Option<C::Tensor> = None;
        for variable in variables {
            let Some(scaled) = candle.take(grads, variable) else {
                continue;
            };
            let gradient = candle.affine(&scaled, 1.0 / self.scale, 0.0)?;
            drop(scaled);
            let sum = candle.sum_all(&gradient)?;
            candle.put(grads, variable, gradient);
            // One value that is not finite makes the sum so.
            total = Some(match total {
                None => sum,
                Some(total) => candle.add(&total, &sum)?,
            });
        }
        let finite = total.map_or(Ok(true), |total| candle.is_finite(&total))?;
        self.right = if finite { self.right + 1 } else { 0 };
        if !finite {
            self.scale /= 2.0;
        } else if self.right.is_multiple_of(GROWTH_INTERVAL) {
            self.scale *= 2.0;
        }
        Ok(finite)
    }
}
