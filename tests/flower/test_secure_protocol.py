"""Sums under masks: exact or lost, nothing but uniform bits on the way, and refusals."""

import contextlib
import itertools
import random

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("cryptography")

from secure_round import play, random_vectors

from turnout.flower.secure import ciphers, packing, sharing
from turnout.flower.secure.neighbours import ALL_UP_TO, groups_of, neighbours_for, threshold_of
from turnout.flower.secure.party import Party
from turnout.flower.secure.rules import LostError, RefusedError, Rules
from turnout.flower.secure.summer import Summer

TAG = "run|1"


def exact(vectors, names):
    return np.sum([vectors[name] for name in names], axis=0, dtype=np.uint32)


def rounds(count, seed=0):
    """Random cohorts, neighbours and dropouts; how many sums came out, all exact, and how many were lost."""
    draw, came, lost = random.Random(seed), 0, 0
    for number in range(count):
        vectors = random_vectors(draw.randrange(2, 14), 5, seed=number)
        neighbours, dropouts = draw.choice([None, None, 4, 6]), draw.choice([0.0, 0.05, 0.1, 0.3])
        total, names = play(vectors, dropouts, number, neighbours, restarts=number % 5 == 0)
        came, lost = came + (total is not None), lost + (total is None)
        if total is not None:
            assert len(names) >= 3
            np.testing.assert_array_equal(total, exact(vectors, names))
    return came, lost


def test_every_sum_that_comes_out_is_exact():
    came, lost = rounds(200)
    assert came > 60
    assert lost > 20


@pytest.mark.slow
def test_every_sum_of_ten_thousand_rounds_is_exact():
    came, lost = rounds(10_000, seed=1)
    assert came > 3_000
    assert lost > 1_000


@pytest.mark.parametrize("count", [3, 30, 45])
def test_nobody_drops_out_and_all_are_in_the_sum(count):
    vectors = random_vectors(count, 7)
    total, names = play(vectors)
    assert names == sorted(vectors)
    np.testing.assert_array_equal(total, exact(vectors, vectors))


def test_what_the_server_receives_is_uniform_bits():
    """Uploads of all zeros and of all ones, byte by byte; and no two alike."""
    seen = []
    vectors = {name: np.full(4000, value, np.uint32) for name, value in ((1, 0), (2, 0), (3, 2**32 - 1), (4, 7))}
    for seed in range(3):
        play(vectors, seed=seed, tell=lambda _keys, _boxes, uploads, _told: seen.extend(uploads.values()))
    for upload in seen:
        assert stats.chisquare(np.bincount(upload.view(np.uint8), minlength=256)).pvalue > 1e-6
    for one, other in itertools.pairwise(seen):
        assert stats.chisquare(np.bincount((one ^ other).view(np.uint8), minlength=256)).pvalue > 1e-6
        assert stats.chisquare(np.bincount((one - other).view(np.uint8), minlength=256)).pvalue > 1e-6
    everything = np.concatenate(seen).view(np.uint8)
    assert abs(np.unpackbits(everything).mean() - 0.5) < 5 * 0.5 / np.sqrt(8 * len(everything))


def test_boxes_and_shares_of_one_client_say_nothing_without_a_threshold():
    """The same secret is shared anew each time; one share less than the threshold fits to any secret."""
    secret = bytes(range(16))
    first, second = (sharing.split(secret, 3, [1, 2, 3, 4, 5]) for _ in range(2))
    assert not set(first) & set(second)
    shares = dict(zip([1, 2, 3, 4, 5], first, strict=True))
    for points in ([1, 2, 3], [2, 4, 5], [1, 2, 3, 4, 5]):
        weights = sharing.weights_at_zero(points)
        assert sharing.combine({x: shares[x] for x in points}, weights) == secret
    two = {1: shares[1], 2: shares[2]}
    found = set()
    for part in range(60):  # whatever the third share is, the two fit to some secret, or to a number beyond all
        third = (part * (sharing.PRIME // 60)).to_bytes(17, "big")
        with contextlib.suppress(LostError):
            found.add(sharing.combine({**two, 3: third}, sharing.weights_at_zero([1, 2, 3])))
    assert 5 < len(found) < 60


def test_secrets_are_too_many_to_guess():
    party = Party(1, TAG)
    party.keys()
    kept = party.to_bytes()
    assert [8 * len(kept[name]) for name in ("key-secret", "own-secret", "box-secret")] == [128, 128, 256]
    assert sharing.PRIME > 2**128
    again = Party(1, TAG)
    again.keys()
    assert kept["key-secret"] != again.to_bytes()["key-secret"]


def test_masks_are_those_of_aes_in_counter_mode():
    """The first two blocks under the key of NIST SP 800-38A, F.5.5, with counters of zero and one."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = block.update(bytes(16)) + block.update(bytes(15) + b"\1")
    assert ciphers.mask_from(key, 8).tobytes() == blocks


def test_neighbours_are_those_of_the_tails():
    assert neighbours_for(30, 0.1) == 29
    assert neighbours_for(ALL_UP_TO + 1, 0.1) <= 30
    assert [neighbours_for(100, share) for share in (0.05, 0.1, 0.15)] == [14, 26, 46]
    assert [neighbours_for(1000, share) for share in (0.05, 0.1, 0.15)] == [34, 42, 98]


def test_a_ring_is_two_sided_and_all_with_all_below():
    groups = groups_of(range(1, 101), 26, random.Random(1))
    assert {len(group) for group in groups.values()} == {27}
    assert all(one in groups[other] for one, group in groups.items() for other in group)
    assert groups_of([1, 2, 3], 26, random.Random(1)) == dict.fromkeys([1, 2, 3], frozenset([1, 2, 3]))
    assert [threshold_of(members) for members in (2, 3, 4, 27)] == [2, 2, 3, 14]


def party_after(stage, rules=None, names=(1, 2, 3, 4)):
    """Clients after an exchange, and what was said in it."""
    parties = {name: Party(name, TAG, rules or Rules()) for name in names}
    keys = {name: party.keys() for name, party in parties.items()}
    if stage == "keys":
        return parties, keys
    boxes = {name: party.shares(keys, 3) for name, party in parties.items()}
    mail = {name: {other: boxes[other][name] for other in names if other != name} for name in names}
    if stage == "shares":
        return parties, mail
    for name, party in parties.items():
        party.masked(mail[name], np.zeros(3, np.uint32))
    return parties, mail


def refuses(match):
    return pytest.raises(RefusedError, match=match)


def test_a_client_refuses_keys_that_are_not_its_own():
    parties, keys = party_after("keys")
    with refuses("not its own"):
        parties[1].shares({**keys, 1: keys[2]}, 3)
    with refuses("not its own"):
        parties[2].shares({name: key for name, key in keys.items() if name != 2}, 3)


def test_a_client_refuses_keys_that_come_twice_or_have_no_secret():
    parties, keys = party_after("keys")
    with refuses("same key stands for two"):
        parties[1].shares({**keys, 3: keys[2]}, 3)
    with refuses("same key stands for two"):
        parties[2].shares({**keys, 3: keys[3]._replace(mask=keys[4].mask)}, 3)
    with refuses("public key is of no use"):
        parties[3].shares({**keys, 1: keys[1]._replace(box=b"\1" + bytes(31))}, 3)


@pytest.mark.parametrize("threshold", [0, 1, 2, 5])
def test_a_client_refuses_a_threshold_of_half_a_group_or_of_more_than_there_are(threshold):
    parties, keys = party_after("keys")
    with refuses(f"the threshold is {threshold} of 4"):
        parties[1].shares(keys, threshold)


def test_a_client_refuses_groups_and_sums_that_are_too_small():
    parties, keys = party_after("keys", Rules(least=5))
    with refuses("4 clients are in the group, 5 are needed"):
        parties[1].shares(keys, 3)
    parties, mail = party_after("shares")
    with refuses("2 uploads are in the sum, 3 are needed"):
        parties[1].masked({2: mail[1][2]}, np.zeros(3, np.uint32))
    parties, _ = party_after("masked")
    with refuses("2 uploads are in the sum, 3 are needed"):
        parties[1].unmask({1, 2}, {3, 4})


def test_a_client_refuses_boxes_that_are_changed_or_for_others():
    for change in (
        lambda mail: {**mail[1], 2: mail[1][2][:-1] + bytes([mail[1][2][-1] ^ 1])},
        lambda mail: {**mail[1], 2: mail[1][3]},
        lambda mail: {**mail[1], 2: mail[3][2]},
        lambda mail: {**mail[1], 2: b""},
    ):
        parties, mail = party_after("shares")
        with refuses("does not open"):
            parties[1].masked(change(mail), np.zeros(3, np.uint32))
    parties, mail = party_after("shares")
    with refuses("no neighbour"):
        parties[1].masked({**mail[1], 9: mail[1][2]}, np.zeros(3, np.uint32))


def test_a_client_never_tells_both_secrets_of_one():
    parties, _ = party_after("masked")
    with refuses("both secrets"):
        parties[1].unmask({1, 2, 3}, {3, 4})
    with refuses("answers 'unmasked' after 'masked' only"):  # once asked so, it tells nothing more
        parties[1].unmask({1, 2, 3}, {4})


def test_a_client_tells_nothing_of_strangers_nor_without_its_own_upload():
    parties, _ = party_after("masked")
    with refuses("no neighbour, or was gone before"):
        parties[1].unmask({1, 2, 3}, {9})
    with refuses("without its own upload"):
        parties[2].unmask({1, 3, 4}, {2})


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "unmasked"])
def test_every_exchange_is_answered_once_also_by_a_client_that_was_stopped(stage):
    parties, keys = party_after("keys")
    _, mail = party_after("shares")
    party = parties[1]
    if stage != "keys":
        party, mail = (lambda found: (found[0][1], found[1]))(party_after("shares"))
    if stage in ("masked", "unmasked"):
        party.masked(mail[1], np.zeros(3, np.uint32))
    if stage == "unmasked":
        party.unmask({1, 2, 3, 4}, set())
    again = Party.from_bytes(party.to_bytes(), Rules())
    calls = {
        "keys": lambda one: one.keys(),
        "shares": lambda one: one.shares(keys, 3),
        "masked": lambda one: one.masked(mail[1], np.ones(3, np.uint32)),
        "unmasked": lambda one: one.unmask({1, 2, 3, 4}, set()),
    }
    for one in (party, again):
        with refuses(f"is past '{stage}'"):
            calls[stage](one)


def test_what_is_kept_is_whole_or_refused():
    parties, _ = party_after("masked")
    kept = parties[1].to_bytes()
    assert all(isinstance(part, bytes) for part in kept.values())
    for name in kept:
        with refuses("not whole"):
            Party.from_bytes({other: part for other, part in kept.items() if other != name}, Rules())
    for name in ("group", "held", "name", "key-secret"):
        with refuses("not whole"):
            Party.from_bytes({**kept, name: kept[name][:-1]}, Rules())
    with refuses("not whole"):
        Party.from_bytes({**kept, "held": kept["held"] * 2}, Rules())
    parties[1].unmask({1, 2, 3, 4}, set())
    assert not any(parties[1].to_bytes()[name] for name in ("key-secret", "own-secret", "box-secret", "held"))


def test_the_server_loses_a_sum_with_a_wrong_share_rather_than_to_tell_a_wrong_one():
    for holder, owner in ((1, 1), (2, 4)):
        parties, keys = party_after("keys")
        summer = Summer(TAG, 3, shuffle=random.Random(0))
        groups = summer.take_keys(keys)
        mail = summer.take_shares(
            {name: party.shares(groups[name], summer.threshold) for name, party in parties.items()}
        )
        for name in (1, 2, 3):
            assert summer.add(name, parties[name].masked(mail[name], np.full(3, name, np.uint32)))
        assert not summer.add(1, np.zeros(3, np.uint32))
        assert not summer.add(4, np.zeros(2, np.uint32))
        asked = summer.to_unmask()
        told = {name: parties[name].unmask(*asked[name]) for name in asked}
        np.testing.assert_array_equal(summer.result(told), [6, 6, 6])
        right = told[holder][owner]
        told[holder][owner] = right[:-1] + bytes([right[-1] ^ 1])
        with pytest.raises(LostError):
            summer.result(told)
        del told[holder]
        with pytest.raises(LostError, match="2 shares of one client are there, 3 are needed"):
            summer.result(told)


@pytest.mark.parametrize("wrong", [{"least": 1}, {"least": 0}, {"majority": 0.4}, {"majority": 1.0}])
def test_rules_that_protect_nobody_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(wrong))} must be"):
        Rules(**wrong)


def test_rows_by_name_are_read_as_they_were_written():
    rows = {1: b"ab", 2**64 - 1: b"cd"}
    assert packing.to_rows(packing.rows(rows), 2) == rows
    with pytest.raises(ValueError, match="are no rows"):
        packing.to_rows(packing.rows(rows) + b"x", 2)
