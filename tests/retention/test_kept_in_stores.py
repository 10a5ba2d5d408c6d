"""What is kept and removed by age and on request, where archive and outbox lie in an object store."""

from dataclasses import replace

import pytest
from ledgers import refused
from retention_runs import house_in, orders, records

from loadsheet import reports
from loadsheet.errors import Superseded
from loadsheet.operations.retention.key_erasure import Request, erase_key, find, plan
from loadsheet.operations.retention.ledger_copies import check
from loadsheet.reconcile import RunNotes


def house_of(bucket, folder, *, reports=True):
    top = f"s3://{bucket.name}"
    return house_in(folder, inbox=f"{top}/inbox", outbox=f"{top}/outbox", reports=reports)


@pytest.fixture
def house(bucket, tmp_path):
    with house_of(bucket, tmp_path) as opened:
        yield opened


def original(house, bucket, drop, name):
    """Put the original of a drop where a run archives it."""
    key = f"outbox/archive/{drop.run[:10].replace('-', '/')}/{drop.run}/{name}"
    bucket.put(key, b"x")
    house.ledger.record_kept_as(drop.id, name, f"s3://{bucket.name}/{key}")
    return key


def missed(house):
    return [text for text in check(house.settings, house.ledger, house.clock.now).tasks if "original" in text]


def test_originals_in_a_store_go_after_their_days_but_not_those_that_are_needed_and_are_missed(bucket, tmp_path):
    with house_of(bucket, tmp_path, reports=False) as house:
        _, settled = house.night("settled.csv", orders(1), listed=records(1))
        _, open_one = house.night("open.csv", orders(2), answers=refused, listed=records(1))
        gone, kept = original(house, bucket, settled, "settled.csv"), original(house, bucket, open_one, "open.csv")
        house.keep(archive_days=10)
        assert {gone, kept} <= set(bucket.keys())
        house.days(11)
        house.keep(archive_days=10)
        assert house.said == []
        assert bucket.keys("outbox/archive/") == [kept]
        assert house.ledger.queries.drop(settled.id).files[0].kept_as == ""
        assert [one.kept_as for one in house.ledger.maintenance.originals()] == [f"s3://{bucket.name}/{kept}"]
        assert missed(house) == []
        bucket.remove(kept)
        (text,) = missed(house)
        assert f"is missing at s3://{bucket.name}/{kept}" in text


@pytest.mark.sweep
def test_old_reports_in_a_store_are_removed_unless_other_files_are_with_them(house, bucket):
    names = [house.night(f"{at}.csv", orders(at), listed=records(*range(1, at + 1)))[0].name for at in (1, 2, 3)]
    house.days(31)
    last, _ = house.night("last.csv", orders(4), listed=records(1, 2, 3, 4))
    bucket.put(f"outbox/{names[1]}/notes.txt", b"mine")
    bucket.put(f"outbox/{names[2]}/set-aside/junk.xyz", b"junk")
    house.keep(reports_days=30)
    assert house.said == []
    left = {key.split("/")[1] for key in bucket.keys("outbox/") if key.count("/") > 1}
    assert left == {names[1], names[2], last.name}
    index = bucket.get("outbox/index.html").decode()
    assert last.name in index
    assert names[0] not in index


@pytest.mark.sweep
@pytest.mark.parametrize("mine", [[], ["notes.txt"]])
def test_what_is_forgotten_goes_from_the_store(house, bucket, mine):
    run, drop = house.night("a.csv", orders(1), listed=records(1))
    kept = [f"outbox/{run.name}/{name}" for name in mine]
    for name in kept:
        bucket.put(name, b"mine")
    key = original(house, bucket, drop, "a.csv")
    found = find(house.settings, house.ledger, house.place / "ledger.db", "A-00001")
    wanted = Request(originals=True, reports=True, who="clerk", because="request 17")
    deed = plan(house.settings, found, wanted)
    assert f"s3://{bucket.name}/{key}: the original a.csv" in deed.goes
    assert f"s3://{bucket.name}/outbox/{run.name}: reports" in deed.goes
    said = [f"s3://{bucket.name}/{name}: not written by loadsheet: check it and remove it yourself" for name in kept]
    assert [text for text in deed.stays if run.name in text] == said
    erase_key(house.settings, house.ledger, house.ledger.begin_run(), found, wanted)
    assert bucket.keys() == [*kept, "outbox/index.html"]
    assert not (house.settings.outbox_here / run.name).exists()


@pytest.mark.sweep
def test_reports_that_another_process_writes_now_are_not_published(house, bucket):
    """Also where the other process takes over after they were written, before they are published."""
    run, _ = house.night("a.csv", orders(1), listed=records(1))
    published = {key: bucket.get(key) for key in bucket.keys("outbox/")}
    (ended,) = house.ledger.queries.runs_named(run.name)
    found = replace(house.told_again(run), notes=RunNotes(("changed",)))
    for checks in (0, 1):
        asked = []

        def allowed(asked=asked, checks=checks):
            asked.append(run)
            if len(asked) > checks:
                raise Superseded("another process has taken over")

        with pytest.raises(Superseded):
            reports.write(house.ledger.queries, found, ended, house.settings, check_still_held=allowed)
        assert {key: bucket.get(key) for key in bucket.keys("outbox/")} == published
