"""The Python package `stratalog`: ChronoLog's own API, blocking and with asyncio, against the program."""

import asyncio
import datetime
import itertools
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

import stratalog
import stratalog.aio
from servers import Stratalog

pytestmark = pytest.mark.ours

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "flight" / "python" / "python" / "stratalog"


def url(server):
    return f"chronolog://127.0.0.1:{server.flight_port}"


@pytest.fixture
def log(server):
    with stratalog.connect(url(server), application_name="native") as opened:
        yield opened


@pytest.fixture
def events(log, table):
    log.create(table)
    with log.acquire(table) as acquired:
        yield acquired


def texts(found):
    return [event.payload.decode() for event in found]


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_f1_f2_f3_connect_sync_clock_disconnect(server, connection, table):
    sessions = "SELECT count(*) FROM stratalog.sessions WHERE application_name = 'passing'"
    log = stratalog.connect(url(server), application_name="passing")
    clock = log.sync_clock()
    assert abs(clock.drift - 1) < 0.01 and clock.error_ns < 10**9 and clock.round_trip_ns > 0
    told = [log.time_ns() for _ in range(100)]
    assert told == sorted(set(told)) and told[0] > clock.time_ns
    log.create(table)
    events = log.acquire(table)
    assert connection.execute(sessions).fetchone()[0] >= 2
    log.disconnect()
    eventually(lambda: connection.execute(sessions).fetchone() == (0,))
    with pytest.raises(stratalog.Closed):
        events.playback()
    with pytest.raises(stratalog.Invalid, match="scheme"):
        stratalog.connect("gopher://127.0.0.1")
    with pytest.raises(stratalog.ConnectionFailed) as refused:
        stratalog.connect("chronolog://127.0.0.1:1", retry_seconds=0.1)
    assert refused.value.retryable and refused.value.sqlstate is None and refused.value.hint


def test_f4_f5_f6_f7_create_edit_destroy(log, connection, table):
    log.create(table, index="1us", collision="first", retention="90d")
    sql = "SELECT granularity, collision, time_source, durability FROM stratalog.chronicles WHERE name = %s"
    assert connection.execute(sql, (table,)).fetchone() == ("1us", "first", "client", "disk")
    with pytest.raises(stratalog.Refused) as refused:
        log.create(table)
    assert refused.value.sqlstate == "42P07" and not refused.value.retryable
    with pytest.raises(stratalog.Invalid):
        log.create(table + "_", index="a day")
    with pytest.raises(stratalog.Invalid) as refused:
        log.create(table + "_", collision="some")
    assert refused.value.sqlstate is None and refused.value.hint is None and not refused.value.retryable
    log.edit(table, new_name=table + "_old", durability="relaxed")
    assert connection.execute(sql, (table + "_old",)).fetchone()[3] == "relaxed"
    log.edit(table + "_old", index="1s")
    for index, sqlstate in (("1ms", "55P02"), ("1500ms", "22023")):
        with pytest.raises(stratalog.Refused) as refused:
            log.edit(table + "_old", index=index)
        assert refused.value.sqlstate == sqlstate
    assert connection.execute(sql, (table + "_old",)).fetchone()[0] == "1s"
    with log.acquire(table + "_old") as events:
        assert (events.name, events.index) == (table + "_old", "1us")
        with pytest.raises(stratalog.Refused) as refused:
            log.destroy(table + "_old")
        assert refused.value.sqlstate == "55006"
    log.destroy(table + "_old")
    assert connection.execute(sql, (table + "_old",)).fetchone() is None
    with pytest.raises(stratalog.Invalid):
        log.destroy(table, "slowly")


def test_f8_f9_f10_f11_acquire_and_release(log, server, table):
    log.create(table)
    with log.acquire(table, exclusive=True) as alone:
        alone.record(b"mine")
        for wait in (False, 0.05):
            with pytest.raises(stratalog.Refused) as refused:
                log.acquire(table, wait=wait)
            assert refused.value.sqlstate == "55P03"
    with log.acquire(table) as everything:
        receipts = everything.record_batch(b"%d" % n for n in range(10))
        part = stratalog.Range.ticks(receipts[3].tick, receipts[6].tick)
        with log.acquire(table, range=part) as few:
            assert texts(few.replay()) == ["3", "4", "5"]
            with pytest.raises(stratalog.Refused) as refused:
                few.record(b"outside")
            assert refused.value.sqlstate == "44000"
        since = datetime.datetime.fromtimestamp(receipts[9].time_ns // 10**9, datetime.timezone.utc)
        with log.acquire(table, range=stratalog.Range.times(since)) as newer:
            assert texts(newer.replay())[-1] == "9"
        with pytest.raises(stratalog.Invalid):
            stratalog.Range.times(since.replace(tzinfo=None))
    timed = log.acquire(table, exclusive=True, seconds=0.3)
    began = time.monotonic()
    log.acquire(table, exclusive=True).release()
    assert time.monotonic() - began > 0.1
    with pytest.raises(stratalog.Closed):
        timed.playback()


def test_f14_record_one_many_pipelined(events, connection):
    receipts = [events.record(b"0")]
    receipts += events.record_batch(b"%d" % n for n in range(1, 5))
    pending = [events.append(b"%d" % n) for n in range(5, 100)]
    receipts += [one.result() for one in pending]
    assert all(receipt.durability == "disk" for receipt in receipts)
    ticks = [receipt.tick for receipt in receipts]
    assert ticks == sorted(set(ticks))
    gsns = [receipt.gsn for receipt in receipts]
    assert gsns == list(range(gsns[0], gsns[0] + 100))
    event = events.read_record(gsns[42])
    assert (event.payload, event.gsn, event.tick) == (b"42", gsns[42], ticks[42])
    assert event.time_ns == events.base_ns + event.tick
    assert events.flush() == 100
    # For other clients a chronicle is an ordinary table.
    sql = f"SELECT count(*), max(_tick) FROM {events.name}"
    assert connection.execute(sql).fetchone() == (100, ticks[-1])
    assert "payload=b'42'" in repr(event) and f"tick={ticks[0]}" in repr(receipts[0])
    with pytest.raises(TypeError):
        events.record("text")
    with pytest.raises(RuntimeError):
        pending[0].result()


def test_f17_f18_playback_and_replay(events):
    assert events.playback() == [] and list(events.replay()) == []
    receipts = events.record_batch(b"event %d" % n for n in range(10))
    assert texts(events.playback(2)) == ["event 9", "event 8"]
    ranges = [
        stratalog.Range.ticks(receipts[1].tick, receipts[3].tick),
        stratalog.Range.times(receipts[2].time_ns, receipts[2].time_ns + 1),
        stratalog.Range.gsns(receipts[8].gsn),
    ]
    assert texts(events.replay(ranges)) == ["event 1", "event 2", "event 8", "event 9"]
    assert texts(events.replay(ranges[0], "convert_from(payload, 'UTF8') = 'event 2'")) == ["event 2"]
    assert list(events.replay([])) == []
    with pytest.raises(stratalog.Refused) as refused:
        events.replay(constraint="nothing > 5")
    assert refused.value.sqlstate == "42703"


def test_f25_collisions(log, table):
    log.create(table, "1h", collision="first", acceptance_window="60s")
    with log.acquire(table) as events:
        first = events.record(b"first")
        try:
            events.record(b"second")
        except stratalog.Refused as refused:
            assert refused.sqlstate == "SL002" and refused.needs_new_time
        else:
            assert log.time_ns() // (3600 * 10**9) > first.time_ns // (3600 * 10**9), "another hour"


def test_f104_subscribe(log, events):
    receipts = events.record_batch([b"a", b"b"])
    all_of_it = events.subscribe()
    behind = events.subscribe(gsn=receipts[1].gsn, constraint="length(payload) < 5")
    live = events.subscribe(live=True)
    assert live.next(0.1) is None
    with pytest.raises(stratalog.Invalid, match="exclude each other"):
        events.subscribe(gsn=1, live=True)
    events.record(b"long enough")
    events.record(b"c")
    assert texts(itertools.islice(all_of_it, 4)) == ["a", "b", "long enough", "c"]
    assert texts(itertools.islice(behind, 2)) == ["b", "c"]
    assert texts(itertools.islice(live, 2)) == ["long enough", "c"]
    # A waiting thread does not block other threads.
    timer = threading.Timer(0.2, events.record, (b"later",))
    timer.start()
    assert live.next(20).payload == b"later"
    timer.join()
    log.execute(f"TRIM {events.name} BEFORE GSN {receipts[1].gsn}")
    gap, event = itertools.islice(events.subscribe(gsn=receipts[0].gsn), 2)
    assert isinstance(gap, stratalog.Gap) and "deleted" in gap.what and gap.gsn == receipts[0].gsn
    assert event.payload == b"b"


def test_ctrl_c_ends_a_wait(server, table):
    program = f"""
import os, signal, threading, stratalog
log = stratalog.connect({url(server)!r})
log.create({table!r})
subscription = log.acquire({table!r}).subscribe(live=True)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    next(subscription)
except KeyboardInterrupt:
    print("interrupted")
log.disconnect()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_asyncio(server, table):
    async def main():
        async with await stratalog.aio.connect(url(server)) as log:
            assert (await log.sync_clock()).time_ns < await log.time_ns()
            await log.create(table, retention="9d")
            with pytest.raises(stratalog.Refused):
                await log.create(table)
            async with await log.acquire(table) as events:
                live = await events.subscribe(live=True)
                await events.record(b"0")
                await events.record_batch([b"1", b"2"])
                pending = [await events.append(b"%d" % n) for n in range(3, 50)]
                receipts = await asyncio.gather(*pending)
                assert len({receipt.gsn for receipt in receipts}) == 47
                assert await events.flush() == 50
                assert texts(await events.playback(1)) == ["49"]
                assert texts([event async for event in await events.replay()]) == [str(n) for n in range(50)]
                assert (await events.read_record(receipts[0].gsn)).payload == b"3"
                seen = []
                # Cancelled waits lose no event.
                while len(seen) < 50:
                    try:
                        seen.append(await asyncio.wait_for(live.next(), 0.0005))
                    except asyncio.TimeoutError:
                        continue
                assert texts(seen) == [str(n) for n in range(50)]
                # Other tasks continue during a wait.
                waiting = asyncio.ensure_future(live.next())
                await events.record(b"last")
                assert (await waiting).payload == b"last"
                assert await live.next(0.05) is None
                await events.release_in(30)
            await log.edit(table, new_name=table + "_old")
            await log.destroy(table + "_old")
            assert await log.execute("CREATE TABLE IF NOT EXISTS native_asyncio (time timestamptz)") == 0

    asyncio.run(main())


def each_once(found, expected):
    assert len(found) == expected
    assert len(set(found)) == expected


def test_killed_amid_pipelined_records_and_a_subscription(directory):
    with Stratalog(directory) as server:
        log = stratalog.connect(url(server), retry_seconds=240)
        log.create("events")
        events = log.acquire("events")
        seen, failed = [], []

        def follow():
            try:
                for update in events.subscribe():
                    seen.append((update.gsn, update.payload))
                    if update.payload == b"last":
                        return
            except Exception as error:
                failed.append(error)

        following = threading.Thread(target=follow)
        following.start()
        stop = threading.Event()
        receipts = []

        def record():
            number = 0
            try:
                while not stop.is_set():
                    pending = [events.append(b"event %d" % n) for n in range(number, number + 50)]
                    number += 50
                    receipts.extend(one.result() for one in pending)
            except Exception as error:
                failed.append(error)

        recording = threading.Thread(target=record)
        recording.start()
        for _ in range(4):
            time.sleep(0.3)
            server.kill()
            time.sleep(0.1)
            server.start()
        stop.set()
        recording.join(120)
        events.record(b"last")
        following.join(120)
        assert not failed and not recording.is_alive() and not following.is_alive(), failed
        total = len(receipts) + 1
        each_once([payload for _, payload in seen], total)
        gsns = [gsn for gsn, _ in seen]
        assert gsns == sorted(gsns)
        each_once(texts(events.replay()), total)
        known = [receipt.gsn for receipt in receipts if receipt.gsn is not None]
        assert set(known) <= set(gsns)
        each_once(known, len(known))
        assert events.lapses >= 1
        log.disconnect()


def test_killed_amid_asyncio(directory):
    async def main(server):
        log = await stratalog.aio.connect(url(server), retry_seconds=240)
        await log.create("events")
        events = await log.acquire("events")

        async def follow():
            seen = []
            async for update in await events.subscribe():
                seen.append(update.payload)
                if update.payload == b"last":
                    return seen

        following = asyncio.ensure_future(follow())
        count = 0
        for _ in range(3):
            pending = [await events.append(b"event %d" % n) for n in range(count, count + 200)]
            count += 200
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await asyncio.gather(*pending)
        await events.record(b"last")
        each_once(await asyncio.wait_for(following, 120), count + 1)
        each_once([event.payload async for event in await events.replay()], count + 1)
        await log.disconnect()

    with Stratalog(directory) as server:
        asyncio.run(main(server))


def test_the_package_is_typed():
    """All declared methods exist, and both interfaces match."""
    assert (pathlib.Path(stratalog.__file__).parent / "py.typed").exists()
    assert os.path.exists(pathlib.Path(stratalog.__file__).parent / "_native.pyi")
    for name in stratalog.__all__:
        blocking, awaited = getattr(stratalog, name), getattr(stratalog.aio, name)
        assert blocking.__doc__ and awaited.__doc__, name
        if not isinstance(blocking, type) or blocking is awaited:
            continue
        public = {method for method in vars(blocking) if not method.startswith("_")}
        assert public - {"result"} == {method for method in vars(awaited) if not method.startswith("_")}, name
        for method in public:
            assert getattr(blocking, method).__doc__, f"{name}.{method}"
    stub = (SOURCES / "_native.pyi").read_text()
    for name in ("Call", "Chronicle", "Chronolog", "ClockSync", "Event", "Feed", "Gap", "Range", "Receipt"):
        native = getattr(stratalog._native, name)
        for attribute in vars(native):
            if not attribute.startswith("_"):
                assert f"def {attribute}(" in stub or f"    {attribute}:" in stub, f"{name}.{attribute}"
