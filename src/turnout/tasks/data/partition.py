"""Who owns which sample: seeded ways to spread labelled data over clients.

Every function works on the host, with numpy's generator seeded by its `seed`, and returns one number per sample.
"""

import heapq
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int, Shaped

Labels = Int[np.ndarray, " samples"]
Owners = Int[np.ndarray, " samples"]
Parts = Int[np.ndarray, " samples"]

TRAIN, VALIDATION, TEST = 0, 1, 2
PARTS = {"train": TRAIN, "validation": VALIDATION, "test": TEST}


def iid(labels: Labels, num_clients: int, seed: int = 0) -> Owners:
    """Shuffle the samples and deal them out; sizes differ by one at most."""
    check_enough(labels.shape[0], num_clients, 1)
    return np.random.default_rng(seed).permutation(np.arange(labels.shape[0]) % num_clients)


def dirichlet(labels: Labels, num_clients: int, alpha: float, min_size: int = 1, seed: int = 0) -> Owners:
    """Spread each class over the clients in proportions drawn from a symmetric Dirichlet(alpha).

    Small alpha gives clients of few classes and uneven sizes. Clients left with fewer than `min_size` samples are then
    filled up from the largest clients.

    Deviation: others draw again until everyone has enough, which may never end when clients are many.
    """
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}; the Dirichlet parameter must be positive")
    check_enough(labels.shape[0], num_clients, min_size)
    generator = np.random.default_rng(seed)
    owners = np.empty(labels.shape[0], np.int64)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(num_clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * members.size).astype(np.int64)
        owners[members] = np.searchsorted(cuts, np.arange(members.size), side="right")
    return fill_up(owners, num_clients, min_size, generator)


def fill_up(owners: Owners, num_clients: int, min_size: int, generator: np.random.Generator) -> Owners:
    """Move random samples from the largest clients until each has `min_size`."""
    owners = owners.copy()
    sizes = np.bincount(owners, minlength=num_clients)
    short = np.flatnonzero(sizes < min_size)
    largest = [(-size, k) for k, size in enumerate(sizes.tolist()) if size > min_size]
    heapq.heapify(largest)
    held: dict[int, list[int]] = {}
    for client in np.repeat(short, min_size - sizes[short]):
        minus_size, giver = heapq.heappop(largest)
        if giver not in held:
            held[giver] = generator.permutation(np.flatnonzero(owners == giver)).tolist()
        owners[held[giver].pop()] = client
        if -minus_size - 1 > min_size:
            heapq.heappush(largest, (minus_size + 1, giver))
    return owners


def one_class_a_client(labels: Labels, num_clients: int, seed: int = 0, similarity: float = 0.0) -> Owners:
    """Give client k samples of class k mod C only; clients of one class share its samples evenly.

    With `similarity` a random share of all samples is dealt to all clients evenly instead.
    """
    num_classes = np.unique(labels).size
    if num_clients < num_classes:
        raise ValueError(f"{num_clients} clients cannot hold {num_classes} classes, one each: ask for more clients")
    holders, generator = (
        [np.arange(i, num_clients, num_classes) for i in range(num_classes)],
        np.random.default_rng(seed),
    )
    owners = _by_class(labels, holders, generator)
    mixed = np.flatnonzero(generator.random(labels.shape[0]) < similarity)
    owners[mixed] = generator.permutation(np.arange(mixed.size) % num_clients)
    return owners


def pathological(labels: Labels, num_clients: int, per_client: int = 2, seed: int = 0) -> Owners:
    """Give each client samples of exactly `per_client` random classes.

    The numbers of clients that hold a class differ by one at most; they share its samples evenly.
    """
    num_classes = np.unique(labels).size
    if not 1 <= per_client <= num_classes or num_clients * per_client < num_classes:
        raise ValueError(
            f"{num_clients} clients of {per_client} classes each cannot hold {num_classes} classes: per_client must be "
            f"from 1 to {num_classes}, and num_clients times per_client at least {num_classes}"
        )
    generator = np.random.default_rng(seed)
    holders: list[list[int]] = [[] for _ in range(num_classes)]
    for client in range(num_clients):
        counts = np.array([len(clients) for clients in holders])
        rarest = np.lexsort((generator.random(num_classes), counts))
        for place in rarest[:per_client]:
            holders[place].append(client)
    return _by_class(labels, [np.array(clients) for clients in holders], generator)


def _by_class(labels: Labels, holders: Sequence[np.ndarray], generator: np.random.Generator) -> Owners:
    """Deal the samples of each class evenly to the clients that hold it."""
    owners = np.empty(labels.shape[0], np.int64)
    for label, clients in zip(np.unique(labels), holders, strict=True):
        members = generator.permutation(np.flatnonzero(labels == label))
        if members.size < clients.size:
            raise ValueError(
                f"class {label} has {members.size} samples for the {clients.size} clients that hold it: "
                "ask for fewer clients"
            )
        owners[members] = clients[np.arange(members.size) % clients.size]
    return owners


def shards(labels: Labels, num_clients: int, per_client: int = 2, seed: int = 0) -> Owners:
    """Sort the samples by class, cut them into equal shards, and give each client `per_client` random shards.

    This is the partition of McMahan et al. 2017: with as many shards per class as they have, most clients hold two
    classes. Sizes of shards differ by one at most.
    """
    if per_client < 1:
        raise ValueError(f"per_client is {per_client}; each client needs one shard or more")
    num_shards = num_clients * per_client
    check_enough(labels.shape[0], num_clients, per_client)
    generator = np.random.default_rng(seed)
    order = np.lexsort((generator.random(labels.shape[0]), labels))
    owner_of_shard = generator.permutation(np.arange(num_shards) % num_clients)
    owners = np.empty(labels.shape[0], np.int64)
    owners[order] = owner_of_shard[np.arange(labels.shape[0]) * num_shards // labels.shape[0]]
    return owners


def power_law(labels: Labels, num_clients: int, exponent: float = 1.0, min_size: int = 1, seed: int = 0) -> Owners:
    """Deal random samples so that the i-th largest client has a size proportional to i^-exponent.

    Every client has `min_size` samples; the power law holds for what it has beyond that. Which client is how large is
    drawn at random.
    """
    if not 0 <= exponent < np.inf:
        raise ValueError(f"exponent is {exponent}; it must be a number from 0 on, and 0 means equal sizes")
    check_enough(labels.shape[0], num_clients, min_size)
    generator = np.random.default_rng(seed)
    shares = generator.permutation(np.arange(1, num_clients + 1) ** -float(exponent))
    ends = np.rint(np.cumsum(shares) / shares.sum() * (labels.shape[0] - num_clients * min_size)).astype(np.int64)
    sizes = np.diff(ends, prepend=0) + min_size
    return generator.permutation(np.repeat(np.arange(num_clients), sizes))


def by_id(
    ids: Shaped[np.ndarray, " samples"], num_clients: int | None = None, min_size: int = 1, seed: int = 0
) -> Owners:
    """Make each id (a user, a writer, a device) a client; samples of those left out get −1.

    Ids of fewer than `min_size` samples are left out. Of the others `num_clients` are drawn, all if not given; they
    keep their sorted order.
    """
    names, places, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    (enough,) = np.nonzero(sizes >= min_size)
    num_clients = enough.size if num_clients is None else num_clients
    if not 1 <= num_clients <= enough.size:
        raise ValueError(f"{num_clients} clients were asked of {enough.size} ids that have {min_size} samples or more")
    chosen = np.sort(np.random.default_rng(seed).choice(enough, num_clients, replace=False))
    numbers = np.full(names.size, -1, np.int64)
    numbers[chosen] = np.arange(num_clients)
    return numbers[places.reshape(-1)]


def names_of(ids: Shaped[np.ndarray, " samples"], owners: Owners) -> tuple[str, ...]:
    """The id of each client, in the order of their numbers; those of samples left out (−1) are not among them."""
    clients, first = np.unique(owners, return_index=True)
    return tuple(str(name) for name in ids[first[clients >= 0]])


def alike(
    labels: Labels,
    owned_labels: Int[np.ndarray, " owned"],
    owned_by: Int[np.ndarray, " owned"],
    num_clients: int,
    seed: int = 0,
) -> Owners:
    """Deal other samples so that each client gets every class in proportion to what it owns already.

    So test samples follow the label law of each client. A client that owns a share s of a class gets s · n of its n
    samples, rounded; a class that no client owns is dealt by the clients' sizes.
    """
    generator = np.random.default_rng(seed)
    sizes = np.bincount(owned_by, minlength=num_clients)
    owners = np.empty(labels.shape[0], np.int64)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        owned = np.bincount(owned_by[owned_labels == label], minlength=num_clients)
        ends = np.cumsum(owned if owned.any() else sizes)
        cuts = np.rint(ends[:-1] / ends[-1] * members.size).astype(np.int64)
        owners[members] = np.searchsorted(cuts, np.arange(members.size), side="right")
    return owners


def share_out(clusters: Owners, members: int, seed: int = 0) -> Owners:
    """Deal the samples of each cluster evenly to its members: cluster c has clients c · members and the next ones."""
    order, rank, _ = _random_ranks(clusters, seed)
    owners = np.empty_like(clusters)
    owners[order] = clusters[order] * members + rank % members
    return owners


def _random_ranks(owners: Owners, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples sorted by owner, in random order within each; their ranks there; and the number of samples per owner."""
    order = np.lexsort((np.random.default_rng(seed).random(owners.shape[0]), owners))
    sizes = np.bincount(owners)
    return order, np.arange(owners.shape[0]) - np.repeat(np.cumsum(sizes) - sizes, sizes), sizes


def divide(owners: Owners, validation: float = 0.0, test: float = 0.0, seed: int = 0) -> Parts:
    """Mark each sample as TRAIN, VALIDATION or TEST: of each client's n samples, a random ⌊share · n⌋ are held out.

    Every client keeps a training sample; one with few samples may have none held out.
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise ValueError(
            f"validation is {validation} and test is {test}; they are shares of a client's samples, not negative and "
            "together less than one"
        )
    order, rank, sizes = _random_ranks(owners, seed)
    # The small addend corrects rounding: ⌊0.29 · 100⌋ must be 29.
    num_test = np.repeat(np.floor(test * sizes + 1e-9), sizes)
    num_validation = np.repeat(np.floor(validation * sizes + 1e-9), sizes)
    parts = np.empty(owners.shape[0], np.int8)
    parts[order] = np.select([rank < num_test, rank < num_test + num_validation], [TEST, VALIDATION], TRAIN)
    return parts


def random_pairs(num_classes: int, count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Draw disjoint pairs of classes."""
    if not 0 <= 2 * count <= num_classes:
        raise ValueError(
            f"{count} disjoint pairs were asked of {num_classes} classes; at most {num_classes // 2} exist"
        )
    drawn = np.random.default_rng(seed).choice(num_classes, size=(count, 2), replace=False)
    return [(int(a), int(b)) for a, b in drawn]


def draw_groups(num_clients: int, groups: str, generator: np.random.Generator) -> Bool[np.ndarray, " clients"]:
    """Whether each client is in the second of two groups: by a coin per client, or the second half of the clients."""
    if groups == "random":
        return generator.random(num_clients) < 0.5
    if groups == "halves":
        return np.arange(num_clients) >= num_clients / 2
    raise ValueError(f"groups is {groups!r}; it must be 'random' or 'halves'")


def swap_labels(
    labels: Labels, owners: Owners, group: Bool[np.ndarray, " clients"], pairs: Sequence[tuple[int, int]]
) -> Labels:
    """Exchange the two labels of each pair in the samples of the group's clients, as CA-Fed's paper does."""
    named = [label for pair in pairs for label in pair]
    if len(set(named)) != len(named):
        raise ValueError(f"pairs {list(pairs)} name a label twice; each label may be swapped once")
    swapped = labels.copy()
    of_group = group[owners]
    for a, b in pairs:
        swapped[of_group & (labels == a)] = b
        swapped[of_group & (labels == b)] = a
    return swapped


def label_counts(labels: Labels, owners: Owners, num_clients: int) -> Int[np.ndarray, "clients classes"]:
    """How many samples of each class every client owns."""
    num_classes = int(labels.max()) + 1
    counts = np.bincount(owners * num_classes + labels, minlength=num_clients * num_classes)
    return counts.reshape(num_clients, num_classes)


def check_enough(num_samples: int, num_clients: int, min_size: int) -> None:
    if num_clients < 1 or min_size < 1:
        raise ValueError(f"there are {num_clients} clients of at least {min_size} samples; both must be one or more")
    if num_samples < num_clients * min_size:
        raise ValueError(
            f"{num_samples} samples cannot give {num_clients} clients {min_size} each: "
            f"ask for {num_samples // min_size} clients at most"
        )
