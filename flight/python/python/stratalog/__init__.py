"""ChronoLog's API for Stratalog: chronicles of events that are acquired, recorded to, played back, replayed
and followed. Everything here waits; `stratalog.aio` is the same for asyncio.

    import stratalog

    with stratalog.connect("chronolog://127.0.0.1:50051") as log:
        log.create("events", retention="90d")
        with log.acquire("events") as events:
            receipt = events.record(b"something happened")
            for event in events.replay():
                print(event.time_ns, event.payload)

Times are nanoseconds since 1970, UTC, or aware `datetime`s. Errors are `stratalog.Error` and its subclasses.
Objects may be used by several threads at a time, but for replays and subscriptions.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Literal, Optional, Sequence, Union

from . import _native
from ._native import Closed, ClockSync, ConnectionFailed, Error, Event, Gap, Invalid, Receipt, Refused
from ._handles import Handle, Reader
from ._values import Collision, Durability, Range, Time, TimeSource, options_of, ranges_of, start_of, waits

__all__ = [
    "Chronicle", "Chronolog", "Closed", "ClockSync", "ConnectionFailed", "Error", "Event", "Gap", "Invalid",
    "Pending", "Range", "Receipt", "Refused", "Replay", "Subscription", "connect",
]


def connect(
    url: str,
    *,
    user: Optional[str] = None,
    password: Optional[str] = None,
    database: Optional[str] = None,
    application_name: Optional[str] = None,
    connect_seconds: Optional[float] = None,
    retry_seconds: Optional[float] = None,
) -> Chronolog:
    """Connects to `chronolog://[user[:password]@]host[:port][/database]`, logs in, and compares the clocks.

    `connect_seconds` is how long connecting may take (10), `retry_seconds` for how long what is safe to do again
    is tried again (30). Raises `Invalid` for what is no such URL, and `ConnectionFailed`.
    """
    return Chronolog(_native.connect(
        url, user=user, password=password, database=database, application_name=application_name,
        connect_seconds=connect_seconds, retry_seconds=retry_seconds,
    ).wait())


class Chronolog:
    """A connection to Stratalog. It reconnects by itself, and compares the clocks every ten seconds."""

    def __init__(self, native: _native.Chronolog) -> None:
        self._native = native

    def __enter__(self) -> Chronolog:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Ends the connection, and releases whatever was acquired over it. What was appended and not flushed may
        be stored or not."""
        self._native.disconnect().wait()

    def sync_clock(self) -> ClockSync:
        """Compares the clocks: the server's time (the *base*) and the drift rate. It is done by itself, too."""
        return self._native.sync_clock().wait()

    def time_ns(self) -> int:
        """The server's time, without asking it; each call tells a later one than the call before, unless that
        was more than a minute ahead, as this machine's clock had leapt."""
        told = self._native.time_ns()
        return told[0] if told else self.sync_clock().time_ns

    def create(
        self,
        name: str,
        index: str = "1ns",
        *,
        collision: Optional[Collision] = None,
        time_source: Optional[TimeSource] = None,
        **tags: str,
    ) -> None:
        """Creates a chronicle of raw events: a table with the columns `time` and `payload`.

        `index` is the unit of its ticks, from "1ns" to "1d". `collision` says what becomes of a second event with
        the same tick: "all" are kept, or the "last", the "first", or the "next" tick is taken. `tags` are options of
        CREATE TABLE: `retention="90d"`, `durability="relaxed"`, `acceptance_window="5s"`, `pin_for="1h"`.

        Raises `Refused`: 42P07 when there is one of the name, 22023 for tags that cannot be.
        """
        self._native.create(name, index, collision, time_source, options_of(tags)).wait()

    def edit(self, name: str, *, new_name: Optional[str] = None, index: Optional[str] = None, **tags: str) -> None:
        """Changes a chronicle: its tags, then its name.

        `index` makes the index coarser, to a whole multiple of what it is now: the system column `_group` counts in it
        from then on. Ticks, their order and collisions stay as they are.

        Raises `Refused`: 55P02 for a finer index, 22023 for one that is no multiple.
        """
        self._native.edit(name, new_name, index, options_of(tags)).wait()

    def destroy(self, name: str, how: Literal["sync", "async", "force"] = "sync") -> None:
        """Destroys a chronicle with all of its events.

        "sync": now, and `Refused` (55006) while somebody has acquired it; "async": as soon as the last has
        released it; "force": now, whoever has acquired it.
        """
        self._native.destroy(name, how).wait()

    def acquire(
        self,
        name: str,
        *,
        exclusive: bool = False,
        range: Optional[Range] = None,
        seconds: Optional[float] = None,
        lease: float = 30.0,
        wait: Union[bool, float] = True,
        new_ticks: int = 8,
        retry_collisions: bool = False,
        durability: Optional[Durability] = None,
    ) -> Chronicle:
        """Acquires a chronicle, or any other table: a handle with a session of its own.

        `exclusive`: nobody else writes; all may read. `range`: only a part, by time or tick. `seconds`: for so long
        and not longer; otherwise until it is released, and `lease` is how long others wait if this process dies.
        `wait`: False fails where others have it (55P03), a number after so many seconds.

        `new_ticks` is how often an event is given another tick when the server finds its own too old (SL001);
        `retry_collisions` has the same done for a tick that is taken (SL002).
        """
        waiting, wait_seconds = waits(wait)
        return Chronicle(self._native.acquire(
            name, exclusive=exclusive, range=range._native if range else None, time=seconds, lease=lease, wait=waiting,
            wait_seconds=wait_seconds, new_ticks=new_ticks, retry_collisions=retry_collisions, durability=durability,
        ).wait())

    def execute(self, sql: str) -> int:
        """Carries a statement of SQL out; how many rows it changed."""
        return self._native.execute(sql).wait()


class Chronicle(Handle):
    """The handle of an acquired chronicle. When the server begins anew it acquires again, and nothing that it
    records is lost or stored twice."""

    def __enter__(self) -> Chronicle:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def record(self, payload: bytes) -> Receipt:
        """Records an event, and returns when it is stored, as durable as was asked for.

        Raises `Refused`: SL001 outside of the acceptance window, SL002 for a tick that is taken, 44000 outside of
        what was acquired.
        """
        return self._native.record(payload).wait()

    def record_batch(self, payloads: Iterable[bytes]) -> list[Receipt]:
        """Records events, each with a tick of its own, in this order: all of them or none, up to 65,536 events and
        4 MiB; more are stored in parts."""
        return self._native.record_batch(list(payloads)).wait()

    def append(self, payload: bytes) -> Pending:
        """Records an event, and returns once there is room for it in memory: pipelined."""
        return Pending(self._native.append(payload).wait())

    def flush(self) -> int:
        """Waits until all events that were appended are stored: how many were since the last time.

        Raises `Refused` for events that were refused and that nobody waited for.
        """
        return self._native.flush().wait()

    def playback(self, count: int = 1) -> list[Event]:
        """The newest events, the newest first: nothing that is dated later than the call."""
        return self._native.playback(count).wait()

    def replay(self, ranges: Union[Range, Sequence[Range], None] = None, constraint: Optional[str] = None) -> Replay:
        """The events of any of the ranges, in the order of ticks, each once; all events without ranges.

        `constraint` is a condition of SQL on `time`, `payload`, `_tick`, `_group` and `_gsn`: `"length(payload) > 100"`.
        """
        return Replay(self._native.replay(ranges_of(ranges), constraint).wait())

    def read_record(self, gsn: int) -> Optional[Event]:
        """The event at a position, whose commit is waited for; None when it is another table's."""
        return self._native.read_record(gsn).wait()

    def subscribe(
        self,
        *,
        gsn: Optional[int] = None,
        time: Optional[Time] = None,
        live: bool = False,
        constraint: Optional[str] = None,
    ) -> Subscription:
        """Events in the order of commits, the same for every subscriber: first what there is, then what comes.

        It begins with the first event that there is, with the position `gsn`, with the first commit that has an
        event of `time` or later, or with what comes from now on, if `live`. When the connection breaks it goes on
        where it was.
        """
        return Subscription(self._native.subscribe(*start_of(gsn, time, live), constraint).wait())

    def release(self) -> None:
        """Releases the chronicle, once what was appended is stored. The handle is of no use any more."""
        self._native.release().wait()

    def release_in(self, seconds: float) -> None:
        """Releases the chronicle by itself when so much time has passed; until then the handle can be used."""
        self._native.release_in(seconds).wait()

    def execute(self, sql: str) -> int:
        """Carries a statement of SQL out, in the session of this handle; how many rows it changed."""
        return self._native.execute(sql).wait()


class Pending:
    """An event that is on its way. Only who waits for it has it recorded with another tick when its own is
    refused."""

    def __init__(self, native: _native.Call[Receipt]) -> None:
        self._native = native

    def result(self) -> Receipt:
        """Waits until it is stored; once."""
        return self._native.wait()


class Replay(Reader[Event]):
    """The events of a replay, read from the server as they are asked for."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._waiting and not self._native.more(None).wait():
            raise StopIteration
        return self._taken()


class Subscription(Reader[Union[Event, Gap]]):
    """Events as they are committed, and gaps where some are missing, for ever."""

    def __iter__(self) -> Iterator[Union[Event, Gap]]:
        return self

    def __next__(self) -> Union[Event, Gap]:
        update = self.next()
        if update is None:
            raise StopIteration
        return update

    def next(self, seconds: Optional[float] = None) -> Union[Event, Gap, None]:
        """The next one; None when none has come within so many seconds."""
        if not self._waiting and not self._native.more(seconds).wait():
            return None
        return self._taken()
