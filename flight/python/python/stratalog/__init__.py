"""ChronoLog's API for Stratalog: acquire chronicles of events, record to them, play them back, replay and
follow them. All calls block; `stratalog.aio` is the same API for asyncio.

    import stratalog

    with stratalog.connect("chronolog://127.0.0.1:50051") as log:
        log.create("events", retention="90d")
        with log.acquire("events") as events:
            receipt = events.record(b"something happened")
            for event in events.replay():
                print(event.time_ns, event.payload)

Times are nanoseconds since 1970, UTC, or aware `datetime`s. Errors are `stratalog.Error` and its subclasses.
Objects may be used by several threads concurrently, except replays and subscriptions.
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

    `connect_seconds` is the timeout of connecting (default 10). `retry_seconds` is the time for repeating safe
    requests after a failure (default 30). Raises `Invalid` for an invalid URL, and `ConnectionFailed`.
    """
    return Chronolog(_native.connect(
        url, user=user, password=password, database=database, application_name=application_name,
        connect_seconds=connect_seconds, retry_seconds=retry_seconds,
    ).wait())


class Chronolog:
    """A connection to Stratalog. It reconnects automatically, and compares the clocks every ten seconds."""

    def __init__(self, native: _native.Chronolog) -> None:
        self._native = native

    def __enter__(self) -> Chronolog:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Ends the connection, and releases all its acquisitions. Appended events without a flush may or may not
        be stored."""
        self._native.disconnect().wait()

    def sync_clock(self) -> ClockSync:
        """Compares the clocks: the server's time (the *base*) and the drift rate. Also runs automatically."""
        return self._native.sync_clock().wait()

    def time_ns(self) -> int:
        """The server's time, without a round trip. Each call returns a later time than the call before, except
        after this machine's clock has jumped more than a minute ahead."""
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

        `index` is the unit of its ticks, from "1ns" to "1d". `collision` is the rule for a second event with
        the same tick: keep "all", the "last" or the "first", or use the "next" free tick. `tags` are options of
        CREATE TABLE: `retention="90d"`, `durability="relaxed"`, `acceptance_window="5s"`, `pin_for="1h"`.

        Raises `Refused`: 42P07 if a table of this name exists, 22023 for invalid tags.
        """
        self._native.create(name, index, collision, time_source, options_of(tags)).wait()

    def edit(self, name: str, *, new_name: Optional[str] = None, index: Optional[str] = None, **tags: str) -> None:
        """Changes a chronicle: its tags, then its name.

        `index` makes the index coarser, to a whole multiple of the present index: from then on the system column
        `_group` counts in the new unit. Ticks, their order and collisions stay unchanged.

        Raises `Refused`: 55P02 for a finer index, 22023 for an index that is not a multiple.
        """
        self._native.edit(name, new_name, index, options_of(tags)).wait()

    def destroy(self, name: str, how: Literal["sync", "async", "force"] = "sync") -> None:
        """Destroys a chronicle with all of its events.

        "sync": now, with `Refused` (55006) while a session holds the chronicle; "async": after the last release;
        "force": now, even if sessions hold the chronicle.
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
        """Acquires a chronicle, or any other table, and returns a handle with its own session.

        `exclusive`: no other session may write; all may read. `range`: only a range of times or ticks. `seconds`: hold
        the chronicle only for this time; by default until the release. `lease`: if this process dies, others wait
        for this time. `wait`: False fails immediately if others hold the chronicle (55P03), a number fails after
        this many seconds.

        `new_ticks` is the maximal number of new ticks for an event whose tick the server refuses as too old or too
        far ahead (SL001); `retry_collisions` also assigns new ticks if the tick belongs to another event (SL002).
        """
        waiting, wait_seconds = waits(wait)
        return Chronicle(self._native.acquire(
            name, exclusive=exclusive, range=range._native if range else None, time=seconds, lease=lease, wait=waiting,
            wait_seconds=wait_seconds, new_ticks=new_ticks, retry_collisions=retry_collisions, durability=durability,
        ).wait())

    def execute(self, sql: str) -> int:
        """Runs an SQL statement and returns the number of changed rows."""
        return self._native.execute(sql).wait()


class Chronicle(Handle):
    """The handle of an acquired chronicle. After a server restart the handle acquires again; no recorded event is
    lost or stored twice."""

    def __enter__(self) -> Chronicle:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def record(self, payload: bytes) -> Receipt:
        """Records an event, and returns when it is stored with the requested durability.

        Raises `Refused`: SL001 outside of the acceptance window, SL002 for a tick of another event, 44000 outside of
        the acquired range.
        """
        return self._native.record(payload).wait()

    def record_batch(self, payloads: Iterable[bytes]) -> list[Receipt]:
        """Records events in this order, each with its own tick. Up to 65,536 events and 4 MiB are stored atomically;
        a larger batch is stored in parts."""
        return self._native.record_batch(list(payloads)).wait()

    def append(self, payload: bytes) -> Pending:
        """Records an event in a pipeline: returns as soon as the buffer has room for the event."""
        return Pending(self._native.append(payload).wait())

    def flush(self) -> int:
        """Waits until all appended events are stored, and returns their number since the last flush.

        Raises `Refused` for refused events without a waiting caller.
        """
        return self._native.flush().wait()

    def playback(self, count: int = 1) -> list[Event]:
        """The newest events, newest first. Events dated later than the call are omitted."""
        return self._native.playback(count).wait()

    def replay(self, ranges: Union[Range, Sequence[Range], None] = None, constraint: Optional[str] = None) -> Replay:
        """The events of all ranges, in the order of ticks, each event once; without ranges, all events.

        `constraint` is an SQL condition on `time`, `payload`, `_tick`, `_group` and `_gsn`: `"length(payload) > 100"`.
        """
        return Replay(self._native.replay(ranges_of(ranges), constraint).wait())

    def read_record(self, gsn: int) -> Optional[Event]:
        """The event at a position; waits for its commit. None if the event belongs to another table."""
        return self._native.read_record(gsn).wait()

    def subscribe(
        self,
        *,
        gsn: Optional[int] = None,
        time: Optional[Time] = None,
        live: bool = False,
        constraint: Optional[str] = None,
    ) -> Subscription:
        """Events in the order of commits, which is the same for every subscriber: first the history, then new events.

        The subscription begins with the first event, with the position `gsn`, with the first commit that has an
        event of `time` or later, or only with new events if `live`. After a broken connection the subscription
        continues at its position.
        """
        return Subscription(self._native.subscribe(*start_of(gsn, time, live), constraint).wait())

    def release(self) -> None:
        """Releases the chronicle after storing all appended events. The handle becomes unusable."""
        self._native.release().wait()

    def release_in(self, seconds: float) -> None:
        """Schedules the release after this time; until then the handle stays usable."""
        self._native.release_in(seconds).wait()

    def execute(self, sql: str) -> int:
        """Runs an SQL statement in the session of this handle; returns the number of changed rows."""
        return self._native.execute(sql).wait()


class Pending:
    """An event on its way. An event only gets a new tick after a refusal if a caller waits for its result."""

    def __init__(self, native: _native.Call[Receipt]) -> None:
        self._native = native

    def result(self) -> Receipt:
        """Waits until the event is stored. Call only once."""
        return self._native.wait()


class Replay(Reader[Event]):
    """The events of a replay, read from the server on demand."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if not self._waiting and not self._native.more(None).wait():
            raise StopIteration
        return self._taken()


class Subscription(Reader[Union[Event, Gap]]):
    """Events as they are committed, and gaps for missing events, without end."""

    def __iter__(self) -> Iterator[Union[Event, Gap]]:
        return self

    def __next__(self) -> Union[Event, Gap]:
        update = self.next()
        if update is None:
            raise StopIteration
        return update

    def next(self, seconds: Optional[float] = None) -> Union[Event, Gap, None]:
        """The next event or gap; None if neither arrives within `seconds`."""
        if not self._waiting and not self._native.more(seconds).wait():
            return None
        return self._taken()
