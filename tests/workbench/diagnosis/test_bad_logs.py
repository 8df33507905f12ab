"""What cannot be read is refused in one line that names the file, the place and the remedy."""

import gzip
import re
from pathlib import Path

import pytest

from turnout.workbench.diagnosis.reading.errors import LogError
from turnout.workbench.diagnosis.reading.log_file import read_log


def refusal(path, **options):
    with pytest.raises(LogError) as caught:
        read_log(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path)) or "clients" in options
    return message


ROUNDS, INTERVALS, STATES = "round,client", "client,start,end", "client,start,end,state"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["round,who", "0,a"], r'no column client among round, who; the nearest .* is round,client\. .*client="round"'),
        (["round,Was-soll das", "0,a"], r"no column client among"),
        (
            ["Phone,Start Time", "a,0"],
            r"no column end among Phone, Start Time; the nearest shape .* is client,start,end",
        ),
        (["INFO :      Starting Flower server", "x"], r"is what a server printed, .*record=\"runs/fleet\""),
        (["2026-01-01 10:00:00,123 - INFO - round 1", "x"], r"is what a server printed"),
        (["client,start", "a,0"], r"no column end among"),
        (["x,y", "0,a"], r"no column round, client among x, y"),
        (["timestamp,node_id,event", "0,a,fit"], r"no column round among"),
        ([ROUNDS, "0,a", "x,b"], r"line 3 \(client b\) has round = 'x'; must be a whole number from 0 on"),
        ([ROUNDS, "0,a", "-1,b"], r"line 3 \(client b\) has round = -1; must be"),
        ([ROUNDS, "0,a", "1.5,b"], r"line 3 \(client b\) has round = 1.5; must be"),
        ([ROUNDS, "0,a", ",b"], r"line 3 \(client b\) has round = nothing; must be"),
        ([ROUNDS, "0,a", "inf,b"], r"line 3 \(client b\) has round = inf; must be"),
        ([ROUNDS, "0,a", "1,"], r"line 3 has no client; every row needs one"),
        ([ROUNDS, "0,a", "1"], r"line 3 has no client"),
        ([ROUNDS, "0,a", "1,b,c"], r"line 3 has 3 fields, but the header has 2; put a text"),
        ([ROUNDS, "0,a", "1000000000000,b", "1,b"], r"line 3 \(client b\) has round = 1000000000000, so that the log"),
        ([ROUNDS, "0,a", '1,"b', "2,c"], r"line 3 opens a quotation mark that is never closed; close or remove it"),
        ([ROUNDS, "0,a", f"1,{'b' * 300}"], r"line 3 has a client of 300 letters; at most 256 are allowed: is a quo"),
        ([ROUNDS, ",", ","], r"no row says who took part"),
        ([ROUNDS], r"has a header but no rows"),
        (["", ROUNDS, "0,a"], r"line 1 is blank; the header must be the first line"),
        ([ROUNDS, "0,a", b"1,ren\xe9", "2,b"], r"line 3 is not UTF-8 \(byte 0xe9 at offset 22 of the file\); save"),
        ([b"round,cli\xe9nt", "0,a"], r"line 1 is not UTF-8 \(byte 0xe9 at offset 9"),
        (["round,client".encode("utf-16"), "0,a"], r"line 1 holds zero bytes; save the file as UTF-8"),
        (
            [ROUNDS + ",time", "0,a,10", "1,a,30", "2,a,20"],
            r"line 4 \(client a\) goes back in time: round 2 begins at 20",
        ),
        ([ROUNDS + ",time", "0,a,10", "1,a,soon"], r"line 3 \(client a\) has time = 'soon'; must be seconds or an ISO"),
        ([ROUNDS + ",time", "0,a,1700000000000"], r"line 2 .* must be seconds \(not milliseconds\) or ISO 8601"),
        ([ROUNDS + ",arrived", "0,a,2"], r"line 2 \(client a\) has arrived = 2; must be 0 or 1"),
        ([ROUNDS + ",arrived", "0,a,maybe"], r"line 2 \(client a\) has arrived = 'maybe'; must be 0 or 1"),
        ([ROUNDS + ",size", "0,a,-2"], r"line 2 \(client a\) has size = -2; must not be negative"),
        ([ROUNDS + ",loss", "0,a,1", "0,b,high"], r"line 3 \(client b\) has loss = 'high'; must be a number"),
        ([INTERVALS, "a,0,10", "b,9,8"], r"line 3 \(client b\) ends at 8 s, before its start 9 s; must be later"),
        ([INTERVALS, "a,0,", "b,9,8"], r"line 2 \(client a\) has no end; every row needs one"),
        ([INTERVALS, "a,0,10", ",9,18"], r"line 3 has no client"),
        ([INTERVALS, "a,0,noon"], r"line 2 \(client a\) has end = 'noon'; must be seconds or an ISO 8601 timestamp"),
        ([INTERVALS, "a,0,0"], r"no row lasts any time; ends must come after starts"),
        ([INTERVALS, "a,0,10", "a,0,99999999999"], r"slots of 600 s; at most 10,000,000 can be read: are they seconds"),
        ([INTERVALS, "a,0,200"], r"the log lasts 200 s, less than one slot of 600 s; take shorter slots"),
        ([INTERVALS, "a,0,200", "b,500,700"], r"no row covers the middle of a slot of 600 s; take shorter slots"),
        ([STATES, "a,0,10,1", "a,10,20,2"], r"line 3 \(client a\) has state = 2; must be 0 or 1"),
        ([STATES, "a,0,10,on"], r"line 2 \(client a\) has state = 'on'; must be 0 or 1"),
        (
            [STATES, "a,0,10,1", "b,0,10,0", "a,9,20,0"],
            r"line 4 \(client a\) says state 0 from 9 to 20 s, but line 2 says state 1 from 0 to 10 s; a client",
        ),
        (["round,cid,event", "0,a,fit", "0,,fit"], r"line 3 has an event of a client, but no client"),
        (["round,cid,event", "0,a,fit", "1,b,"], r"line 3 \(client b\) has no event; every row needs one"),
        (["round,cid,event", "0,a,dance"], r"no row says who took part"),
    ],
)
def test_bad_rows_are_named(file, lines, message):
    assert re.search(message, refusal(file(*lines)))


def test_files_that_are_none(file, tmp_path):
    assert refusal(tmp_path / "absent.csv").endswith(
        "there is no such file; give a CSV, .csv.gz, .jsonl, .jsonl.gz or Parquet file"
    )
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "empty.csv").touch()
    assert "is empty; there must be a header" in refusal(tmp_path / "empty.csv")
    assert "is not a whole Parquet file" in refusal(file("no parquet, only text", name="log.parquet"))


def test_a_cut_gzip_says_how_far_it_went(tmp_path):
    whole = gzip.compress("".join(["round,client\n", *(f"{t},c{t * 7919 % 1000}\n" for t in range(50_000))]).encode())
    for cut in (len(whole) // 2, len(whole) - 4):
        path = tmp_path / "log.csv.gz"
        path.write_bytes(whole[:cut])
        assert re.search(r"the gzip stream is cut off or damaged after line \d+ .* copy or write", refusal(path))
    path.write_bytes(whole[:100] + b"\0\0\0\0" + whole[104:])
    assert "cut off or damaged" in refusal(path)


def test_lines_that_are_no_json(file):
    good = '{"round": 1, "node_id": 4, "event": "fit"}'
    assert "line 3 is not a JSON object ([1, 2])" in refusal(file(good, "", "[1, 2]", name="log.jsonl"))
    many = [good] * 2000
    assert 'line 2001 is not a JSON object ({"round": 1, "n' in refusal(file(*many, good[:15], name="log.jsonl"))
    bad = b'{"round": 2, "node_id": "ren\xe9", "event": "fit"}'
    assert "line 2001 is not UTF-8 (byte 0xe9" in refusal(file(*many, bad, name="log.jsonl"))
    negative = good.replace("1", "-1")
    path = Path(file(good, "", "", negative, name="log.jsonl"))
    assert "line 4 (client 4) has round = -1" in refusal(path)
    packed = path.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert "line 4 (client 4) has round = -1" in refusal(packed)


def test_clients_that_are_not_listed(file):
    log = file(ROUNDS, "0,a", "1,b", "2,c")
    listed = file("client,size", "a,1", "c,2", name="clients.csv")
    assert refusal(log, clients=listed).endswith(f"line 3 (client b) is not among the 2 of {listed}")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["name,size", "a,1"], r"no column client; a list of clients has the columns client,size\[,target\]"),
        (["client,size", "a,1", "a,2"], r"line 3 \(client a\) is listed twice"),
        (["client,size", "a,1", "b,big"], r"line 3 \(client b\) has size = 'big'; must be a number from 0 on"),
        (["client,size,target", "a,1,1", "b,1,"], r"line 3 \(client b\) has target = nothing; must be"),
        (["client,target", "a,0"], r"every target is 0; at least one must be positive"),
    ],
)
def test_bad_lists_of_clients(file, lines, message):
    listed = file(*lines, name="clients.csv")
    found = refusal(file(ROUNDS, "0,a"), clients=listed)
    assert found.startswith(listed)
    assert re.search(message, found)


def test_bad_options(file):
    path = file(INTERVALS, "a,0,10")
    with pytest.raises(ValueError, match=r"slot_seconds = 0: must be a positive number of seconds"):
        read_log(path, slot_seconds=0)
    with pytest.raises(ValueError, match=r"num_rounds = 0: must be from 1 to 10,000,000"):
        read_log(path, num_rounds=0)
    assert "num_rounds = 3 is for logs by round" in refusal(path, num_rounds=3)


def test_more_rounds_than_can_be_read_are_refused_at_once(file):
    path = file("round,client", "0,a", "1,a")
    with pytest.raises(ValueError, match="num_rounds = 1000000000000: must be from 1 to 10,000,000"):
        read_log(path, num_rounds=10**12)


def test_deeply_nested_json_is_one_line(file):
    path = file('{"round": 0, "client": ' + "[" * 100_000 + "]" * 100_000 + "}", name="log.jsonl")
    assert "line 1 is not a JSON object" in refusal(path)
