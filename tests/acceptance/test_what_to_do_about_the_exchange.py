"""What a run says of an exchange that refuses, asks for a pause, speaks no TLS or is at another path, and what to do about it."""

import re

import pytest
from fault_rules import FaultClass
from faulty_exchange import misbehaving


@pytest.fixture
def house(workspace):
    workspace.write_orders(2, first=1)
    return workspace


def test_a_refused_token_a_wrong_path_and_a_missing_tls_are_told_with_what_to_do(house, tmp_path):
    with misbehaving(tmp_path) as served:
        url = served.exchange.url
        refused = house.run("--exchange", url, LOADSHEET_TOKEN="another-token-than-theirs")
        astray = house.run("--exchange", f"{url}/tmsapi/")
        doctor = house.command("doctor", "--exchange", f"{url}/tmsapi/")
        clear = house.run("--exchange", url.replace("http:", "https:"), LOADSHEET_DISPATCH__UNREACHABLE_MAX="1")
    assert refused.returncode == 77
    assert "replace the token (from LOADSHEET_TOKEN or the settings file), then run again" in refused.stderr
    assert astray.returncode == 75
    assert f"check `exchange` ({url}/tmsapi/), to which calls add /tmsapi/" in astray.stderr
    assert "check `exchange`, to which calls add /tmsapi/" in doctor.stdout
    assert (clear.returncode, "(is it http://?)" in clear.stderr) == (75, True)


def test_a_long_pause_that_the_exchange_asks_for_is_told_once(house, tmp_path):
    busy = {"fault": FaultClass("status_before_effect"), "status": 429, "retry_after": "3600"}
    with misbehaving(tmp_path, {**busy, "operation": "order.create"}) as served:
        done = house.run("--exchange", served.exchange.url, LOADSHEET_DISPATCH__UNREACHABLE_MAX="1")
    assert done.returncode == 75
    assert len(re.findall(r"^the exchange asks for a pause until \d\d:\d\d$", done.stderr, re.MULTILINE)) == 1


TECHNICAL = re.compile(r"\w+(?:Error|Exception)\b|Errno|urllib3")


def test_who_reads_of_a_lost_answer_reads_plain_words_and_only_the_log_the_name_of_the_exception(house, tmp_path):
    lost = {"fault": FaultClass("closed_before_effect"), "operation": "order.create"}
    with misbehaving(tmp_path, lost) as served:
        done = house.run("--exchange", served.exchange.url)
    nobody = house.run("--exchange", served.exchange.url)  # which is gone now
    shown = house.command("resolve")
    words = "the exchange closed the connection without an answer"
    folder = house.reports()[0]
    results = (folder / "orders.csv.results.csv").read_text(encoding="utf-8")
    assert (words in results, words in shown.stdout) == (True, True), (results, shown.stdout)
    assert "connection refused" in nobody.stderr
    read = [path for path in house.outbox.rglob("*") if path.suffix in (".csv", ".html", ".json")]
    said = [text for one in (done, nobody, shown) for text in (one.stdout, one.stderr)]
    for text in [*said, *(path.read_text(encoding="utf-8-sig") for path in read)]:
        assert not TECHNICAL.search(text), TECHNICAL.search(text)
    log = "".join(path.read_text(encoding="utf-8") for path in (house.state / "logs").iterdir())
    assert "ProtocolError: " in log
    assert "NewConnectionError: [Errno " in log
