"""CA-Fed: leave out clients that are rare or come in long runs, where that is worth the bias (Rodio et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from turnout.declarations import ClientCount, NotNegativeScalar, Numbers, ShareScalar
from turnout.strategies.base import Strategy, listed, per_client
from turnout.strategies.sampling import without_replacement
from turnout.types import Ask, Fleet, Mask, Params, PerClient, RandomKey, Scalar, View, divide

Clusters = Int[Array, " clients"]
GivenClusters = Annotated[Clusters | Sequence[int], Numbers(0, 2**31 - 1, whole=True)]
Losses = Annotated[Scalar | PerClient, Numbers(infinite=True)]
Bits = UInt32[Array, " clients"]
Unseen = Literal["first", "mean"]
Compensated = tuple[Float[Array, ""], Float[Array, ""]]  # a sum, and what its rounding has lost

_MIN_CLIENTS_FOR_DIGITS = 2**16  # from which on a sort by digits is faster


class CAFedState(eqx.Module):
    loss: PerClient  # F̂, filtered; zero before there is an estimate
    best: PerClient  # F̂*, smallest F̂ so far; likewise
    seen: Mask


class CAFed(Strategy[CAFedState]):
    """Direction Σ_{k ∈ A_t, kept} (α_k / π_k) Δ_k, not normalised; who is kept is decided anew every round.

    Every available client reports the loss of the server's model on its data. Clients are then tried by decreasing |λ|,
    and the remaining ones by increasing π. A client is left out of the round if that lowers the estimated error by τ or
    more,

        ε = Σ_kept α_k g_k / S + c (1 - S)² max_k g_k,    S = Σ_kept α_k,  g = F̂ - F̂*,  c = factor · κ̄².

    Effective weight α_k on the kept clients and zero elsewhere, up to a common factor. κ̄² → ∞ is Unbiased; κ̄² → 0 keeps
    those of smallest gap g, which are the highly available where the rare are behind.

    Deviation: while no gap is known (all g = 0, as in the first round) nobody is left out; by the letter of algorithm 1
    ties are accepted and one client would remain.
    Equation 17 leaves the estimate of an absent client as it was. It needs a first value for clients not seen yet:
    that is the mean loss of those seen in the first round that is not empty, as in the public code, and it stays until
    the client comes (`unseen="first"`). With `unseen="mean"` such a client has the mean loss and the mean minimum of
    those seen so far, anew in every round: its gap then shrinks with theirs instead of staying at that of the start.
    Deviation: with a cohort, all available clients report a loss, not the drawn ones only.
    """

    server_memory = "O(N)"
    consistent = "as κ̄² grows, if π is right, with links and work alike for all"
    title = "CA-Fed"
    references = ("rodio2023federated", "rodio2023availability")
    needs = ("pi", "lam", "losses")

    kappa: NotNegativeScalar = 1.0  # κ̄², price of a bias
    factor: NotNegativeScalar = 4.0  # of κ̄² in ε; 4 in the journal paper, 1 in the conference paper
    memory: ShareScalar = 0.0  # 1 - β of equation 17, weight of the past in F̂
    tolerance: NotNegativeScalar = 0.0  # τ, smallest decrease of ε for which a client is left out
    cohort: ClientCount | None = None  # clients asked per round, drawn among the kept; all kept ones if not given
    unseen: Unseen = eqx.field(static=True, default="first")  # F̂ of clients never seen, see above
    optimum: Losses | None = per_client()  # F*, least losses where known; the running minimum if not given
    clusters: GivenClusters | None = per_client(converter=listed(Clusters))  # left out as one

    def init(self, fleet: Fleet, params: Params) -> CAFedState:
        zeros = jnp.zeros_like(fleet.importance)
        return CAFedState(zeros, zeros, jnp.zeros(zeros.shape, bool))

    def check(self, fleet: Fleet) -> None:
        super().check(fleet)
        if self.clusters is not None:
            assignment = jnp.asarray(self.clusters)
            if assignment.shape != (fleet.num_clients,):
                raise ValueError(f"clusters must name the cluster of each of the {fleet.num_clients} clients")
            if int(assignment.max()) >= fleet.num_clients:
                raise ValueError(f"clusters must be numbered from 0, each below the {fleet.num_clients} clients")

    def select(self, state: CAFedState, view: View, key: RandomKey) -> tuple[Ask, CAFedState]:
        state = self._update(state, view)
        loss, best = self._fill_unseen(state)
        loss = jnp.where(view.vacant, best, loss)
        bias = jnp.asarray(self.factor, loss.dtype) * jnp.asarray(self.kappa, loss.dtype)
        clusters = None if self.clusters is None else jnp.asarray(self.clusters)
        kept = exclude(view.target, view.known.pi, view.known.lam, loss, best, bias, self.tolerance, clusters)
        wanted = view.available & (kept | ~jnp.any(loss > best))
        weight = divide(view.target, view.known.pi)
        if self.cohort is None:
            return Ask.of(wanted, weight), state
        drawn = without_replacement(key, wanted, self.cohort, view.slots)
        share = divide(jnp.sum(wanted, dtype=weight.dtype), jnp.sum(drawn, dtype=weight.dtype))
        return Ask.of(drawn, weight * share), state

    def _update(self, state: CAFedState, view: View) -> CAFedState:
        """State with the losses of this round filtered in; where there is no estimate yet, a loss is taken as it is."""
        if view.losses is None:
            raise ValueError("CAFed needs the losses of the available clients in its view")
        memory = jnp.asarray(self.memory, state.loss.dtype)
        estimated = jnp.any(state.seen) if self.unseen == "first" else state.seen
        mixed = jnp.where(estimated, memory * state.loss + (1.0 - memory) * view.losses, view.losses)
        loss = jnp.where(view.available, mixed, state.loss)
        if self.unseen == "first":
            loss = jnp.where(estimated | view.available, loss, _mean(view.losses, view.available))
        best = jnp.where(estimated, jnp.minimum(state.best, loss), loss)
        return CAFedState(loss, best, state.seen | view.available)

    def _fill_unseen(self, state: CAFedState) -> tuple[PerClient, PerClient]:
        """F̂ and F* of all clients, those never seen included."""
        loss, best = state.loss, state.best
        if self.unseen == "mean":
            loss, best = (jnp.where(state.seen, values, _mean(values, state.seen)) for values in (loss, best))
        if self.optimum is None:
            return loss, best
        optimum = jnp.broadcast_to(jnp.asarray(self.optimum, loss.dtype), loss.shape)
        return loss, jnp.where(jnp.any(state.seen), jnp.minimum(optimum, best), loss)


def _mean(values: PerClient, among: Mask) -> Scalar:
    """Mean over some of the clients, 0 over none."""
    return divide(jnp.sum(jnp.where(among, values, 0.0)), jnp.sum(among, dtype=values.dtype))


@jax.jit
def exclude(
    target: PerClient,
    pi: PerClient,
    lam: PerClient,
    loss: PerClient,
    best: PerClient,
    bias: Scalar,
    tolerance: NotNegativeScalar = 0.0,
    clusters: Clusters | None = None,
) -> Mask:
    """The clients that CA-Fed keeps: one sort and one pass by decreasing |λ|, then the same by increasing π.

    `bias` is c in ε. A client without weight (α or π of zero) is never kept; the last client always is. With clusters,
    whole clusters are left out, tried in the order of their largest |λ| and then their smallest π.

    Costs O(N log N) where the direct form costs O(N²): as q is either α/π or zero, ε depends on two sums only.
    """
    gap = loss - best
    worst = jnp.max(gap)
    # ε is the same for gaps counted down from the largest, but equal gaps then tie exactly, as in exact arithmetic.
    slack = worst - gap
    price, tolerance = jnp.asarray(bias, gap.dtype) * worst, jnp.asarray(tolerance, gap.dtype)
    able = (target > 0) & (pi > 0)
    share, runs = jnp.where(able, target, 0.0), jnp.abs(lam)
    if clusters is not None:
        share, slack, runs, pi = _pool(clusters, share, slack, runs, pi)
    kept = share > 0
    for order in (_order(~_as_bits(runs)), _order(_as_bits(pi))):
        kept = _prune(order, kept, share, slack, price, tolerance)
    return kept if clusters is None else able & kept[clusters]


def _pool(
    clusters: Clusters, share: PerClient, slack: PerClient, runs: PerClient, pi: PerClient
) -> tuple[PerClient, PerClient, PerClient, PerClient]:
    """Share, slack, |λ| and π per cluster, as if it were one client; there is room for one cluster per client."""
    zeros = jnp.zeros_like(share)
    mass, total = (zeros.at[clusters].add(values) for values in (share, share * slack))
    return mass, divide(total, mass), zeros.at[clusters].max(runs), jnp.ones_like(pi).at[clusters].min(pi)


def _as_bits(values: PerClient) -> Bits:
    """Unsigned integers in the order of the values, none of which is negative."""
    return jax.lax.bitcast_convert_type(values.astype(jnp.float32), jnp.uint32)


def _order(keys: Bits) -> Int[Array, " clients"]:
    """A stable argsort. Many clients are sorted by digits, each with its place in the low bits: three times as fast."""
    count = keys.shape[0]
    if count < _MIN_CLIENTS_FOR_DIGITS:
        return jnp.argsort(keys, stable=True)
    room = (count - 1).bit_length()
    place, order = jnp.arange(count, dtype=jnp.uint32), jnp.arange(count, dtype=jnp.int32)
    for shift in range(0, 32, 32 - room):
        digits = keys[order] >> jnp.uint32(shift) << jnp.uint32(room)  # higher ones drop out
        order = order[(jnp.sort(digits | place) & jnp.uint32(2**room - 1)).astype(jnp.int32)]
    return order


class _Sums(NamedTuple):
    """What ε depends on, while clients are tried one by one; compensated, as a million small shares are subtracted."""

    mass: Compensated  # S = Σ_kept α
    slack: Compensated  # Σ_kept α (max g - g)
    num_kept: Int[Array, ""]  # clients


def _prune(
    order: Int[Array, " clients"],
    kept: Mask,
    share: PerClient,
    slack: PerClient,
    price: Float[Array, ""],
    tolerance: Float[Array, ""],
) -> Mask:
    """Try the kept clients in the given order and leave out each whose absence lowers ε by the tolerance or more.

    The change of ε is written out, (mean slack - slack_k) α_k / S' - c α_k (2 (1 - S) + α_k) max g: as a difference of
    two values of ε it would be lost in rounding.
    """
    whole = jnp.sum(jnp.where(kept, share, 0.0))
    start = _Sums(
        mass=(whole, jnp.zeros_like(whole)),
        slack=(jnp.sum(jnp.where(kept, share * slack, 0.0)), jnp.zeros_like(whole)),
        num_kept=jnp.sum(kept, dtype=jnp.int32),
    )
    tiny = jnp.finfo(whole.dtype).tiny

    def attempt(sums: _Sums, client: tuple[Array, Array, Array]) -> tuple[_Sums, Array]:
        part, low, candidate = client
        mass, away = sums.mass[0], 1.0 - sums.mass[0]
        left = jnp.maximum(mass - part, tiny)
        gain = part * ((sums.slack[0] / mass - low) / left - price * (2.0 * away + part))
        out = candidate & (sums.num_kept > 1) & (gain >= tolerance)
        after = _Sums(_less(sums.mass, part), _less(sums.slack, part * low), sums.num_kept - 1)
        return jax.tree.map(lambda new, old: jnp.where(out, new, old), after, sums), out

    _, out = jax.lax.scan(attempt, start, (share[order], slack[order], kept[order]))
    return kept & ~jnp.zeros_like(kept).at[order].set(out)


def _less(total: Compensated, part: Float[Array, ""]) -> Compensated:
    """The total minus one part, and the rounding error to correct next time (Kahan)."""
    exact = part + total[1]
    after = total[0] - exact
    return after, exact - (total[0] - after)
