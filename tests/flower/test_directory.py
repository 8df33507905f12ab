import logging

import pytest

from turnout.flower.fleet.directory import Directory, name_by_claim, name_by_key


def test_places_are_given_in_the_order_of_joining_and_kept():
    directory = Directory(["id:a", "id:b"])
    assert directory.join(["id:c", "id:a"]) == [2, 0]
    assert directory.names == ("id:a", "id:b", "id:c")
    assert directory.place("id:b") == 1
    assert len(directory) == 3
    assert "id:c" in directory


def test_a_place_that_a_client_has_left_goes_to_the_next_newcomer():
    directory = Directory(["id:a", "id:b", "id:c"])
    directory.recognise(7, declared="b")
    directory.note_answer("id:b", False)
    assert directory.leave(["id:b"]) == [1]
    assert (directory.by_place, directory.names, len(directory)) == (("id:a", None, "id:c"), ("id:a", "id:c"), 2)
    assert (directory.client_at(7), directory.node_of("id:b")) == (None, None)
    assert directory.join(["id:d", "id:e"]) == [1, 3]
    assert directory.by_place == ("id:a", "id:d", "id:c", "id:e")


def test_an_unknown_client_is_named():
    with pytest.raises(KeyError, match="no client 'id:x' in the fleet of 1"):
        Directory(["id:a"]).place("id:x")


def test_a_key_outlives_the_node_and_needs_no_warning(caplog):
    directory = Directory()
    name = directory.recognise(7, public_key=b"first")
    assert name == name_by_key(b"first")
    directory.keep_nodes([8])
    assert directory.client_at(7) is None
    assert directory.recognise(8, public_key=b"first", declared="somebody else") == name
    assert directory.node_of(name) == 8
    assert not caplog.records


def test_a_declared_name_outlives_the_node_and_warns_once(caplog):
    directory = Directory()
    with caplog.at_level(logging.WARNING):
        assert directory.recognise(1, declared="pump-3") == "id:pump-3"
        assert directory.recognise(2, declared=4) == "id:4"
    assert [record.message.split(":")[0] for record in caplog.records] == ["declared names are taken on trust"]


def test_a_node_that_says_nothing_is_a_client_of_its_own(caplog):
    directory = Directory()
    with caplog.at_level(logging.WARNING):
        assert directory.recognise(5) == "node:5"
    assert "new clients after each restart" in caplog.text


def test_a_name_in_use_cannot_be_claimed(caplog):
    directory = Directory()
    directory.recognise(1, declared="a")
    assert directory.recognise(2, declared="a") is None
    assert directory.client_at(2) is None
    assert "node 1 has that name and answers" in caplog.text
    directory.keep_nodes([2])
    assert directory.recognise(2, declared="a") == "id:a"


def test_a_client_that_was_killed_comes_back_while_its_old_node_is_listed():
    directory = Directory()
    directory.recognise(1, declared="a")
    directory.note_answer("id:a", answered=False)
    assert directory.recognise(2, declared="a") == "id:a"
    directory.keep_nodes([1, 2])
    assert directory.node_of("id:a") == 2
    assert directory.recognise(3, declared="a") is None


def test_nobody_can_declare_what_a_key_proves():
    name = name_by_key(b"secret")
    assert Directory().recognise(1, declared=name) == f"id:{name}" != name


@pytest.mark.parametrize("claim", ["", "  ", "a\nb", "x" * 201, b"bytes", 1.5, True, ["a"]])
def test_bad_names_are_refused(claim, caplog):
    assert name_by_claim(claim) is None
    assert Directory().recognise(3, declared=claim) is None
    assert "node 3 declares the name" in caplog.text
