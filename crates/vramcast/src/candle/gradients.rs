//! What is done with gradients between the backward pass and the step.
//!
//! candle's store holds more than the variables' gradients: those of every untracked argument, such
//! as a mask. `GradStore::extend` adds them too, in the random order of its hash map; here only
//! variables count, in their order.

use super::api::Candle;

/// Adds the gradients of `variables` in `from` to those in `to`, without what candle computed them
/// from, and lets go of everything else in `from`. The sum is out of place: while one is made, three gradients of that variable exist.
///
/// # Errors
/// What `candle` returns.
pub fn accumulate<C: Candle>(
    candle: &C,
    variables: &[C::Tensor],
    to: &mut C::Grads,
    mut from: C::Grads,
) -> Result<(), C::Error> {
    for variable in variables {
        let Some(new) = candle.take(&mut from, variable) else {
            continue;
        };
        let sum = match candle.take(to, variable) {
            None => new,
            Some(old) => candle.add(&old, &new)?,
        };
        candle.put(to, variable, candle.detach(&sum));
    }
    Ok(())
}
