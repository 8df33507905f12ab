"""How a client works: it trains, does what the algorithm wants besides, and sends."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp

from turnout import tree
from turnout.simulator.client_optimizer import Local
from turnout.simulator.client_state import ClientState
from turnout.simulator.local_training import Jobs, Trained, train_locally
from turnout.strategies.client_side import ClientSide, answer
from turnout.tasks.base import Task
from turnout.types import Answer, Download, Params, PerSlot, PyTree, Scalar, Work
from turnout.uploads.base import Shapes, Upload, UploadContext, encode_answer
from turnout.uploads.plain import Plain


class Sent(eqx.Module):
    """What a cohort sends, one row per slot."""

    answers: Answer
    losses: PerSlot
    held: ClientState | None = None  # new state of the clients, to be kept if the round counts


class Client(eqx.Module):
    """How clients train, what the algorithm has them do besides, and what happens to their answers on the way."""

    local: Local
    side: ClientSide[PyTree] | None = None
    upload: Upload[PyTree] | None = None  # None: answers arrive as they were made

    @property
    def sends_plainly(self) -> bool:
        """Whether updates are sent as they are made."""
        return self.side is None and self.upload is None

    def init(self, params: Params, num_clients: int) -> ClientState | None:
        """State of clients that have not worked yet, one row per client; None if they keep nothing."""
        optimizer = self.local.fresh(params) if self.local.lasting else None
        uploads, algorithm = (None if part is None else part.init(params) for part in (self.upload, self.side))
        fresh = ClientState(optimizer, uploads, algorithm)
        if not jax.tree.leaves(fresh):
            return None
        return tree.repeat(jax.tree.map(jnp.asarray, fresh), num_clients)

    def num_bytes(self, model: Shapes) -> int:
        """Bytes of one answer of such a model."""
        vectors = 2 if self.side is not None and self.side.sends_second else 1
        return vectors * (self.upload or Plain()).num_bytes(model)

    def push(self, download: Download, jobs: Jobs) -> Params | None:
        """B of each job, None for zero."""
        if self.side is None:
            return None
        kept = None if jobs.held is None else jobs.held.algorithm
        return jax.vmap(self.side.push, axis_size=jobs.steps.shape[0])(kept, download.shared)

    def work(self, task: Task, download: Download, jobs: Jobs, most: Scalar, masked: bool) -> Sent:
        """Training and sending in one go, so that no update need be kept beside what is sent of it."""
        wanted = () if self.side is None else self.side.gradients
        push = self.push(download, jobs)
        trained = train_locally(self.local, task, download.model, jobs, most, masked, push, wanted)
        return self.send(trained, download, jobs)

    def send(self, trained: Trained, download: Download, jobs: Jobs) -> Sent:
        """What is sent of finished work, and the state of the clients if it arrives."""
        held = ClientState() if jobs.held is None else jobs.held
        if self.side is None:
            (answers, uploads), algorithm = self._encode(Answer(trained.updates), held.uploads, jobs), None
        else:
            work = _work_of(trained, download, jobs)
            assert jobs.context is not None  # as there
            answers, algorithm, uploads = jax.vmap(self._answer)(held.algorithm, work, held.uploads, jobs.context)
        after = None if jobs.held is None else ClientState(trained.optimizer, uploads, algorithm)
        return Sent(answers, trained.losses, after)

    def _answer(
        self, kept: PyTree, work: Work, before: PyTree, context: UploadContext
    ) -> tuple[Answer, PyTree, PyTree]:
        """One client's answer, what it keeps of the algorithm, and the state of the transform."""
        assert self.side is not None  # else the update itself is the answer

        def code(said: Answer) -> tuple[Answer, PyTree]:
            return (said, None) if self.upload is None else encode_answer(self.upload, said, before, context)

        return answer(self.side, kept, work, code)

    def _encode(self, answers: Answer, before: PyTree, jobs: Jobs) -> tuple[Answer, PyTree]:
        """The answers as the server reads them, and the state of the transform."""
        if self.upload is None:
            return answers, None
        assert jobs.context is not None  # the loop gives one where there is an upload
        return jax.vmap(functools.partial(encode_answer, self.upload))(answers, before, jobs.context)


def _work_of(trained: Trained, download: Download, jobs: Jobs) -> Work:
    context = jobs.context
    assert context is not None  # the loop gives one where the algorithm has a client's side
    return Work(
        update=trained.updates,
        lr=context.lr,
        reach=context.reach,
        t=context.t,
        shared=download.shared,
        mean_gradient=trained.mean_gradient,
        last_gradient=trained.last_gradient,
        importance=1.0 if context.importance is None else context.importance,
    )
